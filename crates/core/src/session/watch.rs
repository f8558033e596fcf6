//! Observations of an agent outside its protocol: records that it writes itself, and signals inferred
//! from its screen.
//!
//! The two are different types, so that an inference can never do what only a record may: begin or end a
//! turn, restart the silence window, or confirm input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    command::Rejected,
    effect::Due,
    event::{
        ContextCompacted, ContextTold, Event, MessageDelivered, MessageTyped, ProgressTold,
        RequestSettled, SignalHinted, SignalRecorded, StreamReady, StreamRetrying, TurnEnded,
        TurnStarted, UsageTold,
    },
    launch::{Launch, TurnEnd, TurnState},
    pane::PaneSight,
    state::{Context, Message, MessageFate, MessageKind, Progress, Session, Usage},
    typing::{doubted, given_up, pasted},
};
use crate::{
    ids::{LaunchId, RequestId},
    limits::{MAX_OPEN_REQUESTS, MAX_SAYS},
    request::{Asked, Fate, Request, RequestKind},
    text::shortened,
    time::Moment,
};

/// A record that an agent writes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A command that the agent runs on an event. It arrives once and has no position.
    Hook,
    /// The transcript file of its conversation.
    Rollout,
}

impl Record {
    pub fn word(self) -> &'static str {
        match self {
            Record::Hook => "hook",
            Record::Rollout => "rollout",
        }
    }
}

/// A part of an agent's terminal from which its activity is inferred. Any program that prints there can
/// fake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Glimpse {
    /// The escape code by which an agent reports its state to a terminal.
    Osc,
    Title,
    /// A notification to the user at the terminal.
    Notify,
    /// The content of the screen.
    Screen,
}

impl Glimpse {
    pub fn word(self) -> &'static str {
        match self {
            Glimpse::Osc => "osc",
            Glimpse::Title => "title",
            Glimpse::Notify => "notify",
            Glimpse::Screen => "screen",
        }
    }
}

/// A signal from a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The agent reported its conversation.
    Named {
        thread: String,
    },
    /// The user at its screen switched to this conversation, which is not a hidden one of the agent.
    Moved {
        thread: String,
    },
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
        /// The agent's last message in it.
        says: Option<String>,
    },
    /// The agent took this as input.
    Prompted {
        text: String,
    },
    /// The tokens of the last model call, and the context usage after it.
    Used {
        usage: Usage,
        context: Option<Context>,
    },
    Progress(Progress),
    Asked(Asked),
    /// Its request is settled: it continues.
    WentOn,
    /// It begins to compact its conversation.
    Compacting,
    Compacted,
}

/// A signal inferred from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hinted {
    Working,
    /// It takes input, and nothing blocks that.
    AtPrompt,
    /// It is at its prompt, with unsent text in it.
    Drafted,
    Asks(Asked),
    Retrying {
        detail: String,
    },
    /// It shows that it is done, failed or exits. None of that ends anything.
    Rests,
}

/// The kind of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    Named,
    Moved,
    TurnStarted,
    TurnEnded,
    Prompted,
    Used,
    Progress,
    Asks,
    WentOn,
    Working,
    AtPrompt,
    Drafted,
    Retrying,
    Rests,
    Compacting,
    Compacted,
}

impl Said {
    pub fn word(self) -> &'static str {
        match self {
            Said::Named => "reported its conversation",
            Said::Moved => "switched to another conversation",
            Said::TurnStarted => "turn started",
            Said::TurnEnded => "turn ended",
            Said::Prompted => "took input",
            Said::Used => "used tokens",
            Said::Progress => "progress",
            Said::Asks => "asks",
            Said::WentOn => "continued",
            Said::Working => "working",
            Said::AtPrompt => "at its prompt",
            Said::Drafted => "has unsent text at its prompt",
            Said::Retrying => "retrying",
            Said::Rests => "finished",
            Said::Compacting => "is compacting its conversation",
            Said::Compacted => "compacted its conversation",
        }
    }
}

