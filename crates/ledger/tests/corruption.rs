//! Damaged files: a clear error with the file and the fix, never an empty or shorter ledger.

use std::fs;
use std::path::{Path, PathBuf};

use provost_ledger::{Error, OpenError, ReadLedger, SqliteReader, VisitFlow, verify};

use crate::common::{add, error_chain, fold, open_fast, try_open};

#[test]
fn damaged_header_is_reported() {
    damaged("not an SQLite header", |db| {
        let mut bytes = fs::read(db).unwrap();
        bytes[..16].fill(0);
        fs::write(db, bytes).unwrap();
    });
}

#[test]
fn text_file_as_database_is_reported() {
    damaged("not an SQLite header", |db| fs::write(db, "hello ".repeat(1000)).unwrap());
}

#[test]
fn truncated_file_is_reported() {
    damaged("cut off", |db| {
        let file = fs::OpenOptions::new().write(true).open(db).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    });
}

#[test]
fn tiny_file_is_reported() {
    damaged("too short", |db| {
        fs::OpenOptions::new().write(true).open(db).unwrap().set_len(50).unwrap();
    });
}

#[test]
fn garbage_in_the_schema_is_reported() {
    damaged("ledger.db is damaged", |db| {
        let mut bytes = fs::read(db).unwrap();
        bytes[100..4096].fill(0x5a);
        fs::write(db, bytes).unwrap();
    });
}

#[test]
fn missing_database_creates_no_new_ledger() {
    type Spoil = fn(&Path);
    let spoils: [Spoil; 2] = [|db| fs::remove_file(db).unwrap(), |db| fs::write(db, "").unwrap()];
    for spoil in spoils {
        let (dir, db) = filled();
        spoil(&db);
        vanished(dir.path());
    }
}

#[test]
fn log_without_database_creates_no_new_ledger() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ledger.db-wal"), [7; 5000]).unwrap();
    vanished(dir.path());
    fs::write(dir.path().join("ledger.db"), "").unwrap();
    vanished(dir.path());
    assert_eq!(fs::read(dir.path().join("ledger.db-wal")).unwrap(), [7; 5000]);
}

#[test]
fn emptied_database_is_reported() {
    let (dir, db) = filled();
    fs::remove_file(&db).unwrap();
    let bare = rusqlite::Connection::open(&db).unwrap();
    bare.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    drop(bare);
    let error = try_open(dir.path()).unwrap_err();
    assert!(error_chain(&error).contains("tables are missing"), "{error}");
}

#[test]
fn garbage_in_any_page_is_found() {
    let (_keep, pristine) = filled();
    let bytes = fs::read(&pristine).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 20, "{pages}");
    let mut noticed = 0;
    for page in 1..pages {
        let dir = tempfile::tempdir().unwrap();
        let mut spoilt = bytes.clone();
        spoilt[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(dir.path().join("ledger.db"), spoilt).unwrap();
        noticed += usize::from(notices(dir.path()));
    }
    assert_eq!(noticed, pages - 1, "not every damaged page was noticed");
}

/// Whether opening, reading or verifying reports damage.
fn notices(dir: &Path) -> bool {
    let Ok(reader) = SqliteReader::open(dir) else { return true };
    let mut records = 0;
    let read = reader.for_each_record(0, &mut |_| {
        records += 1;
        VisitFlow::Continue(())
    });
    assert!(read.is_err() || records == SESSIONS * 3, "only {records} records, and no error");
    verify(&reader, &mut fold).map_or(true, |report| !report.is_clean())
}

const SESSIONS: u64 = 300;

fn filled() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    for n in 0..SESSIONS {
        add(&mut ledger, &format!("session/{n:08}"), &["x", "y", "close"]);
    }
    drop(ledger);
    let db = dir.path().join("ledger.db");
    assert!(!dir.path().join("ledger.db-wal").exists());
    (dir, db)
}

fn damaged(expected: &str, spoil: fn(&Path)) {
    let (dir, db) = filled();
    spoil(&db);
    let spoilt = fs::read(&db).unwrap();
    let writer = try_open(dir.path()).unwrap_err();
    let reader = SqliteReader::open(dir.path()).unwrap_err();
    for error in [writer, reader] {
        let text = error_chain(&error);
        assert!(matches!(error, OpenError::Storage(Error::Corrupt { .. })), "{error:?}");
        assert!(text.contains(expected) && text.contains("provost ledger backup"), "{text}");
        assert!(text.contains(&*db.to_string_lossy()), "{text}");
    }
    assert!(fs::read(&db).unwrap() == spoilt, "the evidence was changed");
}

fn vanished(dir: &Path) {
    let error = try_open(dir).unwrap_err();
    assert!(matches!(error, OpenError::Vanished { .. }), "{error:?}");
    assert!(error_chain(&error).contains("provost ledger backup"), "{error}");
    let error = SqliteReader::open(dir).unwrap_err();
    assert!(matches!(error, OpenError::Vanished { .. }), "{error:?}");
}
