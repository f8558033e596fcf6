//! Assembles the lines of one channel, and delivers each exactly once across restarts.
//!
//! Every delivered line comes with the [`JournalCursor`] after it. A reader that stores this cursor
//! together with its result, and resumes from it, never misses or repeats a line.

use serde::{Deserialize, Serialize};

use super::frame::{JournalChannel, JournalFrame};

/// The maximum length of a line that is delivered with its bytes.
pub const MAX_LINE: usize = 16 << 20;

/// A position between two bytes of a channel, which consists of a frame and the number of the
/// frame's bytes to skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct JournalCursor {
    pub offset: u64,
    pub skip: u32,
}

/// A line without its ending (LF or CRLF).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalLine {
    Whole(Vec<u8>),
    /// A line that exceeds the maximum length. Its bytes are only in the journal.
    Oversized {
        len: u64,
    },
}

/// A line and the position after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredLine {
    pub line: JournalLine,
    pub after: JournalCursor,
}

/// Assembles the lines of one channel. It takes the journal's frames in order, and ignores other
/// channels and frames before its cursor.
#[derive(Debug)]
pub struct LineAssembler {
    channel: JournalChannel,
    max: usize,
    /// The position of the first byte that was not delivered.
    start: JournalCursor,
    /// Frames before this offset were already processed, or precede the cursor.
    next: u64,
    /// The start of the current line: at most `max` bytes and a carriage return.
    partial: Vec<u8>,
    len: u64,
    last: u8,
}

impl LineAssembler {
    /// Creates an assembler that begins or resumes at a cursor.
    pub fn resume(channel: JournalChannel, cursor: JournalCursor) -> Self {
        Self::with_max(channel, cursor, MAX_LINE)
    }

    /// Like [`Self::resume`], but with a different maximum line length.
    pub fn with_max(channel: JournalChannel, cursor: JournalCursor, max: usize) -> Self {
        Self {
            channel,
            max,
            start: cursor,
            next: cursor.offset,
            partial: Vec::new(),
            len: 0,
            last: 0,
        }
    }

    /// Returns the position after the last delivered line, from which to resume.
    pub fn cursor(&self) -> JournalCursor {
        self.start
    }

    /// Takes a frame and returns the lines that it completes.
    pub fn feed(&mut self, frame: &JournalFrame) -> Vec<DeliveredLine> {
        if frame.channel != self.channel || frame.offset < self.next {
            return Vec::new();
        }
        let mut at = self.skip_in(frame);
        let mut found = Vec::new();
        while let Some(length) = frame.payload[at..].iter().position(|byte| *byte == b'\n') {
            self.push(&frame.payload[at..at + length]);
            at += length + 1;
            found.push(self.deliver(cursor_at(frame, at)));
        }
        self.push(&frame.payload[at..]);
        self.next = frame.after;
        found
    }

    /// Returns the last line if it has no line ending. Call this at the end of the channel.
    pub fn finish(&mut self) -> Option<DeliveredLine> {
        if self.len == 0 {
            return None;
        }
        // A carriage return without a line feed after it is a byte like any other.
        self.last = 0;
        Some(self.deliver(JournalCursor { offset: self.next, skip: 0 }))
    }

