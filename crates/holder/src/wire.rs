//! The protocol of a holder's socket: one JSON object per line. Version 1 is frozen, since a holder
//! outlives the daemon that started it. A daemon supports every version that running holders may
//! use.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Identity;

/// The version that every request names.
pub const WIRE_VERSION: u32 = 1;
/// A longer request line closes the connection.
pub const MAX_REQUEST: usize = 4 << 20;
/// The longest key of a write.
pub const MAX_WRITE_KEY: usize = 300;
/// Separates the key of a write from its seal.
const SEAL: char = '~';
/// The number of hexadecimal digits in a seal.
const SEAL_DIGITS: usize = 32;
/// The longest form of a secret that can be masked.
pub const MAX_FORM: usize = 4 << 10;

/// One request: `{"v":1,"id":7,"op":{"stop":{"grace_ms":500}}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub v: u32,
    pub id: u64,
    pub op: Op,
}

/// A request's operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Writes to the command's input, once per key. Answered when the pipe has taken all of it.
    Write {
        key: String,
        data: Data,
        secret: bool,
    },
    /// Masks these forms in the command's output from now on. They are kept in memory only. Older
    /// holders refuse this request.
    Mask {
        forms: Vec<Data>,
    },
    /// Closes the command's input once all that was queued is written.
    CloseStdin,
    /// Signals the command's process group, as a terminal would.
    Signal {
        signal: Sent,
    },
    /// Ends the whole tree: TERM, grace, KILL. Answered once it has begun.
    Stop {
        grace_ms: u64,
    },
    /// Sets the output limit and resumes reading.
    Limit {
        bytes: u64,
    },
    /// Sets the size of the command's terminal for all viewports. Holders that are older or have no
    /// terminal refuse this request and the next two.
    Resize {
        columns: u16,
        rows: u16,
    },
    /// Makes this connection a viewport: after the answer it receives terminal output as [`View`]s,
    /// between the answers to its other requests. A viewport that does not read blocks no one: it
    /// misses output, and is sent the number of missed bytes.
    View,
    /// Keys that a user typed at this viewport. Without an idempotency key; answered when the
    /// terminal has taken them.
    Type {
        data: Data,
    },
    /// Whether a user is watching this viewport; without this request it counts as attended. Older
    /// holders refuse it and count every viewport.
    Attended {
        attended: bool,
    },
    /// Subscribes to notices; the current state is sent at once.
    Follow,
    Ping,
}

/// The signals that can be sent without ending the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sent {
    Int,
    Term,
}

/// Bytes, encoded as base64. They may be secret, so debug output omits them.
#[derive(Clone, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Absent if the request was too malformed to have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ok: bool,
    /// Whether the key was written before; nothing was written now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

/// The state returned by `ping` and `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub identity: Identity,
    pub journal_end: u64,
    pub limited: Option<Limited>,
}

/// Why the command's output is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limited {
    OutputLimit,
    /// The disk refuses writes, because it is full or for another reason; the holder retries by
    /// itself.
    DiskFull,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub code: FaultCode,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The line is not a request of this version.
    BadRequest,
    /// Too much is queued; the same request may be retried.
    Busy,
    /// The command's input is closed, or it never had one.
    StdinClosed,
    /// The command has ended.
    Ended,
    /// This peer may not connect or make this request.
    Forbidden,
    /// The key was written before with different bytes; nothing was written now.
    Conflict,
}

/// A message to following clients, sent without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
pub enum Notice {
    /// The journal has grown; several growths may be reported as one.
    Journal {
        end: u64,
    },
    Limit {
        limited: Limited,
    },
    /// The number of users who talk to the command directly.
    Visits {
        people: u32,
    },
    /// Whether the command's own process is stopped by a signal. Not sent for one that never was.
    Suspended {
        suspended: bool,
    },
    /// `exit.json` is there.
    Exited,
    /// `gone.json` is there.
    Gone,
}

/// A message to a viewport, sent without a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "view")]
pub enum View {
    /// The next bytes of the terminal as they are in the journal, with secrets masked.
    Output { data: Data },
    /// The viewport was too slow and missed this many bytes. The current output follows.
    Skipped { bytes: u64 },
}

/// Any line that a holder sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Reply(Reply),
    Notice(Notice),
    View(View),
}

