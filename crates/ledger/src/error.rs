//! What can go wrong in the storage itself, whatever was asked of it.

use std::io;
use std::path::{Path, PathBuf};

use crate::StreamId;

/// A failure of the storage.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no room; nothing was written, and it works again when there is.
    #[error("no room left on the disk of {}; free some and try again", path.display())]
    Full { path: PathBuf },
    #[error("could not {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// What is stored is not what was written.
    #[error(
        "{} is damaged: {what}; run `provost ledger verify` for the whole list, then restore a `provost ledger backup` or import an export into an empty home",
        path.display()
    )]
    Corrupt { path: PathBuf, what: String },
    /// One record cannot be read; those after `seq` can still be asked for.
    #[error("record {seq} of the ledger cannot be read: {what}")]
    Unreadable { seq: u64, what: String },
    /// The events of a stream are missing from the place where they were archived.
    #[error("the archived events of {stream} cannot be read from {}: {what}", path.display())]
    Archive { stream: StreamId, path: PathBuf, what: String },
    /// Another process held the file for longer than the busy timeout.
    #[error("{} is in use by another process", path.display())]
    Busy { path: PathBuf },
    #[error("the database {} refused a statement", path.display())]
    Sqlite {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// A fault asked for by a test of the caller.
    #[error("a fault was injected")]
    Injected,
}

impl Error {
    /// Sorts an error of SQLite by what the caller can do about it.
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
            _ => Self::Sqlite { path, source },
        }
    }

    /// Names the file and the step of an error of the operating system.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::Full { path };
        }
        Self::Io { action, path, source }
    }
}

/// SQLite reports a full disk as such, except while it grows the shared-memory index of the log.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| {
        e.code == rusqlite::ErrorCode::DiskFull
            || e.extended_code == libsqlite3_sys::SQLITE_IOERR_SHMSIZE
    })
}
