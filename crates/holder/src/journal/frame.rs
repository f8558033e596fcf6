//! A journal frame: a fixed header with its own checksum, then the payload.
//!
//! ```text
//! 0 magic · 1 version · 2 channel · 3 flags · 4..8 length · 8..16 monotonic ms · 16..20 checksum
//! ```
//! Numbers are little-endian. The checksum covers the sixteen bytes before it, which distinguishes
//! a frame from a torn or foreign tail.

use serde::{Deserialize, Serialize};

/// Bytes before a frame's payload.
pub const HEADER_LEN: usize = 20;
/// The longest payload of one frame.
pub const MAX_PAYLOAD: usize = 64 << 10;

/// The key recorded for typed input.
pub const TYPED_KEY: &str = "typed";

const MAGIC: u8 = 0xB7;
const VERSION: u8 = 1;

/// The content of a frame.
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
    /// Input whose bytes are not kept.
    pub const SECRET: Self = Self(1);
    /// More bytes of the input whose envelope precedes.
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

/// The first line of an input frame; the bytes follow it if `kept`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEnvelope {
    pub key: String,
    pub len: u64,
    pub secret: bool,
    pub kept: bool,
    /// Whether a user typed it at a viewport. It then has no key; [`TYPED_KEY`] takes its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
}

impl InputEnvelope {
    /// Splits the payload of an input frame that is not a continuation.
    pub fn split(payload: &[u8]) -> Option<(Self, &[u8])> {
        let end = payload.iter().position(|byte| *byte == b'\n')?;
        let envelope = serde_json::from_slice(&payload[..end]).ok()?;
        Some((envelope, &payload[end + 1..]))
    }
}

/// The holder's own entry in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum JournalNote {
    /// The output limit was reached with more to come.
    OutputLimit { limit: u64 },
    /// The limit was raised.
    LimitRaised { limit: u64 },
    /// The command, and every process that inherited it, closed its standard output.
    StdoutClosed,
    /// The same for its standard error.
    StderrClosed,
    /// The command's own process was stopped by a signal. Only a signal continues it.
    Suspended,
    /// It was continued.
    Continued,
    /// Its terminal was resized.
    Resized { columns: u16, rows: u16 },
}

/// The holder's entry about the connection to a listening command. A reader that knows only
/// [`JournalNote`] treats these as notes of a later version and ignores them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum RelayNote {
    /// The server accepted the upgrade; messages follow.
    RelayOpen,
    /// A message that is not text was skipped. Only the first one is noted.
    RelayBinary { len: u64 },
    /// The command runs but cannot be connected to; the holder gave up. [`JournalNote::StdoutClosed`]
    /// follows.
    RelayFailed { why: String },
    /// The connection is over, or the command ended before there was one. [`JournalNote::StdoutClosed`] follows.
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

    /// `None` if these bytes are not a header of a known version.
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

/// Whether these bytes, possibly incomplete, could be the start of a header.
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

/// FNV-1a, which is enough against torn writes; the journal need not resist its owner.
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
