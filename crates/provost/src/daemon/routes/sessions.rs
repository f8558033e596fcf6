//! Routes for sessions.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use provost_api::{
    AnswerRequest, ApiError, ApprovalDecision, CancelRequest, InterruptRequest, LimitRequest,
    OpenSessionRequest, RenameRequest, ResolveRequest, SendRequest,
};
use provost_core::{
    ids::SessionId,
    request::{ApprovalScope, RequestReply},
    session::{ManualOutcome, SendMode, SessionCommand, SessionSpec},
};
use provost_engine::{
    report::{check_name, check_text},
    shell::{EngineRequest, Listing, ListingExtent},
};
use serde::Deserialize;

use super::request::{
    DEFAULT_LIMIT, JsonBody, NoBody, OperatorCall, QueryParams, RouteResult, bad_request,
    json_response,
};
use crate::daemon::server::{ApiCaller, DaemonServer, listing_json, new_session_id};

#[derive(Debug, Deserialize)]
pub(super) struct SessionListQuery {
    role: Option<String>,
    state: Option<String>,
    project: Option<String>,
    limit: Option<usize>,
    all: Option<u8>,
}

pub(super) async fn list(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<SessionListQuery>,
) -> RouteResult {
    let all = query.all == Some(1);
    let extent = match query.limit {
        _ if all => ListingExtent::All,
        Some(most) => ListingExtent::AtMost(most),
        None => ListingExtent::LiveAnd(DEFAULT_LIMIT),
    };
    let SessionListQuery { role, state, project, .. } = query;
    let listing = Listing { role, state, project, extent };
    let appendix = daemon.health().await?.extra_fields();
    if all {
        return Ok(json_response(daemon.stream_sessions(&caller, listing, appendix).await?));
    }
    let listing = daemon.handle.sessions(listing).await?;
    Ok(json_response(listing_json(&listing, &appendix).into()))
}

/// Opens a session. The client can create the id itself, so that it knows the id before the request.
pub(super) async fn open(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<OpenSessionRequest>>,
) -> RouteResult {
    let spec: SessionSpec = serde_json::from_value(request.spec)
        .map_err(|why| bad_request(format!("the session's spec cannot be read: {why}")))?;
    let id = match request.id {
        Some(text) => text.parse::<SessionId>().map_err(|why| bad_request(why.to_string()))?,
        None => new_session_id(),
    };
    check_name(&spec.name)?;
    check_text(spec.instruction.as_deref().unwrap_or_default(), "instruction")?;
    let missing = spec
        .agent
        .pass_env
        .iter()
        .filter(|name| sender.daemon.world.environment.get(name).is_none());
    let warnings = missing.map(|name| {
        format!("{name} is not set in the daemon, so the agent will not have it; run `provost daemon stop` in a shell that sets it")
    });
    let warnings = warnings.collect();
    let ask = EngineRequest::Open { id, spec: Box::new(spec), warnings };
    sender.submit("open", ask).await
}

pub(super) async fn row(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
) -> RouteResult {
    Ok(Json(daemon.handle.session(session).await?).into_response())
}

pub(super) async fn why(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
) -> RouteResult {
    Ok(Json(daemon.handle.explain(session).await?).into_response())
}

pub(super) async fn send(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<SendRequest>>,
) -> RouteResult {
    check_text(&request.text, "text")?;
    let mode = if request.supersede { SendMode::Supersede } else { SendMode::Continue };
    let command =
        SessionCommand::Send { key: sender.message_key("send"), text: request.text, mode };
    sender.change_session("send", session, command).await
}

pub(super) async fn interrupt(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<InterruptRequest>>,
) -> RouteResult {
    if let Some(text) = &request.text {
        check_text(text, "text")?;
    }
    let command =
        SessionCommand::Interrupt { key: sender.message_key("leave"), text: request.text };
    sender.change_session("interrupt", session, command).await
}

pub(super) async fn compact(
    Path(session): Path<String>,
    OperatorCall { sender, .. }: OperatorCall<NoBody>,
) -> RouteResult {
    let command = SessionCommand::Compact { key: sender.message_key("compact") };
    sender.change_session("compact", session, command).await
}

