//! The server on the socket: checks its peers and owns the tasks that serve them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{ConnectInfo, FromRequestParts, Request, connect_info::Connected},
    http::request::Parts,
    middleware::Next,
    response::Response,
    serve::IncomingStream,
};
use provost_api::{ApiError, Code};
use provost_core::ids::{LaunchId, SessionId};
use provost_engine::shell::{Ask, Handle, Listing, World, blocking::blocking_request};
use provost_ledger::SqliteReader;
use provost_sys::{
    origin::Boundary,
    peer::{Peer as Pinned, Pinning},
};
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    door::Door,
    peer::{self, Known, Live, Peer},
    routes::{self, Refusal},
    timed_stream::Gate,
};

/// What every route has at hand.
#[derive(Clone)]
pub(crate) struct Daemon {
    pub(crate) handle: Handle,
    pub(crate) world: World,
    pub(crate) stop: CancellationToken,
    boundary: Arc<Boundary>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    reads: Arc<Semaphore>,
}

/// How many reads of the ledger run at once. They share the runtime's blocking threads with changes, which need the
/// others.
const READS: usize = 16;

/// How long a read waits for its turn.
const READ_TURN: Duration = Duration::from_secs(10);

/// How long sending a listing may take.
const LISTING_TIME: Duration = Duration::from_secs(300);

/// The process at the other end of a connection, pinned when the connection was accepted, or why it is not served.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    caller: Result<Caller, Arc<provost_sys::peer::Error>>,
    gate: Arc<Gate>,
}

impl Connected<IncomingStream<'_, Door>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        let pinned = Pinned::pin(stream.io().get_ref(), pinning());
        let caller =
            pinned.map(|pinned| Caller { pinned: Arc::new(pinned), known: Arc::default() });
        Connection { caller: caller.map_err(Arc::new), gate: stream.io().gate() }
    }
}

/// How callers are pinned. Tests have both ways tried on any kernel.
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

/// A caller of this user.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pinned: Arc<Pinned>,
    /// Who the process was proved to be, which stays true for as long as it runs.
    known: Arc<OnceLock<Peer>>,
}

impl Connection {
    /// The caller, if it may ask anything at all and is still the process that connected.
    fn caller(&self) -> Result<&Caller, ApiError> {
        let caller = self.caller.as_ref().map_err(|why| peer::refused(why))?;
        caller.pinned.check().map_err(|why| peer::refused(&why))?;
        Ok(caller)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let found = parts.extensions.get::<ConnectInfo<Connection>>();
        let found = found.ok_or_else(|| ApiError::new(Code::Internal, "there is no caller"))?;
        found.0.gate.ask();
        Ok(found.0.caller()?.clone())
    }
}

/// Refuses every request of another user, and of a process that has ended since it connected: reads too.
pub(super) async fn only_for_this_user(_: Caller, request: Request, next: Next) -> Response {
    next.run(request).await
}

impl Daemon {
    pub(crate) fn new(handle: Handle, world: World) -> Daemon {
        let boundary = Arc::new(world.home.boundary(pinning()));
        let reads = Arc::new(Semaphore::new(READS));
        let stop = CancellationToken::new();
        Daemon { handle, world, stop, boundary, tasks: Arc::default(), reads }
    }

    /// Waits for the turn to read the ledger. It lasts until the permit is dropped.
    pub(crate) async fn read_turn(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let turn = Arc::clone(&self.reads).acquire_owned();
        match tokio::time::timeout(READ_TURN, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => {
                let message = format!(
                    "{READS} reads are under way, and none ended within {} s; try again",
                    READ_TURN.as_secs()
                );
                Err(ApiError::new(Code::Refused, message).next("provost daemon status"))
            }
        }
    }

    /// Serves the socket until the daemon is asked to stop.
    pub(crate) async fn serve(self, door: Door) -> std::io::Result<()> {
        let (stop, tasks) = (self.stop.clone().cancelled_owned(), Arc::clone(&self.tasks));
        let service = routes::router(self).into_make_service_with_connect_info::<Connection>();
        let result = axum::serve(door, service).with_graceful_shutdown(stop).await;
        tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        result
    }

