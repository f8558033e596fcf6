//! Read-only queries over the ledger: past state, events and their actors, read only from the
//! streams concerned.
//!
//! Nothing here needs the owner: a reader of the ledger is enough, and no query writes.

mod as_of;
mod audit;
mod describe;
mod replay;
mod replay_summary;
mod search;
mod telemetry;

use provost_api::{ApiError, ErrorCode};
use provost_core::ids::{RunId, SessionId, TeamId};
use provost_ledger::{ReadLedger, RecordedEvent, StreamId};

use crate::{
    shell::{ambiguous, find_by_name, read_error},
    stream::{self, RUN, SESSION, Subject, TEAM},
};

pub use as_of::{as_of, diff};
pub use audit::audit;
pub use replay::{ReplayForm, news, replay, streams_of};
pub use search::{SearchScope, search};
pub use telemetry::{TelemetryWindow, telemetry};

/// Resolves a session, run or team by its id, a part of it, or its name.
pub fn resolve(ledger: &dyn ReadLedger, text: &str) -> Result<Subject, ApiError> {
    let mut meant = Vec::new();
    for kind in [SESSION, RUN, TEAM] {
        meant.extend(
            matching_streams(ledger, kind, text)?.into_iter().map(|(id, name)| (kind, id, name)),
        );
    }
    match meant.as_slice() {
        [(kind, id, _)] => parse_subject(kind, id).ok_or_else(|| not_found(text)),
        [] => Err(not_found(text)),
        several => {
            let told: Vec<_> = several
                .iter()
                .map(|(kind, id, name)| (id.clone(), format!("{kind} {name}")))
                .collect();
            Err(ambiguous(text, &[SESSION, RUN, TEAM], &told))
        }
    }
}

/// Resolves a team by its id, a part of it, or its name.
pub fn resolve_task(ledger: &dyn ReadLedger, text: &str) -> Result<TeamId, ApiError> {
    let found = matching_streams(ledger, TEAM, text)?;
    let missing = || {
        let message = format!("there is no team \"{text}\"");
        ApiError::new(ErrorCode::NotFound, message).next("provost team ls")
    };
    match found.as_slice() {
        [(id, _)] => id.parse().map_err(|_| missing()),
        [] => Err(missing()),
        several => Err(ambiguous(text, &[TEAM], several)),
    }
}

/// Finds streams whose id or name matches. A whole id matches only itself.
fn matching_streams(
    ledger: &dyn ReadLedger,
    kind: &'static str,
    text: &str,
) -> Result<Vec<(String, String)>, ApiError> {
    let Ok(SessionId(id)) = text.parse::<SessionId>() else {
        return find_by_name(kind, ledger, text).map_err(|why| read_error(&why));
    };
    let named = StreamId::new(format!("{kind}/{id}")).ok();
    let stored = named.map(|stream| ledger.stream(&stream)).transpose();
    let stored = stored.map_err(|why| read_error(&why))?.flatten();
    Ok(stored.map(|_| (id.to_string(), id.to_string())).into_iter().collect())
}

fn parse_subject(kind: &str, id: &str) -> Option<Subject> {
    let SessionId(id) = id.parse().ok()?;
    Some(match kind {
        RUN => Subject::Run(RunId(id)),
        TEAM => Subject::Team(TeamId(id)),
        _ => Subject::Session(SessionId(id)),
    })
}

fn not_found(text: &str) -> ApiError {
    let message = format!("there is no session, run or team \"{text}\"");
    ApiError::new(ErrorCode::NotFound, message).next("provost ls --all").next("provost team ls")
}

fn stream_of(subject: Subject) -> StreamId {
    match subject {
        Subject::Session(id) => stream::session_stream_id(id),
        Subject::Run(id) => stream::run_stream_id(id),
        Subject::Team(id) => stream::team_stream_id(id),
    }
}

/// Returns all records of a stream and whether it was archived. `None` if the stream does not exist.
fn read_whole_stream(
    ledger: &dyn ReadLedger,
    stream: &StreamId,
) -> Result<Option<(Vec<RecordedEvent>, bool)>, ApiError> {
    let Some(state) = ledger.stream(stream).map_err(|why| read_error(&why))? else {
        return Ok(None);
    };
    let records = ledger.read_stream(stream, 0).map_err(|why| read_error(&why))?;
    Ok(Some((records, state.head.archived)))
}

fn fold_error(why: &stream::Error) -> ApiError {
    ApiError::new(ErrorCode::Storage, why.to_string()).next("provost ledger verify")
}