    fn skip_in(&self, frame: &JournalFrame) -> usize {
        let resumed_inside = frame.offset == self.start.offset && self.len == 0;
        if resumed_inside { (self.start.skip as usize).min(frame.payload.len()) } else { 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = (self.max + 1).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    fn deliver(&mut self, after: JournalCursor) -> DeliveredLine {
        let mut bytes = std::mem::take(&mut self.partial);
        let len = self.len - u64::from(self.last == b'\r');
        (self.len, self.last, self.start) = (0, 0, after);
        if len > self.max as u64 {
            return DeliveredLine { line: JournalLine::Oversized { len }, after };
        }
        bytes.truncate(len as usize);
        DeliveredLine { line: JournalLine::Whole(bytes), after }
    }
}

fn cursor_at(frame: &JournalFrame, at: usize) -> JournalCursor {
    if at == frame.payload.len() {
        JournalCursor { offset: frame.after, skip: 0 }
    } else {
        JournalCursor { offset: frame.offset, skip: at as u32 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::{FrameFlags, HEADER_LEN};
    use super::*;

    const MAX: usize = 6;

    /// Builds frames from payloads. The flag marks the frames that belong to the other channel.
    fn frames(payloads: &[(bool, Vec<u8>)]) -> Vec<JournalFrame> {
        let mut offset = 0;
        let frame = |(other, payload): &(bool, Vec<u8>)| {
            let after = offset + (HEADER_LEN + payload.len()) as u64;
            let channel = if *other { JournalChannel::Stderr } else { JournalChannel::Stdout };
            let frame = JournalFrame {
                offset,
                after,
                channel,
                flags: FrameFlags::default(),
                mono_ms: 0,
                payload: payload.clone(),
            };
            offset = after;
            frame
        };
        payloads.iter().map(frame).collect()
    }

    fn read(frames: &[JournalFrame], cursor: JournalCursor) -> Vec<DeliveredLine> {
        let mut lines = LineAssembler::with_max(JournalChannel::Stdout, cursor, MAX);
        let from = frames.iter().filter(|frame| frame.offset >= cursor.offset);
        let mut found: Vec<DeliveredLine> = from.flat_map(|frame| lines.feed(frame)).collect();
        found.extend(lines.finish());
        found
    }

    /// Computes the expected lines from all bytes at once.
    fn expected(bytes: &[u8]) -> Vec<JournalLine> {
        let mut pieces: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let last = pieces.pop().unwrap_or_default();
        let ended = pieces.into_iter().map(|piece| piece.strip_suffix(b"\r").unwrap_or(piece));
        let open = (!last.is_empty()).then_some(last);
        let line = |piece: &[u8]| match piece.len() {
            len if len > MAX => JournalLine::Oversized { len: len as u64 },
            _ => JournalLine::Whole(piece.to_vec()),
        };
        ended.chain(open).map(line).collect()
    }

    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![3 => Just(b'a'), 2 => Just(b'\n'), 1 => Just(b'\r')]
    }

    proptest! {
        #[test]
        fn lines_are_delivered_once_across_splits_and_restarts(
            payloads in prop::collection::vec((prop::bool::weighted(0.3), prop::collection::vec(byte(), 0..12)), 0..12),
        ) {
            let frames = frames(&payloads);
            let bytes: Vec<u8> = payloads.iter().filter(|(other, _)| !other).flat_map(|(_, p)| p.clone()).collect();
            let whole = read(&frames, JournalCursor::default());
            let lines: Vec<JournalLine> = whole.iter().map(|delivered| delivered.line.clone()).collect();
            prop_assert_eq!(&lines, &expected(&bytes));
            for (at, delivered) in whole.iter().enumerate() {
                prop_assert_eq!(&read(&frames, delivered.after), &whole[at + 1..]);
            }
        }

        #[test]
        fn restart_within_a_line_rereads_it(
            payloads in prop::collection::vec(prop::collection::vec(byte(), 0..9).prop_map(|p| (false, p)), 0..9),
            stop in 0usize..9,
        ) {
            let frames = frames(&payloads);
            let mut lines = LineAssembler::with_max(JournalChannel::Stdout, JournalCursor::default(), MAX);
            let mut found: Vec<DeliveredLine> = frames.iter().take(stop).flat_map(|frame| lines.feed(frame)).collect();
            found.extend(read(&frames, lines.cursor()));
            prop_assert_eq!(found, read(&frames, JournalCursor::default()));
        }
    }

    #[test]
    fn oversized_line_is_buffered_up_to_the_limit() {
        let mut lines =
            LineAssembler::with_max(JournalChannel::Stdout, JournalCursor::default(), MAX);
        for frame in frames(&vec![(false, vec![b'x'; 1000]); 50]) {
            assert!(lines.feed(&frame).is_empty());
            assert!(lines.partial.capacity() <= 2 * MAX, "{}", lines.partial.capacity());
        }
        assert_eq!(lines.finish().unwrap().line, JournalLine::Oversized { len: 50_000 });
    }

    #[test]
    fn length_limit_excludes_the_line_end() {
        let line = |text: &[u8]| {
            read(&frames(&[(false, text.to_vec())]), JournalCursor::default()).remove(0).line
        };
        assert_eq!(line(b"123456\r\n"), JournalLine::Whole(b"123456".to_vec()));
        assert_eq!(line(b"1234567\n"), JournalLine::Oversized { len: 7 });
        assert_eq!(line(b"1234567\r\n"), JournalLine::Oversized { len: 7 });
    }
}
