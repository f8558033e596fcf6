//! A database connection, its files, and its errors.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};
use rustix::fs::{Access, StatVfsMountFlags};
use rustix::io::Errno;

use super::files::LedgerPaths;
use super::open::Durability;
use crate::Error;

// Older SQLite releases can corrupt a log that several connections write and checkpoint.
const _: () =
    assert!(libsqlite3_sys::SQLITE_VERSION_NUMBER >= 3_051_003, "SQLite 3.51.3 or newer is needed");

/// The time that a statement waits for a lock held by another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The size of a connection's page cache, in KiB. It is small, because an idle daemon keeps it.
const CACHE_KIB: i64 = 2000;
/// The size of the write-ahead log, in pages, at which it is checkpointed into the database.
const CHECKPOINT_PAGES: i64 = 1000;
/// The size to which the write-ahead log is truncated after a checkpoint, in bytes.
const WAL_KEEP_BYTES: i64 = 8 * 1024 * 1024;
/// The number of prepared statements that a connection keeps.
const STATEMENTS: usize = 48;

/// A connection to a ledger's database.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) conn: Connection,
    pub(crate) paths: LedgerPaths,
}

/// A type that has a database connection.
pub(crate) trait HasDb {
    fn db(&self) -> &Db;
}

impl Db {
    /// Opens an existing file for writing.
    pub(crate) fn writer(paths: LedgerPaths, durability: Durability) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Self::open(paths, flags)?;
        db.run(|conn| {
            conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            conn.pragma_update(None, "synchronous", durability.pragma())?;
            conn.pragma_update(None, "foreign_keys", true)?;
            conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            conn.pragma_update(None, "journal_size_limit", WAL_KEEP_BYTES)
        })?;
        Ok(db)
    }

    /// Opens an existing file for reading, while another process may be writing to it.
    pub(crate) fn reader(paths: LedgerPaths) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = if is_immutable(&paths) {
            let name = immutable_uri(&paths.db);
            Self::open_name(paths, Path::new(&name), flags | OpenFlags::SQLITE_OPEN_URI)?
        } else {
            Self::open(paths, flags)?
        };
        db.run(|conn| conn.pragma_update(None, "query_only", true))?;
        Ok(db)
    }

    fn open(paths: LedgerPaths, flags: OpenFlags) -> Result<Self, Error> {
        let name = paths.db.clone();
        Self::open_name(paths, &name, flags)
    }

    fn open_name(paths: LedgerPaths, name: &Path, flags: OpenFlags) -> Result<Self, Error> {
        let conn =
            Connection::open_with_flags(name, flags).map_err(|e| Error::sqlite(&paths.db, e))?;
        let db = Self { conn, paths };
        db.run(|conn| {
            // Set the timeout first, because every later statement may encounter a lock.
            conn.busy_timeout(BUSY_TIMEOUT)?;
            conn.set_prepared_statement_cache_capacity(STATEMENTS);
            conn.pragma_update(None, "temp_store", "MEMORY")?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)
        })?;
        Ok(db)
    }

    /// Runs statements. If they fail, the error contains the file.
    pub(crate) fn run<T>(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        statements(&self.conn).map_err(|e| self.error(e))
    }

    /// Begins a write transaction, which is rolled back if it is dropped without a commit.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, Error> {
        Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)
            .map_err(|e| self.error(e))
    }

    pub(crate) fn error(&self, source: rusqlite::Error) -> Error {
        Error::sqlite(&self.paths.db, source)
    }

    pub(crate) fn corrupt(&self, what: impl Into<String>) -> Error {
        corrupt(&self.paths.db, what)
    }
}

pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_path_buf(), what: what.into() }
}

/// Converts a count for SQLite, whose integers have 63 bits. Counts are validated before they are
/// written. In a query, a larger count can be replaced by the maximum.
pub(crate) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Reads a count from SQLite.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let n: i64 = row.get(column)?;
    u64::try_from(n).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, n))
}

/// Reads a text from SQLite, borrowed until the next row.
pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(e))
    })
}

/// Reads a text for display, regardless of the bytes that it contains.
pub(crate) fn lossy_text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(column)?;
    let bytes = value.as_bytes().unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Whether the log of the database has been checkpointed and this process cannot create files next
/// to the database. In that case, SQLite would fail when it tries to create the log's index. A
/// process with more permissions could change the database only after creating that index.
fn is_immutable(paths: &LedgerPaths) -> bool {
    let read_only = rustix::fs::statvfs(&paths.dir)
        .is_ok_and(|about| about.f_flag.contains(StatVfsMountFlags::RDONLY))
        || rustix::fs::access(&paths.dir, Access::WRITE_OK) == Err(Errno::ACCESS);
    // If an index exists, a writer is running in another process, or was killed.
    let mut index = paths.db.clone().into_os_string();
    index.push("-shm");
    let folded = fs::metadata(&paths.wal).map_or(true, |log| log.len() == 0);
    read_only && folded && !Path::new(&index).exists()
}

/// Returns the URI for a database that does not change.
fn immutable_uri(path: &Path) -> OsString {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02x}").bytes()),
            byte => uri.push(*byte),
        }
    }
    uri.extend(b"?immutable=1");
    OsString::from_vec(uri)
}
