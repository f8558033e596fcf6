//! How much later a follower of Provost's events sees a Codex message than a bare reader of the app-server's
//! socket.
//!
//! The bare reader is a second client of the same server that resumed the same thread, so the server sends it the
//! same messages as Provost. It connects through the holder's listener, the only access there is, and therefore
//! counts as a user at the agent's screen. All three readers are threads of this process and share one clock.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use provost_core::ids::LaunchId;
use provost_engine::shell;
use serde_json::{Value, json};

use super::{
    scene::Scene,
    websocket::{Hangup, Socket},
};
use crate::{
    table::{Goal, Table},
    timing::{Sample, now, time},
};

/// The number of instructions. Each takes one turn.
const INSTRUCTIONS: usize = 60;
/// Time limit of an instruction.
const PATIENCE: Duration = Duration::from_secs(60);
/// A turn with a command that needs approval. The turn itself reports the result, because an agent with a user at
/// its screen is not asked for one afterwards.
const ATTEMPT: &str = r#"
  { response = [
    { items = [{ shell = "true" }] },
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
    { items = [{ message = "Done." }] },
  ] },
"#;
/// The rule by which Provost approves the command without a user.
const RULES: &str = "[approvals]\nversion = 1\nallow = [\"command: true\"]\n";
/// Bytes of a bare disk write; about the size of an event in the write-ahead log.
const WRITTEN: usize = 16 << 10;
/// The last event of an attempt.
const SEALED: &str = "attempt.sealed";

pub(crate) fn run(table: &mut Table, codex: &Path) -> Result<()> {
    let scene = Scene::new(codex, &scenario())?;
    fs::write(scene.repository().join("provost.toml"), RULES)?;
    scene.told(&["trust", "--yes", "--json"])?;
    // With a budget every token usage is reported at once. Without one, usage is batched for a second.
    let mut happenings = scene.happenings()?;
    let id = scene.spawn(&["--keep", "--budget", "100M", "--approvals", "untrusted"])?;
    happenings.wait_for(SEALED, 1)?;
    drop(happenings);
    scene.all_are("completed", 1)?;
    let (bare, hangup) = Watch::socket(&scene, &id)?;
    let mut stream = Watch::stream(&scene)?;
    let (mut command, mut follower) = Watch::command(&scene)?;
    let (mut disk, mut syncs) = (tempfile::tempfile()?, Sample::default());
    for _ in 0..INSTRUCTIONS {
        scene.told(&["send", "--json", &id, "Go on."])?;
        stream.until_sealed()?;
        command.until_sealed()?;
        syncs.add_ms(bare_sync(&mut disk)?);
    }
    hangup.hang_up()?;
    follower.kill()?;
    follower.wait()?;
    // The stream ends only when the daemon stops.
    scene.daemon.run(&["daemon", "stop"])?;
    let bare = bare.all()?;
    row(table, "`events -f`", &bare, &command.all()?)?;
    row(table, "a reader of the API's stream", &bare, &stream.all()?)?;
    table.row(
        "the disk alone: a bare write that is as durable, in the same run, p95",
        syncs.quantile(0.95),
        " ms",
        Goal::None,
        &syncs.spread(" ms"),
    );
    Ok(())
}

/// Measures the disk sync that no durable event can avoid.
fn bare_sync(disk: &mut File) -> Result<Duration> {
    let (done, took) = time(|| disk.write_all(&[0; WRITTEN]).and_then(|()| disk.sync_data()));
    done?;
    Ok(took)
}

fn scenario() -> String {
    format!("[[thread]]\nturn = [{}]\n", ATTEMPT.repeat(INSTRUCTIONS + 1))
}

/// Adds a row with the delay of one reader against the other, over all events that both received.
fn row(table: &mut Table, who: &str, bare: &Moments, held: &Moments) -> Result<()> {
    let (mut all, mut kinds) = (Sample::default(), Vec::new());
    for (kind, moments) in bare {
        let mut delays = Sample::default();
        let later = held.get(kind).map(Vec::as_slice).unwrap_or_default();
        ensure!(later.len() == moments.len(), "{} of {} {kind}", later.len(), moments.len());
        for (first, second) in moments.iter().zip(later) {
            let delay = milliseconds(*first, *second);
            delays.add(delay);
            all.add(delay);
        }
        kinds.push(format!("{kind} {:.2} ms", delays.quantile(0.95)));
    }
    table.row(
        &format!("an event of Codex → {who}, after a bare reader of its socket, p95"),
        all.quantile(0.95),
        " ms",
        Goal::AtMost(3.0),
        &format!("{}; p95 of {}", all.spread(" ms"), kinds.join(", ")),
    );
    Ok(())
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    let late = to.saturating_duration_since(from).as_secs_f64();
    let early = from.saturating_duration_since(to).as_secs_f64();
    (late - early) * 1e3
}

