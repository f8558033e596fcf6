//! Observations of an agent outside its protocol: records that the agent writes itself, and signals
//! inferred from its screen.
//!
//! Records and inferred signals are separate types, so that an inference can never do what only a
//! record may do: start or end a turn, restart the silence window, or confirm input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    command::SessionRejection,
    effect::DeadlineKind,
    event::{
        ContextCompacted, ContextReported, Event, MessageDelivered, MessageTyped, ProgressReported,
        RequestSettled, SignalInferred, SignalRecorded, StreamReady, StreamRetrying, TurnEnded,
        TurnStarted, UsageReported,
    },
    launch::{Launch, TurnEnd, TurnState},
    pane::PaneState,
    state::{
        AgentMessage, AgentMessageKind, ContextUsage, DeliveryStatus, Progress, Session, Usage,
    },
    typing::{drop_unconfirmed, mark_unconfirmed, pasteable_text},
};
use crate::{
    ids::{LaunchId, RequestId},
    limits::{MAX_OPEN_REQUESTS, MAX_SAYS},
    request::{AgentRequest, Request, RequestKind, RequestStatus},
    text::shortened,
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
    fn signal_kind(&self) -> SignalKind {
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
    fn signal_kind(&self) -> SignalKind {
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
    fn has_read(&self, by: RecordSource, place: u64) -> bool {
        match by {
            RecordSource::Hook => false,
            RecordSource::Rollout => self.records.get(&by).is_some_and(|seen| place <= seen.place),
        }
    }

    fn has_shown(&self, by: ScreenSource, place: u64) -> bool {
        self.hints.get(&by).is_some_and(|seen| place <= seen.place)
    }

    fn last_hint(&self, by: ScreenSource) -> Option<SignalKind> {
        self.hints.get(&by).map(|seen| seen.said)
    }

    /// Whether escape codes reported something else after the screen was read. If so, the signal
    /// from the screen counts as new even if it repeats the previous one. Escape codes may be
    /// missed, and then only the screen shows that the last one is outdated.
    fn is_overtaken(&self, by: ScreenSource) -> bool {
        by == ScreenSource::Screen && self.shown_signal() != self.last_hint(ScreenSource::Screen)
    }

    /// Whether a request is visible on the screen. Escape codes announce a request before it is
    /// drawn, when a key press would still go elsewhere.
    fn shows_request_on_screen(&self) -> bool {
        self.shown_signal() == Some(SignalKind::Asks)
            && self.last_hint(ScreenSource::Screen) == Some(SignalKind::Asks)
    }

    /// Whether the agent is at its prompt, and the prompt was empty when the screen was last read.
    /// The screen is drawn after the escape codes arrive, so until then, text that was written
    /// during the previous turn is not visible.
    fn is_at_an_empty_prompt(&self) -> bool {
        let drawn = self
            .last_hint(ScreenSource::Screen)
            .is_none_or(|signal| signal == SignalKind::AtPrompt);
        drawn && self.shown_signal() == Some(SignalKind::AtPrompt)
    }

    /// Returns the newest signal that describes the terminal.
    pub fn shown_signal(&self) -> Option<SignalKind> {
        self.newest_hint().map(|(_, seen)| seen.said)
    }

    fn newest_hint(&self) -> Option<(ScreenSource, LastSignal)> {
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
const INFERRED_PREFIX: &str = "seen-";

impl Request {
    /// Whether the request was only inferred from a terminal.
    pub(super) fn is_inferred(&self) -> bool {
        self.asked.native.starts_with(INFERRED_PREFIX)
    }

    fn is_inferred_from(&self, by: ScreenSource) -> bool {
        let guess = self.asked.native.strip_prefix(INFERRED_PREFIX);
        guess.is_some_and(|guess| guess.starts_with(by.as_str()))
    }
}

type CommandResult = Result<Vec<Event>, SessionRejection>;

impl Session {
    /// Records a signal from one of the agent's records, once.
    pub(super) fn decide_record(
        &self,
        id: LaunchId,
        by: RecordSource,
        place: u64,
        what: &RecordSignal,
    ) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        if let RecordSignal::ThreadSwitched { thread } = what {
            return self.decide_thread_switch(launch, by, thread);
        }
        let behind = launch.watch.lags_behind(by, what, self.thread.as_deref());
        let ends = matches!(what, RecordSignal::TurnEnded { .. });
        let early = ends && by == RecordSource::Hook && launch.watch.turns_on_file;
        if behind || early || launch.watch.has_read(by, place) {
            return Err(SessionRejection::NothingNew);
        }
        let then = self.events_for_record(launch, what);
        let bytes = match by {
            // A hook counts as a report, because any descendant of the agent can send one.
            RecordSource::Hook => then.iter().map(|event| event.encode().len()).sum(),
            RecordSource::Rollout => 0,
        };
        if by == RecordSource::Hook && !then.is_empty() && !launch.reports.has_room_for(bytes) {
            return self.mark_reports_refused(launch);
        }
        let seen =
            SignalRecorded { launch: id, by, place, said: what.signal_kind(), bytes: bytes as u64 };
        // Store a hook only if it causes events or something is waiting for it.
        let awaited = *what == RecordSignal::Continued && launch.watch.approved.is_some();
        if then.is_empty() && by == RecordSource::Hook && !awaited {
            return Err(SessionRejection::NothingNew);
        }
        Ok(std::iter::once(seen.into()).chain(then).collect())
    }

    fn events_for_record(&self, launch: &Launch, what: &RecordSignal) -> Vec<Event> {
        let (id, cursor) = (launch.id, launch.cursor);
        match what.clone() {
            RecordSignal::ThreadNamed { thread } => {
                let known = launch.stream.ready && self.thread.as_ref() == Some(&thread);
                let new = !known && !self.is_other_thread(launch, &thread);
                let ready = || StreamReady { launch: id, thread: Some(thread.clone()), cursor };
                new.then(|| ready().into()).into_iter().collect()
            }
            // `decide_thread_switch` handles this signal.
            RecordSignal::ThreadSwitched { .. } => Vec::new(),
            RecordSignal::TurnStarted { turn } => {
                if launch.knows_turn(turn.as_deref()) {
                    return Vec::new();
                }
                let started = TurnStarted { launch: id, turn, cursor }.into();
                // A record is read after the screen is drawn, so a request that is on the screen
                // now belongs to this turn.
                let asks = launch.watch.shown_signal() == Some(SignalKind::Asks);
                let went_on = (!asks).then(|| self.settle_all(launch)).into_iter().flatten();
                // A user at the agent's screen may have started the turn. Otherwise, the queued
                // message did.
                let alone = !launch.adopted;
                let compacts =
                    self.confirm_compact(id, |typed| alone && !launch.was_attended_since(typed));
                went_on.chain(compacts).chain([started]).collect()
            }
            RecordSignal::TurnEnded { turn, end, says } => {
                if !launch.has_open(turn.as_deref()) {
                    return Vec::new();
                }
                // The transcript contains secret answers in plain text, and the agent's last
                // message may as well.
                let secret = self.requests.iter().any(|request| request.asked.is_secret());
                let says = if secret { None } else { says };
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                let ended = TurnEnded { launch: id, turn, end, usage: None, says, cursor };
                let ended = ended.into();
                let lost = self.drop_input_no_turn_took(launch);
                self.settle_all(launch).chain([ended]).chain(lost).collect()
            }
            RecordSignal::InputTaken { text } => {
                self.confirm_typed(id, &text).into_iter().collect()
            }
            RecordSignal::UsageReported { usage, context } => {
                let new = context.filter(|context| self.context != Some(*context));
                let reported =
                    new.map(|context| ContextReported { launch: id, context, cursor }.into());
                let used = UsageReported { launch: id, usage, cursor }.into();
                std::iter::once(used).chain(reported).collect()
            }
            RecordSignal::Progress(progress) => {
                vec![ProgressReported { launch: id, progress, cursor: Some(cursor) }.into()]
            }
            RecordSignal::RequestOpened(asked) => {
                self.open_new_request(launch, asked).into_iter().collect()
            }
            RecordSignal::Continued => self.settle_all(launch).collect(),
            RecordSignal::Compacting => self.confirm_compact(id, |_| true).into_iter().collect(),
            RecordSignal::Compacted => {
                let compacted = ContextCompacted { launch: id, cursor }.into();
                self.confirm_compact(id, |_| true).into_iter().chain([compacted]).collect()
            }
        }
    }

    /// Records a signal inferred from a terminal, if it differs from the previous one.
    pub(super) fn decide_hint(
        &self,
        id: LaunchId,
        by: ScreenSource,
        place: u64,
        what: &ScreenHint,
    ) -> CommandResult {
        let launch = self.launch(id).ok_or(SessionRejection::UnknownLaunch(id))?;
        let same = launch.watch.last_hint(by) == Some(what.signal_kind())
            && !launch.watch.is_overtaken(by)
            && !self.shows_other_request(launch, by, what);
        if launch.watch.has_shown(by, place) || same || launch.has_ended() {
            return Err(SessionRejection::NothingNew);
        }
        let seen = SignalInferred { launch: id, by, place, said: what.signal_kind() }.into();
        // The source that showed the request also shows that it was settled. Other sources may lag behind.
        let showed_it = launch.watch.last_hint(by) == Some(SignalKind::Asks);
        // A screen is drawn and read after its escape codes arrive, so it lags behind until it
        // shows the request that they announced.
        let behind = by == ScreenSource::Screen && !showed_it;
        let guessed =
            |r: &Request| r.is_inferred() && !(behind && r.is_inferred_from(ScreenSource::Osc));
        // If a terminal is active again, an approval was granted there. Even then, nothing may be
        // typed, because no text is typed into an open turn.
        let approved =
            |r: &Request| showed_it && (guessed(r) || r.asked.kind == RequestKind::Approval);
        let answered = || showed_it.then(|| self.settle_answers(launch)).into_iter().flatten();
        let then: Vec<Event> = match what.clone() {
            ScreenHint::ShowsRequest(asked) => {
                let native = format!("{INFERRED_PREFIX}{}-{place}", by.as_str());
                self.infer_request(launch, by, AgentRequest { native, ..asked })
            }
            ScreenHint::Working => {
                answered().chain(self.settle_requests(launch, approved)).collect()
            }
            ScreenHint::AtPrompt | ScreenHint::UnsentText | ScreenHint::Finished => {
                answered().chain(self.settle_requests(launch, guessed)).collect()
            }
            ScreenHint::Retrying { detail } => {
                let retrying = StreamRetrying { launch: id, detail, cursor: launch.cursor };
                let tries = launch.is_in_turn() && !launch.stream.retrying;
                tries.then(|| retrying.into()).into_iter().collect()
            }
        };
        Ok(std::iter::once(seen).chain(then).collect())
    }

    /// Opens a request, unless it is already open under this or another id.
    pub(super) fn open_new_request(&self, launch: &Launch, asked: AgentRequest) -> Option<Event> {
        let guessed = asked.native.starts_with(INFERRED_PREFIX);
        // A request stays visible until its answer has been typed, so it is not a new request.
        let same = |request: &Request| request.is_open() && request.asked.native == asked.native;
        let known = self.unsettled_requests(launch.id).any(|request| guessed || same(request));
        let room = self.open_requests().count() < MAX_OPEN_REQUESTS;
        (!known && room && launch.may_be_running())
            .then(|| self.request_opened(launch.id, asked, launch.cursor).into())
    }

    /// Settles all requests of an agent that continues: it received the typed answer, and a user at
    /// its terminal settled the others.
    pub(super) fn settle_all<'a>(&'a self, launch: &'a Launch) -> impl Iterator<Item = Event> + 'a {
        self.settle_answers(launch).chain(self.settle_requests(launch, |_| true))
    }

    fn settle_requests<'a>(
        &'a self,
        launch: &'a Launch,
        which: impl Fn(&Request) -> bool + 'a,
    ) -> impl Iterator<Item = Event> + 'a {
        let of_it = move |request: &&Request| request.launch == launch.id && which(request);
        self.open_requests().filter(of_it).map(|request| {
            let fate = RequestStatus::AnsweredElsewhere;
            RequestSettled { request: request.id, status: fate, cursor: None }.into()
        })
    }

    /// Confirms the delivery of the typed message that appears in a record.
    fn confirm_typed(&self, launch: LaunchId, text: &str) -> Option<Event> {
        let typed = |message: &&AgentMessage| {
            message.status == DeliveryStatus::Queued
                && message.typed.is_some_and(|typed| typed.launch == launch)
                && same_text(&message.text, text)
        };
        let key = self.messages.iter().find(typed)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }
}

impl Session {
    /// Confirms the delivery of a typed `/compact`. The command is not part of the conversation, so
    /// no record contains it, and only the agent's behavior shows that it arrived.
    fn confirm_compact(
        &self,
        launch: LaunchId,
        shows: impl Fn(&TypedInput) -> bool,
    ) -> Option<Event> {
        let took = |typed: TypedInput| typed.launch == launch && shows(&typed);
        let is_typed_compact = |message: &&AgentMessage| {
            message.kind == AgentMessageKind::Compact
                && message.status == DeliveryStatus::Queued
                && message.typed.is_some_and(took)
        };
        let key = self.messages.iter().find(is_typed_compact)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }
}

/// Compares texts, ignoring that terminals change line endings, agents trim their input, and
/// control characters are not pasted.
fn same_text(sent: &str, recorded: &str) -> bool {
    let lines = |text: &str| {
        pasteable_text(text).trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    lines(sent) == lines(recorded)
}

impl Launch {
    /// Whether a turn with this id is open or has already ended.
    fn knows_turn(&self, turn: Option<&str>) -> bool {
        turn.is_some() && (self.turn() == turn || self.watch.last_turn.as_deref() == turn)
    }

    /// Whether this turn is the open one. A turn without an id matches any open turn.
    fn has_open(&self, turn: Option<&str>) -> bool {
        let ended = turn.is_some() && self.watch.last_turn.as_deref() == turn;
        let other = turn.is_some() && self.turn().is_some_and(|open| Some(open) != turn);
        self.is_in_turn() && !ended && !other
    }

    /// Whether a turn is open or expected.
    pub(crate) fn is_in_turn(&self) -> bool {
        matches!(self.stream.turn, TurnState::Open { .. })
    }

    /// Whether a turn is open and not merely expected. An expected turn starts with the typed input.
    pub(super) fn is_in_recorded_turn(&self) -> bool {
        self.is_in_turn() && !self.stream.expected
    }
}

/// A message that was typed but is not confirmed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedInput {
    pub launch: LaunchId,
    pub at: Moment,
    pub state: TypingState,
}

/// The progress of typing a text into a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypingState {
    /// The text is on the agent's command line. The agent reads it when it is ready.
    CommandLine,
    /// The text is about to be typed into an external pane.
    Typing,
    /// The text was not typed, because the pane accepted no keys. It stays queued.
    Untyped,
    Typed,
    /// The text was not confirmed, so Enter will be pressed again.
    RetryEnter,
    /// Enter is about to be pressed in an external pane.
    Pressing,
    /// Enter was pressed again.
    Pressed,
    /// The text may be in the terminal, so it is not typed again.
    Unconfirmed,
}

