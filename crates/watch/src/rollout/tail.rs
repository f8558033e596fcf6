//! Reads the complete lines of a rollout file from a byte offset to its end, in constant memory.
//!
//! Offsets count uncompressed bytes, so that they stay valid if the file is compressed later.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memchr::memchr;
use provost_sys::agent_file;

/// Maximum length of a line that is returned in full.
pub const MAX_LINE: usize = 1 << 20;
/// Number of bytes kept of a longer line.
const KEPT: usize = 64 << 10;
const FIRST_BUFFER: usize = 128 << 10;
/// The largest window of a compressed file, as a power of two: 8 MB, as used by common levels.
const WINDOW_LOG: u32 = 23;

/// A line without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line, or its beginning if it is longer than [`MAX_LINE`].
    pub bytes: &'a [u8],
    pub len: u64,
    /// The offset after the line, from which to continue.
    pub after: u64,
}

impl Line<'_> {
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.len
    }
}

/// The result of reading the next line.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    Line(Line<'a>),
    /// There is no further complete line yet.
    End,
}

/// The identity of a file, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    pub(crate) fn of(seen: &std::fs::Metadata) -> Self {
        Self { device: seen.dev(), inode: seen.ino() }
    }
}

/// Whether the file is still the one that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Same,
    /// It is shorter than the offset up to which it was read.
    Shorter {
        len: u64,
    },
    /// Another file has its name.
    Replaced,
    /// No file has its name.
    Gone,
}

/// A file that is read from its last known offset.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    source: Source,
    id: FileId,
    /// Bytes that were read and not yet returned: `buffer[start..end]`, where no line ends before
    /// `searched`.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    end: usize,
    /// The offset of `start` in the text.
    place: u64,
    /// Number of discarded bytes of an overlong line; its beginning is `buffer[start..end]`.
    dropped: u64,
}

enum Source {
    Plain(File),
    Compressed(Box<zstd::Decoder<'static, BufReader<File>>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Compressed(_) => "Compressed",
        })
    }
}

impl Tail {
    /// Opens a file at an offset; a name that ends in `.zst` is decompressed. Anything but a
    /// regular file is rejected, since reading it could block or never end.
    pub fn open(path: &Path, place: u64) -> io::Result<Self> {
        let file = agent_file::open(path)?;
        let id = FileId::of(&file.metadata()?);
        let source = if path.extension().is_some_and(|extension| extension == "zst") {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(WINDOW_LOG)?;
            skip(&mut decoder, place)?;
            Source::Compressed(Box::new(decoder))
        } else {
            Source::Plain(file)
        };
        Ok(Self {
            path: path.to_owned(),
            source,
            id,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            place,
            dropped: 0,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// The offset after the last returned line.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Returns the next complete line; an unfinished last line is held back until its end is
    /// written.
    pub fn next_line(&mut self) -> io::Result<Next<'_>> {
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[self.searched..self.end]) {
                let at = self.searched + length;
                return Ok(Next::Line(self.take(at)));
            }
            self.searched = self.end;
            if !self.fill()? {
                self.rest();
                return Ok(Next::End);
            }
        }
    }

    /// Checks whether the file still exists and is at least as long as the part that was read.
    pub fn standing(&self) -> io::Result<Standing> {
        let named = match std::fs::metadata(&self.path) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Gone),
            Err(error) => return Err(error),
        };
        if FileId::of(&named) != self.id {
            return Ok(Standing::Replaced);
        }
        let len = named.len();
        let read = self.place + (self.end - self.start) as u64 + self.dropped;
        Ok(match self.source {
            Source::Plain(_) if len < read => Standing::Shorter { len },
            Source::Plain(_) | Source::Compressed(_) => Standing::Same,
        })
    }

    /// Returns the line that ends at `buffer[at]`.
    fn take(&mut self, at: usize) -> Line<'_> {
        let from = self.start;
        let (mut to, dropped) = (at, self.dropped);
        self.place += (at + 1 - from) as u64 + dropped;
        (self.start, self.searched, self.dropped) = (at + 1, at + 1, 0);
        if dropped > 0 {
            let len = (to - from) as u64 + dropped;
            return Line { bytes: &self.buffer[from..from + KEPT], len, after: self.place };
        }
        if to > from && self.buffer[to - 1] == b'\r' {
            to -= 1;
        }
        Line { bytes: &self.buffer[from..to], len: (to - from) as u64, after: self.place }
    }

    /// Reads more into the buffer; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        self.make_room();
        let at = self.place + (self.end - self.start) as u64 + self.dropped;
        let room = &mut self.buffer[self.end..];
        let read = match &mut self.source {
            Source::Plain(file) => file.read_at(room, at)?,
            Source::Compressed(decoder) => decoder.read(room)?,
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
            // Fits a line of maximum length with its line end.
            let larger = (self.buffer.len() * 2).clamp(FIRST_BUFFER, MAX_LINE + 2);
            self.buffer.resize(larger, 0);
        } else {
            self.dropped += (self.end - KEPT) as u64;
            self.end = KEPT;
        }
    }

    /// Shrinks the buffer at the end of the file to the unfinished line.
    fn rest(&mut self) {
        self.buffer.truncate(self.end);
        self.buffer.shrink_to_fit();
    }
}

