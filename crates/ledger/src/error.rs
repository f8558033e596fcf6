//! Storage failures, which do not depend on the request.

use std::io;
use std::path::{Path, PathBuf};

use crate::{RecordedEvent, StreamId};

/// A failure of the storage.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk is full, so nothing was written. Writing works again once there is space.
    #[error("the disk of {} is full; free some space and try again", path.display())]
    Full { path: PathBuf },
    #[error("could not {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The stored data differs from what was written.
    #[error(
        "{} is damaged: {what}; run `provost ledger verify` for a complete list, then restore a `provost ledger backup` or import an export into an empty home",
        path.display()
    )]
    Corrupt { path: PathBuf, what: String },
    /// One record is damaged, but records after `seq` can be read. The version is the one in the
    /// damaged record itself. The stream also comes from that record, unless the stream is known.
    #[error("record {seq} of the ledger (event {version} of {stream}) cannot be read: {what}")]
    Unreadable { seq: u64, stream: String, version: u64, what: String },
    /// The archived events of a stream are missing or unreadable.
    #[error("the archived events of {stream} cannot be read from {}: {what}", path.display())]
    Archive { stream: StreamId, path: PathBuf, what: String },
    /// Another process held a lock on the file for longer than the busy timeout.
    #[error("{} is in use by another process", path.display())]
    Busy { path: PathBuf },
    /// The database, or a file that SQLite needs next to it, cannot be opened or created.
    #[cfg(feature = "sqlite")]
    #[error(
        "cannot open the database {}, or a file that SQLite needs next to it; check the permissions of the files and of their directory",
        path.display()
    )]
    CannotOpen {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[cfg(feature = "sqlite")]
    #[error("the database {} rejected a statement", path.display())]
    Sqlite {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// A fault injected by a test.
    #[error("a fault was injected")]
    Injected,
}

impl Error {
    /// Whether the stored data itself is damaged. All other failures may be temporary.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Unreadable { .. } | Self::Archive { .. })
    }

    /// Creates the error for a record that cannot be read.
    pub(crate) fn unreadable(record: &RecordedEvent, what: String) -> Self {
        let stream = record.stream.to_string();
        Self::Unreadable { seq: record.seq, stream, version: record.version, what }
    }

    /// Classifies an SQLite error by the action that the caller can take.
    #[cfg(feature = "sqlite")]
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_path_buf();
        if is_full(&source) {
            return Self::Full { path };
        }
        match source.sqlite_error_code() {
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                Self::Corrupt { path, what: source.to_string() }
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy { path },
            Some(Code::CannotOpen) => Self::CannotOpen { path, source },
            _ => Self::Sqlite { path, source },
        }
    }

    /// Adds the file and the action to an operating system error.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::Full { path };
        }
        Self::Io { action, path, source }
    }
}

/// Whether the disk is full. SQLite has an error code for a full disk, but returns another code
/// while it grows the log's shared-memory index.
#[cfg(feature = "sqlite")]
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| {
        e.code == rusqlite::ErrorCode::DiskFull
            || e.extended_code == libsqlite3_sys::SQLITE_IOERR_SHMSIZE
    })
}
