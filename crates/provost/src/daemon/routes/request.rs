//! The common parts of the routes: reading a request, submitting the requested change, and replying.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use provost_api::{ApiError, ErrorBody, ErrorCode, Hint, IDEMPOTENCY_KEY};
use provost_core::{ids::LaunchId, run::RunCommand, session::SessionCommand};
use provost_engine::shell::{EngineRequest, ListedRows};
use serde::de::DeserializeOwned;

use crate::daemon::{
    peer::{self, CallerIdentity},
    server::{ApiCaller, DaemonServer, new_session_id},
};

/// The maximum size of a request in bytes. The largest requests are specs and texts for agents.
pub(crate) const MAX_REQUEST: usize = 8 << 20;

/// The default number of finished rows in a listing.
pub(super) const DEFAULT_LIMIT: usize = 50;

pub(super) type RouteResult = Result<Response, ErrorResponse>;

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
pub(super) struct JsonBody<T>(pub(super) T);

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
pub(super) struct QueryParams<T>(pub(super) T);

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

/// An empty body. It is read anyway, because closing a connection with unread bytes resets it, and
/// the response might be lost.
pub(super) struct NoBody;

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorResponse> {
        match Bytes::from_request(request, state).await {
            Ok(_) => Ok(NoBody),
            Err(why) => Err(bad_request(why.body_text()).into()),
        }
    }
}

/// The sender of a request, and the key that identifies a repeated request.
pub(super) struct Sender {
    pub(super) daemon: DaemonServer,
    pub(super) peer: CallerIdentity,
    key: Option<String>,
}

/// A request with a body. The body is read first, so that a refusal reaches the caller.
pub(super) struct Call<B> {
    pub(super) sender: Sender,
    pub(super) body: B,
}

/// A request that only the operator may send.
pub(super) struct OperatorCall<B> {
    pub(super) sender: Sender,
    pub(super) body: B,
}

impl<B: FromRequest<DaemonServer, Rejection = ErrorResponse> + Send> FromRequest<DaemonServer>
    for Call<B>
{
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, daemon: &DaemonServer) -> Result<Self, ErrorResponse> {
        let (mut parts, body) = request.into_parts();
        let caller = ApiCaller::from_request_parts(&mut parts, daemon).await?;
        let key = idempotency_header(&parts.headers);
        let body = B::from_request(Request::from_parts(parts, body), daemon).await?;
        let peer = daemon.identify(&caller).await?;
        Ok(Call { sender: Sender { daemon: daemon.clone(), peer, key }, body })
    }
}

impl<B: FromRequest<DaemonServer, Rejection = ErrorResponse> + Send> FromRequest<DaemonServer>
    for OperatorCall<B>
{
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, daemon: &DaemonServer) -> Result<Self, ErrorResponse> {
        let Call { sender, body } = Call::from_request(request, daemon).await?;
        sender.peer.must_be_operator()?;
        Ok(OperatorCall { sender, body })
    }
}

impl Sender {
    /// Sends a change to the engine. `what` is its kind, which a key belongs to.
    pub(super) async fn submit(&self, what: &str, ask: EngineRequest) -> RouteResult {
        let key = match &self.key {
            None => None,
            Some(key) => Some(scoped_key(key, &self.peer, what)?),
        };
        let answer = self.daemon.handle.request(ask, &self.peer.actor(), key).await;
        Ok(Json(answer.map_err(|why| self.qualify_hints(why))?).into_response())
    }

    pub(super) async fn change_session(
        &self,
        what: &str,
        session: String,
        command: SessionCommand,
    ) -> RouteResult {
        self.submit(what, EngineRequest::SessionCommand { session, command }).await
    }

    pub(super) async fn change_run(
        &self,
        what: &str,
        run: String,
        command: RunCommand,
    ) -> RouteResult {
        self.submit(what, EngineRequest::RunCommand { run, command }).await
    }

    /// Returns the launch that the sender reports for, or `None` for the operator. See
    /// [`peer::verify_reporter`].
    pub(super) fn reporter(
        &self,
        launch: Option<&str>,
        token: Option<&str>,
    ) -> Result<Option<LaunchId>, ApiError> {
        peer::verify_reporter(&self.peer, &self.daemon.world, launch, token)
    }

    /// A caller that has the token of a launch acts as that launch, regardless of where its process
    /// comes from.
    pub(super) fn speaking_as(self, launch: Option<LaunchId>) -> Self {
        let peer = launch.map_or(self.peer, CallerIdentity::Launch);
        Sender { peer, ..self }
    }

    /// Returns the key that the caller gave. It is empty if the header is not text.
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the key of a message to an agent. A repeated request gets the same key.
    pub(super) fn message_key(&self, what: &str) -> String {
        let key = self.key.clone().filter(|key| !key.is_empty());
        let key = key.unwrap_or_else(|| new_session_id().to_string());
        let key: String = key.chars().filter(char::is_ascii_graphic).take(100).collect();
        format!("{what}-{key}")
    }

    /// Completes the hints for an agent, because the environment of the agent may lack this home, or its `PATH` may
    /// lack Provost.
    pub(super) fn qualify_hints(&self, mut error: ApiError) -> ApiError {
        if matches!(self.peer, CallerIdentity::Launch(_)) {
            let caller = self.daemon.world.caller();
            let rewritten = error.next.iter().map(|next| caller.rewrite_command(&next.to_string()));
            error.next = rewritten.map(Hint::from).collect();
        }
        error
    }
}

fn idempotency_header(headers: &HeaderMap) -> Option<String> {
    headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap_or_default().to_owned())
}

/// Adds the caller and the kind of change to a key, so that keys of different launches do not collide.
fn scoped_key(key: &str, peer: &CallerIdentity, what: &str) -> Result<String, ApiError> {
    if (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(format!("{}/{what}/{key}", peer.actor()))
    } else {
        Err(bad_request("an idempotency key has 1 to 200 visible characters"))
    }
}

pub(super) fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

/// Lists rows as the ledger stores them, under this name.
pub(super) fn list_response(name: &str, listed: &ListedRows) -> Response {
    let (rows, more) = (listed.rows.join(","), listed.more);
    json_response(format!("{{\"ok\":true,\"{name}\":[{rows}],\"more\":{more}}}").into())
}

pub(super) fn json_response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