impl Recorded {
    fn said(&self) -> Said {
        match self {
            Recorded::Named { .. } => Said::Named,
            Recorded::Moved { .. } => Said::Moved,
            Recorded::TurnStarted { .. } => Said::TurnStarted,
            Recorded::TurnEnded { .. } => Said::TurnEnded,
            Recorded::Prompted { .. } => Said::Prompted,
            Recorded::Used { .. } => Said::Used,
            Recorded::Progress(_) => Said::Progress,
            Recorded::Asked(_) => Said::Asks,
            Recorded::WentOn => Said::WentOn,
            Recorded::Compacting => Said::Compacting,
            Recorded::Compacted => Said::Compacted,
        }
    }
}

impl Hinted {
    fn said(&self) -> Said {
        match self {
            Hinted::Working => Said::Working,
            Hinted::AtPrompt => Said::AtPrompt,
            Hinted::Drafted => Said::Drafted,
            Hinted::Asks(_) => Said::Asks,
            Hinted::Retrying { .. } => Said::Retrying,
            Hinted::Rests => Said::Rests,
        }
    }
}

/// The last signal of a source, with its time and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub said: Said,
    pub place: u64,
    pub at: Moment,
}

/// Observations of a launch outside its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watch {
    pub records: BTreeMap<Record, Seen>,
    pub hints: BTreeMap<Glimpse, Seen>,
    /// When a record last showed a turn beginning or ending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned: Option<Moment>,
    /// The turn that ended last. If another record reports it again, it neither begins nor ends again.
    pub last_turn: Option<String>,
    /// Whether the transcript reports turns. Then only the transcript ends a turn: at a hook, the agent
    /// may still be made to continue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turns_on_file: bool,
    /// Whether the transcript being read is still that of the previous conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// The previous conversations, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Whether its process was suspended, as by a terminal's Ctrl-Z.
    pub suspended: bool,
    /// The request approved through Provost, until a record shows that the agent continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<RequestId>,
    /// The observed state of an external agent's pane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pane: Option<PaneSight>,
}

impl Watch {
    /// Whether a record already reported this position. A hook has no positions and arrives once.
    fn has_read(&self, by: Record, place: u64) -> bool {
        match by {
            Record::Hook => false,
            Record::Rollout => self.records.get(&by).is_some_and(|seen| place <= seen.place),
        }
    }

    fn has_shown(&self, by: Glimpse, place: u64) -> bool {
        self.hints.get(&by).is_some_and(|seen| place <= seen.place)
    }

    fn last_hint(&self, by: Glimpse) -> Option<Said> {
        self.hints.get(&by).map(|seen| seen.said)
    }

    /// Whether escape codes reported something else after the screen was read. Then the screen's signal
    /// is news, even if it repeats the one before: codes may be missed, and only the screen shows that
    /// their last signal is outdated.
    fn is_overtaken(&self, by: Glimpse) -> bool {
        by == Glimpse::Screen && self.shows() != self.last_hint(Glimpse::Screen)
    }

    /// Whether a request is visible on the screen. Escape codes report it before it is drawn, when a key
    /// press would go elsewhere.
    fn draws_a_question(&self) -> bool {
        self.shows() == Some(Said::Asks) && self.last_hint(Glimpse::Screen) == Some(Said::Asks)
    }

    /// Whether it is at its prompt, and the prompt is empty as far as the screen was read. The screen is
    /// drawn after its escape codes: until then, text written during the previous turn is not visible.
    fn is_at_an_empty_prompt(&self) -> bool {
        let drawn = self.last_hint(Glimpse::Screen).is_none_or(|said| said == Said::AtPrompt);
        drawn && self.shows() == Some(Said::AtPrompt)
    }

    /// Returns the newest signal that describes the terminal.
    pub fn shows(&self) -> Option<Said> {
        self.newest_hint().map(|(_, seen)| seen.said)
    }

