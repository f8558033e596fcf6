//! The protocol of a holder's socket: one JSON object per line. Version 1 is frozen, because a
//! holder outlives the daemon that started it, and a daemon must support every version that running
//! holders may use.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ProcessInstance;

/// The protocol version, which every request contains.
pub const WIRE_VERSION: u32 = 1;
/// The maximum length of a request line. A longer one closes the connection.
pub const MAX_REQUEST: usize = 4 << 20;
/// The maximum length of a write's key.
pub const MAX_WRITE_KEY: usize = 300;
/// Separates the key of a write from its seal.
const SEAL: char = '~';
/// The number of hexadecimal digits in a seal.
const SEAL_DIGITS: usize = 32;
/// The maximum length of a form of a secret that can be masked.
pub const MAX_FORM: usize = 4 << 10;

/// One request: `{"v":1,"id":7,"op":{"stop":{"grace_ms":500}}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRequest {
    pub v: u32,
    pub id: u64,
    pub op: HolderOp,
}

/// The requested operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderOp {
    /// Writes to the command's input, once per key. Answered when the pipe has accepted all of it.
    Write {
        key: String,
        data: WireBytes,
        secret: bool,
    },
    /// Masks the given forms of secrets in the command's output from now on. The forms are kept in
    /// memory only. Older holders refuse this request.
    Mask {
        forms: Vec<WireBytes>,
    },
    /// Closes the command's input once everything that was queued has been written.
    CloseStdin,
    /// Sends a signal to the command's process group, as a terminal would.
    Signal {
        signal: SignalName,
    },
    /// Ends the whole tree with SIGTERM and, after the grace period, SIGKILL. Answered once this
    /// has begun.
    Stop {
        grace_ms: u64,
    },
    /// Sets the output limit and resumes reading.
    Limit {
        bytes: u64,
    },
    /// Sets the size of the command's terminal for all viewports. A holder that is older or has no
    /// terminal refuses this request, [`Self::View`] and [`Self::Type`].
    Resize {
        columns: u16,
        rows: u16,
    },
    /// Makes this connection a viewport. After the response, it receives terminal output as
    /// [`TerminalView`]s between the responses to its other requests. A viewport that does not read
    /// does not block anyone. It misses output, and receives the number of missed bytes instead.
    View,
    /// Types keys that a user pressed at this viewport. The request has no idempotency key. Answered when
    /// the terminal has accepted the keys.
    Type {
        data: WireBytes,
    },
    /// Reports whether a user is watching this viewport. Without this request, a viewport counts as
    /// attended. Older holders refuse it and count every viewport.
    Attended {
        attended: bool,
    },
    /// Subscribes to notices. The current state is sent immediately.
    Follow,
    Ping,
}

/// The signals that can be sent without ending the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalName {
    Int,
    Term,
}

/// Bytes, encoded as base64. They may be secret, so debug output omits them.
#[derive(Clone, PartialEq, Eq)]
pub struct WireBytes(pub Vec<u8>);

/// The response to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderReply {
    /// The id of the request. `None` if the request was too malformed to have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ok: bool,
    /// Whether the key had already been written, so that nothing was written now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<HolderState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<HolderFault>,
}

/// The state returned by `ping` and `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderState {
    pub identity: ProcessInstance,
    pub journal_end: u64,
    pub limited: Option<OutputPause>,
}

/// The reason why the holder does not read the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPause {
    OutputLimit,
    /// The disk refuses writes, because it is full or for another reason. The holder retries
    /// automatically.
    DiskFull,
}

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct HolderFault {
    pub code: HolderFaultCode,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderFaultCode {
    /// The line is not a request of this version.
    BadRequest,
    /// Too much is queued; the same request may be retried.
    Busy,
    /// The command's input is closed, or there never was one.
    StdinClosed,
    /// The command has exited.
    Ended,
    /// The peer is not permitted to connect, or to make this request.
    Forbidden,
    /// Different bytes had already been written under this key, so nothing was written now.
    Conflict,
}

/// A message to subscribed clients that is not a response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "notice")]
pub enum HolderNotice {
    /// The journal has grown. One notice may cover several writes.
    Journal {
        end: u64,
    },
    Limit {
        limited: OutputPause,
    },
    /// The number of users who interact with the command directly.
    Viewers {
        count: u32,
    },
    /// Whether the command's own process is stopped by a signal. Not sent if it never was.
    Suspended {
        suspended: bool,
    },
    /// `exit.json` exists.
    Exited,
    /// `gone.json` exists.
    Gone,
}

/// A message to a viewport that is not a response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "view")]
pub enum TerminalView {
    /// The next bytes of the terminal's output as they are in the journal, with secrets masked.
    Output { data: WireBytes },
    /// The viewport was too slow and missed this many bytes. The current output follows.
    Skipped { bytes: u64 },
}

/// Any line that a holder sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderMessage {
    Reply(HolderReply),
    Notice(HolderNotice),
    View(TerminalView),
}

