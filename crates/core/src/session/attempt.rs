//! An attempt: the work on one instruction until its outcome is sealed. Its facts are kept separately.

use serde::{Deserialize, Serialize};

use super::{event::TurnEnded, launch::TurnEnd};
use crate::{
    ids::{LaunchId, TreeId},
    lifecycle::{Cause, ClaimKind, Judgement, State, StopCause},
    result::StructuredResult,
    time::Moment,
    verdict::{Caveats, Receipt, Snapshot},
};

/// The source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimSource {
    Agent,
    /// A process put the claim into a drop box on behalf of the agent.
    DropBox,
    Operator,
    /// The launch's policy interpreted exit code 0 as `completed`.
    Policy,
    /// A turn ended with an error, according to the agent's protocol.
    TurnError,
}

impl ClaimSource {
    pub fn as_str(self) -> &'static str {
        match self {
            ClaimSource::Agent => "agent",
            ClaimSource::DropBox => "drop_box",
            ClaimSource::Operator => "operator",
            ClaimSource::Policy => "policy",
            ClaimSource::TurnError => "turn_error",
        }
    }
}

/// A statement about the work, with its source and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub kind: ClaimKind,
    pub source: ClaimSource,
    pub text: Option<String>,
    pub launch: Option<LaunchId>,
    pub at: Moment,
}

/// The effect that a report had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    Applied,
    Recorded,
    RecordedLate,
}

impl ReportStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            ReportStatus::Applied => "applied",
            ReportStatus::Recorded => "recorded",
            ReportStatus::RecordedLate => "recorded_late",
        }
    }
}

/// The operator's decision about an attempt, which takes precedence over its facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub state: State,
    pub cause: Option<Cause>,
    pub because: String,
    pub at: Moment,
}

/// The outcome of an attempt. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedOutcome {
    pub judgement: Judgement,
    pub tree: Option<TreeId>,
    pub at: Moment,
}

/// The evidence gathered for the current tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEvidence {
    pub snapshot: Option<Snapshot>,
    /// The caveats of the newest snapshot.
    #[serde(default, skip_serializing_if = "Caveats::is_empty")]
    pub caveats: Caveats,
    pub receipts: Vec<Receipt>,
    /// Whether a second snapshot, taken after the checks, had the same tree.
    pub confirmed: bool,
    /// The number of snapshots and abandoned rounds, which is part of the keys of snapshots and
    /// rounds.
    pub taken: u32,
    /// The number of times that the tree changed between two snapshots.
    pub moved: u32,
    pub failed: Option<String>,
}

impl AttemptEvidence {
    /// Discards the evidence, because the work continues and a verdict on an old tree does not count.
    pub(super) fn discard(&mut self) {
        *self = AttemptEvidence { taken: self.taken + 1, ..AttemptEvidence::default() };
    }
}

/// Measures the working time of an attempt, excluding the time it waits for a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkClock {
    pub spent_ms: u64,
    pub running_since: Option<u64>,
}

impl WorkClock {
    pub(super) fn set_running(&mut self, running: bool, at: Moment) {
        match (self.running_since, running) {
            (None, true) => self.running_since = Some(at.mono_ms),
            (Some(since), false) => {
                self.spent_ms += at.mono_ms.saturating_sub(since);
                self.running_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Returns the time at which a limit is reached, if the clock is running.
    pub fn deadline(&self, limit_ms: u64) -> Option<u64> {
        Some(self.running_since?.saturating_add(limit_ms.saturating_sub(self.spent_ms)))
    }
}

/// The work on one instruction until its outcome is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub no: u32,
    pub instruction: Option<String>,
    pub opened: Moment,
    pub claim: Option<Claim>,
    pub late_claims: Vec<Claim>,
    /// The structured result, if one was requested.
    #[serde(default)]
    pub result: Option<StructuredResult>,
    pub cancelled: Option<String>,
    pub superseded: bool,
    pub stopped: Option<(StopCause, String)>,
    pub resolutions: Vec<Resolution>,
    pub verifying: AttemptEvidence,
    pub reworks: u32,
    /// The number of times that the conversation was resumed after a crash.
    #[serde(default)]
    pub resumes: u32,
    /// The number of times that the attempt has waited for the account's usage limit to pass.
    #[serde(default)]
    pub limit_waits: u32,
    /// The number of times that a launch was repeated after it failed before the agent responded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relaunches: u32,
    /// The number of times in a row that the agent's program rejected the request for the result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    pub result_requested: Option<Moment>,
    /// The outcome of the attempt's last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<LastTurn>,
    /// Whether the turn was interrupted, by a command or at the agent's screen, and the user has
    /// not yet decided how to continue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_user: bool,
    pub clock: WorkClock,
    /// The state that was last shown, and since when. Time windows and hooks are based on it.
    pub shown: State,
    pub since: Moment,
    pub sealed: Option<SealedOutcome>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A finished turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastTurn {
    pub end: TurnEnd,
    /// The agent's last message in the turn.
    pub says: Option<String>,
}

impl Attempt {
    /// Records the outcome of a turn. If Provost asked for the result but the turn contained no
    /// message, the message of the previous turn is kept.
    pub(super) fn record_turn_end(&mut self, ended: &TurnEnded) {
        let last = self.last_turn.take();
        let before = if self.result_requested.is_some() { last } else { None };
        let says = ended.says.clone().or_else(|| before.and_then(|before| before.says));
        self.last_turn = Some(LastTurn { end: ended.end.clone(), says });
    }
}

impl Attempt {
    pub(super) fn open(no: u32, instruction: Option<String>, at: Moment) -> Self {
        Attempt {
            no,
            instruction,
            opened: at,
            claim: None,
            late_claims: Vec::new(),
            result: None,
            cancelled: None,
            superseded: false,
            stopped: None,
            resolutions: Vec::new(),
            verifying: AttemptEvidence::default(),
            reworks: 0,
            resumes: 0,
            limit_waits: 0,
            relaunches: 0,
            refusals: 0,
            result_requested: None,
            last_turn: None,
            awaits_user: false,
            clock: WorkClock::default(),
            shown: State::Working,
            since: at,
            sealed: None,
        }
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Whether the last turn was interrupted and no turn has begun since.
    pub(super) fn was_interrupted(&self) -> bool {
        self.last_turn.as_ref().is_some_and(|last| last.end == TurnEnd::Interrupted)
    }

    /// Whether the attempt has been decided, in which case its facts no longer matter.
    pub fn is_decided(&self) -> bool {
        self.cancelled.is_some()
            || self.superseded
            || self.stopped.is_some()
            || !self.resolutions.is_empty()
    }

    pub fn claim_kind(&self) -> ClaimKind {
        self.claim.as_ref().map_or(ClaimKind::None, |claim| claim.kind)
    }
}
