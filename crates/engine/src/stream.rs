//! The ledger streams of sessions, runs and teams: their names, events as records, and the fold
//! that verifies the caches.

use std::fmt;

use provost_core::{
    aggregate::Aggregate,
    event_codec::{DecodeError, StoredEvent},
    ids::{RunId, SessionId, TeamId},
    run::{self, Run},
    session::{self, Session},
    team::{self, Team},
    time::Moment,
};
use provost_ledger::{
    ClockReading, FoldedStream, NewEvent, PendingItem, ReadLedger, RecordedEvent, StoredSnapshot,
    StreamId, StreamSnapshot,
};
use serde::de::DeserializeOwned;

use crate::stored_aggregate::StoredAggregate;

/// The stream kind of sessions.
pub const SESSION: &str = Session::KIND;

/// The stream kind of runs.
pub const RUN: &str = Run::KIND;

/// The stream kind of teams.
pub const TEAM: &str = Team::KIND;

/// The version of the fold. Snapshots from other versions are discarded.
pub const FOLD_VERSION: u32 = 1;

/// The number of events after which the next snapshot is stored. With snapshots, a long stream need not be folded from
/// its start.
pub const SNAPSHOT_EVERY: u64 = 256;

/// Why a stream cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{stream} is not a {kind}'s stream")]
    OtherKind { stream: String, kind: &'static str },
    #[error("event {version} of {stream}: {source}")]
    Event { stream: String, version: u64, source: DecodeError },
    #[error("{stream} does not begin with an opening event")]
    NotOpened { stream: String },
}

/// Whether this program knows this kind and version of event.
pub fn is_known(kind: &str, v: u16) -> bool {
    let kinds = [session::Event::KINDS, run::Event::KINDS, team::Event::KINDS];
    kinds.into_iter().any(|known| known.contains(&(kind, v)))
}

/// Returns the name of the stream of a session, run or team.
pub fn stream_id(subject: impl Into<Subject>) -> StreamId {
    let name = match subject.into() {
        Subject::Session(id) => format!("{SESSION}/{id}"),
        Subject::Run(id) => format!("{RUN}/{id}"),
        Subject::Team(id) => format!("{TEAM}/{id}"),
    };
    StreamId::new(name).expect("a kind, a slash and a UUID name a stream")
}

/// Returns the id of the aggregate that a stream records.
pub fn parse_id<A: Aggregate>(stream: &str) -> Result<A::Id, Error> {
    let key = stream.strip_prefix(A::KIND).and_then(|rest| rest.strip_prefix('/'));
    let id = key.and_then(|key| key.parse().ok());
    id.ok_or_else(|| Error::OtherKind { stream: stream.to_owned(), kind: A::KIND })
}

/// Evaluates an expression for the aggregate that a subject identifies, given its id and its type.
macro_rules! for_subject {
    ($subject:expr, |$id:ident: $aggregate:ident| $body:expr) => {
        match $subject {
            $crate::stream::Subject::Session($id) => {
                type $aggregate = provost_core::session::Session;
                $body
            }
            $crate::stream::Subject::Run($id) => {
                type $aggregate = provost_core::run::Run;
                $body
            }
            $crate::stream::Subject::Team($id) => {
                type $aggregate = provost_core::team::Team;
                $body
            }
        }
    };
}
pub(crate) use for_subject;

/// The subject of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Session(SessionId),
    Run(RunId),
    Team(TeamId),
}

/// Displays only the id.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for_subject!(self, |id: _A| id.fmt(f))
    }
}

/// Returns the subject of a stream.
pub fn parse_subject(stream: &str) -> Result<Subject, Error> {
    match stream.split_once('/') {
        Some((RUN, _)) => parse_id::<Run>(stream).map(Subject::Run),
        Some((TEAM, _)) => parse_id::<Team>(stream).map(Subject::Team),
        _ => parse_id::<Session>(stream).map(Subject::Session),
    }
}

