//! Reads the complete lines of a rollout file from a byte offset to its end, in constant memory.
//!
//! Offsets count uncompressed bytes, so they remain valid if the file is compressed later.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memchr::memchr;
use provost_sys::agent_file;

/// The maximum length of a line that is returned in full.
pub const MAX_LINE: usize = 1 << 20;
/// The number of bytes to keep from a longer line.
const KEPT_BYTES: usize = 64 << 10;
const FIRST_BUFFER: usize = 128 << 10;
/// The largest supported window of a compressed file, as a power of two. The common compression
/// levels use 8 MB.
const WINDOW_LOG: u32 = 23;

/// A line without its line ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolloutLine<'a> {
    /// The line, or its beginning if it is longer than [`MAX_LINE`].
    pub bytes: &'a [u8],
    pub len: u64,
    /// The offset after the line, at which to continue.
    pub after: u64,
}

impl RolloutLine<'_> {
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.len
    }
}

/// The result of reading the next line.
#[derive(Debug, PartialEq, Eq)]
pub enum NextLine<'a> {
    Line(RolloutLine<'a>),
    /// The next line is missing or incomplete.
    End,
}

/// The identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    pub(crate) fn from_metadata(seen: &std::fs::Metadata) -> Self {
        Self { device: seen.dev(), inode: seen.ino() }
    }
}

/// Whether the file is still the one that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    Same,
    /// The file is now shorter than the part that was already read.
    Shorter {
        len: u64,
    },
    /// Another file now has this name.
    Replaced,
    /// There is no longer a file with this name.
    Gone,
}

/// A file that is read from an offset to its end.
#[derive(Debug)]
pub struct RolloutTail {
    path: PathBuf,
    source: TailSource,
    id: FileId,
    /// Bytes that were read but not yet returned are in `buffer[start..end]`. There is no line
    /// ending before `searched`.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    end: usize,
    /// The offset of `start` in the uncompressed text.
    offset: u64,
    /// The number of discarded bytes of an overlong line, whose beginning is in
    /// `buffer[start..end]`.
    dropped: u64,
}

enum TailSource {
    Plain(File),
    Compressed(Box<zstd::Decoder<'static, BufReader<File>>>),
}

impl std::fmt::Debug for TailSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Compressed(_) => "Compressed",
        })
    }
}

impl RolloutTail {
    /// Opens a file at an offset. A file whose name ends in `.zst` is decompressed. Only a regular
    /// file is accepted, because reading any other kind could block or never end.
    pub fn open(path: &Path, place: u64) -> io::Result<Self> {
        let file = agent_file::open(path)?;
        let id = FileId::from_metadata(&file.metadata()?);
        let source = if path.extension().is_some_and(|extension| extension == "zst") {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(WINDOW_LOG)?;
            skip(&mut decoder, place)?;
            TailSource::Compressed(Box::new(decoder))
        } else {
            TailSource::Plain(file)
        };
        Ok(Self {
            path: path.to_owned(),
            source,
            id,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            offset: place,
            dropped: 0,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns the offset after the last returned line.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next complete line. An incomplete last line is held back until its end is
    /// written.
    pub fn next_line(&mut self) -> io::Result<NextLine<'_>> {
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[self.searched..self.end]) {
                let at = self.searched + length;
                return Ok(NextLine::Line(self.take(at)));
            }
            self.searched = self.end;
            if !self.fill()? {
                self.shrink_buffer();
                return Ok(NextLine::End);
            }
        }
    }

    /// Checks whether the file still exists and is at least as long as the part that was already
    /// read.
    pub fn file_status(&self) -> io::Result<FileStatus> {
        let named = match std::fs::metadata(&self.path) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileStatus::Gone),
            Err(error) => return Err(error),
        };
        if FileId::from_metadata(&named) != self.id {
            return Ok(FileStatus::Replaced);
        }
        let len = named.len();
        let read = self.offset + (self.end - self.start) as u64 + self.dropped;
        Ok(match self.source {
            TailSource::Plain(_) if len < read => FileStatus::Shorter { len },
            TailSource::Plain(_) | TailSource::Compressed(_) => FileStatus::Same,
        })
    }

    /// Returns the line that ends at `buffer[at]`.
    fn take(&mut self, at: usize) -> RolloutLine<'_> {
        let from = self.start;
        let (mut to, dropped) = (at, self.dropped);
        self.offset += (at + 1 - from) as u64 + dropped;
        (self.start, self.searched, self.dropped) = (at + 1, at + 1, 0);
        if dropped > 0 {
            let len = (to - from) as u64 + dropped;
            return RolloutLine {
                bytes: &self.buffer[from..from + KEPT_BYTES],
                len,
                after: self.offset,
            };
        }
        if to > from && self.buffer[to - 1] == b'\r' {
            to -= 1;
        }
        RolloutLine { bytes: &self.buffer[from..to], len: (to - from) as u64, after: self.offset }
    }

    /// Reads more bytes into the buffer. Returns false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        self.make_room();
        let at = self.offset + (self.end - self.start) as u64 + self.dropped;
        let room = &mut self.buffer[self.end..];
        let read = match &mut self.source {
            TailSource::Plain(file) => file.read_at(room, at)?,
            TailSource::Compressed(decoder) => decoder.read(room)?,
        };
        self.end += read;
        Ok(read > 0)
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.make_room_in_full_buffer();
        }
        self.searched = self.end;
    }

    fn make_room_in_full_buffer(&mut self) {
        if self.buffer.len() <= MAX_LINE {
            // The buffer has room for a line of maximum length and its line ending.
            let larger = (self.buffer.len() * 2).clamp(FIRST_BUFFER, MAX_LINE + 2);
            self.buffer.resize(larger, 0);
        } else {
            self.dropped += (self.end - KEPT_BYTES) as u64;
            self.end = KEPT_BYTES;
        }
    }

    /// At the end of the file, shrinks the buffer to the unfinished line.
    fn shrink_buffer(&mut self) {
        self.buffer.truncate(self.end);
        self.buffer.shrink_to_fit();
    }
}

