//! JSON lines: one object per line on standard output and input, distinguished by `type`.
//!
//! Lenient in what it reads: a line that is not an object of a known type is output. Strict in what
//! it believes: an unknown status is an error, never a success.

use provost_core::{
    lifecycle::ClaimKind,
    request::{Asked, Question, Reply, RequestKind, Scope, Waiting},
    session::{Context, FactKind, MessageKind, Progress, Signal, Testimony, TurnEnd, Usage},
    task::Call,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Answer, Protocol, Saying,
    tools::{self, Called},
};

/// Maximum length of a message. A longer line is journaled and shown as oversized, and yields no
/// fact.
pub const MAX_MESSAGE: usize = 128 << 10;

/// The driver of agents that speak JSON lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jsonl;

impl Protocol for Jsonl {
    fn read(&mut self, line: &[u8]) -> Option<Signal> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return None;
        }
        if line.len() > MAX_MESSAGE {
            return Some(Signal::Oversized { bytes: line.len() as u64 });
        }
        // A line that does not parse as a message is output that looks like one.
        serde_json::from_slice::<Line>(line).ok().and_then(signal)
    }
}

pub(crate) fn say(what: &Saying<'_>) -> Option<Vec<u8>> {
    let message = match what {
        Saying::Interrupt { key, .. } => json!({"type": "interrupt", "key": key}),
        Saying::Returned { key, native, ok, text, .. } => {
            json!({"type": "returned", "key": key, "call": native, "ok": ok, "text": text})
        }
        Saying::Message { key, kind, text, answer, .. } => match kind {
            MessageKind::Instruction => json!({"type": "instruction", "key": key, "text": text}),
            MessageKind::Steer => json!({"type": "steer", "key": key, "text": text}),
            MessageKind::Rework => json!({"type": "rework", "key": key, "text": text}),
            MessageKind::Continue => json!({"type": "continue", "key": key, "text": text}),
            MessageKind::Nudge => json!({"type": "nudge", "key": key, "text": text}),
            MessageKind::Interrupt => json!({"type": "interrupt", "key": key}),
            MessageKind::Compact => json!({"type": "compact", "key": key}),
            MessageKind::ResultWanted => json!({"type": "result_wanted", "key": key}),
            MessageKind::Answer => answered(key, &(*answer)?),
            // Sent as `Saying::Returned`, which names the call.
            MessageKind::Returned => return None,
        },
    };
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    Some(bytes)
}

fn answered(key: &str, answer: &Answer<'_>) -> Value {
    let mut message = json!({"type": "answer", "key": key, "request": answer.asked.native});
    match answer.reply {
        Reply::Text(text) => message["text"] = json!(text),
        Reply::Answers(answers) => message["answers"] = json!(answers),
        Reply::Approve(Scope::Once) => message["decision"] = json!("approve"),
        Reply::Approve(Scope::Session) => message["decision"] = json!("approve_for_session"),
        Reply::Deny => message["decision"] = json!("deny"),
    }
    message
}

/// A line of the agent. Every field but the type is optional; unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Ready {
        #[serde(default)]
        thread: Option<String>,
    },
    TurnStarted {
        #[serde(default)]
        turn: Option<String>,
    },
    TurnEnded {
        #[serde(default)]
        turn: Option<String>,
        #[serde(default)]
        status: String,
        #[serde(default)]
        error: Option<String>,
        /// The agent's answer.
        #[serde(default)]
        text: Option<String>,
    },
    Claim {
        claim: String,
        #[serde(default)]
        text: Option<String>,
        /// A claim that names a launch was meant for another channel; here the stream identifies
        /// the sender.
        #[serde(default)]
        launch: Option<serde_json::Value>,
    },
    Request {
        id: String,
        #[serde(default)]
        kind: String,
        #[serde(default = "yes")]
        blocking: bool,
        #[serde(default)]
        title: String,
        #[serde(default)]
        questions: Vec<Question>,
    },
    RequestWithdrawn {
        id: String,
    },
    /// A call of a tool with which a member acts on its team; `returned` answers it.
    Call {
        id: String,
        tool: String,
        #[serde(default)]
        arguments: Value,
    },
    Progress {
        done: u64,
        total: u64,
    },
    Usage {
        #[serde(default)]
        input: u64,
        #[serde(default)]
        output: u64,
    },
    /// How full the model's context is.
    Context {
        used: u64,
        window: u64,
    },
    /// The conversation was compacted.
    Compacted,
    Fact {
        fact: String,
        value: String,
    },
    Retrying {
        #[serde(default)]
        detail: String,
    },
}

