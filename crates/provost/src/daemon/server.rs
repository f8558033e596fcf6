//! The server on the socket. It checks its peers, and owns the tasks that handle their requests.

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
use provost_api::{ApiError, ErrorCode, LaunchPhaseName, SessionRow, ShortageRow, UnknownHolder};
use provost_core::ids::{LaunchId, SessionId};
use provost_engine::shell::{
    EngineHandle, EngineStatus, EngineWorld, LedgerPreview, Listing, SessionListing,
    blocking::blocking_request, unknown_holders,
};
use provost_ledger::SqliteReader;
use provost_sys::{
    clock::now,
    origin::{Boundary, ProcessOrigin, ResourceAccount},
    peer::{PinnedPeer as Pinned, Pinning},
    register::RegisteredLaunch,
};
use serde_json::json;
use tokio::{
    net::UnixStream,
    sync::{OnceCell, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    listener::DaemonListener,
    peer::{self, CallerIdentity, KnownLaunches},
    quota::{self, ChargedConnection, Quotas, ReadPermit},
    routes::{self, ErrorResponse},
    timed_stream::{AcceptedConnection, ConnectionGate},
};

/// The state that all routes share.
#[derive(Clone)]
pub(crate) struct DaemonServer {
    pub(crate) handle: EngineHandle,
    pub(crate) world: EngineWorld,
    /// Set when the daemon is asked to stop. The daemon stops as soon as no landing is in progress.
    pub(crate) leaving: CancellationToken,
    pub(crate) stop: CancellationToken,
    boundary: Arc<Boundary>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    quotas: Quotas,
}

/// The time limit for sending a listing.
const LISTING_TIME: Duration = Duration::from_secs(300);

/// The process at the other end of a connection, with a stable handle that was taken when the
/// connection was accepted, or the reason why the process is rejected.
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

/// Returns how to take stable handles of callers. In tests, both methods run on any kernel.
pub(super) fn pinning() -> Pinning {
    #[cfg(feature = "failpoints")]
    {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test simulates an older kernel, read \
            once"
        )]
        if std::env::var_os("PROVOST_TEST_PIN_BY_START_TIME").is_some() {
            return Pinning::StartTime;
        }
    }
    Pinning::Best
}

/// The daemon's status.
pub(crate) struct DaemonHealth {
    pub(crate) status: EngineStatus,
    pub(crate) unknown_holders: Vec<UnknownHolder>,
}

impl DaemonHealth {
    /// Returns additional JSON fields for a listing, such as the ledger's losses, or an empty text
    /// if there are none.
    pub(crate) fn extra_fields(&self) -> String {
        let mut text = String::new();
        if let Some(loss) = &self.status.ledger_loss {
            text.push_str(&format!(",\"ledger_loss\":{}", json!(loss)));
        }
        if !self.unknown_holders.is_empty() {
            text.push_str(&format!(",\"unknown_holders\":{}", json!(self.unknown_holders)));
        }
        text
    }
}

/// A caller that runs as the same user as the daemon.
#[derive(Clone, Debug)]
pub(crate) struct ApiCaller {
    pinned: Arc<Pinned>,
    /// The origin of the process, once it can no longer change.
    origin: Arc<OnceLock<ProcessOrigin>>,
    /// The proved identity of the process, which stays valid for the lifetime of the process.
    known: Arc<OnceLock<CallerIdentity>>,
    /// The charge for the connection. `None` if the account has too many connections.
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

    /// Returns the caller, even if its process has exited.
    pub(super) fn pinned_caller(&self) -> Option<&ApiCaller> {
        self.caller.as_ref().ok()
    }

    /// Returns the caller. Fails if the caller has no permission, or is no longer the process that
    /// connected.
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

/// Rejects all requests, including reads, from other users and from processes that have exited
/// since they connected. Requests from a launch wait for a permit.
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

/// Returns the size of a request's body, or the maximum if the size is not declared.
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

    /// Waits until the caller gets a permit to read the ledger.
    pub(crate) async fn read_turn(&self, caller: &ApiCaller) -> Result<ReadPermit, ApiError> {
        self.quotas.acquire_read(self.charge(caller).await?).await
    }