/// Reads and discards everything up to an offset in the text.
fn skip(reader: &mut impl Read, place: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(place), &mut io::sink())?;
    if skipped == place {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file has {skipped} bytes, fewer than the offset {place}"),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn lines(tail: &mut RolloutTail) -> Vec<(Vec<u8>, u64, u64)> {
        let mut found = Vec::new();
        while let NextLine::Line(line) = tail.next_line().unwrap() {
            found.push((line.bytes.to_vec(), line.len, line.after));
        }
        found
    }

    fn append(path: &Path, bytes: &[u8]) {
        OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rollout.jsonl");
        fs::write(&path, bytes).unwrap();
        (directory, path)
    }

    #[test]
    fn unfinished_line_is_held_back() {
        let (_directory, path) = file(b"one\r\ntw");
        let mut tail = RolloutTail::open(&path, 0).unwrap();
        assert_eq!(lines(&mut tail), [(b"one".to_vec(), 3, 5)]);
        assert_eq!(tail.offset(), 5);
        append(&path, b"o\n\nthr");
        assert_eq!(lines(&mut tail), [(b"two".to_vec(), 3, 9), (Vec::new(), 0, 10)]);
        assert_eq!(
            RolloutTail::open(&path, tail.offset()).map(|mut tail| lines(&mut tail).len()).unwrap(),
            0
        );
    }

    #[test]
    fn overlong_line_is_cut_in_bounded_memory() {
        let (_directory, path) = file(b"");
        append(&path, &[vec![b'a'; MAX_LINE], b"\n".to_vec()].concat());
        append(&path, &vec![b'b'; 20 * MAX_LINE]);
        append(&path, b"\nend\n");
        let mut tail = RolloutTail::open(&path, 0).unwrap();
        let mut seen = Vec::new();
        while let NextLine::Line(line) = tail.next_line().unwrap() {
            seen.push((line.bytes.first().copied(), line.len, line.is_whole()));
            assert!(tail.buffer.capacity() <= 2 * MAX_LINE);
        }
        let cut = (Some(b'b'), 20 * MAX_LINE as u64, false);
        assert_eq!(seen, [(Some(b'a'), MAX_LINE as u64, true), cut, (Some(b'e'), 3, true)]);
        assert_eq!(tail.offset(), fs::metadata(&path).unwrap().len());
        assert_eq!(tail.buffer.capacity(), 0);
    }

    #[test]
    fn file_status_is_detected() {
        let (directory, path) = file(b"one\ntwo");
        let mut tail = RolloutTail::open(&path, 0).unwrap();
        lines(&mut tail);
        assert_eq!(tail.file_status().unwrap(), FileStatus::Same);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(5).unwrap();
        assert_eq!(tail.file_status().unwrap(), FileStatus::Shorter { len: 5 });
        let other = directory.path().join("other");
        fs::write(&other, b"one\ntwo\nthree\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(tail.file_status().unwrap(), FileStatus::Replaced);
        fs::remove_file(&path).unwrap();
        assert_eq!(tail.file_status().unwrap(), FileStatus::Gone);
    }

    #[test]
    fn compressed_file_has_same_offsets() {
        let text = b"one\ntwo\nthree\n";
        let (directory, path) = file(text);
        let compressed = directory.path().join("rollout.jsonl.zst");
        fs::write(&compressed, zstd::encode_all(&text[..], 3).unwrap()).unwrap();
        for place in [0, 4, 8] {
            let plain = lines(&mut RolloutTail::open(&path, place).unwrap());
            assert_eq!(lines(&mut RolloutTail::open(&compressed, place).unwrap()), plain);
        }
        let beyond = RolloutTail::open(&compressed, 100).map(|tail| tail.offset());
        assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn large_compression_window_is_refused() {
        let (directory, _) = file(b"");
        let path = directory.path().join("large.zst");
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(b"text\n").unwrap();
        fs::write(&path, encoder.finish().unwrap()).unwrap();
        assert!(RolloutTail::open(&path, 0).unwrap().next_line().is_err());
    }

    #[test]
    fn non_regular_file_is_refused() {
        let (directory, _) = file(b"");
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        for path in [fifo.as_path(), directory.path()] {
            let refused = RolloutTail::open(path, 0).map(|tail| tail.offset());
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_line_is_returned_once(
            pieces in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'a'), Just(b'\n')], 0..9), 0..9),
        ) {
            let (_directory, path) = file(b"");
            let mut tail = RolloutTail::open(&path, 0).unwrap();
            let mut found = Vec::new();
            for piece in &pieces {
                append(&path, piece);
                found.extend(lines(&mut tail));
            }
            prop_assert_eq!(&found, &lines(&mut RolloutTail::open(&path, 0).unwrap()));
            let text = pieces.concat();
            let ends = text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(found.len(), ends);
            for (at, (_, _, after)) in found.iter().enumerate() {
                prop_assert_eq!(&lines(&mut RolloutTail::open(&path, *after).unwrap()), &found[at + 1..]);
            }
        }
    }
}
