//! The pending effects of a team. Level-triggered, like those of a session.

use super::state::{PendingCheck, Team};
use crate::session::EffectKey;

/// An effect on the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamEffect {
    RunCheck(PendingCheck),
}

impl TeamEffect {
    pub fn key(&self) -> EffectKey {
        match self {
            TeamEffect::RunCheck(check) => format!("check-{}", check.no),
        }
    }
}

impl Team {
    /// Returns all pending effects.
    pub fn effects(&self) -> Vec<TeamEffect> {
        self.checks.iter().cloned().map(TeamEffect::RunCheck).collect()
    }
}
