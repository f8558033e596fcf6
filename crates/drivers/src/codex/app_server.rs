//! The app-server protocol: a fold over the lines in both directions.
//!
//! Only turns of the session's own thread are turns of the session. Sub-agents have their own
//! threads: their usage and their requests count for the session, their turns do not.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use provost_core::{
    limits::MAX_OPEN_REQUESTS,
    request::Asked,
    result::ResultForm,
    session::{Context, Signal, TurnEnd},
};
use serde_json::{Value, json};

use super::{
    capabilities::{FLOOR, Fitness, Record, Version, methods_in},
    ends::{self, Limits},
    handshake,
    items::{Item, OpenItems},
    native::Native,
    notes::{Note, Place},
    outbox::Outbox,
    pending::{MAX_WAITING, Pending, Requests},
    requests, result,
    say::{COMPACT, INTERRUPT, MESSAGE, RESULT},
    settings::Settings,
    tools,
    usage::Meter,
    wire::{self, Id, Message, Outcome, text},
};
use crate::{
    Opening, Protocol, Write,
    tools::{Called, NOT_THE_MAIN_AGENT, NOTED, call},
};

/// The method that ends commands which a turn left running.
const CLEAN: &str = "thread/backgroundTerminals/clean";

/// Maximum number of remembered turns that were asked for a result; the newest ones matter.
const MAX_RESULTS: usize = 20;

/// Capacity of the deferred-signal queue; exceeds the request limit.
const MAX_LATE: usize = 2 * MAX_OPEN_REQUESTS;

/// Follows one app-server.
#[derive(Debug)]
pub(crate) struct AppServer {
    opening: Opening,
    stage: Stage,
    version: Version,
    record: Option<Record>,
    /// The session's own thread, once it is known.
    root: Option<String>,
    /// The open turn of that thread.
    turn: Option<String>,
    /// The end of a turn, held back until the commands it left running are ended too.
    cleaning: Option<Cleaning>,
    /// The turns that were asked for a result.
    results: VecDeque<String>,
    items: OpenItems,
    requests: Requests,
    meter: Meter,
    limits: Limits,
    /// How full the context of the session's own thread is, as last reported.
    context: Option<Context>,
    /// The settings of the session's own thread, as far as reported.
    settings: Option<Settings>,
    outbox: Outbox,
    /// Further signals of a line, returned with later lines that yield none.
    late: VecDeque<Signal>,
    /// The last answer in the open turn.
    words: Option<String>,
    /// Whether the session's own thread has an active goal: then the server starts the next turn
    /// itself.
    goal: bool,
}

/// A turn that has ended for the agent while its background commands are still being ended.
#[derive(Debug)]
struct Cleaning {
    /// The id of the cleanup request; its answer releases the signal.
    key: String,
    ended: Signal,
}

/// The progress of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Probing,
    Opening,
    Working,
    /// One side rejected the other; further lines are ignored.
    Refused,
}

impl AppServer {
    pub(crate) fn new(opening: Opening) -> AppServer {
        let mut server = AppServer {
            root: opening.thread.clone(),
            stage: Stage::Greeting,
            version: Version(0, 0, 0),
            record: None,
            turn: None,
            cleaning: None,
            results: VecDeque::new(),
            items: OpenItems::default(),
            requests: Requests::default(),
            meter: Meter::new(opening.thread.clone()),
            limits: Limits::default(),
            context: None,
            settings: None,
            outbox: Outbox::default(),
            late: VecDeque::new(),
            words: None,
            goal: false,
            opening,
        };
        server.owe(handshake::hello());
        server
    }
}

impl Protocol for AppServer {
    fn read(&mut self, line: &[u8]) -> Option<Signal> {
        if self.stage == Stage::Refused {
            return None;
        }
        let message = Message::read(line)?;
        self.heard(message).or_else(|| self.late.pop_front())
    }

    fn wrote(&mut self, key: &str) -> bool {
        self.outbox.wrote(key)
    }

    fn owed(&self) -> Vec<Write> {
        self.outbox.all()
    }

