//! The server's notifications that matter to a session.

use serde_json::Value;

use super::{
    items::TurnItem,
    wire::{RpcId, RpcMessage, text},
};

/// A notification that matters to a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CodexNotification {
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
        place: ItemLocation,
        item: TurnItem,
    },
    ItemCompleted {
        place: ItemLocation,
        item: TurnItem,
    },
    Usage {
        thread: String,
        total: TokenCounts,
        last: TokenCounts,
        /// The number of tokens in the model's context.
        filled: u64,
        window: Option<u64>,
    },
    RateLimits(Value),
    Error {
        thread: Option<String>,
        error: Value,
        will_retry: bool,
    },
    Resolved(RpcId),
    /// The goal of a thread. While it is active, the server starts one turn after another.
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
pub(crate) struct ItemLocation {
    /// The thread. A server that has only one thread may omit it.
    pub(crate) thread: Option<String>,
    pub(crate) turn: String,
}

/// The tokens of one call, or of a whole thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenCounts {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// The class of a line from the app-server, which determines how the line is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineClass {
    /// The line is not a protocol message but plain output.
    Output,
    /// The message is understood.
    Known,
    /// The message is ignored, but remains in the journal.
    Ignored,
    /// The notification matters, but its format is unknown.
    Malformed,
}

/// Classifies a line from the app-server, for tests and for examining unknown versions.
pub fn classify_line(line: &[u8]) -> LineClass {
    match RpcMessage::read(line) {
        None => LineClass::Output,
        Some(RpcMessage::Request { .. } | RpcMessage::Answer { .. }) => LineClass::Known,
        Some(RpcMessage::Notification { method, params, .. }) => {
            match CodexNotification::read(&method, &params) {
                Some(_) => LineClass::Known,
                None if METHODS.contains(&method.as_str()) => LineClass::Malformed,
                None => LineClass::Ignored,
            }
        }
    }
}

/// The methods that [`CodexNotification`] covers.
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

impl CodexNotification {
    pub(crate) fn read(method: &str, params: &Value) -> Option<CodexNotification> {
        let thread = text(params, "threadId").map(str::to_owned);
        Some(match method {
            "turn/started" => CodexNotification::TurnStarted { thread, turn: turn_id(params)? },
            "turn/completed" => CodexNotification::TurnCompleted {
                thread,
                turn: turn_id(params)?,
                status: text(&params["turn"], "status").unwrap_or_default().to_owned(),
                error: params["turn"]["error"].clone(),
            },
            "item/started" => CodexNotification::ItemStarted {
                place: ItemLocation::from_params(params),
                item: TurnItem::read(&params["item"])?,
            },
            "item/completed" => CodexNotification::ItemCompleted {
                place: ItemLocation::from_params(params),
                item: TurnItem::read(&params["item"])?,
            },
            "thread/tokenUsage/updated" => usage(thread?, &params["tokenUsage"])?,
            "account/rateLimits/updated" => {
                CodexNotification::RateLimits(params.get("rateLimits")?.clone())
            }
            "error" => CodexNotification::Error {
                thread,
                error: params.get("error")?.clone(),
                will_retry: params["willRetry"].as_bool().unwrap_or(false),
            },
            "serverRequest/resolved" => {
                CodexNotification::Resolved(RpcId::from_value(params.get("requestId")?)?)
            }
            "thread/goal/updated" => {
                let status = text(params.get("goal")?, "status")?;
                CodexNotification::Goal { thread, active: status == "active" }
            }
            "thread/goal/cleared" => CodexNotification::Goal { thread, active: false },
            "thread/settings/updated" => CodexNotification::Settings {
                thread,
                settings: params.get("threadSettings")?.clone(),
            },
            _ => return None,
        })
    }
}

impl ItemLocation {
    pub(crate) fn from_params(params: &Value) -> ItemLocation {
        ItemLocation {
            thread: text(params, "threadId").map(str::to_owned),
            turn: text(params, "turnId").unwrap_or_default().to_owned(),
        }
    }
}

fn turn_id(params: &Value) -> Option<String> {
    text(params.get("turn")?, "id").map(str::to_owned)
}

fn usage(thread: String, params: &Value) -> Option<CodexNotification> {
    let tokens = |part: &Value| {
        let input = part["inputTokens"].as_u64()?;
        Some(TokenCounts { input, output: part["outputTokens"].as_u64().unwrap_or(0) })
    };
    let (total, last) = (tokens(&params["total"])?, tokens(&params["last"])?);
    // Directly after a compaction, no call has been made yet, so only the sum shows the remaining
    // context.
    let sum = params["last"]["totalTokens"].as_u64();
    let filled = sum.unwrap_or_else(|| last.input.saturating_add(last.output));
    let window = params["modelContextWindow"].as_u64();
    Some(CodexNotification::Usage { thread, total, last, filled, window })
}
