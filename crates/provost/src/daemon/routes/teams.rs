//! Routes for teams.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use provost_api::{
    ApiError, ErrorCode, NextRequest, OpenTeamRequest, PairRequest, TeamCommandRequest,
};
use provost_core::{
    ids::{LaunchId, TeamId},
    team::{TeamCommand, TeamSpec, TeamWaitTarget},
};
use provost_engine::{
    history,
    report::{check_name, check_text},
    shell::{
        EngineReply, EngineRequest, NewSession, PublishedEvents, TeamCaller, TeamRequest,
        TeamStart, mismatched_reply,
    },
};
use serde::Deserialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{
    history::read,
    request::{
        Call, DEFAULT_LIMIT, JsonBody, OperatorCall, QueryParams, RouteResult, Sender, bad_request,
        list_response,
    },
};
use crate::daemon::{
    peer::{self, CallerIdentity},
    server::{ApiCaller, DaemonServer},
};

/// The maximum time that one request waits for a message. To wait longer, clients repeat the request.
const MAX_WAIT: Duration = Duration::from_secs(110);

/// Opens a team. The client creates the id, so that it knows the id before the request.
pub(super) async fn open(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<OpenTeamRequest>>,
) -> RouteResult {
    let ask =
        TeamRequest::Open { id: parse_id(&request.id)?, spec: Box::new(parse_spec(request.spec)?) };
    sender.submit("open-task", EngineRequest::Team(ask)).await
}

/// Opens a team with all its members. If any part fails, nothing is opened.
pub(super) async fn pair(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<PairRequest>>,
) -> RouteResult {
    let id = parse_id(&request.id)?;
    let start: TeamStart = serde_json::from_value(request.pairing)
        .map_err(|why| bad_request(format!("cannot parse the new team and its members: {why}")))?;
    check_spec(&start.spec)?;
    check_startable(&sender.daemon, &start)?;
    let ask = TeamRequest::Pair { id, start: Box::new(start) };
    sender.submit("pair", EngineRequest::Team(ask)).await
}

