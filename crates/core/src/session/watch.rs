//! What is seen of an agent beside its protocol: what its own records say, and what its screen lets guess.
//!
//! The two are different types, so that a guess can never do what only a record may: begin or end a turn, move the
//! silence window, prove that an input was taken.

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

/// Where an agent writes down itself what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A command that the agent runs when something happens. It comes once and has no place.
    Hook,
    /// The file of its conversation.
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

/// What of an agent's terminal lets guess what it does. Anything that prints there can say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Glimpse {
    /// The escape code by which an agent tells its state to a terminal.
    Osc,
    Title,
    /// A notification to whoever is at the terminal.
    Notify,
    /// What stands on the screen.
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

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The agent named its conversation.
    Named {
        thread: String,
    },
    /// Whoever is at its screen goes on in this conversation, which is no hidden one of its own.
    Moved {
        thread: String,
    },
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
        /// What the agent said last in it.
        says: Option<String>,
    },
    /// The agent took this as input.
    Prompted {
        text: String,
    },
    /// What the last call of the model took, and how full its context is since.
    Used {
        usage: Usage,
        context: Option<Context>,
    },
    Progress(Progress),
    Asked(Asked),
    /// What it had asked is settled: it goes on.
    WentOn,
    /// It begins to make its conversation shorter.
    Compacting,
    Compacted,
}

/// What a terminal lets guess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hinted {
    Working,
    /// It takes input: nothing stands in its way.
    AtPrompt,
    /// It is at its prompt, where something is written that was not sent.
    Drafted,
    Asks(Asked),
    Retrying {
        detail: String,
    },
    /// It says that it is done, or that it failed, or that it leaves; none of that ends anything.
    Rests,
}

/// What was said, in one word for people.
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
            Said::Named => "named its conversation",
            Said::Moved => "went on in another conversation",
            Said::TurnStarted => "turn started",
            Said::TurnEnded => "turn ended",
            Said::Prompted => "took input",
            Said::Used => "used tokens",
            Said::Progress => "progress",
            Said::Asks => "asks",
            Said::WentOn => "went on",
            Said::Working => "working",
            Said::AtPrompt => "at its prompt",
            Said::Drafted => "something is written at its prompt",
            Said::Retrying => "retrying",
            Said::Rests => "rests",
            Said::Compacting => "compacts its conversation",
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

/// The last that a source said, when, and where that stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub said: Said,
    pub place: u64,
    pub at: Moment,
}

/// What is seen of a launch beside its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watch {
    pub records: BTreeMap<Record, Seen>,
    pub hints: BTreeMap<Glimpse, Seen>,
    /// When a turn was recorded to begin or to end last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned: Option<Moment>,
    /// The turn that ended last: told once more by another record, it is not begun or ended again.
    pub last_turn: Option<String>,
    /// Whether the file that is read tells of turns. Then it alone says that one is over: at a hook the agent may be told to
    /// go on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turns_on_file: bool,
    /// Whether the file that is read is still that of the conversation that was left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// The conversations that were left for others, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Whether its process was stopped, as by a terminal's ctrl-Z.
    pub suspended: bool,
    /// What was approved here, as long as no record shows that the agent went on after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<RequestId>,
    /// What is seen of the pane of an agent that somebody else started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pane: Option<PaneSight>,
}

impl Watch {
    /// Says whether a record has told what stands at this place before. A hook has no places and comes once.
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

    /// Says whether the codes said something else after the screen was read: what the screen shows now is news, though it be
    /// the same as before. Codes may be missed, and then nothing else tells that what they said last is over.
    fn is_overtaken(&self, by: Glimpse) -> bool {
        by == Glimpse::Screen && self.shows() != self.last_hint(Glimpse::Screen)
    }

    /// Says whether a question stands on the screen. Escape codes tell of one before it is drawn: a key that is
    /// pressed then goes elsewhere.
    fn draws_a_question(&self) -> bool {
        self.shows() == Some(Said::Asks) && self.last_hint(Glimpse::Screen) == Some(Said::Asks)
    }

