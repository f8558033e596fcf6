//! The routes of the API, and the engine requests that they make.

mod history;
mod runs;
mod teams;

use std::time::Duration;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State},
    handler::Handler,
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use provost_api::{
    AnswerRequest, ApiError, ApprovalDecision, ArchiveRequest, CallRequest, CancelRequest,
    DaemonInfo, ErrorBody, ErrorCode, EventsReply, GcRequest, Hint, IDEMPOTENCY_KEY,
    InterruptRequest, LimitRequest, LookupReply, OkReply, OpenSessionRequest, PROTOCOL,
    RenameRequest, ReportReply, ReportRequest, ResolveRequest, SendRequest, SessionRow,
    StopDaemonReply, StopUnknownReply, VerifyEnd, VerifyReply, VerifyRequest,
};
use provost_core::{
    ids::{LaunchId, SessionId},
    request::{ApprovalScope, RequestReply},
    session::{ManualOutcome, Reporter, SendMode, SessionCommand, SessionSpec},
    team::MemberCall,
    verdict::CheckEnd,
};
use provost_engine::{
    report::{self, check_name, check_text},
    shell::{
        EngineRequest, ListedRows, Listing, ListingExtent, TeamCaller, VerifierCommand,
        blocking::blocking_request, run_verifier, unknown_holders, watch,
    },
};
use provost_ledger::SqliteReader;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    gc,
    peer::{self, CallerIdentity},
    server::{ApiCaller, DaemonHealth, DaemonServer},
    sse,
};

/// The maximum size of a request in bytes. The largest requests are specs and texts for agents.
pub(super) const MAX_REQUEST: usize = 8 << 20;

type RouteResult = Result<Response, ErrorResponse>;

/// An error response.
pub(crate) struct ErrorResponse(ApiError);

impl From<ApiError> for ErrorResponse {
    fn from(error: ApiError) -> Self {
        ErrorResponse(error)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorBody::from(self.0))).into_response()
    }
}

/// The JSON body of a request. A parse error is reported like every other error.
struct JsonBody<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorResponse> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(JsonBody(body)),
            Err(why) => {
                let most = MAX_REQUEST >> 20;
                let message = format!(
                    "the request cannot be read: {}; expected JSON of at most {most} MiB",
                    why.body_text()
                );
                Err(bad_request(message).next("provost help").into())
            }
        }
    }
}

/// The query parameters of a request. A parse error is reported like every other error.
struct QueryParams<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(wanted)) => Ok(QueryParams(wanted)),
            Err(why) => {
                let message = format!("the parameters cannot be read: {}", why.body_text());
                Err(bad_request(message).next("provost help").into())
            }
        }
    }
}

/// The routes of the router, which must be those of the API.
#[derive(Default)]
struct RouteTable {
    router: Router<DaemonServer>,
    paths: Vec<(&'static str, &'static str)>,
}

impl RouteTable {
    fn get<T: 'static>(mut self, path: &'static str, to: impl Handler<T, DaemonServer>) -> Self {
        self.paths.push(("GET", path));
        RouteTable { router: self.router.route(path, get(to)), ..self }
    }

    fn post<T: 'static>(mut self, path: &'static str, to: impl Handler<T, DaemonServer>) -> Self {
        self.paths.push(("POST", path));
        RouteTable { router: self.router.route(path, post(to)), ..self }
    }
}

pub(crate) fn router(daemon: DaemonServer) -> Router {
    routes()
        .router
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .layer(axum::middleware::from_fn_with_state(daemon.clone(), super::server::admit))
        .with_state(daemon)
}

