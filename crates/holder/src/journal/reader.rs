//! Reads complete frames from an offset, while the journal may still be growing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use provost_sys::agent_file;

use super::frame::{FrameHeader, HEADER_LEN, JournalFrame, MAX_PAYLOAD, may_begin};

/// The outcome of opening a journal at an offset.
#[derive(Debug)]
pub enum OpenedJournal {
    Ready(JournalReader),
    /// The journal ends before the offset, because its tail was lost when the machine failed.
    Lost {
        end: u64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the journal")]
    Io(#[from] io::Error),
    #[error("the journal has no valid frame at offset {offset}")]
    Corrupt { offset: u64 },
}

/// An iterator over complete frames. `None` means that the next frame is not complete yet. The
/// iterator can then be called again later.
#[derive(Debug)]
pub struct JournalReader {
    file: File,
    /// Bytes that were read ahead from the file.
    buffer: Vec<u8>,
    offset: u64,
    /// The number of bytes in `buffer` that precede `offset`.
    used: usize,
}

impl JournalReader {
    /// Opens a journal at the offset of a frame.
    pub fn open(path: &Path, offset: u64) -> Result<OpenedJournal, Error> {
        let file = agent_file::open(path).map_err(io::Error::from)?;
        let end = file.metadata()?.len();
        if offset > end {
            return Ok(OpenedJournal::Lost { end });
        }
        Ok(OpenedJournal::Ready(Self { file, buffer: Vec::new(), offset, used: 0 }))
    }

    /// Returns the offset of the next frame.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_frame(&mut self) -> Result<Option<JournalFrame>, Error> {
        if let Some(frame) = self.take_frame()? {
            return Ok(Some(frame));
        }
        self.refill()?;
        self.take_frame()
    }

    /// Takes the next frame from the buffer, if it is complete.
    fn take_frame(&mut self) -> Result<Option<JournalFrame>, Error> {
        let bytes = &self.buffer[self.used..];
        if !may_begin(bytes) {
            return Err(Error::Corrupt { offset: self.offset });
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let header = FrameHeader::decode(head).ok_or(Error::Corrupt { offset: self.offset })?;
        let Some(payload) = rest.get(..header.len as usize) else { return Ok(None) };
        let length = HEADER_LEN + payload.len();
        let frame = JournalFrame {
            offset: self.offset,
            after: self.offset + length as u64,
            channel: header.channel,
            flags: header.flags,
            mono_ms: header.mono_ms,
            payload: payload.to_vec(),
        };
        self.offset = frame.after;
        self.used += length;
        Ok(Some(frame))
    }

    /// Reads the file again from the next frame on. A frame that was incomplete before may be
    /// complete now.
    fn refill(&mut self) -> io::Result<()> {
        self.buffer.resize(HEADER_LEN + MAX_PAYLOAD, 0);
        self.used = 0;
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.file.read_at(&mut self.buffer[filled..], self.offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.clear();
                    return Err(error);
                }
            }
        }
        self.buffer.truncate(filled);
        if filled == 0 {
            // Release the buffer, because hundreds of quiet journals may be followed at the same
            // time.
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

impl Iterator for JournalReader {
    type Item = Result<JournalFrame, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_frame().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{JournalChannel, JournalWriter};
    use super::*;

    fn journal(payloads: &[&[u8]]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut writer = JournalWriter::new(File::create(&path).unwrap());
        for payload in payloads {
            writer.append(JournalChannel::Stdout, 5, payload).unwrap();
        }
        assert_eq!(writer.end(), fs::metadata(&path).unwrap().len());
        (dir, path)
    }

    fn at(path: &Path, offset: u64) -> JournalReader {
        match JournalReader::open(path, offset).unwrap() {
            OpenedJournal::Ready(reader) => reader,
            OpenedJournal::Lost { end } => panic!("lost at {end}"),
        }
    }

    #[test]
    fn torn_tail_is_read_once_complete() {
        let (_dir, path) = journal(&[b"one", b"", b"three"]);
        let bytes = fs::read(&path).unwrap();
        let whole: Vec<JournalFrame> = at(&path, 0).map(Result::unwrap).collect();
        assert_eq!(whole.len(), 3);
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            let mut reader = at(&path, 0);
            let mut found: Vec<JournalFrame> = reader.by_ref().map(Result::unwrap).collect();
            assert_eq!(found.len(), whole.iter().filter(|frame| frame.after <= cut as u64).count());
            fs::write(&path, &bytes).unwrap();
            found.extend(reader.map(Result::unwrap));
            assert_eq!(found, whole, "cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_an_error_with_its_offset() {
        let (_dir, path) = journal(&[b"one", b"two"]);
        let mut bytes = fs::read(&path).unwrap();
        bytes[23] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        let mut reader = at(&path, 0);
        assert_eq!(reader.next().unwrap().unwrap().payload, b"one");
        assert!(matches!(reader.next(), Some(Err(Error::Corrupt { offset: 23 }))));
        assert!(
            matches!(reader.next(), Some(Err(Error::Corrupt { offset: 23 }))),
            "it is never skipped"
        );
    }

    #[test]
    fn offset_beyond_the_end_is_lost() {
        let (_dir, path) = journal(&[b"one"]);
        assert!(matches!(JournalReader::open(&path, 24).unwrap(), OpenedJournal::Lost { end: 23 }));
        assert!(at(&path, 23).next().is_none());
    }
}
