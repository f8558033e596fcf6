//! The ledger streams of sessions, runs and teams: their names, events as records, and the fold
//! that verifies the caches.

use provost_core::{
    aggregate::Aggregate,
    ids::{RunId, SessionId, TeamId},
    run::{self, Run},
    session::{Event, Session},
    team::{self, Team},
    time::Moment,
};
use provost_ledger::{
    FoldedStream, NewEvent, PendingItem, RecordedEvent, StoredSnapshot, StreamId, StreamSnapshot,
    TermSet,
};
use serde::de::DeserializeOwned;

use crate::{projection, search_terms};

/// The stream kind of sessions.
pub const SESSION: &str = "session";

/// The stream kind of runs.
pub const RUN: &str = "run";

/// The stream kind of teams.
pub const TEAM: &str = "team";

/// The version of the fold. Snapshots from other versions are discarded.
pub const FOLD_VERSION: u32 = 1;

/// A snapshot is stored every this many events, so that a long stream need not be folded from its start.
pub const SNAPSHOT_EVERY: u64 = 256;

/// Why a stream cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{stream} is not a session's stream")]
    NotASession { stream: String },
    #[error("event {version} of {stream}: {source}")]
    Event { stream: String, version: u64, source: provost_core::event_codec::DecodeError },
    #[error("{stream} is not a run's stream")]
    NotARun { stream: String },
    #[error("{stream} is not a team's stream")]
    NotATeam { stream: String },
    #[error("{stream} does not begin with an opening event")]
    NotOpened { stream: String },
}

/// Whether this program knows this kind and version of event.
pub fn is_known(kind: &str, v: u16) -> bool {
    let kinds = [Event::KINDS, run::Event::KINDS, team::Event::KINDS];
    kinds.into_iter().any(|known| known.contains(&(kind, v)))
}

