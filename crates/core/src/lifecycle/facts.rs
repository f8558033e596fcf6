//! The inputs of the lifecycle table.

use serde::{Deserialize, Serialize};

use crate::verdict::{CheckEnd, CheckRefutation, VerifiedTree};

/// The agent's latest claim about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    None,
    Working,
    NeedsInput,
    Completed,
    Failed,
}

impl ClaimKind {
    pub const ALL: [ClaimKind; 5] = [
        ClaimKind::None,
        ClaimKind::Working,
        ClaimKind::NeedsInput,
        ClaimKind::Completed,
        ClaimKind::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ClaimKind::None => "none",
            ClaimKind::Working => "working",
            ClaimKind::NeedsInput => "needs_input",
            ClaimKind::Completed => "completed",
            ClaimKind::Failed => "failed",
        }
    }
}

/// The kernel's view of the agent's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessFact {
    Alive,
    Exit0,
    ExitN,
    Unknown,
}

impl ProcessFact {
    pub const ALL: [ProcessFact; 4] =
        [ProcessFact::Alive, ProcessFact::Exit0, ProcessFact::ExitN, ProcessFact::Unknown];

    pub fn as_str(self) -> &'static str {
        match self {
            ProcessFact::Alive => "alive",
            ProcessFact::Exit0 => "exit0",
            ProcessFact::ExitN => "exitN",
            ProcessFact::Unknown => "unknown",
        }
    }
}

/// The activity visible on the agent's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Active,
    Idle,
    Stale,
    Exited,
}

impl Activity {
    pub const ALL: [Activity; 4] =
        [Activity::Active, Activity::Idle, Activity::Stale, Activity::Exited];

    pub fn as_str(self) -> &'static str {
        match self {
            Activity::Active => "active",
            Activity::Idle => "idle",
            Activity::Stale => "stale",
            Activity::Exited => "exited",
        }
    }
}

/// The checks' result for the current tree. `VerifiedTree` carries the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    None,
    Passed(VerifiedTree),
    Failed(CheckRefutation),
}

impl Verification {
    /// Whether a check could not be run, so that the work is neither proved nor refuted.
    pub fn could_not_run(&self) -> bool {
        matches!(
            self,
            Verification::Failed(CheckRefutation::Unfinished { end: CheckEnd::Unfinished(_), .. })
        )
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            Verification::None => "none",
            Verification::Passed(_) => "passed",
            Verification::Failed(_) => "failed",
        }
    }
}
