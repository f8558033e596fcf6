//! Observations of an agent outside its protocol: records that the agent writes itself, and signals
//! inferred from its screen.
//!
//! Records and inferred signals are separate types, so that an inference can never do what only a
//! record may do: start or end a turn, restart the silence window, or confirm input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::RequestId,
    request::{AgentRequest, Request},
    session::{
        input::pane::PaneState,
        launch::{Launch, TurnEnd, TurnState},
        state::{ContextUsage, Progress, Usage},
    },
    time::Moment,
};

/// A record that an agent writes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordSource {
    /// A command that the agent runs on certain events. It arrives once and has no position.
    Hook,
    /// The transcript file of the agent's conversation.
    Rollout,
}

impl RecordSource {
    pub fn as_str(self) -> &'static str {
        match self {
            RecordSource::Hook => "hook",
            RecordSource::Rollout => "rollout",
        }
    }
}

/// A part of an agent's terminal from which its activity is inferred. Any program that prints to
/// the terminal can fake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenSource {
    /// The escape code with which an agent reports its state to the terminal.
    Osc,
    Title,
    /// A notification to the user at the terminal.
    Notify,
    /// The content of the screen.
    Screen,
}

impl ScreenSource {
    pub fn as_str(self) -> &'static str {
        match self {
            ScreenSource::Osc => "osc",
            ScreenSource::Title => "title",
            ScreenSource::Notify => "notify",
            ScreenSource::Screen => "screen",
        }
    }
}

/// A signal that was read from a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordSignal {
    /// The agent reported its conversation.
    ThreadNamed {
        thread: String,
    },
    /// The user at the agent's screen switched to this conversation, which is not one of the
    /// agent's hidden ones.
    ThreadSwitched {
        thread: String,
    },
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
        /// The agent's last message in the turn.
        says: Option<String>,
    },
    /// The agent accepted this text as input.
    InputTaken {
        text: String,
    },
    /// The tokens of the last model call, and the context usage after it.
    UsageReported {
        usage: Usage,
        context: Option<ContextUsage>,
    },
    Progress(Progress),
    RequestOpened(AgentRequest),
    /// The agent's request is settled, and the agent continues.
    Continued,
    /// The agent has started to compact its conversation.
    Compacting,
    Compacted,
}

/// A signal that was inferred from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenHint {
    Working,
    /// The agent is ready for input, and nothing blocks it.
    AtPrompt,
    /// The agent is at its prompt, which contains unsent text.
    UnsentText,
    ShowsRequest(AgentRequest),
    Retrying {
        detail: String,
    },
    /// The screen shows that the agent has finished, failed or exited. This hint alone ends neither
    /// a turn nor the process.
    Finished,
}

/// The kind of signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    Named,
    Moved,
    TurnStarted,
    TurnEnded,
    Prompted,
    Used,
    Progress,
    Asks,
    Continued,
    Working,
    AtPrompt,
    UnsentText,
    Retrying,
    Finished,
    Compacting,
    Compacted,
}

impl SignalKind {
    pub fn describe(self) -> &'static str {
        match self {
            SignalKind::Named => "reported its conversation",
            SignalKind::Moved => "switched to another conversation",
            SignalKind::TurnStarted => "turn started",
            SignalKind::TurnEnded => "turn ended",
            SignalKind::Prompted => "took input",
            SignalKind::Used => "used tokens",
            SignalKind::Progress => "progress",
            SignalKind::Asks => "asks",
            SignalKind::Continued => "continued",
            SignalKind::Working => "working",
            SignalKind::AtPrompt => "at its prompt",
            SignalKind::UnsentText => "has unsent text at its prompt",
            SignalKind::Retrying => "retrying",
            SignalKind::Finished => "finished",
            SignalKind::Compacting => "is compacting its conversation",
            SignalKind::Compacted => "compacted its conversation",
        }
    }
}

