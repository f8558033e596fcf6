//! The server on the socket. It checks its peers and owns the tasks that serve them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{ConnectInfo, FromRequestParts, Request, State, connect_info::Connected},
    http::{Method, header, request::Parts},
    middleware::Next,
    response::Response,
    serve::IncomingStream,
};
use provost_api::{ApiError, ErrorCode, UnknownHolder};
use provost_core::ids::{LaunchId, SessionId};
use provost_engine::shell::{
    EngineHandle, EngineRequest, EngineWorld, Listing, blocking::blocking_request, unknown_holders,
};
use provost_ledger::SqliteReader;
use provost_sys::{
    origin::{Boundary, ProcessOrigin, ResourceAccount},
    peer::{PinnedPeer as Pinned, Pinning},
    register::RegisteredLaunch,
};
use serde_json::{Value, json};
use tokio::{
    net::UnixStream,
    sync::{OnceCell, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    listener::DaemonListener,
    peer::{self, CallerIdentity, KnownLaunches, LiveLaunch},
    quota::{self, ChargedConnection, Quotas, ReadPermit},
    routes::{self, ErrorResponse},
    timed_stream::{AcceptedConnection, ConnectionGate},
};

/// The shared state of all routes.
#[derive(Clone)]
pub(crate) struct DaemonServer {
    pub(crate) handle: EngineHandle,
    pub(crate) world: EngineWorld,
    /// Set when the daemon is asked to stop. It stops when no landing is in progress.
    pub(crate) leaving: CancellationToken,
    pub(crate) stop: CancellationToken,
    boundary: Arc<Boundary>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    quotas: Quotas,
}

/// The time limit for sending a listing.
const LISTING_TIME: Duration = Duration::from_secs(300);

/// The process at the other end of a connection, pinned when the connection was accepted, or why it
/// is rejected.
#[derive(Clone, Debug)]
pub(crate) struct PeerConnection {
    caller: Result<ApiCaller, Arc<provost_sys::peer::Error>>,
    gate: Arc<ConnectionGate>,
}

impl Connected<IncomingStream<'_, DaemonListener>> for PeerConnection {
    fn connect_info(stream: IncomingStream<'_, DaemonListener>) -> Self {
        stream.io().peer().clone()
    }
}

/// How callers are pinned. Tests run both methods on any kernel.
pub(super) fn pinning() -> Pinning {
    #[cfg(feature = "failpoints")]
    {
        #[expect(clippy::disallowed_methods, reason = "a test plays an older kernel, read once")]
        if std::env::var_os("PROVOST_TEST_PIN_BY_START_TIME").is_some() {
            return Pinning::StartTime;
        }
    }
    Pinning::Best
}

/// The daemon's status.
pub(crate) struct DaemonHealth {
    pub(crate) status: Value,
    pub(crate) ledger_loss: Option<String>,
    pub(crate) unknown_holders: Vec<UnknownHolder>,
}

impl DaemonHealth {
    /// Returns further JSON fields for a listing, for example the ledger's losses. Empty if there
    /// are no problems.
    pub(crate) fn extra_fields(&self) -> String {
        let mut text = String::new();
        if let Some(loss) = &self.ledger_loss {
            text.push_str(&format!(",\"ledger_loss\":{}", json!(loss)));
        }
        if !self.unknown_holders.is_empty() {
            text.push_str(&format!(",\"unknown_holders\":{}", json!(self.unknown_holders)));
        }
        text
    }
}

/// A caller of this user.
#[derive(Clone, Debug)]
pub(crate) struct ApiCaller {
    pinned: Arc<Pinned>,
    /// The origin of the process, once it is settled for the process's lifetime.
    origin: Arc<OnceLock<ProcessOrigin>>,
    /// The proved identity of the process, valid for the process's lifetime.
    known: Arc<OnceLock<CallerIdentity>>,
    /// The account charge of the connection; `None` if its account has too many.
    charged: Arc<OnceCell<Option<ChargedConnection>>>,
}

impl PeerConnection {
    pub(super) fn pin(stream: &UnixStream, gate: Arc<ConnectionGate>) -> PeerConnection {
        let caller = Pinned::pin(stream, pinning()).map(|pinned| ApiCaller {
            pinned: Arc::new(pinned),
            origin: Arc::default(),
            known: Arc::default(),
            charged: Arc::default(),
        });
        PeerConnection { caller: caller.map_err(Arc::new), gate }
    }

