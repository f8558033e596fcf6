//! The high-water mark: the last committed `seq`, stored outside of SQLite's files.
//!
//! `ledger.head` is written after each commit and before the commit is acknowledged, but it is not
//! synced. The mark is therefore never ahead of the events that SQLite made durable. If the process
//! crashes after the commit but before this write, or if a power loss drops the last writes to the
//! mark, the mark is behind, which is harmless. If the log ends before the mark, or contains a
//! different record at its position, then acknowledged events were lost.
//!
//! The file has two slots of a fixed size, which are written in turn. If one slot is half written,
//! or is read while it is being written, the other slot still contains the previous mark. If a mark
//! cannot be written, for example because the disk is full, the file also stays behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::db::Db;
use super::files::{self, LedgerPaths};
use super::rows;
use crate::{Error, RecordedEventRef};

const SLOT: usize = 128;
const SLOTS: u64 = 2;
const TITLE: &str = "provost-ledger-head 1";
/// The text that replaces the digest if no record has the number.
const NO_RECORD: &str = "-";

/// The end of the log, and the record at that position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HighWaterMark {
    pub(crate) seq: u64,
    /// A digest of the record with this number, if there is one.
    record: Option<String>,
}

/// The writer's handle to the file with the mark.
#[derive(Debug)]
pub(crate) struct HighWaterFile {
    /// The open file. `None` if it could not be created.
    file: Option<File>,
    /// The slot to write to next.
    next: u64,
}

impl HighWaterMark {
    /// Returns the mark for the current end of a log.
    pub(crate) fn of_log(db: &Db, last_seq: u64) -> Result<Self, Error> {
        Ok(Self { seq: last_seq, record: digest_at(db, last_seq)? })
    }

    /// Returns the mark for a number that no record has.
    pub(crate) fn without_record(seq: u64) -> Self {
        Self { seq, record: None }
    }

    /// Whether the log contains a different record under this number. An archived record is not
    /// compared. A damaged record is not compared either, because it is reported when it is read.
    pub(crate) fn contradicts(&self, db: &Db) -> Result<bool, Error> {
        let Some(record) = &self.record else { return Ok(false) };
        Ok(digest_at(db, self.seq)?.is_some_and(|found| found != *record))
    }

    fn to_slot(&self) -> String {
        let record = self.record.as_deref().unwrap_or(NO_RECORD);
        let body = format!("{TITLE} seq {:020} record {record:<32}", self.seq);
        let slot = format!("{body} sum {}", digest(body.as_bytes()));
        format!("{slot:<width$}\n", width = SLOT - 1)
    }

    fn from_slot(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?.strip_suffix('\n')?.trim_end();
        let (body, sum) = text.rsplit_once(" sum ")?;
        if digest(body.as_bytes()) != sum {
            return None;
        }
        let (seq, record) =
            body.strip_prefix(TITLE)?.strip_prefix(" seq ")?.split_once(" record ")?;
        let record = record.trim_end();
        let record = (record != NO_RECORD).then(|| record.to_owned());
        Some(Self { seq: seq.parse().ok()?, record })
    }
}

impl HighWaterFile {
    /// Opens the file for writing, and creates it if needed. A full disk must not keep the ledger
    /// from opening.
    pub(crate) fn open(paths: &LedgerPaths) -> Result<Self, Error> {
        let opened = files::private()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&paths.head)
            .map_err(|e| Error::io("open", &paths.head, e));
        let file = match opened {
            Err(Error::Full { .. }) => return Ok(Self { file: None, next: 0 }),
            opened => opened?,
        };
        let newest = slots(&file)
            .map_err(|e| Error::io("read", &paths.head, e))?
            .into_iter()
            .max_by_key(|(_, head)| head.seq);
        Ok(Self { file: Some(file), next: newest.map_or(0, |(slot, _)| (slot + 1) % SLOTS) })
    }

    /// Moves the mark to a committed record.
    pub(crate) fn advance(&mut self, record: RecordedEventRef<'_>) {
        self.write(&HighWaterMark { seq: record.seq, record: Some(digest_of(record)) });
    }

    /// Writes the mark. If the write fails, the previous mark remains and is still valid.
    pub(crate) fn write(&mut self, head: &HighWaterMark) {
        let Some(file) = &self.file else { return };
        let offset = self.next * SLOT as u64;
        if file.write_all_at(head.to_slot().as_bytes(), offset).is_ok() {
            self.next = (self.next + 1) % SLOTS;
        }
    }

    /// Syncs the mark to disk.
    pub(crate) fn sync(&self) {
        // If the sync fails, a power loss may leave an older mark.
        drop(self.file.as_ref().map(File::sync_all));
    }
}

