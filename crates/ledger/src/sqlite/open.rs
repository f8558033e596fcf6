//! Opens a ledger, with every check before it is trusted.

use std::path::{Path, PathBuf};

use super::append::OpenStreamCache;
use super::db::Db;
use super::files::{self, DirContents, LedgerPaths};
use super::high_water::{self, HighWaterFile, HighWaterMark};
use super::ledger::{EventKinds, ReadOnlyReason, SqliteLedger, SqliteReader};
use super::loss::{self, LedgerLoss};
use super::{rows, schema};
use crate::{KnownKinds, ReadLedger};

/// How to open a ledger for writing.
pub struct OpenOptions<'a> {
    /// The events that this program knows; others make the ledger read-only.
    pub known: KnownKinds<'a>,
    /// The version of this program, stored with every kind of event that it records first.
    pub software: &'a str,
    pub durability: Durability,
}

/// The failures that an acknowledged append survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A power failure.
    Full,
    /// Only a crash of this process. Shows that a durability test can fail.
    ProcessOnly,
}

/// Why a ledger was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the ledger is in use{}; its lock is {}", owner_text(pid), path.display())]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("there is no ledger in {}", path.display())]
    Missing { path: PathBuf },
    /// It existed before; an empty ledger must not take its place.
    #[error(
        "{} is missing or empty, though a ledger was created here; restore a `provost ledger backup`, or move the directory away to start afresh",
        path.display()
    )]
    Vanished { path: PathBuf },
    #[error("{} is a database, but not a ledger", path.display())]
    NotALedger { path: PathBuf },
    #[error(
        "{} has schema version {found}, and this program supports up to {supported}; use a newer provost",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, supported: u32 },
    #[error(transparent)]
    Storage(#[from] crate::Error),
}

impl SqliteLedger {
    /// Opens the ledger in a directory for writing; creates it if there never was one.
    pub fn open(dir: &Path, options: &OpenOptions<'_>) -> Result<Self, Error> {
        let paths = LedgerPaths::new(dir);
        files::make_dir(dir)?;
        let lock = files::lock(&paths)?;
        // The marks are read before the log: everything they record was committed by then.
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
            // Nothing is changed before the operator decides.
            db.run(|conn| loss::keep_log(conn, true))?;
        } else {
            db.run(schema::migrate)?;
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

    /// Opens a ledger for reading, beside the writing process.
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

/// Rejects foreign databases, tables of a newer program, and a ledger whose tables are missing.
fn check_tables(db: &Db, created: bool) -> Result<TableState, Error> {
    let path = db.paths.db.clone();
    let found = db.run(schema::version)?;
    let tables: u64 = db.run(|conn| {
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| super::db::count(row, 0))
    })?;
    if tables == 0 && found == 0 {
        if created {
            return Err(db.corrupt("its tables are missing").into());
        }
        return Ok(TableState::None);
    }
    if db.run(schema::application_id)? != schema::APPLICATION_ID {
        return Err(Error::NotALedger { path });
    }
    let supported = schema::SCHEMA_VERSION;
    if found > supported {
        return Err(Error::Newer { path, found, supported });
    }
    Ok(TableState::Some)
}

/// Checks that the next number is unused. A reader needs no new number, and may inspect the damage.
fn check_counter(db: &Db, last_seq: u64) -> Result<(), Error> {
    if db.run(rows::highest_seq)? > last_seq {
        return Err(db.corrupt("its counter is behind its records").into());
    }
    Ok(())
}

/// Updates the marker. A full disk must not keep an existing ledger from opening: its older marker
/// still protects it.
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

/// Loads the kinds of recorded events; those that this program does not know make the ledger read-only.
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
