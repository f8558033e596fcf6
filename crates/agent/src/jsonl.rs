//! JSON lines: one object per line on standard output and input, distinguished by `type`.
//!
//! The parser is lenient: a line that is not an object of a known type counts as plain output. It
//! is strict about results, though: an unknown status is an error, never a success.

use provost_core::{
    lifecycle::ClaimKind,
    request::{
        AgentRequest, ApprovalScope, BlockingMode, RequestKind, RequestQuestion, RequestReply,
    },
    session::{
        AgentMessageKind, ContextUsage, FactKind, Progress, ReportBody, StreamSignal, TurnEnd,
        Usage,
    },
    team::MemberCall,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    AgentInput, Protocol, RequestAnswer,
    tools::{self, ParsedCall},
};

/// The maximum length of a message. A longer line is journaled and shown as oversized, but is not
/// parsed.
pub const MAX_MESSAGE: usize = 128 << 10;

/// The protocol of agents that speak JSON lines.
#[derive(Clone, Copy, Debug)]
pub struct JsonlProtocol;

impl Protocol for JsonlProtocol {
    fn read(&mut self, line: &[u8]) -> Option<StreamSignal> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return None;
        }
        if line.len() > MAX_MESSAGE {
            return Some(StreamSignal::Oversized { bytes: line.len() as u64 });
        }
        // A line that does not parse as a message is plain output.
        serde_json::from_slice::<JsonlMessage>(line).ok().and_then(signal)
    }
}

pub fn encode(what: &AgentInput<'_>) -> Option<Vec<u8>> {
    let message = match what {
        AgentInput::Interrupt { key, .. } => json!({"type": "interrupt", "key": key}),
        AgentInput::ToolResult { key, native, ok, text, .. } => {
            json!({"type": "returned", "key": key, "call": native, "ok": ok, "text": text})
        }
        AgentInput::Message { key, kind, text, answer, .. } => match kind {
            AgentMessageKind::Instruction => {
                json!({"type": "instruction", "key": key, "text": text})
            }
            AgentMessageKind::Steer => json!({"type": "steer", "key": key, "text": text}),
            AgentMessageKind::Rework => json!({"type": "rework", "key": key, "text": text}),
            AgentMessageKind::Continue => json!({"type": "continue", "key": key, "text": text}),
            AgentMessageKind::Nudge => json!({"type": "nudge", "key": key, "text": text}),
            AgentMessageKind::Interrupt => json!({"type": "interrupt", "key": key}),
            AgentMessageKind::Compact => json!({"type": "compact", "key": key}),
            AgentMessageKind::ResultWanted => json!({"type": "result_wanted", "key": key}),
            AgentMessageKind::Answer => encode_answer(key, &(*answer)?),
            // Tool results are sent as `AgentInput::ToolResult`, which identifies the call.
            AgentMessageKind::Returned => return None,
        },
    };
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    Some(bytes)
}

fn encode_answer(key: &str, answer: &RequestAnswer<'_>) -> Value {
    let mut message = json!({"type": "answer", "key": key, "request": answer.asked.native});
    match answer.reply {
        RequestReply::Text(text) => message["text"] = json!(text),
        RequestReply::Answers(answers) => message["answers"] = json!(answers),
        RequestReply::Approve(ApprovalScope::Once) => message["decision"] = json!("approve"),
        RequestReply::Approve(ApprovalScope::Session) => {
            message["decision"] = json!("approve_for_session")
        }
        RequestReply::Deny => message["decision"] = json!("deny"),
    }
    message
}

