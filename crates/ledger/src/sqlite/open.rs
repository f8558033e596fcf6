//! Opens a ledger, and performs all checks that are needed before it can be trusted.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::append::OpenStreamCache;
use super::db::Db;
use super::files::{self, DirContents, LedgerPaths};
use super::high_water::{self, HighWaterFile, HighWaterMark};
use super::ledger::{EventKinds, ReadOnlyReason, SqliteLedger, SqliteReader};
use super::loss::{self, LedgerLoss};
use super::{rows, schema};
use crate::{KnownKinds, ReadLedger};

/// The options for opening a ledger for writing.
pub struct OpenOptions<'a> {
    /// The events that this program knows. Any other events make the ledger read-only.
    pub known: KnownKinds<'a>,
    /// The version of this program, which is stored with every kind of event that it is the first
    /// to record.
    pub software: &'a str,
    pub durability: Durability,
}

/// The failures that an acknowledged append survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// An append survives a power failure.
    Full,
    /// An append survives only a crash of this process. Tests use this level to show that a
    /// durability test can fail.
    ProcessOnly,
}

/// The reason why a ledger was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the ledger is in use{}; its lock is {}", owner_text(pid), path.display())]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("there is no ledger in {}", path.display())]
    Missing { path: PathBuf },
    /// A ledger existed here before, so an empty one must not replace it.
    #[error(
        "{} is missing or empty, though a ledger was created here; restore a `provost ledger backup`, or move the directory away to start afresh",
        path.display()
    )]
    Vanished { path: PathBuf },
    #[error("{} is a database, but not a ledger", path.display())]
    NotALedger { path: PathBuf },
    #[error(
        "{} was written by a provost from before the first release, and there is no migration; set PROVOST_HOME to a new directory",
        path.display()
    )]
    Unreleased { path: PathBuf },
    #[error(
        "{} was written by an older provost (format {found}, this one needs {supported}), and there is no migration; use that provost, or set PROVOST_HOME to a new directory",
        path.display()
    )]
    Older { path: PathBuf, found: u32, supported: u32 },
    #[error(
        "{} was written by a newer provost (format {found}, this one needs {supported}); use that provost, or set PROVOST_HOME to a new directory",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, supported: u32 },
    #[error(transparent)]
    Storage(#[from] crate::Error),
}

impl Error {
    /// Whether the files themselves cannot be read as a ledger, in which case retrying would not
    /// help.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Vanished { .. } | Error::NotALedger { .. } => true,
            Error::Storage(why) => why.is_damage(),
            Error::Locked { .. }
            | Error::Missing { .. }
            | Error::Unreleased { .. }
            | Error::Older { .. }
            | Error::Newer { .. } => false,
        }
    }
}

/// Takes the lock that makes this process the only writer, without opening the ledger. This is for
/// work that is done while the ledger cannot be read.
pub fn lock_writer(dir: &Path) -> Result<files::WriterLock, Error> {
    files::lock(&LedgerPaths::new(dir))
}

impl SqliteLedger {
    /// Opens the ledger in a directory for writing. Creates the ledger if the directory never
    /// contained one.
    pub fn open(dir: &Path, options: &OpenOptions<'_>) -> Result<Self, Error> {
        let paths = LedgerPaths::new(dir);
        files::make_dir(dir)?;
        let lock = files::lock(&paths)?;
        // Read the marks before the log, so that everything they record has been committed by then.
        let known = match files::inspect(&paths)? {
            DirContents::Nothing => {
                files::create_db(&paths)?;
                None
            }
            DirContents::Ledger { known } => known,
        };
        let marked = high_water::read(&paths.head)?;
        let db = Db::writer(paths, options.durability)?;
        let tables = check_tables(&db, known.is_some() || marked.is_some())?;
        let mut reader = SqliteReader { db, loss: None };
        if matches!(tables, TableState::Some) {
            reader.loss = LedgerLoss::detect(&reader, known, marked.as_ref())?;
        }
        let db = &reader.db;
        if reader.loss.is_some() {
            // Don't change anything before the operator decides.
            db.run(|conn| loss::keep_log(conn, true))?;
        } else {
            db.run(schema::create_tables)?;
        }
        let last_seq = reader.last_seq()?;
        check_counter(db, last_seq)?;
        let mut head = HighWaterFile::open(&db.paths)?;
        if reader.loss.is_none() {
            mark(&db.paths, known, last_seq)?;
            if marked.is_none_or(|marked| marked.seq < last_seq) {
                head.write(&HighWaterMark::of_log(db, last_seq)?);
                head.sync();
            }
        }
        let (kinds, unknown) = load_kinds(db, options.known)?;
        Ok(Self {
            reader,
            kinds,
            unknown,
            last_seq,
            software: options.software.to_owned(),
            probe: None,
            open_streams: OpenStreamCache::default(),
            high_water: head,
            _lock: lock,
        })
    }

