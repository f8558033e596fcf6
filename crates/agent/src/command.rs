//! Plain commands. Their output has no protocol, and text is written to standard input unchanged.

use provost_core::session::{AgentMessageKind, StreamSignal};

use crate::{AgentInput, Protocol};

/// The protocol for plain commands. It ignores their output.
#[derive(Clone, Copy, Debug)]
pub struct CommandProtocol;

impl Protocol for CommandProtocol {
    fn read(&mut self, _line: &[u8]) -> Option<StreamSignal> {
        None
    }
}

pub fn encode(what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match what {
        AgentInput::Message {
            kind: AgentMessageKind::Steer | AgentMessageKind::Nudge,
            text,
            ..
        } => {
            let mut bytes = text.as_bytes().to_vec();
            bytes.push(b'\n');
            Some(bytes)
        }
        AgentInput::Message {
            kind:
                AgentMessageKind::Instruction
                | AgentMessageKind::Rework
                | AgentMessageKind::ResultWanted
                | AgentMessageKind::Answer
                | AgentMessageKind::Returned
                | AgentMessageKind::Continue
                | AgentMessageKind::Interrupt
                | AgentMessageKind::Compact,
            ..
        }
        | AgentInput::Interrupt { .. }
        | AgentInput::ToolResult { .. } => None,
    }
}
