//! Checks of the daemon: whether it is running, its version, and whether its environment contains
//! the variables that agents need.

use provost_agent::front_end::DoctorFinding;
use provost_api::{ApiError, DaemonInfo, ErrorCode, PROTOCOL, UnknownHolder};
use provost_config::{NamePatterns, Resolved};

use super::{history, skipped};
use crate::{
    commands::spawn::built_in::BuiltInAgent,
    daemon::{self, ledger_lock::LedgerOwner},
    environment::Environment,
    home::ProvostHome,
};

pub(super) fn examine(
    home: &ProvostHome,
    config: Option<&Resolved>,
    environment: &Environment,
) -> Vec<DoctorFinding> {
    let info = daemon::connect_only(home).and_then(|client| client.get::<DaemonInfo>("/v1/daemon"));
    let mut findings = vec![running(home, &info)];
    findings.extend(unknown_processes(&info));
    findings.extend(history::examine(home, info.as_ref().ok().map(|info| info.pid)));
    let there = match &info {
        Ok(info) => info.environment.clone(),
        Err(_) => environment.variables().keys().cloned().collect(),
    };
    findings.push(match config {
        Some(config) => pass_env(config, &there),
        None => skipped("pass_env"),
    });
    findings
}

fn running(home: &ProvostHome, info: &Result<DaemonInfo, ApiError>) -> DoctorFinding {
    match info {
        Ok(info) if info.protocol != PROTOCOL => DoctorFinding::fail(
            "daemon",
            format!(
                "version {} uses protocol {}, but this program uses {PROTOCOL}",
                info.version, info.protocol
            ),
            "provost daemon stop",
        ),
        // A damaged ledger is reported as a separate finding.
        Ok(info) => match &info.read_only {
            Some(why) if info.ledger_loss.is_none() => DoctorFinding::fail(
                "daemon",
                format!("read-only: {why}"),
                "install a newer \
                    provost",
            ),
            Some(_) | None => DoctorFinding::ok(
                "daemon",
                format!(
                    "running, pid {}, version {}, protocol {}",
                    info.pid, info.version, info.protocol
                ),
            ),
        },
        Err(error) if error.code == ErrorCode::Unreachable => match LedgerOwner::read(home) {
            Ok(LedgerOwner::Unowned) if home.is_read_only() => DoctorFinding::warn(
                "daemon",
                "not running, and cannot be started: the home is read-only",
                "make the home writable",
            ),
            Ok(LedgerOwner::Unowned) => DoctorFinding::ok(
                "daemon",
                "not running; the first command that needs the daemon starts it",
            ),
            Ok(LedgerOwner::Other) => DoctorFinding::warn(
                "daemon",
                "not running, but another process holds the ledger",
                "wait for the other command, then run `provost daemon status`",
            ),
            Ok(LedgerOwner::Daemon(_)) => {
                DoctorFinding::fail("daemon", error.message.clone(), "provost daemon stop")
            }
            Err(why) => DoctorFinding::fail("daemon", why.message, "check the home"),
        },
        Err(error) => DoctorFinding::fail("daemon", error.message.clone(), "provost daemon stop"),
    }
}

/// Reports running processes that are missing from the ledger.
fn unknown_processes(info: &Result<DaemonInfo, ApiError>) -> Option<DoctorFinding> {
    let found = &info.as_ref().ok()?.unknown_holders;
    (!found.is_empty()).then(|| processes_finding(found, "provost ledger recover"))
}

pub(super) fn processes_finding(found: &[UnknownHolder], fix: &'static str) -> DoctorFinding {
    let names: Vec<String> = found
        .iter()
        .map(|holder| {
            let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            format!("{}{pid}", holder.command)
        })
        .collect();
    let what = format!("running but not in the ledger: {}", names.join(", "));
    DoctorFinding::fail("processes", what, fix)
}

/// Checks `pass_env`. Agents get the listed variables from the daemon's environment, so the
/// variables must be set there.
fn pass_env(config: &Resolved, there: &[String]) -> DoctorFinding {
    let agents = config.agents.iter().map(|(agent, keys)| (agent.as_str(), &keys.pass_env));
    let agents = agents.map(|(agent, names)| (agent, names.clone()));
    let built_in =
        BuiltInAgent::all().map(|agent| (agent.name(), agent.front_end.variables(config).passed));
    let agents: Vec<(&str, NamePatterns)> = agents.chain(built_in).collect();
    let wanted =
        agents.iter().flat_map(|(agent, names)| names.iter().map(move |name| (agent, name)));
    let missing: Vec<String> = wanted
        .filter(|(_, name)| !name.ends_with('*') && !there.iter().any(|have| have == name))
        .map(|(agent, name)| format!("{name} (for {agent})"))
        .collect();
    if missing.is_empty() {
        DoctorFinding::ok("pass_env", "every variable that agents need is set")
    } else {
        DoctorFinding::warn(
            "pass_env",
            format!("not set in the daemon: {}", missing.join(", ")),
            "run `provost daemon stop`, then start the daemon in a shell that sets these variables",
        )
    }
}
