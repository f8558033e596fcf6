//! The facts about a session from which the lifecycle table (`table.rs`) derives its state.

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

/// The kernel's report about the agent's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessFact {
    Alive,
    /// The process exited with code 0, or Provost stopped it.
    Exit0,
    /// The process exited with another code, was killed by a signal that Provost did not send, or
    /// could not be started.
    ExitN,
    /// The process cannot be observed.
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

/// The activity of the agent's output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A turn is open, and the agent sent something recently.
    Active,
    /// No turn is open: the agent is at its prompt.
    Idle,
    /// A turn is open, but the agent has been silent for longer than `session.stale_after`.
    Stale,
    /// The stream has ended, or can no longer be observed.
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

/// The result of the checks on the current tree. `VerifiedTree` contains the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerificationFact {
    /// The result is missing, because no check is configured or no check has ended yet.
    None,
    Passed(VerifiedTree),
    /// The tree did not pass: a check failed, or some checks could not be run to completion.
    Failed(CheckRefutation),
}

impl VerificationFact {
    /// Whether a check could not be started, or could not be observed until it ended. The work is
    /// then neither proved nor refuted. A check that exceeded a limit counts as having run.
    pub fn could_not_run(&self) -> bool {
        matches!(
            self,
            VerificationFact::Failed(CheckRefutation::Unfinished {
                end: CheckEnd::Unfinished(_),
                ..
            })
        )
    }

    /// Whether verification was attempted but produced no result, for reasons that have nothing to
    /// do with the work: a check could not be run, or the work could not be committed for the
    /// checks. In contrast to `None`, such a result has a reason to report.
    pub fn is_unchecked(&self) -> bool {
        self.could_not_run()
            || matches!(self, VerificationFact::Failed(CheckRefutation::NoSnapshot { .. }))
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            VerificationFact::None => "none",
            VerificationFact::Passed(_) => "passed",
            VerificationFact::Failed(_) => "failed",
        }
    }
}
