//! The pending effects of a team. Level-triggered, like those of a session.

use super::state::{CheckOwed, Task};
use crate::session::EffectKey;

/// An effect on the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    RunCheck(CheckOwed),
}

impl Effect {
    pub fn key(&self) -> EffectKey {
        match self {
            Effect::RunCheck(check) => format!("check-{}", check.no),
        }
    }
}

impl Task {
    /// Returns all pending effects.
    pub fn effects(&self) -> Vec<Effect> {
        self.checks.iter().cloned().map(Effect::RunCheck).collect()
    }
}
