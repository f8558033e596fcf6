//! The end of a run.

use serde::{Deserialize, Serialize};

use super::state::SessionEnd;
use crate::{ids::TreeId, lifecycle::State, time::Moment, verdict::Snapshot};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its work passed every check on its final tree.
    Succeeded,
    /// Its work is done, but there were no checks to prove it.
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
    /// Triage produced no result.
    Triage,
    /// There is no plan, or it was rejected.
    Plan,
    /// Tasks of the plan could not be done.
    Tasks,
    /// The finished tasks could not be merged or checked together.
    Queue,
    /// The work was not done, or the checks refuted it.
    Work,
    /// A review produced no result, or its fixes were refuted.
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

/// The sealed end of a run attempt. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub ending: Ending,
    pub cause: Option<Cause>,
    /// The reason, as text.
    pub detail: String,
    /// The final commit of the run, if there is any work.
    pub head: Option<Snapshot>,
    pub at: Moment,
}

impl Outcome {
    /// Describes how it ended.
    pub(super) fn told(&self) -> String {
        format!("{} ({})", self.ending.word(), self.detail)
    }
}

/// Evidence that a tree passed every check. Only obtained from a session that was sealed as
/// `succeeded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    tree: TreeId,
    /// The checks that passed.
    #[serde(default)]
    checks: Vec<String>,
}

impl Proof {
    /// Extracts the proof from a session's end, if there is one.
    pub fn of(end: &SessionEnd) -> Option<Proof> {
        if end.state != State::Succeeded {
            return None;
        }
        let tree = end.tree.clone()?;
        let passed = end.receipts.iter().filter(|receipt| receipt.tree == tree);
        let checks = passed.map(|receipt| receipt.command.clone()).collect();
        Some(Proof { tree, checks })
    }

    /// Whether this is the tree that passed.
    pub fn is_for(&self, head: &Snapshot) -> bool {
        self.tree == head.tree
    }

    /// Whether all of these checks are among those that passed.
    pub(super) fn covers(&self, checks: &[&str]) -> bool {
        checks.iter().all(|check| self.checks.iter().any(|passed| passed == check))
    }
}
