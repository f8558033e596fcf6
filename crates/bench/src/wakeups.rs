//! Wake-ups: what a daemon and holders with a hundred idle sessions do in half a minute. It should be nothing.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    daemon::Daemon,
    table::{Goal, Table},
    timing::now,
};

const SESSIONS: usize = 100;
const SECONDS: u32 = 30;
/// The main thread, two of the runtime, the owner of the ledger, the watchdog, and the seven that stay ready for
/// blocking work.
const RESTING_THREADS: usize = 12;
/// Threads that helped with the start have ended by then.
const REST_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(table: &mut Table) -> Result<()> {
    let daemon = Daemon::home()?;
    daemon.start()?;
    daemon.idle_sessions(SESSIONS)?;
    rest(daemon.pid()?)?;
    let holders = daemon.holders()?;
    let before = switches(&holders)?;
    let calls = system_calls(daemon.pid()?)?;
    let woken = switches(&holders)? - before;
    table.row(
        "system calls of a daemon with 100 idle sessions in 30 s",
        calls as f64,
        "",
        Goal::AtMost(10.0),
        "strace; stated timers: the watchdog asks every 30 s (silence is looked at every 300 s)",
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

/// Waits until a daemon rests, and counts its system calls from then on.
pub(crate) fn system_calls_at_rest(pid: u32) -> Result<usize> {
    rest(pid)?;
    system_calls(pid)
}

/// Threads that helped with the start leave after a while; the daemon is idle only then.
fn rest(pid: u32) -> Result<()> {
    let start = now();
    while std::fs::read_dir(format!("/proc/{pid}/task"))?.count() > RESTING_THREADS {
        ensure!(
            start.elapsed() < REST_LIMIT,
            "the daemon keeps more than {RESTING_THREADS} threads"
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
        .context("strace is needed")?;
    ensure!(status.code().is_some(), "strace ended by a signal");
    let text = std::fs::read_to_string(output.path())?;
    // Threads that wait are shown as interrupted when strace comes and goes.
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
