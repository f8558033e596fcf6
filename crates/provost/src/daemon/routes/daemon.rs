//! Routes for the daemon itself: its state, names, verifiers, removal and archiving.

use std::time::Duration;

use axum::{Json, extract::State, response::IntoResponse};
use provost_api::{
    ApiError, ArchiveRequest, DaemonInfo, ErrorCode, GcRequest, LookupReply, OkReply, PROTOCOL,
    StopDaemonReply, StopUnknownReply, VerifyEnd, VerifyReply, VerifyRequest,
};
use provost_core::verdict::CheckEnd;
use provost_engine::shell::{
    VerifierCommand, blocking::blocking_request, run_verifier, unknown_holders,
};
use provost_ledger::SqliteReader;
use serde::Deserialize;

use super::{
    request::{JsonBody, NoBody, OperatorCall, QueryParams, RouteResult},
    teams,
};
use crate::daemon::{
    gc,
    peer::CallerIdentity,
    server::{ApiCaller, DaemonHealth, DaemonServer, new_session_id, wall_ms},
    version,
};

pub(super) async fn info(State(daemon): State<DaemonServer>, caller: ApiCaller) -> RouteResult {
    Ok(Json(daemon_info(&daemon, &caller).await?).into_response())
}

#[derive(Debug, Deserialize)]
pub(super) struct LookupQuery {
    name: String,
}

/// Returns what a name refers to. The reply describes the daemon as well, so that a command can
/// begin with this request.
pub(super) async fn look_up(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<LookupQuery>,
) -> RouteResult {
    let info = daemon_info(&daemon, &caller).await?;
    let by = teams::identify_reader(&daemon, &caller, &teams::CallerQuery::default()).await?;
    let found = daemon.handle.look_up(query.name, by).await?;
    Ok(Json(LookupReply { ok: true, daemon: info, found }).into_response())
}

async fn daemon_info(daemon: &DaemonServer, caller: &ApiCaller) -> Result<DaemonInfo, ApiError> {
    let DaemonHealth { status, unknown_holders } = daemon.health().await?;
    let environment = match daemon.identify(caller).await {
        Ok(CallerIdentity::Operator) => {
            daemon.world.environment.names().map(str::to_owned).collect()
        }
        // Agents must not learn which variables the operator has set.
        Ok(_) | Err(_) => Vec::new(),
    };
    Ok(DaemonInfo {
        ok: true,
        pid: std::process::id(),
        version: version(),
        protocol: PROTOCOL,
        socket: daemon.world.home.socket().display().to_string(),
        home: daemon.world.home.root().display().to_string(),
        read_only: status.read_only,
        ledger_loss: status.ledger_loss,
        unknown_holders,
        live_sessions: status.live_sessions,
        running_agents: status.running_agents,
        shortages: status.shortages,
        environment,
    })
}

/// Succeeds if the caller is the operator, and fails if it is an agent.
pub(super) async fn operator(State(daemon): State<DaemonServer>, caller: ApiCaller) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
    Ok(Json(OkReply { ok: true }).into_response())
}

/// Runs a verifier's command under a holder. If the client disconnects, the command is cancelled.
pub(super) async fn verify(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<VerifyRequest>>,
) -> RouteResult {
    let daemon = sender.daemon;
    let command = VerifierCommand {
        argv: request.argv,
        directory: request.directory.into(),
        environment: request.environment.into_iter().collect(),
        time_limit: Duration::from_millis(request.time_limit_ms),
        output_limit: request.output_limit,
    };
    // The sender is kept until the response is sent, because dropping it cancels the command.
    let (_wanted, cancel) = tokio::sync::watch::channel(false);
    let (done, result) = tokio::sync::oneshot::channel();
    let (world, key) = (daemon.world.clone(), format!("verify-{}", new_session_id()));
    daemon.spawn_owned(async move {
        done.send(run_verifier(&world, &key, command, cancel).await).ok();
    });
    let leaving =
        |_| ApiError::new(ErrorCode::Unreachable, "the daemon stopped during the verification");
    let ended = result.await.map_err(leaving)?;
    let end = match ended.end {
        CheckEnd::Exit(code) => VerifyEnd::Exit(code),
        CheckEnd::Signal(signal) => VerifyEnd::Signal(signal),
        CheckEnd::TimeLimit => VerifyEnd::TimeLimit,
        CheckEnd::OutputLimit => VerifyEnd::OutputLimit,
        CheckEnd::Unfinished(why) => VerifyEnd::Unfinished(why),
    };
    Ok(Json(VerifyReply { ok: true, end, printed: ended.printed }).into_response())
}

/// Stops the daemon.
pub(super) async fn stop_daemon(OperatorCall { sender, .. }: OperatorCall<NoBody>) -> RouteResult {
    let daemon = sender.daemon;
    let landing = daemon.world.checkouts.try_write().is_err();
    daemon.leaving.cancel();
    Ok(Json(StopDaemonReply { ok: true, landing }).into_response())
}

/// Stops running processes that are not in the ledger.
pub(super) async fn stop_unknown(OperatorCall { sender, .. }: OperatorCall<NoBody>) -> RouteResult {
    let daemon = sender.daemon;
    let (home, ledger) = (daemon.world.home.clone(), daemon.world.home.ledger());
    let found = blocking_request(move || {
        let reader = SqliteReader::open(&ledger).map_err(|why| ledger_error(&why))?;
        unknown_holders::survey(&home, &reader).map_err(|why| ledger_error(&why))
    });
    let found = found.await?;
    let mut stopped = Vec::new();
    for holder in found.into_iter().filter(|holder| holder.alive) {
        unknown_holders::stop(&daemon.world.home, &daemon.world.holders, &holder).await?;
        stopped.push(holder);
    }
    Ok(Json(StopUnknownReply { ok: true, stopped }).into_response())
}

fn ledger_error(why: &dyn std::error::Error) -> ApiError {
    ApiError::new(ErrorCode::Storage, format!("cannot read the ledger: {why}"))
        .next("provost ledger verify")
}

/// The default age after which the data of closed sessions is collected.
const DEFAULT_KEEP_MS: i64 = 30 * 24 * 3_600 * 1_000;

pub(super) async fn collect(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<GcRequest>>,
) -> RouteResult {
    let daemon = sender.daemon;
    let GcRequest { apply, older_than_ms, runs } = request;
    let loss = daemon.health().await?.status.ledger_loss;
    if apply && let Some(loss) = loss {
        let message = format!("nothing is removed: {loss}");
        return Err(ApiError::new(ErrorCode::Storage, message)
            .next("provost ledger recover")
            .into());
    }
    let wanted =
        gc::GcScope { apply, older_than_ms: older_than_ms.unwrap_or(DEFAULT_KEEP_MS), runs };
    Ok(Json(gc::collect(&daemon, &wanted).await?).into_response())
}

pub(super) async fn archive(
    OperatorCall { sender, body: JsonBody(request) }: OperatorCall<JsonBody<ArchiveRequest>>,
) -> RouteResult {
    let daemon = sender.daemon;
    let before_wall_ms = wall_ms().saturating_sub(request.older_than_ms.unwrap_or(DEFAULT_KEEP_MS));
    Ok(Json(daemon.handle.archive(before_wall_ms, request.apply).await?).into_response())
}
