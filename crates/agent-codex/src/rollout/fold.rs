//! Converts the lines of a rollout to events.

use std::io;
use std::path::Path;

use memchr::memmem;

use super::event::{AccountLimits, RecordedTurnEnd, RolloutEvent, SessionMeta, TokenReport};
use super::head::{ActivityLine, LineHead};
use super::record::{
    FunctionCall, ItemCompleted, MetaRecord, PayloadKind, RolloutRecord, TokenCount, TurnFailure,
    TurnRecord, UserMessage,
};
use super::tail::{NextLine, RolloutLine, RolloutTail};
use crate::ThreadId;

/// The start of every line that Codex writes. If it occurs again later in a line, everything before
/// its last occurrence is an incomplete line from before a crash.
const LINE_START: &[u8] = b"{\"timestamp\":";
/// The first version that is known to record the start and end of turns.
const FIRST_WITH_TURNS: (u64, u64) = (0, 107);
/// The last version that is known not to record them.
const LAST_WITHOUT_TURNS: (u64, u64) = (0, 98);

/// Whether a file records the start and end of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnRecording {
    Recorded,
    NotRecorded,
    Unknown,
}

/// The state that determines what a line means.
#[derive(Debug)]
pub struct RolloutFold {
    wanted: Option<ThreadId>,
    own: Option<ThreadId>,
    history: History,
    turns: TurnRecording,
    turn: Option<String>,
    /// An error that was recorded separately. It explains the end of the turn if the end itself
    /// contains no error.
    failure: Option<TurnFailure>,
    tokens: Option<TokenReport>,
    limits: Option<AccountLimits>,
    at: String,
}

/// The start of the thread's own records, which follow those of the thread from which it was
/// forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum History {
    Own,
    /// Records with a smaller ordinal belong to the parent.
    Before(u64),
    /// Turns older than the thread belong to the parent.
    OlderTurns,
}

impl RolloutFold {
    /// Creates a fold for the file of any thread.
    pub fn new() -> Self {
        Self {
            wanted: None,
            own: None,
            history: History::Own,
            turns: TurnRecording::Unknown,
            turn: None,
            failure: None,
            tokens: None,
            limits: None,
            at: String::new(),
        }
    }

    /// Like [`Self::new`], but yields no events for the file of another thread.
    pub fn for_thread(thread: ThreadId) -> Self {
        Self { wanted: Some(thread), ..Self::new() }
    }

    /// Creates a fold that continues within a file whose beginning was already processed.
    pub fn resume(thread: ThreadId) -> Self {
        Self { own: Some(thread.clone()), ..Self::for_thread(thread) }
    }

    /// Returns the thread of the file.
    pub fn thread(&self) -> Option<&ThreadId> {
        self.own.as_ref()
    }

    /// Returns the current turn, if its start was recorded with an id.
    pub fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    pub fn turns(&self) -> TurnRecording {
        self.turns
    }

    /// Returns the timestamp of the last line, as written.
    pub fn last_timestamp(&self) -> Option<&str> {
        (!self.at.is_empty()).then_some(&self.at)
    }

    /// Processes a line and reports its events.
    pub fn line(&mut self, line: &RolloutLine<'_>, mut report: impl FnMut(RolloutEvent)) {
        if line.bytes.is_empty() || self.is_other_thread() {
            return;
        }
        if let Some(life) = ActivityLine::parse(line.bytes) {
            return self.report_skimmed(
                life.ordinal,
                Some(life.timestamp),
                RolloutEvent::Alive,
                &mut report,
            );
        }
        let head = LineHead::read(line.bytes);
        if let Some(event) = classify_by_head(&head, line) {
            return self.report_skimmed(head.ordinal, head.timestamp, event, &mut report);
        }
        match parse_record(line.bytes) {
            Some(record) => self.record(&record, &mut report),
            None => report(RolloutEvent::Unreadable { len: line.len }),
        }
    }

    fn report_skimmed(
        &mut self,
        ordinal: Option<u64>,
        at: Option<&str>,
        event: RolloutEvent,
        report: &mut impl FnMut(RolloutEvent),
    ) {
        if !self.is_inherited(ordinal) {
            self.note_time(at);
            report(event);
        }
    }

