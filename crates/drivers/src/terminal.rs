//! Encodes messages to an agent on a terminal as keys.
//!
//! Text is pasted, not typed: programs take a paste as one input, with all its lines, and none of
//! its characters as a command. The key that submits it follows the paste.

use provost_core::{
    request::{Reply, Scope},
    session::{self, Driver, MessageKind, literally, sayable},
};

use crate::Saying;

/// The key that submits the prompt.
pub const ENTER: &[u8] = b"\r";

const ESCAPE: &[u8] = b"\x1b";
const PASTE: (&[u8], &[u8]) = (b"\x1b[200~", b"\x1b[201~");

pub(crate) fn say(driver: Driver, what: &Saying<'_>) -> Option<Vec<u8>> {
    match what {
        Saying::Message { answer: Some(answer), .. } => key_for(answer.reply),
        // A slash command for the agent's composer, and intended as one.
        Saying::Message { kind: MessageKind::Compact, text, .. } => Some(pasted(text)),
        Saying::Message { text, .. } => {
            sayable(driver, text).ok().map(|()| pasted(&literally(driver, text)))
        }
        // In a dialog or an approval, Escape declines.
        Saying::Interrupt { .. } => Some(ESCAPE.to_vec()),
        // An agent on a terminal calls tools over MCP, and gets the result there.
        Saying::Returned { .. } => None,
    }
}

/// Returns the key for a decision in Codex. A choice on the screen is left to the user at the
/// terminal.
fn key_for(reply: &Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Approve(Scope::Once) => Some(b"y".to_vec()),
        Reply::Deny => Some(ESCAPE.to_vec()),
        Reply::Approve(Scope::Session) | Reply::Text(_) | Reply::Answers(_) => None,
    }
}

/// Wraps a text as a paste. Nothing in the text can end the paste or control the terminal.
fn pasted(text: &str) -> Vec<u8> {
    [PASTE.0, session::pasted(text).as_bytes(), PASTE.1, ENTER].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_pasted_whole_and_sent() {
        assert_eq!(pasted("one\ntwo"), b"\x1b[200~one\ntwo\x1b[201~\r");
    }

    #[test]
    fn a_text_is_no_command_to_codex_and_a_command_is_one() {
        let say = |kind, text| {
            let form = Default::default();
            let message =
                Saying::Message { key: "k", kind, text, thread: None, answer: None, form };
            say(Driver::CodexTerminal, &message)
        };
        let steer = |text| say(MessageKind::Steer, text);
        assert_eq!(steer("/new idea"), Some(b"\x1b[200~ /new idea\x1b[201~\r".to_vec()));
        assert_eq!(steer("!ls"), None, "it would be run");
        let compact = say(MessageKind::Compact, "/compact");
        assert_eq!(compact, Some(b"\x1b[200~/compact\x1b[201~\r".to_vec()));
    }

    #[test]
    fn no_text_ends_its_own_paste_or_commands_the_terminal() {
        let hostile = "a\x1b[201~\rrm -rf\x03\u{9b}201~\x07";
        assert_eq!(pasted(hostile), "\x1b[200~a[201~\nrm -rf201~\x1b[201~\r".as_bytes());
    }
}
