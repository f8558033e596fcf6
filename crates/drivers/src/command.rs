//! Plain commands: output has no protocol, and text goes to standard input unchanged.

use provost_core::session::{MessageKind, Signal};

use crate::{Protocol, Saying};

/// The driver of commands without a protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command;

impl Protocol for Command {
    fn read(&mut self, _line: &[u8]) -> Option<Signal> {
        None
    }
}

pub(crate) fn say(what: &Saying<'_>) -> Option<Vec<u8>> {
    match what {
        Saying::Message { kind: MessageKind::Steer | MessageKind::Nudge, text, .. } => {
            let mut bytes = text.as_bytes().to_vec();
            bytes.push(b'\n');
            Some(bytes)
        }
        Saying::Message {
            kind:
                MessageKind::Instruction
                | MessageKind::Rework
                | MessageKind::ResultWanted
                | MessageKind::Answer
                | MessageKind::Returned
                | MessageKind::Continue
                | MessageKind::Interrupt
                | MessageKind::Compact,
            ..
        }
        | Saying::Interrupt { .. }
        | Saying::Returned { .. } => None,
    }
}
