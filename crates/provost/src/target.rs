//! Builds API paths from the user's input, and looks up what they refer to.

use provost_api::{AmbiguousId, ApiError, Client, ErrorCode, RunRow, SessionRow, TeamRow};
use provost_core::text::{quote_name, shell_quote};
use provost_engine::history::describe_missing;
use serde::Deserialize;

use crate::ui;

/// The reply that contains a session.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionReply {
    pub(crate) session: SessionRow,
}

/// The reply that contains a run.
#[derive(Debug, Deserialize)]
pub(crate) struct RunReply {
    pub(crate) run: RunRow,
}

/// The reply that contains a team.
#[derive(Debug, Deserialize)]
struct TeamReply {
    team: TeamRow,
}

/// The session or run that the user specified.
#[derive(Debug)]
pub(crate) enum SessionOrRun {
    Session(Box<SessionRow>),
    Run(Box<RunRow>),
}

/// Returns the path of a run, given by its id, part of its id, or its name.
pub(crate) fn run_path(id: &str) -> String {
    format!("/v1/runs/{}", encode(id))
}

/// Returns the path for an action on a run.
pub(crate) fn run_action_path(id: &str, action: &str) -> String {
    format!("{}/{action}", run_path(id))
}

/// Returns the path of a team.
pub(crate) fn team_path(id: &str) -> String {
    format!("/v1/teams/{}", encode(id))
}

/// Returns the path for an action on a team.
pub(crate) fn team_action_path(id: &str, action: &str) -> String {
    format!("{}/{action}", team_path(id))
}

/// Returns the path of a session, given by its id, part of its id, or its name.
pub(crate) fn session_path(id: &str) -> String {
    format!("/v1/sessions/{}", encode(id))
}

/// Returns the path for an action on a session.
pub(crate) fn session_action_path(id: &str, action: &str) -> String {
    format!("{}/{action}", session_path(id))
}

/// Returns the path for past states of a session, run or team.
pub(crate) fn history_path(id: &str) -> String {
    format!("/v1/history/{}", encode(id))
}

/// Appends a query to a path, leaving out parameters that have no value.
pub(crate) fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> = parameters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_deref()?))))
        .collect();
    let mark = if path.contains('?') { '&' } else { '?' };
    if given.is_empty() { path.to_owned() } else { format!("{path}{mark}{}", given.join("&")) }
}

/// Fetches a session.
pub(crate) fn find_session(client: &Client, id: &str) -> Result<SessionRow, ApiError> {
    client.get::<SessionReply>(&session_path(id)).map(|reply| reply.session)
}

/// Fetches a run.
pub(crate) fn find_run(client: &Client, id: &str) -> Result<RunRow, ApiError> {
    client.get::<RunReply>(&run_path(id)).map(|reply| reply.run)
}

/// Fetches a session or a run. Fails if both a session and a run have this name.
pub(crate) fn find_session_or_run(client: &Client, id: &str) -> Result<SessionOrRun, ApiError> {
    match (found_or_none(find_session(client, id))?, found_or_none(find_run(client, id))?) {
        (Some(session), None) => Ok(SessionOrRun::Session(Box::new(session))),
        (None, Some(run)) => Ok(SessionOrRun::Run(Box::new(run))),
        (Some(session), Some(run)) => {
            let message = format!(
                "\"{id}\" is ambiguous: {} (session {}), {} (run {})",
                ui::short_id(&session.id),
                ui::escape_line(&session.name),
                ui::short_id(&run.id),
                ui::escape_line(&run.name),
            );
            let ids = vec![ui::short_id(&session.id), ui::short_id(&run.id)];
            let error = ApiError::new(ErrorCode::BadRequest, message).next("provost ls");
            Err(ApiError {
                ambiguous: Some(Box::new(AmbiguousId { text: id.to_owned(), ids })),
                ..error
            })
        }
        (None, None) => {
            let is_team = client.get::<serde_json::Value>(&team_path(id)).is_ok();
            let (message, next) = if is_team {
                let message = format!("\"{id}\" is a team, but a session or run is expected");
                (message, format!("provost team show {}", shell_quote(id)))
            } else {
                (describe_missing("session or run", id), "provost ls --all".to_owned())
            };
            Err(ApiError::new(ErrorCode::NotFound, message).next(next))
        }
    }
}