    /// Keeps a task that serves a client for as long as the client listens.
    pub(crate) fn own(&self, task: impl Future<Output = ()> + Send + 'static) {
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

    /// Decides who asks. What is only doubted is looked at again with the next request.
    pub(crate) async fn peer(&self, caller: &Caller) -> Result<Peer, ApiError> {
        if let Some(known) = caller.known.get() {
            return Ok(known.clone());
        }
        let internal = |why: &dyn std::fmt::Display| ApiError::new(Code::Internal, why.to_string());
        let live = self.handle.ask_json(Ask::Live).await?;
        let live: Vec<Live> = serde_json::from_value(live).map_err(|why| internal(&why))?;
        let (daemon, pinned) = (self.clone(), Arc::clone(&caller.pinned));
        let judge = move || {
            let known = Known { home: &daemon.world.home, live: &live };
            let register = daemon.world.holders.register();
            let peer = Peer::of(&pinned, &daemon.boundary, &register, &known)?;
            let Peer::Unproven(_) = peer else { return Ok(peer) };
            // A holder may have ended in order just now.
            let later = daemon.world.holders.register();
            if later == register {
                return Ok(peer);
            }
            Peer::of(&pinned, &daemon.boundary, &later, &known)
        };
        let peer = blocking_request(judge).await?;
        match peer {
            // Two requests that come at once prove the same.
            Peer::Operator | Peer::Launch(_) => drop(caller.known.set(peer.clone())),
            Peer::Stray(_) | Peer::Held(_) | Peer::Ours | Peer::Unproven(_) => {}
        }
        Ok(peer)
    }

    /// Tells the holders of a session that their limit was raised.
    pub(crate) async fn raise_limit(&self, session: String, bytes: u64) -> Result<(), ApiError> {
        let row = self.handle.ask_json(Ask::Row { session }).await?;
        let launches = row["session"]["launches"].as_array().cloned().unwrap_or_default();
        let running = launches.iter().filter(|launch| launch["phase"] == "running");
        for id in running.filter_map(|launch| launch["id"].as_str()?.parse::<LaunchId>().ok()) {
            let dir = self.world.home.launch(id);
            let raised = blocking_request(move || {
                provost_holder::Link::connect(&dir)?
                    .request(provost_holder::wire::Op::Limit { bytes })
                    .map(drop)
            })
            .await;
            let told = |why: &dyn std::fmt::Display| {
                ApiError::new(Code::Unreachable, format!("the holder could not be told: {why}"))
            };
            raised.map_err(|why| told(&why))?;
        }
        Ok(())
    }

    /// Streams every session, without holding up the engine and in constant memory.
    pub(crate) async fn stream_all(&self, listing: Listing) -> Result<Body, ApiError> {
        let turn = self.read_turn().await?;
        let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(2);
        let ledger = self.world.home.ledger();
        let overlay = self.handle.ask_json(Ask::Overlay).await?;
        self.own(async move {
            let written = blocking_request(move || write_all(&ledger, &listing, &overlay, &sender));
            // A client that went away needs no more; one that reads nothing is cut off by its connection.
            written.await.ok();
            drop(turn);
        });
        Ok(Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
    }
}

/// How many bytes of a listing are sent at once.
const CHUNK: usize = 64 << 10;

fn write_all(
    ledger: &Path,
    listing: &Listing,
    overlay: &Value,
    sender: &tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> Result<(), ()> {
    let failed = |why: String| drop(sender.blocking_send(Err(std::io::Error::other(why))));
    let reader = SqliteReader::open(ledger).map_err(|why| failed(why.to_string()))?;
    let mut chunk = String::from("{\"ok\":true,\"sessions\":[");
    let (mut first, mut gone) = (true, false);
    let began = now();
    let newer: BTreeMap<&str, &Value> = overlay["rows"]
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
    let (runs, shortages) = (runs.join(","), &overlay["shortages"]);
    chunk.push_str(&format!("],\"runs\":[{runs}],\"shortages\":{shortages},\"more\":false}}"));
    sender.blocking_send(Ok(chunk.into())).map_err(drop)
}

/// The row of a session that could not be written yet.
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

/// Mints an id: the one place of the daemon that does.
#[expect(clippy::disallowed_methods, reason = "ids are minted at the edge")]
pub(crate) fn new_session_id() -> SessionId {
    SessionId(uuid::Uuid::now_v7())
}

pub(crate) fn wall_ms() -> i64 {
    provost_engine::shell::Clock::after(0).now().wall_ms
}
