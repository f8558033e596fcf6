//! A launch: one process under one holder, and what its stream shows.

use serde::{Deserialize, Serialize};

use super::watch::Watch;
use crate::{
    ids::LaunchId,
    lifecycle::{Activity, Process},
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    time::Moment,
};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    pub start_time: u64,
    pub boot_id: String,
}

/// The place in a launch's journal up to which everything has been folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    pub offset: u64,
    pub skip: u64,
}

/// Why a launch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchWhy {
    First,
    /// An answer came for an agent that had ended while it waited.
    Answer,
    /// A new instruction came for an agent that had ended.
    Instruction,
    /// The agent died in the middle of its work, and its conversation goes on.
    Crash,
    /// Another agent goes on with the work.
    HandedOver,
    /// The launch before it failed before the agent answered.
    Retry,
    /// The usage limit at which the agent exited has passed.
    Limit,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// Who ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    Itself,
    Provost,
}

/// How a turn ended, as the agent's protocol said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    Ok,
    Interrupted,
    Error(String),
    /// The account may not go on before a moment of the wall clock, if that is known.
    Limited {
        until_ms: Option<u64>,
        detail: String,
    },
}

/// Why Provost ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWhy {
    /// The operator's `stop`: the process ends, the session stays.
    Operator,
    /// The attempt was cancelled, resolved, timed out or superseded.
    Decided,
    /// The attempt is sealed and the process is no longer needed.
    Finished,
    /// The agent is idle and says nothing, though it was asked.
    Unclaimed,
    /// The work was refuted more often than the bound allows.
    ReworkExhausted,
    /// The agent closed its stream and lived on.
    Leftover,
    /// Another agent goes on with the work.
    HandedOver,
    /// The agent could not be connected to, and is launched once more.
    Unreachable,
    /// The team that it was opened for is over.
    TeamEnded,
}

/// How far a stop has gone. Steps are taken once each, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopStep {
    Interrupt,
    Terminate,
    Kill,
    GivenUp,
}

impl StopStep {
    /// Gives the step that follows when this one was not enough.
    pub fn next(self) -> Option<StopStep> {
        match self {
            StopStep::Interrupt => Some(StopStep::Terminate),
            StopStep::Terminate => {
                Some(if bug!(KillSkipped) { StopStep::GivenUp } else { StopStep::Kill })
            }
            StopStep::Kill => Some(StopStep::GivenUp),
            StopStep::GivenUp => None,
        }
    }
}

/// A stop under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub why: StopWhy,
    pub step: StopStep,
    pub since: Moment,
}

/// How far a launch has come. What is known only in one phase lives in that phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchPhase {
    Owed,
    Running {
        /// None if it was adopted by what it writes, and nobody knows its process.
        child: Option<Identity>,
        sight: Sight,
    },
    Ended {
        end: End,
        by: EndedBy,
        at: Moment,
    },
    /// It ended, or was ended, and nobody saw how. Told only when no process of it was left.
    Unobserved {
        why: String,
        at: Moment,
    },
    /// It never ran. Told only when no process of it was left.
    Failed {
        reason: String,
    },
}

/// Whether the process can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    Seen,
    Unknown,
}

/// What the agent's stream shows, as far as the process lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Whether the agent named its conversation.
    #[serde(default)]
    pub ready: bool,
    /// Why the agent will not work as it was asked to.
    #[serde(default)]
    pub refused: Option<String>,
    /// Whether `refused` says that the agent could not be connected to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// Whether the agent pursues a goal: then it begins its next turn by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goal: bool,
    /// Since when the agent is about to begin a turn by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_turn: Option<Moment>,
    /// Whether the last turn ended well.
    #[serde(default)]
    pub ended_well: bool,
    /// Whether the agent was told to leave its open turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Whether a turn is open. A command without a protocol is one long turn.
    pub turn: TurnState,
    pub heard: Moment,
    pub silent: bool,
    pub closed: Option<Moment>,
    /// The window after `closed` is over and the process still lives.
    pub settled: bool,
    pub retrying: bool,
    /// What the agent said of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying_why: Option<String>,
    /// Whether the turn that counts as open is only expected, and no record has it yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
    /// What the agent was told at rest, until the turn that it begins is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

