//! Measures the delay with which a follower of Provost's events receives a Codex message, compared
//! with a bare reader of the app-server's socket.
//!
//! The bare reader is a second client of the same server that resumed the same thread, so the
//! server sends it the same messages as Provost. It connects through the holder's listener, because
//! there is no other access to the server, and therefore counts as a user at the agent's screen.
//! All three readers are threads of this process and share one clock.

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
    env::CodexBenchEnv,
    websocket::{Socket, SocketCloser},
};
use crate::{
    table::{FigureTable, Goal},
    timing::{Sample, now, time},
};

/// The number of instructions. Each takes one turn.
const INSTRUCTIONS: usize = 60;
/// Time limit of an instruction.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A turn with a command that needs approval. The turn itself reports the result, because Provost
/// does not ask an agent for a result while a user is at its screen.
const ATTEMPT: &str = r#"
  { response = [
    { items = [{ shell = "true" }] },
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
    { items = [{ message = "Done." }] },
  ] },
"#;
/// The rule that lets Provost approve the command without a user.
const RULES: &str = "[approvals]\nversion = 1\nallow = [\"command: true\"]\n";
/// The size of a bare disk write in bytes, about the size of an event in the write-ahead log.
const WRITTEN: usize = 16 << 10;
/// The last event of an attempt.
const SEALED: &str = "attempt.sealed";

pub(crate) fn run(table: &mut FigureTable, codex: &Path) -> Result<()> {
    let scene = CodexBenchEnv::new(codex, &scenario())?;
    fs::write(scene.repository().join("provost.toml"), RULES)?;
    scene.run_json(&["trust", "--yes", "--json"])?;
    // The budget makes Provost report all token usage immediately. Without a budget, usage is
    // batched for a second.
    let mut happenings = scene.follow_events()?;
    let id = scene.spawn(&["--keep", "--budget", "100M", "--approvals", "untrusted"])?;
    happenings.wait_for(SEALED, 1)?;
    drop(happenings);
    scene.assert_all_in_state("completed", 1)?;
    let (bare, hangup) = EventReader::socket(&scene, &id)?;
    let mut stream = EventReader::stream(&scene)?;
    let (mut command, mut follower) = EventReader::command(&scene)?;
    let (mut disk, mut syncs) = (tempfile::tempfile()?, Sample::default());
    for _ in 0..INSTRUCTIONS {
        scene.run_json(&["send", "--json", &id, "Continue."])?;
        stream.until_sealed()?;
        command.until_sealed()?;
        syncs.add_ms(bare_sync(&mut disk)?);
    }
    hangup.close()?;
    follower.kill()?;
    follower.wait()?;
    // The stream ends only when the daemon stops.
    scene.daemon.run(&["daemon", "stop"])?;
    let bare = bare.into_times()?;
    row(table, "`events -f`", &bare, &command.into_times()?)?;
    row(table, "a reader of the API's stream", &bare, &stream.into_times()?)?;
    table.row(
        "the disk alone: an equally durable bare write, in the same run, p95",
        syncs.quantile(0.95),
        " ms",
        Goal::None,
        &syncs.spread(" ms"),
    );
    Ok(())
}

/// Measures a disk sync, which every durable event needs.
fn bare_sync(disk: &mut File) -> Result<Duration> {
    let (done, took) = time(|| disk.write_all(&[0; WRITTEN]).and_then(|()| disk.sync_data()));
    done?;
    Ok(took)
}

fn scenario() -> String {
    format!("[[thread]]\nturn = [{}]\n", ATTEMPT.repeat(INSTRUCTIONS + 1))
}

