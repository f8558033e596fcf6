//! A journal frame: a fixed-size header with its own checksum, followed by the payload.
//!
//! ```text
//! 0 magic · 1 version · 2 channel · 3 flags · 4..8 length · 8..16 monotonic ms · 16..20 checksum
//! ```
//! Numbers are little-endian. The checksum covers the sixteen bytes before it, so that a frame can
//! be distinguished from a torn write or from other data at the end of the file.

use serde::{Deserialize, Serialize};

/// The number of bytes before a frame's payload.
pub const HEADER_LEN: usize = 20;
/// The maximum payload length of a frame.
pub const MAX_PAYLOAD: usize = 64 << 10;

/// The key recorded for typed input.
pub const TYPED_KEY: &str = "typed";

const MAGIC: u8 = 0xB7;
const VERSION: u8 = 1;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalChannel {
    Stdout = 1,
    Stderr = 2,
    Stdin = 3,
    Note = 4,
}

/// Properties of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameFlags(u8);

impl FrameFlags {
    /// The frame is input whose bytes are not stored.
    pub const SECRET: Self = Self(1);
    /// The frame continues an input whose envelope is in an earlier frame.
    pub const CONTINUED: Self = Self(2);

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One complete frame and its position in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFrame {
    pub offset: u64,
    /// The offset of the next frame.
    pub after: u64,
    pub channel: JournalChannel,
    pub flags: FrameFlags,
    pub mono_ms: u64,
    pub payload: Vec<u8>,
}

/// The first line of an input frame. If `kept` is set, the bytes follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEnvelope {
    pub key: String,
    pub len: u64,
    pub secret: bool,
    pub kept: bool,
    /// Whether a user typed the input at a viewport. Such input has no idempotency key, so it is
    /// recorded under [`TYPED_KEY`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
}

impl InputEnvelope {
    /// Splits the payload of an input frame into envelope and bytes. The frame must not be a
    /// continuation.
    pub fn split(payload: &[u8]) -> Option<(Self, &[u8])> {
        let end = payload.iter().position(|byte| *byte == b'\n')?;
        let envelope = serde_json::from_slice(&payload[..end]).ok()?;
        Some((envelope, &payload[end + 1..]))
    }
}

/// An entry about the launch that the holder itself writes to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum JournalNote {
    /// The output limit was reached, and there is more output.
    OutputLimit { limit: u64 },
    /// The limit was raised.
    LimitRaised { limit: u64 },
    /// Standard output was closed, both by the command and by every process that inherited it.
    StdoutClosed,
    /// Standard error was closed, both by the command and by every process that inherited it.
    StderrClosed,
    /// The command's own process was stopped by a signal. Only another signal continues it.
    Suspended,
    /// The command was continued.
    Continued,
    /// The command's terminal was resized.
    Resized { columns: u16, rows: u16 },
}

/// An entry that the holder writes about the connection to a listening command. A reader that knows
/// only [`JournalNote`] treats these entries as notes of a later version and ignores them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum RelayNote {
    /// The server accepted the upgrade. Messages follow.
    RelayOpen,
    /// A message that is not text was skipped. Only the first one is recorded.
    RelayBinary { len: u64 },
    /// The command is running, but the holder could not connect to it and gave up.
    /// [`JournalNote::StdoutClosed`] follows.
    RelayFailed { why: String },
    /// The connection was closed, or the command exited before a connection was established.
    /// [`JournalNote::StdoutClosed`] follows.
    RelayClosed { why: String },
}

/// A header as stored on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) channel: JournalChannel,
    pub(super) flags: FrameFlags,
    pub(super) len: u32,
    pub(super) mono_ms: u64,
}

impl FrameHeader {
    pub(super) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&[MAGIC, VERSION, self.channel as u8, self.flags.0]);
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.mono_ms.to_le_bytes());
        let sum = checksum(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a header. Returns `None` if these bytes are not a header of a known version.
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let (fields, sum) = bytes.split_at(16);
        let len = u32::from_le_bytes(fields[4..8].try_into().ok()?);
        let sound = checksum(fields).to_le_bytes() == sum && len as usize <= MAX_PAYLOAD;
        if !sound || !may_begin(fields) {
            return None;
        }
        let mono_ms = u64::from_le_bytes(fields[8..16].try_into().ok()?);
        Some(Self { channel: channel(fields[2])?, flags: FrameFlags(fields[3]), len, mono_ms })
    }
}

/// Whether the given bytes could be the start of a header, which may be incomplete.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().zip([MAGIC, VERSION]).all(|(found, expected)| *found == expected)
}

fn channel(byte: u8) -> Option<JournalChannel> {
    match byte {
        1 => Some(JournalChannel::Stdout),
        2 => Some(JournalChannel::Stderr),
        3 => Some(JournalChannel::Stdin),
        4 => Some(JournalChannel::Note),
        _ => None,
    }
}

/// Computes an FNV-1a checksum. It detects torn writes, but does not protect against the owner of
/// the journal.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_changed_bit_is_rejected() {
        let header = FrameHeader {
            channel: JournalChannel::Stderr,
            flags: FrameFlags::SECRET,
            len: 9,
            mono_ms: 77,
        };
        let bytes = header.encode();
        assert_eq!(FrameHeader::decode(&bytes), Some(header));
        for bit in 0..HEADER_LEN * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&damaged), None, "bit {bit}");
        }
    }
}
