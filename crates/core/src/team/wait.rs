//! Results that a caller can wait for, evaluated against the current state of the team.

use serde::{Deserialize, Serialize};

use super::{
    finish::FinishBlocker,
    state::{Team, TeamPhase},
};
use crate::{rules::rules, verdict::Receipt, wait::WaitStatus};

/// A result that a team may produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamWaitTarget {
    /// The check with this number.
    Check(u32),
    /// The audit with this number, and the request to finish that started the audit.
    Audit(u32),
}

/// The result of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum TeamWaitResult {
    Checked {
        receipt: Box<Receipt>,
    },
    /// The team is done.
    Finished,
    /// The request to finish was refused for these reasons.
    Refused {
        blockers: Vec<FinishBlocker>,
    },
}

impl Team {
    /// Evaluates a wait: whether the result is available, still pending, or no longer possible.
    pub fn wait_status(&self, awaited: TeamWaitTarget) -> WaitStatus<TeamWaitResult> {
        match awaited {
            TeamWaitTarget::Check(no) => self.status_of_check(no),
            TeamWaitTarget::Audit(no) => self.status_of_audit(no),
        }
    }

    fn status_of_check(&self, no: u32) -> WaitStatus<TeamWaitResult> {
        if let Some(result) = self.results.iter().rev().find(|result| result.no == no) {
            let receipt = Box::new(result.receipt.clone());
            return WaitStatus::Done(TeamWaitResult::Checked { receipt });
        }
        if self.checks.iter().any(|check| check.no == no) {
            return WaitStatus::Pending;
        }
        if let Some(over) = self.ended_status() {
            return over;
        }
        WaitStatus::Impossible(if no <= self.checks_requested {
            format!("the result of check {no} is no longer kept")
        } else {
            format!("check {no} was never requested")
        })
    }

    fn status_of_audit(&self, no: u32) -> WaitStatus<TeamWaitResult> {
        if matches!(self.phase, TeamPhase::Done { .. }) {
            return WaitStatus::Done(TeamWaitResult::Finished);
        }
        if let Some(over) = self.ended_status() {
            return over;
        }
        match &self.audit {
            Some(audit) if audit.no <= no => WaitStatus::Pending,
            // An audit that passes is the last one, so all audits before the newest one were refused.
            Some(_) | None if no <= self.audits => {
                WaitStatus::Done(TeamWaitResult::Refused { blockers: self.blockers.clone() })
            }
            Some(_) | None => WaitStatus::Impossible(format!("audit {no} was never requested")),
        }
    }

    fn ended_status(&self) -> Option<WaitStatus<TeamWaitResult>> {
        match &self.phase {
            TeamPhase::Open | TeamPhase::Active | TeamPhase::Paused { .. } => None,
            TeamPhase::Done { because }
            | TeamPhase::Failed { because }
            | TeamPhase::Cancelled { because } => {
                let word = self.phase.as_str();
                Some(rules().status_after_end(format!("the team is {word}: {because}")))
            }
        }
    }
}