impl RecordSignal {
    pub(super) fn signal_kind(&self) -> SignalKind {
        match self {
            RecordSignal::ThreadNamed { .. } => SignalKind::Named,
            RecordSignal::ThreadSwitched { .. } => SignalKind::Moved,
            RecordSignal::TurnStarted { .. } => SignalKind::TurnStarted,
            RecordSignal::TurnEnded { .. } => SignalKind::TurnEnded,
            RecordSignal::InputTaken { .. } => SignalKind::Prompted,
            RecordSignal::UsageReported { .. } => SignalKind::Used,
            RecordSignal::Progress(_) => SignalKind::Progress,
            RecordSignal::RequestOpened(_) => SignalKind::Asks,
            RecordSignal::Continued => SignalKind::Continued,
            RecordSignal::Compacting => SignalKind::Compacting,
            RecordSignal::Compacted => SignalKind::Compacted,
        }
    }
}

impl ScreenHint {
    pub(super) fn signal_kind(&self) -> SignalKind {
        match self {
            ScreenHint::Working => SignalKind::Working,
            ScreenHint::AtPrompt => SignalKind::AtPrompt,
            ScreenHint::UnsentText => SignalKind::UnsentText,
            ScreenHint::ShowsRequest(_) => SignalKind::Asks,
            ScreenHint::Retrying { .. } => SignalKind::Retrying,
            ScreenHint::Finished => SignalKind::Finished,
        }
    }
}

/// The last signal of a source, with its time and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSignal {
    pub said: SignalKind,
    pub place: u64,
    pub at: Moment,
}

/// Observations of a launch from outside its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchWatch {
    pub records: BTreeMap<RecordSource, LastSignal>,
    pub hints: BTreeMap<ScreenSource, LastSignal>,
    /// The time at which a record last showed that a turn started or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_changed_at: Option<Moment>,
    /// The turn that ended last. If another record reports the same turn, it is not started or ended again.
    pub last_turn: Option<String>,
    /// Whether the transcript reports turns. If it does, only the transcript can end a turn,
    /// because a hook may run shortly before the agent is made to continue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turns_on_file: bool,
    /// Whether the transcript being read is still that of the previous conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// The previous conversations, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous_threads: Vec<String>,
    /// Whether the process was suspended, for example with Ctrl-Z.
    pub suspended: bool,
    /// The request that was approved through Provost. Cleared when a record shows that the agent continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<RequestId>,
    /// The observed state of an external agent's pane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pane: Option<PaneState>,
}

impl LaunchWatch {
    /// Whether this position of the record was already read. A hook has no positions and arrives only once.
    pub(super) fn has_read(&self, by: RecordSource, place: u64) -> bool {
        match by {
            RecordSource::Hook => false,
            RecordSource::Rollout => self.records.get(&by).is_some_and(|seen| place <= seen.place),
        }
    }

    pub(super) fn has_shown(&self, by: ScreenSource, place: u64) -> bool {
        self.hints.get(&by).is_some_and(|seen| place <= seen.place)
    }

    pub(super) fn last_hint(&self, by: ScreenSource) -> Option<SignalKind> {
        self.hints.get(&by).map(|seen| seen.said)
    }

    /// Whether escape codes reported something else after the screen was read. If so, the signal
    /// from the screen counts as new even if it repeats the previous one. Escape codes may be
    /// missed, and then only the screen shows that the last one is outdated.
    pub(super) fn is_overtaken(&self, by: ScreenSource) -> bool {
        by == ScreenSource::Screen && self.shown_signal() != self.last_hint(ScreenSource::Screen)
    }

    /// Whether a request is visible on the screen. Escape codes announce a request before it is
    /// drawn, when a key press would still go elsewhere.
    pub(super) fn shows_request_on_screen(&self) -> bool {
        self.shown_signal() == Some(SignalKind::Asks)
            && self.last_hint(ScreenSource::Screen) == Some(SignalKind::Asks)
    }

    /// Whether the agent is at its prompt, and the prompt was empty when the screen was last read.
    /// The screen is drawn after the escape codes arrive, so until then, text that was written
    /// during the previous turn is not visible.
    pub(super) fn is_at_an_empty_prompt(&self) -> bool {
        let drawn = self
            .last_hint(ScreenSource::Screen)
            .is_none_or(|signal| signal == SignalKind::AtPrompt);
        drawn && self.shown_signal() == Some(SignalKind::AtPrompt)
    }

