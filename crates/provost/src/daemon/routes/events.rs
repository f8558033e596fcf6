//! The route for events, as pages or as a stream.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header},
    response::IntoResponse,
};
use provost_api::EventsReply;
use provost_engine::shell::{TeamCaller, blocking::blocking_request};
use serde::Deserialize;

use super::{
    request::{QueryParams, RouteResult, bad_request},
    runs,
};
use crate::daemon::{
    server::{ApiCaller, DaemonServer},
    sse,
};

#[derive(Debug, Deserialize)]
pub(super) struct EventQuery {
    since: Option<u64>,
    session: Option<String>,
    /// The run whose events to return, including those of its sessions.
    run: Option<String>,
    team: Option<String>,
    limit: Option<usize>,
    follow: Option<u8>,
}

pub(super) async fn events(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    headers: HeaderMap,
    QueryParams(query): QueryParams<EventQuery>,
) -> RouteResult {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let of = match (query.session, query.run, query.team) {
        (None, None, None) => sse::EventScope::All,
        (Some(session), None, None) => {
            sse::EventScope::One(daemon.handle.session(session).await?.session.id)
        }
        (None, Some(run), None) => sse::EventScope::Run(runs::resolve_id(&daemon, run).await?),
        (None, None, Some(task)) => {
            let found = daemon.handle.team(task, TeamCaller::Operator).await?;
            sse::EventScope::One(found.team.id)
        }
        (..) => return Err(bad_request("expected exactly one session, run or team").into()),
    };
    let wanted = sse::EventSelection { after: last.or(query.since).unwrap_or(0), scope: of };
    if query.follow == Some(1) {
        let (body, pump) = sse::follow(&daemon, &caller, wanted);
        daemon.spawn_owned(pump);
        return Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response());
    }
    let limit = sse::PageLimit {
        rows: query.limit.unwrap_or(1_000).min(100_000),
        bytes: sse::MAX_RESPONSE_BYTES,
    };
    let ledger = daemon.world.home.ledger();
    let turn = daemon.read_turn(&caller).await?;
    let read = blocking_request(move || {
        let _turn = turn;
        sse::read(&ledger, &wanted, limit)
    });
    let found = read.await?;
    let sse::EventPage { rows: events, last, is_full: more } = found;
    Ok(Json(EventsReply { ok: true, events, last, more }).into_response())
}