/// Fetches a session. For a run, returns the session with a pending request or, if there is none,
/// the most recent active session. For a team, returns the session of the member that has a pending
/// request.
pub(crate) fn find_active_session(client: &Client, id: &str) -> Result<SessionRow, ApiError> {
    let found = match find_session_or_run(client, id) {
        Err(error) if error.code == ErrorCode::NotFound => {
            let team = found_or_none(client.get::<TeamReply>(&team_path(id)))?;
            return team.map_or(Err(error), |reply| find_asking_member(client, &reply.team));
        }
        found => found?,
    };
    let run = match found {
        SessionOrRun::Session(session) => return Ok(*session),
        SessionOrRun::Run(run) => run,
    };
    let mut asking: Vec<&str> =
        run.requests.iter().filter_map(|one| Some(one.id.split_once('.')?.0)).collect();
    asking.dedup();
    if let [_, _, ..] = asking[..] {
        let message = format!("several agents of run {} need an answer", ui::short_id(&run.id));
        let error = ApiError::new(ErrorCode::BadRequest, message);
        return Err(run.requests.iter().fold(error, |error, one| error.next(one.answer_command())));
    }
    let newest = run.sessions.iter().rev().find(|session| session.state.is_none());
    match asking.first().copied().or(newest.map(|session| session.id.as_str())) {
        Some(session) => find_session(client, session),
        None => {
            let short = ui::short_id(&run.id);
            let message = format!("run {short} needs no answer: it has no active session");
            Err(ApiError::new(ErrorCode::Refused, message).next(format!("provost status {short}")))
        }
    }
}

/// Fetches the session of the only member of a team that has a pending request.
fn find_asking_member(client: &Client, team: &TeamRow) -> Result<SessionRow, ApiError> {
    let bound = team.members.iter().filter(|member| !member.left);
    let mut asking = Vec::new();
    for id in bound.filter_map(|member| member.session.as_deref()) {
        asking.extend(found_or_none(find_session(client, id))?);
    }
    asking.retain(|session| !session.requests.is_empty());
    let name = quote_name(&team.name);
    if asking.len() > 1 {
        let message = format!("several members of the team {name} need an answer");
        let requests = asking.iter().flat_map(|session| &session.requests);
        let error = ApiError::new(ErrorCode::BadRequest, message);
        return Err(requests.fold(error, |error, one| error.next(one.answer_command())));
    }
    asking.pop().ok_or_else(|| {
        let message = format!("no member of the team {name} has an open request");
        let show = format!("provost team show {}", ui::short_id(&team.id));
        ApiError::new(ErrorCode::Refused, message).next(show)
    })
}

/// If the id belongs to a run, replaces the not-found error with one that suggests the run's active session.
pub(crate) fn explain_run_target(
    client: &Client,
    id: &str,
    verb: &str,
    error: ApiError,
) -> ApiError {
    let run = (error.code == ErrorCode::NotFound).then(|| find_run(client, id).ok()).flatten();
    let Some(run) = run else { return error };
    let (short, live) =
        (ui::short_id(&run.id), run.sessions.iter().rev().find(|s| s.state.is_none()));
    let message = format!("{short} is a run, but `provost {verb}` needs a session");
    let error = ApiError::new(ErrorCode::Refused, message);
    match live {
        Some(session) => {
            let text = if verb == "send" { " TEXT" } else { "" };
            error.next(format!("provost {verb} {}{text}", ui::short_id(&session.id)))
        }
        None => error.next(format!("provost status {short}")),
    }
}

fn found_or_none<T>(found: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Percent-encodes all characters except unreserved ones.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            // Encode the dots of a name such as "..", because a server could interpret it as the
            // parent directory.
            b'.' if text.bytes().any(|byte| byte != b'.') => encoded.push('.'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_input_cannot_change_the_path() {
        assert_eq!(session_path("a b/../?x=1\r\n"), "/v1/sessions/a%20b%2F..%2F%3Fx%3D1%0D%0A");
        assert_eq!(session_path(".."), "/v1/sessions/%2E%2E");
        assert_eq!(session_action_path("é", "send"), "/v1/sessions/%C3%A9/send");
    }

    #[test]
    fn unset_parameters_are_left_out() {
        let parameters =
            [("role", None), ("state", Some("a&b".to_owned())), ("all", Some("1".to_owned()))];
        assert_eq!(with_query("/v1/sessions", &parameters), "/v1/sessions?state=a%26b&all=1");
        assert_eq!(with_query("/v1/sessions", &[("x", None)]), "/v1/sessions");
    }
}
