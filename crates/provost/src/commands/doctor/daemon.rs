//! The daemon: whether it runs, which one, and whether it has what agents need.

use provost_api::{ApiError, Code, DaemonInfo, PROTOCOL};
use provost_config::{BUILT_IN, Resolved};

use super::history;
use crate::{
    daemon::{self, keeper::Keeper},
    environment::Environment,
    home::Home,
    ui::Finding,
};

pub(super) fn examine(
    home: &Home,
    config: Option<&Resolved>,
    environment: &Environment,
) -> Vec<Finding> {
    let info = daemon::connect_only(home).and_then(|client| client.get::<DaemonInfo>("/v1/daemon"));
    let mut findings = vec![running(home, &info)];
    findings.extend(unknown(&info));
    findings.extend(history::examine(home, info.as_ref().ok().map(|info| info.pid)));
    let there = match &info {
        Ok(info) => info.environment.clone(),
        Err(_) => environment.variables().keys().cloned().collect(),
    };
    findings.extend(config.map(|config| passed(config, &there)));
    findings
}

fn running(home: &Home, info: &Result<DaemonInfo, ApiError>) -> Finding {
    match info {
        Ok(info) if info.protocol != PROTOCOL => Finding::fail(
            "daemon",
            format!(
                "version {} speaks protocol {}, this program {PROTOCOL}",
                info.version, info.protocol
            ),
            "provost daemon stop",
        ),
        // What the ledger lost is a finding of its own.
        Ok(info) => match info.read_only.as_ref().filter(|_| info.ledger_loss.is_none()) {
            Some(why) => Finding::fail(
                "daemon",
                format!("nothing can be changed: {why}"),
                "use a newer provost",
            ),
            None => Finding::ok(
                "daemon",
                format!(
                    "runs, pid {}, version {}, protocol {}",
                    info.pid, info.version, info.protocol
                ),
            ),
        },
        Err(error) if error.code == Code::Unreachable => match Keeper::of(home) {
            Ok(Keeper::Nobody) => {
                Finding::ok("daemon", "does not run; the first command that needs it starts it")
            }
            Ok(Keeper::Other) => Finding::warn(
                "daemon",
                "does not run, and something else has the ledger",
                "wait for the other command; provost daemon status",
            ),
            Ok(Keeper::Daemon(_)) => {
                Finding::fail("daemon", error.message.clone(), "provost daemon stop")
            }
            Err(why) => Finding::fail("daemon", why.message, "check the home"),
        },
        Err(error) => Finding::fail("daemon", error.message.clone(), "provost daemon stop"),
    }
}

/// What runs and the ledger does not know.
fn unknown(info: &Result<DaemonInfo, ApiError>) -> Option<Finding> {
    let found = &info.as_ref().ok()?.unknown_holders;
    let names: Vec<String> = found
        .iter()
        .map(|holder| {
            let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            format!("{}{pid}", holder.command)
        })
        .collect();
    let what = format!("run unknown to the ledger: {}", names.join(", "));
    (!found.is_empty()).then(|| Finding::fail("processes", what, "provost ledger recover"))
}

/// Variables are passed on from the daemon's environment, so they must be there.
fn passed(config: &Resolved, there: &[String]) -> Finding {
    let agents = config.agents.iter().map(|(agent, keys)| (agent.as_str(), &keys.pass_env));
    let agents = agents.chain([(BUILT_IN, &config.codex.pass_env)]);
    let wanted = agents.flat_map(|(agent, names)| names.iter().map(move |name| (agent, name)));
    let missing: Vec<String> = wanted
        .filter(|(_, name)| !name.ends_with('*') && !there.iter().any(|have| have == name))
        .map(|(agent, name)| format!("{name} (for {agent})"))
        .collect();
    match missing.is_empty() {
        true => Finding::ok("pass_env", "every variable that agents want is set"),
        false => Finding::warn(
            "pass_env",
            format!("not set in the daemon: {}", missing.join(", ")),
            "provost daemon stop, then start it where they are set",
        ),
    }
}