fn routes() -> RouteTable {
    RouteTable::default()
        .get("/v1/daemon", info)
        .get("/v1/daemon/operator", operator)
        .get("/v1/lookup", look_up)
        .post("/v1/daemon/stop", stop_daemon)
        .get("/v1/sessions", list)
        .post("/v1/sessions", open)
        .get("/v1/sessions/{id}", row)
        .get("/v1/sessions/{id}/why", why)
        .post("/v1/sessions/{id}/send", send)
        .post("/v1/sessions/{id}/interrupt", interrupt)
        .post("/v1/sessions/{id}/compact", compact)
        .post("/v1/sessions/{id}/stop", stop)
        .post("/v1/sessions/{id}/cancel", cancel)
        .post("/v1/sessions/{id}/resolve", resolve)
        .post("/v1/sessions/{id}/answer", answer)
        .post("/v1/sessions/{id}/limit", limit)
        .post("/v1/sessions/{id}/rename", rename)
        .post("/v1/sessions/{id}/take-over", take_over)
        .get("/v1/runs", runs::list)
        .post("/v1/runs", runs::open)
        .get("/v1/runs/{id}", runs::row)
        .get("/v1/runs/{id}/graph", runs::graph)
        .post("/v1/runs/{id}/approve", runs::approve)
        .post("/v1/runs/{id}/reject", runs::reject)
        .post("/v1/runs/{id}/cancel", runs::cancel)
        .post("/v1/runs/{id}/resume", runs::resume)
        .post("/v1/runs/{id}/take-over", runs::take_over)
        .post("/v1/runs/{id}/limit", runs::limit)
        .get("/v1/teams", teams::list)
        .post("/v1/teams", teams::open)
        .get("/v1/teams/{id}", teams::row)
        .get("/v1/teams/{id}/messages", teams::messages)
        .get("/v1/teams/{id}/cycle", teams::cycle)
        .get("/v1/teams/{id}/wait", teams::wait)
        .get("/v1/teams/{id}/handoff", teams::handoff)
        .post("/v1/teams/{id}/do", teams::command)
        .post("/v1/teams/{id}/next", teams::next)
        .post("/v1/pairs", teams::pair)
        .post("/v1/reports", take_report)
        .post("/v1/calls", take_call)
        .get("/v1/events", events)
        .get("/v1/history/{id}", history::as_of)
        .get("/v1/teams/{id}/replay", history::replay)
        .get("/v1/teams/{id}/audit", history::audit)
        .get("/v1/search", history::search)
        .get("/v1/telemetry", history::telemetry)
        .post("/v1/verify", verify)
        .post("/v1/gc", collect)
        .post("/v1/ledger/archive", archive)
        .post("/v1/ledger/stop-unknown", stop_unknown)
}

async fn not_found() -> ErrorResponse {
    ErrorResponse(ApiError::new(ErrorCode::NotFound, "there is no such path").next("provost help"))
}

async fn info(State(daemon): State<DaemonServer>, caller: ApiCaller) -> RouteResult {
    Ok(Json(daemon_info(&daemon, &caller).await?).into_response())
}

#[derive(Debug, Deserialize)]
struct LookupQuery {
    name: String,
}

/// Returns what a name refers to. The reply describes the daemon as well, so that a command can
/// begin with this request.
async fn look_up(
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
        version: super::version(),
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
async fn operator(State(daemon): State<DaemonServer>, caller: ApiCaller) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
    Ok(Json(OkReply { ok: true }).into_response())
}

/// Runs a verifier's command under a holder. If the client disconnects, the command is cancelled.
async fn verify(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    JsonBody(request): JsonBody<VerifyRequest>,
) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
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
    let (world, key) =
        (daemon.world.clone(), format!("verify-{}", super::server::new_session_id()));
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

/// Stops the daemon. The empty body is read anyway, because closing a connection with unread bytes
/// resets it, and the response might be lost.
async fn stop_daemon(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    _body: Bytes,
) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
    let landing = daemon.world.checkouts.try_write().is_err();
    daemon.leaving.cancel();
    Ok(Json(StopDaemonReply { ok: true, landing }).into_response())
}

#[derive(Debug, Deserialize)]
struct SessionListQuery {
    role: Option<String>,
    state: Option<String>,
    project: Option<String>,
    limit: Option<usize>,
    all: Option<u8>,
}

/// The default number of finished sessions in a listing.
const DEFAULT_LIMIT: usize = 50;

async fn list(
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
    Ok(json_response(super::server::listing_json(&listing, &appendix).into()))
}

/// Stops running processes that are not in the ledger.
async fn stop_unknown(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    _body: Bytes,
) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
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

