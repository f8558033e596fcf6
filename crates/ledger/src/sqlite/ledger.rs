//! The writer and the reader of an SQLite ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::append::OpenStreamCache;
use super::db::{Db, HasDb};
use super::files::{self, WriterLock};
use super::high_water::HighWaterFile;
use super::loss::LedgerLoss;

/// A ledger opened for reading, while another process may be writing to it.
#[derive(Debug)]
pub struct SqliteReader {
    pub(crate) db: Db,
    pub(crate) loss: Option<LedgerLoss>,
}

/// The single writer of a ledger. It holds the lock until it is dropped.
pub struct SqliteLedger {
    pub(crate) reader: SqliteReader,
    pub(crate) kinds: EventKinds,
    pub(crate) unknown: Option<ReadOnlyReason>,
    pub(crate) last_seq: u64,
    pub(crate) software: String,
    pub(crate) probe: Option<StorageProbe>,
    pub(crate) open_streams: OpenStreamCache,
    pub(crate) high_water: HighWaterFile,
    // The lock of the only writer. It must be the last field, so that the database is closed before
    // the lock is released.
    pub(crate) _lock: WriterLock,
}

/// The reason why a ledger is read-only: it contains kinds of events that this program does not
/// know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyReason {
    /// Each kind and version, with the version of the program that first recorded it.
    pub kinds: Vec<(String, u16, String)>,
}

/// A step at which a test can stop the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoragePoint {
    AppendBegun,
    /// All rows of an append have been written, and the commit is next.
    AppendStaged,
    AppendCommitted,
    /// The archive file is durable, but its events are still in the log.
    ArchiveWritten,
    ArchiveCommitted,
}

/// Called at every step.
pub type StorageProbe = Box<dyn FnMut(StoragePoint) + Send>;

/// The kinds and versions of events that the ledger contains.
#[derive(Debug, Default)]
pub(crate) struct EventKinds(BTreeMap<String, BTreeSet<u16>>);

impl SqliteLedger {
    /// Returns the reason why the ledger is read-only, if it is.
    pub fn read_only(&self) -> Option<&ReadOnlyReason> {
        self.unknown.as_ref()
    }

    /// Sets a probe that is called at every step, for tests that crash in the middle of an
    /// operation.
    pub fn set_probe(&mut self, probe: StorageProbe) {
        self.probe = Some(probe);
    }

    /// Returns the reason why nothing can be written, if the ledger is read-only.
    pub(crate) fn read_only_text(&self) -> Option<String> {
        let loss = self.reader.loss.map(|loss| loss.to_string());
        loss.or_else(|| self.unknown.as_ref().map(ToString::to_string))
    }

    pub(crate) fn reached(&mut self, point: StoragePoint) {
        if let Some(probe) = &mut self.probe {
            probe(point);
        }
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        if self.reader.loss.is_some() {
            return;
        }
        self.high_water.sync();
        // This write only updates the marker. If it fails, the marker that was written when the
        // ledger was opened stays valid.
        drop(files::write_marker(&self.reader.db.paths, self.last_seq));
    }
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger")
            .field("dir", &self.reader.db.paths.dir)
            .field("last_seq", &self.last_seq)
            .field("read_only", &self.unknown)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it contains events that this program does not know:")?;
        for (i, (kind, v, software)) in self.kinds.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma} `{kind}` version {v} (first recorded by {software})")?;
        }
        f.write_str("; use that version or a newer one")
    }
}

impl HasDb for SqliteReader {
    fn db(&self) -> &Db {
        &self.db
    }
}

impl HasDb for SqliteLedger {
    fn db(&self) -> &Db {
        &self.reader.db
    }
}

impl EventKinds {
    pub(crate) fn contains(&self, kind: &str, v: u16) -> bool {
        self.0.get(kind).is_some_and(|versions| versions.contains(&v))
    }

    pub(crate) fn insert(&mut self, kind: String, v: u16) {
        self.0.entry(kind).or_default().insert(v);
    }
}
