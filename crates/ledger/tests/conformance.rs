//! The rules of the port, for every implementation.

use provost_ledger::{
    AppendError, ArchiveError, InvalidBatch, Ledger, ListCursor, Lookup, MAX_EVENT_BYTES,
    MemLedger, NewEvent, PendingItem, ProjectionQuery, ProjectionRef, ReadLedger, RecordedEventRef,
    StreamFilter, StreamSnapshot, StreamWrite, TermQuery, VisitFlow, WriteBatch, export,
};

use crate::common::{add, all_records, at, batch, event, event_with, id, open_fast, reply, write};

macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod mem {
            $(#[test]
            fn $test() {
                super::$test(&mut provost_ledger::MemLedger::new());
            })*
        }
        mod sqlite {
            $(#[test]
            fn $test() {
                let dir = tempfile::tempdir().unwrap();
                super::$test(&mut crate::common::open_fast(dir.path()));
            })*
        }
    };
}

conformance!(
    empty_ledger_returns_nothing,
    records_are_read_as_written,
    versions_count_the_events_of_a_stream,
    wrong_version_is_a_conflict_without_write,
    batch_over_several_streams_is_atomic,
    used_key_returns_the_stored_reply,
    reply_can_be_recorded_alone,
    pending_items_are_replaced,
    timers_come_due_in_order,
    open_streams_are_open_or_have_pending_items,
    closed_stream_can_be_reopened,
    snapshot_stays_until_the_next,
    the_log_is_read_in_pages,
    a_visitor_can_stop,
    listings_show_the_open_ones_first,
    listings_are_paged,
    listings_filter_by_kind_and_state,
    invalid_batches_write_nothing,
    the_largest_event_fits,
    archived_streams_stay_readable,
    only_finished_streams_are_archived,
    sequence_numbers_are_never_reused,
    archivable_streams_are_found,
    export_contains_every_stream,
    streams_are_found_by_terms_names_and_ids,
    events_are_found_until_they_are_archived,
    wall_time_maps_to_a_seq,
);

fn streams_are_found_by_terms_names_and_ids(ledger: &mut impl Ledger) {
    let text_event = |text: &str| event_with("x", &format!("\"{text}\""));
    for (name, text) in [
        ("team/0199aa11-0000-7000-8000-0000deadbeef", "Limit the callers"),
        ("team/0199bb22-0000-7000-8000-0000deadcafe", "limits, once more"),
        ("session/0199aa11-0000-7000-8000-000000000001", "limit"),
    ] {
        let write = write(ledger, name, &[text_event(text)]);
        ledger.append(batch(vec![write])).unwrap();
    }
    let found = |by: Lookup<'_>| {
        let mut names = Vec::new();
        let complete = ledger.find_streams("team", by, 10, &mut |projection| {
            names.push(projection.stream.rsplit('-').next().unwrap().to_owned());
            VisitFlow::Continue(())
        });
        assert!(complete.unwrap());
        names
    };
    let sought = |text: &str| TermQuery::new(text).unwrap();
    let (beef, cafe) = ("0000deadbeef", "0000deadcafe");
    assert_eq!(found(Lookup::Words(&sought("LIMIT"))), [cafe, beef], "newest first");
    assert_eq!(found(Lookup::Words(&sought("limit callers"))), [beef]);
    assert_eq!(found(Lookup::Parts(&sought("once"))), [cafe]);
    assert_eq!(found(Lookup::Name("limit the callers")), [beef], "a name is whole words");
    assert_eq!(found(Lookup::Name("deadcafe")), [cafe]);
    assert_eq!(found(Lookup::Name("0199aa11-0000")), [beef]);
    assert_eq!(found(Lookup::Name("---")), [] as [&str; 0]);
    // The latest terms find it, earlier ones no longer do.
    let name = "team/0199aa11-0000-7000-8000-0000deadbeef";
    let more = write(ledger, name, &[text_event("twice")]);
    ledger.append(batch(vec![more])).unwrap();
    let mut names = 0;
    let twice = sought("limit twice");
    let count = &mut |_: ProjectionRef<'_>| {
        names += 1;
        VisitFlow::Continue(())
    };
    assert!(ledger.find_streams("team", Lookup::Words(&twice), 10, count).unwrap());
    assert_eq!(names, 1);
    // A write without search terms keeps the previous ones.
    let more = StreamWrite { search_terms: None, ..write(ledger, name, &[text_event("thrice")]) };
    ledger.append(batch(vec![more])).unwrap();
    let found = |words: &str| {
        let mut names = 0;
        let count = &mut |_: ProjectionRef<'_>| {
            names += 1;
            VisitFlow::Continue(())
        };
        assert!(ledger.find_streams("team", Lookup::Words(&sought(words)), 10, count).unwrap());
        names
    };
    assert_eq!((found("limit twice"), found("thrice")), (1, 0));
}