    fn newest_hint(&self) -> Option<(Glimpse, Seen)> {
        let telling = |(by, _): &(&Glimpse, &Seen)| matches!(by, Glimpse::Osc | Glimpse::Screen);
        let newest = self.hints.iter().filter(telling).max_by_key(|(_, seen)| seen.place);
        newest.map(|(by, seen)| (*by, *seen))
    }
}

/// How long two sources may contradict each other before it is shown: one often lags behind.
const CONTRADICTION_MS: u64 = 2_000;

/// A terminal signal that contradicts the agent's transcript. It has no effect: the transcript is
/// trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub shows: Said,
    pub by: Glimpse,
    /// Whether a turn is open according to the records.
    pub in_turn: bool,
    pub since: Moment,
}

impl Launch {
    /// Returns a lasting contradiction between a running agent's records and its terminal.
    pub fn contradiction(&self, now_ms: u64) -> Option<Contradiction> {
        if !self.may_live() {
            return None;
        }
        let (by, seen) = self.watch.newest_hint()?;
        let turned = self.watch.turned?;
        let in_turn = self.is_in_recorded_turn();
        let contradicts = match seen.said {
            Said::AtPrompt | Said::Drafted | Said::Rests => in_turn,
            Said::Working | Said::Retrying => !in_turn,
            Said::Named
            | Said::Moved
            | Said::TurnStarted
            | Said::TurnEnded
            | Said::Prompted
            | Said::Used
            | Said::Progress
            | Said::Asks
            | Said::WentOn
            | Said::Compacting
            | Said::Compacted => false,
        };
        let since = if seen.at.mono_ms > turned.mono_ms { seen.at } else { turned };
        let lasts = now_ms >= since.deadline(CONTRADICTION_MS);
        let told = Contradiction { shows: seen.said, by, in_turn, since };
        (contradicts && lasts).then_some(told)
    }
}

/// The prefix of ids for requests inferred from a terminal, for which the agent has no ids.
const SEEN: &str = "seen-";

impl Request {
    /// Whether the request is only inferred from a terminal.
    pub(super) fn is_guessed(&self) -> bool {
        self.asked.native.starts_with(SEEN)
    }

    fn is_guessed_by(&self, by: Glimpse) -> bool {
        let guess = self.asked.native.strip_prefix(SEEN);
        guess.is_some_and(|guess| guess.starts_with(by.word()))
    }
}

type Decision = Result<Vec<Event>, Rejected>;

