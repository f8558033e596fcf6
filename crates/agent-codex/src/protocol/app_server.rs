//! Tracks the state of the app-server protocol by folding over the lines of both directions.
//!
//! Only turns of the session's own thread are turns of the session. Sub-agents have their own
//! threads. Their usage and their requests belong to the session, but their turns do not.

mod server_requests;

use std::collections::VecDeque;

use provost_core::{
    limits::MAX_OPEN_REQUESTS,
    result::ResultForm,
    session::{ContextUsage, StreamSignal, TurnEnd},
};
use serde_json::json;

use super::{
    capabilities::{CodexVersion, FLOOR, Fitness, ServerCapabilities, parse_methods},
    encode::{COMPACT, INTERRUPT, MESSAGE, RESULT},
    handshake,
    items::{OpenItems, TurnItem},
    notification::{CodexNotification, ItemLocation},
    open_requests::OpenServerRequests,
    outbox::Outbox,
    requests, result,
    settings::ThreadSettings,
    turn_end::{self, LimitTracker},
    usage::UsageMeter,
    wire::{self, RpcMessage, RpcResult, text},
};
use provost_agent::{ConversationOptions, Protocol, ProtocolWrite};

/// The method that terminates commands which a turn left running.
const CLEAN: &str = "thread/backgroundTerminals/clean";

/// The maximum number of turns to remember in which the agent was asked for a result. Only the
/// newest ones matter.
const MAX_RESULTS: usize = 20;

/// The capacity of the queue of deferred signals. It is larger than the limit on open requests.
const MAX_DEFERRED: usize = 2 * MAX_OPEN_REQUESTS;

/// The state of the protocol with one app-server.
#[derive(Debug)]
pub(crate) struct AppServerProtocol {
    opening: ConversationOptions,
    stage: HandshakeStage,
    version: CodexVersion,
    record: Option<ServerCapabilities>,
    /// The session's own thread, once it is known.
    root: Option<String>,
    /// The current turn of that thread, if any.
    turn: Option<String>,
    /// The end of a turn, which is held back until the commands that the turn left running have
    /// been terminated.
    cleaning: Option<PendingCleanup>,
    /// The turns in which the agent was asked for a result.
    result_turns: VecDeque<String>,
    items: OpenItems,
    requests: OpenServerRequests,
    meter: UsageMeter,
    limits: LimitTracker,
    /// The context usage of the session's own thread, as last reported.
    context: Option<ContextUsage>,
    /// The settings of the session's own thread, if they were reported.
    settings: Option<ThreadSettings>,
    outbox: Outbox,
    /// More signals from an earlier line. They are returned with later lines that yield no signal
    /// of their own.
    deferred: VecDeque<StreamSignal>,
    /// The last message of the agent in the current turn.
    last_answer: Option<String>,
    /// Whether the session's own thread has an active goal. While a goal is active, the server
    /// starts the next turn automatically.
    goal: bool,
}

/// A turn that has ended, while its background commands are still being terminated.
#[derive(Debug)]
struct PendingCleanup {
    /// The id of the cleanup request, whose response releases the signal.
    key: String,
    ended: StreamSignal,
}

/// The progress of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStage {
    Greeting,
    Probing,
    Opening,
    Working,
    /// One side has rejected the other. All further lines are ignored.
    Refused,
}

impl AppServerProtocol {
    pub(crate) fn new(opening: ConversationOptions) -> AppServerProtocol {
        let mut server = AppServerProtocol {
            root: opening.thread.clone(),
            stage: HandshakeStage::Greeting,
            version: CodexVersion(0, 0, 0),
            record: None,
            turn: None,
            cleaning: None,
            result_turns: VecDeque::new(),
            items: OpenItems::default(),
            requests: OpenServerRequests::default(),
            meter: UsageMeter::new(opening.thread.clone()),
            limits: LimitTracker::default(),
            context: None,
            settings: None,
            outbox: Outbox::default(),
            deferred: VecDeque::new(),
            last_answer: None,
            goal: false,
            opening,
        };
        server.enqueue(handshake::hello());
        server
    }
}

impl Protocol for AppServerProtocol {
    fn read(&mut self, line: &[u8]) -> Option<StreamSignal> {
        if self.stage == HandshakeStage::Refused {
            return None;
        }
        let message = RpcMessage::read(line)?;
        self.handle(message).or_else(|| self.deferred.pop_front())
    }

    fn acknowledge_write(&mut self, key: &str) -> bool {
        self.outbox.remove_written(key)
    }

    fn pending_writes(&self) -> Vec<ProtocolWrite> {
        self.outbox.all()
    }

    fn needs_full_journal(&self) -> bool {
        true
    }
}

