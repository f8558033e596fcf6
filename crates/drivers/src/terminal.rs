//! Encodes messages to an agent on a terminal as keys.
//!
//! Text is pasted, not typed: programs take a paste as one input, with all its lines, and none of
//! its characters as a command. The key that submits it follows the paste.

use provost_core::{
    request::{ApprovalScope, RequestReply},
    session::{self, AgentMessageKind, Driver, check_typeable, literal_text},
};

use crate::AgentInput;

/// The key that submits the prompt.
pub const ENTER: &[u8] = b"\r";

const ESCAPE: &[u8] = b"\x1b";
const PASTE: (&[u8], &[u8]) = (b"\x1b[200~", b"\x1b[201~");

pub(crate) fn encode(driver: Driver, what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match what {
        AgentInput::Message { answer: Some(answer), .. } => key_for(answer.reply),
        // A slash command for the agent's composer, and intended as one.
        AgentInput::Message { kind: AgentMessageKind::Compact, text, .. } => {
            Some(paste_bytes(text))
        }
        AgentInput::Message { text, .. } => {
            check_typeable(driver, text).ok().map(|()| paste_bytes(&literal_text(driver, text)))
        }
        // In a dialog or an approval, Escape declines.
        AgentInput::Interrupt { .. } => Some(ESCAPE.to_vec()),
        // An agent on a terminal calls tools over MCP, and gets the result there.
        AgentInput::ToolResult { .. } => None,
    }
}

/// Returns the key for a decision in Codex. A choice on the screen is left to the user at the
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

/// Wraps a text as a paste. Nothing in the text can end the paste or control the terminal.
fn paste_bytes(text: &str) -> Vec<u8> {
    [PASTE.0, session::pasteable_text(text).as_bytes(), PASTE.1, ENTER].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_pasted_and_submitted() {
        assert_eq!(paste_bytes("one\ntwo"), b"\x1b[200~one\ntwo\x1b[201~\r");
    }

    #[test]
    fn text_is_not_sent_as_slash_command() {
        let say = |kind, text| {
            let form = Default::default();
            let message =
                AgentInput::Message { key: "k", kind, text, thread: None, answer: None, form };
            encode(Driver::CodexTerminal, &message)
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