impl Session {
    /// Records a signal of an agent's record, once.
    pub(super) fn recorded(
        &self,
        id: LaunchId,
        by: Record,
        place: u64,
        what: &Recorded,
    ) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        if let Recorded::Moved { thread } = what {
            return self.moved(launch, by, thread);
        }
        let behind = launch.watch.is_behind(by, what, self.thread.as_deref());
        let ends = matches!(what, Recorded::TurnEnded { .. });
        let early = ends && by == Record::Hook && launch.watch.turns_on_file;
        if behind || early || launch.watch.has_read(by, place) {
            return Err(Rejected::Nothing);
        }
        let then = self.follows_from(launch, what);
        let bytes = match by {
            // A hook counts as a report: any descendant of the agent can send one.
            Record::Hook => then.iter().map(|event| event.encode().len()).sum(),
            Record::Rollout => 0,
        };
        if by == Record::Hook && !then.is_empty() && !launch.reports.has_room_for(bytes) {
            return self.refuse_report(launch);
        }
        let seen = SignalRecorded { launch: id, by, place, said: what.said(), bytes: bytes as u64 };
        // A hook is stored only if it causes events or is awaited.
        let awaited = *what == Recorded::WentOn && launch.watch.approved.is_some();
        if then.is_empty() && by == Record::Hook && !awaited {
            return Err(Rejected::Nothing);
        }
        Ok(std::iter::once(seen.into()).chain(then).collect())
    }

    fn follows_from(&self, launch: &Launch, what: &Recorded) -> Vec<Event> {
        let (id, cursor) = (launch.id, launch.cursor);
        match what.clone() {
            Recorded::Named { thread } => {
                let known = launch.stream.ready && self.thread.as_ref() == Some(&thread);
                let new = !known && !self.is_another(launch, &thread);
                let ready = || StreamReady { launch: id, thread: Some(thread.clone()), cursor };
                new.then(|| ready().into()).into_iter().collect()
            }
            // Handled separately.
            Recorded::Moved { .. } => Vec::new(),
            Recorded::TurnStarted { turn } => {
                if launch.knows_turn(turn.as_deref()) {
                    return Vec::new();
                }
                let started = TurnStarted { launch: id, turn, cursor }.into();
                // A record is read after the screen is drawn: a request on the screen now belongs to
                // this turn.
                let asks = launch.watch.shows() == Some(Said::Asks);
                let went_on = (!asks).then(|| self.went_on(launch)).into_iter().flatten();
                // A user at its screen may have begun any turn; otherwise the queued message did.
                let alone = !launch.adopted;
                let compacts =
                    self.compact_taken(id, |typed| alone && !launch.was_attended_since(typed));
                went_on.chain(compacts).chain([started]).collect()
            }
            Recorded::TurnEnded { turn, end, says } => {
                if !launch.has_open(turn.as_deref()) {
                    return Vec::new();
                }
                // The transcript has secret answers in plain text, and so may the agent's last message.
                let secret = self.requests.iter().any(|request| request.asked.is_secret());
                let says = if secret { None } else { says };
                let says = says.map(|says| shortened(&says, MAX_SAYS));
                let ended = TurnEnded { launch: id, turn, end, usage: None, says, cursor };
                let ended = ended.into();
                let lost = self.give_up_what_no_turn_took(launch);
                self.went_on(launch).chain([ended]).chain(lost).collect()
            }
            Recorded::Prompted { text } => self.taken(id, &text).into_iter().collect(),
            Recorded::Used { usage, context } => {
                let new = context.filter(|context| self.context != Some(*context));
                let told = new.map(|context| ContextTold { launch: id, context, cursor }.into());
                let used = UsageTold { launch: id, usage, cursor }.into();
                std::iter::once(used).chain(told).collect()
            }
            Recorded::Progress(progress) => {
                vec![ProgressTold { launch: id, progress, cursor: Some(cursor) }.into()]
            }
            Recorded::Asked(asked) => self.ask(launch, asked).into_iter().collect(),
            Recorded::WentOn => self.went_on(launch).collect(),
            Recorded::Compacting => self.compact_taken(id, |_| true).into_iter().collect(),
            Recorded::Compacted => {
                let compacted = ContextCompacted { launch: id, cursor }.into();
                self.compact_taken(id, |_| true).into_iter().chain([compacted]).collect()
            }
        }
    }

    /// Records a signal inferred from a terminal, if it differs from the previous one.
    pub(super) fn hinted(&self, id: LaunchId, by: Glimpse, place: u64, what: &Hinted) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let same = launch.watch.last_hint(by) == Some(what.said())
            && !launch.watch.is_overtaken(by)
            && !self.asks_otherwise(launch, by, what);
        if launch.watch.has_shown(by, place) || same || launch.has_ended() {
            return Err(Rejected::Nothing);
        }
        let seen = SignalHinted { launch: id, by, place, said: what.said() }.into();
        // The source that showed the request shows that it was settled; others may lag behind.
        let showed_it = launch.watch.last_hint(by) == Some(Said::Asks);
        // A screen is drawn and read after its escape codes: until it shows their request, it lags
        // behind.
        let behind = by == Glimpse::Screen && !showed_it;
        let guessed = |r: &Request| r.is_guessed() && !(behind && r.is_guessed_by(Glimpse::Osc));
        // A terminal that is active again shows that an approval was granted in it. This unlocks
        // nothing, because no text is typed into an open turn.
        let approved =
            |r: &Request| showed_it && (guessed(r) || r.asked.kind == RequestKind::Approval);
        let answered = || showed_it.then(|| self.answered(launch)).into_iter().flatten();
        let then: Vec<Event> = match what.clone() {
            Hinted::Asks(asked) => {
                let native = format!("{SEEN}{}-{place}", by.word());
                self.guess(launch, by, Asked { native, ..asked })
            }
            Hinted::Working => answered().chain(self.settled(launch, approved)).collect(),
            Hinted::AtPrompt | Hinted::Drafted | Hinted::Rests => {
                answered().chain(self.settled(launch, guessed)).collect()
            }
            Hinted::Retrying { detail } => {
                let retrying = StreamRetrying { launch: id, detail, cursor: launch.cursor };
                let tries = launch.is_in_turn() && !launch.stream.retrying;
                tries.then(|| retrying.into()).into_iter().collect()
            }
        };
        Ok(std::iter::once(seen).chain(then).collect())
    }

    /// Opens a request, unless the same one is already open, under any id.
    pub(super) fn ask(&self, launch: &Launch, asked: Asked) -> Option<Event> {
        let guessed = asked.native.starts_with(SEEN);
        // An answered request that is visible until the answer is typed is not a new one.
        let same = |request: &Request| request.is_open() && request.asked.native == asked.native;
        let known = self.unsettled(launch.id).any(|request| guessed || same(request));
        let room = self.open_requests().count() < MAX_OPEN_REQUESTS;
        (!known && room && launch.may_live())
            .then(|| self.asked(launch.id, asked, launch.cursor).into())
    }

    /// Settles all requests of an agent that continues: it took the typed answer, and a user at its
    /// terminal settled the rest.
    pub(super) fn went_on<'a>(&'a self, launch: &'a Launch) -> impl Iterator<Item = Event> + 'a {
        self.answered(launch).chain(self.settled(launch, |_| true))
    }

    fn settled<'a>(
        &'a self,
        launch: &'a Launch,
        which: impl Fn(&Request) -> bool + 'a,
    ) -> impl Iterator<Item = Event> + 'a {
        let of_it = move |request: &&Request| request.launch == launch.id && which(request);
        self.open_requests().filter(of_it).map(|request| {
            let fate = Fate::AnsweredElsewhere;
            RequestSettled { request: request.id, fate, cursor: None }.into()
        })
    }

    /// Returns the delivery of the typed message that a record confirms.
    fn taken(&self, launch: LaunchId, text: &str) -> Option<Event> {
        let typed = |message: &&Message| {
            message.fate == MessageFate::Queued
                && message.typed.is_some_and(|typed| typed.launch == launch)
                && same_text(&message.text, text)
        };
        let key = self.messages.iter().find(typed)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }
}