    /// Says whether it is at its prompt, and as far as its screen is read nothing is written there. The screen is drawn
    /// after the codes that tell of it: until it is, what was written in the turn before is not seen.
    fn is_at_an_empty_prompt(&self) -> bool {
        let drawn = self.last_hint(Glimpse::Screen).is_none_or(|said| said == Said::AtPrompt);
        drawn && self.shows() == Some(Said::AtPrompt)
    }

    /// Gives what the terminal shows, by the newest of what tells that.
    pub fn shows(&self) -> Option<Said> {
        self.newest_hint().map(|(_, seen)| seen.said)
    }

    fn newest_hint(&self) -> Option<(Glimpse, Seen)> {
        let telling = |(by, _): &(&Glimpse, &Seen)| matches!(by, Glimpse::Osc | Glimpse::Screen);
        let newest = self.hints.iter().filter(telling).max_by_key(|(_, seen)| seen.place);
        newest.map(|(by, seen)| (*by, *seen))
    }
}

/// How long two sources may contradict each other before that is shown: one is often later than the other.
const CONTRADICTION_MS: u64 = 2_000;

/// What a terminal shows though the agent's own record says otherwise. It changes nothing: the record is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub shows: Said,
    pub by: Glimpse,
    /// Whether a turn is open, as was recorded.
    pub in_turn: bool,
    pub since: Moment,
}

