//! The daemon's lifecycle: takes the lock, opens the ledger, serves the socket and shuts down in an
//! orderly way.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use provost_api::{ApiError, ErrorCode};
use provost_engine::{
    shell::{
        self, DaemonEnvironment, EngineWorld, Holders, Owner, RunningEngine,
        blocking::{self, blocking_request},
        unknown_holders,
    },
    stream,
};
use provost_git::{Git, long_call};
use provost_ledger::{Durability, OpenError, OpenOptions as LedgerOptions, SqliteLedger};
use provost_sys::agent_file;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::RwLock,
};
use tokio_util::sync::CancellationToken;

use super::{
    history::{self, DaemonTransition},
    listener::DaemonListener,
    orphans::Orphans,
    peer,
    server::DaemonServer,
    watchdog::WatchdogResponder,
};
use crate::{adapters::adapters, environment::Environment, home::ProvostHome, settings};

/// The line that reports to the daemon's parent process that the daemon is ready.
pub(crate) const READY: &str = "ready";

/// The number of threads that run the daemon's tasks.
const WORKERS: usize = 2;

/// How long a stopping daemon waits for clients that neither finish their request nor read their response.
const SHUTDOWN_GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a stopping daemon waits for a landing to finish.
pub(crate) const LANDING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// The minimum limit on open files. With a lower limit, no agent could be started.
const MIN_DESCRIPTORS: u64 = 96;

/// Runs the daemon until it is asked to stop. A detached daemon closes its standard output once it is ready.
pub(crate) fn run(home: &ProvostHome, detached: bool) -> Result<(), ApiError> {
    let places = shell::Home::new(&home.path);
    // This check reads the mark in the process's own environment, so it comes before the
    // environment is hidden.
    peer::must_start_as_operator(&places)?;
    // Hide the environment early, because it may contain secrets, and every agent runs as this user.
    provost_sys::process::hide_from_user()
        .map_err(|why| startup_error("hide its environment from agents", &why))?;
    // Processes left behind by git or by a killed holder become children of the daemon, which can then identify them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|why| startup_error("become the parent of orphans", &why))?;
    home.prepare()?;
    for directory in places.directories() {
        provost_sys::private::make_private_dir(&directory)
            .map_err(|why| startup_error("create its directories", &why))?;
    }
    raise_file_limit()?;
    // The lock is taken first, because only its owner may change the socket.
    let ledger = open_ledger(&places).inspect_err(|error| {
        // If another daemon is already running, this daemon has not failed.
        if error.code != ErrorCode::Refused {
            history::record(&places.log(), DaemonTransition::Failed);
        }
    })?;
    history::record(&places.log(), DaemonTransition::Started);
    let lived = serve_ledger(&places, ledger, detached);
    history::record(
        &places.log(),
        if lived.is_ok() { DaemonTransition::Stopped } else { DaemonTransition::Failed },
    );
    lived
}

/// Serves as the only owner of the ledger until the daemon is asked to stop.
fn serve_ledger(
    places: &shell::Home,
    ledger: SqliteLedger,
    detached: bool,
) -> Result<(), ApiError> {
    remove_leftovers(&places.scratch());
    let world = create_world(places)?;
    blocking::start().map_err(|why| startup_error("start its threads", &why))?;
    let runtime = runtime().map_err(|why| startup_error("start its runtime", &why))?;
    let pulse = WatchdogResponder::start_watchdog()
        .map_err(|why| startup_error("start its watchdog", &why))?;
    let served = runtime.block_on(serve(ledger, world, pulse, detached));
    // Holders and their agents keep running. The next daemon picks up blocking work that was not finished.
    runtime.shutdown_background();
    served
}

/// Creates the runtime. tokio panics if it cannot start a worker thread, so this function first
/// tests whether threads can be started.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let (wait, release) = std::sync::mpsc::channel::<()>();
    let release = std::sync::Arc::new(std::sync::Mutex::new(release));
    let mut tried = Vec::new();
    for _ in 0..WORKERS {
        let release = std::sync::Arc::clone(&release);
        let waits = move || drop(release.lock().map(|release| release.recv()));
        tried.push(std::thread::Builder::new().spawn(waits)?);
    }
    drop(wait);
    for thread in tried {
        // The thread does nothing that could fail.
        thread.join().ok();
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(512 << 10)
        .enable_all()
        .build()
}

