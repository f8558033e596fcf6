//! A session's stream in the ledger: names, events as records, and the fold that checks the caches.

use provost_core::{
    ids::SessionId,
    session::{Event, Session},
    time::Moment,
};
use provost_ledger::{Folded, NewEvent, Owed, Recorded, Snapshot, StoredSnapshot, StreamId};

use crate::{card, shell::Clock};

/// The kind of stream that a session has.
pub const SESSION: &str = "session";

/// The version of the fold: a snapshot made by another one is thrown away.
pub const FOLD_VERSION: u32 = 2;

/// A snapshot is kept for every so many events, so that a long stream is not folded from its start.
pub const SNAPSHOT_EVERY: u64 = 256;

/// Why a stream cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{stream} is no session's stream")]
    NoSession { stream: String },
    #[error("event {version} of {stream}: {source}")]
    Event { stream: String, version: u64, source: provost_core::session::DecodeError },
    #[error("{stream} does not begin with session.opened")]
    NotOpened { stream: String },
}

/// Says whether this program understands an event.
pub fn is_known(kind: &str, v: u16) -> bool {
    Event::KINDS.contains(&(kind, v))
}

pub fn stream_id(session: SessionId) -> StreamId {
    StreamId::new(format!("{SESSION}/{session}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn session_id(stream: &str) -> Result<SessionId, Error> {
    let no = || Error::NoSession { stream: stream.to_owned() };
    let key = stream.strip_prefix("session/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

pub fn to_core(at: provost_ledger::Moment) -> Moment {
    Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub fn to_ledger(at: Moment) -> provost_ledger::Moment {
    provost_ledger::Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub(crate) fn new_event(event: &Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    NewEvent { kind: kind.to_owned(), v, actor: actor.to_owned(), data: event.encode() }
}

/// Folds a session from its records, beginning at a snapshot if there is a usable one.
pub fn fold(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[Recorded],
) -> Result<Session, Error> {
    let id = session_id(stream.as_str())?;
    let mut session = snapshot.and_then(restore);
    for record in records {
        let event = Event::decode(&record.kind, record.v, &record.data).map_err(|source| {
            Error::Event { stream: stream.to_string(), version: record.version, source }
        })?;
        let at = to_core(record.at);
        match (&mut session, &event) {
            (Some(session), event) => session.evolve(at, event),
            (None, Event::SessionOpened(opened)) => session = Some(Session::open(id, at, opened)),
            (None, _) => break,
        }
    }
    session.ok_or_else(|| Error::NotOpened { stream: stream.to_string() })
}

/// Gives the version after which records are needed besides a snapshot.
pub fn usable(snapshot: Option<&StoredSnapshot>) -> u64 {
    snapshot.filter(|stored| restore(stored).is_some()).map_or(0, |stored| stored.version)
}

fn restore(stored: &StoredSnapshot) -> Option<Session> {
    let current = stored.snapshot.fold_version == FOLD_VERSION;
    // A snapshot is a cache: one that cannot be read is as good as none.
    current.then(|| serde_json::from_str(&stored.snapshot.data).ok()).flatten()
}

pub fn snapshot(session: &Session) -> Snapshot {
    let data = serde_json::to_string(session).expect("a session has string keys only");
    Snapshot { fold_version: FOLD_VERSION, data }
}

/// What the ledger keeps beside a session's events.
pub fn owed(session: &Session) -> Vec<Owed> {
    let mut owed: Vec<Owed> = session
        .effects()
        .iter()
        .map(|effect| Owed { key: effect.key(), kind: "effect".to_owned(), due_mono_ms: None })
        .collect();
    owed.extend(session.deadline().map(|(at, due)| Owed {
        key: "timer".to_owned(),
        kind: due.word().to_owned(),
        due_mono_ms: Some(at),
    }));
    owed
}

/// Gives what closes the copy of a session that belongs to another home, for `ledger import`; nothing for one that is
/// closed already.
pub fn close_elsewhere(
    stream: &StreamId,
    records: &[Recorded],
) -> Result<Vec<(provost_ledger::Moment, NewEvent)>, String> {
    let session = fold(stream, None, records).map_err(|why| why.to_string())?;
    if session.is_closed() {
        return Ok(Vec::new());
    }
    let last = records.iter().map(|record| record.at.mono_ms).max().unwrap_or(0);
    let now = Clock::after(last.saturating_add(1)).now();
    let events = session.close_elsewhere(now);
    Ok(events.iter().map(|event| (to_ledger(now), new_event(event, "import"))).collect())
}

/// Refolds a whole stream, for `ledger verify` and `import`.
pub fn refold(stream: &StreamId, records: &[Recorded]) -> Result<Folded, String> {
    let session = fold(stream, None, records).map_err(|why| why.to_string())?;
    Ok(Folded {
        open: !session.is_closed(),
        owed: owed(&session),
        card: Some(card::text(&session)),
        snapshot: Some(snapshot(&session)),
    })
}