impl Session {
    /// Returns the delivery of a typed `/compact`. It is not input of the conversation, so no record
    /// contains it; the agent's behaviour confirms it.
    fn compact_taken(&self, launch: LaunchId, shows: impl Fn(&Typed) -> bool) -> Option<Event> {
        let took = |typed: Typed| typed.launch == launch && shows(&typed);
        let told = |message: &&Message| {
            message.kind == MessageKind::Compact
                && message.fate == MessageFate::Queued
                && message.typed.is_some_and(took)
        };
        let key = self.messages.iter().find(told)?.key.clone();
        Some(MessageDelivered { key, launch }.into())
    }
}

/// Compares texts. Terminals change line endings, agents trim their input, and control characters are
/// not pasted.
fn same_text(sent: &str, recorded: &str) -> bool {
    let lines =
        |text: &str| pasted(text).trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    lines(sent) == lines(recorded)
}

impl Launch {
    /// Whether a turn with this id is open or has already ended.
    fn knows_turn(&self, turn: Option<&str>) -> bool {
        turn.is_some() && (self.turn() == turn || self.watch.last_turn.as_deref() == turn)
    }

    /// Whether this turn is the open one. A turn without an id may be any.
    fn has_open(&self, turn: Option<&str>) -> bool {
        let ended = turn.is_some() && self.watch.last_turn.as_deref() == turn;
        let other = turn.is_some() && self.turn().is_some_and(|open| Some(open) != turn);
        self.is_in_turn() && !ended && !other
    }

