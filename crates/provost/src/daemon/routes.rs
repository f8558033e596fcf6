//! The routes of the API, and the engine requests behind them.

mod history;
mod runs;
mod tasks;

use std::time::Duration;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use provost_api::{
    AnswerRequest, ApiError, CallRequest, CancelRequest, Code, DaemonInfo, Decision, ErrorBody,
    IDEMPOTENCY_KEY, InterruptRequest, LimitRequest, OpenRequest, PROTOCOL, RenameRequest,
    ReportRequest, ResolveRequest, SendRequest, VerifyEnd, VerifyReply, VerifyRequest,
};
use provost_core::{
    ids::{LaunchId, SessionId},
    request::{Reply, Scope},
    session::{Command, Reporter, Resolve, SendMode, Spec},
    task::Call,
    verdict::CheckEnd,
};
use provost_engine::{
    report::{self, check_name, check_text},
    shell::{
        Ask, By, Extent, Listing, TaskAsk, VerifierCommand, blocking::blocking_request,
        run_verifier, unknown, watch,
    },
};
use provost_ledger::SqliteReader;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    gc,
    peer::{self, Peer},
    server::{Caller, Condition, Daemon},
    sse,
};

/// The maximum size of a request: a text for an agent, or a spec.
pub(super) const MAX_REQUEST: usize = 8 << 20;

type Answer = Result<Response, Refusal>;

/// An error response.
pub(crate) struct Refusal(ApiError);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Refusal(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorBody::from(self.0))).into_response()
    }
}

/// The JSON body of a request. An unreadable body is reported like every other error.
struct Given<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Given<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(Given(body)),
            Err(why) => {
                let most = MAX_REQUEST >> 20;
                let message = format!(
                    "the request cannot be read: {}; expected JSON of at most {most} MiB",
                    why.body_text()
                );
                Err(bad(message).next("provost help").into())
            }
        }
    }
}

/// The query parameters of a request. Unreadable ones are reported like every other error.
struct Wanted<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Wanted<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(wanted)) => Ok(Wanted(wanted)),
            Err(why) => {
                let message = format!("the parameters cannot be read: {}", why.body_text());
                Err(bad(message).next("provost help").into())
            }
        }
    }
}

pub(crate) fn router(daemon: Daemon) -> Router {
    Router::new()
        .route("/v1/daemon", get(info))
        .route("/v1/daemon/operator", get(operator))
        .route("/v1/daemon/stop", post(stop_daemon))
        .route("/v1/sessions", get(list).post(open))
        .route("/v1/sessions/{id}", get(row))
        .route("/v1/sessions/{id}/why", get(why))
        .route("/v1/sessions/{id}/send", post(send))
        .route("/v1/sessions/{id}/interrupt", post(interrupt))
        .route("/v1/sessions/{id}/compact", post(compact))
        .route("/v1/sessions/{id}/stop", post(stop))
        .route("/v1/sessions/{id}/cancel", post(cancel))
        .route("/v1/sessions/{id}/resolve", post(resolve))
        .route("/v1/sessions/{id}/answer", post(answer))
        .route("/v1/sessions/{id}/limit", post(limit))
        .route("/v1/sessions/{id}/rename", post(rename))
        .route("/v1/sessions/{id}/take-over", post(take_over))
        .route("/v1/runs", get(runs::list).post(runs::open))
        .route("/v1/runs/{id}", get(runs::row))
        .route("/v1/runs/{id}/graph", get(runs::graph))
        .route("/v1/runs/{id}/approve", post(runs::approve))
        .route("/v1/runs/{id}/reject", post(runs::reject))
        .route("/v1/runs/{id}/cancel", post(runs::cancel))
        .route("/v1/runs/{id}/resume", post(runs::resume))
        .route("/v1/runs/{id}/take-over", post(runs::take_over))
        .route("/v1/runs/{id}/limit", post(runs::limit))
        .route("/v1/tasks", get(tasks::list).post(tasks::open))
        .route("/v1/tasks/{id}", get(tasks::row))
        .route("/v1/tasks/{id}/messages", get(tasks::messages))
        .route("/v1/tasks/{id}/cycle", get(tasks::cycle))
        .route("/v1/tasks/{id}/wait", get(tasks::wait))
        .route("/v1/tasks/{id}/handoff", get(tasks::handoff))
        .route("/v1/tasks/{id}/do", post(tasks::act))
        .route("/v1/tasks/{id}/next", post(tasks::next))
        .route("/v1/pairs", post(tasks::pair))
        .route("/v1/reports", post(take_report))
        .route("/v1/calls", post(take_call))
        .route("/v1/events", get(events))
        .route("/v1/history/{id}", get(history::then))
        .route("/v1/tasks/{id}/replay", get(history::replay))
        .route("/v1/tasks/{id}/audit", get(history::audit))
        .route("/v1/search", get(history::search))
        .route("/v1/telemetry", get(history::telemetry))
        .route("/v1/verify", post(verify))
        .route("/v1/gc", post(collect))
        .route("/v1/ledger/archive", post(archive))
        .route("/v1/ledger/stop-unknown", post(stop_unknown))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::from_fn_with_state(daemon.clone(), super::server::admit))
        .with_state(daemon)
}

