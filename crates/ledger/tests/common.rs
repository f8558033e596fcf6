//! A toy domain whose caches follow from its events.

use std::path::Path;

use provost_ledger::{
    ClockReading, CommittedBatch, Durability, FoldedStream, IdempotentReply, Ledger, NewEvent,
    OpenError, OpenOptions, PendingItem, ReadLedger, RecordedEvent, SearchTerms, SqliteLedger,
    StreamId, StreamSnapshot, StreamWrite, TermSet, VisitFlow, WriteBatch,
};

/// The version of [`fold`].
pub(crate) const FOLD_VERSION: u32 = 3;

pub(crate) fn id(name: &str) -> StreamId {
    StreamId::new(name).unwrap()
}

pub(crate) fn event(kind: &str) -> NewEvent {
    event_with(kind, "{}")
}

pub(crate) fn event_with(kind: &str, data: &str) -> NewEvent {
    let (actor, words) = ("user/1000".to_owned(), TermSet::from_texts([data]));
    NewEvent { kind: kind.to_owned(), v: 1, actor, data: data.to_owned(), search_terms: words }
}

/// `owe:KEY` adds a pending item, `pay:KEY` removes it, `time:KEY` sets a timer, `close` closes,
/// anything else opens.
pub(crate) fn fold(_: &StreamId, records: &[RecordedEvent]) -> Result<FoldedStream, String> {
    let mut folded = FoldedStream {
        open: true,
        pending: Vec::new(),
        projection: None,
        snapshot: None,
        search_terms: found_by(records.iter().map(|record| record.data.as_str())),
        event_terms: records
            .iter()
            .map(|record| TermSet::from_texts([record.data.as_str()]))
            .collect(),
    };
    for record in records {
        step(&mut folded, record)?;
    }
    let last = records.last().map_or("", |r| r.kind.as_str());
    let projection = format!(r#"{{"events":{},"last":"{last}"}}"#, records.len());
    folded.snapshot = Some(StreamSnapshot { fold_version: FOLD_VERSION, data: projection.clone() });
    folded.projection = Some(projection);
    Ok(folded)
}

/// A stream is found by the data of its events; the first one is its name, and a part.
fn found_by<'a>(data: impl Iterator<Item = &'a str> + Clone) -> SearchTerms {
    let first = TermSet::from_texts(data.clone().take(1));
    SearchTerms { name: first.clone(), words: TermSet::from_texts(data.skip(1)), parts: first }
}

fn step(folded: &mut FoldedStream, record: &RecordedEvent) -> Result<(), String> {
    let (kind, key) = record.kind.split_once(':').unwrap_or((&record.kind, ""));
    let due = match kind {
        "owe" => None,
        "time" => Some(record.version * 10),
        "pay" => {
            folded.pending.retain(|o| o.key != key);
            return Ok(());
        }
        "poison" => return Err("poisoned".to_owned()),
        _ => {
            folded.open = kind != "close";
            return Ok(());
        }
    };
    folded.pending.retain(|o| o.key != key);
    folded.pending.push(PendingItem {
        key: key.to_owned(),
        kind: kind.to_owned(),
        due_mono_ms: due,
    });
    Ok(())
}

/// Builds the toy domain's write: events, and the caches derived from them.
pub(crate) fn write(ledger: &dyn ReadLedger, name: &str, events: &[NewEvent]) -> StreamWrite {
    let stream = id(name);
    let before = ledger.read_stream(&stream, 0).unwrap();
    let expected = before.len() as u64;
    let mut after = before;
    for (version, event) in (expected + 1..).zip(events) {
        after.push(RecordedEvent {
            seq: 0,
            stream: stream.clone(),
            version,
            kind: event.kind.clone(),
            v: event.v,
            at: at(0),
            actor: String::new(),
            data: event.data.clone(),
        });
    }
    let folded = fold(&stream, &after).unwrap();
    StreamWrite {
        stream,
        expected,
        events: events.to_vec(),
        open: folded.open,
        pending: folded.pending,
        projection: folded.projection,
        search_terms: Some(folded.search_terms),
        snapshot: None,
    }
}

pub(crate) fn at(ms: i64) -> ClockReading {
    ClockReading { wall_ms: 1_700_000_000_000 + ms, mono_ms: ms.unsigned_abs() }
}

pub(crate) fn batch(writes: Vec<StreamWrite>) -> WriteBatch {
    WriteBatch { at: at(5), writes, idempotency: Vec::new() }
}

pub(crate) fn reply(key: &str, reply: &str) -> IdempotentReply {
    IdempotentReply { key: key.to_owned(), reply: reply.to_owned() }
}

/// Appends events of these kinds to a stream.
pub(crate) fn add(ledger: &mut impl Ledger, name: &str, kinds: &[&str]) -> CommittedBatch {
    let events: Vec<_> = kinds.iter().map(|kind| event(kind)).collect();
    let write = write(ledger, name, &events);
    ledger.append(batch(vec![write])).unwrap()
}

pub(crate) fn try_open(dir: &Path) -> Result<SqliteLedger, OpenError> {
    open_with(dir, Durability::Full, &|_, _| true)
}

pub(crate) fn open(dir: &Path) -> SqliteLedger {
    try_open(dir).unwrap()
}

/// Opens without syncing, for tests that are not about durability.
pub(crate) fn open_fast(dir: &Path) -> SqliteLedger {
    open_with(dir, Durability::ProcessOnly, &|_, _| true).unwrap()
}

pub(crate) fn open_with(
    dir: &Path,
    durability: Durability,
    known: &dyn Fn(&str, u16) -> bool,
) -> Result<SqliteLedger, OpenError> {
    SqliteLedger::open(dir, &OpenOptions { known, software: "9.9.9", durability })
}

/// The whole log, record by record.
pub(crate) fn all_records(ledger: &dyn ReadLedger) -> Vec<RecordedEvent> {
    let mut all = Vec::new();
    ledger
        .for_each_record(0, &mut |record| {
            all.push(record.to_owned());
            VisitFlow::Continue(())
        })
        .unwrap();
    all
}

/// An error with its causes, as a user would see it.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "the environment says whether tests run in CI")]
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