    /// Whether a turn is open or expected.
    pub(crate) fn is_in_turn(&self) -> bool {
        matches!(self.stream.turn, TurnState::Open { .. })
    }

    /// Whether a turn is open and not only expected. An expected turn begins with the typed input.
    pub(super) fn is_in_recorded_turn(&self) -> bool {
        self.is_in_turn() && !self.stream.expected
    }
}

/// A message that was typed and is not confirmed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typed {
    pub launch: LaunchId,
    pub at: Moment,
    pub way: Way,
}

/// The state of a typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On the agent's command line. The agent takes it when it is ready.
    CommandLine,
    /// It is about to be typed into an external pane.
    Typing,
    /// It was not typed, because the pane took no keys. It waits as before.
    Untyped,
    Keys,
    /// It was not confirmed: Enter is to be pressed once more.
    Again,
    /// Enter is about to be pressed in an external pane.
    Pressing,
    /// Enter was pressed once more.
    Pressed,
    /// Unconfirmed: it may be in the terminal, so it is not typed again.
    Doubted,
}

/// The suffix of a message's key for the second press of Enter.
const AGAIN: &str = "-again";

/// Returns the key under which Enter is pressed once more for a message.
pub fn again(message: &str) -> String {
    format!("{message}{AGAIN}")
}

/// The reason nothing is typed into a terminal now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    TurnOpen,
    Asks,
    AsksNoMore,
    /// It shows another request than the answered one.
    AsksElse,
    /// The interrupt was sent before an approval, and the approved action is running.
    Approved,
    Attended,
    NotAtPrompt,
    /// Its prompt contains unsent text, which would be sent with the message.
    Drafted,
    Unproved,
    Suspended,
    /// Its external pane was not observed yet.
    PaneUnseen,
    Pane(PaneSight),
}

impl HeldBack {
    pub fn word(self) -> &'static str {
        match self {
            HeldBack::TurnOpen => "it is in a turn",
            HeldBack::Asks => "it has an open request, and the text would answer it",
            HeldBack::AsksNoMore => "its screen does not show the request",
            HeldBack::AsksElse => "it has another open request, which the answer might reach",
            HeldBack::Approved => "an action approved after it is not finished yet",
            HeldBack::Attended => "a user is at its screen",
            HeldBack::NotAtPrompt => "it is not known to be at its prompt",
            HeldBack::Drafted => "its prompt has unsent text, which would be sent with it",
            HeldBack::Unproved => "earlier input is not in the agent's transcript yet",
            HeldBack::Suspended => "its process is suspended",
            HeldBack::PaneUnseen => "its pane was not observed yet",
            HeldBack::Pane(sight) => sight.word(),
        }
    }
}

impl Session {
    /// Records that input was written. With a protocol it has reached the agent; with a terminal it has
    /// only reached the terminal, as far as is known.
    pub(super) fn input_seen(&self, key: &str, launch: LaunchId) -> Decision {
        let queued = |key: &str| {
            self.messages.iter().find(|m| m.write_key() == key && m.fate == MessageFate::Queued)
        };
        // An interrupt key is not text that a transcript could confirm: its turn ends, or does not.
        let presses = queued(key).is_some_and(|message| message.kind == MessageKind::Interrupt);
        if !self.spec.agent.driver.has_terminal() || presses {
            let message = queued(key).ok_or(Rejected::Nothing)?;
            return Ok(vec![MessageDelivered { key: message.key.clone(), launch }.into()]);
        }
        let pressed = key.strip_suffix(AGAIN).and_then(queued);
        let (message, from, to) = match pressed {
            Some(message) => (message, Some(Way::Again), Way::Pressed),
            None => (queued(key).ok_or(Rejected::Nothing)?, None, Way::Keys),
        };
        // An agent that has ended cannot confirm the input, and another one does not get it again.
        let ended = !self.launch(launch).is_some_and(Launch::may_live);
        let typed = MessageTyped { key: message.key.clone(), launch, way: to };
        if message.typed.map(|typed| typed.way) != from {
            return Err(Rejected::Nothing);
        }
        Ok(vec![if ended { given_up(message) } else { typed.into() }])
    }

