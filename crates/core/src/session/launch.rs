//! A launch: one process under one holder, and the state of its stream.

use serde::{Deserialize, Serialize};

use super::input::LaunchWatch;
use crate::{
    ids::LaunchId,
    lifecycle::{Activity, ProcessFact},
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    rules::rules,
    time::Moment,
};

/// Identifies a process even if its pid is reused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: i32,
    pub start_time: u64,
    pub boot_id: String,
}

/// The position in a launch's journal up to which everything has been processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    pub offset: u64,
    pub skip: u64,
}

/// The reason why a launch was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchReason {
    First,
    /// An answer arrived for an agent that had exited while it was waiting.
    Answer,
    /// A new instruction arrived for an agent that had exited.
    Instruction,
    /// The agent crashed while working, and its conversation is resumed.
    Crash,
    /// Another agent takes over the work.
    HandedOver,
    /// The previous launch failed before the agent responded.
    Retry,
    /// The usage limit at which the agent exited has passed.
    Limit,
}

/// The way in which a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessExit {
    Exit(i32),
    Signal(i32),
}

/// The party that ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    Itself,
    Provost,
}

/// The result of a turn, according to the agent's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    Ok,
    Interrupted,
    Error(String),
    /// The account reached a usage limit. `until_ms` is the wall-clock time at which the limit
    /// resets, if known.
    Limited {
        until_ms: Option<u64>,
        detail: String,
    },
}

/// The reason why Provost stops a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The operator ran `stop`, which ends the process but keeps the session.
    Operator,
    /// The attempt was cancelled, resolved, timed out or superseded.
    Decided,
    /// The attempt is sealed and the process is no longer needed.
    Finished,
    /// The agent is idle and did not report a result when asked.
    Unclaimed,
    /// The work was refuted more often than the limit allows.
    ReworkExhausted,
    /// The agent closed its stream but kept running.
    Leftover,
    /// Another agent takes over the work.
    HandedOver,
    /// Connecting to the agent failed, so it is launched again.
    Unreachable,
    /// The team of the session has finished.
    TeamEnded,
}

/// The current step of stopping a process. Each step is taken once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopStep {
    Interrupt,
    Terminate,
    Kill,
    GivenUp,
}

impl StopStep {
    pub fn as_str(self) -> &'static str {
        match self {
            StopStep::Interrupt => "interrupt",
            StopStep::Terminate => "terminate",
            StopStep::Kill => "kill",
            StopStep::GivenUp => "given_up",
        }
    }

    /// Returns the next step if the process has survived the current step.
    pub fn next(self) -> Option<StopStep> {
        match self {
            StopStep::Interrupt => Some(StopStep::Terminate),
            StopStep::Terminate => Some(rules().step_after_terminate()),
            StopStep::Kill => Some(StopStep::GivenUp),
            StopStep::GivenUp => None,
        }
    }
}

/// A stop in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopProgress {
    pub why: StopReason,
    pub step: StopStep,
    pub since: Moment,
}

/// The phase of a launch, with the data that is known only in that phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchPhase {
    Pending,
    Running {
        /// The process, or None if the agent was adopted via its transcript and its process is
        /// unknown.
        child: Option<ProcessIdentity>,
        visibility: Visibility,
    },
    Ended {
        end: ProcessExit,
        by: StoppedBy,
        at: Moment,
    },
    /// The process exited or was killed, but its exit was not observed. Reported only when no
    /// process of the launch is left.
    Unobserved {
        why: String,
        at: Moment,
    },
    /// The process never ran. Reported only when no process of the launch is left.
    Failed {
        reason: String,
    },
}

/// Whether the process can be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    Seen,
    Unknown,
}

/// The state of the agent's stream while its process is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Whether the agent has reported its conversation.
    #[serde(default)]
    pub ready: bool,
    /// The reason why the agent rejected its configuration.
    #[serde(default)]
    pub refused: Option<String>,
    /// Whether `refused` means that connecting to the agent failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// Whether the agent is pursuing a goal. If so, it starts its next turn on its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goal: bool,
    /// The time since which the agent has been expected to start a turn on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_turn: Option<Moment>,
    /// Whether the last turn succeeded.
    #[serde(default)]
    pub ended_well: bool,
    /// Whether an interrupt was sent to end the open turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Whether a turn is open. A command without a protocol counts as one long turn.
    pub turn: TurnState,
    pub last_heard: Moment,
    pub silent: bool,
    pub closed: Option<Moment>,
    /// Whether the settle window after `closed` has passed and the process is still running.
    pub settled: bool,
    pub retrying: bool,
    /// The reason why the agent is retrying, as the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying_why: Option<String>,
    /// Whether the open turn is only expected and not recorded yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
    /// Whether the agent reported the open turn. The first turn of a launch is open before that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// The text that was sent to the idle agent. It is kept until the turn that it starts is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_input: Option<String>,
}