    fn remembers(&self) -> bool {
        true
    }
}

// The handshake, and the answers to our requests.
impl AppServer {
    fn heard(&mut self, message: Message) -> Option<Signal> {
        match message {
            Message::Answer { id, outcome } => self.answered(id.ours()?, outcome),
            Message::Request { id, method, params } => self.requested(&id, &method, &params),
            Message::Note { method, params, at_ms } => {
                self.noted(Note::read(&method, &params)?, at_ms)
            }
        }
    }

    fn answered(&mut self, id: &str, outcome: Outcome) -> Option<Signal> {
        match (id, self.stage) {
            (handshake::HELLO, Stage::Greeting) => self.greeted(outcome),
            (handshake::PROBE, Stage::Probing) => self.probed(outcome),
            (handshake::THREAD, Stage::Opening) => self.opened(outcome),
            (id, Stage::Working) => self.said(id, outcome),
            (_, Stage::Greeting | Stage::Probing | Stage::Opening | Stage::Refused) => None,
        }
    }

    fn greeted(&mut self, outcome: Outcome) -> Option<Signal> {
        let told = match outcome {
            Ok(told) => told,
            Err(why) => return self.refuse(format!("codex rejected the initialization: {why}")),
        };
        let agent = text(&told, "userAgent").unwrap_or_default();
        let Some(version) = Version::of_user_agent(agent) else {
            return self.refuse(format!("codex did not report its version: {agent:?}"));
        };
        self.version = version;
        if version < FLOOR {
            let fitness = Record { version, methods: None }.fitness();
            return self.judged(fitness);
        }
        self.stage = Stage::Probing;
        self.owe(handshake::ready());
        self.owe(handshake::probe());
        None
    }

    /// Every server rejects the probe; the error lists the methods that it accepts.
    fn probed(&mut self, outcome: Outcome) -> Option<Signal> {
        let methods = outcome.err().as_deref().and_then(methods_in);
        let record = Record { version: self.version, methods };
        let fitness = record.fitness();
        self.record = Some(record);
        self.judged(fitness)
    }

    fn judged(&mut self, fitness: Fitness) -> Option<Signal> {
        let warned = match fitness {
            Fitness::Unfit(reason) => return self.refuse(reason),
            Fitness::Less(text) => Some(Signal::Warned { text }),
            Fitness::Whole => None,
        };
        self.stage = Stage::Opening;
        self.owe(handshake::thread(&self.opening));
        warned
    }

    fn opened(&mut self, outcome: Outcome) -> Option<Signal> {
        let opened = outcome.and_then(|told| {
            self.settings = Some(Settings::opened(&told));
            let thread = text(&told["thread"], "id").map(str::to_owned);
            thread.ok_or_else(|| "the answer names no thread".to_owned())
        });
        match (opened, &self.opening.thread) {
            (Ok(other), Some(wanted)) if other != *wanted => {
                self.refuse_thread(&format!("it opened another one: {other}"))
            }
            (Ok(thread), _) => {
                self.stage = Stage::Working;
                self.root = Some(thread.clone());
                Some(Signal::Ready { thread: Some(thread) })
            }
            (Err(why), _) => self.refuse_thread(&why),
        }
    }

    fn refuse_thread(&mut self, why: &str) -> Option<Signal> {
        let reason = handshake::refused(self.version, &self.opening, why);
        self.refuse(reason)
    }

    fn refuse(&mut self, reason: String) -> Option<Signal> {
        self.stage = Stage::Refused;
        Some(Signal::Refused { reason })
    }

