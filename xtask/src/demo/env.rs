//! The demo's own home, repository and environment, in which the real program is run.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use provost_testkit::{Deadline, leftovers, scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::cast::{CastMember, CastScript, DemoGate, VERIFIED, behind_gate};
use crate::{
    print::print_line,
    process::{capture, output},
    workspace::{Programs, variable},
};

/// Time limit of every wait in the demo.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The agent in the sample repository's configuration.
const AGENT: &str = "scripted";
const GIT_CONFIG: &str = "[user]\n\tname = Sample Person\n\temail = person@example.invalid\n[init]\n\tdefaultBranch = main\n";

/// The environment of the demo. Dropping it stops all processes that still run.
pub(super) struct DemoEnv {
    programs: Programs,
    codex: Option<PathBuf>,
    root: PathBuf,
}

impl DemoEnv {
    /// Creates the directories, the repository and its configuration.
    pub(super) fn set_up(programs: &Programs, codex: Option<&Path>, root: &Path) -> Result<Self> {
        let codex = codex.map(Path::to_owned);
        let stage = Self { programs: programs.clone(), codex, root: root.to_owned() };
        if root.exists() {
            // An interrupted demo may have left processes.
            stage.end();
            fs::remove_dir_all(root)
                .with_context(|| format!("cannot remove {}", root.display()))?;
        }
        for part in ["home", "user", "tmp", "repos/sample", "scenarios"] {
            fs::create_dir_all(root.join(part)).with_context(|| format!("cannot make {part}"))?;
        }
        make_private(&root.join("home"))?;
        fs::write(root.join("user/.gitconfig"), GIT_CONFIG)?;
        fs::write(root.join("scenarios/verified.toml"), VERIFIED)?;
        stage.make_repository()?;
        Ok(stage)
    }

    /// Returns the arguments that start a part's session.
    pub(super) fn spawn_args(&self, part: &CastMember) -> Result<Vec<String>> {
        let mut args: Vec<String> =
            ["spawn", "--json", "--name", part.name].map(str::to_owned).into();
        match part.script {
            CastScript::Sample(name) => {
                // The exit code 0 of a scripted agent is not a claim, because the agent reports its
                // claims.
                args.extend(["--no-exit-zero-completes", "--"].map(str::to_owned));
                args.push(text(&self.programs.scripted_agent));
                args.push(text(&self.scenario(name)?));
                args.extend(["--vars".to_owned(), self.gate_variable(part.gate)]);
            }
            CastScript::Verified => args.extend(
                [
                    "--agent",
                    AGENT,
                    "--worktree",
                    "--check",
                    "grep -q hello GREETING.md",
                    "Write hello.",
                ]
                .map(str::to_owned),
            ),
        }
        Ok(args)
    }

    /// Releases the agents behind a gate.
    pub(super) fn open(&self, gate: DemoGate) -> Result<()> {
        fs::write(self.root.join(gate.file()), "").context("cannot open a gate")
    }

    /// Runs a `provost` command, prints it as typed with its output, and returns the output.
    pub(super) fn show(&self, args: &[&str]) -> Result<String> {
        run_and_show("provost", self.provost(), args)
    }

    /// Runs git in the repository like [`Self::show`].
    pub(super) fn show_git(&self, args: &[&str]) -> Result<String> {
        run_and_show("git", self.prepared("git"), args)
    }

    /// Runs a `provost` command and returns its JSON.
    pub(super) fn json(&self, args: &[String]) -> Result<Value> {
        let text = capture(self.provost().args(args))?;
        serde_json::from_str(&text).with_context(|| format!("{args:?} did not print JSON: {text}"))
    }