impl Stream {
    /// Expects the agent to start a turn. Until it does, the agent counts as active. A turn that is
    /// already open stays open.
    pub(super) fn expect_turn(&mut self, at: Moment) {
        self.expected |= self.turn == TurnState::Over;
        self.turn = TurnState::Open { turn: None };
        (self.last_heard, self.silent) = (at, false);
    }

    /// Expects the agent to start a turn on its own.
    pub(super) fn expect_own_turn(&mut self, at: Moment) {
        self.expect_turn(at);
        self.own_turn = Some(at);
    }

    pub(super) fn begin_turn(&mut self, turn: Option<String>) {
        self.turn = rules().started_turn(&self.turn, turn);
        (self.expected, self.recorded) = (false, true);
        (self.interrupted, self.own_turn) = (false, None);
    }

    /// Discards a turn that the agent has not reported.
    pub(super) fn forget_expected_turn(&mut self) {
        self.own_turn = None;
        if self.turn == (TurnState::Open { turn: None }) && !self.recorded {
            (self.turn, self.expected, self.turn_input) = (TurnState::Over, false, None);
        }
    }

    pub(super) fn end_turn(&mut self, well: bool, takes_more: bool) {
        (self.ended_well, self.interrupted, self.expected, self.turn_input) =
            (well, false, false, None);
        self.recorded = false;
        if takes_more {
            self.turn = TurnState::Over;
        }
    }
}

/// Whether a turn is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// A turn is open. Its id is None if it is unknown or if the agent does not name its turns.
    Open {
        turn: Option<String>,
    },
    Over,
}

/// The state of the process tree after its leader exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTreeExit {
    pub leftovers: u32,
    pub verified: bool,
}

/// The number and size of a launch's reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportUsage {
    pub count: u32,
    pub bytes: u64,
    /// Whether any report was rejected.
    pub refused: bool,
}

impl ReportUsage {
    /// Whether a report of this many bytes fits into the launch's budget.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.count < MAX_REPORTS && self.bytes.saturating_add(bytes as u64) <= MAX_REPORT_BYTES
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    fn is_empty(&self) -> bool {
        *self == ReportUsage::default()
    }
}

