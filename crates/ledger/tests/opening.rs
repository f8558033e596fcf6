//! Opening: modes, the lock, foreign and newer files, unknown kinds of events, backups.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use provost_ledger::{
    AppendError, ArchiveError, BackupError, Durability, Ledger, Lookup, OpenError, ProjectionRef,
    ReadLedger, SqliteLedger, SqliteReader, VisitFlow, verify,
};

use crate::common::{
    add, all_records, batch, error_chain, event, fold, id, open, open_fast, open_with, try_open,
    write,
};

#[test]
fn ledger_files_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("a/b");
    let mut ledger = open(&home);
    add(&mut ledger, "session/a", &["x", "close"]);
    ledger.archive(&[id("session/a")]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for dir in [home.clone(), home.join("archive")] {
        assert_eq!(mode(&dir), 0o700, "{}", dir.display());
    }
    let names = ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.lock", "ledger.created"];
    for name in names.into_iter().chain(["ledger.head", "archive/1-2.jsonl"]) {
        assert_eq!(mode(&home.join(name)), 0o600, "{name}");
    }
}

#[test]
fn appended_events_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    add(&mut ledger, "session/a", &["x", "owe:k"]);
    let before = (all_records(&ledger), ledger.open_streams().unwrap());
    drop(ledger);
    let mut ledger = open(dir.path());
    assert_eq!((all_records(&ledger), ledger.open_streams().unwrap()), before);
    assert_eq!(add(&mut ledger, "session/a", &["y"]).first_seq(), 3);
}

#[test]
fn second_writer_error_names_the_lock_owner() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let error = try_open(dir.path()).unwrap_err();
    let OpenError::Locked { pid, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(error_chain(&error).contains("ledger.lock"), "{error}");
    drop(first);
    open(dir.path());
}

#[test]
#[cfg(target_os = "linux")]
fn lock_is_released_though_child_has_the_file() {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags};
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let path = fs::canonicalize(dir.path().join("ledger.lock")).unwrap();
    let fd = fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|fd| fs::read_link(fd).is_ok_and(|target| target == path))
        .expect("the lock is an open file");
    let number: i32 = fd.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // A fork leaves this for a moment: a second descriptor of the same open file.
    let me = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
    let twin = rustix::process::pidfd_getfd(me, number, PidfdGetfdFlags::empty()).unwrap();
    drop(first);
    open(dir.path());
    drop(twin);
}

#[test]
fn reader_needs_no_lock_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    assert!(matches!(SqliteReader::open(&missing).unwrap_err(), OpenError::Missing { .. }));
    assert!(!missing.exists());
    let mut ledger = open(dir.path());
    let reader = SqliteLedger::open_reader(dir.path()).unwrap();
    add(&mut ledger, "session/a", &["x"]);
    assert_eq!(all_records(&reader).len(), 1);
}

#[test]
fn unknown_event_kinds_make_it_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    add(&mut ledger, "session/a", &["x", "hyperdrive", "close"]);
    drop(ledger);
    let old = &|kind: &str, v| kind != "hyperdrive" && v == 1;
    let mut ledger = open_with(dir.path(), Durability::Full, old).unwrap();
    let why = ledger.read_only().unwrap();
    assert_eq!(why.kinds, [("hyperdrive".to_owned(), 1, "9.9.9".to_owned())]);
    assert!(why.to_string().contains("`hyperdrive` version 1 (first recorded by 9.9.9)"));
    assert_eq!(all_records(&ledger).len(), 3);
    let write = write(&ledger, "session/b", &[event("x")]);
    let error = ledger.append(batch(vec![write])).unwrap_err();
    assert!(matches!(&error, AppendError::ReadOnly { why } if why.contains("hyperdrive")));
    let error = ledger.archive(&[id("session/a")]).unwrap_err();
    assert!(matches!(error, ArchiveError::ReadOnly { .. }));
    drop(ledger);
    let ledger = open(dir.path());
    assert_eq!((ledger.read_only(), ledger.last_seq().unwrap()), (None, 3));
}

#[test]
fn refused_batch_records_no_kind() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    let mut wrong = write(&ledger, "session/a", &[event("hyperdrive")]);
    wrong.expected = 7;
    ledger.append(batch(vec![wrong])).unwrap_err();
    drop(ledger);
    let old = &|kind: &str, _| kind != "hyperdrive";
    let mut ledger = open_with(dir.path(), Durability::Full, old).unwrap();
    assert_eq!(ledger.read_only(), None);
    add(&mut ledger, "session/a", &["hyperdrive"]);
    drop(ledger);
    let ledger = open_with(dir.path(), Durability::Full, old).unwrap();
    assert!(ledger.read_only().is_some(), "the kind was not recorded after the refusal");
}