/// The times at which the events of each kind were seen, in order.
type Moments = BTreeMap<String, Vec<Instant>>;

/// A reader thread and the events it has seen.
struct Watch {
    seen: Receiver<(String, Instant)>,
    moments: Moments,
    reader: JoinHandle<()>,
}

impl Watch {
    /// Reads until the source ends. The time of an event is the arrival of its text, before parsing.
    fn begin(
        mut next: impl FnMut() -> Option<String> + Send + 'static,
        kind_of: fn(&str) -> Option<String>,
    ) -> Watch {
        let (sender, seen) = channel();
        let reader = thread::spawn(move || {
            while let Some(text) = next() {
                let at = now();
                if kind_of(&text).is_some_and(|kind| sender.send((kind, at)).is_err()) {
                    return;
                }
            }
        });
        Watch { seen, moments: Moments::new(), reader }
    }

    /// Starts a second client of the app-server's socket, on the session's thread.
    fn socket(scene: &Scene<'_>, id: &str) -> Result<(Watch, Hangup)> {
        let session: Value = scene.daemon.client().get(&format!("/v1/sessions/{id}"))?;
        let session = &session["session"];
        let launch: LaunchId =
            session["launches"][0]["id"].as_str().context("the session has no launch")?.parse()?;
        let home = shell::Home::new(scene.daemon.path());
        let mut socket = Socket::connect(&shell::codex::door(&home, launch))?;
        let information = json!({"clientInfo": {"name": "bench", "version": "0"}, "capabilities": {"experimentalApi": true}});
        socket.call(1, "initialize", information)?;
        socket.write(&json!({"method": "initialized"}))?;
        let thread = json!({"threadId": session["thread"], "excludeTurns": true});
        socket.call(2, "thread/resume", thread)?;
        let hangup = socket.hangup()?;
        let next =
            move || socket.read().ok().flatten().and_then(|text| String::from_utf8(text).ok());
        Ok((Watch::begin(next, told_by_codex), hangup))
    }

    /// Starts a reader of the API's event stream.
    fn stream(scene: &Scene<'_>) -> Result<Watch> {
        let mut stream =
            scene.daemon.client().stream("/v1/events?follow=1", Some(last_event(scene)?))?;
        Ok(Watch::begin(move || stream.line().ok().flatten(), told_by_stream))
    }

    /// Starts `provost events -f`, as a user or a program would.
    fn command(scene: &Scene<'_>) -> Result<(Watch, Child)> {
        let since = last_event(scene)?.to_string();
        let mut follower = scene
            .provost(&["events", "-f", "--json", "--since", &since])?
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines =
            BufReader::new(follower.stdout.take().context("stdout is not a pipe")?).lines();
        let next = move || lines.next().and_then(Result::ok);
        Ok((Watch::begin(next, told_by_command), follower))
    }

    /// Collects events up to the end of an attempt.
    fn until_sealed(&mut self) -> Result<()> {
        loop {
            let (kind, at) = self
                .seen
                .recv_timeout(PATIENCE)
                .context("timed out waiting for the attempt to be sealed")?;
            let sealed = kind == SEALED;
            self.moments.entry(kind).or_default().push(at);
            if sealed {
                return Ok(());
            }
        }
    }

    /// Collects all remaining events once the source has ended.
    fn all(mut self) -> Result<Moments> {
        self.reader.join().ok().context("the reader panicked")?;
        for (kind, at) in self.seen.iter() {
            self.moments.entry(kind).or_default().push(at);
        }
        Ok(self.moments)
    }
}

/// Returns the sequence number of the latest event.
fn last_event(scene: &Scene<'_>) -> Result<u64> {
    let events: Value = scene.daemon.client().get("/v1/events?limit=100000")?;
    events["last"].as_u64().context("the reply has no sequence number")
}

/// Returns the kind of the event that Provost derives from an app-server message.
fn told_by_codex(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).ok()?;
    let kind = match message["method"].as_str()? {
        "turn/started" => "turn.started",
        "turn/completed" => "turn.ended",
        "thread/tokenUsage/updated" => "usage.told",
        "item/commandExecution/requestApproval" => "request.opened",
        "item/tool/call" => "claim.made",
        _ => return None,
    };
    Some(kind.to_owned())
}

fn told_by_stream(line: &str) -> Option<String> {
    told_by_command(line.strip_prefix("data:")?)
}

fn told_by_command(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    event["kind"].as_str().map(str::to_owned)
}