/// The suffix that is added to a message's key for the second press of Enter.
const ENTER_RETRY_SUFFIX: &str = "-again";

/// Returns the key under which Enter is pressed again for a message.
pub fn enter_retry_key(message: &str) -> String {
    format!("{message}{ENTER_RETRY_SUFFIX}")
}

/// The reason why nothing can be typed into a terminal right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputBlocked {
    TurnOpen,
    RequestOpen,
    RequestNotShown,
    /// The screen shows a different request than the one that was answered.
    OtherRequestOpen,
    /// The interrupt was sent before an approval, and the approved action is still running.
    ApprovedActionRunning,
    Attended,
    NotAtPrompt,
    /// The prompt contains unsent text, which would be sent with the message.
    UnsentText,
    EarlierInputUnconfirmed,
    Suspended,
    /// The external pane has not been observed yet.
    PaneUnobserved,
    Pane(PaneState),
}

impl InputBlocked {
    pub fn describe(self) -> &'static str {
        match self {
            InputBlocked::TurnOpen => "it is in a turn",
            InputBlocked::RequestOpen => "it has an open request, and the text would answer it",
            InputBlocked::RequestNotShown => "its screen does not show the request",
            InputBlocked::OtherRequestOpen => {
                "it has another open request, which the answer might reach"
            }
            InputBlocked::ApprovedActionRunning => {
                "an action that was approved later has not finished yet"
            }
            InputBlocked::Attended => "a user is at its screen",
            InputBlocked::NotAtPrompt => "it is not known to be at its prompt",
            InputBlocked::UnsentText => "its prompt has unsent text, which would be sent with it",
            InputBlocked::EarlierInputUnconfirmed => {
                "earlier input is not in the agent's transcript yet"
            }
            InputBlocked::Suspended => "its process is suspended",
            InputBlocked::PaneUnobserved => "its pane has not been observed yet",
            InputBlocked::Pane(sight) => sight.describe(),
        }
    }
}

