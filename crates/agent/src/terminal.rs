//! Encodes messages to an agent on a terminal as keys.
//!
//! Text is pasted rather than typed, because programs treat a paste, with all its lines, as one
//! input and do not interpret any of its characters as a command. The key that submits the text
//! follows the paste.

use provost_core::{
    request::{ApprovalScope, RequestReply},
    session::{self, AgentInterface, AgentMessageKind, check_typeable, literal_text},
};

use crate::AgentInput;

/// The key that submits the prompt.
pub const ENTER: &[u8] = b"\r";

const ESCAPE: &[u8] = b"\x1b";
const PASTE: (&[u8], &[u8]) = (b"\x1b[200~", b"\x1b[201~");

pub fn encode(interface: &AgentInterface, what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match what {
        AgentInput::Message { answer: Some(answer), .. } => key_for(answer.reply),
        // The text is a slash command for the agent's composer.
        AgentInput::Message { kind: AgentMessageKind::Compact, text, .. } => {
            Some(paste_bytes(text))
        }
        AgentInput::Message { text, .. } => {
            check_typeable(interface, text).ok()?;
            Some(paste_bytes(&literal_text(interface.composer(), text)))
        }
        // In a dialog or an approval, Escape declines.
        AgentInput::Interrupt { .. } => Some(ESCAPE.to_vec()),
        // An agent on a terminal calls tools through MCP, and receives the results there too.
        AgentInput::ToolResult { .. } => None,
    }
}

/// Returns the key for a decision on a screen. A reply without a key must be given by the user at the
/// terminal.
fn key_for(reply: &RequestReply) -> Option<Vec<u8>> {
    match reply {
        RequestReply::Approve(ApprovalScope::Once) => Some(b"y".to_vec()),
        RequestReply::Deny => Some(ESCAPE.to_vec()),
        RequestReply::Approve(ApprovalScope::Session)
        | RequestReply::Text(_)
        | RequestReply::Answers(_) => None,
    }
}

/// Wraps a text in a paste, followed by Enter. Nothing in the text can end the paste or control the
/// terminal.
fn paste_bytes(text: &str) -> Vec<u8> {
    [PASTE.0, session::pasteable_text(text).as_bytes(), PASTE.1, ENTER].concat()
}

#[cfg(test)]
mod tests {
    use provost_core::session::Composer;

    use super::*;

    #[test]
    fn text_is_pasted_and_submitted() {
        assert_eq!(paste_bytes("one\ntwo"), b"\x1b[200~one\ntwo\x1b[201~\r");
    }

    #[test]
    fn text_is_not_sent_as_slash_command() {
        let mut interface = AgentInterface::terminal_command();
        interface.capabilities.screen.composer = Composer {
            command_prefixes: "/".to_owned(),
            shell_prefixes: "!".to_owned(),
            completion_prefixes: String::new(),
        };
        let say = |kind, text| {
            let form = Default::default();
            let message =
                AgentInput::Message { key: "k", kind, text, thread: None, answer: None, form };
            encode(&interface, &message)
        };
        let steer = |text| say(AgentMessageKind::Steer, text);
        assert_eq!(steer("/new idea"), Some(b"\x1b[200~ /new idea\x1b[201~\r".to_vec()));
        assert_eq!(steer("!ls"), None, "it would be run");
        let compact = say(AgentMessageKind::Compact, "/compact");
        assert_eq!(compact, Some(b"\x1b[200~/compact\x1b[201~\r".to_vec()));
    }

    #[test]
    fn text_cannot_end_its_paste() {
        let hostile = "a\x1b[201~\rrm -rf\x03\u{9b}201~\x07";
        assert_eq!(paste_bytes(hostile), "\x1b[200~a[201~\nrm -rf201~\x1b[201~\r".as_bytes());
    }
}
