//! A toy domain whose caches follow from its events.

use std::path::Path;

use provost_ledger::{
    Batch, Committed, Durability, Folded, FoundBy, Idempotency, Ledger, Moment, NewEvent,
    OpenError, OpenOptions, Owed, ReadLedger, Recorded, Snapshot, SqliteLedger, StreamId,
    StreamWrite, Visit, Words,
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
    let (actor, words) = ("user/1000".to_owned(), Words::of([data]));
    NewEvent { kind: kind.to_owned(), v: 1, actor, data: data.to_owned(), words }
}

/// `owe:KEY` adds a pending item, `pay:KEY` removes it, `time:KEY` sets a timer, `close` closes,
/// anything else opens.
pub(crate) fn fold(_: &StreamId, records: &[Recorded]) -> Result<Folded, String> {
    let mut folded = Folded {
        open: true,
        owed: Vec::new(),
        card: None,
        snapshot: None,
        found_by: found_by(records.iter().map(|record| record.data.as_str())),
        words: records.iter().map(|record| Words::of([record.data.as_str()])).collect(),
    };
    for record in records {
        step(&mut folded, record)?;
    }
    let last = records.last().map_or("", |r| r.kind.as_str());
    let card = format!(r#"{{"events":{},"last":"{last}"}}"#, records.len());
    folded.snapshot = Some(Snapshot { fold_version: FOLD_VERSION, data: card.clone() });
    folded.card = Some(card);
    Ok(folded)
}

/// A stream is found by the data of its events; the first one is its name, and a part.
fn found_by<'a>(data: impl Iterator<Item = &'a str> + Clone) -> FoundBy {
    let first = Words::of(data.clone().take(1));
    FoundBy { name: first.clone(), words: Words::of(data.skip(1)), parts: first }
}

fn step(folded: &mut Folded, record: &Recorded) -> Result<(), String> {
    let (kind, key) = record.kind.split_once(':').unwrap_or((&record.kind, ""));
    let due = match kind {
        "owe" => None,
        "time" => Some(record.version * 10),
        "pay" => {
            folded.owed.retain(|o| o.key != key);
            return Ok(());
        }
        "poison" => return Err("poisoned".to_owned()),
        _ => {
            folded.open = kind != "close";
            return Ok(());
        }
    };
    folded.owed.retain(|o| o.key != key);
    folded.owed.push(Owed { key: key.to_owned(), kind: kind.to_owned(), due_mono_ms: due });
    Ok(())
}

/// Builds the toy domain's write: events, and the caches derived from them.
pub(crate) fn write(ledger: &dyn ReadLedger, name: &str, events: &[NewEvent]) -> StreamWrite {
    let stream = id(name);
    let before = ledger.read_stream(&stream, 0).unwrap();
    let expected = before.len() as u64;
    let mut after = before;
    for (version, event) in (expected + 1..).zip(events) {
        after.push(Recorded {
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
        owed: folded.owed,
        card: folded.card,
        found_by: Some(folded.found_by),
        snapshot: None,
    }
}

pub(crate) fn at(ms: i64) -> Moment {
    Moment { wall_ms: 1_700_000_000_000 + ms, mono_ms: ms.unsigned_abs() }
}

pub(crate) fn batch(writes: Vec<StreamWrite>) -> Batch {
    Batch { at: at(5), writes, idempotency: Vec::new() }
}

pub(crate) fn reply(key: &str, reply: &str) -> Idempotency {
    Idempotency { key: key.to_owned(), reply: reply.to_owned() }
}

/// Appends events of these kinds to a stream.
pub(crate) fn add(ledger: &mut impl Ledger, name: &str, kinds: &[&str]) -> Committed {
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
pub(crate) fn all_records(ledger: &dyn ReadLedger) -> Vec<Recorded> {
    let mut all = Vec::new();
    ledger
        .for_each_record(0, &mut |record| {
            all.push(record.to_owned());
            Visit::Continue(())
        })
        .unwrap();
    all
}

/// An error with its causes, as a user would see it.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
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