/// Reads the mark. `None` if the file is missing or does not contain a valid mark.
pub(crate) fn read(path: &Path) -> Result<Option<HighWaterMark>, Error> {
    let read = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|file| slots(&file)),
    };
    let found = read.map_err(|e| Error::io("read", path, e))?;
    Ok(found.into_iter().map(|(_, head)| head).max_by_key(|head| head.seq))
}

/// Returns the valid slots.
fn slots(file: &File) -> io::Result<Vec<(u64, HighWaterMark)>> {
    let mut found = Vec::new();
    for slot in 0..SLOTS {
        let mut bytes = [0; SLOT];
        match file.read_exact_at(&mut bytes, slot * SLOT as u64) {
            Ok(()) => found.extend(HighWaterMark::from_slot(&bytes).map(|head| (slot, head))),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

fn digest_at(db: &Db, seq: u64) -> Result<Option<String>, Error> {
    db.run(|conn| rows::record_at(conn, seq, digest_of))
}

fn digest_of(record: RecordedEventRef<'_>) -> String {
    let frame = format!(
        "{} {} {} {} {} {} {}\n",
        record.seq,
        record.stream,
        record.version,
        record.kind,
        record.v,
        record.at.wall_ms,
        record.actor
    );
    let mut hasher = blake3::Hasher::new();
    hasher.update(frame.as_bytes()).update(record.data.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> (tempfile::TempDir, LedgerPaths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = LedgerPaths::new(dir.path());
        (dir, paths)
    }

    #[test]
    fn newest_whole_slot_counts() {
        let (_dir, paths) = paths();
        assert_eq!(read(&paths.head).unwrap(), None);
        let mut file = HighWaterFile::open(&paths).unwrap();
        assert_eq!(read(&paths.head).unwrap(), None, "an empty file contains no mark");
        for seq in 1..=5 {
            file.write(&HighWaterMark::without_record(seq));
            assert_eq!(read(&paths.head).unwrap(), Some(HighWaterMark::without_record(seq)));
        }
        drop(file);
        // When a process opens the file again, it does not overwrite the newest slot first.
        let mut file = HighWaterFile::open(&paths).unwrap();
        let torn = HighWaterMark::without_record(6).to_slot();
        let at = file.next * SLOT as u64;
        file.file.as_ref().unwrap().write_all_at(&torn.as_bytes()[..40], at).unwrap();
        assert_eq!(
            read(&paths.head).unwrap(),
            Some(HighWaterMark::without_record(5)),
            "it is half written"
        );
        file.write(&HighWaterMark { seq: 7, record: Some("ab".repeat(16)) });
        let found = read(&paths.head).unwrap().unwrap();
        assert_eq!((found.seq, found.record), (7, Some("ab".repeat(16))));
    }

    #[test]
    fn garbage_is_not_a_mark() {
        let (_dir, paths) = paths();
        for text in [vec![0; 256], vec![b'x'; 256], vec![0xff; 100], vec![]] {
            std::fs::write(&paths.head, text).unwrap();
            assert_eq!(read(&paths.head).unwrap(), None);
        }
        let slot = HighWaterMark::without_record(u64::MAX).to_slot();
        assert_eq!(slot.len(), SLOT);
        std::fs::write(&paths.head, slot.replace("1844", "0000")).unwrap();
        assert_eq!(read(&paths.head).unwrap(), None, "its checksum does not match");
    }
}