    /// Returns the newest signal that describes the terminal.
    pub fn shown_signal(&self) -> Option<SignalKind> {
        self.newest_hint().map(|(_, seen)| seen.said)
    }

    pub(super) fn newest_hint(&self) -> Option<(ScreenSource, LastSignal)> {
        let shows_state = |(by, _): &(&ScreenSource, &LastSignal)| {
            matches!(by, ScreenSource::Osc | ScreenSource::Screen)
        };
        let newest = self.hints.iter().filter(shows_state).max_by_key(|(_, seen)| seen.place);
        newest.map(|(by, seen)| (*by, *seen))
    }
}

/// The time that two sources may contradict each other before the contradiction is shown. One
/// source often lags behind the other.
const CONTRADICTION_MS: u64 = 2_000;

/// A terminal signal that contradicts the agent's transcript. It has no effect, because the
/// transcript takes precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub shows: SignalKind,
    pub by: ScreenSource,
    /// Whether a turn is open according to the records.
    pub in_turn: bool,
    pub since: Moment,
}

impl Launch {
    /// Returns the contradiction between a running agent's records and its terminal, if it has
    /// lasted long enough.
    pub fn contradiction(&self, now_ms: u64) -> Option<Contradiction> {
        if !self.may_be_running() {
            return None;
        }
        let (by, seen) = self.watch.newest_hint()?;
        let turned = self.watch.turn_changed_at?;
        let in_turn = self.is_in_recorded_turn();
        let contradicts = match seen.said {
            SignalKind::AtPrompt | SignalKind::UnsentText | SignalKind::Finished => in_turn,
            SignalKind::Working | SignalKind::Retrying => !in_turn,
            SignalKind::Named
            | SignalKind::Moved
            | SignalKind::TurnStarted
            | SignalKind::TurnEnded
            | SignalKind::Prompted
            | SignalKind::Used
            | SignalKind::Progress
            | SignalKind::Asks
            | SignalKind::Continued
            | SignalKind::Compacting
            | SignalKind::Compacted => false,
        };
        let since = if seen.at.mono_ms > turned.mono_ms { seen.at } else { turned };
        let lasts = now_ms >= since.deadline(CONTRADICTION_MS);
        let found = Contradiction { shows: seen.said, by, in_turn, since };
        (contradicts && lasts).then_some(found)
    }
}

/// The prefix of the ids of requests that were inferred from a terminal, for which the agent
/// provides no ids.
pub(super) const INFERRED_PREFIX: &str = "seen-";

impl Request {
    /// Whether the request was only inferred from a terminal.
    pub(in crate::session) fn is_inferred(&self) -> bool {
        self.asked.native.starts_with(INFERRED_PREFIX)
    }

    pub(super) fn is_inferred_from(&self, by: ScreenSource) -> bool {
        let guess = self.asked.native.strip_prefix(INFERRED_PREFIX);
        guess.is_some_and(|guess| guess.starts_with(by.as_str()))
    }
}

impl Launch {
    /// Whether a turn with this id is open or has already ended.
    pub(super) fn knows_turn(&self, turn: Option<&str>) -> bool {
        turn.is_some() && (self.turn() == turn || self.watch.last_turn.as_deref() == turn)
    }

    /// Whether this turn is the open one. A turn without an id matches any open turn.
    pub(super) fn has_open(&self, turn: Option<&str>) -> bool {
        let ended = turn.is_some() && self.watch.last_turn.as_deref() == turn;
        let other = turn.is_some() && self.turn().is_some_and(|open| Some(open) != turn);
        self.is_in_turn() && !ended && !other
    }

    /// Whether a turn is open or expected.
    pub(crate) fn is_in_turn(&self) -> bool {
        matches!(self.stream.turn, TurnState::Open { .. })
    }

    /// Whether a turn is open and not merely expected. An expected turn starts with the typed input.
    pub(in crate::session) fn is_in_recorded_turn(&self) -> bool {
        self.is_in_turn() && !self.stream.expected
    }
}
