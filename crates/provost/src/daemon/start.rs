//! Finds the daemon, starts it, or replaces an older one. Many commands can safely do so at the same time.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Read},
    os::unix::{fs::OpenOptionsExt, net::UnixStream, process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};

use provost_api::{ApiError, Client, DaemonInfo, DaemonLoss, ErrorCode, LookupReply, PROTOCOL};
use provost_holder::ProcessInstance;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::{
    history::{self, DaemonTransition},
    ledger_lock::{LedgerOwner, unresponsive_error},
    main_loop::READY,
};
use crate::{clock, home::ProvostHome};

/// How many times to poll a daemon that is starting or stopping.
const POLL_ATTEMPTS: u32 = 1_000;

/// The delay between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How many times to retry if a daemon owns the ledger but does not respond. It may be starting, or
/// restoring its socket.
const CONNECT_ATTEMPTS: u32 = 200;

/// The time limit for the daemon to respond to a request for information about itself.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// Connects to a running daemon. Never starts one.
pub(crate) fn connect_only(home: &ProvostHome) -> Result<Client, ApiError> {
    connect_within(home, PROBE_TIMEOUT).map(|_| Client::new(home.socket()))
}

/// Connects to a running daemon like [`connect_only`], but with a deadline for each of the client's requests.
pub(crate) fn connect_within(home: &ProvostHome, deadline: Duration) -> Result<Client, ApiError> {
    home.check_trust()?;
    let client = Client::new(home.socket()).with_timeout(deadline);
    for _ in 0..CONNECT_ATTEMPTS {
        match client.get::<DaemonInfo>("/v1/daemon") {
            Ok(_) => return Ok(client),
            Err(error) if error.code == ErrorCode::TimedOut => {
                return Err(timeout_error(home, error));
            }
            Err(error) if error.code != ErrorCode::Unreachable => return Err(error),
            Err(error) if is_forbidden(home) => return Err(error),
            Err(error) => match LedgerOwner::read(home) {
                Ok(LedgerOwner::Daemon(_)) => clock::sleep(POLL_INTERVAL),
                Ok(LedgerOwner::Unowned | LedgerOwner::Other) | Err(_) => return Err(error),
            },
        }
    }
    let error = client.get::<DaemonInfo>("/v1/daemon").err();
    match (error, LedgerOwner::read(home)) {
        (None, _) => Ok(client),
        (Some(_), Ok(LedgerOwner::Daemon(daemon))) => Err(unresponsive_error(home, &daemon)),
        (Some(error), _) => Err(error),
    }
}

/// If a running daemon did not respond in time, returns an error that identifies it.
fn timeout_error(home: &ProvostHome, error: ApiError) -> ApiError {
    match LedgerOwner::read(home) {
        Ok(LedgerOwner::Daemon(daemon)) => unresponsive_error(home, &daemon),
        Ok(LedgerOwner::Unowned | LedgerOwner::Other) | Err(_) => error,
    }
}

/// Rejects agents. Only the daemon can identify the caller, because it knows the processes of
/// launches whose holders have died.
pub(crate) fn must_be_operator(client: &Client) -> Result<(), ApiError> {
    client.get::<serde_json::Value>("/v1/daemon/operator").map(drop)
}

/// Whether a sandbox blocks all connections. If so, it is pointless to retry.
fn is_forbidden(home: &ProvostHome) -> bool {
    let denied = |why: io::Error| why.kind() == io::ErrorKind::PermissionDenied;
    UnixStream::connect(home.socket()).err().is_some_and(denied)
}

/// Connects to the daemon. Starts one if none is running, and replaces one that is older than this
/// program. If the daemon stops during a request, the request is sent to the next daemon.
pub(crate) fn ensure(home: &ProvostHome) -> Result<(Client, Option<DaemonInfo>), ApiError> {
    if is_inside_launch() {
        // A daemon started here would be below the launch's holder and would end with it.
        return connect_only(home).map(|client| (client, None));
    }
    home.prepare()?;
    let info = ensure_current(home)?;
    let client = check_protocol(restarting_client(home), &info)?;
    Ok((client, Some(info)))
}