fn events_are_found_until_they_are_archived(ledger: &mut impl Ledger) {
    let events = [event_with("x", "\"one word\""), event_with("y", "\"other word\"")];
    let a = write(ledger, "team/a", &[&events[..], &[event("close")]].concat());
    let b = write(ledger, "team/b", &events[..1]);
    ledger.append(batch(vec![a, b])).unwrap();
    let found = |ledger: &dyn ReadLedger, text: &str| {
        let mut seqs = Vec::new();
        let visit = &mut |record: RecordedEventRef<'_>| {
            seqs.push(record.seq);
            VisitFlow::Continue(())
        };
        ledger.find_events("team", &TermQuery::new(text).unwrap(), 2, visit).unwrap();
        seqs
    };
    assert_eq!(found(ledger, "word"), [4, 2], "the newest");
    assert_eq!(found(ledger, "word one"), [4, 1]);
    ledger.archive(&[id("team/a")]).unwrap();
    assert_eq!(found(ledger, "word"), [4]);
}

fn wall_time_maps_to_a_seq(ledger: &mut impl Ledger) {
    assert_eq!(ledger.seq_before(at(10).wall_ms).unwrap(), 0);
    for ms in [10, 20, 20, 30] {
        let write =
            write(ledger, &format!("session/{}", ledger.last_seq().unwrap()), &[event("x")]);
        ledger.append(WriteBatch { at: at(ms), ..batch(vec![write]) }).unwrap();
    }
    let before = |ms: i64| ledger.seq_before(at(ms).wall_ms).unwrap();
    assert_eq!([before(10), before(11), before(20), before(21), before(31)], [0, 1, 1, 3, 4]);
}

fn empty_ledger_returns_nothing(ledger: &mut impl Ledger) {
    assert_eq!(ledger.last_seq().unwrap(), 0);
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap(), []);
    assert_eq!(ledger.stream(&id("session/a")).unwrap(), None);
    assert_eq!(ledger.stored_reply("k").unwrap(), None);
    assert_eq!(ledger.open_streams().unwrap(), []);
    assert_eq!(ledger.read_after(0, 10).unwrap(), []);
}

fn records_are_read_as_written(ledger: &mut impl Ledger) {
    let data = r#"{"text":"zwölf \u0000 \n ✓","n":-1.5e300}"#;
    let write = write(ledger, "session/a", &[event_with("said", data)]);
    let committed = ledger.append(batch(vec![write])).unwrap();
    let record = &committed.records()[0];
    assert_eq!((committed.first_seq(), committed.last_seq()), (1, 1));
    assert_eq!((record.seq, record.version, record.v), (1, 1, 1));
    assert_eq!((record.kind.as_str(), record.data.as_str()), ("said", data));
    assert_eq!((record.at, record.actor.as_str()), (at(5), "user/1000"));
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap(), committed.records());
    assert_eq!(all_records(ledger), committed.records());
}

fn versions_count_the_events_of_a_stream(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "y"]);
    add(ledger, "session/b", &["x"]);
    add(ledger, "session/a", &["z"]);
    let versions = |ledger: &dyn ReadLedger, after| -> Vec<_> {
        let records = ledger.read_stream(&id("session/a"), after).unwrap();
        records.iter().map(|r| (r.version, r.seq)).collect()
    };
    assert_eq!(versions(ledger, 0), [(1, 1), (2, 2), (3, 4)]);
    assert_eq!(versions(ledger, 2), [(3, 4)]);
    assert_eq!(versions(ledger, 3), []);
    let head = ledger.stream(&id("session/a")).unwrap().unwrap().head;
    assert_eq!((head.version, head.created_seq, head.open), (3, 1, true));
}

