//! Conditions a caller can wait for, evaluated on the current state of the team.

use serde::{Deserialize, Serialize};

use super::{
    finish::Blocker,
    state::{Phase, Task},
};
use crate::{verdict::Receipt, wait::WaitStatus};

/// A future result of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The check with this number.
    Check(u32),
    /// The audit with this number, and the finish that requested it.
    Audit(u32),
}

/// The result of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum WaitResult {
    Checked {
        receipt: Box<Receipt>,
    },
    /// The team is done.
    Finished,
    /// The finish was refused, for these reasons.
    Refused {
        blockers: Vec<Blocker>,
    },
}

impl Task {
    /// Evaluates a wait: whether the result is there, is still pending, or has become impossible.
    pub fn wait_status(&self, awaited: Awaited) -> WaitStatus<WaitResult> {
        match awaited {
            Awaited::Check(no) => self.status_of_check(no),
            Awaited::Audit(no) => self.status_of_audit(no),
        }
    }

    fn status_of_check(&self, no: u32) -> WaitStatus<WaitResult> {
        if let Some(result) = self.results.iter().rev().find(|result| result.no == no) {
            let receipt = Box::new(result.receipt.clone());
            return WaitStatus::Done(WaitResult::Checked { receipt });
        }
        if self.checks.iter().any(|owed| owed.no == no) {
            return WaitStatus::Pending;
        }
        if let Some(over) = self.over() {
            return over;
        }
        WaitStatus::Impossible(if no <= self.checks_owed {
            format!("the result of check {no} is no longer kept")
        } else {
            format!("check {no} was never requested")
        })
    }

    fn status_of_audit(&self, no: u32) -> WaitStatus<WaitResult> {
        if matches!(self.phase, Phase::Done { .. }) {
            return WaitStatus::Done(WaitResult::Finished);
        }
        if let Some(over) = self.over() {
            return over;
        }
        match &self.audit {
            Some(audit) if audit.no <= no => WaitStatus::Pending,
            // A passed audit is the last one, so all audits before the newest were refused.
            Some(_) | None if no <= self.audits => {
                WaitStatus::Done(WaitResult::Refused { blockers: self.blockers.clone() })
            }
            Some(_) | None => WaitStatus::Impossible(format!("audit {no} was never requested")),
        }
    }

    fn over(&self) -> Option<WaitStatus<WaitResult>> {
        match &self.phase {
            Phase::Open | Phase::Active | Phase::Paused { .. } => None,
            // Injected bug: the team has ended, but the waiting caller gets no response.
            _ if bug!(EndNotNoticed) => Some(WaitStatus::Pending),
            Phase::Done { because } | Phase::Failed { because } | Phase::Cancelled { because } => {
                let word = self.phase.word();
                Some(WaitStatus::Impossible(format!("the team is {word}: {because}")))
            }
        }
    }
}
