//! Real Codex under Provost against a bare client of its app-server, both with the same scripted model and a
//! fresh home, and what twenty sessions at once cost.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use provost_testkit::model::{MODEL, ModelServer, Scenario, codex_config};
use serde_json::{Value, json};

use crate::{
    daemon::{Daemon, private_kib},
    table::{Goal, Table},
    timing::{Sample, now, time},
};

/// How many pairs of jobs are timed.
const PAIRS: usize = 10;
/// How many sessions run at once.
const SESSIONS: usize = 20;
/// How long the sessions may take together.
const PATIENCE: Duration = Duration::from_secs(300);
/// Ticks of the processor's clock in a second, as Linux tells them to programs.
const TICKS: f64 = 100.0;
/// One turn with a command; a second turn tells the result, which only Provost asks for.
const SCENARIO: &str = r#"
[[thread]]
repeat = "forever"
turn = [
  { response = [
    { items = [{ shell = "echo hello > greeting.txt" }] },
    { items = [{ message = "Written." }] },
  ] },
  { response = [{ items = [{ json = { status = "completed", summary = "written" } }] }] },
]
"#;

/// Measures with the Codex that `cargo xtask bench` names; without one it says so.
pub(crate) fn run(table: &mut Table) -> Result<()> {
    let Some(codex) = program() else {
        table.say("  Codex is not here: left out");
        return Ok(());
    };
    one_turn(table, &codex)?;
    at_once(table, &codex)
}

#[expect(clippy::disallowed_methods, reason = "xtask names the program, read once")]
fn program() -> Option<PathBuf> {
    std::env::var_os("PROVOST_CODEX").map(PathBuf::from)
}

/// A model, a user's home that leads to it, and a repository.
struct Scene {
    place: tempfile::TempDir,
    model: ModelServer,
}

impl Scene {
    fn new() -> Result<Scene> {
        let place = tempfile::Builder::new().prefix("pbc").tempdir()?;
        let scene = Scene { place, model: ModelServer::bind(Scenario::parse(SCENARIO)?, 0)? };
        fs::create_dir(scene.repository())?;
        for args in
            [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "Begin"]]
        {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]);
            let status = git.args(args).current_dir(scene.repository()).status()?;
            ensure!(status.success(), "git {args:?}");
        }
        Ok(scene)
    }

    fn repository(&self) -> PathBuf {
        self.place.path().join("repository")
    }

    /// Writes a configuration of Codex that leads to the model.
    fn configure(&self, home: &Path) -> Result<()> {
        fs::create_dir_all(home)?;
        fs::write(home.join("config.toml"), codex_config(MODEL, &self.model.url()))?;
        Ok(())
    }

    /// The program with a daemon's home, in the repository.
    fn provost(&self, daemon: &Daemon, codex: &Path, args: &[&str]) -> Result<Command> {
        let mut command = daemon.command(args)?;
        command.current_dir(self.repository()).env("PROVOST_CODEX", codex);
        command.env("CODEX_HOME", self.place.path().join("user"));
        Ok(command)
    }

    fn spawn(&self, daemon: &Daemon, codex: &Path, more: &[&str]) -> Result<String> {
        let args = ["spawn", "--json", "--agent", "codex", "--sandbox", "full-access"];
        let all = [&args[..], more, &["Write hello."]].concat();
        let output = self.provost(daemon, codex, &all)?.output()?;
        let told: Value = serde_json::from_slice(&output.stdout)?;
        told["id"].as_str().map(str::to_owned).with_context(|| format!("no session: {told}"))
    }
}

