//! Routes for runs.

use axum::{
    body::{Body, Bytes},
    extract::{Path, State},
    http::HeaderMap,
};
use provost_api::{
    ApiError, ApproveRunRequest, CancelRequest, Code, LimitRequest, OpenRunRequest,
    RejectRunRequest,
};
use provost_core::{
    ids::{CommitId, RunId},
    run::{Command, RunSpec},
};
use provost_engine::{
    report::{check_name, check_text},
    shell::Ask,
};
use serde::Deserialize;

use super::{Answer, Caller, Daemon, Given, LISTED, Wanted, bad, change, raw};

/// The maximum size of a run's spec, in bytes.
const MAX_SPEC: usize = 512 << 10;

/// Opens a run. The client creates the id, so that it knows the id before the request.
pub(super) async fn open(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<OpenRunRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    peer.must_be_operator()?;
    let id = request.id.parse::<RunId>().map_err(|why| bad(why.to_string()))?;
    let spec: RunSpec = serde_json::from_value(request.spec)
        .map_err(|why| bad(format!("the run's spec cannot be read: {why}")))?;
    check_name(&spec.name)?;
    check_text(&spec.goal, "goal")?;
    if spec.spec.as_ref().is_some_and(|text| text.len() > MAX_SPEC) {
        return Err(bad(format!("the spec is longer than {MAX_SPEC} bytes")).into());
    }
    change(&daemon, &peer, &headers, "open-run", Ask::OpenRun { id, spec: Box::new(spec) }).await
}

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    /// The maximum number of finished runs.
    limit: Option<usize>,
}

pub(super) async fn list(State(daemon): State<Daemon>, Wanted(query): Wanted<ListQuery>) -> Answer {
    let ask = Ask::Runs { limit: query.limit.unwrap_or(LISTED) };
    Ok(raw(Body::from(daemon.handle.ask(ask, "operator", None).await?)))
}

pub(super) async fn row(State(daemon): State<Daemon>, Path(run): Path<String>) -> Answer {
    Ok(raw(Body::from(daemon.handle.ask(Ask::RunRow { run }, "operator", None).await?)))
}

pub(super) async fn cancel(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<CancelRequest>,
) -> Answer {
    check_text(&request.because, "reason")?;
    let command = Command::Cancel { because: request.because };
    operate(&daemon, &caller, &headers, run, "cancel-run", command).await
}

pub(super) async fn take_over(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    _body: Bytes,
) -> Answer {
    operate(&daemon, &caller, &headers, run, "take-over-run", Command::TakeOver).await
}

pub(super) async fn graph(State(daemon): State<Daemon>, Path(run): Path<String>) -> Answer {
    Ok(raw(Body::from(daemon.handle.ask(Ask::Graph { run }, "operator", None).await?)))
}

pub(super) async fn approve(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<ApproveRunRequest>,
) -> Answer {
    let (what, command) = match request.landing {
        Some(commit) => ("approve-landing", Command::ApproveLanding { commit: CommitId(commit) }),
        None => ("approve-plan", Command::ApprovePlan),
    };
    operate(&daemon, &caller, &headers, run, what, command).await
}

pub(super) async fn reject(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<RejectRunRequest>,
) -> Answer {
    check_text(&request.because, "reason")?;
    let RejectRunRequest { because, landing } = request;
    let (what, command) = match landing {
        Some(commit) => {
            ("reject-landing", Command::RejectLanding { commit: CommitId(commit), because })
        }
        None => ("reject-plan", Command::RejectPlan { because }),
    };
    operate(&daemon, &caller, &headers, run, what, command).await
}

/// The empty body is still read, see `stop_daemon`.
pub(super) async fn resume(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    _body: Bytes,
) -> Answer {
    operate(&daemon, &caller, &headers, run, "resume-run", Command::Resume).await
}

pub(super) async fn limit(
    State(daemon): State<Daemon>,
    Path(run): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<LimitRequest>,
) -> Answer {
    let LimitRequest { output, tokens, turns } = request;
    if output.is_some() {
        let message = "the output limit is per session: name a session instead of a run";
        return Err(bad(message).next(format!("provost status {run}")).into());
    }
    if tokens.is_none() && turns.is_none() {
        return Err(bad("name a limit: tokens or turns").into());
    }
    let command = Command::RaiseBudget { tokens, turns };
    operate(&daemon, &caller, &headers, run, "limit-run", command).await
}

/// Resolves the id of a run.
pub(super) async fn id(daemon: &Daemon, run: String) -> Result<RunId, ApiError> {
    let row = daemon.handle.ask_json(Ask::RunRow { run }).await?;
    let id = row["run"]["id"].as_str().unwrap_or_default().parse();
    id.map_err(|why: provost_core::ids::BadId| ApiError::new(Code::Internal, why.to_string()))
}

/// Sends an operator's command for a run to the engine.
async fn operate(
    daemon: &Daemon,
    caller: &Caller,
    headers: &HeaderMap,
    run: String,
    what: &str,
    command: Command,
) -> Answer {
    let peer = daemon.peer(caller).await?;
    peer.must_be_operator()?;
    change(daemon, &peer, headers, what, Ask::DoRun { run, command }).await
}
