//! Read-only queries on the ledger: past states, events and their actors. Each query reads only the
//! streams that it needs.
//!
//! Nothing here needs the owner thread: a ledger reader is enough, because no query writes
//! anything.

mod as_of;
mod audit;
mod describe;
mod news;
mod replay;
mod replay_summary;
mod search;
mod telemetry;

use provost_api::{ApiError, ErrorCode, Hint};
use provost_core::ids::{MIN_PART_LEN, RunId, SessionId, TeamId};
use provost_ledger::{ReadLedger, RecordedEvent, StreamId};

use crate::{
    shell::{ambiguous, find_by_name, read_error},
    stream::{self, RUN, SESSION, Subject, TEAM},
};

pub use as_of::{as_of, diff};
pub use audit::audit;
pub use describe::describe_team;
pub use news::news;
pub use replay::{ReplayForm, replay, streams_of};
pub use search::{SearchScope, search};
pub use telemetry::{TelemetryWindow, telemetry};

/// The kinds of streams that a user can refer to.
const ALL_KINDS: [&str; 3] = [SESSION, RUN, TEAM];

/// Finds a session, run or team by its id, part of its id, or its name.
pub fn resolve(ledger: &dyn ReadLedger, text: &str) -> Result<Subject, ApiError> {
    let mut matching = Vec::new();
    for kind in ALL_KINDS {
        matching.extend(
            matching_streams(ledger, kind, text)?.into_iter().map(|(id, name)| (kind, id, name)),
        );
    }
    match matching.as_slice() {
        [(kind, id, _)] => {
            parse_subject(kind, id).ok_or_else(|| not_found(ledger, &ALL_KINDS, text))
        }
        [] => Err(not_found(ledger, &ALL_KINDS, text)),
        several => {
            let matches: Vec<_> = several
                .iter()
                .map(|(kind, id, name)| (id.clone(), format!("{kind} {name}")))
                .collect();
            Err(ambiguous(text, &ALL_KINDS, &matches))
        }
    }
}

/// Finds a team by its id, part of its id, or its name.
pub fn resolve_task(ledger: &dyn ReadLedger, text: &str) -> Result<TeamId, ApiError> {
    let found = matching_streams(ledger, TEAM, text)?;
    let missing = || not_found(ledger, &[TEAM], text);
    match found.as_slice() {
        [(id, _)] => id.parse().map_err(|_| missing()),
        [] => Err(missing()),
        several => Err(ambiguous(text, &[TEAM], several)),
    }
}

/// Finds streams whose id or name matches. A complete id matches only itself.
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

/// Returns the error for a text that matches nothing of the expected kinds. If the text refers to something of another
/// kind, the error says which kind that is.
pub(crate) fn not_found(
    ledger: &dyn ReadLedger,
    expected: &[&'static str],
    text: &str,
) -> ApiError {
    let what = join_kinds(expected);
    let matches = |kind: &&'static str| {
        matching_streams(ledger, kind, text).is_ok_and(|found| !found.is_empty())
    };
    let actual = ALL_KINDS.into_iter().filter(|kind| !expected.contains(kind)).find(matches);
    if let Some(actual) = actual {
        let message = format!("\"{text}\" is a {actual}, but a {what} is expected");
        let next = Hint::Status(text.to_owned());
        return ApiError::new(ErrorCode::NotFound, message).next(next);
    }
    let error = ApiError::new(ErrorCode::NotFound, describe_missing(&what, text));
    let lists_sessions = expected.iter().any(|kind| *kind != TEAM);
    let error = if lists_sessions { error.next(Hint::ListAll) } else { error };
    if expected.contains(&TEAM) { error.next(Hint::ListTeams) } else { error }
}

/// Describes that nothing matches a text. If the text looks like part of an id but is too short, the description
/// includes the required length.
pub fn describe_missing(what: &str, text: &str) -> String {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rule = if is_hex && text.len() < MIN_PART_LEN {
        format!(
            ": give at least {MIN_PART_LEN} characters from either end of an ID that `provost ls` shows"
        )
    } else {
        String::new()
    };
    format!("there is no {what} \"{text}\"{rule}")
}

fn join_kinds(kinds: &[&str]) -> String {
    match kinds {
        [first @ .., before, last] => {
            let first: String = first.iter().map(|kind| format!("{kind}, ")).collect();
            format!("{first}{before} or {last}")
        }
        kinds => kinds.concat(),
    }
}

/// Returns all records of a stream, and whether it was archived. `None` if the stream does not
/// exist.
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
    ApiError::new(ErrorCode::Storage, why.to_string()).next(Hint::VerifyLedger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_target_names_kinds_and_the_shortest_part() {
        assert_eq!(join_kinds(&[TEAM]), "team");
        assert_eq!(join_kinds(&ALL_KINDS), "session, run or team");
        assert_eq!(describe_missing("run", "nothing"), "there is no run \"nothing\"");
        assert_eq!(describe_missing("run", "ed7d"), "there is no run \"ed7d\"");
        let short = describe_missing("run", "ed7");
        assert!(short.ends_with(
            "give at least 4 characters from either end of an ID that `provost ls` shows"
        ));
    }
}
