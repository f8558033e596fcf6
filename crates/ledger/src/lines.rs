//! The ledger as text: JSON lines, each with a checksum over itself and all lines before it.
//!
//! Exports and archive files use the same lines. A line ends with `,"sum":"…"}`, so a change is
//! detected at the line where it was made and not only at the end.

use std::borrow::Cow;
use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ClockReading, MAX_EVENT_BYTES, RecordedEvent, RecordedEventRef, StreamId};

/// The version of the export format.
pub const FORMAT_VERSION: u32 = 1;
/// The maximum length of a line that is read: the size of the largest event, plus the fields around
/// the event.
pub const MAX_LINE_BYTES: usize = MAX_EVENT_BYTES + 16 * 1024;

/// The reason why a file of lines is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("line {line}: could not be read")]
    Io {
        line: u64,
        #[source]
        source: io::Error,
    },
    #[error("line {line}: longer than {MAX_LINE_BYTES} bytes")]
    TooLong { line: u64 },
    #[error("line {line}: the file is cut off here")]
    Truncated { line: u64 },
    #[error(
        "line {line}: its checksum is wrong: this line was changed, or an earlier one was removed"
    )]
    Altered { line: u64 },
    #[error("line {line}: {what}")]
    Content { line: u64, what: String },
}

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportHeader {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) last_seq: u64,
    /// The home from which the ledger was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<String>,
}

/// Any line after the first one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ExportLine<'a> {
    #[serde(borrow)]
    Record(RecordLine<'a>),
    #[serde(borrow)]
    Reply(ReplyLine<'a>),
    End(ExportTrailer),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordLine<'a> {
    seq: u64,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    version: u64,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    v: u16,
    wall_ms: i64,
    mono_ms: u64,
    #[serde(borrow)]
    actor: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyLine<'a> {
    #[serde(borrow)]
    pub(crate) key: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) reply: &'a RawValue,
}

/// The last line, with the number of lines of each kind before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportTrailer {
    pub(crate) streams: u64,
    pub(crate) records: u64,
    pub(crate) replies: u64,
}

impl<'a> RecordLine<'a> {
    /// Creates the line for a record. Fails if the stored data is no longer valid JSON.
    pub(crate) fn new(record: RecordedEventRef<'a>) -> Result<Self, serde_json::Error> {
        Ok(Self {
            seq: record.seq,
            stream: record.stream.into(),
            version: record.version,
            kind: record.kind.into(),
            v: record.v,
            wall_ms: record.at.wall_ms,
            mono_ms: record.at.mono_ms,
            actor: record.actor.into(),
            data: serde_json::from_str(record.data)?,
        })
    }

    pub(crate) fn into_recorded(self) -> Result<RecordedEvent, crate::StreamIdError> {
        Ok(RecordedEvent {
            seq: self.seq,
            stream: StreamId::new(self.stream)?,
            version: self.version,
            kind: self.kind.into_owned(),
            v: self.v,
            at: ClockReading { wall_ms: self.wall_ms, mono_ms: self.mono_ms },
            actor: self.actor.into_owned(),
            data: self.data.get().to_owned(),
        })
    }
}

/// Writes lines, each with its checksum.
pub(crate) struct LineWriter<W> {
    out: W,
    chain: ChecksumChain,
    bytes: u64,
    line: Vec<u8>,
}

impl<W: Write> LineWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, chain: ChecksumChain::default(), bytes: 0, line: Vec::new() }
    }

    pub(crate) fn write(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value)?;
        // Every line is an object. Its closing brace is added again after the checksum.
        self.line.pop();
        let sum = self.chain.add(&self.line);
        writeln!(self.line, "{SUM_OPEN}{sum}\"}}")?;
        self.bytes += self.line.len() as u64;
        self.out.write_all(&self.line)
    }

    /// Returns the number of bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends a section: returns its checksum and starts a new one.
    pub(crate) fn end_section(&mut self) -> String {
        std::mem::take(&mut self.chain).total()
    }

    pub(crate) fn into_inner(self) -> W {
        self.out
    }
}

/// Reads lines and verifies their checksums.
pub(crate) struct LineReader<R> {
    input: R,
    chain: ChecksumChain,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, chain: ChecksumChain::default(), number: 0, line: Vec::new() }
    }

    /// Returns an error about the content of the line that was read last.
    pub(crate) fn content_error(&self, what: impl ToString) -> Error {
        Error::Content { line: self.number, what: what.to_string() }
    }

    /// Reads the next line and returns it without its checksum. `None` at the end of the file.
    pub(crate) fn next_text(&mut self) -> Result<Option<&str>, Error> {
        self.number += 1;
        let line = self.number;
        if !self.fill(line)? {
            return Ok(None);
        }
        let (body, sum) = split_sum(&self.line).ok_or(Error::Altered { line })?;
        if self.chain.add(&self.line[..body]).as_bytes() != sum {
            return Err(Error::Altered { line });
        }
        self.line.truncate(body);
        self.line.push(b'}');
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::Altered { line }),
        }
    }

    /// Reads the next line of an export or archive. Reaching the end of the file is an error,
    /// because a trailer must come first.
    pub(crate) fn next_line(&mut self) -> Result<ExportLine<'_>, Error> {
        let line = self.number + 1;
        match self.next_text()? {
            None => Err(Error::Truncated { line }),
            Some(text) => {
                serde_json::from_str(text).map_err(|e| Error::Content { line, what: e.to_string() })
            }
        }
    }

    /// Returns the checksum over everything that was read.
    pub(crate) fn total(self) -> String {
        self.chain.total()
    }

    fn fill(&mut self, line: u64) -> Result<bool, Error> {
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let mut bounded = (&mut self.input).take(limit);
        bounded.read_until(b'\n', &mut self.line).map_err(|source| Error::Io { line, source })?;
        match self.line.last() {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            Some(_) if self.line.len() > MAX_LINE_BYTES => Err(Error::TooLong { line }),
            Some(_) => Err(Error::Truncated { line }),
        }
    }
}

const SUM_OPEN: &str = ",\"sum\":\"";
const SUM_DIGITS: usize = 16;

/// A running checksum, in which each link covers the previous link and the new bytes.
#[derive(Default)]
struct ChecksumChain([u8; 32]);

impl ChecksumChain {
    /// Adds bytes and returns the digits of the new checksum.
    fn add(&mut self, bytes: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(bytes);
        let hash = hasher.finalize();
        self.0 = *hash.as_bytes();
        let mut digits = hash.to_hex().to_string();
        digits.truncate(SUM_DIGITS);
        digits
    }

    fn total(self) -> String {
        blake3::Hash::from(self.0).to_hex().to_string()
    }
}

/// Finds a line's checksum. Returns the position where the checksum starts, and its digits.
fn split_sum(line: &[u8]) -> Option<(usize, &[u8])> {
    let rest = line.strip_suffix(b"\"}\n")?;
    let digits = rest.len().checked_sub(SUM_DIGITS)?;
    let body = digits.checked_sub(SUM_OPEN.len())?;
    (&rest[body..digits] == SUM_OPEN.as_bytes()).then_some((body, &rest[digits..]))
}