impl Launch {
    /// Gives the contradiction between what a living agent records and what its terminal shows, if it lasts.
    pub fn contradiction(&self, now_ms: u64) -> Option<Contradiction> {
        let (by, seen) = self.watch.newest_hint().filter(|_| self.may_live())?;
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

/// The beginning of the names of requests that a terminal lets guess, which the agent has no names for.
const SEEN: &str = "seen-";

impl Request {
    /// Says whether only a terminal lets guess that this is asked.
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
    /// Takes what a record of the agent says, once.
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
            // A hook is a report: whatever runs below the agent can make one.
            Record::Hook => then.iter().map(|event| event.encode().len()).sum(),
            Record::Rollout => 0,
        };
        if by == Record::Hook && !then.is_empty() && !launch.reports.has_room_for(bytes) {
            return self.refuse_report(launch);
        }
        let seen = SignalRecorded { launch: id, by, place, said: what.said(), bytes: bytes as u64 };
        // Of a hook nothing has to be kept but what came of it, or what is waited for.
        let awaited = *what == Recorded::WentOn && launch.watch.approved.is_some();
        match then.is_empty() && by == Record::Hook && !awaited {
            true => Err(Rejected::Nothing),
            false => Ok(std::iter::once(seen.into()).chain(then).collect()),
        }
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
            // It is decided by itself.
            Recorded::Moved { .. } => Vec::new(),
            Recorded::TurnStarted { turn } => match launch.knows_turn(turn.as_deref()) {
                true => Vec::new(),
                false => {
                    let started = TurnStarted { launch: id, turn, cursor }.into();
                    // A record is read later than a screen is drawn: what is asked there now is asked in this turn.
                    let asks = launch.watch.shows() == Some(Said::Asks);
                    let went_on = self.went_on(launch).filter(|_| !asks);
                    // Whoever was at its screen may have begun any turn; otherwise it is what it was told.
                    let alone = !launch.adopted;
                    let compacts =
                        self.compact_taken(id, |typed| alone && !launch.was_attended_since(typed));
                    went_on.chain(compacts).chain([started]).collect()
                }
            },
            Recorded::TurnEnded { turn, end, says } => match launch.has_open(turn.as_deref()) {
                false => Vec::new(),
                true => {
                    // The agent's own record has secret answers in clear, and so may what it says of them.
                    let secret = self.requests.iter().any(|request| request.asked.is_secret());
                    let says = says.filter(|_| !secret).map(|says| shortened(&says, MAX_SAYS));
                    let ended = TurnEnded { launch: id, turn, end, usage: None, says, cursor };
                    let ended = ended.into();
                    let lost = self.give_up_what_no_turn_took(launch);
                    self.went_on(launch).chain([ended]).chain(lost).collect()
                }
            },
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

    /// Takes what a terminal lets guess, if it is another thing than before.
    pub(super) fn hinted(&self, id: LaunchId, by: Glimpse, place: u64, what: &Hinted) -> Decision {
        let launch = self.launch(id).ok_or(Rejected::UnknownLaunch(id))?;
        let same = launch.watch.last_hint(by) == Some(what.said())
            && !launch.watch.is_overtaken(by)
            && !self.asks_otherwise(launch, by, what);
        if launch.watch.has_shown(by, place) || same || launch.has_ended() {
            return Err(Rejected::Nothing);
        }
        let seen = SignalHinted { launch: id, by, place, said: what.said() }.into();
        // Whoever showed the question shows that it was settled; the others may not have come to it yet.
        let showed_it = launch.watch.last_hint(by) == Some(Said::Asks);
        // A screen is drawn, and looked at, after the codes that tell of it: until it shows their question, it is behind.
        let behind = by == Glimpse::Screen && !showed_it;
        let guessed = |r: &Request| r.is_guessed() && !(behind && r.is_guessed_by(Glimpse::Osc));
        // A terminal that works again shows that an approval was given in it. Nothing is typed into an open turn
        // whatever it shows, so that nothing is unlocked by that.
        let approved =
            |r: &Request| showed_it && (guessed(r) || r.asked.kind == RequestKind::Approval);
        let answered = || self.answered(launch).filter(|_| showed_it);
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

    /// Opens a request, unless the same is open already, under whatever name.
    pub(super) fn ask(&self, launch: &Launch, asked: Asked) -> Option<Event> {
        let guessed = asked.native.starts_with(SEEN);
        // What is answered, and stands there until the answer is typed, is no other request.
        let same = |request: &Request| request.is_open() && request.asked.native == asked.native;
        let known = self.unsettled(launch.id).any(|request| guessed || same(request));
        let room = self.open_requests().count() < MAX_OPEN_REQUESTS;
        (!known && room && launch.may_live())
            .then(|| self.asked(launch.id, asked, launch.cursor).into())
    }

    /// An agent that goes on has taken the answer that was typed, and whoever is at its terminal has settled the rest
    /// of what it had asked.
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

    /// The agent's own record shows that it took what was typed.
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
    /// What an agent is told to compact its conversation is no input of that, and so in no record: what it does then
    /// shows that it took it.
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

/// Terminals change the ends of lines, agents trim what they are given, and what cannot be pasted was not.
fn same_text(sent: &str, recorded: &str) -> bool {
    let lines =
        |text: &str| pasted(text).trim().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    lines(sent) == lines(recorded)
}

impl Launch {
    /// Says whether a turn of this name is open or has ended already.
    fn knows_turn(&self, turn: Option<&str>) -> bool {
        turn.is_some() && (self.turn() == turn || self.watch.last_turn.as_deref() == turn)
    }

    /// Says whether it is this turn that is open. One without a name may be any.
    fn has_open(&self, turn: Option<&str>) -> bool {
        let ended = turn.is_some() && self.watch.last_turn.as_deref() == turn;
        let other = turn.is_some() && self.turn().is_some_and(|open| Some(open) != turn);
        self.is_in_turn() && !ended && !other
    }

    /// Says whether a turn is open, or expected.
    pub(crate) fn is_in_turn(&self) -> bool {
        matches!(self.stream.turn, TurnState::Open { .. })
    }

    /// Says whether a turn is open, and not only expected: what is expected begins with what is typed.
    pub(super) fn is_in_recorded_turn(&self) -> bool {
        self.is_in_turn() && !self.stream.expected
    }
}

/// A message that was typed and has yet to be proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typed {
    pub launch: LaunchId,
    pub at: Moment,
    pub way: Way,
}

/// How a text came into a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On the command line of the agent, which takes it when it is ready.
    CommandLine,
    /// It is about to be typed into somebody else's pane.
    Typing,
    /// Nothing of it was typed, for the pane took no keys: it waits as before.
    Untyped,
    Keys,
    /// Nothing showed that it was taken: the key that sends it is to be pressed once more.
    Again,
    /// It is about to be pressed in somebody else's pane.
    Pressing,
    /// That was done.
    Pressed,
    /// Nobody knows whether it stands in the terminal, so that it is not typed again.
    Doubted,
}

/// What is added to the key of a message for the second press of the key that sends it.
const AGAIN: &str = "-again";

/// Gives the key under which the key that sends a message is pressed once more.
pub fn again(message: &str) -> String {
    format!("{message}{AGAIN}")
}

/// Why nothing is typed into a terminal now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    TurnOpen,
    Asks,
    AsksNoMore,
    /// It asks something else than what was answered.
    AsksElse,
    /// It was told to leave its turn before something in that was approved, which it does now.
    Approved,
    Attended,
    NotAtPrompt,
    /// Something is written at its prompt, and would be sent with the text.
    Drafted,
    Unproved,
    Suspended,
    /// Its pane is somebody else's and was not looked at yet.
    PaneUnseen,
    Pane(PaneSight),
}

