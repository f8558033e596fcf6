//! Notifications of the server that matter to a session, with their content.

use serde_json::Value;

use super::{
    items::Item,
    wire::{Id, Message, text},
};

/// A notification that matters to a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note {
    TurnStarted {
        thread: Option<String>,
        turn: String,
    },
    TurnCompleted {
        thread: Option<String>,
        turn: String,
        status: String,
        error: Value,
    },
    ItemStarted {
        place: Place,
        item: Item,
    },
    ItemCompleted {
        place: Place,
        item: Item,
    },
    Usage {
        thread: String,
        total: Tokens,
        last: Tokens,
        /// The tokens used in the model's context, and its size.
        filled: u64,
        window: Option<u64>,
    },
    RateLimits(Value),
    Error {
        thread: Option<String>,
        error: Value,
        will_retry: bool,
    },
    Resolved(Id),
    /// The goal of a thread: while it is active, the server starts one turn after the other.
    Goal {
        thread: Option<String>,
        active: bool,
    },
    /// The thread's new settings.
    Settings {
        thread: Option<String>,
        settings: Value,
    },
}

/// The thread and turn of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// A server with one thread may omit it.
    pub(crate) thread: Option<String>,
    pub(crate) turn: String,
}

/// Tokens of one call or of a whole thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// The class of a line of the app-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// Not a protocol message: output.
    Output,
    /// A message that is understood.
    Known,
    /// A message that is ignored; it stays in the journal.
    Left,
    /// A notification that matters, in an unknown shape.
    Odd,
}

/// Classifies a line of the app-server, for tests and for examining unknown versions.
pub fn sort(line: &[u8]) -> Sorted {
    match Message::read(line) {
        None => Sorted::Output,
        Some(Message::Request { .. } | Message::Answer { .. }) => Sorted::Known,
        Some(Message::Note { method, params, .. }) => match Note::read(&method, &params) {
            Some(_) => Sorted::Known,
            None if METHODS.contains(&method.as_str()) => Sorted::Odd,
            None => Sorted::Left,
        },
    }
}

/// The methods that [`Note`] covers.
pub(crate) const METHODS: &[&str] = &[
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "thread/tokenUsage/updated",
    "account/rateLimits/updated",
    "error",
    "serverRequest/resolved",
    "thread/settings/updated",
    "thread/goal/updated",
    "thread/goal/cleared",
];

impl Note {
    pub(crate) fn read(method: &str, params: &Value) -> Option<Note> {
        let thread = text(params, "threadId").map(str::to_owned);
        Some(match method {
            "turn/started" => Note::TurnStarted { thread, turn: turn_id(params)? },
            "turn/completed" => Note::TurnCompleted {
                thread,
                turn: turn_id(params)?,
                status: text(&params["turn"], "status").unwrap_or_default().to_owned(),
                error: params["turn"]["error"].clone(),
            },
            "item/started" => {
                Note::ItemStarted { place: Place::of(params), item: Item::read(&params["item"])? }
            }
            "item/completed" => {
                Note::ItemCompleted { place: Place::of(params), item: Item::read(&params["item"])? }
            }
            "thread/tokenUsage/updated" => usage(thread?, &params["tokenUsage"])?,
            "account/rateLimits/updated" => Note::RateLimits(params.get("rateLimits")?.clone()),
            "error" => Note::Error {
                thread,
                error: params.get("error")?.clone(),
                will_retry: params["willRetry"].as_bool().unwrap_or(false),
            },
            "serverRequest/resolved" => Note::Resolved(Id::of(params.get("requestId")?)?),
            "thread/goal/updated" => {
                let status = text(params.get("goal")?, "status")?;
                Note::Goal { thread, active: status == "active" }
            }
            "thread/goal/cleared" => Note::Goal { thread, active: false },
            "thread/settings/updated" => {
                Note::Settings { thread, settings: params.get("threadSettings")?.clone() }
            }
            _ => return None,
        })
    }
}

impl Place {
    pub(crate) fn of(params: &Value) -> Place {
        Place {
            thread: text(params, "threadId").map(str::to_owned),
            turn: text(params, "turnId").unwrap_or_default().to_owned(),
        }
    }
}

fn turn_id(params: &Value) -> Option<String> {
    text(params.get("turn")?, "id").map(str::to_owned)
}

fn usage(thread: String, told: &Value) -> Option<Note> {
    let tokens = |part: &Value| {
        let input = part["inputTokens"].as_u64()?;
        Some(Tokens { input, output: part["outputTokens"].as_u64().unwrap_or(0) })
    };
    let (total, last) = (tokens(&told["total"])?, tokens(&told["last"])?);
    // After a compaction there was no call, and only the sum shows the remaining context.
    let sum = told["last"]["totalTokens"].as_u64();
    let filled = sum.unwrap_or_else(|| last.input.saturating_add(last.output));
    let window = told["modelContextWindow"].as_u64();
    Some(Note::Usage { thread, total, last, filled, window })
}