pub fn session_stream_id(session: SessionId) -> StreamId {
    StreamId::new(format!("{SESSION}/{session}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn session_id(stream: &str) -> Result<SessionId, Error> {
    let no = || Error::NotASession { stream: stream.to_owned() };
    let key = stream.strip_prefix("session/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

pub fn run_stream_id(run: RunId) -> StreamId {
    StreamId::new(format!("{RUN}/{run}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn run_id(stream: &str) -> Result<RunId, Error> {
    let no = || Error::NotARun { stream: stream.to_owned() };
    let key = stream.strip_prefix("run/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

pub fn team_stream_id(task: TeamId) -> StreamId {
    StreamId::new(format!("{TEAM}/{task}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn team_id(stream: &str) -> Result<TeamId, Error> {
    let no = || Error::NotATeam { stream: stream.to_owned() };
    let key = stream.strip_prefix("team/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

/// The subject of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Session(SessionId),
    Run(RunId),
    Team(TeamId),
}

/// Returns the subject of a stream.
pub fn parse_subject(stream: &str) -> Result<Subject, Error> {
    match stream.split_once('/') {
        Some((RUN, _)) => run_id(stream).map(Subject::Run),
        Some((TEAM, _)) => team_id(stream).map(Subject::Team),
        _ => session_id(stream).map(Subject::Session),
    }
}

pub fn to_core(at: provost_ledger::ClockReading) -> Moment {
    Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub fn to_ledger(at: Moment) -> provost_ledger::ClockReading {
    provost_ledger::ClockReading { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub(crate) fn new_session_event(event: &Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    encode_event(kind, v, actor, event.encode(), search_terms::session_event_terms(event))
}

fn encode_event(kind: &str, v: u16, actor: &str, data: String, words: TermSet) -> NewEvent {
    NewEvent { kind: kind.to_owned(), v, actor: actor.to_owned(), data, search_terms: words }
}

pub(crate) fn new_run_event(event: &run::Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    encode_event(kind, v, actor, event.encode(), search_terms::run_event_terms(event))
}

pub(crate) fn new_team_event(event: &team::Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    encode_event(kind, v, actor, event.encode(), search_terms::team_event_terms(event))
}

/// Folds a session from its records, starting from a snapshot if there is a usable one.
pub fn fold_session(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[RecordedEvent],
) -> Result<Session, Error> {
    let id = session_id(stream.as_str())?;
    let mut session: Option<Session> = snapshot.and_then(restore_snapshot);
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

/// Folds a run from its records, starting from a snapshot if there is a usable one.
pub fn fold_run(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[RecordedEvent],
) -> Result<Run, Error> {
    let id = run_id(stream.as_str())?;
    let mut run: Option<Run> = snapshot.and_then(restore_snapshot);
    for record in records {
        let event = run::Event::decode(&record.kind, record.v, &record.data).map_err(|source| {
            Error::Event { stream: stream.to_string(), version: record.version, source }
        })?;
        let at = to_core(record.at);
        match (&mut run, &event) {
            (Some(run), event) => run.evolve(at, event),
            (None, run::Event::RunOpened(opened)) => run = Some(Run::open(id, at, opened)),
            (None, _) => break,
        }
    }
    run.ok_or_else(|| Error::NotOpened { stream: stream.to_string() })
}

/// Folds a team from its records, starting from a snapshot if there is a usable one.
pub fn fold_team(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[RecordedEvent],
) -> Result<Team, Error> {
    let id = team_id(stream.as_str())?;
    let mut task: Option<Team> = snapshot.and_then(restore_snapshot);
    for record in records {
        let event =
            team::Event::decode(&record.kind, record.v, &record.data).map_err(|source| {
                Error::Event { stream: stream.to_string(), version: record.version, source }
            })?;
        let at = to_core(record.at);
        match (&mut task, &event) {
            (Some(task), event) => task.evolve(at, event),
            (None, team::Event::TeamOpened(opened)) => task = Some(Team::open(id, at, opened)),
            (None, _) => break,
        }
    }
    task.ok_or_else(|| Error::NotOpened { stream: stream.to_string() })
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

pub fn session_snapshot(session: &Session) -> StreamSnapshot {
    let data = serde_json::to_string(session).expect("a session has string keys only");
    StreamSnapshot { fold_version: FOLD_VERSION, data }
}

/// Returns the pending effects and the timer that the ledger stores together with a session's events.
pub fn pending_effects(session: &Session) -> Vec<PendingItem> {
    let mut pending: Vec<PendingItem> = session
        .effects()
        .iter()
        .map(|effect| PendingItem {
            key: effect.key(),
            kind: "effect".to_owned(),
            due_mono_ms: None,
        })
        .collect();
    pending.extend(session.deadline().map(|(at, due)| PendingItem {
        key: "timer".to_owned(),
        kind: due.as_str().to_owned(),
        due_mono_ms: Some(at),
    }));
    pending
}

/// Returns the events that close the imported copy of a session, run or team from another home.
/// Empty if it is already closed. `now` returns the current time on a clock that continues after the
/// given time of the copy's last event.
pub fn close_imported(
    stream: &StreamId,
    records: &[RecordedEvent],
    now: impl FnOnce(u64) -> Moment,
) -> Result<Vec<(provost_ledger::ClockReading, NewEvent)>, String> {
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
    const BY: &str = "import";
    Ok(match parse_subject(stream.as_str())? {
        Subject::Session(_) => {
            let session = fold_session(stream, None, records)?;
            session.close_imported(now).iter().map(|event| new_session_event(event, BY)).collect()
        }
        Subject::Run(_) => {
            let run = fold_run(stream, None, records)?;
            run.close_imported(now).iter().map(|event| new_run_event(event, BY)).collect()
        }
        Subject::Team(_) => {
            let task = fold_team(stream, None, records)?;
            task.close_imported(now).iter().map(|event| new_team_event(event, BY)).collect()
        }
    })
}

pub fn run_snapshot(run: &Run) -> StreamSnapshot {
    let data = serde_json::to_string(run).expect("a run has string keys only");
    StreamSnapshot { fold_version: FOLD_VERSION, data }
}

pub fn pending_run_effects(run: &Run) -> Vec<PendingItem> {
    let effects = run.effects();
    let to_pending = |effect: &run::RunEffect| {
        let (key, kind) = (effect.key(), "effect".to_owned());
        PendingItem { key, kind, due_mono_ms: None }
    };
    effects.iter().map(to_pending).collect()
}

pub fn team_snapshot(task: &Team) -> StreamSnapshot {
    let data = serde_json::to_string(task).expect("a task has string keys only");
    StreamSnapshot { fold_version: FOLD_VERSION, data }
}

pub fn pending_team_effects(task: &Team) -> Vec<PendingItem> {
    let effects = task.effects();
    let pending = effects.iter().map(|effect| PendingItem {
        key: effect.key(),
        kind: "effect".to_owned(),
        due_mono_ms: None,
    });
    let timer = task.deadline().map(|at| PendingItem {
        key: "timer".to_owned(),
        kind: "messages".to_owned(),
        due_mono_ms: Some(at),
    });
    pending.chain(timer).collect()
}

/// Folds an entire stream again, for `ledger verify` and `import`.
pub fn refold(stream: &StreamId, records: &[RecordedEvent]) -> Result<FoldedStream, String> {
    match parse_subject(stream.as_str()) {
        Ok(Subject::Run(_)) => return refold_run(stream, records),
        Ok(Subject::Team(_)) => return refold_team(stream, records),
        Ok(Subject::Session(_)) | Err(_) => {}
    }
    let session = fold_session(stream, None, records).map_err(|why| why.to_string())?;
    Ok(FoldedStream {
        open: !session.is_closed(),
        pending: pending_effects(&session),
        projection: Some(projection::session::to_json(&session)),
        snapshot: Some(session_snapshot(&session)),
        search_terms: search_terms::session_terms(&session),
        event_terms: search_terms_of(records, Event::decode, search_terms::session_event_terms),
    })
}

fn refold_run(stream: &StreamId, records: &[RecordedEvent]) -> Result<FoldedStream, String> {
    let run = fold_run(stream, None, records).map_err(|why| why.to_string())?;
    Ok(FoldedStream {
        open: !run.is_closed(),
        pending: pending_run_effects(&run),
        projection: Some(projection::run::to_json(&run)),
        snapshot: Some(run_snapshot(&run)),
        search_terms: search_terms::run_terms(&run),
        event_terms: search_terms_of(records, run::Event::decode, search_terms::run_event_terms),
    })
}

fn refold_team(stream: &StreamId, records: &[RecordedEvent]) -> Result<FoldedStream, String> {
    let task = fold_team(stream, None, records).map_err(|why| why.to_string())?;
    Ok(FoldedStream {
        open: !task.is_closed(),
        pending: pending_team_effects(&task),
        projection: Some(projection::team::to_json(&task)),
        snapshot: Some(team_snapshot(&task)),
        search_terms: search_terms::team_terms(&task),
        event_terms: search_terms_of(records, team::Event::decode, search_terms::team_event_terms),
    })
}

type Decode<E> = fn(&str, u16, &str) -> Result<E, provost_core::event_codec::DecodeError>;

fn search_terms_of<E>(
    records: &[RecordedEvent],
    decode: Decode<E>,
    words: fn(&E) -> TermSet,
) -> Vec<TermSet> {
    let read = |record: &RecordedEvent| decode(&record.kind, record.v, &record.data).ok();
    records.iter().map(|record| read(record).as_ref().map(words).unwrap_or_default()).collect()
}