    /// Opens a ledger for reading, while another process may be writing to it.
    pub fn open_reader(dir: &Path) -> Result<SqliteReader, Error> {
        SqliteReader::open(dir)
    }
}

impl SqliteReader {
    /// Opens the ledger in a directory for reading, without taking its lock.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let paths = LedgerPaths::new(dir);
        let known = match files::inspect(&paths)? {
            DirContents::Nothing => return Err(Error::Missing { path: paths.dir }),
            DirContents::Ledger { known } => known,
        };
        let marked = high_water::read(&paths.head)?;
        let db = Db::reader(paths)?;
        match check_tables(&db, known.is_some() || marked.is_some())? {
            TableState::None => return Err(Error::Missing { path: db.paths.dir }),
            TableState::Some => {}
        }
        let mut reader = Self { db, loss: None };
        reader.loss = LedgerLoss::detect(&reader, known, marked.as_ref())?;
        Ok(reader)
    }
}

impl Durability {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::ProcessOnly => "OFF",
        }
    }
}

enum TableState {
    None,
    Some,
}

/// Rejects databases that are not ledgers, ledgers with another format, and ledgers whose tables
/// are missing.
fn check_tables(db: &Db, created: bool) -> Result<TableState, Error> {
    let path = db.paths.db.clone();
    let found = db.run(schema::version)?;
    let tables: u64 = db.run(|conn| {
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| super::db::count(row, 0))
    })?;
    if tables == 0 && found == 0 {
        if created {
            return Err(db.corrupt("the tables are missing").into());
        }
        return Ok(TableState::None);
    }
    match db.run(schema::application_id)? {
        schema::APPLICATION_ID => {}
        schema::UNRELEASED_APPLICATION_ID => return Err(Error::Unreleased { path }),
        _ => return Err(Error::NotALedger { path }),
    }
    let supported = schema::SCHEMA_VERSION;
    match found.cmp(&supported) {
        Ordering::Less => Err(Error::Older { path, found, supported }),
        Ordering::Equal => Ok(TableState::Some),
        Ordering::Greater => Err(Error::Newer { path, found, supported }),
    }
}

/// Checks that the next number is unused. A ledger that is only read skips this check, because it
/// needs no new numbers and may be opened to inspect the damage.
fn check_counter(db: &Db, last_seq: u64) -> Result<(), Error> {
    if db.run(rows::highest_seq)? > last_seq {
        return Err(db.corrupt("the sequence counter is behind the records").into());
    }
    Ok(())
}

/// Updates the marker. A full disk must not keep an existing ledger from opening, because its older
/// marker still protects it.
fn mark(paths: &LedgerPaths, known: Option<u64>, last_seq: u64) -> Result<(), Error> {
    if known == Some(last_seq) {
        return Ok(());
    }
    match files::write_marker(paths, last_seq) {
        Err(crate::Error::Full { .. }) if known.is_some() => Ok(()),
        result => {
            result?;
            Ok(files::sync_dir(&paths.dir)?)
        }
    }
}

/// Loads the kinds of recorded events. If this program does not know some of them, the ledger is read-only.
fn load_kinds(
    db: &Db,
    known: KnownKinds<'_>,
) -> Result<(EventKinds, Option<ReadOnlyReason>), Error> {
    let mut kinds = EventKinds::default();
    let mut unknown = ReadOnlyReason { kinds: Vec::new() };
    for (kind, v, software) in db.run(rows::kinds)? {
        if !known(&kind, v) {
            unknown.kinds.push((kind.clone(), v, software));
        }
        kinds.insert(kind, v);
    }
    let unknown = (!unknown.kinds.is_empty()).then_some(unknown);
    Ok((kinds, unknown))
}

fn owner_text(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) => format!(" by process {pid}"),
        None => String::new(),
    }
}