    fn record(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        if record.kind == "session_meta" {
            return self.meta(record, report);
        }
        if self.is_inherited(record.ordinal) {
            return;
        }
        self.note_time(record.timestamp.as_deref());
        let inner = record.payload::<PayloadKind>().unwrap_or_default().inner.unwrap_or_default();
        match (record.kind.as_str(), inner.as_str()) {
            ("event_msg", "task_started" | "turn_started") => self.turn_started(record, report),
            ("event_msg", "task_complete" | "turn_complete") => self.turn_complete(record, report),
            ("event_msg", "turn_aborted") => self.turn_aborted(record, report),
            ("event_msg", "error") => {
                self.failure = record.payload();
                report(RolloutEvent::Alive);
            }
            ("event_msg", "token_count") => self.token_count(record, report),
            ("event_msg", "user_message") => report(user_message(record, self.turn.clone())),
            ("event_msg", "item_completed") => report(item(record)),
            ("response_item", "function_call") => report(plan(record)),
            ("compacted", _) => report(RolloutEvent::Compacted),
            _ => report(RolloutEvent::Alive),
        }
    }

    fn meta(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        let meta: Option<MetaRecord> = record.payload();
        let Some((meta, session)) =
            meta.and_then(|meta| meta.session().map(|session| (meta, session)))
        else {
            return report(RolloutEvent::Alive);
        };
        match &self.own {
            Some(own) if *own == session.thread => {}
            // In a fork, the second metadata record belongs to the thread whose history follows.
            Some(_) => return self.start_inherited_history(),
            None => self.own = Some(session.thread.clone()),
        }
        if self.is_other_thread() {
            return;
        }
        if let Some(first) = meta.subagent_history_start_ordinal {
            self.history = History::Before(first);
        }
        self.note_time(record.timestamp.as_deref());
        if self.turns == TurnRecording::Unknown {
            self.turns =
                session.cli_version.as_deref().map_or(TurnRecording::Unknown, turn_recording);
        }
        report(RolloutEvent::Session(session));
    }

    fn turn_started(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        let turn: TurnRecord = record.payload().unwrap_or_default();
        if self.is_older(turn.turn_id.as_deref()) {
            return;
        }
        (self.turns, self.failure) = (TurnRecording::Recorded, None);
        self.turn.clone_from(&turn.turn_id);
        report(RolloutEvent::TurnStarted { turn: turn.turn_id });
    }

    fn turn_complete(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        let turn: TurnRecord = record.payload().unwrap_or_default();
        let noted = self.failure.take();
        let noted = if turn.last_agent_message.is_none() { noted } else { None };
        let end = match turn.error.or(noted) {
            Some(failure) => failure.end(),
            None => RecordedTurnEnd::Ok { last_message: turn.last_agent_message },
        };
        self.turn_ended(turn.turn_id, end, report);
    }

    fn turn_aborted(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        let turn: TurnRecord = record.payload().unwrap_or_default();
        self.failure = None;
        self.turn_ended(turn.turn_id, RecordedTurnEnd::Aborted { reason: turn.reason }, report);
    }

    fn turn_ended(
        &mut self,
        turn: Option<String>,
        end: RecordedTurnEnd,
        report: &mut impl FnMut(RolloutEvent),
    ) {
        if self.is_older(turn.as_deref()) {
            return;
        }
        self.turn = None;
        report(RolloutEvent::TurnEnded { turn, end });
    }

    /// Reports token counts when they change, because the same counts are recorded repeatedly.
    fn token_count(&mut self, record: &RolloutRecord<'_>, report: &mut impl FnMut(RolloutEvent)) {
        let (tokens, limits) = record.payload::<TokenCount>().unwrap_or_default().into_parts();
        let tokens = if tokens == self.tokens { None } else { tokens };
        let limits = limits.filter(|limits| Some(limits) != self.limits.as_ref());
        report(RolloutEvent::Alive);
        if let Some(tokens) = tokens {
            self.tokens = Some(tokens);
            report(RolloutEvent::Tokens(tokens));
        }
        if let Some(limits) = limits {
            self.limits = Some(limits.clone());
            report(RolloutEvent::Limits(limits));
        }
    }

    fn is_other_thread(&self) -> bool {
        match (&self.wanted, &self.own) {
            (Some(wanted), Some(own)) => wanted != own,
            (Some(_), None) | (None, _) => false,
        }
    }

    fn start_inherited_history(&mut self) {
        if self.history == History::Own {
            self.history = History::OlderTurns;
        }
    }

    fn is_inherited(&self, ordinal: Option<u64>) -> bool {
        match self.history {
            History::Before(first) => ordinal.is_some_and(|ordinal| ordinal < first),
            History::Own | History::OlderTurns => false,
        }
    }

    fn is_older(&self, turn: Option<&str>) -> bool {
        let older = |turn| self.own.as_ref().is_some_and(|own| own.is_younger_than(turn));
        self.history != History::Own && turn.is_some_and(older)
    }