/// Adds a seal to the key of a write: hexadecimal digits that only the daemon can derive. No other
/// process can guess such a key and use it before the daemon does. The journal stores the key with
/// its seal.
pub fn sealed_key(key: &str, seal: &str) -> String {
    let seal: String = seal.chars().take(SEAL_DIGITS).collect();
    format!("{key}{SEAL}{seal}")
}

/// Returns the key of a write without its seal, if it has one.
pub fn plain_key(key: &str) -> &str {
    let is_seal =
        |seal: &str| seal.len() == SEAL_DIGITS && seal.bytes().all(|byte| byte.is_ascii_hexdigit());
    match key.rsplit_once(SEAL) {
        Some((plain, seal)) if is_seal(seal) => plain,
        Some(_) | None => key,
    }
}

impl Request {
    pub fn new(id: u64, op: Op) -> Self {
        Self { v: WIRE_VERSION, id, op }
    }

    /// Parses a client's line. The error is the answer to send.
    pub fn parse(line: &[u8]) -> Result<Self, Reply> {
        let refuse = |id, message: String| Err(Reply::refused(id, FaultCode::BadRequest, message));
        match serde_json::from_slice::<Self>(line) {
            Ok(request) if request.v == WIRE_VERSION => Ok(request),
            Ok(request) => {
                refuse(Some(request.id), format!("version {} is not supported", request.v))
            }
            Err(error) => refuse(id_of(line), format!("not a request: {error}")),
        }
    }
}

impl Reply {
    pub fn done(id: u64) -> Self {
        Self { id: Some(id), ok: true, already: false, state: None, error: None }
    }

    pub fn refused(id: Option<u64>, code: FaultCode, message: impl Into<String>) -> Self {
        let error = Some(Fault { code, message: message.into() });
        Self { id, ok: false, already: false, state: None, error }
    }
}

impl Message {
    /// Parses a holder's line.
    pub fn parse(line: &[u8]) -> serde_json::Result<Self> {
        let value: serde_json::Value = serde_json::from_slice(line)?;
        if value.get("notice").is_some() {
            serde_json::from_value(value).map(Self::Notice)
        } else if value.get("view").is_some() {
            serde_json::from_value(value).map(Self::View)
        } else {
            serde_json::from_value(value).map(Self::Reply)
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The decoder's own message quotes a byte of the data, which may be secret.
        STANDARD.decode(text).map(Self).map_err(|_| de::Error::custom("data is not base64"))
    }
}

/// Returns the id of a request that is otherwise invalid.
fn id_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Id {
        id: u64,
    }
    serde_json::from_slice::<Id>(line).ok().map(|found| found.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op) -> String {
        serde_json::to_string(&Request::new(7, op)).unwrap()
    }

