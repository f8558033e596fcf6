//! Drivers turn an agent's protocol into signals, and what is said to it into protocol.
//!
//! They are sans-IO and decide nothing: the engine moves bytes between them and the holder's journal.

mod command;
mod jsonl;

use provost_core::session::{Driver, MessageKind, Signal};

pub use command::Command;
pub use jsonl::{Jsonl, MAX_MESSAGE};

/// What a driver can do with its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The agent has turns and takes instructions.
    pub instructions: bool,
    /// A turn can be interrupted without ending the process.
    pub interrupt: bool,
    /// The agent may ask, and can be answered.
    pub requests: bool,
}

/// Speaks with one launch of an agent.
pub trait Protocol: Send + Sync {
    fn capabilities(&self) -> Capabilities;

    /// Reads one line of the agent's output. Lines that are no protocol are output and mean nothing.
    fn read(&mut self, line: &[u8]) -> Option<Signal>;

    /// Gives the bytes that say this to the agent, or none if it can't be said.
    fn say(&mut self, what: &Saying<'_>) -> Option<Vec<u8>>;
}

/// Something to be said to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying<'a> {
    Message { key: &'a str, kind: MessageKind, text: &'a str, request: Option<&'a str> },
    Interrupt { key: &'a str },
}

/// Gives the protocol of a driver.
pub fn protocol(driver: Driver) -> Box<dyn Protocol> {
    match driver {
        Driver::Command => Box::new(Command),
        Driver::Jsonl => Box::new(Jsonl),
    }
}