async fn nothing() -> Refusal {
    Refusal(ApiError::new(Code::NotFound, "there is no such path").next("provost help"))
}

async fn info(State(daemon): State<Daemon>, caller: Caller) -> Answer {
    let Condition { status, ledger_loss, unknown_holders } = daemon.condition().await?;
    let environment = match daemon.peer(&caller).await {
        Ok(Peer::Operator) => daemon.world.environment.names().map(str::to_owned).collect(),
        // Agents must not learn which variables the operator has set.
        Ok(_) | Err(_) => Vec::new(),
    };
    Ok(Json(DaemonInfo {
        ok: true,
        pid: std::process::id(),
        version: super::version(),
        protocol: PROTOCOL,
        socket: daemon.world.home.socket().display().to_string(),
        home: daemon.world.home.root().display().to_string(),
        read_only: status["read_only"].as_str().map(str::to_owned),
        ledger_loss,
        unknown_holders,
        live_sessions: status["live"].as_u64().unwrap_or(0) as usize,
        running_agents: status["agents"].as_u64().unwrap_or(0) as usize,
        shortages: serde_json::from_value(status["shortages"].clone()).unwrap_or_default(),
        environment,
    })
    .into_response())
}

/// Succeeds if the caller is the operator. Refuses an agent.
async fn operator(State(daemon): State<Daemon>, caller: Caller) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    Ok(Json(json!({"ok": true})).into_response())
}

/// Runs a verifier's command under a holder. The command is cancelled if the client disconnects.
async fn verify(
    State(daemon): State<Daemon>,
    caller: Caller,
    Given(request): Given<VerifyRequest>,
) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    let command = VerifierCommand {
        argv: request.argv,
        directory: request.directory.into(),
        environment: request.environment.into_iter().collect(),
        time_limit: Duration::from_millis(request.time_limit_ms),
        output_limit: request.output_limit,
    };
    // Held until the response is sent: dropping it cancels the command.
    let (_wanted, cancel) = tokio::sync::watch::channel(false);
    let (done, result) = tokio::sync::oneshot::channel();
    let (world, key) =
        (daemon.world.clone(), format!("verify-{}", super::server::new_session_id()));
    daemon.own(async move {
        done.send(run_verifier(&world, &key, command, cancel).await).ok();
    });
    let leaving = |_| ApiError::new(Code::Unreachable, "the daemon stops while a verifier runs");
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

/// The empty body is still read: closing a connection with unread bytes resets it, and the response
/// may be lost.
async fn stop_daemon(State(daemon): State<Daemon>, caller: Caller, _body: Bytes) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    let landing = daemon.world.checkouts.try_write().is_err();
    daemon.leaving.cancel();
    Ok(Json(json!({"ok": true, "landing": landing})).into_response())
}