// The handshake, and the responses to Provost's requests.
impl AppServerProtocol {
    fn handle(&mut self, message: RpcMessage) -> Option<StreamSignal> {
        match message {
            RpcMessage::Answer { id, outcome } => self.handle_answer(id.as_own_id()?, outcome),
            RpcMessage::Request { id, method, params } => {
                self.handle_request(&id, &method, &params)
            }
            RpcMessage::Notification { method, params, at_ms } => {
                self.handle_notification(CodexNotification::read(&method, &params)?, at_ms)
            }
        }
    }

    fn handle_answer(&mut self, id: &str, outcome: RpcResult) -> Option<StreamSignal> {
        match (id, self.stage) {
            (handshake::HELLO, HandshakeStage::Greeting) => self.greeted(outcome),
            (handshake::PROBE, HandshakeStage::Probing) => self.probed(outcome),
            (handshake::THREAD, HandshakeStage::Opening) => self.opened(outcome),
            (id, HandshakeStage::Working) => self.handle_reply(id, outcome),
            (
                _,
                HandshakeStage::Greeting
                | HandshakeStage::Probing
                | HandshakeStage::Opening
                | HandshakeStage::Refused,
            ) => None,
        }
    }

    fn greeted(&mut self, outcome: RpcResult) -> Option<StreamSignal> {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(why) => return self.refuse(format!("codex rejected the initialization: {why}")),
        };
        let agent = text(&reply, "userAgent").unwrap_or_default();
        let Some(version) = CodexVersion::from_user_agent(agent) else {
            return self.refuse(format!("codex did not report its version: {agent:?}"));
        };
        self.version = version;
        if version < FLOOR {
            let fitness = ServerCapabilities { version, methods: None }.fitness();
            return self.apply_fitness(fitness);
        }
        self.stage = HandshakeStage::Probing;
        self.enqueue(handshake::ready());
        self.enqueue(handshake::probe());
        None
    }

    /// Handles the response to the probe. Every server rejects the probe, and the error lists the
    /// methods that the server supports.
    fn probed(&mut self, outcome: RpcResult) -> Option<StreamSignal> {
        let methods = outcome.err().as_deref().and_then(parse_methods);
        let record = ServerCapabilities { version: self.version, methods };
        let fitness = record.fitness();
        self.record = Some(record);
        self.apply_fitness(fitness)
    }

    fn apply_fitness(&mut self, fitness: Fitness) -> Option<StreamSignal> {
        let warned = match fitness {
            Fitness::Unusable(reason) => return self.refuse(reason),
            Fitness::Degraded(text) => Some(StreamSignal::Warned { text }),
            Fitness::Full => None,
        };
        self.stage = HandshakeStage::Opening;
        self.enqueue(handshake::thread(&self.opening));
        warned
    }

    fn opened(&mut self, outcome: RpcResult) -> Option<StreamSignal> {
        let opened = outcome.and_then(|reply| {
            self.settings = Some(ThreadSettings::from_answer(&reply));
            let thread = text(&reply["thread"], "id").map(str::to_owned);
            thread.ok_or_else(|| "the response contains no thread".to_owned())
        });
        match (opened, &self.opening.thread) {
            (Ok(other), Some(wanted)) if other != *wanted => {
                self.refuse_thread(&format!("codex opened another thread: {other}"))
            }
            (Ok(thread), _) => {
                self.stage = HandshakeStage::Working;
                self.root = Some(thread.clone());
                Some(StreamSignal::Ready { thread: Some(thread) })
            }
            (Err(why), _) => self.refuse_thread(&why),
        }
    }

    fn refuse_thread(&mut self, why: &str) -> Option<StreamSignal> {
        let reason = handshake::describe_rejection(self.version, &self.opening, why);
        self.refuse(reason)
    }

    fn refuse(&mut self, reason: String) -> Option<StreamSignal> {
        self.stage = HandshakeStage::Refused;
        Some(StreamSignal::Refused { reason })
    }

    /// Handles the response to a message, an interrupt or a cleanup request.
    fn handle_reply(&mut self, id: &str, outcome: RpcResult) -> Option<StreamSignal> {
        if let Some(key) = id.strip_prefix(INTERRUPT) {
            self.request_cleanup(key, None);
            return None;
        }
        if self.cleaning.as_ref().is_some_and(|cleaning| cleaning.key == id) {
            return self.release_turn_end();
        }
        if id.starts_with(COMPACT) {
            return outcome.err().map(|reason| StreamSignal::CompactionFailed { reason });
        }
        let is_result = id.starts_with(RESULT);
        if !is_result && !id.starts_with(MESSAGE) {
            return None;
        }
        match outcome {
            Ok(reply) if is_result => {
                self.expect_result(text(&reply["turn"], "id")?);
                None
            }
            Ok(_) => None,
            Err(reason) => {
                let prefix = if is_result { RESULT } else { MESSAGE };
                let key = id.strip_prefix(prefix)?.to_owned();
                let busy = self.turn.is_some() || is_busy(&reason);
                Some(StreamSignal::MessageRefused { key, reason, busy })
            }
        }
    }

    fn expect_result(&mut self, turn: &str) {
        self.result_turns.push_back(turn.to_owned());
        if self.result_turns.len() > MAX_RESULTS {
            self.result_turns.pop_front();
        }
    }

    /// Asks the server to terminate the commands that a turn or an interrupt left running, even if
    /// there was no turn to interrupt. Returns the id of the request if the server supports the
    /// method.
    fn request_cleanup(&mut self, name: &str, thread: Option<&str>) -> Option<String> {
        let able = self.record.as_ref().is_some_and(|record| record.has_method(CLEAN));
        if !able {
            return None;
        }
        let thread = thread.or(self.root.as_deref())?;
        let key = format!("p:clean-{name}");
        let line = wire::request(&key, CLEAN, json!({"threadId": thread}));
        self.outbox.enqueue(key.clone(), line);
        Some(key)
    }

    /// Returns the end of the turn that was held back, if any.
    fn release_turn_end(&mut self) -> Option<StreamSignal> {
        self.cleaning.take().map(|cleaning| cleaning.ended)
    }

    fn enqueue(&mut self, write: ProtocolWrite) {
        self.outbox.enqueue(write.key, write.line);
    }
}