/// Adds a row with the delay of one reader compared with the bare one, over all events that both
/// readers received.
fn row(table: &mut FigureTable, who: &str, bare: &EventTimes, held: &EventTimes) -> Result<()> {
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
type EventTimes = BTreeMap<String, Vec<Instant>>;

/// A reader thread and the events it has seen.
struct EventReader {
    received: Receiver<(String, Instant)>,
    moments: EventTimes,
    reader: JoinHandle<()>,
}

impl EventReader {
    /// Reads until the source ends. The time of an event is the arrival of its text, before parsing.
    fn begin(
        mut next: impl FnMut() -> Option<String> + Send + 'static,
        kind_of: fn(&str) -> Option<String>,
    ) -> EventReader {
        let (sender, seen) = channel();
        let reader = thread::spawn(move || {
            while let Some(text) = next() {
                let at = now();
                if kind_of(&text).is_some_and(|kind| sender.send((kind, at)).is_err()) {
                    return;
                }
            }
        });
        EventReader { received: seen, moments: EventTimes::new(), reader }
    }

    /// Starts a second client of the app-server's socket, on the session's thread.
    fn socket(scene: &CodexBenchEnv<'_>, id: &str) -> Result<(EventReader, SocketCloser)> {
        let session: Value = scene.daemon.client().get(&format!("/v1/sessions/{id}"))?;
        let session = &session["session"];
        let launch: LaunchId =
            session["launches"][0]["id"].as_str().context("the session has no launch")?.parse()?;
        let home = shell::Home::new(scene.daemon.path());
        let mut socket = Socket::connect(&home.attach_socket(launch))?;
        let information = json!({"clientInfo": {"name": "bench", "version": "0"}, "capabilities": {"experimentalApi": true}});
        socket.call(1, "initialize", information)?;
        socket.write(&json!({"method": "initialized"}))?;
        let thread = json!({"threadId": session["thread"], "excludeTurns": true});
        socket.call(2, "thread/resume", thread)?;
        let hangup = socket.closer()?;
        let next =
            move || socket.read().ok().flatten().and_then(|text| String::from_utf8(text).ok());
        Ok((EventReader::begin(next, codex_event_kind), hangup))
    }

    /// Starts a reader of the API's event stream.
    fn stream(scene: &CodexBenchEnv<'_>) -> Result<EventReader> {
        let mut stream =
            scene.daemon.client().stream("/v1/events?follow=1", Some(last_event(scene)?))?;
        Ok(EventReader::begin(move || stream.line().ok().flatten(), stream_event_kind))
    }

    /// Starts `provost events -f`, as a user or a program would.
    fn command(scene: &CodexBenchEnv<'_>) -> Result<(EventReader, Child)> {
        let since = last_event(scene)?.to_string();
        let mut follower = scene
            .provost(&["events", "-f", "--json", "--since", &since])?
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines =
            BufReader::new(follower.stdout.take().context("stdout is not a pipe")?).lines();
        let next = move || lines.next().and_then(Result::ok);
        Ok((EventReader::begin(next, command_event_kind), follower))
    }

    /// Collects events up to the end of an attempt.
    fn until_sealed(&mut self) -> Result<()> {
        loop {
            let (kind, at) = self
                .received
                .recv_timeout(TIMEOUT)
                .context("timed out waiting for the attempt to be sealed")?;
            let sealed = kind == SEALED;
            self.moments.entry(kind).or_default().push(at);
            if sealed {
                return Ok(());
            }
        }
    }

    /// Collects all remaining events once the source has ended.
    fn into_times(mut self) -> Result<EventTimes> {
        self.reader.join().ok().context("the reader panicked")?;
        for (kind, at) in self.received.iter() {
            self.moments.entry(kind).or_default().push(at);
        }
        Ok(self.moments)
    }
}

/// Returns the sequence number of the latest event.
fn last_event(scene: &CodexBenchEnv<'_>) -> Result<u64> {
    let events: Value = scene.daemon.client().get("/v1/events?limit=100000")?;
    events["last"].as_u64().context("the reply has no sequence number")
}

/// Returns the kind of the event that Provost derives from an app-server message.
fn codex_event_kind(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).ok()?;
    let kind = match message["method"].as_str()? {
        "turn/started" => "turn.started",
        "turn/completed" => "turn.ended",
        "thread/tokenUsage/updated" => "usage.reported",
        "item/commandExecution/requestApproval" => "request.opened",
        "item/tool/call" => "claim.made",
        _ => return None,
    };
    Some(kind.to_owned())
}

fn stream_event_kind(line: &str) -> Option<String> {
    command_event_kind(line.strip_prefix("data:")?)
}

fn command_event_kind(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    event["kind"].as_str().map(str::to_owned)
}