#[derive(Debug, Deserialize)]
struct ListQuery {
    role: Option<String>,
    state: Option<String>,
    project: Option<String>,
    limit: Option<usize>,
    all: Option<u8>,
}

/// The default number of finished sessions in a listing.
const LISTED: usize = 50;

async fn list(
    State(daemon): State<Daemon>,
    caller: Caller,
    Wanted(query): Wanted<ListQuery>,
) -> Answer {
    let all = query.all == Some(1);
    let extent = match query.limit {
        _ if all => Extent::All,
        Some(most) => Extent::AtMost(most),
        None => Extent::LiveAnd(LISTED),
    };
    let ListQuery { role, state, project, .. } = query;
    let listing = Listing { role, state, project, extent };
    let appendix = daemon.condition().await?.appendix();
    if all {
        return Ok(raw(daemon.stream_all(&caller, listing, appendix).await?));
    }
    let mut text = daemon.handle.ask(Ask::List(listing), "operator", None).await?;
    if !appendix.is_empty() && text.ends_with('}') {
        text.truncate(text.len() - 1);
        text.push_str(&appendix);
        text.push('}');
    }
    Ok(raw(Body::from(text)))
}

/// Stops running processes that are not in the ledger.
async fn stop_unknown(State(daemon): State<Daemon>, caller: Caller, _body: Bytes) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    let (home, ledger) = (daemon.world.home.clone(), daemon.world.home.ledger());
    let found = blocking_request(move || {
        let reader = SqliteReader::open(&ledger).map_err(|why| unread(&why))?;
        unknown::survey(&home, &reader).map_err(|why| unread(&why))
    });
    let found = found.await?;
    let mut stopped = Vec::new();
    for holder in found.into_iter().filter(|holder| holder.alive) {
        unknown::stop(&daemon.world, &holder).await?;
        stopped.push(holder);
    }
    Ok(Json(json!({"ok": true, "stopped": stopped})).into_response())
}

fn unread(why: &dyn std::error::Error) -> ApiError {
    ApiError::new(Code::Storage, format!("cannot read the ledger: {why}"))
        .next("provost ledger verify")
}

/// Opens a session. The client may create the id, so that it knows the id before the request.
async fn open(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<OpenRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    peer.must_be_operator()?;
    let spec: Spec = serde_json::from_value(request.spec)
        .map_err(|why| bad(format!("the session's spec cannot be read: {why}")))?;
    let id = match request.id {
        Some(text) => text.parse::<SessionId>().map_err(|why| bad(why.to_string()))?,
        None => super::server::new_session_id(),
    };
    check_name(&spec.name)?;
    check_text(spec.instruction.as_deref().unwrap_or_default(), "instruction")?;
    let missing =
        spec.agent.pass_env.iter().filter(|name| daemon.world.environment.get(name).is_none());
    let warnings = missing.map(|name| {
        format!("{name} is not set in the daemon, so the agent will not have it; run `provost daemon stop` in a shell that sets it")
    });
    let warnings = warnings.collect();
    let ask = Ask::Open { id, spec: Box::new(spec), warnings };
    change(&daemon, &peer, &headers, "open", ask).await
}

async fn row(State(daemon): State<Daemon>, Path(session): Path<String>) -> Answer {
    Ok(raw(Body::from(daemon.handle.ask(Ask::Row { session }, "operator", None).await?)))
}

async fn why(State(daemon): State<Daemon>, Path(session): Path<String>) -> Answer {
    Ok(raw(Body::from(daemon.handle.ask(Ask::Why { session }, "operator", None).await?)))
}

async fn send(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<SendRequest>,
) -> Answer {
    check_text(&request.text, "text")?;
    let mode = if request.supersede { SendMode::Supersede } else { SendMode::Continue };
    let command = Command::Send { key: message_key("send", &headers), text: request.text, mode };
    operate(&daemon, &caller, &headers, session, "send", command).await
}