fn yes() -> bool {
    true
}

fn signal(line: Line) -> Option<Signal> {
    Some(match line {
        Line::Ready { thread } => Signal::Ready { thread },
        Line::TurnStarted { turn } => Signal::TurnStarted { turn },
        Line::TurnEnded { turn, status, error, text } => {
            Signal::TurnEnded { turn, end: turn_end(&status, error), usage: None, says: text }
        }
        Line::Claim { launch: Some(_), .. } => return None,
        Line::Claim { claim, text, launch: None } => {
            Signal::Said(Testimony::Claim { kind: claim_kind(&claim)?, text })
        }
        // Without an id, an answer could not name its request.
        Line::Request { id, .. } if id.trim().is_empty() => return None,
        Line::Request { id, kind, blocking, title, questions } => Signal::Asked(Asked {
            native: id,
            kind: request_kind(&kind),
            waiting: if blocking { Waiting::Blocking } else { Waiting::Beside },
            title,
            questions,
            subject: None,
        }),
        Line::RequestWithdrawn { id } => Signal::Withdrawn { native: id },
        Line::Call { id, .. } if id.trim().is_empty() => return None,
        Line::Call { id, tool, arguments } => match tools::call(&tool, &arguments) {
            Ok(Called::OfTask(call)) => Signal::Called { native: id, call: Box::new(call) },
            Ok(Called::Said(_) | Called::Progress(_) | Called::Asked { .. }) => Signal::Warned {
                text: format!("{tool} must be sent as its own line, not as a tool call"),
            },
            Err(why) => Signal::Called { native: id, call: Box::new(Call::Unread { why }) },
        },
        Line::Progress { done, total } => Signal::Progress(Progress { done, total }),
        Line::Usage { input, output } => Signal::Usage(Usage { input, output }),
        Line::Context { used, window } => Signal::Context(Context { used, window }),
        Line::Compacted => Signal::Compacted,
        Line::Fact { fact, value } => {
            Signal::Said(Testimony::Fact { kind: fact_kind(&fact)?, value })
        }
        Line::Retrying { detail } => Signal::Retrying { detail },
    })
}

/// Maps the end of a turn. Only `ok` is a success: an unknown value fails closed.
fn turn_end(status: &str, error: Option<String>) -> TurnEnd {
    match status {
        "ok" => TurnEnd::Ok,
        "interrupted" => TurnEnd::Interrupted,
        "error" => TurnEnd::Error(error.unwrap_or_else(|| "the agent gave no reason".to_owned())),
        other => TurnEnd::Error(format!("the turn ended with the unknown status {other:?}")),
    }
}

fn claim_kind(word: &str) -> Option<ClaimKind> {
    ClaimKind::ALL.into_iter().find(|kind| *kind != ClaimKind::None && kind.word() == word)
}

/// Maps an unknown kind to a question: it needs the user, and nothing else matters here.
fn request_kind(word: &str) -> RequestKind {
    match word {
        "approval" => RequestKind::Approval,
        "dialog" => RequestKind::Dialog,
        _ => RequestKind::Question,
    }
}

fn fact_kind(word: &str) -> Option<FactKind> {
    match word {
        "branch" => Some(FactKind::Branch),
        "pr" => Some(FactKind::Pr),
        "artifact" => Some(FactKind::Artifact),
        _ => None,
    }
}