/// Sends the first request of a command to the daemon that is running. The reply contains the
/// daemon's description, so that no further request is necessary to check it. Returns `None` if no
/// daemon replies that can serve this program.
pub(crate) fn begin(
    home: &ProvostHome,
    path: &str,
) -> Result<Option<(Client, LookupReply)>, ApiError> {
    if is_inside_launch() {
        return Ok(None);
    }
    let probe = Client::new(home.socket()).with_timeout(PROBE_TIMEOUT);
    match probe.get::<LookupReply>(path) {
        Ok(reply) if is_older(&reply.daemon) || reply.daemon.protocol != PROTOCOL => Ok(None),
        Ok(reply) => Ok(Some((restarting_client(home), reply))),
        Err(error) if error.code == ErrorCode::TimedOut => Err(timeout_error(home, error)),
        Err(_) => Ok(None),
    }
}

/// Returns a client that starts another daemon if the daemon stops during a request.
fn restarting_client(home: &ProvostHome) -> Client {
    let again = home.clone();
    Client::new(home.socket()).with_restart(move |lost| restart(&again, lost))
}

/// Runs `work` while no daemon owns the ledger and no command can start one.
pub(crate) fn without_daemon<T>(
    home: &ProvostHome,
    work: impl FnOnce() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let _turn = lock_start(home)?;
    let client = Client::new(home.socket()).with_timeout(PROBE_TIMEOUT);
    match client.get::<DaemonInfo>("/v1/daemon") {
        Ok(_) => replace(home, &client)?,
        Err(error) if error.code == ErrorCode::Unreachable => {}
        Err(error) => return Err(error),
    }
    work()
}

/// Starts another daemon if the previous one shut down in an orderly way. If the request crashed
/// the daemon, it is not repeated.
fn restart(home: &ProvostHome, lost: DaemonLoss) -> Result<(), ApiError> {
    match lost {
        DaemonLoss::ClosedWithoutReply { pid, error } if !stopped_cleanly(home, pid) => Err(error),
        DaemonLoss::ClosedWithoutReply { .. } | DaemonLoss::NotListening => {
            ensure_current(home).map(drop)
        }
    }
}

/// Whether a daemon shut down in an orderly way. A daemon records an orderly shutdown before its process exits.
fn stopped_cleanly(home: &ProvostHome, pid: u32) -> bool {
    for _ in 0..POLL_ATTEMPTS {
        let alive = ProcessInstance::of_pid(pid)
            .is_ok_and(|found| found.is_some_and(|process| process.is_alive().unwrap_or(false)));
        let entries = history::read(&home.log_dir());
        let last = entries.iter().rev().find(|entry| entry.pid == pid).map(|entry| entry.event);
        if last == Some(DaemonTransition::Stopped) || !alive {
            return last == Some(DaemonTransition::Stopped);
        }
        clock::sleep(POLL_INTERVAL);
    }
    false
}

/// Ensures that a daemon is running and is not older than this program.
fn ensure_current(home: &ProvostHome) -> Result<DaemonInfo, ApiError> {
    let client = Client::new(home.socket()).with_timeout(PROBE_TIMEOUT);
    match client.get::<DaemonInfo>("/v1/daemon") {
        Ok(info) if !is_older(&info) => return Ok(info),
        Err(error) if error.code == ErrorCode::TimedOut => return Err(timeout_error(home, error)),
        Ok(_) | Err(_) => {}
    }
    // Only one process at a time starts a daemon. A process that had to wait here finds the daemon
    // that the first process started.
    let _turn = lock_start(home)?;
    let mut last = None;
    for _ in 0..POLL_ATTEMPTS {
        match client.get::<DaemonInfo>("/v1/daemon") {
            Ok(info) if !is_older(&info) => return Ok(info),
            Ok(_) => replace(home, &client)?,
            Err(error) if error.code == ErrorCode::TimedOut => {
                return Err(timeout_error(home, error));
            }
            Err(_) => {}
        }
        match try_start(home)? {
            StartAttempt::Started => {}
            StartAttempt::Wait(error) => {
                last = Some(error);
                clock::sleep(POLL_INTERVAL);
            }
        }
    }
    Err(last.unwrap_or_else(|| start_error("start the daemon", &"the daemon stops repeatedly")))
}

/// The result of an attempt to start a daemon.
enum StartAttempt {
    Started,
    /// A daemon owns the ledger but does not respond, because it is starting or stopping, or
    /// because its socket is missing for a moment.
    Wait(ApiError),
}