/// Returns the key of a message to an agent. The same request, sent twice, gets the same key.
fn message_key(what: &str, headers: &HeaderMap) -> String {
    let key = headers
        .get(IDEMPOTENCY_KEY)
        .and_then(|key| key.to_str().ok())
        .map_or_else(|| super::server::new_session_id().to_string(), str::to_owned);
    let key: String = key.chars().filter(char::is_ascii_graphic).take(100).collect();
    format!("{what}-{key}")
}

async fn interrupt(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<InterruptRequest>,
) -> Answer {
    if let Some(text) = &request.text {
        check_text(text, "text")?;
    }
    let command = Command::Interrupt { key: message_key("leave", &headers), text: request.text };
    operate(&daemon, &caller, &headers, session, "interrupt", command).await
}

async fn compact(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    _body: Bytes,
) -> Answer {
    let command = Command::Compact { key: message_key("compact", &headers) };
    operate(&daemon, &caller, &headers, session, "compact", command).await
}

async fn stop(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    _body: Bytes,
) -> Answer {
    operate(&daemon, &caller, &headers, session, "stop", Command::Stop).await
}

async fn take_over(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    _body: Bytes,
) -> Answer {
    operate(&daemon, &caller, &headers, session, "take-over", Command::TakeOver).await
}

async fn cancel(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<CancelRequest>,
) -> Answer {
    check_text(&request.because, "reason")?;
    let command = Command::Cancel { because: request.because };
    operate(&daemon, &caller, &headers, session, "cancel", command).await
}

async fn resolve(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<ResolveRequest>,
) -> Answer {
    check_text(&request.because, "reason")?;
    let to = match request.to.as_str() {
        "accepted" => Resolve::Accepted,
        "failed" => Resolve::Failed,
        "cancelled" => Resolve::Cancelled,
        "succeeded" => {
            return Err(bad(
                "only a claim with a passed verdict can become succeeded; use accepted",
            )
            .into());
        }
        other => {
            let message =
                format!("unknown outcome \"{other}\"; expected accepted, failed or cancelled");
            return Err(bad(message).into());
        }
    };
    let command = Command::Resolve { to, because: request.because };
    operate(&daemon, &caller, &headers, session, "resolve", command).await
}

async fn answer(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<AnswerRequest>,
) -> Answer {
    let id =
        request.request.parse().map_err(|why: provost_core::ids::BadId| bad(why.to_string()))?;
    let revision = request.revision;
    let command = Command::Answer { request: id, revision, reply: reply(request)? };
    operate(&daemon, &caller, &headers, session, "answer", command).await
}

/// Converts the answer to a request, which must have exactly one form.
fn reply(given: AnswerRequest) -> Result<Reply, ApiError> {
    match (given.text, given.answers, given.decision) {
        (Some(text), None, None) => {
            check_text(&text, "answer")?;
            Ok(Reply::Text(text))
        }
        (None, Some(answers), None) => {
            answers.values().flatten().try_for_each(|text| check_text(text, "answer"))?;
            Ok(Reply::Answers(answers))
        }
        (None, None, Some(decision)) => Ok(match decision {
            Decision::Approve => Reply::Approve(Scope::Once),
            Decision::ApproveForSession => Reply::Approve(Scope::Session),
            Decision::Deny => Reply::Deny,
        }),
        _ => Err(bad("an answer has exactly one of text, answers and decision".to_owned())),
    }
}

async fn limit(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<LimitRequest>,
) -> Answer {
    let LimitRequest { output, tokens, turns } = request;
    let budget = tokens.is_some() || turns.is_some();
    let command = match output {
        Some(_) if budget => {
            return Err(bad("raise output and budget one after the other".to_owned()).into());
        }
        Some(bytes) => Command::RaiseLimit { bytes },
        None if budget => Command::RaiseBudget { tokens, turns },
        None => return Err(bad("name a limit: output, tokens or turns".to_owned()).into()),
    };
    let answer = operate(&daemon, &caller, &headers, session.clone(), "limit", command).await?;
    if let Some(bytes) = output {
        daemon.raise_limit(session, bytes).await?;
    }
    Ok(answer)
}

