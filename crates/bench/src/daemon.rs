//! A real daemon in its own home directory, and its resource usage as the kernel reports it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use provost_api::{Client, DaemonInfo};
use provost_holder::tree::{self, LaunchTraces};
use serde_json::{Value, json};

/// The length of a processor clock tick as Linux exposes it to programs, in milliseconds.
pub(crate) const TICK_MS: f64 = 10.0;

/// Returns the path of the release binary under test.
#[expect(clippy::disallowed_methods, reason = "xtask names the binary, read once")]
pub(crate) fn provost_bin() -> Result<PathBuf> {
    std::env::var("PROVOST_BIN").map(PathBuf::from).context("run this through `cargo xtask bench`")
}

/// A home directory with a daemon. Dropping it stops the daemon.
pub(crate) struct BenchDaemon {
    dir: tempfile::TempDir,
}

impl BenchDaemon {
    /// Creates a home whose ledger can be filled before the daemon starts.
    pub(crate) fn home() -> Result<BenchDaemon> {
        Ok(BenchDaemon { dir: tempfile::Builder::new().prefix("pb").tempdir()? })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("h")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(provost_bin()?);
        command.args(args).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("PROVOST_HOME", self.path()).env("HOME", self.dir.path()).stdin(Stdio::null());
        Ok(command)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Result<Output> {
        let output = self.command(args)?.output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "provost {args:?} failed: {printed}");
        Ok(output)
    }

    pub(crate) fn start(&self) -> Result<()> {
        self.run(&["ls", "--json"]).map(drop)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.path().join("daemon.sock"))
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.client().get::<DaemonInfo>("/v1/daemon")?.pid)
    }

    /// Opens a session over the socket and returns its id.
    pub(crate) fn open(
        &self,
        spec: &provost_core::session::SessionSpec,
        key: &str,
    ) -> Result<String> {
        let reply: Value = self.client().post("/v1/sessions", &json!({"spec": spec}), key)?;
        reply["id"].as_str().map(str::to_owned).context("the reply has no session id")
    }

    /// Opens `count` sessions that do nothing, and waits until all of them are running.
    pub(crate) fn open_idle_sessions(&self, count: usize) -> Result<()> {
        self.open_more_idle_sessions(0, count)
    }

    /// Opens `more` sessions on top of the `have` existing ones.
    pub(crate) fn open_more_idle_sessions(&self, have: usize, more: usize) -> Result<()> {
        let count = have + more;
        for n in have..count {
            self.open(&crate::fill::spec(n as u64), &format!("idle-{n}"))?;
        }
        loop {
            let all: Value = self.client().get("/v1/sessions")?;
            let rows = all["sessions"].as_array().context("the reply has no sessions")?;
            let running =
                rows.iter().filter(|row| row["launches"][0]["phase"] == "running").count();
            if running >= count {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn holders(&self) -> Result<Vec<u32>> {
        holders(&self.path())
    }
}

impl Drop for BenchDaemon {
    fn drop(&mut self) {
        // A failed benchmark may have no daemon; the remaining processes are stopped anyway.
        self.run(&["daemon", "stop"]).ok();
        stop_holders(&self.path()).ok();
    }
}

/// Stops the holders of a home and every process under them.
pub(crate) fn stop_holders(home: &Path) -> Result<()> {
    for entry in std::fs::read_dir(home.join("launches"))? {
        let dir = entry?.path();
        // Holders accept commands only from the daemon, which may have exited.
        if let provost_holder::LaunchState::Alive { held } = provost_holder::inspect(&dir)? {
            let traces = LaunchTraces {
                holder: Some(held.holder),
                child: Some(held.child),
                ..LaunchTraces::with_mark(&held.key)
            };
            tree::end_all(&traces, Duration::ZERO)?;
        }
    }
    Ok(())
}

fn holders(home: &Path) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(home.join("launches"))? {
        if let provost_holder::LaunchState::Alive { held } =
            provost_holder::inspect(&entry?.path())?
        {
            all.push(held.holder.pid);
        }
    }
    Ok(all)
}

/// Returns the unshared memory of a process in KiB: dirty pages, and clean pages that only it has mapped.
pub(crate) fn private_kib(pid: u32) -> Result<(f64, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let field = |name: &str| -> f64 {
        text.lines()
            .find_map(|line| {
                line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse().ok()
            })
            .unwrap_or(0.0)
    };
    Ok((field("Private_Dirty:"), field("Private_Clean:")))
}

/// Returns the processor time that a process has used, in milliseconds.
///
/// The kernel counts the time of all past and present threads in ticks of 10 ms, and that of the
/// present threads exactly. The larger of the two figures is more accurate: ticks for long times,
/// the exact figure for short ones.
pub(crate) fn cpu_ms(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("malformed stat line")?;
    // In the fields after the name, the state is field 3, and user and system time are fields 14
    // and 15.
    let ticks =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds +=
            schedstat.split(' ').next().context("malformed schedstat line")?.parse::<f64>()?;
    }
    Ok(f64::max(ticks.sum::<f64>() * TICK_MS, nanoseconds / 1e6))
}
