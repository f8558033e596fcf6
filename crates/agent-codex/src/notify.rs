//! Parses the input of Codex's `notify` program, which is JSON in the last argument. Codex calls
//! the program when a turn of any thread succeeds.
//!
//! Codex's internal threads, such as the one that creates a title, notify too, so callers must
//! compare the thread.

use std::path::PathBuf;

use serde::Deserialize;

use crate::ThreadId;

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyCall {
    /// The thread. Older versions of Codex omit it.
    pub thread: Option<ThreadId>,
    pub turn: Option<String>,
    pub cwd: Option<PathBuf>,
    pub event: NotifyEvent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyEvent {
    TurnComplete {
        last_message: Option<String>,
    },
    /// An event that this version of Provost does not know.
    Other {
        event: String,
    },
}

/// The reason why a notification could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("the notification is not a JSON object with a type")]
pub struct Error(#[from] serde_json::Error);

/// Parses the last argument of a notification.
pub fn parse_notification(argument: &[u8]) -> Result<NotifyCall, Error> {
    let input: NotifyInput = serde_json::from_slice(argument)?;
    let event = match input.kind.as_str() {
        "agent-turn-complete" => NotifyEvent::TurnComplete { last_message: input.last_message },
        _ => NotifyEvent::Other { event: input.kind },
    };
    let thread = input.thread.as_deref().and_then(ThreadId::parse);
    Ok(NotifyCall { thread, turn: input.turn, cwd: input.cwd, event })
}

#[derive(Debug, Deserialize)]
struct NotifyInput {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "thread-id", default)]
    thread: Option<String>,
    #[serde(rename = "turn-id", default)]
    turn: Option<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(rename = "last-assistant-message", default)]
    last_message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_title_thread_is_distinguishable() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/notify.jsonl"
        ));
        let heard: Vec<_> = text
            .unwrap()
            .lines()
            .map(|line| parse_notification(line.as_bytes()).unwrap())
            .collect();
        let own = ThreadId::parse("01a1e08b-614a-7c61-a49a-d6ec86726bf8");
        let is_own: Vec<_> = heard.iter().map(|heard| heard.thread == own).collect();
        assert_eq!(is_own, [false, true, false, true, false, true, true]);
        assert_eq!(
            heard[1].event,
            NotifyEvent::TurnComplete { last_message: Some("Hello from the model.".into()) }
        );
        assert_eq!(heard[1].turn.as_deref(), Some("01a1e08b-640d-70a0-9e51-78a46de3d154"));
        assert_eq!(heard[5].event, NotifyEvent::TurnComplete { last_message: None });
    }

    #[test]
    fn bad_notification_is_an_error() {
        assert!(parse_notification(b"agent-turn-complete").is_err());
        let heard = parse_notification(br#"{"type":"new","thread-id":"../x"}"#).unwrap();
        assert_eq!((heard.thread, heard.event), (None, NotifyEvent::Other { event: "new".into() }));
    }
}