/// One process under one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub id: LaunchId,
    pub why: LaunchReason,
    /// The attempt to which the current work of this launch belongs.
    pub attempt: u32,
    pub requested_at: Moment,
    /// The start of the handshake window: when the launch was first seen running, or when the
    /// current daemon began to follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Moment>,
    /// The holder's process. None until it has been seen running.
    pub holder: Option<ProcessIdentity>,
    pub phase: LaunchPhase,
    pub stream: Stream,
    pub stop: Option<StopProgress>,
    pub gone: Option<ProcessTreeExit>,
    pub cursor: Cursor,
    pub at_limit: bool,
    /// The directory whose disk is full, if any.
    #[serde(default)]
    pub disk_full: Option<String>,
    pub output_lost: bool,
    pub oversized: bool,
    /// Why the launch cannot be observed at the moment, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobservable: Option<String>,
    #[serde(default, skip_serializing_if = "ReportUsage::is_empty")]
    pub reports: ReportUsage,
    /// The number of users at the agent's own screen.
    pub viewers: u32,
    /// The time at which a user last attached or detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended: Option<Moment>,
    /// Observations from outside the agent's protocol.
    #[serde(default)]
    pub watch: LaunchWatch,
    /// Whether the launch is an external agent. An external agent is only watched: Provost does not
    /// stop it, and its silence does not count as a stall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl Launch {
    pub(super) fn pending(id: LaunchId, why: LaunchReason, attempt: u32, at: Moment) -> Self {
        let turn = TurnState::Open { turn: None };
        Launch {
            id,
            why,
            attempt,
            requested_at: at,
            followed: None,
            holder: None,
            phase: LaunchPhase::Pending,
            stream: Stream {
                ready: false,
                refused: None,
                unreachable: false,
                goal: false,
                own_turn: None,
                ended_well: false,
                interrupted: false,
                turn,
                last_heard: at,
                silent: false,
                closed: None,
                settled: false,
                retrying: false,
                retrying_why: None,
                expected: false,
                recorded: false,
                turn_input: None,
            },
            stop: None,
            gone: None,
            cursor: Cursor::default(),
            at_limit: false,
            disk_full: None,
            output_lost: false,
            oversized: false,
            unobservable: None,
            reports: ReportUsage::default(),
            viewers: 0,
            attended: None,
            watch: LaunchWatch::default(),
            adopted: false,
        }
    }

    /// Whether a user is at the agent's screen. If so, the agent is neither asked for a result nor
    /// closed, but the operator's decisions still apply.
    pub fn is_attended(&self) -> bool {
        self.may_be_running() && self.viewers > 0
    }

    /// The process fact for the table. A pending launch counts as alive, because nothing has exited.
    pub fn process(&self) -> ProcessFact {
        match &self.phase {
            LaunchPhase::Pending | LaunchPhase::Running { visibility: Visibility::Seen, .. } => {
                ProcessFact::Alive
            }
            LaunchPhase::Running { visibility: Visibility::Unknown, .. }
            | LaunchPhase::Unobserved { .. } => ProcessFact::Unknown,
            // The process was killed as a leftover, so the exit code it would have had is unknown.
            LaunchPhase::Ended { by: StoppedBy::Provost, .. } if self.is_leftover() => {
                ProcessFact::Unknown
            }
            // An end or a cancelled start that Provost itself caused says nothing about the work.
            LaunchPhase::Ended { by: StoppedBy::Provost, .. } => ProcessFact::Exit0,
            LaunchPhase::Failed { .. } if self.stop.is_some() => ProcessFact::Exit0,
            LaunchPhase::Ended { end: ProcessExit::Exit(0), .. } => ProcessFact::Exit0,
            LaunchPhase::Ended { .. } | LaunchPhase::Failed { .. } => ProcessFact::ExitN,
        }
    }

    /// The activity fact for the table.
    pub fn activity(&self) -> Activity {
        let over = self.stream.closed.is_some() && self.has_ended();
        if over || self.stream.settled || matches!(self.phase, LaunchPhase::Unobserved { .. }) {
            return Activity::Exited;
        }
        match (&self.stream.turn, self.stream.silent) {
            (TurnState::Over, _) => Activity::Idle,
            (TurnState::Open { .. }, true) => Activity::Stale,
            (TurnState::Open { .. }, false) => Activity::Active,
        }
    }

    /// Returns the agent's id for its open turn.
    pub fn turn(&self) -> Option<&str> {
        match &self.stream.turn {
            TurnState::Open { turn } => turn.as_deref(),
            TurnState::Over => None,
        }
    }

    fn is_leftover(&self) -> bool {
        self.stop.is_some_and(|stop| stop.why == StopReason::Leftover)
    }

    /// Whether the process may still be running.
    pub fn may_be_running(&self) -> bool {
        matches!(self.phase, LaunchPhase::Pending | LaunchPhase::Running { .. })
    }

    /// Whether Provost may begin to stop the process: Provost started it, it may be running, and it
    /// is not being stopped already.
    pub(super) fn may_be_stopped(&self) -> bool {
        self.may_be_running() && self.stop.is_none() && !self.adopted
    }

    pub fn has_ended(&self) -> bool {
        !self.may_be_running()
    }

    /// Whether the process ended unexpectedly.
    pub fn ended_unexpectedly(&self) -> bool {
        match &self.phase {
            LaunchPhase::Ended { end, by, .. } => {
                *by == StoppedBy::Itself && *end != ProcessExit::Exit(0)
            }
            LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. } => true,
            LaunchPhase::Pending | LaunchPhase::Running { .. } => false,
        }
    }

    /// Whether the process is being stopped: it has not exited, and Provost has not given up on it.
    pub fn is_stopping(&self) -> bool {
        self.may_be_running() && self.stop.is_some_and(|stop| stop.step != StopStep::GivenUp)
    }

    /// Whether Provost gave up on killing the process, which may still be running.
    pub fn is_stop_abandoned(&self) -> bool {
        self.may_be_running() && self.stop.is_some_and(|stop| stop.step == StopStep::GivenUp)
    }

    /// Whether neither the process nor any of its descendants can change the work anymore.
    pub fn is_gone(&self) -> bool {
        match self.phase {
            LaunchPhase::Pending | LaunchPhase::Running { .. } => false,
            LaunchPhase::Failed { .. } | LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Ended { .. } => self.gone.is_some(),
        }
    }

    /// Whether the journal may still grow.
    pub fn is_followed(&self) -> bool {
        match self.phase {
            LaunchPhase::Running { .. } => true,
            LaunchPhase::Ended { .. } => self.gone.is_none() || self.stream.closed.is_none(),
            LaunchPhase::Pending | LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. } => {
                false
            }
        }
    }
}