    /// Waits until the rows of all sessions are accepted, and returns them.
    pub(super) fn wait(&self, what: &str, accept: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            let last = deadline.passed();
            let rows = self.rows()?;
            if accept(&rows) {
                return Ok(rows);
            }
            if last {
                self.show(&["ls", "--all"])?;
                bail!("timed out after {TIMEOUT:?} waiting for {what}");
            }
            pause();
        }
    }

    /// Waits until the row of a run is accepted, and returns it.
    pub(super) fn wait_for_run(
        &self,
        what: &str,
        run: &str,
        accept: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let status = ["status", run, "--json"].map(str::to_owned);
        self.wait_until(what, || self.json(&status), accept)
    }

    /// Waits until the graph of a run is accepted, and returns it.
    pub(super) fn wait_for_graph(
        &self,
        what: &str,
        run: &str,
        accept: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.wait_until(what, || self.graph(run), accept)
    }

    /// Waits until tasks of a run are in these states.
    pub(super) fn wait_for_tasks(&self, run: &str, wanted: &[(&str, &str)]) -> Result<()> {
        let is = |graph: &Value, (id, state): &(&str, &str)| {
            let mut tasks = graph["tasks"].as_array().into_iter().flatten();
            tasks.any(|task| task["id"] == *id && task["state"] == *state)
        };
        let all = |graph: &Value| wanted.iter().all(|one| is(graph, one));
        self.wait_for_graph(&format!("{wanted:?}"), run, all).map(drop)
    }

    pub(super) fn graph(&self, run: &str) -> Result<Value> {
        Ok(self.json(&["graph", run, "--json"].map(str::to_owned))?["graph"].clone())
    }

    pub(super) fn wait_until(
        &self,
        what: &str,
        look: impl Fn() -> Result<Value>,
        accept: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Deadline::after(TIMEOUT);
        loop {
            let last = deadline.passed();
            let seen = look()?;
            if accept(&seen) {
                return Ok(seen);
            }
            ensure!(!last, "timed out after {TIMEOUT:?} waiting for {what}: {seen:#}");
            pause();
        }
    }

    /// Commits files in the repository.
    pub(super) fn commit(&self, files: &[(&str, &str)], message: &str) -> Result<()> {
        for (name, text) in files {
            fs::write(self.repository().join(name), text)?;
        }
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "-m", message])
    }

    /// Runs git in the repository.
    fn git(&self, args: &[&str]) -> Result<()> {
        capture(self.prepared("git").args(args)).map(drop)
    }

    /// Returns the user's own home directory.
    pub(super) fn user(&self) -> PathBuf {
        self.root.join("user")
    }

    pub(super) fn daemon_pid(&self) -> Result<i32> {
        let status = self.json(&["daemon", "status", "--json"].map(str::to_owned))?;
        let pid = status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.context("the daemon's status has no pid")
    }

    /// Kills the daemon with SIGKILL, waits until it has exited, and returns its pid.
    pub(super) fn kill_daemon(&self) -> Result<i32> {
        let pid = self.daemon_pid()?;
        kill(pid).context("cannot kill the daemon")?;
        Ok(pid)
    }

    /// Waits until a session is sealed.
    pub(super) fn wait_for_end(&self, id: &str) -> Result<()> {
        self.wait_for_run("a session to end", id, |row| row["sealed"] == true).map(drop)
    }

    /// Stops all processes with `provost` commands, and fails if any remain.
    pub(super) fn clear(self) -> Result<()> {
        capture(self.provost().args(["daemon", "stop"]))?;
        let deadline = Deadline::after(TIMEOUT);
        loop {
            let last = deadline.passed();
            let left = leftovers(&self.root);
            if left.is_empty() {
                break;
            }
            ensure!(!last, "left behind:\n{}", left.join("\n"));
            pause();
        }
        fs::remove_dir_all(&self.root)
            .with_context(|| format!("cannot remove {}", self.root.display()))
    }

    fn rows(&self) -> Result<Vec<Value>> {
        let list = self.json(&["ls", "--all", "--json"].map(str::to_owned))?;
        list["sessions"].as_array().cloned().context("`ls` printed no sessions")
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.root.join("repos/sample")
    }

    fn make_repository(&self) -> Result<()> {
        let repository = self.repository();
        fs::write(repository.join("README.md"), "# Sample\n")?;
        fs::write(repository.join("provost.toml"), self.configuration())?;
        for args in
            [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "-m", "Begin"]]
        {
            capture(self.prepared("git").args(args))?;
        }
        capture(self.provost().args(["trust", "--yes"]))?;
        Ok(())
    }

    fn configuration(&self) -> String {
        let command = [
            text(&self.programs.scripted_agent),
            text(&self.root.join("scenarios/verified.toml")),
            "--vars".to_owned(),
            self.gate_variable(DemoGate::Second),
        ];
        // A JSON array of strings is a TOML array.
        format!(
            "[agents.{AGENT}]\nadapter = \"jsonl\"\ncommand = {}\n",
            Value::from(command.to_vec())
        )
    }

    /// Writes a sample scenario that waits for its gate, and returns its path.
    fn scenario(&self, name: &str) -> Result<PathBuf> {
        let sample = scenario::sample(name).with_context(|| format!("unknown sample {name}"))?;
        let path = self.root.join("scenarios").join(format!("{name}.toml"));
        fs::write(&path, behind_gate(sample))?;
        Ok(path)
    }

    fn gate_variable(&self, gate: DemoGate) -> String {
        format!("gate={}", text(&self.root.join(gate.file())))
    }

    fn provost(&self) -> Command {
        self.prepared(&self.programs.provost)
    }

    /// Returns a command in the sample repository, isolated from the user's own home.
    fn prepared(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let user = self.user();
        let mut command = Command::new(program);
        command
            .current_dir(self.repository())
            .env_clear()
            .env("PATH", self.search_path())
            .env("PROVOST_HOME", self.root.join("home"))
            .env("HOME", &user)
            .env("XDG_CONFIG_HOME", user.join(".config"))
            .env("XDG_RUNTIME_DIR", self.root.join("tmp"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LANG", "C.UTF-8")
            .env("COLUMNS", "110");
        // Only the requested Codex is used, even if others are installed.
        command.envs(self.codex.as_ref().map(|codex| ("PROVOST_CODEX", codex)));
        command
    }

    fn search_path(&self) -> std::ffi::OsString {
        let inherited = variable("PATH").unwrap_or_default();
        let own = self.programs.provost.parent().map(Path::to_owned);
        let all = own.into_iter().chain(env::split_paths(&inherited));
        env::join_paths(all).unwrap_or(inherited)
    }

    /// Stops running processes if possible. A failure means that they have exited.
    fn end(&self) {
        if !self.root.join("home").exists() {
            return;
        }
        for row in self.rows().unwrap_or_default() {
            if let (Some(id), Some("alive")) = (row["id"].as_str(), row["process"].as_str()) {
                drop(output(self.provost().args(["stop", id])));
            }
        }
        drop(output(self.provost().args(["daemon", "stop"])));
    }
}

impl Drop for DemoEnv {
    fn drop(&mut self) {
        self.end();
    }
}

fn run_and_show(name: &str, mut command: Command, args: &[&str]) -> Result<String> {
    let typed: Vec<String> = args.iter().map(|argument| quoted(argument)).collect();
    print_line(&format!("  $ {name} {}", typed.join(" ")));
    let text = capture(command.args(args))?;
    for line in text.lines() {
        print_line(&format!("    {line}"));
    }
    Ok(text)
}

/// Quotes an argument as it would be typed.
fn quoted(argument: &str) -> String {
    if argument.contains([' ', '&', '%']) { format!("'{argument}'") } else { argument.to_owned() }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn make_private(dir: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    Ok(())
}

/// Kills a process with SIGKILL and waits until it has exited.
pub(super) fn kill(raw: i32) -> Result<()> {
    let pid = Pid::from_raw(raw).context("the pid is zero")?;
    kill_process(pid, Signal::KILL)?;
    let deadline = Deadline::after(TIMEOUT);
    while is_alive(raw) {
        ensure!(!deadline.passed(), "the killed process did not exit");
        pause();
    }
    Ok(())
}

/// Whether a process is alive. A zombie has exited.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[expect(clippy::disallowed_methods, reason = "a poll interval, never the condition itself")]
fn pause() {
    std::thread::sleep(POLL_INTERVAL);
}
