//! Records that were changed on disk: each is found and named, and none hides another.

use std::fs;
use std::path::Path;

use provost_ledger::{
    ArchiveError, Error, Ledger, OpenStreamPolicy, ReadLedger, SqliteReader, VerifyReport,
    VisitFlow, export, for_each_record_or_damage, verify,
};

use crate::common::{add, batch, error_chain, event_with, fold, id, open_fast, try_open, write};

/// Streams `a` and `b` are open, `c` is closed. The records are 1 to 3, 4 to 6 and 7 to 8.
fn sound() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/a", &["x", "y", "z"]);
    add(&mut ledger, "session/b", &["x", "y", "z"]);
    add(&mut ledger, "session/c", &["x", "close"]);
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

/// The places of the damaged records that a visit of the whole log names.
fn damaged(ledger: &dyn ReadLedger) -> (Vec<u64>, Vec<(u64, String, u64)>) {
    let (mut read, mut named) = (Vec::new(), Vec::new());
    for_each_record_or_damage(ledger, 0, &mut |record| {
        match record {
            Ok(record) => read.push(record.seq),
            Err(Error::Unreadable { seq, stream, version, .. }) => {
                named.push((*seq, stream.clone(), *version));
            }
            Err(other) => panic!("{other}"),
        }
        VisitFlow::Continue(())
    })
    .unwrap();
    (read, named)
}

#[test]
fn f8_v8_changed_record_is_named_and_hides_no_other() {
    let changes = [
        ("data = '[]'", "session/a", 2),
        ("kind = 'z'", "session/a", 2),
        ("v = 2", "session/a", 2),
        ("actor = 'user/1001'", "session/a", 2),
        ("wall_ms = wall_ms + 1", "session/a", 2),
        ("mono_ms = mono_ms + 1", "session/a", 2),
        ("sum = sum + 1", "session/a", 2),
        ("stream = 'session/z'", "session/z", 2),
        ("stream = 'session/b', version = 4", "session/b", 4),
        ("version = 9", "session/a", 9),
    ];
    for (change, stream, version) in changes {
        let dir = sound();
        spoil(dir.path(), &format!("UPDATE event SET {change} WHERE seq = 2"));
        let reader = SqliteReader::open(dir.path()).unwrap();
        let (read, named) = damaged(&reader);
        assert_eq!(read, [1, 3, 4, 5, 6, 7, 8], "{change}");
        assert_eq!(named, [(2, stream.to_owned(), version)], "{change}");
        // The stream that lacks the event, or contains the damaged one, cannot be read as if it
        // were whole. The others can.
        let error = reader.read_stream(&id("session/a"), 0).unwrap_err();
        assert!(error.is_damage(), "{change}: {error:?}");
        assert!(error_chain(&error).contains("session/a"), "{change}: {error}");
        assert_eq!(reader.read_stream(&id("session/c"), 0).unwrap().len(), 2, "{change}");
        let report = check(dir.path());
        let place = format!("record 2 of the ledger (event {version} of {stream}) cannot be read");
        let found: Vec<_> =
            report.differences.iter().filter(|one| one.what.contains(&place)).collect();
        assert_eq!(found.len(), 1, "{change}: {report:?}");
        assert!(found[0].what.contains("its checksum is wrong"), "{change}: {report:?}");
        assert!(found[0].next.contains("backup"), "{change}: {report:?}");
        let others = report.differences.iter().filter_map(|one| one.stream.as_ref());
        assert!(!others.clone().any(|one| *one == id("session/c")), "{change}: {report:?}");
    }
}

#[test]
fn f8_v8_swapped_records_are_named() {
    let swap = |columns: &str| {
        format!(
            "CREATE TEMP TABLE old AS SELECT * FROM event WHERE seq IN (2, 5);
             DELETE FROM event WHERE seq IN (2, 5);
             INSERT INTO event SELECT {columns} FROM old;"
        )
    };
    let swaps = [
        "7 - seq, stream, version, kind, v, wall_ms, mono_ms, actor, data, sum, prev",
        "seq, iif(seq = 2, 'session/b', 'session/a'), version, kind, v, wall_ms, mono_ms, actor, data, sum, prev",
    ];
    for columns in swaps {
        let dir = sound();
        spoil(dir.path(), &swap(columns));
        let (read, named) = damaged(&SqliteReader::open(dir.path()).unwrap());
        assert_eq!((read.len(), named.len()), (6, 2), "{columns}");
        for stream in ["session/a", "session/b"] {
            let report = check(dir.path());
            let differences =
                report.differences.iter().filter(|one| one.stream == Some(id(stream)));
            assert!(differences.count() > 0, "{columns}: {report:?}");
        }
    }
}

