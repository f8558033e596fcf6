//! Finding the daemon, starting it, replacing an older one. Safe when many commands race.

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Read},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    process::{Command, Stdio},
};

use provost_api::{ApiError, Client, Code, DaemonInfo, PROTOCOL};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::life::READY;
use crate::home::Home;

/// Talks with a daemon that runs, and never starts one.
pub(crate) fn connect_only(home: &Home) -> Result<Client, ApiError> {
    home.trust()?;
    let client = Client::new(home.socket());
    let _info: DaemonInfo = client.get("/v1/daemon")?;
    Ok(client)
}

/// Talks with the daemon; starts one if none runs, and replaces one that is older than this program.
pub(crate) fn ensure(home: &Home) -> Result<Client, ApiError> {
    if is_inside_a_launch() {
        // A daemon started here would be a descendant of the launch's holder, and end with it.
        return connect_only(home);
    }
    home.prepare()?;
    let client = Client::new(home.socket());
    if let Ok(info) = client.get::<DaemonInfo>("/v1/daemon")
        && !is_older(&info)
    {
        return usable(client, &info);
    }
    // One at a time: whoever waited here finds the daemon that the first one started.
    let _lock = lock(home)?;
    match client.get::<DaemonInfo>("/v1/daemon") {
        Ok(info) if !is_older(&info) => return usable(client, &info),
        Ok(_) => replace(home, &client)?,
        Err(_) => {}
    }
    start(home)?;
    let info = client.get::<DaemonInfo>("/v1/daemon")?;
    usable(client, &info)
}

#[expect(clippy::disallowed_methods, reason = "the mark of a launch, looked at where it matters")]
fn is_inside_a_launch() -> bool {
    std::env::var_os(provost_holder::spec::MARK).is_some()
}

fn usable(client: Client, info: &DaemonInfo) -> Result<Client, ApiError> {
    match info.protocol == PROTOCOL {
        true => Ok(client),
        false => {
            let message = format!(
                "the daemon is provost {} and speaks protocol {}; this program speaks {PROTOCOL}",
                info.version, info.protocol
            );
            Err(ApiError::new(Code::Unreachable, message).next("provost daemon stop"))
        }
    }
}

/// Says whether this program is newer than the daemon. A newer daemon serves older programs.
fn is_older(daemon: &DaemonInfo) -> bool {
    numbers(&daemon.version) < numbers(&super::version())
}

fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// Asks an older daemon to finish its commit and let go. What it supervises goes on under its holders.
fn replace(home: &Home, client: &Client) -> Result<(), ApiError> {
    let key = super::server::new_session_id().to_string();
    let _stopped: serde_json::Value = client.post("/v1/daemon/stop", &json!({}), &key)?;
    wait_for_the_lock(home)
}

/// Waits until the old daemon has let go of the ledger.
fn wait_for_the_lock(home: &Home) -> Result<(), ApiError> {
    let path = home.ledger().join("ledger.lock");
    let file = match OpenOptions::new().read(true).open(&path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(cannot("open the ledger's lock", &why)),
    };
    flock(&file, FlockOperation::LockShared).map_err(|why| cannot("wait for the old daemon", &why))
}

/// Waits for the turn to start a daemon.
fn lock(home: &Home) -> Result<std::fs::File, ApiError> {
    let path = home.path.join("start.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(|why| cannot("open its start-up lock", &why))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|why| cannot("take its start-up lock", &why))?;
    Ok(file)
}

/// Starts a daemon and waits until it answers, or says why it doesn't.
fn start(home: &Home) -> Result<(), ApiError> {
    let program = std::env::current_exe().map_err(|why| cannot("find its own program", &why))?;
    std::fs::create_dir_all(home.log_dir())
        .map_err(|why| cannot("make its log directory", &why))?;
    let log = home.log_dir().join(super::LOG_FILE);
    let log_file = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let log_file = log_file.map_err(|why| cannot("open its log", &why))?;
    let mut child = Command::new(program)
        .args(["daemon", "run", "--detached"])
        .env("PROVOST_HOME", &home.path)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .process_group(0)
        .spawn()
        .map_err(|why| cannot("start the daemon", &why))?;
    let stdout = child.stdout.take().ok_or_else(|| cannot("hear from the daemon", &"no pipe"))?;
    let mut lines = BufReader::new(stdout);
    let mut first = String::new();
    lines.read_line(&mut first).map_err(|why| cannot("hear from the daemon", &why))?;
    if first.trim_end() == READY {
        return Ok(());
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest).map_err(|why| cannot("hear from the daemon", &why))?;
    child.wait().map_err(|why| cannot("wait for the daemon", &why))?;
    let said = format!("{first}{rest}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    match serde_json::from_value::<provost_api::ErrorBody>(said) {
        Ok(body) => Err(body.error),
        Err(_) => {
            let message = format!("the daemon did not start; see {}", log.display());
            Err(ApiError::new(Code::Unreachable, message).next("provost doctor"))
        }
    }
}

fn cannot(what: &str, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(Code::Unreachable, format!("cannot {what}: {why}")).next("provost doctor")
}
