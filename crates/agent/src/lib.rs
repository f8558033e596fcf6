//! The port to agents: what an adapter provides, and the adapters for plain commands and JSON lines.
//!
//! Protocols decode an agent's output into signals and encode messages to the agent. They do no I/O
//! and make no decisions: the engine moves bytes between them and the holder's journal. A protocol's
//! state is a fold over both directions of its launch's journal, so a restarted daemon rebuilds the
//! state by reading the journal.

pub mod adapter;
pub mod command;
pub mod discovery;
pub mod fields;
pub mod front_end;
pub mod jsonl;
pub mod launch;
mod masks;
pub mod mcp;
pub mod processes;
pub mod screen;
mod team_tools;
pub mod terminal;
pub mod tools;
pub mod transcript;

use provost_core::{
    request::{AgentRequest, RequestReply},
    result::ResultForm,
    session::{AgentMessageKind, AgentSettings, Session, StreamSignal, WorkState},
};

pub use adapter::{Adapter, Adapters, HookReport, MessageRenderer, UnknownAdapter};
pub use jsonl::MAX_MESSAGE;
pub use masks::{MIN_SECRET, secret_masks};
pub use terminal::ENTER;

/// Decodes the output of one launch of an agent.
pub trait Protocol: Send + Sync {
    /// Parses one line of the agent's output. A line outside the protocol is plain output and
    /// yields no signal.
    fn read(&mut self, line: &[u8]) -> Option<StreamSignal>;

    /// Sets the wall-clock time at which the next line was printed.
    fn set_clock(&mut self, _wall_ms: u64) {}

    /// Records that a line was written to the agent. Returns true if the line belongs to the
    /// protocol itself rather than to the session's messages.
    fn acknowledge_write(&mut self, _key: &str) -> bool {
        false
    }

    /// Returns the lines that the protocol itself needs to write now: the handshake, and rejections
    /// of requests that cannot be answered. Each line has a key, and is written once per key.
    fn pending_writes(&self) -> Vec<ProtocolWrite> {
        Vec::new()
    }

    /// Whether the protocol must read the journal from its beginning after a restart.
    fn needs_full_journal(&self) -> bool {
        false
    }
}

/// One line to write to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolWrite {
    pub key: String,
    pub line: Vec<u8>,
}

/// The options with which a launch opens its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationOptions {
    pub cwd: String,
    pub settings: AgentSettings,
    /// The conversation to resume, if any.
    pub thread: Option<String>,
    /// The time zone of the agent's clock, in which the agent reports times of day.
    pub zone: Option<jiff::tz::TimeZone>,
}

impl ConversationOptions {
    pub fn from_session(session: &Session) -> ConversationOptions {
        let cwd = match &session.worktree.state {
            WorkState::Ready { cwd, .. } => cwd,
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
        };
        ConversationOptions {
            cwd: cwd.clone(),
            settings: session.spec.agent.settings.clone(),
            // A conversation without a turn may not be stored, so there would be nothing to resume.
            thread: if session.spending.turns > 0 {
                session.conversation.thread.clone()
            } else {
                None
            },
            zone: None,
        }
    }
}

/// A message to the agent, before encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentInput<'a> {
    Message {
        key: &'a str,
        kind: AgentMessageKind,
        text: &'a str,
        thread: Option<&'a str>,
        answer: Option<RequestAnswer<'a>>,
        /// The form in which the agent should report its result.
        form: ResultForm,
    },
    Interrupt {
        key: &'a str,
        thread: Option<&'a str>,
        turn: Option<&'a str>,
    },
    /// The result of a tool call.
    ToolResult {
        key: &'a str,
        native: &'a str,
        ok: bool,
        text: &'a str,
        thread: Option<&'a str>,
        /// Whether the process that made the call is still running, so that it can receive the
        /// result.
        live: bool,
        form: ResultForm,
    },
}

/// An answer to a request from the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAnswer<'a> {
    pub asked: &'a AgentRequest,
    pub reply: &'a RequestReply,
    /// Whether the process that made the request is still running, so that it can receive the
    /// answer. A later process does not know the request.
    pub live: bool,
}