#[test]
fn f8_v8_any_flipped_bit_in_the_data_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let text = r#"{"text":"harbour"}"#;
    let first = write(&ledger, "session/a", &[event_with("x", text), event_with("y", "{}")]);
    ledger.append(batch(vec![first])).unwrap();
    add(&mut ledger, "session/b", &["x"]);
    drop(ledger);
    let db = dir.path().join("ledger.db");
    let sound = fs::read(&db).unwrap();
    let at = sound.windows(text.len()).position(|bytes| bytes == text.as_bytes()).unwrap();
    for (offset, bit) in (0..text.len()).flat_map(|offset| [(offset, 0), (offset, 5)]) {
        let mut bytes = sound.clone();
        bytes[at + offset] ^= 1 << bit;
        fs::write(&db, bytes).unwrap();
        let reader = SqliteReader::open(dir.path()).unwrap();
        let error = reader.read_stream(&id("session/a"), 0).unwrap_err();
        assert!(
            matches!(&error, Error::Unreadable { seq: 1, version: 1, stream, .. } if stream == "session/a"),
            "{error:?}"
        );
        assert_eq!(reader.read_stream(&id("session/a"), 1).unwrap().len(), 1);
        assert_eq!(reader.read_stream(&id("session/b"), 0).unwrap().len(), 1);
        assert!(!check(dir.path()).is_clean());
    }
}

#[test]
fn f8_v8_missing_event_is_an_error_on_read() {
    for (version, after) in [(1, 0), (2, 1), (3, 2)] {
        let dir = sound();
        let gone = format!("DELETE FROM event WHERE stream = 'session/a' AND version = {version}");
        spoil(dir.path(), &gone);
        let reader = SqliteReader::open(dir.path()).unwrap();
        let error = reader.read_stream(&id("session/a"), after).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("event {version} of session/a is missing")), "{text}");
        assert_eq!(reader.read_stream(&id("session/b"), 0).unwrap().len(), 3);
    }
}

/// The newest record is also in the high-water mark, but damage is not a replaced ledger.
#[test]
fn f8_v8_damaged_newest_record_is_not_a_loss() {
    let dir = sound();
    spoil(dir.path(), "UPDATE event SET data = '[]' WHERE seq = 8");
    let mut ledger = try_open(dir.path()).unwrap();
    assert_eq!(ledger.loss(), None);
    assert_eq!(ledger.newest_record().unwrap().map(|record| record.seq), Some(7));
    add(&mut ledger, "session/a", &["w"]);
    assert!(ledger.read_stream(&id("session/c"), 0).unwrap_err().is_damage());
}

#[test]
fn f8_v8_damaged_record_is_neither_exported_nor_archived() {
    let dir = sound();
    spoil(dir.path(), "UPDATE event SET data = '[]' WHERE seq = 7");
    let mut ledger = open_fast(dir.path());
    let error = export(&ledger, None, &mut Vec::new()).unwrap_err();
    assert!(error_chain(&error).contains("event 1 of session/c"), "{}", error_chain(&error));
    let error = ledger.archive(&[id("session/c")]).unwrap_err();
    assert!(matches!(&error, ArchiveError::Storage(Error::Unreadable { seq: 7, .. })), "{error:?}");
    // A copy keeps the checksums, so the damage is found there too.
    let copy = dir.path().join("copy");
    ledger.backup(&copy).unwrap();
    let report = check(&copy);
    assert!(report.differences.iter().any(|one| one.what.contains("record 7 ")), "{report:?}");
}

#[test]
fn f8_v8_import_and_backup_write_correct_checksums() {
    let dir = sound();
    let mut ledger = open_fast(dir.path());
    ledger.archive(&[id("session/c")]).unwrap();
    let mut text = Vec::new();
    export(&ledger, None, &mut text).unwrap();
    ledger.backup(&dir.path().join("copy")).unwrap();
    let copied = check(&dir.path().join("copy"));
    assert!(copied.is_clean(), "{copied:?}");
    let other = tempfile::tempdir().unwrap();
    let mut imported = open_fast(other.path());
    let known = |_: &str, _: u16| true;
    imported.import(&mut &text[..], &known, &mut fold, OpenStreamPolicy::KeepOpen).unwrap();
    let report = check(other.path());
    assert!(report.is_clean() && report.records == 8, "{report:?}");
}

#[test]
fn damaged_links_hide_no_event() {
    for change in [
        "UPDATE event SET prev = 0 WHERE seq = 3",
        "UPDATE event SET prev = 3 WHERE seq = 3",
        "UPDATE event SET prev = 99 WHERE seq = 3",
        "UPDATE event SET prev = 1 WHERE seq = 3",
        "UPDATE stream SET last_seq = 6 WHERE id = 'session/a'",
        "UPDATE stream SET last_seq = 99 WHERE id = 'session/a'",
    ] {
        let dir = sound();
        spoil(dir.path(), change);
        let reader = SqliteReader::open(dir.path()).unwrap();
        let versions = |after| {
            let records = reader.read_stream(&id("session/a"), after).unwrap();
            records.iter().map(|record| record.version).collect::<Vec<_>>()
        };
        assert_eq!(versions(0), [1, 2, 3], "{change}");
        assert_eq!(versions(1), [2, 3], "{change}");
        assert!(!check(dir.path()).is_clean(), "{change}");
    }
}