pub(super) async fn stop(
    Path(session): Path<String>,
    OperatorCall { sender, .. }: OperatorCall<NoBody>,
) -> RouteResult {
    sender.change_session("stop", session, SessionCommand::Stop).await
}

pub(super) async fn take_over(
    Path(session): Path<String>,
    OperatorCall { sender, .. }: OperatorCall<NoBody>,
) -> RouteResult {
    sender.change_session("take-over", session, SessionCommand::TakeOver).await
}

pub(super) async fn cancel(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<CancelRequest>>,
) -> RouteResult {
    check_text(&request.because, "reason")?;
    let command = SessionCommand::Cancel { because: request.because };
    sender.change_session("cancel", session, command).await
}

pub(super) async fn resolve(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<ResolveRequest>>,
) -> RouteResult {
    check_text(&request.because, "reason")?;
    let to = match request.to.as_str() {
        "accepted" => ManualOutcome::Accepted,
        "failed" => ManualOutcome::Failed,
        "cancelled" => ManualOutcome::Cancelled,
        "succeeded" => {
            return Err(bad_request(
                "only a claim with a passed verdict can become succeeded; use accepted",
            )
            .into());
        }
        other => {
            let message =
                format!("unknown outcome \"{other}\"; expected accepted, failed or cancelled");
            return Err(bad_request(message).into());
        }
    };
    let command = SessionCommand::Resolve { to, because: request.because };
    sender.change_session("resolve", session, command).await
}

pub(super) async fn answer(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<AnswerRequest>>,
) -> RouteResult {
    let id = request
        .request
        .parse()
        .map_err(|why: provost_core::ids::ParseIdError| bad_request(why.to_string()))?;
    let revision = request.revision;
    let command = SessionCommand::Answer { request: id, revision, reply: reply(request)? };
    sender.change_session("answer", session, command).await
}

/// Converts the answer to a request, which must be given in exactly one form.
fn reply(given: AnswerRequest) -> Result<RequestReply, ApiError> {
    match (given.text, given.answers, given.decision) {
        (Some(text), None, None) => {
            check_text(&text, "answer")?;
            Ok(RequestReply::Text(text))
        }
        (None, Some(answers), None) => {
            answers.values().flatten().try_for_each(|text| check_text(text, "answer"))?;
            Ok(RequestReply::Answers(answers))
        }
        (None, None, Some(decision)) => Ok(match decision {
            ApprovalDecision::Approve => RequestReply::Approve(ApprovalScope::Once),
            ApprovalDecision::ApproveForSession => RequestReply::Approve(ApprovalScope::Session),
            ApprovalDecision::Deny => RequestReply::Deny,
        }),
        _ => Err(bad_request("an answer has exactly one of text, answers and decision".to_owned())),
    }
}

pub(super) async fn limit(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<LimitRequest>>,
) -> RouteResult {
    let LimitRequest { output, tokens, turns } = request;
    let budget = tokens.is_some() || turns.is_some();
    let command = match output {
        Some(_) if budget => {
            return Err(bad_request(
                "output and budget cannot be raised in one request; raise one after \
                    the other"
                    .to_owned(),
            )
            .into());
        }
        Some(bytes) => SessionCommand::RaiseLimit { bytes },
        None if budget => SessionCommand::RaiseBudget { tokens, turns },
        None => {
            return Err(
                bad_request("no limit given: expected output, tokens or turns".to_owned()).into()
            );
        }
    };
    let answer = sender.change_session("limit", session.clone(), command).await?;
    if let Some(bytes) = output {
        sender.daemon.raise_output_limit(session, bytes).await?;
    }
    Ok(answer)
}

pub(super) async fn rename(
    Path(session): Path<String>,
    OperatorCall { sender, body: JsonBody(RenameRequest { name }) }: OperatorCall<
        JsonBody<RenameRequest>,
    >,
) -> RouteResult {
    check_name(&name)?;
    sender.change_session("rename", session, SessionCommand::Rename { name }).await
}
