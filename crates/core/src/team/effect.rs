//! The pending effects of a team. Like the effects of a session, they depend only on the current state.

use super::state::{PendingCheck, Team};
use crate::aggregate::EffectKey;

/// An effect outside the ledger. The result of the effect returns to the team as a command.
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
