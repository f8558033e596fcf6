//! What a caller waits for of a task, judged by the task as it is.

use serde::{Deserialize, Serialize};

use super::{
    finish::Blocker,
    state::{Phase, Task},
};
use crate::{verdict::Receipt, wait::WaitStatus};

/// Something that a task does later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The check with this number.
    Check(u32),
    /// The audit with this number, and with it the finish that asked for it.
    Audit(u32),
}

/// What a wait ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum WaitResult {
    Checked {
        receipt: Box<Receipt>,
    },
    /// The task is done.
    Finished,
    /// The finish was refused, for these reasons.
    Refused {
        blockers: Vec<Blocker>,
    },
}

impl Task {
    /// Judges what somebody waits for: whether it happened, can no longer happen, or may still.
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
        WaitStatus::Impossible(match no <= self.checks_owed {
            true => format!("the result of check {no} is no longer kept"),
            false => format!("check {no} was never asked for"),
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
            // An audit that passes is the last one: all before the newest were refused.
            Some(_) | None if no <= self.audits => {
                WaitStatus::Done(WaitResult::Refused { blockers: self.blockers.clone() })
            }
            Some(_) | None => WaitStatus::Impossible(format!("audit {no} was never asked for")),
        }
    }

    fn over(&self) -> Option<WaitStatus<WaitResult>> {
        match &self.phase {
            Phase::Open | Phase::Active | Phase::Paused { .. } => None,
            // Nothing more happens to it, and whoever waits is not answered.
            _ if bug!(EndNotNoticed) => Some(WaitStatus::Pending),
            Phase::Done { because } | Phase::Failed { because } | Phase::Cancelled { because } => {
                let word = self.phase.word();
                Some(WaitStatus::Impossible(format!("the task is {word}: {because}")))
            }
        }
    }
}