// Notifications from the server.
impl AppServerProtocol {
    fn handle_notification(
        &mut self,
        note: CodexNotification,
        at_ms: Option<u64>,
    ) -> Option<StreamSignal> {
        match note {
            CodexNotification::TurnStarted { thread, turn } => {
                self.turn_started(thread.as_deref(), turn)
            }
            CodexNotification::TurnCompleted { thread, turn, status, error } => {
                let end = turn_end::turn_end(
                    &status,
                    &error,
                    &self.limits,
                    at_ms,
                    self.opening.zone.as_ref(),
                );
                self.turn_ended(thread.as_deref(), turn, end)
            }
            CodexNotification::ItemStarted { place, item } => {
                self.items.open(place, item);
                None
            }
            CodexNotification::ItemCompleted { place, item } => self.item_completed(&place, item),
            CodexNotification::Usage { thread, total, last, filled, window } => {
                let context =
                    self.update_context(&thread, filled, window).map(StreamSignal::Context);
                match self.meter.record(&thread, total, last).map(StreamSignal::Usage) {
                    None => context,
                    used => {
                        // Only the latest context usage matters.
                        self.deferred.retain(|late| !matches!(late, StreamSignal::Context(_)));
                        self.deferred.extend(context);
                        used
                    }
                }
            }
            CodexNotification::RateLimits(limits) => {
                self.limits.update(&limits);
                None
            }
            CodexNotification::Error { thread, error, will_retry } => {
                let ours = will_retry && self.is_root(thread.as_deref());
                ours.then(|| StreamSignal::Retrying { detail: turn_end::describe_error(&error) })
            }
            CodexNotification::Resolved(id) => self
                .requests
                .take_resolved(&id)
                .map(|native| StreamSignal::RequestWithdrawn { native }),
            CodexNotification::Goal { thread, active } => {
                if !self.is_root(thread.as_deref()) {
                    return None;
                }
                let was_active = std::mem::replace(&mut self.goal, active);
                (active || was_active).then_some(StreamSignal::Goal { active })
            }
            CodexNotification::Settings { thread, settings } => {
                let ours = self.is_root(thread.as_deref());
                ours.then(|| self.update_settings(ThreadSettings::from_notification(&settings)))
                    .flatten()
            }
        }
    }

    /// Returns the context usage of the session's own thread, if it changed.
    fn update_context(
        &mut self,
        thread: &str,
        used: u64,
        window: Option<u64>,
    ) -> Option<ContextUsage> {
        let filled = ContextUsage { used, window: window? };
        let new = self.is_root(Some(thread)) && self.context.replace(filled) != Some(filled);
        new.then_some(filled)
    }

    /// Reports changed settings. A change that a user makes on the screen is not recorded anywhere
    /// else.
    fn update_settings(&mut self, new: ThreadSettings) -> Option<StreamSignal> {
        let before = self.settings.replace(new.clone());
        let text = before.and_then(|before| before.describe_changes(&new))?;
        Some(StreamSignal::Warned { text })
    }

