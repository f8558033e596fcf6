//! The envelope: JSON-RPC without its version, one message per line.
//!
//! Only the envelope is typed. What it carries stays a value, out of which each reader takes what it
//! knows; a field that is not known, or that has another shape than it used to have, spoils nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) use provost_core::text::shortened as bounded;
use serde_json::{Map, Value, json};

/// What a message of the server is. Ids of its requests and of ours are two spaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Request { id: Id, method: String, params: Value },
    Note { method: String, params: Value, at_ms: Option<u64> },
    Answer { id: Id, outcome: Outcome },
}

/// How a request of ours was answered.
pub(crate) type Outcome = Result<Value, String>;

/// The name of a request: a string or a number, kept as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id(Value);

/// A longer id is no part of a key.
const MAX_KEY: usize = 32;

/// The server's own code for whatever it does not accept; `-32601` it does not know.
const INVALID: i64 = -32600;

impl Id {
    pub(crate) fn of(value: &Value) -> Option<Id> {
        matches!(value, Value::String(_) | Value::Number(_)).then(|| Id(value.clone()))
    }

    /// Reads what [`Id::text`] gave.
    pub(crate) fn parse(text: &str) -> Option<Id> {
        serde_json::from_str::<Value>(text).ok().as_ref().and_then(Id::of)
    }

    /// Gives the id as JSON, in which `1` and `"1"` differ.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Gives the key under which an answer of the protocol's own is written. A name that is no short
    /// number is told by its hash.
    pub(crate) fn key(&self, prefix: &str) -> String {
        let text = self.text();
        if self.0.is_number() && text.len() <= MAX_KEY {
            return format!("{prefix}{text}");
        }
        hashed_key(prefix, &text)
    }

    /// Gives the id if it is one of ours: those are strings.
    pub(crate) fn ours(&self) -> Option<&str> {
        self.0.as_str()
    }
}

/// Gives a key for what concerns something that the server named, however long or odd that name is.
pub(crate) fn hashed_key(prefix: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{prefix}x{:016x}", hasher.finish())
}

impl Message {
    /// Reads a line; none if it is no message.
    pub(crate) fn read(line: &[u8]) -> Option<Message> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return None;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else { return None };
        let id = fields.get("id").and_then(Id::of);
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => {
                Some(Message::Request { id, method, params: params(&mut fields) })
            }
            (Some(Value::String(method)), None) if !fields.contains_key("id") => {
                let at_ms = fields.get("emittedAtMs").and_then(Value::as_u64);
                Some(Message::Note { method, params: params(&mut fields), at_ms })
            }
            (None, Some(id)) => Some(Message::Answer { id, outcome: outcome(&mut fields)? }),
            // A method that is no word, or an id that nobody could be answered by.
            (Some(_) | None, _) => None,
        }
    }
}

/// Gives a request as a line.
pub(crate) fn request(id: &str, method: &str, params: Value) -> Vec<u8> {
    line(json!({"id": id, "method": method, "params": params}))
}

/// Gives a notification as a line.
pub(crate) fn note(method: &str) -> Vec<u8> {
    line(json!({"method": method}))
}

/// Gives the answer to a request of the server as a line.
pub(crate) fn answer(id: &Id, result: Value) -> Vec<u8> {
    line(json!({"id": id.0, "result": result}))
}

/// Gives the refusal of a request of the server as a line.
pub(crate) fn refusal(id: &Id, why: &str) -> Vec<u8> {
    line(json!({"id": id.0, "error": {"code": INVALID, "message": why}}))
}

/// Gives the text at a key, if there is one that is a text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Gives the elements at a key; a list that is missing is an empty one.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn params(fields: &mut Map<String, Value>) -> Value {
    fields.remove("params").unwrap_or(Value::Null)
}

fn outcome(fields: &mut Map<String, Value>) -> Option<Outcome> {
    match (fields.remove("result"), fields.remove("error")) {
        (_, Some(error)) if !error.is_null() => {
            let told = text(&error, "message").map_or_else(|| error.to_string(), str::to_owned);
            Some(Err(told))
        }
        (Some(result), _) => Some(Ok(result)),
        (None, _) => None,
    }
}

fn line(message: Value) -> Vec<u8> {
    let mut bytes = message.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_note_an_answer_or_nothing() {
        let read = |line: &str| Message::read(line.as_bytes());
        assert!(matches!(read(r#"{"id":0,"method":"m"}"#), Some(Message::Request { .. })));
        assert!(matches!(read(r#"{"method":"m","params":{}}"#), Some(Message::Note { .. })));
        assert!(matches!(
            read(r#"{"id":"x","result":null}"#),
            Some(Message::Answer { outcome: Ok(Value::Null), .. })
        ));
        assert!(matches!(
            read(r#"{"id":"x","error":{"code":-1,"message":"no"}}"#),
            Some(Message::Answer { outcome: Err(_), .. })
        ));
        for nothing in ["", "x", "[]", "{", "{}", r#"{"id":1}"#, r#"{"id":null,"method":"m"}"#] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_id_keeps_its_type() {
        for text in ["1", "\"1\"", "-3", "\"a b\""] {
            assert_eq!(Id::parse(text).unwrap().text(), text);
        }
        assert_eq!(Id::parse("null"), None);
        assert_eq!(Id::parse("{}"), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("añb", 2), "a… (3 more bytes)");
    }
}