    /// Handles the answer to a message, an interrupt or a cleanup.
    fn said(&mut self, id: &str, outcome: Outcome) -> Option<Signal> {
        if let Some(key) = id.strip_prefix(INTERRUPT) {
            self.clean(key, None);
            return None;
        }
        if self.cleaning.as_ref().is_some_and(|cleaning| cleaning.key == id) {
            return self.cleaned();
        }
        if id.starts_with(COMPACT) {
            return outcome.err().map(|reason| Signal::NotCompacted { reason });
        }
        let is_result = id.starts_with(RESULT);
        if !is_result && !id.starts_with(MESSAGE) {
            return None;
        }
        match outcome {
            Ok(told) if is_result => {
                self.expect_result(text(&told["turn"], "id")?);
                None
            }
            Ok(_) => None,
            Err(reason) => {
                let prefix = if is_result { RESULT } else { MESSAGE };
                let key = id.strip_prefix(prefix)?.to_owned();
                let busy = self.turn.is_some() || is_busy(&reason);
                Some(Signal::MessageRefused { key, reason, busy })
            }
        }
    }

    fn expect_result(&mut self, turn: &str) {
        self.results.push_back(turn.to_owned());
        if self.results.len() > MAX_RESULTS {
            self.results.pop_front();
        }
    }

    /// Ends the commands that a turn or an interrupt leaves running, even if there was no turn to
    /// interrupt. Returns the id of the request if the server supports the method.
    fn clean(&mut self, name: &str, thread: Option<&str>) -> Option<String> {
        let able = self.record.as_ref().is_some_and(|record| record.has_method(CLEAN));
        if !able {
            return None;
        }
        let thread = thread.or(self.root.as_deref())?;
        let key = format!("p:clean-{name}");
        let line = wire::request(&key, CLEAN, json!({"threadId": thread}));
        self.outbox.owe(key.clone(), line);
        Some(key)
    }

    /// Releases the end of the turn that was held back.
    fn cleaned(&mut self) -> Option<Signal> {
        self.cleaning.take().map(|cleaning| cleaning.ended)
    }

    fn owe(&mut self, write: Write) {
        self.outbox.owe(write.key, write.line);
    }
}

// Notifications of the server.
impl AppServer {
    fn noted(&mut self, note: Note, at_ms: Option<u64>) -> Option<Signal> {
        match note {
            Note::TurnStarted { thread, turn } => self.turn_started(thread.as_deref(), turn),
            Note::TurnCompleted { thread, turn, status, error } => {
                let end = ends::turn_end(
                    &status,
                    &error,
                    &self.limits,
                    at_ms,
                    self.opening.zone.as_ref(),
                );
                self.turn_ended(thread.as_deref(), turn, end)
            }
            Note::ItemStarted { place, item } => {
                self.items.open(place, item);
                None
            }
            Note::ItemCompleted { place, item } => self.item_completed(&place, item),
            Note::Usage { thread, total, last, filled, window } => {
                let context = self.filled(&thread, filled, window).map(Signal::Context);
                match self.meter.told(&thread, total, last).map(Signal::Usage) {
                    None => context,
                    used => {
                        // Only the latest context matters.
                        self.late.retain(|late| !matches!(late, Signal::Context(_)));
                        self.late.extend(context);
                        used
                    }
                }
            }
            Note::RateLimits(limits) => {
                self.limits.told(&limits);
                None
            }
            Note::Error { thread, error, will_retry } => {
                let ours = will_retry && self.is_root(thread.as_deref());
                ours.then(|| Signal::Retrying { detail: ends::told(&error) })
            }
            Note::Resolved(id) => {
                self.requests.resolved(&id).map(|native| Signal::Withdrawn { native })
            }
            Note::Goal { thread, active } => {
                if !self.is_root(thread.as_deref()) {
                    return None;
                }
                let was_active = std::mem::replace(&mut self.goal, active);
                (active || was_active).then_some(Signal::Goal { active })
            }
            Note::Settings { thread, settings } => {
                let ours = self.is_root(thread.as_deref());
                ours.then(|| self.set(Settings::updated(&settings))).flatten()
            }
        }
    }

    /// Returns how full the context of the session's own thread is, if that changed.
    fn filled(&mut self, thread: &str, used: u64, window: Option<u64>) -> Option<Context> {
        let filled = Context { used, window: window? };
        let new = self.is_root(Some(thread)) && self.context.replace(filled) != Some(filled);
        new.then_some(filled)
    }

