//! A supervised one-turn job compared with a bare app-server client that does the same work. The
//! two jobs alternate, and each one uses a fresh home.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::env::CodexBenchEnv;
use crate::{
    table::{FigureTable, Goal},
    timing::{Sample, now},
};

/// The number of measured pairs of jobs.
const PAIRS: usize = 20;
/// One turn with a command. A second turn, which only Provost requests, reports the result.
const SCENARIO: &str = r#"
[[thread]]
repeat = "forever"
turn = [
  { response = [
    { items = [{ shell = "echo hello > greeting.txt" }] },
    { items = [{ message = "Written." }] },
  ] },
  { repeat = "forever", response = [{ items = [{ json = { status = "completed", summary = "written" } }] }] },
]
"#;

/// Measures both jobs from their start to the end of the first turn.
pub(crate) fn run(table: &mut FigureTable, codex: &Path) -> Result<()> {
    let scene = CodexBenchEnv::new(codex, SCENARIO)?;
    let (mut ratios, mut above) = (Sample::default(), Sample::default());
    let (mut bare, mut held, mut spawns) =
        (Sample::default(), Sample::default(), Sample::default());
    for n in 0..PAIRS {
        // The second job of a pair has warmer caches, so the order alternates.
        let (without, with) = if n % 2 == 0 {
            let without = bare_turn(&scene, n)?;
            (without, supervised_turn(&scene, n)?)
        } else {
            let with = supervised_turn(&scene, n)?;
            (bare_turn(&scene, n)?, with)
        };
        bare.add_ms(without);
        held.add_ms(with.took);
        spawns.add_ms(with.spawn);
        above.add((with.took.as_secs_f64() - without.as_secs_f64()) * 1e3);
        ratios.add(with.took.as_secs_f64() / without.as_secs_f64());
    }
    table.row(
        "Codex: a supervised job of one turn against a bare client, start included",
        ratios.median(),
        "×",
        Goal::AtMost(1.15),
        &format!(
            "{}; bare {}; supervised {}",
            ratios.spread("×"),
            bare.spread(" ms"),
            held.spread(" ms")
        ),
    );
    table.row(
        "the same, difference",
        above.median(),
        " ms",
        Goal::None,
        &format!("{}; `provost spawn` alone: {}", above.spread(" ms"), spawns.spread(" ms")),
    );
    Ok(())
}

/// The duration of a supervised job, and of its `provost spawn` alone.
struct SupervisedTiming {
    spawn: Duration,
    took: Duration,
}

/// Spawns a session and waits for the end of its turn in the event stream.
fn supervised_turn(scene: &CodexBenchEnv<'_>, n: usize) -> Result<SupervisedTiming> {
    let mut happenings = scene.follow_events()?;
    let started = now();
    let id = scene.spawn(&[])?;
    let spawn = started.elapsed();
    let mut follower = scene
        .provost(&["events", &id, "-f", "--json"])?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let events = BufReader::new(follower.stdout.take().context("stdout is not a pipe")?);
    let ended = events.lines().map_while(Result::ok).any(|line| line.contains("\"turn.ended\""));
    let took = started.elapsed();
    follower.kill()?;
    follower.wait()?;
    ensure!(ended, "the event stream ended before the turn");
    // Wait until the process tree is gone, so that the next job has the machine to itself.
    happenings.wait_for("process_tree.reaped", 1)?;
    scene.assert_all_in_state("completed", n + 1)?;
    Ok(SupervisedTiming { spawn, took })
}

/// Runs a client that does the minimum for one turn.
fn bare_turn(scene: &CodexBenchEnv<'_>, n: usize) -> Result<Duration> {
    let (home, repository) = (scene.fresh_home(&format!("bare-{n}"))?, scene.repository());
    let started = now();
    let mut client = BareAppServer::start(scene.codex, &home, &repository)?;
    let took = client.work(&repository, started)?;
    drop(client);
    Ok(took)
}

/// Codex's app-server on pipes. Dropping it kills the process.
struct BareAppServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BareAppServer {
    fn start(codex: &Path, home: &Path, repository: &Path) -> Result<BareAppServer> {
        let mut child = Command::new(codex)
            .arg("app-server")
            .current_dir(repository)
            .env("CODEX_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().context("stdin is not a pipe")?;
        let output = BufReader::new(child.stdout.take().context("stdout is not a pipe")?);
        Ok(BareAppServer { child, input, output })
    }

    /// Runs one turn from the handshake to its end.
    fn work(&mut self, repository: &Path, started: Instant) -> Result<Duration> {
        let information = json!({"clientInfo": {"name": "bench", "version": "0"}, "capabilities": {"experimentalApi": true}});
        self.call(1, "initialize", information)?;
        self.write(&json!({"method": "initialized"}))?;
        let settings =
            json!({"cwd": repository, "sandbox": "danger-full-access", "approvalPolicy": "never"});
        let opened = self.call(2, "thread/start", settings)?;
        let input = json!([{"type": "text", "text": "Write hello."}]);
        self.write(&json!({"id": 3, "method": "turn/start",
            "params": {"threadId": opened["thread"]["id"], "input": input}}))?;
        let ended = self.until(|message| message["method"] == "turn/completed")?;
        let took = started.elapsed();
        ensure!(ended["params"]["turn"]["status"] == "completed", "the bare turn: {ended}");
        Ok(took)
    }

    fn write(&mut self, message: &Value) -> Result<()> {
        writeln!(self.input, "{message}").context("the app-server closed its input")
    }

    fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.write(&json!({"id": id, "method": method, "params": params}))?;
        let reply = self.until(|message| message["id"] == id && message["method"].is_null())?;
        ensure!(reply["error"].is_null(), "{method}: {reply}");
        Ok(reply["result"].clone())
    }

    fn until(&mut self, is_awaited: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if is_awaited(&message) {
                return Ok(message);
            }
            line.clear();
        }
        bail!("the app-server closed its output")
    }
}

impl Drop for BareAppServer {
    fn drop(&mut self) {
        // The process may have exited already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
