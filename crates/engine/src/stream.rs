//! Ledger streams of sessions, runs and teams: names, events as records, and the fold that verifies
//! the caches.

use provost_core::{
    ids::{RunId, SessionId, StandingId},
    run::{self, Run},
    session::{Event, Session},
    task::{self, Task},
    time::Moment,
};
use provost_ledger::{Folded, NewEvent, Owed, Recorded, Snapshot, StoredSnapshot, StreamId, Words};
use serde::de::DeserializeOwned;

use crate::{card, run_card, shell::Clock, task_card, words};

/// The stream kind of sessions.
pub const SESSION: &str = "session";

/// The stream kind of runs.
pub const RUN: &str = "run";

/// The stream kind of teams.
pub const TASK: &str = "task";

/// The version of the fold. A snapshot of another version is discarded.
pub const FOLD_VERSION: u32 = 4;

/// A snapshot is stored every this many events, so that a long stream is not folded from its start.
pub const SNAPSHOT_EVERY: u64 = 256;

/// Why a stream cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{stream} is not a session's stream")]
    NoSession { stream: String },
    #[error("event {version} of {stream}: {source}")]
    Event { stream: String, version: u64, source: provost_core::stored::DecodeError },
    #[error("{stream} is not a run's stream")]
    NoRun { stream: String },
    #[error("{stream} is not a team's stream")]
    NoTask { stream: String },
    #[error("{stream} does not begin with an opening event")]
    NotOpened { stream: String },
}

/// Whether this program understands an event.
pub fn is_known(kind: &str, v: u16) -> bool {
    let kinds = [Event::KINDS, run::Event::KINDS, task::Event::KINDS];
    kinds.into_iter().any(|known| known.contains(&(kind, v)))
}