    /// Reports a change of settings. One that a user made on the screen would be recorded nowhere
    /// else.
    fn set(&mut self, new: Settings) -> Option<Signal> {
        let before = self.settings.replace(new.clone());
        let text = before.and_then(|before| before.changes(&new))?;
        Some(Signal::Warned { text })
    }

    /// Handles the start of a turn. A thread has one turn at a time, but old versions give a
    /// message to an open turn another turn id, which starts and never ends.
    fn turn_started(&mut self, thread: Option<&str>, turn: String) -> Option<Signal> {
        if let Some(thread) = thread.or(self.root.as_deref()) {
            self.meter.turn_started(thread);
        }
        if !self.is_root(thread) || self.turn.is_some() {
            return None;
        }
        self.turn = Some(turn.clone());
        self.words = None;
        let started = Signal::TurnStarted { turn: Some(turn) };
        // A server that starts the next turn may never answer the cleanup: the ended turn is
        // reported first.
        match self.cleaned() {
            None => Some(started),
            ended => {
                self.late.push_front(started);
                ended
            }
        }
    }

    /// Handles the end of a turn. It ends the turn that started, whatever its id: see above. A
    /// review, too, starts under another id than it ends.
    fn turn_ended(&mut self, thread: Option<&str>, turn: String, end: TurnEnd) -> Option<Signal> {
        self.close_turn(&turn);
        if !self.is_root(thread) {
            self.clean(&wire::hashed_key("turn-", &turn), thread);
            return None;
        }
        let begun = self.turn.take().unwrap_or(turn);
        self.close_turn(&begun);
        // Between two turns of a goal nothing is cleaned up: the next turn has already started.
        let continues = self.goal && end == TurnEnd::Ok;
        let name = wire::hashed_key("turn-", &begun);
        let key = if continues { None } else { self.clean(&name, None) };
        let says = self.words.take();
        let ended = Signal::TurnEnded { turn: Some(begun), end, usage: None, says };
        match key {
            None => Some(ended),
            Some(key) => {
                let earlier = self.cleaned();
                self.cleaning = Some(Cleaning { key, ended });
                earlier
            }
        }
    }

    /// Withdraws all requests of an ended turn. Not every version reports each of them.
    fn close_turn(&mut self, turn: &str) {
        self.items.close_turn(turn);
        let over = self.requests.turn_over(turn);
        self.late.extend(over.into_iter().map(|native| Signal::Withdrawn { native }));
        self.late.truncate(MAX_LATE);
    }

    fn item_completed(&mut self, place: &Place, item: Item) -> Option<Signal> {
        self.items.close(item.id());
        let withdrawn = self.requests.item_completed(item.id());
        let withdrawn = withdrawn.map(|native| Signal::Withdrawn { native });
        let approval = self.requests.came_out(item.id()).zip(item.done());
        let came_out = approval.map(|(native, done)| Signal::CameOut { native, done });
        if let Item::AgentMessage { text, commentary: false, .. } = &item
            && self.is_root(place.thread.as_deref())
            && !self.is_result(place)
        {
            self.words = Some(text.clone());
        }
        match item {
            Item::AgentMessage { id, asked, .. } if !asked.is_empty() => {
                requests::asked_beside(&id, &asked).map(Signal::Asked)
            }
            Item::AgentMessage { text, commentary: false, .. } if self.is_result(place) => {
                result::read(&text, self.opening.settings.result)
            }
            Item::Compaction { .. } => self.compacted(place),
            Item::AgentMessage { .. }
            | Item::Command { .. }
            | Item::FileChange { .. }
            | Item::Other { .. } => match withdrawn {
                None => came_out,
                withdrawn => {
                    self.late.extend(came_out);
                    withdrawn
                }
            },
        }
    }

    /// Forgets the known context of the thread, so that the next report of it counts as new.
    fn compacted(&mut self, place: &Place) -> Option<Signal> {
        let ours = self.is_root(place.thread.as_deref());
        if ours {
            self.context = None;
        }
        ours.then_some(Signal::Compacted)
    }