async fn rename(
    State(daemon): State<Daemon>,
    Path(session): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(RenameRequest { name }): Given<RenameRequest>,
) -> Answer {
    check_name(&name)?;
    operate(&daemon, &caller, &headers, session, "rename", Command::Rename { name }).await
}

async fn take_report(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<ReportRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let launch =
        peer::reporter(&peer, &daemon.world, request.launch.as_deref(), request.token.as_deref())?;
    let from = launch.map_or(Reporter::Operator, Reporter::Launch);
    // A caller that proves to be a launch acts as that launch, whatever its process is.
    let speaker = launch.map_or(peer, Peer::Launch);
    if let (Some(hook), Some(launch)) = (&request.hook, launch) {
        return take_hook(&daemon, launch, hook, &headers).await;
    }
    let testimony = report::testimony(&request)?;
    let ask = Ask::Report { session: request.session, from, testimony };
    change(&daemon, &speaker, &headers, "report", ask).await
}

/// Handles a tool call. The launch is proved, and acts only as the member of its session.
async fn take_call(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<CallRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let launch = peer::reporter(&peer, &daemon.world, launch, token)?.ok_or_else(|| {
        let message = "only agents call tools; use the `provost task` commands";
        ApiError::new(Code::Forbidden, message).next("provost task --help")
    })?;
    check_text(&request.id, "id")?;
    let call: Call = serde_json::from_value(request.call)
        .map_err(|why| bad(format!("the call cannot be read: {why}")))?;
    let ask = Ask::Call { launch, native: request.id, call: Box::new(call) };
    change(&daemon, &Peer::Launch(launch), &headers, "call", ask).await
}

/// Handles a report of an agent's hook. The launch is proved, and reports only for itself.
async fn take_hook(daemon: &Daemon, launch: LaunchId, hook: &Value, headers: &HeaderMap) -> Answer {
    let given = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    let actor = format!("hook/{launch}");
    let key = format!("launch/{launch}/report/{given}");
    watch::take(&daemon.world, &daemon.handle, launch, hook, &actor, &key).await?;
    let row = daemon.handle.ask_json(Ask::Row { session: launch.session.to_string() }).await?;
    let row = &row["session"];
    let reply = json!({
        "ok": true, "standing": "recorded", "next": [],
        "id": row["id"], "state": row["state"], "sealed": row["sealed"],
    });
    Ok(Json(reply).into_response())
}

#[derive(Debug, Deserialize)]
struct EventQuery {
    since: Option<u64>,
    session: Option<String>,
    /// A run's events include those of its sessions.
    run: Option<String>,
    task: Option<String>,
    limit: Option<usize>,
    follow: Option<u8>,
}

async fn events(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Wanted(query): Wanted<EventQuery>,
) -> Answer {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let of = match (query.session, query.run, query.task) {
        (None, None, None) => sse::Of::All,
        (Some(session), None, None) => {
            let row = daemon.handle.ask_json(Ask::Row { session }).await?;
            sse::Of::One(row["session"]["id"].as_str().unwrap_or_default().to_owned())
        }
        (None, Some(run), None) => sse::Of::Run(runs::id(&daemon, run).await?),
        (None, None, Some(task)) => {
            let ask = TaskAsk::Row { task, by: By::Operator };
            let row = daemon.handle.ask_json(Ask::Task(ask)).await?;
            sse::Of::One(row["task"]["id"].as_str().unwrap_or_default().to_owned())
        }
        (..) => return Err(bad("name exactly one session, run or task").into()),
    };
    let wanted = sse::Wanted { after: last.or(query.since).unwrap_or(0), of };
    if query.follow == Some(1) {
        let (body, pump) = sse::follow(&daemon, &caller, wanted);
        daemon.own(pump);
        return Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response());
    }
    let limit = sse::Page { rows: query.limit.unwrap_or(1_000).min(100_000), bytes: sse::ANSWER };
    let ledger = daemon.world.home.ledger();
    let turn = daemon.read_turn(&caller).await?;
    let read = blocking_request(move || {
        let _turn = turn;
        sse::read(&ledger, &wanted, limit)
    });
    let found = read.await?;
    let (last, more) = (found.last, found.is_full);
    Ok(Json(json!({"ok": true, "events": found.rows, "last": last, "more": more})).into_response())
}