impl Stream {
    /// Until the turn comes, the agent counts as at work. One that is open now is not over by that.
    pub(super) fn expect_a_turn(&mut self, at: Moment) {
        self.expected |= self.turn == TurnState::Over;
        self.turn = TurnState::Open { turn: None };
        (self.heard, self.silent) = (at, false);
    }

    pub(super) fn begin_turn(&mut self, turn: Option<String>) {
        if self.turn == TurnState::Over && bug!(OwnTurnIgnored) {
            return;
        }
        (self.turn, self.expected) = (TurnState::Open { turn }, false);
        (self.interrupted, self.own_turn) = (false, None);
    }

    /// A turn that only was expected does not come.
    pub(super) fn forget_expected_turn(&mut self) {
        self.own_turn = None;
        if self.turn == (TurnState::Open { turn: None }) {
            (self.turn, self.expected, self.told) = (TurnState::Over, false, None);
        }
    }

    pub(super) fn end_turn(&mut self, well: bool, takes_more: bool) {
        (self.ended_well, self.interrupted, self.expected, self.told) = (well, false, false, None);
        if takes_more {
            self.turn = TurnState::Over;
        }
    }
}

/// Whether a turn is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// Nothing is known yet, or the driver has no turns.
    Open {
        turn: Option<String>,
    },
    Over,
}

/// What is known of the whole process tree after its leader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub leftovers: u32,
    pub verified: bool,
}

/// The reports that a launch made beside its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reports {
    pub count: u32,
    pub bytes: u64,
    /// Whether one was refused.
    pub refused: bool,
}

impl Reports {
    /// Whether a report of this many bytes fits into the launch's budget.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.count < MAX_REPORTS && self.bytes.saturating_add(bytes as u64) <= MAX_REPORT_BYTES
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    fn is_empty(&self) -> bool {
        *self == Reports::default()
    }
}

/// One process under one holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub id: LaunchId,
    pub why: LaunchWhy,
    /// The attempt that this launch serves now.
    pub attempt: u32,
    pub owed_at: Moment,
    /// Since when it was seen to run, or the daemon that follows it runs, if it is not known to be ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Moment>,
    /// Known once it was seen to run, and for ever after.
    pub holder: Option<Identity>,
    pub phase: LaunchPhase,
    pub stream: Stream,
    pub stop: Option<Stop>,
    pub gone: Option<Gone>,
    pub cursor: Cursor,
    pub at_limit: bool,
    /// The directory whose disk takes no more of its output.
    #[serde(default)]
    pub no_room: Option<String>,
    pub output_lost: bool,
    pub oversized: bool,
    #[serde(default, skip_serializing_if = "Reports::is_empty")]
    pub reports: Reports,
    /// How many people are at the agent's own screen.
    pub people: u32,
    /// When somebody came there or left last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended: Option<Moment>,
    /// What is seen of it beside its protocol.
    #[serde(default)]
    pub watch: Watch,
    /// Whether somebody else started it: then it is watched, and neither ended nor doubted for its silence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

impl Launch {
    pub(super) fn owed(id: LaunchId, why: LaunchWhy, attempt: u32, at: Moment) -> Self {
        let turn = TurnState::Open { turn: None };
        Launch {
            id,
            why,
            attempt,
            owed_at: at,
            followed: None,
            holder: None,
            phase: LaunchPhase::Owed,
            stream: Stream {
                ready: false,
                refused: None,
                unreachable: false,
                goal: false,
                own_turn: None,
                ended_well: false,
                interrupted: false,
                turn,
                heard: at,
                silent: false,
                closed: None,
                settled: false,
                retrying: false,
                retrying_why: None,
                expected: false,
                told: None,
            },
            stop: None,
            gone: None,
            cursor: Cursor::default(),
            at_limit: false,
            no_room: None,
            output_lost: false,
            oversized: false,
            reports: Reports::default(),
            people: 0,
            attended: None,
            watch: Watch::default(),
            adopted: false,
        }
    }

