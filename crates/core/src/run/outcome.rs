//! How a run ends.

use serde::{Deserialize, Serialize};

use super::state::SessionEnd;
use crate::{
    ids::TreeId,
    lifecycle::State,
    time::Moment,
    verdict::{Snapshot, VerifiedTree},
};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnding {
    /// The work passed every check on the final tree.
    Succeeded,
    /// The work is finished, but there were no checks to prove it.
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
    /// The plan is missing or was rejected.
    Plan,
    /// Some tasks of the plan could not be completed.
    Tasks,
    /// The finished tasks could not be merged or checked together.
    Queue,
    /// The work was not completed, or the checks refuted it.
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

/// The sealed outcome of a run attempt. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAttemptOutcome {
    pub ending: RunEnding,
    pub cause: Option<RunFailureCause>,
    /// The reason, as text.
    pub detail: String,
    /// The final commit of the run, if it produced any work.
    pub head: Option<Snapshot>,
    pub at: Moment,
}

impl RunAttemptOutcome {
    /// Describes how the run attempt ended.
    pub(super) fn describe(&self) -> String {
        format!("{} ({})", self.ending.as_str(), self.detail)
    }
}

/// Evidence that a tree passed every check. A proof can be obtained only from a session whose outcome was sealed as
/// `succeeded`, or from a verdict on the receipts of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeProof {
    tree: TreeId,
    /// The checks that passed.
    #[serde(default)]
    checks: Vec<String>,
}

impl TreeProof {
    /// Extracts the proof from the end of a session, if the session succeeded.
    pub fn from_end(end: &SessionEnd) -> Option<TreeProof> {
        if end.state != State::Succeeded {
            return None;
        }
        let tree = end.tree.clone()?;
        let passed = end.receipts.iter().filter(|receipt| receipt.tree == tree);
        let checks = passed.map(|receipt| receipt.command.clone()).collect();
        Some(TreeProof { tree, checks })
    }

    pub(super) fn from_verified(tree: &VerifiedTree, checks: Vec<String>) -> TreeProof {
        TreeProof { tree: tree.tree().clone(), checks }
    }

    /// Whether the proof is for this tree.
    pub fn is_for(&self, head: &Snapshot) -> bool {
        self.tree == head.tree
    }

    /// Whether all of these checks are among those that passed.
    pub(super) fn covers(&self, checks: &[&str]) -> bool {
        checks.iter().all(|check| self.checks.iter().any(|passed| passed == check))
    }
}