    /// Returns the charge for the caller's connection, creating it if necessary.
    async fn charge<'a>(&self, caller: &'a ApiCaller) -> Result<&'a ChargedConnection, ApiError> {
        let charge = || async {
            // A process that cannot be classified has no permissions, and shares the quota of
            // [`ResourceAccount::Other`].
            let origin = self.origin(caller).await;
            self.quotas.charge(origin.map_or(ResourceAccount::Other, |origin| origin.account()))
        };
        caller.charged.get_or_init(charge).await.as_ref().ok_or_else(quota::too_many_connections)
    }

    /// Charges connections to their accounts when they are accepted, and closes those that exceed the
    /// limit. Charging at the first request would not be enough, because a connection may never send one.
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

    /// Runs a task that serves a client until the task ends or the daemon stops.
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

    /// Identifies the caller. An identity that is not proved is checked again at the next request.
    pub(crate) async fn identify(&self, caller: &ApiCaller) -> Result<CallerIdentity, ApiError> {
        if let Some(known) = caller.known.get() {
            return Ok(known.clone());
        }
        let origin = self.origin(caller).await?;
        let peer = if origin == ProcessOrigin::Operator {
            CallerIdentity::Operator
        } else {
            let live = self.handle.live_launches().await?;
            let home = self.world.home.clone();
            let find = move || KnownLaunches { home: &home, live: &live }.identify(origin);
            blocking_request(find).await.map_err(|why| peer::unidentified_error(&why))?
        };
        match peer {
            // Concurrent requests compute the same result.
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
            let holders = &daemon.world.holders;
            let mut register = holders.register();
            loop {
                let origin = daemon.boundary.identify(&pinned, &register)?;
                let ProcessOrigin::Unproven { key } = &origin else { return Ok(origin) };
                // A holder may have exited normally a moment ago. Each launch is removed once, so
                // the loop ends.
                holders.wait_for_exit(key);
                let later = holders.register();
                if later.has(key) {
                    return Ok(origin);
                }
                register = later;
            }
        };
        let judged: Result<_, provost_sys::peer::Error> = blocking_request(judge).await;
        let origin = judged.map_err(|why| peer::peer_error(&why))?;
        match origin {
            // Concurrent requests compute the same result.
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

    /// Returns the daemon's status, including lost events and running processes that are not in the ledger.
    pub(crate) async fn health(&self) -> Result<DaemonHealth, ApiError> {
        let register = self.world.holders.register();
        let held = register.launches().iter().filter(|launched| launched.holder.is_some());
        let registered = held.map(|launched| launched.key.clone()).collect();
        let status = self.handle.status(registered).await?;
        let is_named = |launched: &&RegisteredLaunch| status.off_board.contains(&launched.key);
        let off_board: Vec<_> = register.launches().iter().filter(is_named).cloned().collect();
        let unknown_holders = self.unknown_holders(off_board).await?;
        Ok(DaemonHealth { status, unknown_holders })
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
            // If the ledger cannot be read, the next request that needs it reports the error.
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
        let launches = self.handle.session(session).await?.session.launches;
        let running = launches.iter().filter(|launch| launch.phase == LaunchPhaseName::Running);
        for id in running.filter_map(|launch| launch.id.parse::<LaunchId>().ok()) {
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

    /// Streams all sessions in constant memory, without blocking the engine.
    pub(crate) async fn stream_sessions(
        &self,
        caller: &ApiCaller,
        listing: Listing,
        appendix: String,
    ) -> Result<Body, ApiError> {
        let turn = self.read_turn(caller).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(2);
        let ledger = self.world.home.ledger();
        let preview = self.handle.preview().await?;
        self.spawn_owned(async move {
            let extras = ListExtras { appendix, preview };
            let written =
                blocking_request(move || write_listing(&ledger, &listing, &extras, &sender));
            // If the client has disconnected, there is nothing left to do. A client that does not
            // read is disconnected by the limit of its connection.
            written.await.ok();
            drop(turn);
        });
        Ok(Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
    }
}

/// The chunk size for sending a listing, in bytes.
const CHUNK: usize = 64 << 10;

/// The parts of a listing that are not rows from the ledger.
struct ListExtras {
    /// Additional fields of the JSON object.
    appendix: String,
    /// Rows that could not be written to the ledger yet, and shortages of resources.
    preview: LedgerPreview,
}

/// The start of a listing of sessions, in JSON.
const SESSIONS_HEAD: &str = "{\"ok\":true,\"sessions\":[";

/// Returns the part of a listing after the sessions.
fn after_sessions(
    runs: &[String],
    shortages: &[ShortageRow],
    more: bool,
    appendix: &str,
) -> String {
    let (runs, shortages) = (runs.join(","), json!(shortages));
    format!("],\"runs\":[{runs}],\"shortages\":{shortages},\"more\":{more}{appendix}}}")
}

/// Serializes a listing, in the same form as a streamed one.
pub(super) fn listing_json(listing: &SessionListing, appendix: &str) -> String {
    let SessionListing { sessions, runs, shortages } = listing;
    let after = after_sessions(runs, shortages, sessions.more, appendix);
    format!("{SESSIONS_HEAD}{}{after}", sessions.rows.join(","))
}

fn write_listing(
    ledger: &Path,
    listing: &Listing,
    extras: &ListExtras,
    sender: &tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> Result<(), ()> {
    let failed = |why: String| drop(sender.blocking_send(Err(std::io::Error::other(why))));
    let reader = SqliteReader::open(ledger).map_err(|why| failed(why.to_string()))?;
    let mut chunk = SESSIONS_HEAD.to_owned();
    let (mut first, mut gone) = (true, false);
    let began = now();
    let newer: BTreeMap<&str, &SessionRow> =
        extras.preview.rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let visited = listing.visit(&reader, |projection| {
        if !std::mem::take(&mut first) {
            chunk.push(',');
        }
        match newer_row(&newer, projection) {
            Some(row) => chunk.push_str(&json!(row).to_string()),
            None => chunk.push_str(projection),
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
    let visited = listing.visit_runs(&reader, |projection| {
        runs.push(projection.to_owned());
        std::ops::ControlFlow::Continue(())
    });
    visited.map_err(|why| failed(why.to_string()))?;
    chunk.push_str(&after_sessions(&runs, &extras.preview.shortages, false, &extras.appendix));
    sender.blocking_send(Ok(chunk.into())).map_err(drop)
}

/// Returns the newer row of a session, if it could not be written to the ledger yet.
fn newer_row<'a>(
    newer: &BTreeMap<&str, &'a SessionRow>,
    projection: &str,
) -> Option<&'a SessionRow> {
    if newer.is_empty() {
        return None;
    }
    let projection: SessionRow = serde_json::from_str(projection).ok()?;
    newer.get(projection.id.as_str()).copied()
}

/// Creates an id. The daemon does not create ids anywhere else.
#[expect(clippy::disallowed_methods, reason = "ids are created at the edge")]
pub(crate) fn new_session_id() -> SessionId {
    SessionId(uuid::Uuid::now_v7())
}

pub(crate) fn wall_ms() -> i64 {
    provost_engine::shell::Clock::after(0).now().wall_ms
}
