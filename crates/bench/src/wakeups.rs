//! Wake-ups of a daemon and holders with a hundred idle sessions in 30 seconds. There should be none.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    daemon::BenchDaemon,
    table::{FigureTable, Goal},
    timing::now,
};

const SESSIONS: usize = 100;
const SECONDS: u32 = 30;
/// The number of system calls that an idle daemon may make during the measurement.
pub(crate) const MAX_IDLE_CALLS: f64 = 10.0;
/// The number of threads of an idle daemon: main, two of the runtime, the ledger owner, the
/// watchdog, and seven for blocking work.
const IDLE_THREADS: usize = 12;
/// The time that the helper threads of startup may take to exit.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let daemon = BenchDaemon::home()?;
    daemon.start()?;
    daemon.open_idle_sessions(SESSIONS)?;
    wait_until_idle(daemon.pid()?)?;
    let holders = daemon.holders()?;
    let before = switches(&holders)?;
    let calls = system_calls(daemon.pid()?)?;
    let woken = switches(&holders)? - before;
    table.row(
        "system calls of a daemon with 100 idle sessions in 30 s",
        calls as f64,
        "",
        Goal::AtMost(MAX_IDLE_CALLS),
        "strace; a round of the watchdog, every 30 s, takes 16 to 18 of them",
    );
    table.row(
        "wake-ups of 100 idle holders in the same time",
        woken as f64,
        "",
        Goal::AtMost(0.0),
        "voluntary context switches",
    );
    Ok(())
}

/// Waits until a daemon is idle, then counts its system calls.
pub(crate) fn count_idle_system_calls(pid: u32) -> Result<usize> {
    wait_until_idle(pid)?;
    system_calls(pid)
}

/// Waits for the helper threads of startup to exit, because the daemon is idle only then.
fn wait_until_idle(pid: u32) -> Result<()> {
    let start = now();
    while std::fs::read_dir(format!("/proc/{pid}/task"))?.count() > IDLE_THREADS {
        ensure!(
            start.elapsed() < IDLE_TIMEOUT,
            "the daemon keeps more than {IDLE_THREADS} threads"
        );
        std::thread::yield_now();
    }
    Ok(())
}

fn system_calls(pid: u32) -> Result<usize> {
    let output = tempfile::NamedTempFile::new()?;
    let status = Command::new("timeout")
        .args([
            "--signal=INT",
            &SECONDS.to_string(),
            "strace",
            "-f",
            "-q",
            "-p",
            &pid.to_string(),
            "-o",
        ])
        .arg(output.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run strace")?;
    ensure!(status.code().is_some(), "strace was killed by a signal");
    let text = std::fs::read_to_string(output.path())?;
    // Waiting threads appear as interrupted when strace attaches and detaches.
    let resting = |line: &&str| {
        line.contains("strace: ")
            || line.contains("resuming interrupted")
            || line.contains("<unfinished")
            || line.contains("<detached")
    };
    Ok(text.lines().filter(|line| !resting(line)).count())
}

fn switches(pids: &[u32]) -> Result<u64> {
    let mut all = 0;
    for pid in pids {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        all += line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(all)
}
