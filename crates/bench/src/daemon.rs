//! A real daemon in a home of its own, and its figures as the kernel tells them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use provost_api::{Client, DaemonInfo};
use provost_holder::tree::{self, Traces};
use serde_json::{Value, json};

/// A tick of the processor's clock, as Linux tells it to programs.
pub(crate) const TICK_MS: f64 = 10.0;

/// Gives the release binary that is measured.
#[expect(clippy::disallowed_methods, reason = "xtask names the binary, read once")]
pub(crate) fn provost_bin() -> Result<PathBuf> {
    std::env::var("PROVOST_BIN").map(PathBuf::from).context("run this through `cargo xtask bench`")
}

/// A home with a daemon, ended when dropped.
pub(crate) struct Daemon {
    dir: tempfile::TempDir,
}

impl Daemon {
    /// A home whose ledger may be filled before the daemon starts.
    pub(crate) fn home() -> Result<Daemon> {
        Ok(Daemon { dir: tempfile::Builder::new().prefix("pb").tempdir()? })
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
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "provost {args:?} failed: {told}");
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

    /// Opens a session over the socket and gives its id.
    pub(crate) fn open(&self, spec: &provost_core::session::Spec, key: &str) -> Result<String> {
        let reply: Value = self.client().post("/v1/sessions", &json!({"spec": spec}), key)?;
        reply["id"].as_str().map(str::to_owned).context("an id")
    }

    /// Opens so many sessions that do nothing, and waits until all run.
    pub(crate) fn idle_sessions(&self, count: usize) -> Result<()> {
        self.idle_sessions_more(0, count)
    }

    /// Opens so many more than there are.
    pub(crate) fn idle_sessions_more(&self, have: usize, more: usize) -> Result<()> {
        let count = have + more;
        for n in have..count {
            self.open(&crate::fill::spec(n as u64), &format!("idle-{n}"))?;
        }
        loop {
            let all: Value = self.client().get("/v1/sessions")?;
            let rows = all["sessions"].as_array().context("rows")?;
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

impl Drop for Daemon {
    fn drop(&mut self) {
        // A benchmark that failed may have no daemon; what is left is ended all the same.
        self.run(&["daemon", "stop"]).ok();
        end_holders(&self.path()).ok();
    }
}

/// Ends the holders of a home and all that they hold.
pub(crate) fn end_holders(home: &Path) -> Result<()> {
    for entry in std::fs::read_dir(home.join("launches"))? {
        let dir = entry?.path();
        // Holders take orders only from the daemon, which may be gone.
        if let provost_holder::Looked::Alive { held } = provost_holder::look(&dir)? {
            let traces = Traces {
                holder: Some(held.holder),
                child: Some(held.child),
                ..Traces::of(&held.key)
            };
            tree::end_all(&traces, Duration::ZERO)?;
        }
    }
    Ok(())
}

fn holders(home: &Path) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(home.join("launches"))? {
        if let provost_holder::Looked::Alive { held } = provost_holder::look(&entry?.path())? {
            all.push(held.holder.pid);
        }
    }
    Ok(all)
}

/// Memory of a process that nobody shares, in KiB: what it wrote, and what it alone has mapped.
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

/// The kernel tells in hundredths of a second what a process took with all the threads that it ever had, and
/// exactly what its present ones took: the former counts for much, the latter for little.
pub(crate) fn processor_ms(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a stat line")?;
    // After the name: the state is field 3, user and system time are fields 14 and 15.
    let ticks =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += told.split(' ').next().context("a figure")?.parse::<f64>()?;
    }
    Ok(f64::max(ticks.sum::<f64>() * TICK_MS, nanoseconds / 1e6))
}
