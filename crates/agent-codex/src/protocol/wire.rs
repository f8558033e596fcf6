//! The message envelope: JSON-RPC without the version field, one message per line.
//!
//! Only the envelope has a type. Its content is a JSON value, from which each reader selects the
//! fields that it knows, so an unknown field, or one with a changed format, does no harm.

use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) use provost_agent::fields::{bounded, list, text};
use serde_json::{Map, Value, json};

/// A message from the server. The ids of its requests are independent of those of Provost's
/// requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RpcMessage {
    Request { id: RpcId, method: String, params: Value },
    Notification { method: String, params: Value, at_ms: Option<u64> },
    Answer { id: RpcId, outcome: RpcResult },
}

/// The response to one of Provost's requests.
pub(crate) type RpcResult = Result<Value, String>;

/// The id of a request, which is a string or a number and is kept as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcId(Value);

/// The maximum length of an id that is used in a key.
const MAX_KEY: usize = 32;

/// The error code for all rejections. The server does not know `-32601`.
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

    /// Returns the key of a line that the protocol itself writes in response to a request. An id
    /// that is not a short number is hashed.
    pub(crate) fn key(&self, prefix: &str) -> String {
        let text = self.to_json();
        if self.0.is_number() && text.len() <= MAX_KEY {
            return format!("{prefix}{text}");
        }
        hashed_key(prefix, &text)
    }

    /// Returns the id if it belongs to one of Provost's requests, whose ids are strings.
    pub(crate) fn as_own_id(&self) -> Option<&str> {
        self.0.as_str()
    }
}

/// Returns a key for a name that the server chose, which may have any length and contain any
/// characters.
pub(crate) fn hashed_key(prefix: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{prefix}x{:016x}", hasher.finish())
}

impl RpcMessage {
    /// Parses a line. Returns `None` if it is not a message.
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
            // The method is not a string, or the id is not one that can be answered.
            (Some(_) | None, _) => None,
        }
    }
}

/// Encodes a request as a line.
pub(crate) fn request(id: &str, method: &str, params: Value) -> Vec<u8> {
    line(json!({"id": id, "method": method, "params": params}))
}

/// Encodes a notification as a line.
pub(crate) fn notification_line(method: &str) -> Vec<u8> {
    line(json!({"method": method}))
}

/// Encodes the response to a request from the server as a line.
pub(crate) fn answer(id: &RpcId, result: Value) -> Vec<u8> {
    line(json!({"id": id.0, "result": result}))
}

/// Encodes the rejection of a request from the server as a line.
pub(crate) fn error_line(id: &RpcId, why: &str) -> Vec<u8> {
    line(json!({"id": id.0, "error": {"code": INVALID, "message": why}}))
}

fn params(fields: &mut Map<String, Value>) -> Value {
    fields.remove("params").unwrap_or(Value::Null)
}

fn outcome(fields: &mut Map<String, Value>) -> Option<RpcResult> {
    match (fields.remove("result"), fields.remove("error")) {
        (_, Some(error)) if !error.is_null() => {
            let message = text(&error, "message").map_or_else(|| error.to_string(), str::to_owned);
            Some(Err(message))
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
}