    /// The caller, even if its process has exited.
    pub(super) fn pinned_caller(&self) -> Option<&ApiCaller> {
        self.caller.as_ref().ok()
    }

    /// The caller, if it is permitted and is still the process that connected.
    fn live_caller(&self) -> Result<&ApiCaller, ApiError> {
        let caller = self.caller.as_ref().map_err(|why| peer::peer_error(why))?;
        caller.pinned.check().map_err(|why| peer::peer_error(&why))?;
        Ok(caller)
    }
}

impl<S: Sync> FromRequestParts<S> for ApiCaller {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
        let found = parts.extensions.get::<ConnectInfo<PeerConnection>>();
        let found =
            found.ok_or_else(|| ApiError::new(ErrorCode::Internal, "the request has no caller"))?;
        found.0.gate.mark_requested();
        Ok(found.0.live_caller()?.clone())
    }
}

/// Rejects every request of another user, and of a process that exited after it connected,
/// including reads. A request of a launch waits for its turn.
pub(super) async fn admit(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    let charged = daemon.charge(&caller).await?;
    if request.method() != Method::GET {
        daemon.quotas.count_posted(charged, body_size(&request))?;
    }
    let turn = charged.acquire_request().await?;
    Ok(next.run(request).await.map(|answer| turn.hold_until_sent(answer)))
}

/// Returns the size of a request's body; the maximum if it is not declared.
fn body_size(request: &Request) -> u64 {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    length.unwrap_or(routes::MAX_REQUEST as u64).min(routes::MAX_REQUEST as u64)
}

impl DaemonServer {
    pub(crate) fn new(handle: EngineHandle, world: EngineWorld) -> DaemonServer {
        let boundary = Arc::new(world.home.boundary(pinning()));
        let (leaving, stop) = (CancellationToken::new(), CancellationToken::new());
        let (tasks, quotas) = (Arc::default(), Quotas::default());
        DaemonServer { handle, world, leaving, stop, boundary, tasks, quotas }
    }

    /// Waits for the caller's permit to read the ledger.
    pub(crate) async fn read_turn(&self, caller: &ApiCaller) -> Result<ReadPermit, ApiError> {
        self.quotas.acquire_read(self.charge(caller).await?).await
    }

