//! Builds API paths from the user's input, and looks up what they refer to.

use provost_api::{
    AmbiguousId, ApiError, Client, ErrorCode, LookedUpName, LookupReply, RequestRow, RunReply,
    RunRow, SessionReply, SessionRow, TeamRow,
};
use provost_core::text::{quote_name, shell_quote};
use provost_engine::history::describe_missing;

use crate::ui;

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

/// Returns the path that looks up a name.
pub(crate) fn lookup_path(name: &str) -> String {
    with_query("/v1/lookup", &[("name", Some(name.to_owned()))])
}

/// Looks up a name.
pub(crate) fn look_up(client: &Client, name: &str) -> Result<LookedUpName, ApiError> {
    client.get::<LookupReply>(&lookup_path(name)).map(|reply| reply.found)
}

/// Fetches a session or a run. Fails if both a session and a run have this name.
pub(crate) fn find_session_or_run(client: &Client, id: &str) -> Result<SessionOrRun, ApiError> {
    session_or_run(look_up(client, id)?, id)
}

/// Returns the session or run that a name refers to. Fails if both a session and a run have this name.
pub(crate) fn session_or_run(found: LookedUpName, id: &str) -> Result<SessionOrRun, ApiError> {
    if let Some(error) = found.ambiguous {
        return Err(error);
    }
    match (found.session, found.run) {
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
            let (message, next) = if found.team.is_some() {
                let message = format!("\"{id}\" is a team, but a session or run is expected");
                (message, format!("provost team show {}", shell_quote(id)))
            } else {
                (describe_missing("session or run", id), "provost ls --all".to_owned())
            };
            Err(ApiError::new(ErrorCode::NotFound, message).next(next))
        }
    }
}

/// Returns the session that a name refers to. For a run, returns the session with a pending request
/// or, if there is none, the most recent active session. For a team, returns the session of the
/// member that has a pending request.
pub(crate) fn active_session(mut found: LookedUpName, id: &str) -> Result<SessionRow, ApiError> {
    let active = std::mem::take(&mut found.active);
    match (&found, &found.team) {
        (LookedUpName { session: None, run: None, ambiguous: None, .. }, Some(team)) => {
            asking_member(active, team)
        }
        _ => match session_or_run(found, id)? {
            SessionOrRun::Session(session) => Ok(*session),
            SessionOrRun::Run(run) => active_session_of_run(active, &run),
        },
    }
}

fn active_session_of_run(
    mut active: Vec<SessionRow>,
    run: &RunRow,
) -> Result<SessionRow, ApiError> {
    let short = ui::short_id(&run.id);
    if active.len() > 1 {
        let message = format!("several agents of run {short} need an answer");
        let requests = run.requests.iter().map(RequestRow::answer_command);
        return Err(ApiError::new(ErrorCode::BadRequest, message).next_all(requests));
    }
    active.pop().ok_or_else(|| {
        let message = format!("run {short} needs no answer: it has no active session");
        ApiError::new(ErrorCode::Refused, message).next(format!("provost status {short}"))
    })
}

/// Returns the session of the only member of a team that has a pending request.
fn asking_member(mut asking: Vec<SessionRow>, team: &TeamRow) -> Result<SessionRow, ApiError> {
    let name = quote_name(&team.name);
    if asking.len() > 1 {
        let message = format!("several members of the team {name} need an answer");
        let requests = asking.iter().flat_map(|session| &session.requests);
        return Err(ApiError::new(ErrorCode::BadRequest, message)
            .next_all(requests.map(RequestRow::answer_command)));
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
