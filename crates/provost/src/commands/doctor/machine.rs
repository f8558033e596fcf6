//! Checks of the machine: settings that could cause the daemon and its agents to be killed.

use std::{fs, path::Path};

use provost_sys::process::boot_id;

use provost_agent::front_end::DoctorFinding;

use crate::environment::Environment;

/// Init programs that reap orphans.
const INITS: [&str; 9] = [
    "systemd",
    "init",
    "tini",
    "dumb-init",
    "docker-init",
    "s6-svscan",
    "runit",
    "catatonit",
    "podman-init",
];

pub(super) fn examine(environment: &Environment) -> Vec<DoctorFinding> {
    let mut findings = vec![boot(), init(), landlock(provost_sys::landlock::abi())];
    if Path::new("/run/systemd/system").exists() {
        findings.push(lingering(environment.get("USER").unwrap_or_default()));
    }
    findings
}

/// Checks the boot id, which distinguishes processes started before and after a reboot.
fn boot() -> DoctorFinding {
    match boot_id() {
        Ok(_) => DoctorFinding::ok("boot id", "readable"),
        Err(why) => {
            DoctorFinding::fail("boot id", format!("unreadable: {why}"), "make /proc readable")
        }
    }
}

fn init() -> DoctorFinding {
    let name = fs::read_to_string("/proc/1/comm").unwrap_or_default();
    if INITS.contains(&name.trim()) {
        DoctorFinding::ok("init", name.trim())
    } else {
        DoctorFinding::warn(
            "init",
            format!("the first process is {:?}, which possibly does not reap orphans", name.trim()),
            "start the container with an init process, for example with `docker run --init`",
        )
    }
}

/// Checks for Landlock, a kernel feature that prevents Provost's git from executing any program
/// other than git.
fn landlock(abi: std::io::Result<Option<u32>>) -> DoctorFinding {
    let enable = "use Linux 5.13 or newer, with landlock in its list of security modules (lsm=)";
    match abi {
        Ok(Some(abi)) => {
            let found = "Provost's git cannot start programs from a repository";
            DoctorFinding::ok("landlock", format!("available (ABI {abi}): {found}"))
        }
        Ok(None) => DoctorFinding::warn(
            "landlock",
            "not available: only git's own settings prevent Provost's git from starting programs from a repository",
            enable,
        ),
        Err(why) => DoctorFinding::warn("landlock", format!("cannot be examined: {why}"), enable),
    }
}

fn lingering(user: &str) -> DoctorFinding {
    let lingers = !user.is_empty() && Path::new("/var/lib/systemd/linger").join(user).exists();
    let kills =
        fs::read_to_string("/etc/systemd/logind.conf").is_ok_and(|text| kills_processes(&text));
    match (lingers, kills) {
        (true, _) => {
            DoctorFinding::ok("logout", "agents keep running when you log out: lingering is on")
        }
        (false, true) => DoctorFinding::warn(
            "logout",
            "KillUserProcesses is on, so agents are killed when you log out",
            "loginctl enable-linger",
        ),
        (false, false) => DoctorFinding::ok(
            "logout",
            "agents should keep running when you log out; run `loginctl enable-linger` to make sure",
        ),
    }
}

fn kills_processes(logind: &str) -> bool {
    let last = logind
        .lines()
        .filter_map(|line| line.trim().strip_prefix("KillUserProcesses="))
        .next_back();
    last.is_some_and(|value| matches!(value.trim(), "yes" | "true" | "on" | "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_landlock_is_a_warning() {
        let shown = format!("{:?}", landlock(Ok(Some(6))));
        assert!(
            shown.contains("available (ABI 6): Provost's git cannot start programs"),
            "{shown}"
        );
        let shown = format!("{:?}", landlock(Ok(None)));
        assert!(shown.contains("not available") && shown.contains("5.13"), "{shown}");
        let shown = format!("{:?}", landlock(Err(std::io::Error::other("denied"))));
        assert!(shown.contains("denied"), "{shown}");
    }

    #[test]
    fn last_uncommented_line_wins() {
        assert!(!kills_processes("#KillUserProcesses=yes\n"));
        assert!(kills_processes("[Login]\nKillUserProcesses=no\nKillUserProcesses=yes\n"));
        assert!(!kills_processes(""));
    }
}
