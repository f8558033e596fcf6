//! The envelope: JSON-RPC without its version, one message per line.
//!
//! Only the envelope is typed. Its content stays a JSON value, from which each reader takes the
//! fields that it knows. An unknown field, or one whose shape changed, does no harm.

use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) use provost_core::text::shortened as bounded;
use serde_json::{Map, Value, json};

/// A message of the server. The ids of its requests and of ours are separate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RpcMessage {
    Request { id: RpcId, method: String, params: Value },
    Notification { method: String, params: Value, at_ms: Option<u64> },
    Answer { id: RpcId, outcome: RpcResult },
}

/// The answer to one of our requests.
pub(crate) type RpcResult = Result<Value, String>;

/// The id of a request: a string or a number, kept as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcId(Value);

/// Maximum length of an id that is part of a key.
const MAX_KEY: usize = 32;

/// The server's code for anything it rejects; it does not know `-32601`.
const INVALID: i64 = -32600;

impl RpcId {
    pub(crate) fn from_value(value: &Value) -> Option<RpcId> {
        matches!(value, Value::String(_) | Value::Number(_)).then(|| RpcId(value.clone()))
    }

    /// Parses the output of [`RpcId::text`].
    pub(crate) fn parse(text: &str) -> Option<RpcId> {
        serde_json::from_str::<Value>(text).ok().as_ref().and_then(RpcId::from_value)
    }

    /// Returns the id as JSON, in which `1` and `"1"` differ.
    pub(crate) fn to_json(&self) -> String {
        self.0.to_string()
    }

    /// Returns the key of an answer of the protocol itself. An id that is not a short number is
    /// hashed.
    pub(crate) fn key(&self, prefix: &str) -> String {
        let text = self.to_json();
        if self.0.is_number() && text.len() <= MAX_KEY {
            return format!("{prefix}{text}");
        }
        hashed_key(prefix, &text)
    }

    /// Returns the id if it is one of ours: those are strings.
    pub(crate) fn as_own_id(&self) -> Option<&str> {
        self.0.as_str()
    }
}

/// Returns a key for something that the server named, however long or odd that name is.
pub(crate) fn hashed_key(prefix: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{prefix}x{:016x}", hasher.finish())
}

impl RpcMessage {
    /// Parses a line; None if it is not a message.
    pub(crate) fn read(line: &[u8]) -> Option<RpcMessage> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return None;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(line) else { return None };
        let id = fields.get("id").and_then(RpcId::from_value);
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => {
                Some(RpcMessage::Request { id, method, params: params(&mut fields) })
            }
            (Some(Value::String(method)), None) if !fields.contains_key("id") => {
                let at_ms = fields.get("emittedAtMs").and_then(Value::as_u64);
                Some(RpcMessage::Notification { method, params: params(&mut fields), at_ms })
            }
            (None, Some(id)) => Some(RpcMessage::Answer { id, outcome: outcome(&mut fields)? }),
            // A method that is not a string, or an id that cannot be answered.
            (Some(_) | None, _) => None,
        }
    }
}

/// Returns a request as a line.
pub(crate) fn request(id: &str, method: &str, params: Value) -> Vec<u8> {
    line(json!({"id": id, "method": method, "params": params}))
}

/// Returns a notification as a line.
pub(crate) fn notification_line(method: &str) -> Vec<u8> {
    line(json!({"method": method}))
}

/// Returns the answer to a request of the server as a line.
pub(crate) fn answer(id: &RpcId, result: Value) -> Vec<u8> {
    line(json!({"id": id.0, "result": result}))
}

/// Returns the rejection of a request of the server as a line.
pub(crate) fn error_line(id: &RpcId, why: &str) -> Vec<u8> {
    line(json!({"id": id.0, "error": {"code": INVALID, "message": why}}))
}

/// Returns the string at a key.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Returns the elements at a key; a missing list is empty.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn params(fields: &mut Map<String, Value>) -> Value {
    fields.remove("params").unwrap_or(Value::Null)
}

fn outcome(fields: &mut Map<String, Value>) -> Option<RpcResult> {
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
    fn lines_parse_as_message_kinds() {
        let read = |line: &str| RpcMessage::read(line.as_bytes());
        assert!(matches!(read(r#"{"id":0,"method":"m"}"#), Some(RpcMessage::Request { .. })));
        assert!(matches!(
            read(r#"{"method":"m","params":{}}"#),
            Some(RpcMessage::Notification { .. })
        ));
        assert!(matches!(
            read(r#"{"id":"x","result":null}"#),
            Some(RpcMessage::Answer { outcome: Ok(Value::Null), .. })
        ));
        assert!(matches!(
            read(r#"{"id":"x","error":{"code":-1,"message":"no"}}"#),
            Some(RpcMessage::Answer { outcome: Err(_), .. })
        ));
        for nothing in ["", "x", "[]", "{", "{}", r#"{"id":1}"#, r#"{"id":null,"method":"m"}"#] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_id_keeps_its_type() {
        for text in ["1", "\"1\"", "-3", "\"a b\""] {
            assert_eq!(RpcId::parse(text).unwrap().to_json(), text);
        }
        assert_eq!(RpcId::parse("null"), None);
        assert_eq!(RpcId::parse("{}"), None);
    }

    #[test]
    fn long_text_is_cut_at_char_boundary() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("añb", 2), "a… (3 more bytes)");
    }
}