    #[test]
    fn the_frozen_form_of_every_request() {
        let write = Op::Write { key: "k".into(), data: Data(b"hi\n".to_vec()), secret: false };
        assert_eq!(
            request(write),
            r#"{"v":1,"id":7,"op":{"write":{"key":"k","data":"aGkK","secret":false}}}"#
        );
        assert_eq!(request(Op::CloseStdin), r#"{"v":1,"id":7,"op":"close_stdin"}"#);
        assert_eq!(
            request(Op::Signal { signal: Sent::Int }),
            r#"{"v":1,"id":7,"op":{"signal":{"signal":"int"}}}"#
        );
        assert_eq!(
            request(Op::Stop { grace_ms: 5 }),
            r#"{"v":1,"id":7,"op":{"stop":{"grace_ms":5}}}"#
        );
        assert_eq!(request(Op::Limit { bytes: 5 }), r#"{"v":1,"id":7,"op":{"limit":{"bytes":5}}}"#);
        assert_eq!(
            request(Op::Mask { forms: vec![Data(b"hi\n".to_vec())] }),
            r#"{"v":1,"id":7,"op":{"mask":{"forms":["aGkK"]}}}"#
        );
        assert_eq!(
            request(Op::Resize { columns: 80, rows: 24 }),
            r#"{"v":1,"id":7,"op":{"resize":{"columns":80,"rows":24}}}"#
        );
        assert_eq!(request(Op::View), r#"{"v":1,"id":7,"op":"view"}"#);
        assert_eq!(
            request(Op::Type { data: Data(b"hi\n".to_vec()) }),
            r#"{"v":1,"id":7,"op":{"type":{"data":"aGkK"}}}"#
        );
        assert_eq!(
            request(Op::Attended { attended: false }),
            r#"{"v":1,"id":7,"op":{"attended":{"attended":false}}}"#
        );
        assert_eq!(request(Op::Follow), r#"{"v":1,"id":7,"op":"follow"}"#);
        assert_eq!(request(Op::Ping), r#"{"v":1,"id":7,"op":"ping"}"#);
    }

    #[test]
    fn seal_of_a_key_is_taken_off_and_nothing_else() {
        let sealed = sealed_key("answer-1~2", &"0123456789abcdef".repeat(4));
        assert_eq!(sealed, "answer-1~2~0123456789abcdef0123456789abcdef");
        assert_eq!(plain_key(&sealed), "answer-1~2");
        assert_eq!(plain_key("answer-1~2"), "answer-1~2");
        assert_eq!(plain_key("send-a"), "send-a");
    }

    #[test]
    fn the_frozen_form_of_every_answer() {
        let json = |reply: &Reply| serde_json::to_string(reply).unwrap();
        let identity = Identity { pid: 1, start_time: 2, boot_id: "b".into() };
        let state = State { identity, journal_end: 3, limited: Some(Limited::DiskFull) };
        assert_eq!(
            json(&Reply { already: true, ..Reply::done(7) }),
            r#"{"id":7,"ok":true,"already":true}"#
        );
        assert_eq!(
            json(&Reply { state: Some(state), ..Reply::done(7) }),
            r#"{"id":7,"ok":true,"state":{"identity":{"pid":1,"start_time":2,"boot_id":"b"},"journal_end":3,"limited":"disk_full"}}"#
        );
        assert_eq!(
            json(&Reply::refused(None, FaultCode::Busy, "m")),
            r#"{"error":{"code":"busy","message":"m"}}"#
        );
        let notice = |notice: Notice| serde_json::to_string(&notice).unwrap();
        assert_eq!(notice(Notice::Journal { end: 9 }), r#"{"notice":"journal","end":9}"#);
        assert_eq!(
            notice(Notice::Limit { limited: Limited::OutputLimit }),
            r#"{"notice":"limit","limited":"output_limit"}"#
        );
        assert_eq!(
            notice(Notice::Suspended { suspended: true }),
            r#"{"notice":"suspended","suspended":true}"#
        );
        assert_eq!(notice(Notice::Gone), r#"{"notice":"gone"}"#);
    }

    #[test]
    fn the_frozen_form_of_what_a_viewport_is_sent() {
        let output = View::Output { data: Data(b"hi\n".to_vec()) };
        for (view, form) in [
            (output, r#"{"view":"output","data":"aGkK"}"#),
            (View::Skipped { bytes: 9 }, r#"{"view":"skipped","bytes":9}"#),
        ] {
            assert_eq!(serde_json::to_string(&view).unwrap(), form);
            assert_eq!(Message::parse(form.as_bytes()).unwrap(), Message::View(view));
        }
    }

    #[test]
    fn a_refusal_keeps_the_id_when_there_is_one_and_never_quotes_data() {
        assert_eq!(Request::parse(b"junk").unwrap_err().id, None);
        assert_eq!(Request::parse(br#"{"v":1,"id":9,"op":"dance"}"#).unwrap_err().id, Some(9));
        assert_eq!(Request::parse(br#"{"v":2,"id":9,"op":"ping"}"#).unwrap_err().id, Some(9));
        let bad = br#"{"v":1,"id":9,"op":{"write":{"key":"k","data":"!canary","secret":true}}}"#;
        assert!(!format!("{:?}", Request::parse(bad).unwrap_err()).contains("canary"));
    }

    #[test]
    fn lines_of_a_holder_are_told_apart() {
        let reply = Reply::refused(Some(1), FaultCode::Ended, "m");
        let line = serde_json::to_vec(&reply).unwrap();
        assert_eq!(Message::parse(&line).unwrap(), Message::Reply(reply));
        assert_eq!(
            Message::parse(br#"{"notice":"exited"}"#).unwrap(),
            Message::Notice(Notice::Exited)
        );
    }
}