impl HeldBack {
    pub fn word(self) -> &'static str {
        match self {
            HeldBack::TurnOpen => "it is in a turn",
            HeldBack::Asks => "it asks something, and the text would answer that",
            HeldBack::AsksNoMore => "its screen does not show what it asks",
            HeldBack::AsksElse => "it asks something else too, and the answer might reach that",
            HeldBack::Approved => "what was approved after that is not done yet",
            HeldBack::Attended => "somebody is at its screen",
            HeldBack::NotAtPrompt => "it is not seen to be at its prompt",
            HeldBack::Drafted => "something is written at its prompt, and would be sent with it",
            HeldBack::Unproved => "what was typed before is not in the agent's own record yet",
            HeldBack::Suspended => "its process is stopped",
            HeldBack::PaneUnseen => "its pane was not looked at yet",
            HeldBack::Pane(sight) => sight.word(),
        }
    }
}

impl Session {
    /// What was written to an agent with a protocol has reached it. What was typed into a terminal has reached the
    /// terminal, and nobody else as far as is known.
    pub(super) fn input_seen(&self, key: &str, launch: LaunchId) -> Decision {
        let queued = |key: &str| {
            self.messages.iter().find(|m| m.write_key() == key && m.fate == MessageFate::Queued)
        };
        // A key that interrupts is no text that the agent could be seen to take: its turn ends, or does not.
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
        // An agent that has ended shows no more whether it took it, and another is not given it again.
        let ended = !self.launch(launch).is_some_and(Launch::may_live);
        let typed = MessageTyped { key: message.key.clone(), launch, way: to };
        match message.typed.map(|typed| typed.way) == from {
            true if ended => Ok(vec![given_up(message)]),
            true => Ok(vec![typed.into()]),
            false => Err(Rejected::Nothing),
        }
    }

    /// Gives what was typed and has to be proved, with the time that it has for that. What stands on a command line is
    /// taken when the agent is ready for it, however long its dialogs are open.
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

    /// What the agent's record does not show in time is sent off once more, and then doubted.
    pub(super) fn doubt_what_was_typed(&self, now: Moment) -> Option<Event> {
        let (message, typed, _) = self.to_be_proved().find(|(_, _, at)| now.mono_ms >= *at)?;
        let key = message.key.clone();
        // To press the key that sends would answer what the agent asks, and perhaps otherwise.
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

    /// Says why a message may not be typed into the terminal of a launch now, or nothing if it may be. An answer goes
    /// to whom it is seen to ask, and everything else to a prompt.
    pub fn held_back(&self, launch: &Launch, message: &Message) -> Option<HeldBack> {
        let asks = self.open_requests().any(|request| request.launch == launch.id)
            || launch.watch.shows() == Some(Said::Asks);
        let drafted = launch.watch.last_hint(Glimpse::Screen) == Some(Said::Drafted);
        let answers = message.kind == MessageKind::Answer;
        let by_pane = self.pane_holds_back(launch);
        let interrupts = message.kind == MessageKind::Interrupt;
        let prompted = !answers && !interrupts;
        // A key waits for the key before it; whether a text was taken says nothing of what is asked after it.
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
