//! Folds the lines of one rollout into events.

use std::io;
use std::path::Path;

use memchr::memmem;

use super::head::{Head, Life};
use super::record::{
    Failure, FunctionCall, ItemCompleted, Kind, Meta, Record, TokenCount, Turn, UserMessage,
};
use super::tail::{Line, Next, Tail};
use super::told::{Limits, SessionMeta, Tokens, Told, TurnEnd};
use crate::ThreadId;

/// The start of every line of Codex. Text before its last occurrence in a line is the torn rest of
/// a line after a crash.
const BEGINNING: &[u8] = b"{\"timestamp\":";
/// The first version known to record the start and end of turns.
const RECORDS_TURNS: (u64, u64) = (0, 107);
/// The last version known not to record them.
const RECORDS_NONE: (u64, u64) = (0, 98);

/// Whether a file records the start and end of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    Recorded,
    NotRecorded,
    Unknown,
}

/// The state on which the meaning of a line depends.
#[derive(Debug)]
pub struct Fold {
    wanted: Option<ThreadId>,
    own: Option<ThreadId>,
    history: History,
    turns: Turns,
    turn: Option<String>,
    /// A separately recorded error. It explains the end of the turn if that has no error itself.
    failure: Option<Failure>,
    tokens: Option<Tokens>,
    limits: Option<Limits>,
    at: String,
}

/// Where the thread's own records start, after those of the thread from which it was forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum History {
    Own,
    /// Records with a smaller ordinal belong to the parent.
    Before(u64),
    /// Turns older than the thread belong to the parent.
    OlderTurns,
}

impl Fold {
    /// Returns a fold over the file of any thread.
    pub fn new() -> Self {
        Self {
            wanted: None,
            own: None,
            history: History::Own,
            turns: Turns::Unknown,
            turn: None,
            failure: None,
            tokens: None,
            limits: None,
            at: String::new(),
        }
    }

    /// As [`Self::new`]; a file of another thread yields no events.
    pub fn of(thread: ThreadId) -> Self {
        Self { wanted: Some(thread), ..Self::new() }
    }

    /// Returns a fold that continues inside a file whose beginning was folded before.
    pub fn resume(thread: ThreadId) -> Self {
        Self { own: Some(thread.clone()), ..Self::of(thread) }
    }

    /// The thread of the file.
    pub fn thread(&self) -> Option<&ThreadId> {
        self.own.as_ref()
    }

    /// The open turn, if its start was recorded with an id.
    pub fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    pub fn turns(&self) -> Turns {
        self.turns
    }

    /// The timestamp of the last line, as written.
    pub fn at(&self) -> Option<&str> {
        (!self.at.is_empty()).then_some(&self.at)
    }

    /// Reads a line and reports its events.
    pub fn line(&mut self, line: &Line<'_>, mut tell: impl FnMut(Told)) {
        if line.bytes.is_empty() || self.is_other_thread() {
            return;
        }
        if let Some(life) = Life::of(line.bytes) {
            return self.skimmed(life.ordinal, Some(life.timestamp), Told::Alive, &mut tell);
        }
        let head = Head::read(line.bytes);
        if let Some(told) = skim(&head, line) {
            return self.skimmed(head.ordinal, head.timestamp, told, &mut tell);
        }
        match salvage(line.bytes) {
            Some(record) => self.record(&record, &mut tell),
            None => tell(Told::Unreadable { len: line.len }),
        }
    }

    fn skimmed(
        &mut self,
        ordinal: Option<u64>,
        at: Option<&str>,
        told: Told,
        tell: &mut impl FnMut(Told),
    ) {
        if !self.is_inherited(ordinal) {
            self.note_time(at);
            tell(told);
        }
    }

    fn record(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        if record.kind == "session_meta" {
            return self.meta(record, tell);
        }
        if self.is_inherited(record.ordinal) {
            return;
        }
        self.note_time(record.timestamp.as_deref());
        let inner = record.payload::<Kind>().unwrap_or_default().inner.unwrap_or_default();
        match (record.kind.as_str(), inner.as_str()) {
            ("event_msg", "task_started" | "turn_started") => self.turn_started(record, tell),
            ("event_msg", "task_complete" | "turn_complete") => self.turn_complete(record, tell),
            ("event_msg", "turn_aborted") => self.turn_aborted(record, tell),
            ("event_msg", "error") => {
                self.failure = record.payload();
                tell(Told::Alive);
            }
            ("event_msg", "token_count") => self.token_count(record, tell),
            ("event_msg", "user_message") => tell(user_message(record, self.turn.clone())),
            ("event_msg", "item_completed") => tell(item(record)),
            ("response_item", "function_call") => tell(plan(record)),
            ("compacted", _) => tell(Told::Compacted),
            _ => tell(Told::Alive),
        }
    }

    fn meta(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        let meta: Option<Meta> = record.payload();
        let Some((meta, session)) = meta.and_then(|meta| meta.session().map(|said| (meta, said)))
        else {
            return tell(Told::Alive);
        };
        match &self.own {
            Some(own) if *own == session.thread => {}
            // The second one in a fork belongs to the thread whose history follows.
            Some(_) => return self.inherit(),
            None => self.own = Some(session.thread.clone()),
        }
        if self.is_other_thread() {
            return;
        }
        if let Some(first) = meta.subagent_history_start_ordinal {
            self.history = History::Before(first);
        }
        self.note_time(record.timestamp.as_deref());
        if self.turns == Turns::Unknown {
            self.turns = session.cli_version.as_deref().map_or(Turns::Unknown, turns_of);
        }
        tell(Told::Session(session));
    }

