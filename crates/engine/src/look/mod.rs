//! Read-only queries over the ledger: past state, events and their actors, read only from the
//! streams concerned.
//!
//! Nothing here needs the owner: a reader of the ledger is enough, and no query writes.

mod audit;
mod compact;
mod past;
mod search;
mod telemetry;
mod then;
mod told;

use provost_api::{ApiError, Code};
use provost_core::ids::{RunId, SessionId, StandingId};
use provost_ledger::{ReadLedger, Recorded, StreamId};

use crate::{
    shell::{ambiguous, find, unread},
    stream::{self, RUN, SESSION, Subject, TASK},
};

pub use audit::audit;
pub use past::{Form, news, replay, streams_of};
pub use search::{Within, search};
pub use telemetry::{Window, telemetry};
pub use then::{diff, then};

/// Resolves a session, run or team by its id, a part of it, or its name.
pub fn resolve(ledger: &dyn ReadLedger, text: &str) -> Result<Subject, ApiError> {
    let mut meant = Vec::new();
    for kind in [SESSION, RUN, TASK] {
        meant.extend(like(ledger, kind, text)?.into_iter().map(|(id, name)| (kind, id, name)));
    }
    match meant.as_slice() {
        [(kind, id, _)] => subject(kind, id).ok_or_else(|| nobody(text)),
        [] => Err(nobody(text)),
        several => {
            let told: Vec<_> = several
                .iter()
                .map(|(kind, id, name)| (id.clone(), format!("{kind} {name}")))
                .collect();
            Err(ambiguous(text, &[SESSION, RUN, TASK], &told))
        }
    }
}

/// Resolves a team by its id, a part of it, or its name.
pub fn resolve_task(ledger: &dyn ReadLedger, text: &str) -> Result<StandingId, ApiError> {
    let found = like(ledger, TASK, text)?;
    let missing = || {
        let message = format!("there is no team \"{text}\"");
        ApiError::new(Code::NotFound, message).next("provost task ls")
    };
    match found.as_slice() {
        [(id, _)] => id.parse().map_err(|_| missing()),
        [] => Err(missing()),
        several => Err(ambiguous(text, &[TASK], several)),
    }
}

/// Finds streams whose id or name matches. A whole id matches only itself.
fn like(
    ledger: &dyn ReadLedger,
    kind: &'static str,
    text: &str,
) -> Result<Vec<(String, String)>, ApiError> {
    let Ok(SessionId(id)) = text.parse::<SessionId>() else {
        return find(kind, ledger, text).map_err(|why| unread(&why));
    };
    let named = StreamId::new(format!("{kind}/{id}")).ok();
    let stored = named.map(|stream| ledger.stream(&stream)).transpose();
    let stored = stored.map_err(|why| unread(&why))?.flatten();
    Ok(stored.map(|_| (id.to_string(), id.to_string())).into_iter().collect())
}

fn subject(kind: &str, id: &str) -> Option<Subject> {
    let SessionId(id) = id.parse().ok()?;
    Some(match kind {
        RUN => Subject::Run(RunId(id)),
        TASK => Subject::Task(StandingId(id)),
        _ => Subject::Session(SessionId(id)),
    })
}

fn nobody(text: &str) -> ApiError {
    let message = format!("there is no session, run or team \"{text}\"");
    ApiError::new(Code::NotFound, message).next("provost ls --all").next("provost task ls")
}

fn stream_of(subject: Subject) -> StreamId {
    match subject {
        Subject::Session(id) => stream::stream_id(id),
        Subject::Run(id) => stream::run_stream_id(id),
        Subject::Task(id) => stream::task_stream_id(id),
    }
}

/// Returns all records of a stream and whether it was archived. `None` if there is no such stream.
fn whole(
    ledger: &dyn ReadLedger,
    stream: &StreamId,
) -> Result<Option<(Vec<Recorded>, bool)>, ApiError> {
    let Some(state) = ledger.stream(stream).map_err(|why| unread(&why))? else { return Ok(None) };
    let records = ledger.read_stream(stream, 0).map_err(|why| unread(&why))?;
    Ok(Some((records, state.head.archived)))
}

fn unfoldable(why: &stream::Error) -> ApiError {
    ApiError::new(Code::Storage, why.to_string()).next("provost ledger verify")
}