    /// Handles the start of a turn. A thread has one turn at a time. But if a message joins the
    /// current turn, old versions report the start of another turn id, which never ends.
    fn turn_started(&mut self, thread: Option<&str>, turn: String) -> Option<StreamSignal> {
        if let Some(thread) = thread.or(self.root.as_deref()) {
            self.meter.turn_started(thread);
        }
        if !self.is_root(thread) || self.turn.is_some() {
            return None;
        }
        self.turn = Some(turn.clone());
        self.last_answer = None;
        let started = StreamSignal::TurnStarted { turn: Some(turn) };
        // A server that starts the next turn may never respond to the cleanup request, so the end
        // of the previous turn is reported first.
        match self.release_turn_end() {
            None => Some(started),
            ended => {
                self.deferred.push_front(started);
                ended
            }
        }
    }

    /// Handles the end of a turn. The end always applies to the turn that started, even if the ids
    /// differ (see `turn_started`). The ids of the start and the end also differ for a review.
    fn turn_ended(
        &mut self,
        thread: Option<&str>,
        turn: String,
        end: TurnEnd,
    ) -> Option<StreamSignal> {
        self.close_turn(&turn);
        if !self.is_root(thread) {
            self.request_cleanup(&wire::hashed_key("turn-", &turn), thread);
            return None;
        }
        let begun = self.turn.take().unwrap_or(turn);
        self.close_turn(&begun);
        // Nothing is cleaned up between two turns of a goal, because the next turn has already
        // started.
        let continues = self.goal && end == TurnEnd::Ok;
        let name = wire::hashed_key("turn-", &begun);
        let key = if continues { None } else { self.request_cleanup(&name, None) };
        let says = self.last_answer.take();
        let ended = StreamSignal::TurnEnded { turn: Some(begun), end, usage: None, says };
        match key {
            None => Some(ended),
            Some(key) => {
                let earlier = self.release_turn_end();
                self.cleaning = Some(PendingCleanup { key, ended });
                earlier
            }
        }
    }

    /// Withdraws all requests of a turn that has ended, because not every version reports this for
    /// each of them.
    fn close_turn(&mut self, turn: &str) {
        self.items.close_turn(turn);
        let over = self.requests.take_of_turn(turn);
        self.deferred
            .extend(over.into_iter().map(|native| StreamSignal::RequestWithdrawn { native }));
        self.deferred.truncate(MAX_DEFERRED);
    }

    fn item_completed(&mut self, place: &ItemLocation, item: TurnItem) -> Option<StreamSignal> {
        self.items.close(item.id());
        let withdrawn = self.requests.take_of_item(item.id());
        let withdrawn = withdrawn.map(|native| StreamSignal::RequestWithdrawn { native });
        let approval = self.requests.take_item_approval(item.id()).zip(item.done());
        let came_out = approval.map(|(native, done)| StreamSignal::ItemFinished { native, done });
        if let TurnItem::AgentMessage { text, commentary: false, .. } = &item
            && self.is_root(place.thread.as_deref())
            && !self.is_result(place)
        {
            self.last_answer = Some(text.clone());
        }
        match item {
            TurnItem::AgentMessage { id, asked, .. } if !asked.is_empty() => {
                requests::question_from_message(&id, &asked).map(StreamSignal::RequestOpened)
            }
            TurnItem::AgentMessage { text, commentary: false, .. } if self.is_result(place) => {
                result::parse_result(&text, self.opening.settings.result)
            }
            TurnItem::Compaction { .. } => self.compacted(place),
            TurnItem::AgentMessage { .. }
            | TurnItem::Command { .. }
            | TurnItem::FileChange { .. }
            | TurnItem::Other { .. } => match withdrawn {
                None => came_out,
                withdrawn => {
                    self.deferred.extend(came_out);
                    withdrawn
                }
            },
        }
    }

    /// Handles a compaction. Forgets the context usage of the thread, so that the next report
    /// counts as new.
    fn compacted(&mut self, place: &ItemLocation) -> Option<StreamSignal> {
        let ours = self.is_root(place.thread.as_deref());
        if ours {
            self.context = None;
        }
        ours.then_some(StreamSignal::Compacted)
    }

    fn is_result(&self, place: &ItemLocation) -> bool {
        let wanted = self.opening.settings.result != ResultForm::Plain
            || self.result_turns.contains(&place.turn);
        wanted && self.is_root(place.thread.as_deref())
    }

    /// Whether this is the session's own thread. A message without a thread id refers to the only
    /// thread.
    fn is_root(&self, thread: Option<&str>) -> bool {
        match (thread, &self.root) {
            (Some(thread), Some(root)) => thread == root,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }
}

/// Whether a message was rejected because another turn is active or the server is overloaded,
/// rather than because of the message itself.
fn is_busy(reason: &str) -> bool {
    reason.contains("ActiveTurn") || reason.contains("overloaded")
}
