//! The full check finds every kind of mismatch, and none hides another.

use std::path::Path;

use provost_ledger::{
    Error, Ledger, OpenError, ProjectionQuery, ReadLedger, SqliteReader, StreamFilter,
    StreamSnapshot, VerifyReport, VisitFlow, verify,
};

use crate::common::{FOLD_VERSION, add, batch, event, fold, id, open_fast, try_open, write};

#[test]
fn intact_ledger_is_clean() {
    let dir = sound();
    let report = check(dir.path());
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.streams, report.records, report.stale_snapshots), (4, 9, 0));
}

#[test]
fn each_mismatch_is_listed_with_its_stream() {
    let spoils = [
        ("DELETE FROM event WHERE stream = 'session/a' AND version = 2", "version 2 is missing"),
        ("UPDATE stream SET version = 9 WHERE id = 'session/a'", "the stream's row says 9 events"),
        ("UPDATE stream SET created_seq = 77 WHERE id = 'session/a'", "a different first event"),
        ("UPDATE stream SET open = 0 WHERE id = 'session/a'", "stored as closed"),
        ("UPDATE stream SET projection = '{}' WHERE id = 'session/a'", "the stream's projection"),
        (
            "DELETE FROM pending_items WHERE stream = 'session/a'",
            "stored as [], but its events say [k]",
        ),
        (
            "UPDATE pending_items SET kind = 'z' WHERE stream = 'session/a'",
            "the stream's pending items",
        ),
        (
            "UPDATE snapshot SET data = 'z' WHERE stream = 'session/a'",
            "the stream's snapshot does not match",
        ),
        (
            "UPDATE snapshot SET version = 9 WHERE stream = 'session/a'",
            "the stream's snapshot is ahead",
        ),
        ("DELETE FROM kind WHERE kind = 'owe:k'", "unlisted kind `owe:k`"),
        ("UPDATE event SET data = CAST(x'ff' AS TEXT) WHERE seq = 1", "record 1"),
        ("DELETE FROM stream WHERE id = 'session/a'", "events but no row"),
        ("UPDATE event SET prev = 0 WHERE seq = 3", "not linked"),
        ("UPDATE event SET prev = 4 WHERE seq = 3", "not linked"),
        ("UPDATE stream SET last_seq = 5 WHERE id = 'session/a'", "not linked"),
    ];
    for (sql, expected) in spoils {
        let dir = sound();
        spoil(dir.path(), sql);
        let report = check(dir.path());
        let found = report.differences.iter().find(|d| d.what.contains(expected));
        let Some(found) = found else { panic!("{sql}: {report:?}") };
        assert_eq!(found.stream, Some(id("session/a")), "{sql}");
        assert!(found.next.contains("provost"), "{sql}");
    }
}

#[test]
fn damage_of_the_whole_file_is_listed() {
    let dir = sound();
    spoil(dir.path(), "DELETE FROM sqlite_sequence");
    std::fs::remove_file(dir.path().join("ledger.created")).unwrap();
    let report = check(dir.path());
    assert!(
        report.differences.iter().any(|d| d.what.contains("beyond the counter 0")),
        "{report:?}"
    );
    let error = try_open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Storage(Error::Corrupt { .. })), "{error:?}");
}

#[test]
fn unreadable_record_does_not_hide_others() {
    let dir = sound();
    spoil(dir.path(), "UPDATE event SET data = CAST(x'ff' AS TEXT) WHERE seq IN (2, 5)");
    spoil(dir.path(), "UPDATE stream SET projection = CAST(x'ff' AS TEXT) WHERE id = 'session/b'");
    let report = check(dir.path());
    for expected in ["record 2 ", "record 5 "] {
        let found = report.differences.iter().filter(|d| d.what.contains(expected)).count();
        assert_eq!(found, 1, "{report:?}");
    }
    assert_eq!((report.streams, report.records), (4, 7));
    let reader = SqliteReader::open(dir.path()).unwrap();
    let error = reader.read_after(0, 100).unwrap_err();
    assert!(matches!(error, Error::Unreadable { seq: 2, .. }), "{error:?}");
    assert_eq!(reader.read_after(2, 2).unwrap().len(), 2);
    assert_eq!(reader.read_stream(&id("session/c"), 0).unwrap().len(), 2);
    assert_eq!(reader.open_streams().unwrap().len(), 2);
    let mut projections = 0;
    let query =
        ProjectionQuery { kind: "session", show: StreamFilter::OpenFirst, after: None, limit: 9 };
    reader
        .list_projections(query, &mut |_| {
            projections += 1;
            VisitFlow::Continue(())
        })
        .unwrap();
    assert_eq!(projections, 4);
}

#[test]
fn snapshot_of_another_fold_is_stale() {
    let dir = sound();
    spoil(dir.path(), "UPDATE snapshot SET fold_version = 2, data = 'z'");
    let report = check(dir.path());
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.stale_snapshots, 1);
}

#[test]
fn caches_can_be_rebuilt() {
    let dir = sound();
    spoil(dir.path(), "UPDATE stream SET projection = '{}', open = 0 WHERE id = 'session/a'");
    spoil(dir.path(), "DELETE FROM pending_items");
    assert!(!check(dir.path()).is_clean());
    let mut poisoned = |stream: &_, records: &[_]| {
        if *stream == id("session/c") { Err("no".to_owned()) } else { fold(stream, records) }
    };
    let failed = open_fast(dir.path()).rebuild(&mut poisoned).unwrap();
    assert_eq!(failed, [(id("session/c"), "no".to_owned())]);
    assert!(check(dir.path()).is_clean());
}

fn sound() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let mut first = write(&ledger, "session/a", &[event("x"), event("owe:k")]);
    first.snapshot = Some(StreamSnapshot {
        fold_version: FOLD_VERSION,
        data: first.projection.clone().unwrap(),
    });
    ledger.append(batch(vec![first])).unwrap();
    add(&mut ledger, "session/a", &["y"]);
    add(&mut ledger, "session/b", &["x", "y"]);
    add(&mut ledger, "session/c", &["x", "close"]);
    add(&mut ledger, "session/d", &["x", "close"]);
    ledger.archive(&[id("session/d")]).unwrap();
    dir
}

fn spoil(dir: &Path, sql: &str) {
    let db = rusqlite::Connection::open(dir.join("ledger.db")).unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db.execute_batch(sql).unwrap();
}

fn check(dir: &Path) -> VerifyReport {
    verify(&SqliteReader::open(dir).unwrap(), &mut fold).unwrap()
}
