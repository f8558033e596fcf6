//! The end of a run.

use serde::{Deserialize, Serialize};

use super::state::SessionEnd;
use crate::{ids::TreeId, lifecycle::State, time::Moment, verdict::Snapshot};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnding {
    /// Its work passed every check on its final tree.
    Succeeded,
    /// Its work is done, but there were no checks to prove it.
    Completed,
    Failed,
    Cancelled,
}

impl RunEnding {
    pub fn as_str(self) -> &'static str {
        match self {
            RunEnding::Succeeded => "succeeded",
            RunEnding::Completed => "completed",
            RunEnding::Failed => "failed",
            RunEnding::Cancelled => "cancelled",
        }
    }
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFailureCause {
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

impl RunFailureCause {
    pub fn as_str(self) -> &'static str {
        match self {
            RunFailureCause::Triage => "triage",
            RunFailureCause::Plan => "plan",
            RunFailureCause::Tasks => "tasks",
            RunFailureCause::Queue => "queue",
            RunFailureCause::Work => "work",
            RunFailureCause::Review => "review",
            RunFailureCause::Landing => "landing",
            RunFailureCause::Budget => "budget",
        }
    }
}

/// The sealed end of a run attempt. Never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAttemptOutcome {
    pub ending: RunEnding,
    pub cause: Option<RunFailureCause>,
    /// The reason, as text.
    pub detail: String,
    /// The final commit of the run, if there is any work.
    pub head: Option<Snapshot>,
    pub at: Moment,
}

impl RunAttemptOutcome {
    /// Describes how it ended.
    pub(super) fn describe(&self) -> String {
        format!("{} ({})", self.ending.as_str(), self.detail)
    }
}

/// Evidence that a tree passed every check. Only obtained from a session that was sealed as
/// `succeeded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeProof {
    tree: TreeId,
    /// The checks that passed.
    #[serde(default)]
    checks: Vec<String>,
}

impl TreeProof {
    /// Extracts the proof from a session's end, if there is one.
    pub fn from_end(end: &SessionEnd) -> Option<TreeProof> {
        if end.state != State::Succeeded {
            return None;
        }
        let tree = end.tree.clone()?;
        let passed = end.receipts.iter().filter(|receipt| receipt.tree == tree);
        let checks = passed.map(|receipt| receipt.command.clone()).collect();
        Some(TreeProof { tree, checks })
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