#[derive(Debug, Deserialize)]
struct AgeRequest {
    #[serde(default)]
    apply: bool,
    older_than_ms: Option<i64>,
}

/// The default age at which closed sessions are collected.
const KEEP_MS: i64 = 30 * 24 * 3_600 * 1_000;

#[derive(Debug, Deserialize)]
struct CollectRequest {
    #[serde(default)]
    apply: bool,
    older_than_ms: Option<i64>,
    /// Limits the collection to these runs.
    runs: Option<Vec<String>>,
}

async fn collect(
    State(daemon): State<Daemon>,
    caller: Caller,
    Given(request): Given<CollectRequest>,
) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    let CollectRequest { apply, older_than_ms, runs } = request;
    let loss = daemon.condition().await?.ledger_loss;
    if apply && let Some(loss) = loss {
        let message = format!("nothing is removed: {loss}");
        return Err(ApiError::new(Code::Storage, message).next("provost ledger recover").into());
    }
    let wanted = gc::Wanted { apply, older_than_ms: older_than_ms.unwrap_or(KEEP_MS), runs };
    Ok(Json(gc::collect(&daemon, &wanted).await?).into_response())
}

async fn archive(
    State(daemon): State<Daemon>,
    caller: Caller,
    Given(request): Given<AgeRequest>,
) -> Answer {
    daemon.peer(&caller).await?.must_be_operator()?;
    let before_wall_ms =
        super::server::wall_ms().saturating_sub(request.older_than_ms.unwrap_or(KEEP_MS));
    let ask = Ask::Archive { before_wall_ms, apply: request.apply };
    Ok(raw(Body::from(daemon.handle.ask(ask, "operator", None).await?)))
}

/// Sends an operator's command for a session to the engine.
async fn operate(
    daemon: &Daemon,
    caller: &Caller,
    headers: &HeaderMap,
    session: String,
    what: &str,
    command: Command,
) -> Answer {
    let peer = daemon.peer(caller).await?;
    peer.must_be_operator()?;
    change(daemon, &peer, headers, what, Ask::Do { session, command }).await
}

async fn change(daemon: &Daemon, peer: &Peer, headers: &HeaderMap, what: &str, ask: Ask) -> Answer {
    let key = match headers.get(IDEMPOTENCY_KEY) {
        None => None,
        Some(key) => Some(idempotency_key(key.to_str().unwrap_or_default(), peer, what)?),
    };
    let answer = daemon.handle.ask(ask, &peer.actor(), key).await;
    Ok(raw(Body::from(answer.map_err(|why| said_to(daemon, peer, why))?)))
}

/// Completes the hints for an agent, which may have neither Provost on its path nor our home in its
/// environment.
fn said_to(daemon: &Daemon, peer: &Peer, mut error: ApiError) -> ApiError {
    if matches!(peer, Peer::Launch(_)) {
        let caller = daemon.world.caller();
        error.next = error.next.iter().map(|next| caller.says(next)).collect();
    }
    error
}

/// Scopes a key to its caller and the kind of change, so that the keys of launches do not collide.
fn idempotency_key(key: &str, peer: &Peer, what: &str) -> Result<String, ApiError> {
    if (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(format!("{}/{what}/{key}", peer.actor()))
    } else {
        Err(bad("an idempotency key has 1 to 200 visible characters"))
    }
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::BadRequest, message)
}

fn raw(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