fn wrong_version_is_a_conflict_without_write(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "y"]);
    for expected in [0, 1, 3] {
        let good = write(ledger, "session/new", &[event("x")]);
        let wrong = StreamWrite { expected, ..write(ledger, "session/a", &[event("z")]) };
        let error = ledger.append(batch(vec![good, wrong])).unwrap_err();
        let AppendError::Conflict { stream, expected: wanted, found } = error else {
            panic!("{error:?}");
        };
        assert_eq!((stream, wanted, found), (id("session/a"), expected, 2));
    }
    let absent = StreamWrite { expected: 1, ..write(ledger, "session/new", &[event("z")]) };
    let error = ledger.append(batch(vec![absent])).unwrap_err();
    assert!(matches!(error, AppendError::Conflict { found: 0, .. }), "{error:?}");
    assert_eq!(ledger.stream(&id("session/new")).unwrap(), None);
    assert_eq!(ledger.last_seq().unwrap(), 2);
}

fn batch_over_several_streams_is_atomic(ledger: &mut impl Ledger) {
    let writes = vec![
        write(ledger, "session/a", &[event("x"), event("owe:mail")]),
        write(ledger, "inbox/a", &[event("y")]),
    ];
    let mut both = batch(writes);
    both.idempotency.push(reply("k", r#"{"ok":true}"#));
    let committed = ledger.append(both).unwrap();
    let seqs: Vec<_> = committed.records().iter().map(|r| (r.seq, r.version)).collect();
    assert_eq!(seqs, [(1, 1), (2, 2), (3, 1)]);
    assert_eq!(ledger.stored_reply("k").unwrap().unwrap(), r#"{"ok":true}"#);
    assert_eq!(ledger.open_streams().unwrap().len(), 2);
}

fn used_key_returns_the_stored_reply(ledger: &mut impl Ledger) {
    let mut first = batch(vec![write(ledger, "session/a", &[event("x")])]);
    first.idempotency = vec![reply("k1", "1"), reply("k2", "2")];
    ledger.append(first).unwrap();
    let mut again = batch(vec![write(ledger, "session/b", &[event("x")])]);
    again.idempotency = vec![reply("fresh", "0"), reply("k2", "3")];
    let error = ledger.append(again).unwrap_err();
    let AppendError::Duplicate { key, reply } = error else {
        panic!("{error:?}");
    };
    assert_eq!((key.as_str(), reply.as_str()), ("k2", "2"));
    assert_eq!(ledger.stored_reply("fresh").unwrap(), None);
    assert_eq!(ledger.stream(&id("session/b")).unwrap(), None);
}

fn reply_can_be_recorded_alone(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x"]);
    let mut alone = batch(Vec::new());
    alone.idempotency.push(reply("k", "null"));
    let committed = ledger.append(alone).unwrap();
    assert_eq!((committed.first_seq(), committed.last_seq()), (2, 1));
    assert_eq!(committed.into_records(), []);
    assert_eq!(ledger.stored_reply("k").unwrap().unwrap(), "null");
}

fn pending_items_are_replaced(ledger: &mut impl Ledger) {
    let keys = |ledger: &dyn ReadLedger| -> Vec<String> {
        let state = ledger.stream(&id("session/a")).unwrap().unwrap();
        state.pending.into_iter().map(|o| o.key).collect()
    };
    add(ledger, "session/a", &["owe:z", "owe:b", "time:m"]);
    assert_eq!(keys(ledger), ["b", "m", "z"]);
    add(ledger, "session/a", &["pay:b", "owe:c"]);
    assert_eq!(keys(ledger), ["c", "m", "z"]);
    add(ledger, "session/a", &["pay:c", "pay:m", "pay:z"]);
    assert_eq!(keys(ledger), [""; 0]);
}

fn timers_come_due_in_order(ledger: &mut impl Ledger) {
    add(ledger, "session/b", &["owe:effect", "time:two", "time:three"]);
    add(ledger, "session/a", &["time:one"]);
    let due = |ms| -> Vec<_> {
        let due = ledger.due_timers(ms).unwrap();
        due.into_iter().map(|(s, o)| (s.to_string(), o.key, o.due_mono_ms)).collect()
    };
    assert_eq!(due(9), []);
    assert_eq!(
        due(20),
        [
            ("session/a".to_owned(), "one".to_owned(), Some(10)),
            ("session/b".to_owned(), "two".to_owned(), Some(20)),
        ]
    );
    assert_eq!(due(u64::MAX).len(), 3);
}

fn open_streams_are_open_or_have_pending_items(ledger: &mut impl Ledger) {
    add(ledger, "session/open", &["x"]);
    add(ledger, "session/done", &["x", "close"]);
    add(ledger, "session/owes", &["owe:hook", "close"]);
    add(ledger, "session/a", &["x"]);
    let states = ledger.open_streams().unwrap();
    let names: Vec<_> = states.iter().map(|s| (s.head.stream.as_str(), s.head.open)).collect();
    assert_eq!(names, [("session/open", true), ("session/owes", false), ("session/a", true)]);
    let hook = PendingItem { key: "hook".to_owned(), kind: "owe".to_owned(), due_mono_ms: None };
    assert_eq!(states[1].pending, [hook]);
    assert_eq!(states[1].projection.as_deref(), Some(r#"{"events":2,"last":"close"}"#));
}

fn closed_stream_can_be_reopened(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "close"]);
    assert_eq!(ledger.open_streams().unwrap(), []);
    add(ledger, "session/a", &["resume"]);
    assert_eq!(ledger.open_streams().unwrap().len(), 1);
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap().len(), 3);
}

fn snapshot_stays_until_the_next(ledger: &mut impl Ledger) {
    let snapshot = |data: &str| Some(StreamSnapshot { fold_version: 1, data: data.to_owned() });
    let mut first = write(ledger, "session/a", &[event("x"), event("y")]);
    first.snapshot = snapshot("one");
    ledger.append(batch(vec![first])).unwrap();
    add(ledger, "session/a", &["z"]);
    let stored = ledger.snapshot(&id("session/a")).unwrap().unwrap();
    assert_eq!((stored.version, Some(stored.snapshot)), (2, snapshot("one")));
    let mut third = write(ledger, "session/a", &[event("x")]);
    third.snapshot = snapshot("two");
    ledger.append(batch(vec![third])).unwrap();
    let state = ledger.stream(&id("session/a")).unwrap().unwrap();
    let stored = state.snapshot.unwrap();
    assert_eq!((stored.version, Some(stored.snapshot)), (4, snapshot("two")));
}

fn the_log_is_read_in_pages(ledger: &mut impl Ledger) {
    for n in 0..7 {
        add(ledger, &format!("session/{}", n % 3), &["x"]);
    }
    let seqs = |after, limit| -> Vec<u64> {
        let page = ledger.read_after(after, limit).unwrap();
        page.iter().map(|r| r.seq).collect()
    };
    assert_eq!(seqs(0, 3), [1, 2, 3]);
    assert_eq!(seqs(3, 3), [4, 5, 6]);
    assert_eq!(seqs(6, 3), [7]);
    assert_eq!(seqs(7, 3), [0; 0]);
    assert_eq!(seqs(u64::MAX, 3), [0; 0]);
    assert_eq!(seqs(0, 0), [0; 0]);
}

fn a_visitor_can_stop(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "y", "z"]);
    let mut seen = Vec::new();
    ledger
        .for_each_record(0, &mut |record| {
            seen.push(record.kind.to_owned());
            if record.seq == 2 { VisitFlow::Break(()) } else { VisitFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, ["x", "y"]);
}

fn listing(
    ledger: &dyn ReadLedger,
    query: ProjectionQuery<'_>,
) -> (Vec<String>, Option<ListCursor>) {
    let mut names = Vec::new();
    let next = ledger
        .list_projections(query, &mut |projection| {
            let data = projection.projection.as_deref().unwrap_or("none");
            assert!(data.starts_with(&format!(r#"{{"events":{},"#, projection.version)), "{data}");
            names.push(format!("{}{}", projection.stream, if projection.open { "+" } else { "" }));
            VisitFlow::Continue(())
        })
        .unwrap();
    (names, next)
}

const ALL: ProjectionQuery<'_> =
    ProjectionQuery { kind: "session", show: StreamFilter::OpenFirst, after: None, limit: 100 };

fn some_sessions(ledger: &mut impl Ledger) {
    add(ledger, "session/1", &["x"]);
    add(ledger, "session/2", &["x", "close"]);
    add(ledger, "inbox/1", &["x"]);
    add(ledger, "session/3", &["x"]);
    add(ledger, "session/4", &["x", "close"]);
    add(ledger, "session/5", &["x"]);
    add(ledger, "session/1", &["y"]);
}

fn listings_show_the_open_ones_first(ledger: &mut impl Ledger) {
    some_sessions(ledger);
    let (names, next) = listing(ledger, ALL);
    assert_eq!(names, ["session/5+", "session/3+", "session/1+", "session/4", "session/2"]);
    assert_eq!(next, None);
}

fn listings_are_paged(ledger: &mut impl Ledger) {
    some_sessions(ledger);
    for limit in 1..=6 {
        let mut names = Vec::new();
        let mut query = ProjectionQuery { limit, ..ALL };
        loop {
            let (page, next) = listing(ledger, query);
            assert!(page.len() <= limit);
            names.extend(page);
            match next {
                Some(_) => query.after = next,
                None => break,
            }
        }
        assert_eq!(names, listing(ledger, ALL).0, "in pages of {limit}");
    }
}

fn listings_filter_by_kind_and_state(ledger: &mut impl Ledger) {
    some_sessions(ledger);
    let names = |query| listing(ledger, query).0;
    assert_eq!(names(ProjectionQuery { kind: "inbox", ..ALL }), ["inbox/1+"]);
    assert_eq!(
        names(ProjectionQuery { show: StreamFilter::ClosedOnly, ..ALL }),
        ["session/4", "session/2"]
    );
    let open = ProjectionQuery { show: StreamFilter::OpenOnly, ..ALL };
    assert_eq!(names(open), ["session/5+", "session/3+", "session/1+"]);
    assert_eq!(names(ProjectionQuery { limit: 0, ..ALL }), [""; 0]);
    assert_eq!(names(ProjectionQuery { kind: "run", ..ALL }), [""; 0]);
}

fn invalid_batches_write_nothing(ledger: &mut impl Ledger) {
    type Spoil = fn(&mut provost_ledger::WriteBatch);
    let spoils: &[(&str, Spoil)] = &[
        ("empty", |b| b.writes.clear()),
        ("no events", |b| b.writes[0].events.clear()),
        ("no JSON", |b| b.writes[0].events[0].data = "{".to_owned()),
        ("two values", |b| b.writes[0].events[0].data = "1 2".to_owned()),
        ("two lines", |b| b.writes[0].events[0].data = "[\n]".to_owned()),
        ("no kind", |b| b.writes[0].events[0].kind.clear()),
        ("no actor", |b| b.writes[0].events[0].actor.clear()),
        ("projection", |b| b.writes[0].projection = Some("nope".to_owned())),
        ("stream twice", |b| b.writes.push(b.writes[0].clone())),
        ("time", |b| b.at.mono_ms = u64::MAX),
        ("reply", |b| b.idempotency = vec![reply("k", "")]),
        ("key twice", |b| b.idempotency = vec![reply("k", "1"), reply("k", "1")]),
        ("pending twice", |b| {
            let item = PendingItem { key: "k".into(), kind: "x".into(), due_mono_ms: None };
            b.writes[0].pending = vec![item.clone(), item];
        }),
        ("event too large", |b| {
            b.writes[0].events[0].data = format!("\"{}\"", "x".repeat(MAX_EVENT_BYTES - 1));
        }),
    ];
    for (name, spoil) in spoils {
        let mut bad = batch(vec![write(ledger, "session/a", &[event("x")])]);
        spoil(&mut bad);
        let error = ledger.append(bad).unwrap_err();
        assert!(matches!(error, AppendError::Invalid(_)), "{name}: {error:?}");
    }
    assert_eq!(ledger.last_seq().unwrap(), 0);
    assert_eq!(ledger.stream(&id("session/a")).unwrap(), None);
    let error = ledger.append(batch(Vec::new())).unwrap_err();
    assert!(matches!(error, AppendError::Invalid(InvalidBatch::Empty)));
}

fn the_largest_event_fits(ledger: &mut impl Ledger) {
    let data = format!("\"{}\"", "x".repeat(MAX_EVENT_BYTES - 2));
    let event = NewEvent { v: u16::MAX, data, ..event("big") };
    let write = write(ledger, "session/a", std::slice::from_ref(&event));
    ledger.append(batch(vec![write])).unwrap();
    let record = &ledger.read_stream(&id("session/a"), 0).unwrap()[0];
    assert!(record.data == event.data && record.v == u16::MAX);
}

fn archived_streams_stay_readable(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "y", "close"]);
    add(ledger, "session/b", &["x"]);
    add(ledger, "session/c", &["close"]);
    let before = ledger.read_stream(&id("session/a"), 0).unwrap();
    let listed = listing(ledger, ALL);
    let done = ledger.archive(&[id("session/c"), id("session/a"), id("session/c")]).unwrap();
    assert_eq!((done.streams, done.records), (2, 4));
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap(), before);
    assert_eq!(ledger.read_stream(&id("session/a"), 2).unwrap(), before[2..]);
    assert_eq!(listing(ledger, ALL), listed);
    let left: Vec<_> = all_records(ledger).iter().map(|r| r.seq).collect();
    assert_eq!(left, [4]);
    assert!(ledger.stream(&id("session/a")).unwrap().unwrap().head.archived);
    let write = write(ledger, "session/a", &[event("x")]);
    let error = ledger.append(batch(vec![write])).unwrap_err();
    assert!(matches!(error, AppendError::Archived { .. }), "{error:?}");
}

fn only_finished_streams_are_archived(ledger: &mut impl Ledger) {
    add(ledger, "session/open", &["x"]);
    add(ledger, "session/owes", &["owe:k", "close"]);
    add(ledger, "session/done", &["close"]);
    let mut refused = |name: &str| ledger.archive(&[id("session/done"), id(name)]).unwrap_err();
    assert!(matches!(refused("session/open"), ArchiveError::Open { .. }));
    assert!(matches!(refused("session/owes"), ArchiveError::Pending { .. }));
    assert!(matches!(refused("session/none"), ArchiveError::Missing { .. }));
    assert!(matches!(ledger.archive(&[]).unwrap_err(), ArchiveError::NoStreams));
    assert_eq!(all_records(ledger).len(), 4);
    ledger.archive(&[id("session/done")]).unwrap();
    let again = ledger.archive(&[id("session/done")]).unwrap_err();
    assert!(matches!(again, ArchiveError::AlreadyArchived { .. }));
}

fn sequence_numbers_are_never_reused(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "close"]);
    ledger.archive(&[id("session/a")]).unwrap();
    assert_eq!(ledger.last_seq().unwrap(), 2);
    let committed = add(ledger, "session/b", &["x"]);
    assert_eq!(committed.first_seq(), 3);
}