/// From the start to the end of the first turn, in turns with and without Provost.
fn one_turn(table: &mut Table, codex: &Path) -> Result<()> {
    let scene = Scene::new()?;
    scene.configure(&scene.place.path().join("user"))?;
    let daemon = Daemon::home()?;
    daemon.start()?;
    let (mut ratios, mut above) = (Sample::default(), Sample::default());
    let (mut bare, mut held) = (Sample::default(), Sample::default());
    for n in 0..PAIRS {
        let home = scene.place.path().join(format!("bare-{n}"));
        scene.configure(&home)?;
        let (done, without) = time(|| bare_turn(codex, &home, &scene.repository()));
        done?;
        let (done, with) = time(|| supervised_turn(&scene, &daemon, codex));
        end(&scene, &daemon, codex, &done?)?;
        bare.add_ms(without);
        held.add_ms(with);
        above.add(with.as_secs_f64() * 1e3 - without.as_secs_f64() * 1e3);
        ratios.add(with.as_secs_f64() / without.as_secs_f64());
    }
    table.row(
        "Codex: a supervised turn against a bare client, start included",
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
    table.row("the same, difference", above.median(), " ms", Goal::None, &above.spread(" ms"));
    Ok(())
}

/// Spawns a session and waits for the end of its turn in the stream of events; gives its id.
fn supervised_turn(scene: &Scene, daemon: &Daemon, codex: &Path) -> Result<String> {
    let id = scene.spawn(daemon, codex, &[])?;
    let mut follower = scene
        .provost(daemon, codex, &["events", &id, "-f", "--json"])?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let events = BufReader::new(follower.stdout.take().context("a pipe")?);
    let ended = events.lines().map_while(Result::ok).any(|line| line.contains("\"turn.ended\""));
    follower.kill()?;
    follower.wait()?;
    ensure!(ended, "the stream of events ended before the turn");
    Ok(id)
}

/// Ends a session, so that the next pair has the machine for itself.
fn end(scene: &Scene, daemon: &Daemon, codex: &Path, id: &str) -> Result<()> {
    scene.provost(daemon, codex, &["cancel", id])?.output()?;
    wait(daemon, 0)
}

/// A client that does what is needed for one turn, and nothing more.
fn bare_turn(codex: &Path, home: &Path, repository: &Path) -> Result<()> {
    let mut client = Bare::start(codex, home, repository)?;
    let information = json!({"clientInfo": {"name": "bench", "version": "0"}, "capabilities": {"experimentalApi": true}});
    client.call(1, "initialize", information)?;
    client.write(&json!({"method": "initialized"}))?;
    let started = client.call(
        2,
        "thread/start",
        json!({"cwd": repository, "sandbox": "danger-full-access", "approvalPolicy": "never"}),
    )?;
    let input = json!([{"type": "text", "text": "Write hello."}]);
    client.write(&json!({"id": 3, "method": "turn/start",
        "params": {"threadId": started["thread"]["id"], "input": input}}))?;
    let ended = client.until(|message| message["method"] == "turn/completed")?;
    ensure!(ended["params"]["turn"]["status"] == "completed", "the bare turn: {ended}");
    Ok(())
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

/// Twenty sessions with worktrees and checks: all end right, and what daemon and holders used.
fn at_once(table: &mut Table, codex: &Path) -> Result<()> {
    let scene = Scene::new()?;
    scene.configure(&scene.place.path().join("user"))?;
    let daemon = Daemon::home()?;
    daemon.start()?;
    let (before, _) = private_kib(daemon.pid()?)?;
    let started = now();
    for _ in 0..SESSIONS {
        scene.spawn(
            &daemon,
            codex,
            &["--worktree", "--keep", "--check", "grep -q hello greeting.txt"],
        )?;
    }
    wait(&daemon, SESSIONS)?;
    let seconds = started.elapsed().as_secs_f64();
    let (after, _) = private_kib(daemon.pid()?)?;
    let (mut memory, mut processor) = (Sample::default(), Sample::default());
    for pid in daemon.holders()? {
        let (dirty, clean) = private_kib(pid)?;
        memory.add((dirty + clean) / 1024.0);
        processor.add(processor_ms(pid)?);
    }
    let each = SESSIONS as f64;
    let daemon_ms = processor_ms(daemon.pid()?)? / each;
    let from = format!("{SESSIONS} sessions at once, all succeeded, {seconds:.1} s together");
    table.row(
        "20 sessions of Codex: daemon's processor time for each",
        daemon_ms,
        " ms",
        Goal::None,
        &from,
    );
    let grown = format!("{before:.0} to {after:.0} KB");
    table.row(
        "the same, daemon's private memory for each",
        (after - before) / each,
        " KB",
        Goal::None,
        &grown,
    );
    table.row(
        "the same, a holder's processor time",
        processor.median(),
        " ms",
        Goal::None,
        &processor.spread(" ms"),
    );
    table.row(
        "the same, a holder's private memory",
        memory.median(),
        " MB",
        Goal::None,
        &memory.spread(" MB"),
    );
    Ok(())
}

/// Waits until no session is under way and so many have succeeded; what ended otherwise is an error.
fn wait(daemon: &Daemon, succeeded: usize) -> Result<()> {
    let started = now();
    loop {
        let all: Value = daemon.client().get("/v1/sessions")?;
        let rows = all["sessions"].as_array().context("rows")?;
        let done = rows.iter().filter(|row| row["state"] == "succeeded").count();
        let open = rows.iter().filter(|row| row["sealed"] != true).count();
        if open == 0 && done >= succeeded {
            return Ok(());
        }
        ensure!(open > 0, "{done} of {succeeded} sessions succeeded");
        ensure!(started.elapsed() < PATIENCE, "{open} sessions are still open");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "looking all the time would take what is measured")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// What a process used of the processor so far.
fn processor_ms(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a stat line")?;
    // After the name: the state is field 3, user and system time are fields 14 and 15.
    let ticks =
        rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / TICKS * 1e3)
}
