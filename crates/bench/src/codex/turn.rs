//! A supervised job of one turn against a bare client of the app-server that does the same, both with a fresh
//! home, in turns.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::scene::Scene;
use crate::{
    table::{Goal, Table},
    timing::{Sample, now},
};

/// How many pairs of jobs are timed.
const PAIRS: usize = 20;
/// One turn with a command; a second turn tells the result, which only Provost asks for.
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

/// Times both from the start to the end of the first turn.
pub(crate) fn run(table: &mut Table, codex: &Path) -> Result<()> {
    let scene = Scene::new(codex, SCENARIO)?;
    let (mut ratios, mut above) = (Sample::default(), Sample::default());
    let (mut bare, mut held, mut spawns) =
        (Sample::default(), Sample::default(), Sample::default());
    for n in 0..PAIRS {
        // Whoever is second finds warmer caches, so they take turns.
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

/// How long a supervised job took, and the command that began it alone.
struct Supervised {
    spawn: Duration,
    took: Duration,
}

/// Spawns a session and waits for the end of its turn in the stream of events.
fn supervised_turn(scene: &Scene<'_>, n: usize) -> Result<Supervised> {
    let mut happenings = scene.happenings()?;
    let started = now();
    let id = scene.spawn(&[])?;
    let spawn = started.elapsed();
    let mut follower = scene
        .provost(&["events", &id, "-f", "--json"])?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let events = BufReader::new(follower.stdout.take().context("a pipe")?);
    let ended = events.lines().map_while(Result::ok).any(|line| line.contains("\"turn.ended\""));
    let took = started.elapsed();
    follower.kill()?;
    follower.wait()?;
    ensure!(ended, "the stream of events ended before the turn");
    // The next one has the machine for itself.
    happenings.wait_for("tree.gone", 1)?;
    scene.all_are("completed", n + 1)?;
    Ok(Supervised { spawn, took })
}

/// A client that does what is needed for one turn, and nothing more.
fn bare_turn(scene: &Scene<'_>, n: usize) -> Result<Duration> {
    let (home, repository) = (scene.fresh_home(&format!("bare-{n}"))?, scene.repository());
    let started = now();
    let mut client = Bare::start(scene.codex, &home, &repository)?;
    let took = client.work(&repository, started)?;
    drop(client);
    Ok(took)
}

/// Codex's app-server on pipes, ended when dropped.
struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Bare {
    fn start(codex: &Path, home: &Path, repository: &Path) -> Result<Bare> {
        let mut child = Command::new(codex)
            .arg("app-server")
            .current_dir(repository)
            .env("CODEX_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Bare { child, input, output })
    }

    /// Takes one turn from the handshake to its end.
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
        writeln!(self.input, "{message}").context("the app-server left")
    }

    fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.write(&json!({"id": id, "method": method, "params": params}))?;
        let reply = self.until(|message| message["id"] == id && message["method"].is_null())?;
        ensure!(reply["error"].is_null(), "{method}: {reply}");
        Ok(reply["result"].clone())
    }

    fn until(&mut self, meant: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            if meant(&message) {
                return Ok(message);
            }
            line.clear();
        }
        bail!("the app-server left")
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may have left by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
