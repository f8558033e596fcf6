//! Input of Codex's `notify` program: JSON as the last argument, when a turn of any thread
//! succeeds.
//!
//! Codex's internal threads notify too, for example the one that finds a title for a task: compare
//! the thread.

use std::path::PathBuf;

use serde::Deserialize;

use crate::ThreadId;

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Older versions omit it.
    pub thread: Option<ThreadId>,
    pub turn: Option<String>,
    pub cwd: Option<PathBuf>,
    pub told: Told,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    TurnComplete {
        last_message: Option<String>,
    },
    /// An event that this version does not know.
    Other {
        event: String,
    },
}

/// Why a notification could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("the notification is not a JSON object with a type")]
pub struct Error(#[from] serde_json::Error);

/// Parses the last argument of a notification.
pub fn read(argument: &[u8]) -> Result<Heard, Error> {
    let input: Input = serde_json::from_slice(argument)?;
    let told = match input.kind.as_str() {
        "agent-turn-complete" => Told::TurnComplete { last_message: input.last_message },
        _ => Told::Other { event: input.kind },
    };
    let thread = input.thread.as_deref().and_then(ThreadId::parse);
    Ok(Heard { thread, turn: input.turn, cwd: input.cwd, told })
}

#[derive(Debug, Deserialize)]
struct Input {
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
    fn the_thread_tells_a_hidden_title_from_the_persons_own_turn() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/notify.jsonl"
        ));
        let heard: Vec<_> =
            text.unwrap().lines().map(|line| read(line.as_bytes()).unwrap()).collect();
        let own = ThreadId::parse("01a1e08b-614a-7c61-a49a-d6ec86726bf8");
        let is_own: Vec<_> = heard.iter().map(|heard| heard.thread == own).collect();
        assert_eq!(is_own, [false, true, false, true, false, true, true]);
        assert_eq!(
            heard[1].told,
            Told::TurnComplete { last_message: Some("Hello from the model.".into()) }
        );
        assert_eq!(heard[1].turn.as_deref(), Some("01a1e08b-640d-70a0-9e51-78a46de3d154"));
        assert_eq!(heard[5].told, Told::TurnComplete { last_message: None });
    }

    #[test]
    fn what_is_no_notification_is_refused_and_new_ones_are_named() {
        assert!(read(b"agent-turn-complete").is_err());
        let heard = read(br#"{"type":"new","thread-id":"../x"}"#).unwrap();
        assert_eq!((heard.thread, heard.told), (None, Told::Other { event: "new".into() }));
    }
}
