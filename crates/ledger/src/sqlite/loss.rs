//! Detects that a log lost its end or was replaced by another one, and lets the operator continue.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use rusqlite::config::DbConfig;

use super::db::{HasDb, count, int};
use super::files::{self, LedgerPaths};
use super::high_water::HighWaterMark;
use super::ledger::{SqliteLedger, SqliteReader};
use super::rows;
use crate::{Error, RecordedEvent};

/// Recorded events that are missing from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLoss {
    /// The last number in the log.
    pub found: u64,
    /// The last number known to have been recorded.
    pub known: u64,
    /// Whether the log now contains a different record under the last known number.
    pub replaced: bool,
}

/// A loss that the operator accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The number that represents the loss in the log. No record has this number.
    pub seq: u64,
    /// The range of lost events. It is empty if `first` is greater than `last`.
    pub first: u64,
    pub last: u64,
    pub wall_ms: i64,
}

/// The result of accepting a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRecovery {
    pub loss: AcceptedLoss,
    /// The copy of the files as they were before the loss was accepted.
    pub copy: PathBuf,
}

impl fmt::Display for LedgerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, known, replaced } = self;
        if *replaced {
            return write!(
                f,
                "event {known} of the ledger is not the one that was recorded: another ledger's file replaced it"
            );
        }
        write!(
            f,
            "the ledger ends at event {found}, but event {known} was recorded: it lost its end or was replaced by an older copy"
        )
    }
}

impl LedgerLoss {
    /// Compares the end of the log with the highest known `seq`, which is recorded in the marker
    /// from the last opening or closing and in the mark from the last commit. Both must be read
    /// before the log is opened.
    pub(crate) fn detect(
        reader: &SqliteReader,
        marker: Option<u64>,
        head: Option<&HighWaterMark>,
    ) -> Result<Option<Self>, Error> {
        let found = reader.db().run(rows::last_seq)?;
        let known = marker.unwrap_or(0).max(head.map_or(0, |head| head.seq));
        if found < known {
            return Ok(Some(Self { found, known, replaced: false }));
        }
        match head {
            Some(head) if head.contradicts(reader.db())? => {
                Ok(Some(Self { found, known: head.seq, replaced: true }))
            }
            Some(_) | None => Ok(None),
        }
    }
}

impl SqliteReader {
    /// Returns the log's loss, if the operator has not accepted it yet.
    pub fn loss(&self) -> Option<LedgerLoss> {
        self.loss
    }

    /// Returns the losses that the operator accepted, oldest first.
    pub fn accepted_losses(&self) -> Result<Vec<AcceptedLoss>, Error> {
        self.db.run(|conn| {
            conn.prepare_cached("SELECT seq, first, last, wall_ms FROM lost ORDER BY seq")?
                .query_map([], |row| {
                    Ok(AcceptedLoss {
                        seq: count(row, 0)?,
                        first: count(row, 1)?,
                        last: count(row, 2)?,
                        wall_ms: row.get(3)?,
                    })
                })?
                .collect()
        })
    }

    /// Returns the newest intact record that is still in the log.
    pub fn newest_record(&self) -> Result<Option<RecordedEvent>, Error> {
        self.db.run(rows::newest_record)
    }
}

impl SqliteLedger {
    /// Returns the log's loss. Until the operator accepts it, the ledger is read-only.
    pub fn loss(&self) -> Option<LedgerLoss> {
        self.reader.loss
    }

    /// Returns the newest intact record that is still in the log.
    pub fn newest_record(&self) -> Result<Option<RecordedEvent>, Error> {
        self.reader.newest_record()
    }

    /// Continues without the lost events. The numbers of these events are not reused, and an
    /// additional number represents the loss. The files are copied first.
    pub fn accept_loss(&mut self, wall_ms: i64) -> Result<Option<LossRecovery>, Error> {
        let Some(loss) = self.reader.loss else { return Ok(None) };
        let seq = loss.found.max(loss.known) + 1;
        let first = if loss.replaced { loss.known } else { loss.found + 1 };
        let accepted = AcceptedLoss { seq, first, last: loss.known, wall_ms };
        let db = &self.reader.db;
        let copy = copy_files(&db.paths, seq)?;
        let tx = db.begin()?;
        db.run(|conn| {
            rows::set_last_seq(conn, seq)?;
            conn.execute(
                "INSERT INTO lost (seq, first, last, wall_ms) VALUES (?1, ?2, ?3, ?4)",
                rusqlite::params![int(seq), int(first), int(loss.known), wall_ms],
            )
        })?;
        tx.commit().map_err(|e| db.error(e))?;
        keep_log(&db.conn, false).map_err(|e| db.error(e))?;
        self.open_streams.clear();
        self.last_seq = seq;
        self.reader.loss = None;
        self.high_water.write(&HighWaterMark::without_record(seq));
        self.high_water.sync();
        files::write_marker(&self.reader.db.paths, seq)?;
        Ok(Some(LossRecovery { loss: accepted, copy }))
    }
}

/// Sets whether the write-ahead log is kept when the database is closed. The log is evidence of a
/// loss.
pub(crate) fn keep_log(conn: &rusqlite::Connection, keep: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

fn copy_files(paths: &LedgerPaths, seq: u64) -> Result<PathBuf, Error> {
    let to = paths.dir.join(format!("before-{seq}"));
    files::make_dir(&to)?;
    for file in [&paths.db, &paths.wal, &paths.head, &paths.marker] {
        if !file.exists() {
            continue;
        }
        let Some(name) = file.file_name() else { continue };
        let copy = to.join(name);
        fs::copy(file, &copy).map_err(|e| Error::io("copy", file, e))?;
    }
    files::sync_dir(&to)?;
    Ok(to)
}