/// Adds a seal to the key of a write: hexadecimal digits that only the daemon can derive. Without
/// it, another process could guess the key and use it before the daemon does. The journal stores
/// the key with its seal.
pub fn sealed_key(key: &str, seal: &str) -> String {
    let seal: String = seal.chars().take(SEAL_DIGITS).collect();
    format!("{key}{SEAL}{seal}")
}

/// Returns the key of a write without its seal, if there is one.
pub fn plain_key(key: &str) -> &str {
    let is_seal =
        |seal: &str| seal.len() == SEAL_DIGITS && seal.bytes().all(|byte| byte.is_ascii_hexdigit());
    match key.rsplit_once(SEAL) {
        Some((plain, seal)) if is_seal(seal) => plain,
        Some(_) | None => key,
    }
}

impl HolderRequest {
    pub fn new(id: u64, op: HolderOp) -> Self {
        Self { v: WIRE_VERSION, id, op }
    }

    /// Parses a client's line. The error is the response to send.
    pub fn parse(line: &[u8]) -> Result<Self, HolderReply> {
        let refuse = |id, message: String| {
            Err(HolderReply::refused(id, HolderFaultCode::BadRequest, message))
        };
        match serde_json::from_slice::<Self>(line) {
            Ok(request) if request.v == WIRE_VERSION => Ok(request),
            Ok(request) => {
                refuse(Some(request.id), format!("version {} is not supported", request.v))
            }
            Err(error) => refuse(request_id(line), format!("not a request: {error}")),
        }
    }
}

impl HolderReply {
    pub fn done(id: u64) -> Self {
        Self { id: Some(id), ok: true, already: false, state: None, error: None }
    }

    pub fn refused(id: Option<u64>, code: HolderFaultCode, message: impl Into<String>) -> Self {
        let error = Some(HolderFault { code, message: message.into() });
        Self { id, ok: false, already: false, state: None, error }
    }
}

impl HolderMessage {
    /// Parses a line from a holder.
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

impl fmt::Debug for WireBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

impl Serialize for WireBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for WireBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The decoder's own message would quote a byte of the data, which may be secret.
        STANDARD.decode(text).map(Self).map_err(|_| de::Error::custom("data is not base64"))
    }
}

