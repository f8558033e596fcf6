//! The delay from an agent's exit to a waiting `events -f`, compared with a bare pipe that detects
//! the same exit.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    daemon::BenchDaemon,
    fill,
    table::{FigureTable, Goal},
    timing::{Sample, now},
};

const LIVE: usize = 100;
const EXITS: usize = 60;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let daemon = BenchDaemon::home()?;
    daemon.start()?;
    daemon.open_idle_sessions(LIVE)?;
    let mut follower =
        daemon.command(&["events", "-f", "--json"])?.stdout(Stdio::piped()).spawn()?;
    let events = follower.stdout.take().context("stdout is not a pipe")?;
    let (sender, seen) = mpsc::channel::<(String, Instant)>();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(events).lines().map_while(Result::ok) {
            let at = now();
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["kind"] == "process.ended"
                && sender.send((event["session"].to_string(), at)).is_err()
            {
                return;
            }
        }
    });
    let mut delays = Sample::default();
    let place = tempfile::tempdir()?;
    // All agents start before the first one exits, because an exit right after a start would also
    // measure the start.
    let sessions = (0..EXITS)
        .map(|n| TriggeredSession::start(&daemon, place.path(), n))
        .collect::<Result<Vec<_>>>()?;
    for session in sessions {
        delays.add_ms(session.exit(&seen)?);
    }
    follower.kill()?;
    follower.wait()?;
    reader.join().ok().context("the reader panicked")?;
    table.row(
        "exit → `events -f` after a bare pipe saw it, p95, 100 live sessions",
        delays.quantile(0.95),
        " ms",
        Goal::AtMost(20.0),
        &delays.spread(" ms"),
    );
    Ok(())
}

/// A session that exits on a trigger, also watched by a bare pipe.
struct TriggeredSession {
    id: String,
    /// A pipe that is open as long as the agent lives.
    alive: File,
    trigger: File,
}

impl TriggeredSession {
    fn start(daemon: &BenchDaemon, place: &Path, n: usize) -> Result<Self> {
        let (alive, trigger) = (place.join(format!("alive-{n}")), place.join(format!("go-{n}")));
        for fifo in [&alive, &trigger] {
            ensure!(Command::new("mkfifo").arg(fifo).status()?.success(), "mkfifo");
        }
        let mut spec = fill::spec(n as u64);
        let script =
            format!("exec 3>{}; read line <{}; exit 0", alive.display(), trigger.display());
        spec.agent.argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), script];
        let id = daemon.open(&spec, &format!("exit-{n}"))?;
        let alive = File::open(&alive)?;
        let trigger = OpenOptions::new().write(true).open(&trigger)?;
        Ok(Self { id, alive, trigger })
    }

    /// Triggers the agent's exit. Returns the time from the pipe's end to the event.
    fn exit(mut self, seen: &mpsc::Receiver<(String, Instant)>) -> Result<std::time::Duration> {
        self.trigger.write_all(b"\n")?;
        let mut rest = Vec::new();
        self.alive.read_to_end(&mut rest)?;
        let bare = now();
        loop {
            let (session, at) = seen.recv().context("the event stream ended")?;
            if session.contains(&self.id) {
                return Ok(at.saturating_duration_since(bare));
            }
        }
    }
}
