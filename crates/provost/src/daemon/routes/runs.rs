//! Routes for runs.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use provost_api::{
    ApiError, ApproveRunRequest, CancelRequest, ErrorCode, LimitRequest, OpenRunRequest,
    RejectRunRequest,
};
use provost_core::{
    ids::{CommitId, RunId},
    run::{RunCommand, RunSpec},
};
use provost_engine::{
    report::{check_name, check_text},
    shell::EngineRequest,
};
use serde::Deserialize;

use super::request::{
    DEFAULT_LIMIT, JsonBody, NoBody, OperatorCall, QueryParams, RouteResult, bad_request,
    list_response,
};
use crate::daemon::server::DaemonServer;

/// The maximum size of a run's spec, in bytes.
const MAX_SPEC: usize = 512 << 10;

/// Opens a run. The client creates the id, so that it knows the id before the request.
pub(super) async fn open(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<OpenRunRequest>>,
) -> RouteResult {
    let id = request.id.parse::<RunId>().map_err(|why| bad_request(why.to_string()))?;
    let spec: RunSpec = serde_json::from_value(request.spec)
        .map_err(|why| bad_request(format!("the run's spec cannot be read: {why}")))?;
    check_name(&spec.name)?;
    check_text(&spec.goal, "goal")?;
    if spec.spec.as_ref().is_some_and(|text| text.len() > MAX_SPEC) {
        return Err(bad_request(format!("the spec is longer than {MAX_SPEC} bytes")).into());
    }
    sender.submit("open-run", EngineRequest::OpenRun { id, spec: Box::new(spec) }).await
}

#[derive(Debug, Deserialize)]
pub(super) struct RunListQuery {
    /// The maximum number of finished runs.
    limit: Option<usize>,
}

pub(super) async fn list(
    State(daemon): State<DaemonServer>,
    QueryParams(query): QueryParams<RunListQuery>,
) -> RouteResult {
    let listed = daemon.handle.runs(query.limit.unwrap_or(DEFAULT_LIMIT)).await?;
    Ok(list_response("runs", &listed))
}

pub(super) async fn row(
    State(daemon): State<DaemonServer>,
    Path(run): Path<String>,
) -> RouteResult {
    Ok(Json(daemon.handle.run(run).await?).into_response())
}

pub(super) async fn cancel(
    Path(run): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<CancelRequest>>,
) -> RouteResult {
    check_text(&request.because, "reason")?;
    let command = RunCommand::Cancel { because: request.because };
    sender.change_run("cancel-run", run, command).await
}

pub(super) async fn take_over(
    Path(run): Path<String>,
    OperatorCall { sender, .. }: OperatorCall<NoBody>,
) -> RouteResult {
    sender.change_run("take-over-run", run, RunCommand::TakeOver).await
}

pub(super) async fn graph(
    State(daemon): State<DaemonServer>,
    Path(run): Path<String>,
) -> RouteResult {
    Ok(Json(daemon.handle.run_graph(run).await?).into_response())
}

pub(super) async fn approve(
    Path(run): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<ApproveRunRequest>>,
) -> RouteResult {
    let (what, command) = match request.landing {
        Some(commit) => {
            ("approve-landing", RunCommand::ApproveLanding { commit: CommitId(commit) })
        }
        None => ("approve-plan", RunCommand::ApprovePlan),
    };
    sender.change_run(what, run, command).await
}

pub(super) async fn reject(
    Path(run): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<RejectRunRequest>>,
) -> RouteResult {
    check_text(&request.because, "reason")?;
    let RejectRunRequest { because, landing } = request;
    let (what, command) = match landing {
        Some(commit) => {
            ("reject-landing", RunCommand::RejectLanding { commit: CommitId(commit), because })
        }
        None => ("reject-plan", RunCommand::RejectPlan { because }),
    };
    sender.change_run(what, run, command).await
}

pub(super) async fn resume(
    Path(run): Path<String>,
    OperatorCall { sender, .. }: OperatorCall<NoBody>,
) -> RouteResult {
    sender.change_run("resume-run", run, RunCommand::Resume).await
}

pub(super) async fn limit(
    Path(run): Path<String>,
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<LimitRequest>>,
) -> RouteResult {
    let LimitRequest { output, tokens, turns } = request;
    if output.is_some() {
        let message = "the output limit applies to a session: name a session instead of a run";
        return Err(bad_request(message).next(format!("provost status {run}")).into());
    }
    if tokens.is_none() && turns.is_none() {
        return Err(bad_request("no limit given: expected tokens or turns").into());
    }
    let command = RunCommand::RaiseBudget { tokens, turns };
    sender.change_run("limit-run", run, command).await
}

/// Resolves the id of a run.
pub(super) async fn resolve_id(daemon: &DaemonServer, run: String) -> Result<RunId, ApiError> {
    let row = daemon.handle.run(run).await?.run;
    row.id.parse().map_err(|why: provost_core::ids::ParseIdError| {
        ApiError::new(ErrorCode::Internal, why.to_string())
    })
}