pub fn to_core(at: ClockReading) -> Moment {
    Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub fn to_ledger(at: Moment) -> ClockReading {
    ClockReading { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub(crate) fn new_event<A: StoredAggregate>(event: &A::Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    NewEvent {
        kind: kind.to_owned(),
        v,
        actor: actor.to_owned(),
        data: event.encode(),
        search_terms: A::event_terms(event),
    }
}

/// Folds an aggregate from its records, starting from a snapshot if there is a usable one.
pub fn fold<A: Aggregate>(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[RecordedEvent],
) -> Result<A, Error> {
    let id = parse_id::<A>(stream.as_str())?;
    let mut folded: Option<A> = snapshot.and_then(restore_snapshot);
    for record in records {
        let event = A::Event::decode(&record.kind, record.v, &record.data).map_err(|source| {
            Error::Event { stream: stream.to_string(), version: record.version, source }
        })?;
        let at = to_core(record.at);
        match &mut folded {
            Some(folded) => folded.evolve(at, &event),
            None => match A::open(id, at, &event) {
                Some(opened) => folded = Some(opened),
                None => break,
            },
        }
    }
    folded.ok_or_else(|| Error::NotOpened { stream: stream.to_string() })
}

/// Reads an aggregate from the ledger. Also returns the version of its stream.
pub fn load<A: StoredAggregate>(
    ledger: &(impl ReadLedger + ?Sized),
    id: A::Id,
) -> Result<(A, u64), String> {
    let describe = |why: provost_ledger::Error| why.to_string();
    let stream = stream_id(id);
    let snapshot = ledger.snapshot(&stream).map_err(describe)?;
    let after = usable_snapshot_version::<A>(snapshot.as_ref());
    let records = ledger.read_stream(&stream, after).map_err(describe)?;
    let used = if after > 0 { snapshot } else { None };
    let mut folded: A = fold(&stream, used.as_ref(), &records).map_err(|why| why.to_string())?;
    folded.set_imported(ledger.is_imported(&stream).map_err(describe)?);
    Ok((folded, after + records.len() as u64))
}

/// Returns the version of the snapshot, after which records are needed, or 0 if the snapshot is not usable.
pub fn usable_snapshot_version<T: DeserializeOwned>(snapshot: Option<&StoredSnapshot>) -> u64 {
    let usable = |stored: &&StoredSnapshot| restore_snapshot::<T>(stored).is_some();
    snapshot.filter(usable).map_or(0, |stored| stored.version)
}

fn restore_snapshot<T: DeserializeOwned>(stored: &StoredSnapshot) -> Option<T> {
    let current = stored.snapshot.fold_version == FOLD_VERSION;
    // A snapshot is a cache, so ignore it if it cannot be read.
    current.then(|| serde_json::from_str(&stored.snapshot.data).ok()).flatten()
}

pub(crate) fn snapshot(aggregate: &impl Aggregate) -> StreamSnapshot {
    let data = serde_json::to_string(aggregate).expect("an aggregate has string keys only");
    StreamSnapshot { fold_version: FOLD_VERSION, data }
}

/// Returns the pending effects and the timer that the ledger stores together with the events.
pub(crate) fn pending_items<A: Aggregate>(aggregate: &A) -> Vec<PendingItem> {
    let effects = aggregate.effects();
    let pending = effects.iter().map(|effect| PendingItem {
        key: A::effect_key(effect),
        kind: "effect".to_owned(),
        due_mono_ms: None,
    });
    let timer = aggregate.deadline().map(|deadline| PendingItem {
        key: "timer".to_owned(),
        kind: deadline.purpose.to_owned(),
        due_mono_ms: Some(deadline.at_ms),
    });
    pending.chain(timer).collect()
}

/// Returns the events that close the imported copy of a session, run or team from another home.
/// Empty if it is already closed. `now` returns the current time on a clock that continues after the
/// given time of the copy's last event.
pub fn close_imported(
    stream: &StreamId,
    records: &[RecordedEvent],
    now: impl FnOnce(u64) -> Moment,
) -> Result<Vec<(ClockReading, NewEvent)>, String> {
    let last = records.iter().map(|record| record.at.mono_ms).max().unwrap_or(0);
    let now = now(last.saturating_add(1));
    let events = closing_events(stream, records, now).map_err(|why| why.to_string())?;
    Ok(events.into_iter().map(|event| (to_ledger(now), event)).collect())
}

fn closing_events(
    stream: &StreamId,
    records: &[RecordedEvent],
    now: Moment,
) -> Result<Vec<NewEvent>, Error> {
    for_subject!(parse_subject(stream.as_str())?, |_id: A| {
        let events = fold::<A>(stream, None, records)?.close_imported(now);
        Ok(events.iter().map(|event| new_event::<A>(event, "import")).collect())
    })
}

/// Folds an entire stream again, for `ledger verify` and `import`.
pub fn refold(stream: &StreamId, records: &[RecordedEvent]) -> Result<FoldedStream, String> {
    let subject = parse_subject(stream.as_str()).map_err(|why| why.to_string())?;
    for_subject!(subject, |_id: A| refold_aggregate::<A>(stream, records))
}

fn refold_aggregate<A: StoredAggregate>(
    stream: &StreamId,
    records: &[RecordedEvent],
) -> Result<FoldedStream, String> {
    let folded: A = fold(stream, None, records).map_err(|why| why.to_string())?;
    let decode = |record: &RecordedEvent| A::Event::decode(&record.kind, record.v, &record.data);
    let terms = |record| decode(record).map(|event| A::event_terms(&event)).unwrap_or_default();
    Ok(FoldedStream {
        open: !folded.is_closed(),
        pending: pending_items(&folded),
        projection: Some(folded.stored_row()),
        snapshot: Some(snapshot(&folded)),
        search_terms: folded.search_terms(),
        event_terms: records.iter().map(terms).collect(),
    })
}