/// Opens a session. The client can create the id itself, so that it knows the id before the request.
async fn open(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<OpenSessionRequest>,
) -> RouteResult {
    let peer = daemon.identify(&caller).await?;
    peer.must_be_operator()?;
    let spec: SessionSpec = serde_json::from_value(request.spec)
        .map_err(|why| bad_request(format!("the session's spec cannot be read: {why}")))?;
    let id = match request.id {
        Some(text) => text.parse::<SessionId>().map_err(|why| bad_request(why.to_string()))?,
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
    let ask = EngineRequest::Open { id, spec: Box::new(spec), warnings };
    submit(&daemon, &peer, &headers, "open", ask).await
}

async fn row(State(daemon): State<DaemonServer>, Path(session): Path<String>) -> RouteResult {
    Ok(Json(daemon.handle.session(session).await?).into_response())
}

async fn why(State(daemon): State<DaemonServer>, Path(session): Path<String>) -> RouteResult {
    Ok(Json(daemon.handle.explain(session).await?).into_response())
}

async fn send(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<SendRequest>,
) -> RouteResult {
    check_text(&request.text, "text")?;
    let mode = if request.supersede { SendMode::Supersede } else { SendMode::Continue };
    let command =
        SessionCommand::Send { key: message_key("send", &headers), text: request.text, mode };
    submit_as_operator(&daemon, &caller, &headers, session, "send", command).await
}

/// Returns the key of a message to an agent. A repeated request gets the same key.
fn message_key(what: &str, headers: &HeaderMap) -> String {
    let key = headers
        .get(IDEMPOTENCY_KEY)
        .and_then(|key| key.to_str().ok())
        .map_or_else(|| super::server::new_session_id().to_string(), str::to_owned);
    let key: String = key.chars().filter(char::is_ascii_graphic).take(100).collect();
    format!("{what}-{key}")
}

async fn interrupt(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<InterruptRequest>,
) -> RouteResult {
    if let Some(text) = &request.text {
        check_text(text, "text")?;
    }
    let command =
        SessionCommand::Interrupt { key: message_key("leave", &headers), text: request.text };
    submit_as_operator(&daemon, &caller, &headers, session, "interrupt", command).await
}

async fn compact(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    _body: Bytes,
) -> RouteResult {
    let command = SessionCommand::Compact { key: message_key("compact", &headers) };
    submit_as_operator(&daemon, &caller, &headers, session, "compact", command).await
}

async fn stop(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    _body: Bytes,
) -> RouteResult {
    submit_as_operator(&daemon, &caller, &headers, session, "stop", SessionCommand::Stop).await
}

async fn take_over(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    _body: Bytes,
) -> RouteResult {
    submit_as_operator(&daemon, &caller, &headers, session, "take-over", SessionCommand::TakeOver)
        .await
}

async fn cancel(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CancelRequest>,
) -> RouteResult {
    check_text(&request.because, "reason")?;
    let command = SessionCommand::Cancel { because: request.because };
    submit_as_operator(&daemon, &caller, &headers, session, "cancel", command).await
}

async fn resolve(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ResolveRequest>,
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
    submit_as_operator(&daemon, &caller, &headers, session, "resolve", command).await
}

async fn answer(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<AnswerRequest>,
) -> RouteResult {
    let id = request
        .request
        .parse()
        .map_err(|why: provost_core::ids::ParseIdError| bad_request(why.to_string()))?;
    let revision = request.revision;
    let command = SessionCommand::Answer { request: id, revision, reply: reply(request)? };
    submit_as_operator(&daemon, &caller, &headers, session, "answer", command).await
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

async fn limit(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<LimitRequest>,
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
    let answer =
        submit_as_operator(&daemon, &caller, &headers, session.clone(), "limit", command).await?;
    if let Some(bytes) = output {
        daemon.raise_output_limit(session, bytes).await?;
    }
    Ok(answer)
}

async fn rename(
    State(daemon): State<DaemonServer>,
    Path(session): Path<String>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(RenameRequest { name }): JsonBody<RenameRequest>,
) -> RouteResult {
    check_name(&name)?;
    submit_as_operator(
        &daemon,
        &caller,
        &headers,
        session,
        "rename",
        SessionCommand::Rename { name },
    )
    .await
}

async fn take_report(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<ReportRequest>,
) -> RouteResult {
    let peer = daemon.identify(&caller).await?;
    let launch = peer::verify_reporter(
        &peer,
        &daemon.world,
        request.launch.as_deref(),
        request.token.as_deref(),
    )?;
    let from = launch.map_or(Reporter::Operator, Reporter::Launch);
    // A caller that has the token of a launch acts as that launch, regardless of where its process comes from.
    let speaker = launch.map_or(peer, CallerIdentity::Launch);
    if let (Some(hook), Some(launch)) = (&request.hook, launch) {
        return take_hook(&daemon, launch, hook, &headers).await;
    }
    let testimony = report::parse_testimony(&request)?;
    let ask = EngineRequest::Report { session: request.session, from, testimony };
    submit(&daemon, &speaker, &headers, "report", ask).await
}

/// Handles a tool call. The daemon has verified which launch the caller belongs to, so the caller
/// can act only as the member of its own session.
async fn take_call(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CallRequest>,
) -> RouteResult {
    let peer = daemon.identify(&caller).await?;
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let launch = peer::verify_reporter(&peer, &daemon.world, launch, token)?.ok_or_else(|| {
        let message = "only agents call tools; use the `provost team` commands";
        ApiError::new(ErrorCode::Forbidden, message).next("provost team --help")
    })?;
    check_text(&request.id, "id")?;
    let call: MemberCall = serde_json::from_value(request.call)
        .map_err(|why| bad_request(format!("the call cannot be read: {why}")))?;
    let ask = EngineRequest::ToolCall { launch, native: request.id, call: Box::new(call) };
    submit(&daemon, &CallerIdentity::Launch(launch), &headers, "call", ask).await
}

/// Handles an event from an agent's hook. The daemon has verified which launch the caller belongs
/// to, so the caller can report only for itself.
async fn take_hook(
    daemon: &DaemonServer,
    launch: LaunchId,
    hook: &Value,
    headers: &HeaderMap,
) -> RouteResult {
    let given = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    let actor = format!("hook/{launch}");
    let key = format!("launch/{launch}/report/{given}");
    watch::take_hook_event(&daemon.world, &daemon.handle, launch, hook, &actor, &key).await?;
    let SessionRow { id, state, sealed, .. } =
        daemon.handle.session(launch.session.to_string()).await?.session;
    let status = "recorded".to_owned();
    let reply = ReportReply { ok: true, status, id, state, sealed, next: Vec::new() };
    Ok(Json(reply).into_response())
}

#[derive(Debug, Deserialize)]
struct EventQuery {
    since: Option<u64>,
    session: Option<String>,
    /// The run whose events to return, including those of its sessions.
    run: Option<String>,
    team: Option<String>,
    limit: Option<usize>,
    follow: Option<u8>,
}

async fn events(
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

/// The default age after which the data of closed sessions is collected.
const DEFAULT_KEEP_MS: i64 = 30 * 24 * 3_600 * 1_000;

async fn collect(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    JsonBody(request): JsonBody<GcRequest>,
) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
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

async fn archive(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    JsonBody(request): JsonBody<ArchiveRequest>,
) -> RouteResult {
    daemon.identify(&caller).await?.must_be_operator()?;
    let before_wall_ms =
        super::server::wall_ms().saturating_sub(request.older_than_ms.unwrap_or(DEFAULT_KEEP_MS));
    Ok(Json(daemon.handle.archive(before_wall_ms, request.apply).await?).into_response())
}

/// Sends a command from the operator about a session to the engine.
async fn submit_as_operator(
    daemon: &DaemonServer,
    caller: &ApiCaller,
    headers: &HeaderMap,
    session: String,
    what: &str,
    command: SessionCommand,
) -> RouteResult {
    let peer = daemon.identify(caller).await?;
    peer.must_be_operator()?;
    submit(daemon, &peer, headers, what, EngineRequest::SessionCommand { session, command }).await
}

async fn submit(
    daemon: &DaemonServer,
    peer: &CallerIdentity,
    headers: &HeaderMap,
    what: &str,
    ask: EngineRequest,
) -> RouteResult {
    let key = match headers.get(IDEMPOTENCY_KEY) {
        None => None,
        Some(key) => Some(idempotency_key(key.to_str().unwrap_or_default(), peer, what)?),
    };
    let answer = daemon.handle.request(ask, &peer.actor(), key).await;
    Ok(Json(answer.map_err(|why| qualify_hints(daemon, peer, why))?).into_response())
}

/// Completes the hints for an agent, because the environment of the agent may lack this home, or its `PATH` may lack
/// Provost.
fn qualify_hints(daemon: &DaemonServer, peer: &CallerIdentity, mut error: ApiError) -> ApiError {
    if matches!(peer, CallerIdentity::Launch(_)) {
        let caller = daemon.world.caller();
        let rewritten = error.next.iter().map(|next| caller.rewrite_command(&next.to_string()));
        error.next = rewritten.map(Hint::from).collect();
    }
    error
}

/// Adds the caller and the kind of change to a key, so that keys of different launches do not collide.
fn idempotency_key(key: &str, peer: &CallerIdentity, what: &str) -> Result<String, ApiError> {
    if (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(format!("{}/{what}/{key}", peer.actor()))
    } else {
        Err(bad_request("an idempotency key has 1 to 200 visible characters"))
    }
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

/// Lists rows as the ledger stores them, under this name.
fn list_response(name: &str, listed: &ListedRows) -> Response {
    let (rows, more) = (listed.rows.join(","), listed.more);
    json_response(format!("{{\"ok\":true,\"{name}\":[{rows}],\"more\":{more}}}").into())
}

fn json_response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_serves_exactly_the_routes_of_the_api() {
        let documented: Vec<_> =
            provost_api::ROUTES.iter().map(|route| (route.method, route.path)).collect();
        assert_eq!(routes().paths, documented);
    }
}