    /// Returns the account charge of the caller's connection.
    async fn charge<'a>(&self, caller: &'a ApiCaller) -> Result<&'a ChargedConnection, ApiError> {
        let charge = || async {
            // A process that cannot be classified has no permissions and no quota of its own.
            let origin = self.origin(caller).await;
            self.quotas.charge(origin.map_or(ResourceAccount::Other, |origin| origin.account()))
        };
        caller.charged.get_or_init(charge).await.as_ref().ok_or_else(quota::too_many_connections)
    }

    /// Charges connections to their accounts as they arrive, and closes those over the limit. A
    /// connection may never send a request, so waiting for one is not enough.
    async fn charge_arrivals(self, mut arrivals: mpsc::Receiver<AcceptedConnection>) {
        while let Some(arrival) = arrivals.recv().await {
            let daemon = self.clone();
            self.spawn_owned(async move {
                if daemon.charge(&arrival.caller).await.is_err() {
                    arrival.close();
                }
            });
        }
    }

    /// Serves the socket until the daemon is asked to stop.
    pub(crate) async fn serve(self, mut door: DaemonListener) -> std::io::Result<()> {
        self.spawn_owned(self.clone().charge_arrivals(door.arrivals()));
        let (stop, tasks) = (self.stop.clone().cancelled_owned(), Arc::clone(&self.tasks));
        let service = routes::router(self).into_make_service_with_connect_info::<PeerConnection>();
        let result = axum::serve(door, service).with_graceful_shutdown(stop).await;
        tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        result
    }

    /// Runs a task that serves a client, until it ends or the daemon stops.
    pub(crate) fn spawn_owned(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Identifies the caller. An unproved identity is checked again at the next request.
    pub(crate) async fn identify(&self, caller: &ApiCaller) -> Result<CallerIdentity, ApiError> {
        if let Some(known) = caller.known.get() {
            return Ok(known.clone());
        }
        let origin = self.origin(caller).await?;
        let peer = if origin == ProcessOrigin::Operator {
            CallerIdentity::Operator
        } else {
            let live = self.handle.request_json(EngineRequest::LiveLaunches).await?;
            let live: Vec<LiveLaunch> = serde_json::from_value(live).map_err(internal_error)?;
            let home = self.world.home.clone();
            let find = move || KnownLaunches { home: &home, live: &live }.identify(origin);
            blocking_request(find).await.map_err(|why| peer::unidentified_error(&why))?
        };
        match peer {
            // Concurrent requests arrive at the same result.
            CallerIdentity::Operator | CallerIdentity::Launch(_) => {
                drop(caller.known.set(peer.clone()))
            }
            CallerIdentity::Detached(_)
            | CallerIdentity::Supervised(_)
            | CallerIdentity::DaemonChild
            | CallerIdentity::Unproven(_) => {}
        }
        Ok(peer)
    }

    /// Determines the caller's origin.
    async fn origin(&self, caller: &ApiCaller) -> Result<ProcessOrigin, ApiError> {
        if let Some(origin) = caller.origin.get() {
            return Ok(origin.clone());
        }
        let (daemon, pinned) = (self.clone(), Arc::clone(&caller.pinned));
        let judge = move || {
            let register = daemon.world.holders.register();
            let origin = daemon.boundary.identify(&pinned, &register)?;
            let ProcessOrigin::Unproven { .. } = origin else { return Ok(origin) };
            // A holder may have exited in order just now.
            let later = daemon.world.holders.register();
            if later == register {
                return Ok(origin);
            }
            daemon.boundary.identify(&pinned, &later)
        };
        let judged: Result<_, provost_sys::peer::Error> = blocking_request(judge).await;
        let origin = judged.map_err(|why| peer::peer_error(&why))?;
        match origin {
            // Concurrent requests arrive at the same result.
            ProcessOrigin::Operator | ProcessOrigin::Supervised { .. } => {
                drop(caller.origin.set(origin.clone()))
            }
            ProcessOrigin::Daemon
            | ProcessOrigin::Marked { .. }
            | ProcessOrigin::Helper
            | ProcessOrigin::Unproven { .. } => {}
        }
        Ok(origin)
    }

    /// Returns the daemon's status, with lost events and running processes that are not in the ledger.
    pub(crate) async fn health(&self) -> Result<DaemonHealth, ApiError> {
        let register = self.world.holders.register();
        let held = register.launches().iter().filter(|launched| launched.holder.is_some());
        let registered = held.map(|launched| launched.key.clone()).collect();
        let status = self.handle.request_json(EngineRequest::Status { registered }).await?;
        let names: Vec<&str> = status["off_board"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let is_named = |launched: &&RegisteredLaunch| names.contains(&launched.key.as_str());
        let off_board: Vec<_> = register.launches().iter().filter(is_named).cloned().collect();
        let unknown_holders = self.unknown_holders(off_board).await?;
        let ledger_loss = status["ledger_loss"].as_str().map(str::to_owned);
        Ok(DaemonHealth { status, ledger_loss, unknown_holders })
    }

    async fn unknown_holders(
        &self,
        registered: Vec<RegisteredLaunch>,
    ) -> Result<Vec<UnknownHolder>, ApiError> {
        if registered.is_empty() {
            return Ok(Vec::new());
        }
        let home = self.world.home.clone();
        let looked = blocking_request(move || {
            // The request that needs the ledger reports that it is unreadable.
            let reader = SqliteReader::open(&home.ledger()).ok()?;
            unknown_holders::living_unknown(&home, &reader, &registered).ok()
        });
        Ok(looked.await.unwrap_or_default())
    }

    /// Raises the output limit in the holders of a session.
    pub(crate) async fn raise_output_limit(
        &self,
        session: String,
        bytes: u64,
    ) -> Result<(), ApiError> {
        let row = self.handle.request_json(EngineRequest::SessionRow { session }).await?;
        let launches = row["session"]["launches"].as_array().cloned().unwrap_or_default();
        let running = launches.iter().filter(|launch| launch["phase"] == "running");
        for id in running.filter_map(|launch| launch["id"].as_str()?.parse::<LaunchId>().ok()) {
            let dir = self.world.home.launch(id);
            let raised = blocking_request(move || {
                provost_holder::HolderLink::connect(&dir)?
                    .request(provost_holder::wire::HolderOp::Limit { bytes })
                    .map(drop)
            })
            .await;
            let failed = |why: &dyn std::fmt::Display| {
                ApiError::new(
                    ErrorCode::Unreachable,
                    format!("cannot raise the limit in the holder: {why}"),
                )
            };
            raised.map_err(|why| failed(&why))?;
        }
        Ok(())
    }

    /// Streams every session in constant memory, without blocking the engine.
    pub(crate) async fn stream_sessions(
        &self,
        caller: &ApiCaller,
        listing: Listing,
        appendix: String,
    ) -> Result<Body, ApiError> {
        let turn = self.read_turn(caller).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(2);
        let ledger = self.world.home.ledger();
        let overlay = self.handle.request_json(EngineRequest::Preview).await?;
        self.spawn_owned(async move {
            let extras = ListExtras { appendix, overlay };
            let written =
                blocking_request(move || write_listing(&ledger, &listing, &extras, &sender));
            // A client that left needs nothing more. One that does not read is closed by its
            // connection's limit.
            written.await.ok();
            drop(turn);
        });
        Ok(Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
    }
}

fn internal_error(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Internal, why.to_string())
}

/// The chunk size of a listing, in bytes.
const CHUNK: usize = 64 << 10;

/// The parts of a listing besides the ledger's rows.
struct ListExtras {
    /// Further fields of the JSON object.
    appendix: String,
    /// Rows that could not be written yet, and shortages.
    overlay: Value,
}

fn write_listing(
    ledger: &Path,
    listing: &Listing,
    extras: &ListExtras,
    sender: &tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> Result<(), ()> {
    let failed = |why: String| drop(sender.blocking_send(Err(std::io::Error::other(why))));
    let reader = SqliteReader::open(ledger).map_err(|why| failed(why.to_string()))?;
    let mut chunk = String::from("{\"ok\":true,\"sessions\":[");
    let (mut first, mut gone) = (true, false);
    let began = now();
    let newer: BTreeMap<&str, &Value> = extras.overlay["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| Some((row["id"].as_str()?, row)))
        .collect();
    let visited = listing.visit(&reader, |card| {
        if !std::mem::take(&mut first) {
            chunk.push(',');
        }
        match newer_row(&newer, card) {
            Some(row) => chunk.push_str(&row.to_string()),
            None => chunk.push_str(card),
        }
        if chunk.len() >= CHUNK {
            gone = sender.blocking_send(Ok(std::mem::take(&mut chunk).into())).is_err();
        }
        let late = now() - began > LISTING_TIME;
        if late && !gone {
            failed(format!("the listing was not read within {} s", LISTING_TIME.as_secs()));
        }
        gone |= late;
        if gone { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    visited.map_err(|why| failed(why.to_string()))?;
    if gone {
        return Err(());
    }
    let mut runs: Vec<String> = Vec::new();
    let visited = listing.visit_runs(&reader, |card| {
        runs.push(card.to_owned());
        std::ops::ControlFlow::Continue(())
    });
    visited.map_err(|why| failed(why.to_string()))?;
    let (runs, shortages) = (runs.join(","), &extras.overlay["shortages"]);
    let appendix = &extras.appendix;
    chunk.push_str(&format!(
        "],\"runs\":[{runs}],\"shortages\":{shortages},\"more\":false{appendix}}}"
    ));
    sender.blocking_send(Ok(chunk.into())).map_err(drop)
}

/// Returns the row of a session that could not be written yet.
fn newer_row<'a>(newer: &BTreeMap<&str, &'a Value>, card: &str) -> Option<&'a Value> {
    if newer.is_empty() {
        return None;
    }
    let card: Value = serde_json::from_str(card).ok()?;
    newer.get(card["id"].as_str()?).copied()
}

#[expect(clippy::disallowed_methods, reason = "how long a client takes is measured here")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Creates an id. The daemon creates ids only here.
#[expect(clippy::disallowed_methods, reason = "ids are minted at the edge")]
pub(crate) fn new_session_id() -> SessionId {
    SessionId(uuid::Uuid::now_v7())
}

pub(crate) fn wall_ms() -> i64 {
    provost_engine::shell::Clock::after(0).now().wall_ms
}
