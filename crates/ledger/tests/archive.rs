//! Archive files: changed or lost ones are reported; the rest stays readable.

use std::fs;

use provost_ledger::{
    Error, Ledger, ProjectionQuery, ReadLedger, SqliteReader, StreamFilter, VisitFlow, verify,
};

use crate::common::{add, fold, id, open_fast};

#[test]
fn changed_file_is_reported_for_its_stream_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/a", &["x", "close"]);
    add(&mut ledger, "session/b", &["x", "close"]);
    let done = ledger.archive(&[id("session/a"), id("session/b")]).unwrap();
    let path = dir.path().join("archive").join(done.file.unwrap());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"x\"", "\"y\"", 1)).unwrap();
    let error = ledger.read_stream(&id("session/a"), 0).unwrap_err();
    assert!(matches!(&error, Error::Archive { .. }), "{error:?}");
    assert!(error.to_string().contains("session/a"), "{error}");
    assert_eq!(ledger.read_stream(&id("session/b"), 0).unwrap().len(), 2);
    let report = verify(&SqliteReader::open(dir.path()).unwrap(), &mut fold).unwrap();
    assert_eq!(report.differences.len(), 1, "{report:?}");
    assert_eq!(report.differences[0].stream, Some(id("session/a")));
}

#[test]
fn replaced_last_line_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/a", &["close"]);
    add(&mut ledger, "session/b", &["close"]);
    let first = ledger.archive(&[id("session/a")]).unwrap().file.unwrap();
    let second = ledger.archive(&[id("session/b")]).unwrap().file.unwrap();
    let archive = dir.path().join("archive");
    fs::copy(archive.join(first), archive.join(second)).unwrap();
    assert!(ledger.read_stream(&id("session/b"), 0).is_err());
}

#[test]
fn lost_file_is_reported_and_listing_works() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/a", &["close"]);
    ledger.archive(&[id("session/a")]).unwrap();
    fs::remove_dir_all(dir.path().join("archive")).unwrap();
    let error = ledger.read_stream(&id("session/a"), 0).unwrap_err();
    assert!(error.to_string().contains("1-1.jsonl"), "{error}");
    let query =
        ProjectionQuery { kind: "session", show: StreamFilter::OpenFirst, after: None, limit: 9 };
    let mut shown = Vec::new();
    ledger
        .list_projections(query, &mut |projection| {
            shown.push((projection.stream.to_owned(), projection.archived));
            VisitFlow::Continue(())
        })
        .unwrap();
    assert_eq!(shown, [("session/a".to_owned(), true)]);
}

#[test]
fn file_left_by_a_crash_is_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    add(&mut ledger, "session/a", &["x", "close"]);
    let archive = dir.path().join("archive");
    fs::create_dir(&archive).unwrap();
    fs::write(archive.join("1-2.jsonl"), "left over").unwrap();
    fs::write(archive.join("unfinished.tmp"), "left over").unwrap();
    ledger.archive(&[id("session/a")]).unwrap();
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap().len(), 2);
    assert_eq!(fs::read_dir(archive).unwrap().count(), 1);
}