/// A line from the agent. Every field except the type is optional, and unknown fields are ignored.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonlMessage {
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
        /// The agent's final message of the turn.
        #[serde(default)]
        text: Option<String>,
    },
    Claim {
        claim: String,
        #[serde(default)]
        text: Option<String>,
        /// A field that only reports on other channels contain. The stream already identifies the
        /// launch, so a claim with this field is ignored.
        #[serde(default)]
        launch: Option<serde_json::Value>,
    },
    Request {
        id: String,
        #[serde(default)]
        kind: String,
        #[serde(default = "default_true")]
        blocking: bool,
        #[serde(default)]
        title: String,
        #[serde(default)]
        questions: Vec<RequestQuestion>,
    },
    RequestWithdrawn {
        id: String,
    },
    /// A tool call by a team member. The result is sent back as `returned`.
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
    /// The part of the model's context that is in use.
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

fn default_true() -> bool {
    true
}

fn signal(line: JsonlMessage) -> Option<StreamSignal> {
    Some(match line {
        JsonlMessage::Ready { thread } => StreamSignal::Ready { thread },
        JsonlMessage::TurnStarted { turn } => StreamSignal::TurnStarted { turn },
        JsonlMessage::TurnEnded { turn, status, error, text } => {
            StreamSignal::TurnEnded { turn, end: turn_end(&status, error), usage: None, says: text }
        }
        JsonlMessage::Claim { launch: Some(_), .. } => return None,
        JsonlMessage::Claim { claim, text, launch: None } => {
            StreamSignal::Reported(ReportBody::Claim { kind: claim_kind(&claim)?, text })
        }
        // A request without an id yields no signal, because an answer could not refer to it.
        JsonlMessage::Request { id, .. } if id.trim().is_empty() => return None,
        JsonlMessage::Request { id, kind, blocking, title, questions } => {
            StreamSignal::RequestOpened(AgentRequest {
                native: id,
                kind: request_kind(&kind),
                waiting: if blocking { BlockingMode::Blocking } else { BlockingMode::NonBlocking },
                title,
                questions,
                subject: None,
            })
        }
        JsonlMessage::RequestWithdrawn { id } => StreamSignal::RequestWithdrawn { native: id },
        JsonlMessage::Call { id, .. } if id.trim().is_empty() => return None,
        JsonlMessage::Call { id, tool, arguments } => match tools::parse_call(&tool, &arguments) {
            Ok(ParsedCall::TeamCall(call)) => {
                StreamSignal::ToolCalled { native: id, call: Box::new(call) }
            }
            Ok(
                ParsedCall::Testimony(_) | ParsedCall::Progress(_) | ParsedCall::Question { .. },
            ) => StreamSignal::Warned {
                text: format!("{tool} must be sent as its own line, not as a tool call"),
            },
            Err(why) => {
                StreamSignal::ToolCalled { native: id, call: Box::new(MemberCall::Invalid { why }) }
            }
        },
        JsonlMessage::Progress { done, total } => StreamSignal::Progress(Progress { done, total }),
        JsonlMessage::Usage { input, output } => StreamSignal::Usage(Usage { input, output }),
        JsonlMessage::Context { used, window } => {
            StreamSignal::Context(ContextUsage { used, window })
        }
        JsonlMessage::Compacted => StreamSignal::Compacted,
        JsonlMessage::Fact { fact, value } => {
            StreamSignal::Reported(ReportBody::Fact { kind: fact_kind(&fact)?, value })
        }
        JsonlMessage::Retrying { detail } => StreamSignal::Retrying { detail },
    })
}

/// Maps the status at the end of a turn. Only `ok` is a success, and an unknown status is an error.
fn turn_end(status: &str, error: Option<String>) -> TurnEnd {
    match status {
        "ok" => TurnEnd::Ok,
        "interrupted" => TurnEnd::Interrupted,
        "error" => TurnEnd::Error(error.unwrap_or_else(|| "the agent gave no reason".to_owned())),
        other => TurnEnd::Error(format!("the turn ended with the unknown status {other:?}")),
    }
}

fn claim_kind(word: &str) -> Option<ClaimKind> {
    ClaimKind::ALL.into_iter().find(|kind| *kind != ClaimKind::None && kind.as_str() == word)
}

/// Maps the kind of a request. An unknown kind becomes a question, because the user must look at
/// it.
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
