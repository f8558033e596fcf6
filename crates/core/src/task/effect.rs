//! What a task owes to the outside world itself. Level-triggered, as a session's effects are.

use super::state::{CheckOwed, Task};
use crate::session::EffectKey;

/// Something to be done to the outside world. Its result comes back as a command.
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
    /// Gives all that is owed now.
    pub fn effects(&self) -> Vec<Effect> {
        self.checks.iter().cloned().map(Effect::RunCheck).collect()
    }
}