async fn serve(
    ledger: SqliteLedger,
    world: EngineWorld,
    pulse: WatchdogResponder,
    detached: bool,
) -> Result<(), ApiError> {
    // The server is spawned as a task so that it runs on a worker thread. This future itself does not run on a worker
    // thread.
    let mut watched = tokio::task::JoinSet::new();
    watched.spawn(pulse.respond());
    #[cfg(feature = "failpoints")]
    for _ in 0..WORKERS {
        watched.spawn(super::watchdog::stall_on(world.home.root().join("stall-for-tests")));
    }
    let RunningEngine { handle, owner, mut executor } = Owner::start(ledger, world.clone())
        .map_err(|why| {
            ApiError::new(ErrorCode::Storage, why.to_string()).next("provost ledger verify")
        })?;
    let attended =
        serve_socket(DaemonServer::new(handle.clone(), world), &mut executor, detached).await;
    // The listener is already closed. The lock is released only afterwards, because the next daemon
    // uses the same path.
    handle.stop().await;
    match blocking_request(move || owner.join()).await {
        Ok(()) => attended,
        Err(_) => {
            Err(ApiError::new(ErrorCode::Internal, "the owner of the ledger panicked; see the log"))
        }
    }
}

/// Opens the listener, serves until the daemon is asked to stop, and closes the listener.
async fn serve_socket(
    daemon: DaemonServer,
    mut executor: impl Future<Output = ()> + Unpin,
    detached: bool,
) -> Result<(), ApiError> {
    let door = DaemonListener::open(&daemon.world.home.socket())
        .map_err(|why| startup_error("open its socket", &why))?;
    let (leaving, stop) = (daemon.leaving.clone(), daemon.stop.clone());
    let checkouts = Arc::clone(&daemon.world.checkouts);
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|why| startup_error("handle signals", &why))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|why| startup_error("handle signals", &why))?;
    let mut children =
        signal(SignalKind::child()).map_err(|why| startup_error("handle signals", &why))?;
    let mut orphans = Orphans::new(daemon.world.holders.clone());
    announce(detached);
    let serving = daemon.serve(door);
    tokio::pin!(serving);
    let patience = wait_for_last_answers(stop.clone());
    tokio::pin!(patience);
    let after_landing = stop_after_landing(leaving.clone(), stop.clone(), checkouts);
    tokio::pin!(after_landing);
    loop {
        tokio::select! {
            result = &mut serving => break result.map_err(|why| startup_error("serve its socket", &why)),
            () = &mut executor => break Ok(()),
            _ = terminate.recv() => request_stop(&leaving, &stop),
            _ = interrupt.recv() => request_stop(&leaving, &stop),
            _ = children.recv() => orphans.child_ended(),
            () = orphans.due() => orphans.reap().await,
            () = &mut patience => break Ok(()),
            () = &mut after_landing => {}
        }
    }
}

/// Raises the limit on open files. Each live session needs several open files, but many systems have a soft limit of
/// only a few hundred.
fn raise_file_limit() -> Result<(), ApiError> {
    let limit = getrlimit(Resource::Nofile);
    // A limit that cannot be raised is a problem only with a great many sessions. In that case, an error reports the
    // limit.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if open >= MIN_DESCRIPTORS {
        return Ok(());
    }
    let message = format!(
        "the daemon is limited to {open} open files but needs {MIN_DESCRIPTORS}; raise the limit, for example with `ulimit -n 1024`"
    );
    Err(ApiError::new(ErrorCode::Unreachable, message).next("provost doctor"))
}

/// Returns when the grace period for a stopping daemon's remaining clients is over.
async fn wait_for_last_answers(stop: CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
}

/// Stops the daemon once no landing is in progress. A second call stops it immediately.
fn request_stop(leaving: &CancellationToken, stop: &CancellationToken) {
    if leaving.is_cancelled() {
        stop.cancel();
    }
    leaving.cancel();
}

/// Stops a leaving daemon once no landing is in progress, and prevents new landings. After [`LANDING_TIMEOUT`], the
/// daemon stops even if a landing is in progress: the landing continues under its holder, and the next daemon waits for
/// it. Never returns, because returning would allow a new landing.
async fn stop_after_landing(
    leaving: CancellationToken,
    stop: CancellationToken,
    checkouts: Arc<RwLock<()>>,
) {
    leaving.cancelled().await;
    let _none_lands = tokio::time::timeout(LANDING_TIMEOUT, checkouts.write_owned()).await;
    stop.cancel();
    std::future::pending().await
}

/// Reports that the daemon is ready, so that the waiting parent can continue.
fn announce(detached: bool) {
    let mut stdout = io::stdout();
    // If the parent has stopped waiting, the daemon serves anyway.
    drop(writeln!(stdout, "{READY}").and_then(|()| stdout.flush()));
    if detached && let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        rustix::stdio::dup2_stdout(&null).ok();
    }
}