#[test]
fn newer_schema_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    let db = dir.path().join("ledger.db");
    rusqlite::Connection::open(&db).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&db).unwrap();
    let error = try_open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    let error = SqliteReader::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    assert!(fs::read(&db).unwrap() == before);
}

#[test]
fn older_schema_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    let db = dir.path().join("ledger.db");
    let older = provost_ledger::SCHEMA_VERSION - 1;
    rusqlite::Connection::open(&db).unwrap().pragma_update(None, "user_version", older).unwrap();
    let before = fs::read(&db).unwrap();
    for error in [try_open(dir.path()).unwrap_err(), SqliteReader::open(dir.path()).unwrap_err()] {
        assert!(matches!(error, OpenError::Older { .. }), "{error:?}");
        assert!(error.to_string().contains("written by an older provost"), "{error}");
    }
    assert!(fs::read(&db).unwrap() == before);
}

#[test]
fn unreleased_format_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    let db = dir.path().join("ledger.db");
    let unreleased = rusqlite::Connection::open(&db).unwrap();
    unreleased.pragma_update(None, "application_id", 0x5072_764c).unwrap();
    drop(unreleased);
    let before = fs::read(&db).unwrap();
    for error in [try_open(dir.path()).unwrap_err(), SqliteReader::open(dir.path()).unwrap_err()] {
        assert!(matches!(error, OpenError::Unreleased { .. }), "{error:?}");
        assert!(error.to_string().contains("before the first release"), "{error}");
    }
    assert!(fs::read(&db).unwrap() == before);
}

#[test]
fn foreign_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("ledger.db");
    let foreign = rusqlite::Connection::open(&db).unwrap();
    foreign.execute_batch("CREATE TABLE cookies (a)").unwrap();
    drop(foreign);
    let error = try_open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::NotALedger { .. }), "{error:?}");
}

#[test]
fn interrupted_creation_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ledger.db"), b"").unwrap();
    drop(open(dir.path()));
    let dir = tempfile::tempdir().unwrap();
    let bare = rusqlite::Connection::open(dir.path().join("ledger.db")).unwrap();
    bare.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    drop(bare);
    add(&mut open(dir.path()), "session/a", &["x"]);
    assert_eq!(open(dir.path()).last_seq().unwrap(), 1);
}

#[test]
fn backup_is_complete_and_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("home"), dir.path().join("copy"));
    let mut ledger = open(&home);
    add(&mut ledger, "session/a", &["x", "close"]);
    add(&mut ledger, "session/b", &["x"]);
    ledger.archive(&[id("session/a")]).unwrap();
    SqliteReader::open(&home).unwrap().backup(&copy).unwrap();
    add(&mut ledger, "session/b", &["y"]);
    let error = ledger.backup(&copy).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error:?}");
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let restored = open(&copy);
    assert_eq!(restored.last_seq().unwrap(), 3);
    assert_eq!(restored.read_stream(&id("session/a"), 0).unwrap().len(), 2);
    let report = verify(&SqliteReader::open(&copy).unwrap(), &mut fold).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn ledger_without_index_is_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/first", &["x"]);
    drop(ledger);
    let old = rusqlite::Connection::open(dir.path().join("ledger.db")).unwrap();
    old.execute_batch(
        "DELETE FROM stream_words; DELETE FROM event_words; INSERT INTO unindexed SELECT id FROM stream",
    )
    .unwrap();
    drop(old);
    let found = |ledger: &dyn ReadLedger| {
        let mut names = Vec::new();
        let visit = &mut |projection: ProjectionRef<'_>| {
            names.push(projection.stream.to_owned());
            VisitFlow::Continue(())
        };
        let complete = ledger.find_streams("session", Lookup::Name("first"), 9, visit).unwrap();
        (complete, names)
    };
    let reader = SqliteReader::open(dir.path()).unwrap();
    assert_eq!(found(&reader).1, Vec::<String>::new(), "it is not in the index");
    assert!(verify(&reader, &mut fold).unwrap().is_clean(), "and that is no fault");
    drop(reader);
    let mut ledger = open_fast(dir.path());
    assert!(verify(&SqliteReader::open(dir.path()).unwrap(), &mut fold).unwrap().is_clean());
    // A stream that cannot be folded is still found by its id.
    let mut poisoned = |_: &_, _: &_| Err("poisoned".to_owned());
    assert_eq!(ledger.index_missing(&mut poisoned).unwrap(), 1);
    assert_eq!(ledger.index_missing(&mut fold).unwrap(), 0);
    assert_eq!(found(&ledger), (true, vec!["session/first".to_owned()]));
}