/// Rejects a team if one of its members cannot be started. Otherwise the error would be noticed only after other
/// members have started. The check uses the environment that the agent will get.
fn check_startable(daemon: &DaemonServer, start: &TeamStart) -> Result<(), ApiError> {
    for member in &start.members {
        let Some(NewSession::New { spec, .. }) = &member.session else { continue };
        let missing = daemon.world.environment.missing_program(&spec.agent, &spec.cwd);
        if let Some(why) = missing {
            let message = format!("cannot start {}: {why}; nothing was started", member.name);
            return Err(ApiError::new(ErrorCode::Refused, message)
                .next("provost config show")
                .next("provost doctor"));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(super) struct TeamListQuery {
    /// The maximum number of finished teams.
    limit: Option<usize>,
}

pub(super) async fn list(
    State(daemon): State<DaemonServer>,
    QueryParams(query): QueryParams<TeamListQuery>,
) -> RouteResult {
    let listed = daemon.handle.teams(query.limit.unwrap_or(DEFAULT_LIMIT)).await?;
    Ok(list_response("teams", &listed))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CallerQuery {
    /// The member whose view is requested. If this parameter is missing, the view of the operator.
    #[serde(rename = "as")]
    by: Option<String>,
    /// The caller's launch, if the calling process does not identify it.
    launch: Option<String>,
    token: Option<String>,
}

pub(super) async fn row(
    State(daemon): State<DaemonServer>,
    Path(task): Path<String>,
    caller: ApiCaller,
    QueryParams(who): QueryParams<CallerQuery>,
) -> RouteResult {
    let by = identify_reader(&daemon, &caller, &who).await?;
    Ok(Json(daemon.handle.team(task, by).await?).into_response())
}

pub(super) async fn messages(
    State(daemon): State<DaemonServer>,
    Path(task): Path<String>,
    caller: ApiCaller,
    QueryParams(who): QueryParams<CallerQuery>,
) -> RouteResult {
    let by = identify_reader(&daemon, &caller, &who).await?;
    Ok(Json(daemon.handle.team_messages(task, by).await?).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct OverviewQuery {
    /// Entries after this sequence number are new. If this parameter is missing, the newest entries are shown.
    since: Option<String>,
    #[serde(flatten)]
    who: CallerQuery,
}

pub(super) async fn cycle(
    State(daemon): State<DaemonServer>,
    Path(task): Path<String>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<OverviewQuery>,
) -> RouteResult {
    let by = identify_reader(&daemon, &caller, &query.who).await?;
    let since = query.since.map(|since| since.parse::<u64>()).transpose();
    let since = since.map_err(|why| bad_request(format!("since is not an event number: {why}")))?;
    let mut reply = daemon.handle.team_overview(task, by).await?;
    let id = parse_id(&reply.cycle.team.id)?;
    // The events are read from the ledger without the engine, and are not marked as read.
    let news = read(&daemon, &caller, move |ledger| history::news(ledger, id, since)).await?;
    reply.cycle.new = Some(news);
    Ok(Json(reply).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct WaitQuery {
    /// The check to wait for.
    check: Option<String>,
    /// The audit to wait for.
    audit: Option<String>,
    #[serde(flatten)]
    who: CallerQuery,
}

/// Returns whether a check or audit has finished or can no longer finish. Does not wait.
pub(super) async fn wait(
    State(daemon): State<DaemonServer>,
    Path(task): Path<String>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<WaitQuery>,
) -> RouteResult {
    let by = identify_reader(&daemon, &caller, &query.who).await?;
    let number = |text: String| {
        text.parse().map_err(|why| bad_request(format!("\"{text}\" is not a number: {why}")))
    };
    let awaited = match (query.check, query.audit) {
        (Some(no), None) => TeamWaitTarget::Check(number(no)?),
        (None, Some(no)) => TeamWaitTarget::Audit(number(no)?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(bad_request("expected either a check or an audit").into());
        }
    };
    Ok(Json(daemon.handle.team_wait(task, by, awaited).await?).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct HandoffQuery {
    /// The member whose handoff is requested. If this parameter is missing, the handoffs of all members are returned.
    member: Option<String>,
    #[serde(flatten)]
    who: CallerQuery,
}

pub(super) async fn handoff(
    State(daemon): State<DaemonServer>,
    Path(task): Path<String>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<HandoffQuery>,
) -> RouteResult {
    let by = identify_reader(&daemon, &caller, &query.who).await?;
    Ok(Json(daemon.handle.team_handoff(task, by, query.member).await?).into_response())
}

/// Sends a command to a team on behalf of the caller.
pub(super) async fn command(
    Path(task): Path<String>,
    Call { sender, body: JsonBody(request) }: Call<JsonBody<TeamCommandRequest>>,
) -> RouteResult {
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let by = identify_actor(&sender, launch, token, request.acting_as)?;
    let what =
        if sender.key().is_some() { change_kind(&request.command, &by) } else { String::new() };
    let command: TeamCommand = serde_json::from_value(request.command)
        .map_err(|why| bad_request(format!("cannot read the team's command: {why}")))?;
    if command.action().is_none() {
        return Err(bad_request("this command is internal to Provost").into());
    }
    let ask = TeamRequest::Command { task, by: by.clone(), command: Box::new(command) };
    acting_sender(sender, &by).submit(&what, EngineRequest::Team(ask)).await
}

/// Returns a name for the change that consists of the kind of change and the member, because idempotency keys belong to
/// a member. The engine checks that the team and the change are the same.
fn change_kind(command: &serde_json::Value, by: &TeamCaller) -> String {
    let named = command.as_object().and_then(|command| command.keys().next().cloned());
    let kind = named.or_else(|| command.as_str().map(str::to_owned)).unwrap_or_default();
    let member = match by {
        TeamCaller::Operator => "operator",
        TeamCaller::Member(name) => name,
        // A launch corresponds to a single member, and its keys are already scoped to the launch.
        TeamCaller::Launch { .. } => "",
    };
    // A name may contain any character, so its length is included to mark the end of the name.
    format!("team/{kind}/{}:{member}", member.len())
}

/// Returns the caller's next message, or waits for one. An empty inbox is not an error.
pub(super) async fn next(
    Path(task): Path<String>,
    Call { sender, body: JsonBody(request) }: Call<JsonBody<NextRequest>>,
) -> RouteResult {
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let by = identify_actor(&sender, launch, token, request.acting_as)?;
    let sender = acting_sender(sender, &by);
    let daemon = &sender.daemon;
    // Subscribe before the first query, so that no message is missed.
    let mut news = daemon.handle.subscribe();
    let wait = Duration::from_millis(request.wait_ms).min(MAX_WAIT);
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        let ask = TeamRequest::Next { task: task.clone(), by: by.clone() };
        let answer =
            daemon.handle.request(EngineRequest::Team(ask), &sender.peer.actor(), None).await;
        let answer = answer.map_err(|why| sender.qualify_hints(why))?;
        let EngineReply::NextMessage(found) = answer else {
            return Err(mismatched_reply().into());
        };
        if found.item.is_some() {
            return Ok(Json(found).into_response());
        }
        let come = tokio::select! {
            () = daemon.stop.cancelled() => false,
            come = tokio::time::timeout_at(deadline, wait_for_message(&mut news, &found.team)) => come.is_ok(),
        };
        if !come {
            return Ok(Json(found).into_response());
        }
    }
}

/// Waits until an event may have made a message of this team available.
async fn wait_for_message(news: &mut Receiver<PublishedEvents>, task: &str) {
    loop {
        match news.recv().await {
            Ok(events) => {
                let come = events.iter().any(|event| {
                    event.stream == "team" && event.session == task && may_add_message(&event.kind)
                });
                if come {
                    return;
                }
            }
            // Some events were missed, so the caller has to query again.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Whether an event may make a message available, or may end the wait because the caller can no longer receive a
/// message.
fn may_add_message(kind: &str) -> bool {
    matches!(
        kind,
        "team.message_stored"
            | "team.message_returned"
            | "team.message_requeued"
            | "team.phase_changed"
            | "team.member_bound"
            | "team.member_left"
            | "team.member_rotated"
    )
}

/// Returns who the caller is. An agent is identified by its process or its token. The operator acts
/// either as the operator or as a member with that member's permissions.
fn identify_actor(
    sender: &Sender,
    launch: Option<&str>,
    token: Option<&str>,
    named: Option<String>,
) -> Result<TeamCaller, ApiError> {
    Ok(actor(sender.reporter(launch, token)?, named))
}

fn actor(launch: Option<LaunchId>, named: Option<String>) -> TeamCaller {
    match launch {
        Some(launch) => TeamCaller::Launch { launch, named },
        None => named.map_or(TeamCaller::Operator, TeamCaller::Member),
    }
}

fn acting_sender(sender: Sender, by: &TeamCaller) -> Sender {
    match by {
        TeamCaller::Launch { launch, .. } => sender.speaking_as(Some(*launch)),
        TeamCaller::Operator | TeamCaller::Member(_) => sender,
    }
}

/// Returns who the reader is. Reading requires no permission, but only the operator may read as another
/// member, because blind proposals are visible only to their authors. A launch without its token is rejected.
pub(super) async fn identify_reader(
    daemon: &DaemonServer,
    caller: &ApiCaller,
    who: &CallerQuery,
) -> Result<TeamCaller, ApiError> {
    let peer = daemon.identify(caller).await?;
    let anonymous = match &peer {
        CallerIdentity::Operator | CallerIdentity::Launch(_) => false,
        CallerIdentity::Detached(_) | CallerIdentity::Unproven(_) => who.launch.is_none(),
        CallerIdentity::Supervised(_) | CallerIdentity::DaemonChild => true,
    };
    if !anonymous {
        let (launch, token) = (who.launch.as_deref(), who.token.as_deref());
        let launch = peer::verify_reporter(&peer, &daemon.world, launch, token)?;
        return Ok(actor(launch, who.by.clone()));
    }
    if who.by.is_some() {
        let message = "only the operator, or a launch with its token, may read as a member of a \
            team";
        return Err(ApiError::new(ErrorCode::Forbidden, message).next("provost team --help"));
    }
    Ok(TeamCaller::Operator)
}

fn parse_id(text: &str) -> Result<TeamId, ApiError> {
    text.parse().map_err(|why: provost_core::ids::ParseIdError| bad_request(why.to_string()))
}

fn parse_spec(given: serde_json::Value) -> Result<TeamSpec, ApiError> {
    let spec: TeamSpec = serde_json::from_value(given)
        .map_err(|why| bad_request(format!("the team's spec cannot be read: {why}")))?;
    check_spec(&spec)?;
    Ok(spec)
}

fn check_spec(spec: &TeamSpec) -> Result<(), ApiError> {
    check_name(&spec.name)?;
    check_text(&spec.goal, "goal")
}