fn archivable_streams_are_found(ledger: &mut impl Ledger) {
    add(ledger, "session/old", &["close"]);
    add(ledger, "session/owes", &["owe:k", "close"]);
    add(ledger, "session/open", &["x"]);
    add(ledger, "session/old2", &["close"]);
    let mut late = batch(vec![write(ledger, "session/late", &[event("close")])]);
    late.at = at(50);
    ledger.append(late).unwrap();
    let found = |before: i64, limit| -> Vec<String> {
        let found = ledger.archivable(at(before).wall_ms, limit).unwrap();
        found.into_iter().map(String::from).collect()
    };
    assert_eq!(found(50, 10), ["session/old", "session/old2"]);
    assert_eq!(found(51, 10), ["session/old", "session/old2", "session/late"]);
    assert_eq!(found(51, 1), ["session/old"]);
    assert_eq!(found(5, 10), [""; 0]);
}

fn export_contains_every_stream(ledger: &mut impl Ledger) {
    add(ledger, "session/a", &["x", "close"]);
    add(ledger, "session/b", &["x"]);
    ledger.archive(&[id("session/a")]).unwrap();
    let mut out = Vec::new();
    let exported = export(ledger, None, &mut out).unwrap();
    assert_eq!((exported.streams, exported.records, exported.replies), (2, 3, 0));
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 5);
}

