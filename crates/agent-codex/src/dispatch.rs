//! Selects the protocol of an agent. Those of Codex are in this crate, all others in
//! `provost_agent`.

use provost_agent::{AgentInput, ConversationOptions, Protocol, command, jsonl, terminal};
use provost_core::session::{AdapterId, AgentInterface, AgentMode};

use crate::{
    ADAPTER,
    protocol::{AppServerProtocol, ExecProtocol, encode as encode_app_server},
};

/// Returns the protocol of an agent.
pub fn protocol(interface: &AgentInterface, opening: ConversationOptions) -> Box<dyn Protocol> {
    match interface.mode {
        AgentMode::Headless if interface.adapter == ADAPTER => {
            Box::new(AppServerProtocol::new(opening))
        }
        AgentMode::Once if interface.adapter == ADAPTER => Box::new(ExecProtocol::new(opening)),
        AgentMode::Headless if interface.adapter == AdapterId::JSON_LINES => {
            Box::new(jsonl::JsonlProtocol)
        }
        AgentMode::Headless | AgentMode::Once | AgentMode::Terminal => {
            Box::new(command::CommandProtocol)
        }
    }
}

/// Encodes a message as a line for the agent. Returns `None` if its protocol cannot express it.
pub fn encode(interface: &AgentInterface, what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match interface.mode {
        AgentMode::Headless if interface.adapter == ADAPTER => encode_app_server(what),
        AgentMode::Headless if interface.adapter == AdapterId::JSON_LINES => jsonl::encode(what),
        AgentMode::Headless => command::encode(what),
        AgentMode::Once => None,
        AgentMode::Terminal => terminal::encode(interface, what),
    }
}