    fn note_time(&mut self, at: Option<&str>) {
        if let Some(at) = at {
            self.at.clear();
            self.at.push_str(at);
        }
    }
}

impl Default for RolloutFold {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a file's metadata from its first line. Returns `None` if the line has not been written yet
/// or contains no metadata.
pub fn read_meta(path: &Path) -> io::Result<Option<SessionMeta>> {
    let (mut tail, mut fold) = (RolloutTail::open(path, 0)?, RolloutFold::new());
    let NextLine::Line(line) = tail.next_line()? else { return Ok(None) };
    let mut found = None;
    fold.line(&line, |event| {
        if let RolloutEvent::Session(meta) = event {
            found = Some(meta);
        }
    });
    Ok(found)
}

/// Classifies a line by its beginning alone. Returns `None` if the whole line must be parsed.
fn classify_by_head(head: &LineHead<'_>, line: &RolloutLine<'_>) -> Option<RolloutEvent> {
    if !line.is_whole() {
        return Some(classify_truncated(head, line.len));
    }
    match (head.kind?, head.inner) {
        ("world_state" | "turn_context", _) => Some(RolloutEvent::Alive),
        ("compacted", _) => Some(RolloutEvent::Compacted),
        ("response_item", Some("function_call")) => {
            (head.name? != "update_plan").then_some(RolloutEvent::Alive)
        }
        ("response_item", Some(_)) => Some(RolloutEvent::Alive),
        ("event_msg", Some("item_completed")) => {
            (head.item? != "UserMessage").then_some(RolloutEvent::Alive)
        }
        (
            "event_msg",
            Some("agent_message" | "agent_reasoning" | "patch_apply_end" | "exec_command_end"),
        ) => Some(RolloutEvent::Alive),
        _ => None,
    }
}

/// Classifies a line that is too long to be parsed.
fn classify_truncated(head: &LineHead<'_>, len: u64) -> RolloutEvent {
    let turn = head.turn.map(str::to_owned);
    match (head.kind, head.inner, head.item) {
        (None, _, _) | (Some("session_meta"), _, _) => RolloutEvent::Unreadable { len },
        (Some("compacted"), _, _) => RolloutEvent::Compacted,
        // The line is long because it contains the agent's last message, and a failed turn has no
        // such message.
        (Some("event_msg"), Some("task_complete" | "turn_complete"), _) => {
            RolloutEvent::TurnEnded { turn, end: RecordedTurnEnd::Ok { last_message: None } }
        }
        (Some("event_msg"), Some("item_completed"), Some("UserMessage")) => {
            let client_id = head.client_id.map(str::to_owned);
            RolloutEvent::UserMessage { turn, client_id, text: String::new() }
        }
        _ => RolloutEvent::Alive,
    }
}

/// Parses the record in a line, even if an incomplete line precedes it.
fn parse_record(line: &[u8]) -> Option<RolloutRecord<'_>> {
    let after_torn = || {
        let at = memmem::rfind(line, LINE_START).filter(|at| *at > 0)?;
        RolloutRecord::parse(&line[at..])
    };
    RolloutRecord::parse(line).or_else(after_torn)
}

fn user_message(record: &RolloutRecord<'_>, turn: Option<String>) -> RolloutEvent {
    match record.payload::<UserMessage>() {
        Some(message) => {
            RolloutEvent::UserMessage { turn, client_id: message.client_id, text: message.message }
        }
        None => RolloutEvent::Alive,
    }
}

fn item(record: &RolloutRecord<'_>) -> RolloutEvent {
    match record.payload::<ItemCompleted>() {
        Some(done) if done.item.kind == "UserMessage" => RolloutEvent::UserMessage {
            turn: done.turn_id,
            text: done.item.text(),
            client_id: done.item.client_id,
        },
        Some(_) | None => RolloutEvent::Alive,
    }
}

fn plan(record: &RolloutRecord<'_>) -> RolloutEvent {
    let call = record.payload::<FunctionCall>().filter(|call| call.name == "update_plan");
    call.and_then(|call| call.plan()).map_or(RolloutEvent::Alive, RolloutEvent::Plan)
}

fn turn_recording(version: &str) -> TurnRecording {
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= FIRST_WITH_TURNS => TurnRecording::Recorded,
        (Some(major), Some(minor)) if (major, minor) <= LAST_WITHOUT_TURNS => {
            TurnRecording::NotRecorded
        }
        _ => TurnRecording::Unknown,
    }
}