    fn turn_started(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        let turn: Turn = record.payload().unwrap_or_default();
        if self.is_older(turn.turn_id.as_deref()) {
            return;
        }
        (self.turns, self.failure) = (Turns::Recorded, None);
        self.turn.clone_from(&turn.turn_id);
        tell(Told::TurnStarted { turn: turn.turn_id });
    }

    fn turn_complete(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        let turn: Turn = record.payload().unwrap_or_default();
        let noted = self.failure.take();
        let noted = if turn.last_agent_message.is_none() { noted } else { None };
        let end = match turn.error.or(noted) {
            Some(failure) => failure.end(),
            None => TurnEnd::Ok { last_message: turn.last_agent_message },
        };
        self.turn_ended(turn.turn_id, end, tell);
    }

    fn turn_aborted(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        let turn: Turn = record.payload().unwrap_or_default();
        self.failure = None;
        self.turn_ended(turn.turn_id, TurnEnd::Aborted { reason: turn.reason }, tell);
    }

    fn turn_ended(&mut self, turn: Option<String>, end: TurnEnd, tell: &mut impl FnMut(Told)) {
        if self.is_older(turn.as_deref()) {
            return;
        }
        self.turn = None;
        tell(Told::TurnEnded { turn, end });
    }

    /// Reports token counts when they change: the same counts are recorded repeatedly.
    fn token_count(&mut self, record: &Record<'_>, tell: &mut impl FnMut(Told)) {
        let (tokens, limits) = record.payload::<TokenCount>().unwrap_or_default().told();
        let tokens = if tokens == self.tokens { None } else { tokens };
        let limits = limits.filter(|limits| Some(limits) != self.limits.as_ref());
        tell(Told::Alive);
        if let Some(tokens) = tokens {
            self.tokens = Some(tokens);
            tell(Told::Tokens(tokens));
        }
        if let Some(limits) = limits {
            self.limits = Some(limits.clone());
            tell(Told::Limits(limits));
        }
    }

    fn is_other_thread(&self) -> bool {
        match (&self.wanted, &self.own) {
            (Some(wanted), Some(own)) => wanted != own,
            (Some(_), None) | (None, _) => false,
        }
    }

    fn inherit(&mut self) {
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

impl Default for Fold {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a file's metadata from its first line; None if that is not written yet, or is something
/// else.
pub fn meta(path: &Path) -> io::Result<Option<SessionMeta>> {
    let (mut tail, mut fold) = (Tail::open(path, 0)?, Fold::new());
    let Next::Line(line) = tail.next_line()? else { return Ok(None) };
    let mut found = None;
    fold.line(&line, |told| {
        if let Told::Session(meta) = told {
            found = Some(meta);
        }
    });
    Ok(found)
}

/// Classifies a line by its beginning alone; None if it has to be parsed, or in doubt.
fn skim(head: &Head<'_>, line: &Line<'_>) -> Option<Told> {
    if !line.is_whole() {
        return Some(skim_cut(head, line.len));
    }
    match (head.kind?, head.inner) {
        ("world_state" | "turn_context", _) => Some(Told::Alive),
        ("compacted", _) => Some(Told::Compacted),
        ("response_item", Some("function_call")) => {
            (head.name? != "update_plan").then_some(Told::Alive)
        }
        ("response_item", Some(_)) => Some(Told::Alive),
        ("event_msg", Some("item_completed")) => {
            (head.item? != "UserMessage").then_some(Told::Alive)
        }
        (
            "event_msg",
            Some("agent_message" | "agent_reasoning" | "patch_apply_end" | "exec_command_end"),
        ) => Some(Told::Alive),
        _ => None,
    }
}

/// Classifies a line that is too long to be parsed.
fn skim_cut(head: &Head<'_>, len: u64) -> Told {
    let turn = head.turn.map(str::to_owned);
    match (head.kind, head.inner, head.item) {
        (None, _, _) | (Some("session_meta"), _, _) => Told::Unreadable { len },
        (Some("compacted"), _, _) => Told::Compacted,
        // The agent's last message makes it long, and a failed turn has none.
        (Some("event_msg"), Some("task_complete" | "turn_complete"), _) => {
            Told::TurnEnded { turn, end: TurnEnd::Ok { last_message: None } }
        }
        (Some("event_msg"), Some("item_completed"), Some("UserMessage")) => {
            let client_id = head.client_id.map(str::to_owned);
            Told::UserMessage { turn, client_id, text: String::new() }
        }
        _ => Told::Alive,
    }
}

/// Parses the record of a line, even after the torn rest of another one.
fn salvage(line: &[u8]) -> Option<Record<'_>> {
    let after_torn = || {
        let at = memmem::rfind(line, BEGINNING).filter(|at| *at > 0)?;
        Record::parse(&line[at..])
    };
    Record::parse(line).or_else(after_torn)
}

fn user_message(record: &Record<'_>, turn: Option<String>) -> Told {
    match record.payload::<UserMessage>() {
        Some(said) => Told::UserMessage { turn, client_id: said.client_id, text: said.message },
        None => Told::Alive,
    }
}

fn item(record: &Record<'_>) -> Told {
    match record.payload::<ItemCompleted>() {
        Some(done) if done.item.kind == "UserMessage" => Told::UserMessage {
            turn: done.turn_id,
            text: done.item.text(),
            client_id: done.item.client_id,
        },
        Some(_) | None => Told::Alive,
    }
}

fn plan(record: &Record<'_>) -> Told {
    let call = record.payload::<FunctionCall>().filter(|call| call.name == "update_plan");
    call.and_then(|call| call.plan()).map_or(Told::Alive, Told::Plan)
}

fn turns_of(version: &str) -> Turns {
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= RECORDS_TURNS => Turns::Recorded,
        (Some(major), Some(minor)) if (major, minor) <= RECORDS_NONE => Turns::NotRecorded,
        _ => Turns::Unknown,
    }
}