fn open_ledger(places: &shell::Home) -> Result<SqliteLedger, ApiError> {
    let options = LedgerOptions {
        known: &stream::is_known,
        software: env!("CARGO_PKG_VERSION"),
        durability: Durability::Full,
    };
    let mut ledger = open_with_retry(&places.ledger(), &options).map_err(|why| match &why {
        OpenError::Locked { .. } => {
            ApiError::new(ErrorCode::Refused, why.to_string()).next("provost daemon status")
        }
        OpenError::Unreleased { .. } | OpenError::Older { .. } | OpenError::Newer { .. } => {
            ApiError::new(ErrorCode::Storage, why.to_string()).next("provost --version")
        }
        OpenError::Missing { .. }
        | OpenError::Vanished { .. }
        | OpenError::NotALedger { .. }
        | OpenError::Storage(_) => ledger_error(places, &why, why.is_damage()),
    })?;
    // Adds events written by an older program to the index. Each event is added only once.
    ledger
        .index_missing(&mut stream::refold)
        .map_err(|why| ledger_error(places, &why, why.is_damage()))?;
    #[cfg(feature = "failpoints")]
    ledger.set_probe(Box::new(|point| {
        shell::failpoint::pass(&format!("ledger.{point:?}").to_lowercase())
    }));
    Ok(ledger)
}

/// Returns the error for an unusable ledger. If the ledger is damaged, agents that it records may still be running.
fn ledger_error(places: &shell::Home, why: &dyn std::error::Error, damaged: bool) -> ApiError {
    let error = ApiError::new(ErrorCode::Storage, shell::error_chain(why)).next("provost doctor");
    if damaged { unknown_holders::name_living(places, error) } else { error }
}

/// Opens the ledger, and retries while it is locked. A child that a killed daemon had just forked
/// may hold the lock for a moment.
fn open_with_retry(dir: &Path, options: &LedgerOptions<'_>) -> Result<SqliteLedger, OpenError> {
    for _ in 0..20 {
        match SqliteLedger::open(dir, options) {
            Err(OpenError::Locked { .. }) => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "polls, because a released lock sends no event"
                )]
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
    SqliteLedger::open(dir, options)
}

fn create_world(places: &shell::Home) -> Result<EngineWorld, ApiError> {
    let program =
        std::env::current_exe().map_err(|why| startup_error("find its own program", &why))?;
    let environment = DaemonEnvironment::new(std::env::vars_os());
    let path = environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned();
    let user_home = environment.get("HOME").unwrap_or("/").to_owned();
    let git = Git::find(path.as_ref(), user_home.as_ref())
        .unwrap_or_else(|_| Git::new(Path::new("git"), path.as_ref(), user_home.as_ref()))
        .with_scratch(&places.scratch())
        .with_filters(|| settings::trusted_filters(&Environment::read()));
    let key =
        load_key(&places.root().join("key")).map_err(|why| startup_error("read its key", &why))?;
    Ok(EngineWorld {
        home: places.clone(),
        git,
        holders: Holders::new(vec![program.clone().into(), "hold".into()])
            .with_boundary(places.boundary(super::server::pinning())),
        adapters: adapters().clone(),
        gate: Default::default(),
        environment,
        program,
        key,
        secrets: shell::Secrets::default(),
        census: Default::default(),
        moves: Default::default(),
        landing: std::sync::Arc::default(),
        checkouts: std::sync::Arc::default(),
        waits: shell::ShortageWaits::default(),
    })
}

/// Reads the key from which tokens are derived, creating it if necessary.
fn load_key(path: &Path) -> io::Result<[u8; 32]> {
    match agent_file::read(path, crate::home::MAX_KEY).map_err(io::Error::from) {
        Ok(bytes) => {
            bytes.try_into().map_err(|_| io::Error::other("the key file does not have 32 bytes"))
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            File::open("/dev/urandom")?.read_exact(&mut key)?;
            let new = path.with_extension("new");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&key)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            Ok(key)
        }
        Err(why) => Err(why),
    }
}

/// Removes the temporary indexes and git directories of a killed daemon. Directories of long git
/// calls are skipped, because these calls may outlive their daemon; the directories are removed
/// when the calls end. Links are not followed.
fn remove_leftovers(scratch: &Path) {
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(long_call::DIRECTORY_PREFIX) {
            continue;
        }
        // A leftover that cannot be removed does no harm.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(entry.path()).ok();
        } else {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn startup_error(what: &str, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Unreachable, format!("the daemon cannot {what}: {why}"))
        .next("provost doctor")
}