pub fn stream_id(session: SessionId) -> StreamId {
    StreamId::new(format!("{SESSION}/{session}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn session_id(stream: &str) -> Result<SessionId, Error> {
    let no = || Error::NoSession { stream: stream.to_owned() };
    let key = stream.strip_prefix("session/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

pub fn run_stream_id(run: RunId) -> StreamId {
    StreamId::new(format!("{RUN}/{run}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn run_id(stream: &str) -> Result<RunId, Error> {
    let no = || Error::NoRun { stream: stream.to_owned() };
    let key = stream.strip_prefix("run/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

pub fn task_stream_id(task: StandingId) -> StreamId {
    StreamId::new(format!("{TASK}/{task}")).expect("a kind, a slash and a UUID name a stream")
}

pub fn task_id(stream: &str) -> Result<StandingId, Error> {
    let no = || Error::NoTask { stream: stream.to_owned() };
    let key = stream.strip_prefix("task/").ok_or_else(no)?;
    key.parse().map_err(|_| no())
}

/// The subject of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Session(SessionId),
    Run(RunId),
    Task(StandingId),
}

/// Returns the subject of a stream.
pub fn subject(stream: &str) -> Result<Subject, Error> {
    match stream.split_once('/') {
        Some((RUN, _)) => run_id(stream).map(Subject::Run),
        Some((TASK, _)) => task_id(stream).map(Subject::Task),
        _ => session_id(stream).map(Subject::Session),
    }
}

pub fn to_core(at: provost_ledger::Moment) -> Moment {
    Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub fn to_ledger(at: Moment) -> provost_ledger::Moment {
    provost_ledger::Moment { wall_ms: at.wall_ms, mono_ms: at.mono_ms }
}

pub(crate) fn new_event(event: &Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    recorded(kind, v, actor, event.encode(), words::of_event(event))
}

fn recorded(kind: &str, v: u16, actor: &str, data: String, words: Words) -> NewEvent {
    NewEvent { kind: kind.to_owned(), v, actor: actor.to_owned(), data, words }
}

pub(crate) fn new_run_event(event: &run::Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    recorded(kind, v, actor, event.encode(), words::of_run_event(event))
}

pub(crate) fn new_task_event(event: &task::Event, actor: &str) -> NewEvent {
    let (kind, v) = event.kind();
    recorded(kind, v, actor, event.encode(), words::of_task_event(event))
}

/// Folds a session from its records, beginning at a snapshot if there is a usable one.
pub fn fold(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[Recorded],
) -> Result<Session, Error> {
    let id = session_id(stream.as_str())?;
    let mut session: Option<Session> = snapshot.and_then(restore);
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

/// Folds a run from its records, beginning at a snapshot if there is a usable one.
pub fn fold_run(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[Recorded],
) -> Result<Run, Error> {
    let id = run_id(stream.as_str())?;
    let mut run: Option<Run> = snapshot.and_then(restore);
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

/// Folds a team from its records, beginning at a snapshot if there is a usable one.
pub fn fold_task(
    stream: &StreamId,
    snapshot: Option<&StoredSnapshot>,
    records: &[Recorded],
) -> Result<Task, Error> {
    let id = task_id(stream.as_str())?;
    let mut task: Option<Task> = snapshot.and_then(restore);
    for record in records {
        let event =
            task::Event::decode(&record.kind, record.v, &record.data).map_err(|source| {
                Error::Event { stream: stream.to_string(), version: record.version, source }
            })?;
        let at = to_core(record.at);
        match (&mut task, &event) {
            (Some(task), event) => task.evolve(at, event),
            (None, task::Event::TaskOpened(opened)) => task = Some(Task::open(id, at, opened)),
            (None, _) => break,
        }
    }
    task.ok_or_else(|| Error::NotOpened { stream: stream.to_string() })
}

/// Returns the version after which records are needed besides a snapshot.
pub fn usable<T: DeserializeOwned>(snapshot: Option<&StoredSnapshot>) -> u64 {
    let usable = |stored: &&StoredSnapshot| restore::<T>(stored).is_some();
    snapshot.filter(usable).map_or(0, |stored| stored.version)
}

fn restore<T: DeserializeOwned>(stored: &StoredSnapshot) -> Option<T> {
    let current = stored.snapshot.fold_version == FOLD_VERSION;
    // A snapshot is a cache: one that cannot be read is ignored.
    current.then(|| serde_json::from_str(&stored.snapshot.data).ok()).flatten()
}

pub fn snapshot(session: &Session) -> Snapshot {
    let data = serde_json::to_string(session).expect("a session has string keys only");
    Snapshot { fold_version: FOLD_VERSION, data }
}

/// Returns the pending effects and the timer that the ledger stores with a session's events.
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

/// Returns the events that close the imported copy of a session, run or team of another home. Empty
/// if it is already closed.
pub fn close_elsewhere(
    stream: &StreamId,
    records: &[Recorded],
) -> Result<Vec<(provost_ledger::Moment, NewEvent)>, String> {
    let last = records.iter().map(|record| record.at.mono_ms).max().unwrap_or(0);
    let now = Clock::after(last.saturating_add(1)).now();
    let events = closings(stream, records, now).map_err(|why| why.to_string())?;
    Ok(events.into_iter().map(|event| (to_ledger(now), event)).collect())
}

fn closings(stream: &StreamId, records: &[Recorded], now: Moment) -> Result<Vec<NewEvent>, Error> {
    const BY: &str = "import";
    Ok(match subject(stream.as_str())? {
        Subject::Session(_) => {
            let session = fold(stream, None, records)?;
            let events =
                if session.is_closed() { Vec::new() } else { session.close_elsewhere(now) };
            events.iter().map(|event| new_event(event, BY)).collect()
        }
        Subject::Run(_) => {
            let run = fold_run(stream, None, records)?;
            run.close_elsewhere(now).iter().map(|event| new_run_event(event, BY)).collect()
        }
        Subject::Task(_) => {
            let task = fold_task(stream, None, records)?;
            task.close_elsewhere().iter().map(|event| new_task_event(event, BY)).collect()
        }
    })
}

pub fn run_snapshot(run: &Run) -> Snapshot {
    let data = serde_json::to_string(run).expect("a run has string keys only");
    Snapshot { fold_version: FOLD_VERSION, data }
}

pub fn owed_by_run(run: &Run) -> Vec<Owed> {
    let effects = run.effects();
    let owed = |effect: &run::Effect| {
        let (key, kind) = (effect.key(), "effect".to_owned());
        Owed { key, kind, due_mono_ms: None }
    };
    effects.iter().map(owed).collect()
}

pub fn task_snapshot(task: &Task) -> Snapshot {
    let data = serde_json::to_string(task).expect("a task has string keys only");
    Snapshot { fold_version: FOLD_VERSION, data }
}

pub fn owed_by_task(task: &Task) -> Vec<Owed> {
    let effects = task.effects();
    let owed = effects.iter().map(|effect| Owed {
        key: effect.key(),
        kind: "effect".to_owned(),
        due_mono_ms: None,
    });
    let timer = task.deadline().map(|at| Owed {
        key: "timer".to_owned(),
        kind: "messages".to_owned(),
        due_mono_ms: Some(at),
    });
    owed.chain(timer).collect()
}

/// Refolds a whole stream, for `ledger verify` and `import`.
pub fn refold(stream: &StreamId, records: &[Recorded]) -> Result<Folded, String> {
    match subject(stream.as_str()) {
        Ok(Subject::Run(_)) => return refold_run(stream, records),
        Ok(Subject::Task(_)) => return refold_task(stream, records),
        Ok(Subject::Session(_)) | Err(_) => {}
    }
    let session = fold(stream, None, records).map_err(|why| why.to_string())?;
    Ok(Folded {
        open: !session.is_closed(),
        owed: owed(&session),
        card: Some(card::text(&session)),
        snapshot: Some(snapshot(&session)),
        found_by: words::of_session(&session),
        words: words_of(records, Event::decode, words::of_event),
    })
}

fn refold_run(stream: &StreamId, records: &[Recorded]) -> Result<Folded, String> {
    let run = fold_run(stream, None, records).map_err(|why| why.to_string())?;
    Ok(Folded {
        open: !run.is_closed(),
        owed: owed_by_run(&run),
        card: Some(run_card::text(&run)),
        snapshot: Some(run_snapshot(&run)),
        found_by: words::of_run(&run),
        words: words_of(records, run::Event::decode, words::of_run_event),
    })
}

fn refold_task(stream: &StreamId, records: &[Recorded]) -> Result<Folded, String> {
    let task = fold_task(stream, None, records).map_err(|why| why.to_string())?;
    Ok(Folded {
        open: !task.is_closed(),
        owed: owed_by_task(&task),
        card: Some(task_card::text(&task)),
        snapshot: Some(task_snapshot(&task)),
        found_by: words::of_task(&task),
        words: words_of(records, task::Event::decode, words::of_task_event),
    })
}

type Decode<E> = fn(&str, u16, &str) -> Result<E, provost_core::stored::DecodeError>;

fn words_of<E>(records: &[Recorded], decode: Decode<E>, words: fn(&E) -> Words) -> Vec<Words> {
    let read = |record: &Recorded| decode(&record.kind, record.v, &record.data).ok();
    records.iter().map(|record| read(record).as_ref().map(words).unwrap_or_default()).collect()
}
