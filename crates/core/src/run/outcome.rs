//! The end of a run.

use serde::{Deserialize, Serialize};

use super::state::SessionEnd;
use crate::{ids::TreeId, lifecycle::State, time::Moment, verdict::Snapshot};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its work passed every check on the tree that it ends with.
    Succeeded,
    /// Its work is done, and nothing was there to prove it by.
    Completed,
    Failed,
    Cancelled,
}

impl Ending {
    pub fn word(self) -> &'static str {
        match self {
            Ending::Succeeded => "succeeded",
            Ending::Completed => "completed",
            Ending::Failed => "failed",
            Ending::Cancelled => "cancelled",
        }
    }
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Triage did not come to a result.
    Triage,
    /// There is no plan, or it was rejected.
    Plan,
    /// Tasks of the plan could not be done.
    Tasks,
    /// What was done could not be merged or checked together.
    Queue,
    /// The work was not done, or the checks refuted it.
    Work,
    /// A review did not come to a result, or its repair was refuted.
    Review,
    Landing,
    Budget,
}

impl Cause {
    pub fn word(self) -> &'static str {
        match self {
            Cause::Triage => "triage",
            Cause::Plan => "plan",
            Cause::Tasks => "tasks",
            Cause::Queue => "queue",
            Cause::Work => "work",
            Cause::Review => "review",
            Cause::Landing => "landing",
            Cause::Budget => "budget",
        }
    }
}

/// The sealed end of a run's leg; never changed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub ending: Ending,
    pub cause: Option<Cause>,
    /// Why, in words.
    pub detail: String,
    /// What the run ends with, if there is any work.
    pub head: Option<Snapshot>,
    pub at: Moment,
}

impl Outcome {
    /// Says how it ended, in words.
    pub(super) fn told(&self) -> String {
        format!("{} ({})", self.ending.word(), self.detail)
    }
}

/// Evidence that a tree passed every check. It can be had from a session that was sealed as `succeeded` only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    tree: TreeId,
    /// The checks that passed.
    #[serde(default)]
    checks: Vec<String>,
}

impl Proof {
    /// Takes the proof out of a session's end, if there is one.
    pub fn of(end: &SessionEnd) -> Option<Proof> {
        let tree = end.tree.clone().filter(|_| end.state == State::Succeeded)?;
        let passed = end.receipts.iter().filter(|receipt| receipt.tree == tree);
        let checks = passed.map(|receipt| receipt.command.clone()).collect();
        Some(Proof { tree, checks })
    }

    /// Says whether this tree is the one that passed.
    pub fn is_for(&self, head: &Snapshot) -> bool {
        self.tree == head.tree
    }

    /// Says whether all of these checks were among those that passed.
    pub(super) fn covers(&self, checks: &[&str]) -> bool {
        checks.iter().all(|check| self.checks.iter().any(|passed| passed == check))
    }
}