    fn is_result(&self, place: &Place) -> bool {
        let wanted =
            self.opening.settings.result != ResultForm::Plain || self.results.contains(&place.turn);
        wanted && self.is_root(place.thread.as_deref())
    }

    /// Whether the thread is the session's own. Without an id it is the only one.
    fn is_root(&self, thread: Option<&str>) -> bool {
        match (thread, &self.root) {
            (Some(thread), Some(root)) => thread == root,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }
}

// Requests of the server.
impl AppServer {
    fn requested(&mut self, id: &Id, method: &str, params: &Value) -> Option<Signal> {
        if self.requests.knows(id, fingerprint(method, params)) {
            return None;
        }
        if method == "item/tool/call" {
            return self.called(id, params);
        }
        let asked = requests::asked(method, id, params, &self.items);
        self.ask(id, method, params, asked).map_err(|why| self.refuse_request(id, &why)).ok()
    }

    fn called(&mut self, id: &Id, params: &Value) -> Option<Signal> {
        let tool = text(params, "tool").unwrap_or_default();
        let called = call(tool, &params["arguments"]);
        let from_root = self.is_root(text(params, "threadId"));
        let signal = match called {
            Ok(Called::Asked { question, options }) => {
                let asked = requests::asked_by_tool(id, question, options);
                self.ask(id, "item/tool/call", params, asked)
            }
            Ok(_) if !from_root => Err(NOT_THE_MAIN_AGENT.to_owned()),
            Ok(Called::OfTask(call)) => {
                let native = Native::Tool(id.clone()).text();
                let call = Box::new(call);
                self.wait(id, "item/tool/call", params, &native)
                    .map(|()| Signal::Called { native, call })
            }
            Ok(Called::Said(testimony)) => Ok(Signal::Said(testimony)),
            Ok(Called::Progress(progress)) => Ok(Signal::Progress(progress)),
            Err(expected) => Err(expected),
        };
        match signal {
            Ok(signal @ (Signal::Asked(_) | Signal::Called { .. })) => Some(signal),
            Ok(signal) => {
                self.reply(id, NOTED, true);
                Some(signal)
            }
            Err(why) => {
                self.reply(id, &why, false);
                None
            }
        }
    }

    fn ask(
        &mut self,
        id: &Id,
        method: &str,
        params: &Value,
        asked: Result<Asked, String>,
    ) -> Result<Signal, String> {
        let mut asked = asked?;
        self.wait(id, method, params, &asked.native)?;
        if !self.is_root(text(params, "threadId")) {
            asked.title = format!("(sub-agent) {}", asked.title);
        }
        Ok(Signal::Asked(asked))
    }

    /// Records that the server waits for an answer which only the session can provide.
    fn wait(&mut self, id: &Id, method: &str, params: &Value, native: &str) -> Result<(), String> {
        if self.requests.is_full() {
            return Err(format!("{MAX_WAITING} requests are already pending"));
        }
        let item = text(params, "itemId").or(text(params, "callId"));
        self.requests.open(Pending {
            id: id.clone(),
            native: native.to_owned(),
            turn: Place::of(params).turn,
            item: item.map(str::to_owned),
            decides: requests::decides(method, params),
            asked: fingerprint(method, params),
        });
        Ok(())
    }

    fn reply(&mut self, id: &Id, text: &str, success: bool) {
        let line = wire::answer(id, tools::reply(text, success));
        self.outbox.owe(id.key("p:reply-"), line);
    }

    fn refuse_request(&mut self, id: &Id, why: &str) {
        let line = wire::refusal(id, &format!("provost cannot handle this request: {why}"));
        self.outbox.owe(id.key("p:refuse-"), line);
    }
}

/// Whether the rejection is due to another turn or to load, and not to the message itself.
fn is_busy(reason: &str) -> bool {
    reason.contains("ActiveTurn") || reason.contains("overloaded")
}

fn fingerprint(method: &str, params: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (method, params.to_string()).hash(&mut hasher);
    hasher.finish()
}
