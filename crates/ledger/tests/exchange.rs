//! Export and import: the same ledger on the other side, and nothing from a damaged file.

use std::io::{BufReader, Read};

use provost_ledger::{
    ImportError, Ledger, LineError, MAX_LINE_BYTES, OpenStreamPolicy, ReadLedger, SqliteLedger,
    SqliteReader, export, verify,
};

use crate::common::{
    add, all_records, batch, error_chain, event, event_with, fold, id, open_fast, reply, write,
};

#[test]
fn import_exports_the_same_bytes() {
    let (dir, text) = exported();
    let other = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(other.path());
    let counts = ledger
        .import(&mut text.as_bytes(), &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen)
        .unwrap();
    assert_eq!((counts.streams, counts.records, counts.replies), (3, 7, 2));
    assert_eq!(export_of(&ledger), text);
    let original = open_fast(dir.path());
    assert_eq!(ledger.open_streams().unwrap().len(), original.open_streams().unwrap().len());
    assert_eq!(ledger.due_timers(u64::MAX).unwrap(), original.due_timers(u64::MAX).unwrap());
    assert_eq!(ledger.last_seq().unwrap(), original.last_seq().unwrap());
    let next = add(&mut ledger, "session/c", &["y"]);
    assert_eq!(next.first_seq(), original.last_seq().unwrap() + 1);
    drop(ledger);
    let report = verify(&SqliteReader::open(other.path()).unwrap(), &mut fold).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn import_closes_open_streams_of_another_home() {
    let (dir, _) = exported();
    let original = open_fast(dir.path());
    let mut text = Vec::new();
    export(&original, Some("one"), &mut text).unwrap();
    let (open, last) =
        (original.open_streams().unwrap().len() as u64, original.last_seq().unwrap());
    assert!(open > 0);
    for (home, closed) in [(Some("one"), 0), (Some("two"), open), (None, open)] {
        let other = tempfile::tempdir().unwrap();
        let mut ledger = open_fast(other.path());
        let mut close = |stream: &_, records: &[_]| {
            let folded = fold(stream, records)?;
            let paid = folded.pending.iter().map(|item| format!("pay:{}", item.key));
            let ends = paid.chain(folded.open.then(|| "close".to_owned()));
            Ok(ends.map(|kind| (records[0].at, event(&kind))).collect())
        };
        let only = OpenStreamPolicy::CloseForeign { home, close: &mut close };
        let counts = ledger.import(&mut &text[..], &|_, _| true, &mut fold, only).unwrap();
        assert_eq!((counts.closed, counts.records), (closed, 7), "{home:?}");
        assert_eq!(ledger.open_streams().unwrap().len() as u64, open - closed, "{home:?}");
        let added = if closed == 0 { 0 } else { closed + 2 };
        assert_eq!(ledger.last_seq().unwrap(), last + added, "two were pending: {home:?}");
        assert_eq!(ledger.due_timers(u64::MAX).unwrap().is_empty(), closed > 0, "{home:?}");
        drop(ledger);
        let report = verify(&SqliteReader::open(other.path()).unwrap(), &mut fold).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn export_is_json_lines_with_header_and_trailer() {
    let (_dir, text) = exported();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["format"], "provost-ledger");
    assert_eq!(lines[0]["version"], 1);
    assert_eq!(lines[1]["record"]["data"]["text"], "zwölf\n");
    let end = &lines[lines.len() - 1]["end"];
    assert_eq!(
        (&end["streams"], &end["records"], &end["replies"]),
        (&3.into(), &7.into(), &2.into())
    );
}

#[test]
fn truncated_export_is_refused_at_any_cut() {
    let (_dir, text) = exported();
    for end in (0..text.len() - 1).step_by(7).chain([text.len() - 1]) {
        let error = refused(&text.as_bytes()[..end]);
        let whole = text.as_bytes()[..end].iter().filter(|b| **b == b'\n').count();
        let line = format!("line {}:", whole + 1);
        assert!(error_chain(&error).starts_with(&line), "cut at {end}: {}", error_chain(&error));
    }
}

#[test]
fn changed_export_is_refused_with_its_line() {
    let (_dir, text) = exported();
    for position in (0..text.len()).step_by(11) {
        let mut bytes = text.clone().into_bytes();
        bytes[position] ^= 1;
        let line = text.as_bytes()[..position].iter().filter(|b| **b == b'\n').count() + 1;
        let error = error_chain(&refused(&bytes));
        assert!(error.starts_with(&format!("line {line}:")), "changed at {position}: {error}");
    }
}

#[test]
fn removed_swapped_and_added_lines_are_refused() {
    let (_dir, text) = exported();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let mut removed = lines.clone();
    removed.remove(3);
    let mut exchanged = lines.clone();
    exchanged.swap(2, 3);
    let mut added = lines.clone();
    added.push(lines[1]);
    for (name, bad, line) in
        [("removed", removed, 4), ("exchanged", exchanged, 3), ("added", added, 12)]
    {
        let error = error_chain(&refused(joined(&bad).as_bytes()));
        assert!(error.starts_with(&format!("line {line}:")), "{name}: {error}");
    }
}

#[test]
fn other_text_and_endless_lines_are_refused() {
    for bad in ["", "\n", "{}\n", "hello\n", "\u{feff}{}\n"] {
        let error = error_chain(&refused(bad.as_bytes()));
        assert!(error.starts_with("line 1:"), "{bad:?}: {error}");
    }
    let mut endless = BufReader::new(std::io::repeat(b'x').take(100 * MAX_LINE_BYTES as u64));
    let dir = tempfile::tempdir().unwrap();
    let error = open_fast(dir.path())
        .import(&mut endless, &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen)
        .unwrap_err();
    assert!(matches!(error, ImportError::Line(LineError::TooLong { line: 1 })), "{error:?}");
}

#[test]
fn unknown_kind_or_failed_fold_imports_nothing() {
    let (_dir, text) = exported();
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let known = &|kind: &str, _| kind != "close";
    let error = ledger
        .import(&mut text.as_bytes(), known, &mut fold, OpenStreamPolicy::KeepOpen)
        .unwrap_err();
    assert!(error_chain(&error).contains("line 4: this program does not know `close`"), "{error}");
    let mut no = |_: &_, _: &[_]| Err("no".to_owned());
    let error = ledger
        .import(&mut text.as_bytes(), &|_, _| true, &mut no, OpenStreamPolicy::KeepOpen)
        .unwrap_err();
    assert!(matches!(error, ImportError::Fold { .. }), "{error:?}");
    assert_eq!((ledger.last_seq().unwrap(), all_records(&ledger).len()), (0, 0));
    ledger
        .import(&mut text.as_bytes(), &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen)
        .unwrap();
    let again = ledger
        .import(&mut text.as_bytes(), &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen)
        .unwrap_err();
    assert!(matches!(again, ImportError::NotEmpty), "{again:?}");
}

/// A ledger with an archived stream, a stream with a pending item, awkward text, and a counter
/// ahead of the records.
fn exported() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let event = event_with("said", r#"{"text": "zwölf\n", "n": 1.50}"#);
    let mut first = batch(vec![write(&ledger, "session/a", &[event])]);
    first.idempotency = vec![reply("k2", r#"{"ok": true}"#), reply("k1", "null")];
    ledger.append(first).unwrap();
    add(&mut ledger, "session/b", &["x"]);
    add(&mut ledger, "session/a", &["x", "close"]);
    add(&mut ledger, "session/b", &["owe:k", "time:t"]);
    add(&mut ledger, "session/c", &["x"]);
    ledger.archive(&[id("session/a")]).unwrap();
    let text = export_of(&ledger);
    (dir, text)
}

fn export_of(ledger: &SqliteLedger) -> String {
    let mut out = Vec::new();
    export(ledger, None, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Imports into an empty ledger, which must stay empty.
fn refused(bytes: &[u8]) -> ImportError {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let mut input = bytes;
    let result = ledger.import(&mut input, &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen);
    let error = result.expect_err("a bad file was imported");
    assert!(matches!(error, ImportError::Line(_)), "{error:?}");
    assert_eq!((ledger.last_seq().unwrap(), ledger.open_streams().unwrap().len()), (0, 0));
    error
}