/// Reads up to an offset in the text and discards it.
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

    fn lines(tail: &mut Tail) -> Vec<(Vec<u8>, u64, u64)> {
        let mut found = Vec::new();
        while let Next::Line(line) = tail.next_line().unwrap() {
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
    fn a_line_without_its_end_is_kept_back_until_that_is_there() {
        let (_directory, path) = file(b"one\r\ntw");
        let mut tail = Tail::open(&path, 0).unwrap();
        assert_eq!(lines(&mut tail), [(b"one".to_vec(), 3, 5)]);
        assert_eq!(tail.place(), 5);
        append(&path, b"o\n\nthr");
        assert_eq!(lines(&mut tail), [(b"two".to_vec(), 3, 9), (Vec::new(), 0, 10)]);
        assert_eq!(
            Tail::open(&path, tail.place()).map(|mut tail| lines(&mut tail).len()).unwrap(),
            0
        );
    }

    #[test]
    fn a_line_of_the_largest_length_is_whole_and_a_much_longer_one_is_cut_without_growing_the_buffer()
     {
        let (_directory, path) = file(b"");
        append(&path, &[vec![b'a'; MAX_LINE], b"\n".to_vec()].concat());
        append(&path, &vec![b'b'; 20 * MAX_LINE]);
        append(&path, b"\nend\n");
        let mut tail = Tail::open(&path, 0).unwrap();
        let mut seen = Vec::new();
        while let Next::Line(line) = tail.next_line().unwrap() {
            seen.push((line.bytes.first().copied(), line.len, line.is_whole()));
            assert!(tail.buffer.capacity() <= 2 * MAX_LINE);
        }
        let cut = (Some(b'b'), 20 * MAX_LINE as u64, false);
        assert_eq!(seen, [(Some(b'a'), MAX_LINE as u64, true), cut, (Some(b'e'), 3, true)]);
        assert_eq!(tail.place(), fs::metadata(&path).unwrap().len());
        assert_eq!(tail.buffer.capacity(), 0);
    }

    #[test]
    fn a_shorter_another_and_a_missing_file_are_told_apart() {
        let (directory, path) = file(b"one\ntwo");
        let mut tail = Tail::open(&path, 0).unwrap();
        lines(&mut tail);
        assert_eq!(tail.standing().unwrap(), Standing::Same);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(5).unwrap();
        assert_eq!(tail.standing().unwrap(), Standing::Shorter { len: 5 });
        let other = directory.path().join("other");
        fs::write(&other, b"one\ntwo\nthree\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(tail.standing().unwrap(), Standing::Replaced);
        fs::remove_file(&path).unwrap();
        assert_eq!(tail.standing().unwrap(), Standing::Gone);
    }

    #[test]
    fn a_compressed_file_is_read_from_the_same_places() {
        let text = b"one\ntwo\nthree\n";
        let (directory, path) = file(text);
        let compressed = directory.path().join("rollout.jsonl.zst");
        fs::write(&compressed, zstd::encode_all(&text[..], 3).unwrap()).unwrap();
        for place in [0, 4, 8] {
            let plain = lines(&mut Tail::open(&path, place).unwrap());
            assert_eq!(lines(&mut Tail::open(&compressed, place).unwrap()), plain);
        }
        let beyond = Tail::open(&compressed, 100).map(|tail| tail.place());
        assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_compressed_file_that_asks_for_much_memory_is_refused() {
        let (directory, _) = file(b"");
        let path = directory.path().join("large.zst");
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(b"text\n").unwrap();
        fs::write(&path, encoder.finish().unwrap()).unwrap();
        assert!(Tail::open(&path, 0).unwrap().next_line().is_err());
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
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
            let refused = Tail::open(path, 0).map(|tail| tail.place());
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_line_is_given_once_however_the_file_grows_and_wherever_one_begins_again(
            pieces in prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'a'), Just(b'\n')], 0..9), 0..9),
        ) {
            let (_directory, path) = file(b"");
            let mut tail = Tail::open(&path, 0).unwrap();
            let mut found = Vec::new();
            for piece in &pieces {
                append(&path, piece);
                found.extend(lines(&mut tail));
            }
            prop_assert_eq!(&found, &lines(&mut Tail::open(&path, 0).unwrap()));
            let text = pieces.concat();
            let ends = text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(found.len(), ends);
            for (at, (_, _, after)) in found.iter().enumerate() {
                prop_assert_eq!(&lines(&mut Tail::open(&path, *after).unwrap()), &found[at + 1..]);
            }
        }
    }
}
