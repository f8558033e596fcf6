//! Backups. A backup is a complete ledger directory that can be opened as it is. It can be made
//! while a writer is running.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::db::Db;
use super::files::{self, LedgerPaths};
use super::ledger::{SqliteLedger, SqliteReader};
use super::rows;

/// The reason why no backup was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} already exists; a backup needs a new directory", path.display())]
    Exists { path: PathBuf },
    #[error(transparent)]
    Storage(#[from] crate::Error),
}

impl SqliteReader {
    /// Copies the ledger's current state into a new directory.
    pub fn backup(&self, to: &Path) -> Result<(), Error> {
        if to.symlink_metadata().is_ok() {
            let path = to.to_path_buf();
            return Err(Error::Exists { path });
        }
        let unfinished = temp_path_beside(to);
        make_exclusively(&unfinished)?;
        let made = copy(&self.db, &unfinished).and_then(|()| publish(&unfinished, to));
        if made.is_err() {
            // The unfinished directory contains only copies.
            drop(fs::remove_dir_all(&unfinished));
        }
        made
    }
}

impl SqliteLedger {
    /// Copies the ledger's current state into a new directory.
    pub fn backup(&self, to: &Path) -> Result<(), Error> {
        self.reader.backup(to)
    }
}

fn temp_path_beside(to: &Path) -> PathBuf {
    let mut name = OsString::from(to);
    name.push(format!(".unfinished-{}", std::process::id()));
    PathBuf::from(name)
}

fn make_exclusively(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o700).create(dir);
    made.map_err(|e| {
        if e.kind() == io::ErrorKind::AlreadyExists {
            let path = dir.to_path_buf();
            return Error::Exists { path };
        }
        crate::Error::io("create", dir, e).into()
    })
}

fn copy(db: &Db, dir: &Path) -> Result<(), Error> {
    let to = LedgerPaths::new(dir);
    files::create_db(&to)?;
    copy_db(db, &to)?;
    sync(&to.db)?;
    // Archives are written before the database refers to them, so everything that the copy refers
    // to already exists.
    copy_archive(&db.paths.archive, &to.archive)?;
    let last_seq = Db::reader(to.clone())?.run(rows::last_seq)?;
    files::write_marker(&to, last_seq)?;
    Ok(files::sync_dir(dir)?)
}

/// Copies all pages in a single step, because the writer might change some of them between two steps.
fn copy_db(db: &Db, to: &LedgerPaths) -> Result<(), crate::Error> {
    let failed = |e| crate::Error::sqlite(&to.db, e);
    let mut target = Connection::open(&to.db).map_err(failed)?;
    let backup = Backup::new(&db.conn, &mut target).map_err(|e| db.error(e))?;
    if backup.step(-1).map_err(failed)? == StepResult::Done {
        return Ok(());
    }
    let path = db.paths.db.clone();
    Err(crate::Error::Busy { path })
}

fn copy_archive(from: &Path, to: &Path) -> Result<(), crate::Error> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(crate::Error::io("read the directory", from, e)),
    };
    files::make_dir(to)?;
    for entry in entries {
        let entry = entry.map_err(|e| crate::Error::io("read the directory", from, e))?;
        let source = entry.path();
        if source.extension().is_some_and(|e| e == "jsonl") {
            let copy = to.join(entry.file_name());
            fs::copy(&source, &copy).map_err(|e| crate::Error::io("copy", &source, e))?;
            sync(&copy)?;
        }
    }
    files::sync_dir(to)
}

fn sync(path: &Path) -> Result<(), crate::Error> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|e| crate::Error::io("make durable", path, e))
}

fn publish(unfinished: &Path, to: &Path) -> Result<(), Error> {
    // A directory cannot be renamed over a non-empty one, and replacing an empty one loses nothing.
    fs::rename(unfinished, to).map_err(|e| crate::Error::io("name", to, e))?;
    match to.parent() {
        Some(parent) if parent != Path::new("") => Ok(files::sync_dir(parent)?),
        _ => Ok(files::sync_dir(Path::new("."))?),
    }
}