    /// Says whether the process is left to whoever is at its screen: it is not asked for a result and not closed
    /// under a person. What an operator decided is done all the same.
    pub fn is_attended(&self) -> bool {
        self.may_live() && self.people > 0
    }

    /// The process fact of the table. A launch that is only owed counts as alive: nothing has ended.
    pub fn process(&self) -> Process {
        match &self.phase {
            LaunchPhase::Owed | LaunchPhase::Running { sight: Sight::Seen, .. } => Process::Alive,
            LaunchPhase::Running { sight: Sight::Unknown, .. } | LaunchPhase::Unobserved { .. } => {
                Process::Unknown
            }
            // What it would have exited with, had it not been ended as a leftover, nobody knows.
            LaunchPhase::Ended { by: EndedBy::Provost, .. } if self.is_leftover() => {
                Process::Unknown
            }
            // A death that Provost brought about says nothing about the work, nor does a start that it called off.
            LaunchPhase::Ended { by: EndedBy::Provost, .. } => Process::Exit0,
            LaunchPhase::Failed { .. } if self.stop.is_some() => Process::Exit0,
            LaunchPhase::Ended { end: End::Exit(0), .. } => Process::Exit0,
            LaunchPhase::Ended { .. } | LaunchPhase::Failed { .. } => Process::ExitN,
        }
    }

    /// The activity fact of the table.
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

    /// Gives the agent's own name for its open turn.
    pub fn turn(&self) -> Option<&str> {
        match &self.stream.turn {
            TurnState::Open { turn } => turn.as_deref(),
            TurnState::Over => None,
        }
    }

    fn is_leftover(&self) -> bool {
        self.stop.is_some_and(|stop| stop.why == StopWhy::Leftover)
    }

    /// Says whether the process may still be running.
    pub fn may_live(&self) -> bool {
        matches!(self.phase, LaunchPhase::Owed | LaunchPhase::Running { .. })
    }

    /// Says whether Provost may begin to end the process: it lives, nobody does so yet, and it is Provost's.
    pub(super) fn may_be_ended(&self) -> bool {
        self.may_live() && self.stop.is_none() && !self.adopted
    }

    pub fn has_ended(&self) -> bool {
        !self.may_live()
    }

    /// Says whether the process ended in a way that nobody asked for.
    pub fn was_lost(&self) -> bool {
        match &self.phase {
            LaunchPhase::Ended { end, by, .. } => *by == EndedBy::Itself && *end != End::Exit(0),
            LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. } => true,
            LaunchPhase::Owed | LaunchPhase::Running { .. } => false,
        }
    }

    /// Says whether a stop is under way that has neither ended the process nor been given up.
    pub fn is_being_ended(&self) -> bool {
        self.may_live() && self.stop.is_some_and(|stop| stop.step != StopStep::GivenUp)
    }

    /// Says whether Provost gave up ending the process, which may live.
    pub fn is_given_up(&self) -> bool {
        self.may_live() && self.stop.is_some_and(|stop| stop.step == StopStep::GivenUp)
    }

    /// Says whether neither the process nor any of its descendants can change the work any more.
    pub fn is_gone(&self) -> bool {
        match self.phase {
            LaunchPhase::Owed | LaunchPhase::Running { .. } => false,
            LaunchPhase::Failed { .. } | LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Ended { .. } => self.gone.is_some(),
        }
    }

    /// Says whether the journal may still bring something.
    pub fn is_followed(&self) -> bool {
        match self.phase {
            LaunchPhase::Running { .. } => true,
            LaunchPhase::Ended { .. } => self.gone.is_none() || self.stream.closed.is_none(),
            LaunchPhase::Owed | LaunchPhase::Unobserved { .. } | LaunchPhase::Failed { .. } => {
                false
            }
        }
    }
}