    /// Returns the typed input that is not confirmed yet, with its deadline. A command-line text has
    /// none: the agent takes it when it is ready, however long its dialogs are open.
    fn to_be_proved(&self) -> impl Iterator<Item = (&Message, Typed, u64)> {
        let waits = |way| matches!(way, Way::Typing | Way::Keys | Way::Pressing | Way::Pressed);
        let runs = |id| self.launch(id).is_some_and(Launch::may_live);
        let queued = self.messages.iter().filter(|m| m.fate == MessageFate::Queued);
        let typed = queued.filter_map(|m| Some((m, m.typed?)));
        let waiting = typed.filter(move |(_, typed)| waits(typed.way) && runs(typed.launch));
        waiting.map(|(m, typed)| (m, typed, typed.at.deadline(self.spec.bounds.proof_ms)))
    }

    pub(super) fn proof_deadline(&self) -> Option<(u64, Due)> {
        let proof = self.to_be_proved().map(|(_, _, at)| (at, Due::Proof));
        proof.chain(self.doubt_deadline()).min_by_key(|(at, _)| *at)
    }

    /// Retries Enter for input that was not confirmed in time, and then marks it as unconfirmed.
    pub(super) fn doubt_what_was_typed(&self, now: Moment) -> Option<Event> {
        let (message, typed, _) = self.to_be_proved().find(|(_, _, at)| now.mono_ms >= *at)?;
        let key = message.key.clone();
        // Pressing Enter would answer the agent's request, perhaps wrongly.
        let sends = message.kind != MessageKind::Answer && self.may_press_again(&typed);
        Some(match typed.way {
            Way::Keys if sends => {
                MessageTyped { key, launch: typed.launch, way: Way::Again }.into()
            }
            Way::CommandLine
            | Way::Typing
            | Way::Untyped
            | Way::Keys
            | Way::Again
            | Way::Pressing
            | Way::Pressed
            | Way::Doubted => doubted(message, typed.launch),
        })
    }

    /// Returns the reason a message may not be typed into a launch's terminal now, or none if it may. An
    /// answer needs its request on the screen; everything else needs a prompt.
    pub fn held_back(&self, launch: &Launch, message: &Message) -> Option<HeldBack> {
        let asks = self.open_requests().any(|request| request.launch == launch.id)
            || launch.watch.shows() == Some(Said::Asks);
        let drafted = launch.watch.last_hint(Glimpse::Screen) == Some(Said::Drafted);
        let answers = message.kind == MessageKind::Answer;
        let by_pane = self.pane_holds_back(launch);
        let interrupts = message.kind == MessageKind::Interrupt;
        let prompted = !answers && !interrupts;
        // A key press waits for the one before it, but not for the confirmation of a text.
        let before = |m: &Message, way: Way| {
            prompted || (m.kind == MessageKind::Answer && way != Way::Doubted)
        };
        let typed = |m: &Message| {
            m.fate == MessageFate::Queued && m.typed.is_some_and(|typed| before(m, typed.way))
        };
        let reasons = [
            (launch.watch.suspended, HeldBack::Suspended),
            (self.messages.iter().any(typed), HeldBack::Unproved),
            (launch.people > 0, HeldBack::Attended),
            (answers && !self.is_asked_now(launch, message), HeldBack::AsksElse),
            (answers && !launch.watch.draws_a_question(), HeldBack::AsksNoMore),
            (!answers && asks, HeldBack::Asks),
            (!answers && self.has_answer_to_type(launch.id), HeldBack::Asks),
            (interrupts && self.was_approved_after(launch, message), HeldBack::Approved),
            (prompted && launch.is_in_recorded_turn(), HeldBack::TurnOpen),
            (prompted && drafted, HeldBack::Drafted),
            (prompted && !launch.watch.is_at_an_empty_prompt(), HeldBack::NotAtPrompt),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why).or(by_pane)
    }
}
