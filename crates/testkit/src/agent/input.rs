//! The agent's stdin: lines, and JSON messages by type.

use std::io::{self, BufRead as _, BufReader, Read as _, Stdin};

use serde_json::Value;

use super::Error;

/// The maximum length of a line from stdin.
const MAX_LINE: u64 = 16 * 1024 * 1024;

pub(super) struct ScriptInput(BufReader<Stdin>);

/// The parts of a message that a scenario uses.
pub(super) struct InputMessage {
    pub(super) key: String,
    /// The `text` of the message, or its `answers` as JSON if it has no text.
    pub(super) text: String,
}

impl Default for ScriptInput {
    fn default() -> Self {
        Self(BufReader::new(io::stdin()))
    }
}

impl ScriptInput {
    /// Returns the next line without its newline, or `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, Error> {
        let mut line = Vec::new();
        self.0
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(Error::io("read stdin"))?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            return Err(Error::Step(format!("read stdin: a line of more than {MAX_LINE} bytes")));
        }
        let line = String::from_utf8_lossy(&line);
        Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
    }

    /// Returns the next message of a type, or `None` at the end. Skips messages of other types.
    pub(super) fn next_of(&mut self, kind: &str) -> Result<Option<InputMessage>, Error> {
        while let Some(line) = self.next_line()? {
            let message: Value = serde_json::from_str(&line)
                .map_err(|error| Error::Step(format!("parse a line on stdin: {error}: {line}")))?;
            if message["type"] == kind {
                return Ok(Some(message_parts(&message)));
            }
        }
        Ok(None)
    }
}

fn message_parts(message: &Value) -> InputMessage {
    let text = match (&message["text"], &message["answers"]) {
        (Value::String(text), _) => text.clone(),
        (_, Value::Null) => String::new(),
        (_, answers) => answers.to_string(),
    };
    InputMessage { key: message["key"].as_str().unwrap_or_default().to_owned(), text }
}