/// Extracts the id of a request that is otherwise invalid.
fn request_id(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Id {
        id: u64,
    }
    serde_json::from_slice::<Id>(line).ok().map(|found| found.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: HolderOp) -> String {
        serde_json::to_string(&HolderRequest::new(7, op)).unwrap()
    }

    #[test]
    fn request_format_is_frozen() {
        let write =
            HolderOp::Write { key: "k".into(), data: WireBytes(b"hi\n".to_vec()), secret: false };
        assert_eq!(
            request(write),
            r#"{"v":1,"id":7,"op":{"write":{"key":"k","data":"aGkK","secret":false}}}"#
        );
        assert_eq!(request(HolderOp::CloseStdin), r#"{"v":1,"id":7,"op":"close_stdin"}"#);
        assert_eq!(
            request(HolderOp::Signal { signal: SignalName::Int }),
            r#"{"v":1,"id":7,"op":{"signal":{"signal":"int"}}}"#
        );
        assert_eq!(
            request(HolderOp::Stop { grace_ms: 5 }),
            r#"{"v":1,"id":7,"op":{"stop":{"grace_ms":5}}}"#
        );
        assert_eq!(
            request(HolderOp::Limit { bytes: 5 }),
            r#"{"v":1,"id":7,"op":{"limit":{"bytes":5}}}"#
        );
        assert_eq!(
            request(HolderOp::Mask { forms: vec![WireBytes(b"hi\n".to_vec())] }),
            r#"{"v":1,"id":7,"op":{"mask":{"forms":["aGkK"]}}}"#
        );
        assert_eq!(
            request(HolderOp::Resize { columns: 80, rows: 24 }),
            r#"{"v":1,"id":7,"op":{"resize":{"columns":80,"rows":24}}}"#
        );
        assert_eq!(request(HolderOp::View), r#"{"v":1,"id":7,"op":"view"}"#);
        assert_eq!(
            request(HolderOp::Type { data: WireBytes(b"hi\n".to_vec()) }),
            r#"{"v":1,"id":7,"op":{"type":{"data":"aGkK"}}}"#
        );
        assert_eq!(
            request(HolderOp::Attended { attended: false }),
            r#"{"v":1,"id":7,"op":{"attended":{"attended":false}}}"#
        );
        assert_eq!(request(HolderOp::Follow), r#"{"v":1,"id":7,"op":"follow"}"#);
        assert_eq!(request(HolderOp::Ping), r#"{"v":1,"id":7,"op":"ping"}"#);
    }

    #[test]
    fn only_the_seal_is_removed_from_a_key() {
        let sealed = sealed_key("answer-1~2", &"0123456789abcdef".repeat(4));
        assert_eq!(sealed, "answer-1~2~0123456789abcdef0123456789abcdef");
        assert_eq!(plain_key(&sealed), "answer-1~2");
        assert_eq!(plain_key("answer-1~2"), "answer-1~2");
        assert_eq!(plain_key("send-a"), "send-a");
    }

    #[test]
    fn answer_format_is_frozen() {
        let json = |reply: &HolderReply| serde_json::to_string(reply).unwrap();
        let identity = ProcessInstance { pid: 1, start_time: 2, boot_id: "b".into() };
        let state = HolderState { identity, journal_end: 3, limited: Some(OutputPause::DiskFull) };
        assert_eq!(
            json(&HolderReply { already: true, ..HolderReply::done(7) }),
            r#"{"id":7,"ok":true,"already":true}"#
        );
        assert_eq!(
            json(&HolderReply { state: Some(state), ..HolderReply::done(7) }),
            r#"{"id":7,"ok":true,"state":{"identity":{"pid":1,"start_time":2,"boot_id":"b"},"journal_end":3,"limited":"disk_full"}}"#
        );
        assert_eq!(
            json(&HolderReply::refused(None, HolderFaultCode::Busy, "m")),
            r#"{"error":{"code":"busy","message":"m"}}"#
        );
        let notice = |notice: HolderNotice| serde_json::to_string(&notice).unwrap();
        assert_eq!(notice(HolderNotice::Journal { end: 9 }), r#"{"notice":"journal","end":9}"#);
        assert_eq!(
            notice(HolderNotice::Limit { limited: OutputPause::OutputLimit }),
            r#"{"notice":"limit","limited":"output_limit"}"#
        );
        assert_eq!(
            notice(HolderNotice::Suspended { suspended: true }),
            r#"{"notice":"suspended","suspended":true}"#
        );
        assert_eq!(notice(HolderNotice::Gone), r#"{"notice":"gone"}"#);
    }

    #[test]
    fn view_format_is_frozen() {
        let output = TerminalView::Output { data: WireBytes(b"hi\n".to_vec()) };
        for (view, form) in [
            (output, r#"{"view":"output","data":"aGkK"}"#),
            (TerminalView::Skipped { bytes: 9 }, r#"{"view":"skipped","bytes":9}"#),
        ] {
            assert_eq!(serde_json::to_string(&view).unwrap(), form);
            assert_eq!(HolderMessage::parse(form.as_bytes()).unwrap(), HolderMessage::View(view));
        }
    }

    #[test]
    fn refusal_keeps_the_id_and_quotes_no_data() {
        assert_eq!(HolderRequest::parse(b"junk").unwrap_err().id, None);
        assert_eq!(
            HolderRequest::parse(br#"{"v":1,"id":9,"op":"dance"}"#).unwrap_err().id,
            Some(9)
        );
        assert_eq!(HolderRequest::parse(br#"{"v":2,"id":9,"op":"ping"}"#).unwrap_err().id, Some(9));
        let bad = br#"{"v":1,"id":9,"op":{"write":{"key":"k","data":"!canary","secret":true}}}"#;
        assert!(!format!("{:?}", HolderRequest::parse(bad).unwrap_err()).contains("canary"));
    }

    #[test]
    fn holder_lines_are_distinguished() {
        let reply = HolderReply::refused(Some(1), HolderFaultCode::Ended, "m");
        let line = serde_json::to_vec(&reply).unwrap();
        assert_eq!(HolderMessage::parse(&line).unwrap(), HolderMessage::Reply(reply));
        assert_eq!(
            HolderMessage::parse(br#"{"notice":"exited"}"#).unwrap(),
            HolderMessage::Notice(HolderNotice::Exited)
        );
    }
}