impl Session {
    /// Records that input was written. With a protocol, the input has reached the agent. With a
    /// terminal, it is only known to have reached the terminal.
    pub(super) fn input_seen(&self, key: &str, launch: LaunchId) -> CommandResult {
        let queued = |key: &str| {
            self.messages
                .iter()
                .find(|m| m.write_key() == key && m.status == DeliveryStatus::Queued)
        };
        // A transcript never confirms an interrupt key: the turn either ends or it does not.
        let presses =
            queued(key).is_some_and(|message| message.kind == AgentMessageKind::Interrupt);
        if !self.spec.agent.interface.has_terminal() || presses {
            let message = queued(key).ok_or(SessionRejection::NothingNew)?;
            return Ok(vec![MessageDelivered { key: message.key.clone(), launch }.into()]);
        }
        let pressed = key.strip_suffix(ENTER_RETRY_SUFFIX).and_then(queued);
        let (message, from, to) = match pressed {
            Some(message) => (message, Some(TypingState::RetryEnter), TypingState::Pressed),
            None => (queued(key).ok_or(SessionRejection::NothingNew)?, None, TypingState::Typed),
        };
        // An agent that has exited cannot confirm the input. The input is not sent to its successor.
        let ended = !self.launch(launch).is_some_and(Launch::may_be_running);
        let typed = MessageTyped { key: message.key.clone(), launch, state: to };
        if message.typed.map(|typed| typed.state) != from {
            return Err(SessionRejection::NothingNew);
        }
        Ok(vec![if ended { drop_unconfirmed(message) } else { typed.into() }])
    }