fn try_start(home: &ProvostHome) -> Result<StartAttempt, ApiError> {
    if let LedgerOwner::Daemon(daemon) = LedgerOwner::read(home)? {
        return Ok(StartAttempt::Wait(unresponsive_error(home, &daemon)));
    }
    match (start(home), LedgerOwner::read(home)?) {
        (Ok(()), _) => Ok(StartAttempt::Started),
        // Another process started a daemon first.
        (Err(error), LedgerOwner::Daemon(_)) if error.code == ErrorCode::Refused => {
            Ok(StartAttempt::Wait(error))
        }
        (Err(error), _) => Err(error),
    }
}

#[expect(clippy::disallowed_methods, reason = "the mark of a launch, read where it is needed")]
fn is_inside_launch() -> bool {
    std::env::var_os(provost_holder::spec::MARK).is_some()
}

fn check_protocol(client: Client, info: &DaemonInfo) -> Result<Client, ApiError> {
    if info.protocol == PROTOCOL {
        return Ok(client);
    }
    let message = format!(
        "the daemon is provost {} with protocol {}, but this program has protocol {PROTOCOL}",
        info.version, info.protocol
    );
    Err(ApiError::new(ErrorCode::Unreachable, message).next("provost daemon stop"))
}

/// Whether the daemon is older than this program. A newer daemon can serve older programs.
fn is_older(daemon: &DaemonInfo) -> bool {
    version_numbers(&daemon.version) < version_numbers(&super::version())
}

fn version_numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Asks an older daemon to finish its commit and stop. Its agents keep running under their holders.
fn replace(home: &ProvostHome, client: &Client) -> Result<(), ApiError> {
    let key = super::server::new_session_id().to_string();
    match client.post::<serde_json::Value>("/v1/daemon/stop", &json!({}), &key) {
        Ok(_) => wait_for_the_lock(home),
        // The daemon stopped in the meantime.
        Err(error) if error.code == ErrorCode::Unreachable => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until the old daemon has released the ledger.
fn wait_for_the_lock(home: &ProvostHome) -> Result<(), ApiError> {
    let path = home.ledger().join("ledger.lock");
    let file = match OpenOptions::new().read(true).open(&path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(start_error("open the ledger's lock", &why)),
    };
    flock(&file, FlockOperation::LockShared)
        .map_err(|why| start_error("wait for the old daemon", &why))
}

/// Takes the lock that ensures that only one process at a time starts a daemon.
fn lock_start(home: &ProvostHome) -> Result<std::fs::File, ApiError> {
    let path = home.path.join("start.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|why| start_error("open its start-up lock", &why))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|why| start_error("take its start-up lock", &why))?;
    Ok(file)
}

/// Starts a daemon, and waits until it is ready. If it fails to start, returns its error.
fn start(home: &ProvostHome) -> Result<(), ApiError> {
    let program =
        std::env::current_exe().map_err(|why| start_error("find its own program", &why))?;
    provost_sys::private::make_private_dir(&home.log_dir())
        .map_err(|why| start_error("create its log directory", &why))?;
    let log = home.log_dir().join(super::LOG_FILE);
    let log_file = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let log_file = log_file.map_err(|why| start_error("open its log", &why))?;
    let mut child = Command::new(program)
        .args(["daemon", "run", "--detached"])
        .env("PROVOST_HOME", &home.path)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .process_group(0)
        .spawn()
        .map_err(|why| start_error("start the daemon", &why))?;
    let stdout =
        child.stdout.take().ok_or_else(|| start_error("read from the daemon", &"no pipe"))?;
    let mut lines = BufReader::new(stdout);
    let mut first = String::new();
    lines.read_line(&mut first).map_err(|why| start_error("read from the daemon", &why))?;
    if first.trim_end() == READY {
        return Ok(());
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest).map_err(|why| start_error("read from the daemon", &why))?;
    child.wait().map_err(|why| start_error("wait for the daemon", &why))?;
    let reply = format!("{first}{rest}");
    let reply: serde_json::Value = serde_json::from_str(&reply).unwrap_or_default();
    match serde_json::from_value::<provost_api::ErrorBody>(reply) {
        Ok(body) => Err(body.error),
        Err(_) => {
            let message = format!("the daemon did not start; see {}", log.display());
            Err(ApiError::new(ErrorCode::Unreachable, message).next("provost doctor"))
        }
    }
}

fn start_error(what: &str, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Unreachable, format!("cannot {what}: {why}")).next("provost doctor")
}
