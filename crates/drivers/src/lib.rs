//! Drivers turn an agent's protocol into signals, and what is said to it into protocol.
//!
//! They are sans-IO and decide nothing: the engine moves bytes between them and the holder's journal.
//! What a protocol remembers is a fold over the journal of its launch, both directions, so that a
//! restarted daemon has it again by reading.

pub mod codex;
mod command;
mod jsonl;
mod masks;
pub mod mcp;
mod render;
mod task_tools;
mod terminal;
mod tools;

use provost_core::{
    request::{Asked, Reply},
    result::ResultForm,
    session::{Driver, MessageKind, Session, Settings, Signal, WorkState},
};

pub use jsonl::MAX_MESSAGE;
pub use masks::{MIN_SECRET, masks};
pub use render::render;
pub use terminal::ENTER;

/// Listens to one launch of an agent.
pub trait Protocol: Send + Sync {
    /// Reads one line of the agent's output. Lines that are no protocol are output and mean nothing.
    fn read(&mut self, line: &[u8]) -> Option<Signal>;

    /// Takes the time of the wall clock at which the next line was printed.
    fn set_clock(&mut self, _wall_ms: u64) {}

    /// Sees that something was written to the agent, and says whether the protocol owed it by itself: then it is
    /// no message of the session.
    fn wrote(&mut self, _key: &str) -> bool {
        false
    }

    /// Gives what the protocol itself has to write now, whatever the session wants: the handshake, and
    /// refusals of what nobody can answer. Each is written once, by its key.
    fn owed(&self) -> Vec<Write> {
        Vec::new()
    }

    /// Says whether it has to read the journal from its beginning after a restart.
    fn remembers(&self) -> bool {
        false
    }
}

/// One line for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: String,
    pub line: Vec<u8>,
}

/// What a launch's conversation is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub cwd: String,
    pub settings: Settings,
    /// The conversation that is gone on with.
    pub thread: Option<String>,
    /// The zone of the agent's clock, in which it tells times of day.
    pub zone: Option<jiff::tz::TimeZone>,
}

impl Opening {
    pub fn of(session: &Session) -> Opening {
        let cwd = match &session.work {
            WorkState::Ready { cwd, .. } => cwd,
            WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
        };
        Opening {
            cwd: cwd.clone(),
            settings: session.spec.agent.settings.clone(),
            // A conversation without a turn was written down nowhere, so there is nothing to go on with.
            thread: session.thread.clone().filter(|_| session.turns > 0),
            zone: None,
        }
    }
}

/// Something to be said to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying<'a> {
    Message {
        key: &'a str,
        kind: MessageKind,
        text: &'a str,
        thread: Option<&'a str>,
        answer: Option<Answer<'a>>,
        /// In which form the agent is to tell its result.
        form: ResultForm,
    },
    Interrupt {
        key: &'a str,
        thread: Option<&'a str>,
        turn: Option<&'a str>,
    },
    /// What came of a call of a tool.
    Returned {
        key: &'a str,
        native: &'a str,
        ok: bool,
        text: &'a str,
        thread: Option<&'a str>,
        /// Whether the process that called is the one that is answered.
        live: bool,
        form: ResultForm,
    },
}

/// An answer to something that the agent asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub asked: &'a Asked,
    pub reply: &'a Reply,
    /// Whether the process that asked is the one that is answered; a later one never asked.
    pub live: bool,
}

/// Gives the protocol of a driver.
pub fn protocol(driver: Driver, opening: Opening) -> Box<dyn Protocol> {
    match driver {
        Driver::Command | Driver::Terminal | Driver::CodexTerminal => Box::new(command::Command),
        Driver::Jsonl => Box::new(jsonl::Jsonl),
        Driver::Codex => Box::new(codex::AppServer::new(opening)),
        Driver::CodexExec => Box::new(codex::Exec::new(opening)),
    }
}

/// Gives the line that says this to the agent, or none if it can't be said.
pub fn say(driver: Driver, what: &Saying<'_>) -> Option<Vec<u8>> {
    match driver {
        Driver::Command => command::say(what),
        Driver::Jsonl => jsonl::say(what),
        Driver::Codex => codex::say(what),
        Driver::CodexExec => None,
        Driver::Terminal | Driver::CodexTerminal => terminal::say(driver, what),
    }
}