    /// Returns typed input that is not confirmed yet, with its deadline. A text on the command line
    /// has no deadline, because the agent reads it when it is ready, no matter how long its dialogs
    /// stay open.
    fn awaiting_confirmation(&self) -> impl Iterator<Item = (&AgentMessage, TypedInput, u64)> {
        let waits = |state| {
            matches!(
                state,
                TypingState::Typing
                    | TypingState::Typed
                    | TypingState::Pressing
                    | TypingState::Pressed
            )
        };
        let runs = |id| self.launch(id).is_some_and(Launch::may_be_running);
        let queued = self.messages.iter().filter(|m| m.status == DeliveryStatus::Queued);
        let typed = queued.filter_map(|m| Some((m, m.typed?)));
        let waiting = typed.filter(move |(_, typed)| waits(typed.state) && runs(typed.launch));
        waiting.map(|(m, typed)| (m, typed, typed.at.deadline(self.spec.bounds.confirm_ms)))
    }

    pub(super) fn confirmation_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let proof =
            self.awaiting_confirmation().map(|(_, _, at)| (at, DeadlineKind::InputConfirmation));
        proof.chain(self.unconfirmed_deadline()).min_by_key(|(at, _)| *at)
    }

    /// Presses Enter again for input that was not confirmed in time. If that does not help, marks
    /// the input as unconfirmed.
    pub(super) fn mark_input_unconfirmed(&self, now: Moment) -> Option<Event> {
        let (message, typed, _) =
            self.awaiting_confirmation().find(|(_, _, at)| now.mono_ms >= *at)?;
        let key = message.key.clone();
        // Pressing Enter could give the wrong answer to the agent's request.
        let sends = message.kind != AgentMessageKind::Answer && self.may_retry_enter(&typed);
        Some(match typed.state {
            TypingState::Typed if sends => {
                MessageTyped { key, launch: typed.launch, state: TypingState::RetryEnter }.into()
            }
            TypingState::CommandLine
            | TypingState::Typing
            | TypingState::Untyped
            | TypingState::Typed
            | TypingState::RetryEnter
            | TypingState::Pressing
            | TypingState::Pressed
            | TypingState::Unconfirmed => mark_unconfirmed(message, typed.launch),
        })
    }

    /// Returns why a message cannot be typed into a launch's terminal right now, or None if it can.
    /// An answer requires its request to be on the screen; anything else requires a prompt.
    pub fn input_blocked(&self, launch: &Launch, message: &AgentMessage) -> Option<InputBlocked> {
        let asks = self.open_requests().any(|request| request.launch == launch.id)
            || launch.watch.shown_signal() == Some(SignalKind::Asks);
        let drafted = launch.watch.last_hint(ScreenSource::Screen) == Some(SignalKind::UnsentText);
        let answers = message.kind == AgentMessageKind::Answer;
        let by_pane = self.pane_block(launch);
        let interrupts = message.kind == AgentMessageKind::Interrupt;
        let prompted = !answers && !interrupts;
        // A key press waits for the previous one, but not for the confirmation of a text.
        let before = |m: &AgentMessage, state: TypingState| {
            prompted || (m.kind == AgentMessageKind::Answer && state != TypingState::Unconfirmed)
        };
        let typed = |m: &AgentMessage| {
            m.status == DeliveryStatus::Queued
                && m.typed.is_some_and(|typed| before(m, typed.state))
        };
        let reasons = [
            (launch.watch.suspended, InputBlocked::Suspended),
            (self.messages.iter().any(typed), InputBlocked::EarlierInputUnconfirmed),
            (launch.viewers > 0, InputBlocked::Attended),
            (
                answers && !self.answers_current_request(launch, message),
                InputBlocked::OtherRequestOpen,
            ),
            (answers && !launch.watch.shows_request_on_screen(), InputBlocked::RequestNotShown),
            (!answers && asks, InputBlocked::RequestOpen),
            (!answers && self.has_answer_to_type(launch.id), InputBlocked::RequestOpen),
            (
                interrupts && self.was_approved_after(launch, message),
                InputBlocked::ApprovedActionRunning,
            ),
            (prompted && launch.is_in_recorded_turn(), InputBlocked::TurnOpen),
            (prompted && drafted, InputBlocked::UnsentText),
            (prompted && !launch.watch.is_at_an_empty_prompt(), InputBlocked::NotAtPrompt),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why).or(by_pane)
    }
}
