//! Drivers decode an agent's protocol into signals, and encode messages to it.
//!
//! They are sans-IO and make no decisions: the engine moves bytes between them and the holder's
//! journal. A protocol's state is a fold over both directions of its launch's journal, so a
//! restarted daemon rebuilds it by reading the journal.

pub mod codex;
mod command;
mod jsonl;
mod masks;
pub mod mcp;
mod render;
mod team_tools;
mod terminal;
mod tools;

use provost_core::{
    request::{AgentRequest, RequestReply},
    result::ResultForm,
    session::{AgentMessageKind, AgentSettings, Driver, Session, StreamSignal, WorkState},
};

pub use jsonl::MAX_MESSAGE;
pub use masks::{MIN_SECRET, secret_masks};
pub use render::render;
pub use terminal::ENTER;

/// Decodes the output of one launch of an agent.
pub trait Protocol: Send + Sync {
    /// Reads one line of the agent's output. A line outside the protocol is plain output and yields
    /// no signal.
    fn read(&mut self, line: &[u8]) -> Option<StreamSignal>;

    /// Sets the wall-clock time at which the next line was printed.
    fn set_clock(&mut self, _wall_ms: u64) {}

    /// Records that a line was written to the agent. Returns true if the protocol itself had it
    /// pending; then it is not a message of the session.
    fn acknowledge_write(&mut self, _key: &str) -> bool {
        false
    }

    /// Returns the lines that the protocol itself has to write now: the handshake, and refusals of
    /// requests that cannot be answered. Each is written once, by its key.
    fn pending_writes(&self) -> Vec<ProtocolWrite> {
        Vec::new()
    }

    /// Whether the protocol has to read the journal from its beginning after a restart.
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

/// The parameters with which a launch opens its conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationOptions {
    pub cwd: String,
    pub settings: AgentSettings,
    /// The conversation to resume.
    pub thread: Option<String>,
    /// The time zone of the agent's clock, in which it reports times of day.
    pub zone: Option<jiff::tz::TimeZone>,
}

impl ConversationOptions {
    pub fn from_session(session: &Session) -> ConversationOptions {
        let cwd = match &session.work {
            WorkState::Ready { cwd, .. } => cwd,
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
        };
        ConversationOptions {
            cwd: cwd.clone(),
            settings: session.spec.agent.settings.clone(),
            // Codex stores no conversation without a turn, so there is nothing to resume.
            thread: if session.turns > 0 { session.thread.clone() } else { None },
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
        /// The form in which the agent must report its result.
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
        /// Whether the process that made the call is still the one that gets the result.
        live: bool,
        form: ResultForm,
    },
}

/// An answer to a request of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAnswer<'a> {
    pub asked: &'a AgentRequest,
    pub reply: &'a RequestReply,
    /// Whether the process that asked is still the one that gets the answer. A later process never
    /// asked.
    pub live: bool,
}

/// Returns the protocol of a driver.
pub fn protocol(driver: Driver, opening: ConversationOptions) -> Box<dyn Protocol> {
    match driver {
        Driver::Command | Driver::Terminal | Driver::CodexTerminal => {
            Box::new(command::CommandProtocol)
        }
        Driver::Jsonl => Box::new(jsonl::JsonlProtocol),
        Driver::Codex => Box::new(codex::AppServerProtocol::new(opening)),
        Driver::CodexExec => Box::new(codex::ExecProtocol::new(opening)),
    }
}

/// Encodes a message as a line for the agent. Returns None if the driver cannot express it.
pub fn encode(driver: Driver, what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match driver {
        Driver::Command => command::encode(what),
        Driver::Jsonl => jsonl::encode(what),
        Driver::Codex => codex::encode(what),
        Driver::CodexExec => None,
        Driver::Terminal | Driver::CodexTerminal => terminal::encode(driver, what),
    }
}
