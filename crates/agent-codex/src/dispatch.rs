//! Selects the protocol of each driver. Those of Codex are in this crate, all others in
//! `provost_agent`.

use provost_agent::{AgentInput, ConversationOptions, Protocol, command, jsonl, terminal};
use provost_core::session::Driver;

use crate::protocol::{AppServerProtocol, ExecProtocol, encode as encode_app_server};

/// Returns the protocol of a driver.
pub fn protocol(driver: Driver, opening: ConversationOptions) -> Box<dyn Protocol> {
    match driver {
        Driver::Command | Driver::Terminal | Driver::CodexTerminal => {
            Box::new(command::CommandProtocol)
        }
        Driver::Jsonl => Box::new(jsonl::JsonlProtocol),
        Driver::Codex => Box::new(AppServerProtocol::new(opening)),
        Driver::CodexExec => Box::new(ExecProtocol::new(opening)),
    }
}

/// Encodes a message as a line for the agent. Returns `None` if the driver cannot express it.
pub fn encode(driver: Driver, what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match driver {
        Driver::Command => command::encode(what),
        Driver::Jsonl => jsonl::encode(what),
        Driver::Codex => encode_app_server(what),
        Driver::CodexExec => None,
        Driver::Terminal | Driver::CodexTerminal => terminal::encode(driver, what),
    }
}