#[test]
fn implementations_export_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = |ledger: &mut dyn FnMut(&mut Vec<u8>)| {
        let mut out = Vec::new();
        ledger(&mut out);
        out
    };
    let mem = bytes(&mut |out| {
        let mut ledger = MemLedger::new();
        some_sessions(&mut ledger);
        export(&ledger, None, out).unwrap();
    });
    let sqlite = bytes(&mut |out| {
        let mut ledger = open_fast(dir.path());
        some_sessions(&mut ledger);
        export(&ledger, None, out).unwrap();
    });
    assert_eq!(String::from_utf8(mem).unwrap(), String::from_utf8(sqlite).unwrap());
}

#[test]
fn injected_faults_and_independent_clones() {
    let mut ledger = MemLedger::new();
    add(&mut ledger, "session/a", &["x"]);
    let copy = ledger.clone();
    ledger.fail_next(2);
    for _ in 0..2 {
        let write = write(&ledger, "session/a", &[event("y")]);
        let error = ledger.append(batch(vec![write])).unwrap_err();
        assert!(matches!(error, AppendError::Storage(provost_ledger::Error::Injected)));
    }
    assert_eq!(ledger.last_seq().unwrap(), 1);
    add(&mut ledger, "session/a", &["y"]);
    assert_eq!((ledger.last_seq().unwrap(), copy.last_seq().unwrap()), (2, 1));
}
