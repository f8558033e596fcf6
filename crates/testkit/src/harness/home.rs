//! A test's own `PROVOST_HOME` and the directories around it, which are checked and removed when
//! the test ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::daemon::HomeDaemon;
use super::follower::OutputFollower;
use super::leftovers::{self, PREFIX, leftovers};
use super::output::{self, ProgramOutput, TimeLimits};
use super::processes::HomeProcess;
use super::programs::{provost_bin, scripted_agent_bin};
use super::repo::TestRepo;
use super::wait::{eventually, poll_until};
use crate::clock::Deadline;
use crate::scenario;

/// The default time that stopped processes may take to exit before they count as leftovers.
const END_WAIT: Duration = Duration::from_secs(30);
/// The refusal to stop an agent that Provost did not start.
const EXTERNAL_AGENT: &str = "Provost did not start this agent";
/// The number of lines of each log that a failed test shows.
const SHOWN_LOG_LINES: usize = 40;
/// The user's git configuration within a home.
const GIT_CONFIG: &str = "[user]\n\tname = Sample Person\n\temail = person@example.invalid\n[init]\n\tdefaultBranch = main\n";

/// The length of a home's path. It is the same for every test root, because tables and wrapped lines in
/// recorded outputs depend on it.
const PATH_LENGTH: usize = 44;
/// The minimum number of random characters in a home's name.
const MIN_RANDOM: usize = 6;

/// A home for one test. Dropping it stops all processes that still run, and fails the test if
/// Provost's own commands left any.
#[derive(Debug)]
pub struct TestHome {
    dir: TempDir,
    provost: Option<PathBuf>,
    extra: BTreeMap<OsString, OsString>,
    unchecked: bool,
    end_wait: Duration,
}

impl TestHome {
    /// Creates an empty home below `PROVOST_TEST_ROOT`, or below the temporary directory.
    #[expect(
        clippy::new_without_default,
        reason = "creates directories on disk, which are not a default value"
    )]
    pub fn new() -> Self {
        let root = test_root();
        fs::create_dir_all(&root).expect("the test root can be created");
        // The kernel and git report paths without symbolic links.
        let root = root.canonicalize().expect("the test root can be resolved");
        let shorter = root.as_os_str().len() + "/".len() + PREFIX.len();
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(PATH_LENGTH.saturating_sub(shorter).max(MIN_RANDOM))
            .tempdir_in(root)
            .expect("a home can be created");
        for part in ["home", "user", "tmp", "repos"] {
            DirBuilder::new()
                .mode(0o700)
                .create(dir.path().join(part))
                .expect("a part of the home can be created");
        }
        fs::write(dir.path().join("user/.gitconfig"), GIT_CONFIG)
            .expect("the git configuration can be written");
        Self { dir, provost: None, extra: BTreeMap::new(), unchecked: false, end_wait: END_WAIT }
    }

    /// Creates a home whose `provost` is this program.
    pub fn with_provost(program: PathBuf) -> Self {
        let mut home = Self::new();
        home.provost = Some(program);
        home
    }

    /// Creates a home with short windows, so that sessions are sealed quickly.
    pub fn with_short_windows() -> Self {
        let mut home = Self::new();
        home.set_short_windows();
        home
    }

    /// Shortens the windows for everything that the home runs from now on.
    pub fn set_short_windows(&mut self) {
        self.set_env("PROVOST_SESSION_SETTLE", "150ms");
        self.set_env("PROVOST_SESSION_DRAIN", "300ms");
        self.set_env("PROVOST_SESSION_STOP_GRACE", "150ms");
    }

    /// Runs this `provost` from now on.
    pub fn use_provost(&mut self, program: PathBuf) {
        self.provost = Some(program);
    }

    /// Returns the directory that contains all files of the test.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of the `PROVOST_HOME`.
    pub fn path(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Sets a variable for every program that the home runs from now on.
    pub fn set_env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.extra.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Writes the user's Provost configuration.
    pub fn configure(&self, toml: &str) {
        let dir = self.root().join("user/.config/provost");
        fs::create_dir_all(&dir).expect("the configuration's directory can be created");
        fs::write(dir.join("provost.toml"), toml).expect("the configuration can be written");
    }

    /// Trusts the commands in a project's files, as a user does.
    #[track_caller]
    pub fn trust(&self, dir: &Path) {
        self.provost_in(dir, &["trust", "--yes"]).ok();
    }

    /// Creates a repository with one commit.
    pub fn repo(&self, name: &str) -> TestRepo {
        TestRepo::at(&self.root().join("repos").join(name))
    }

    /// Writes a scenario for the scripted agent and returns the file's path.
    pub fn scenario(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root().join(format!("{name}.toml"));
        fs::write(&path, text).expect("the scenario can be written");
        path
    }

    /// Writes a scenario, and returns the configuration of an agent that plays it over JSON lines.
    /// In the scenario, `{{root}}` is the home's root.
    pub fn scripted_agent(&self, name: &str, scenario: &str) -> String {
        let scenario = self.scenario(name, scenario).display().to_string();
        let root = format!("root={}", self.root().display());
        agent_config(name, &[&scenario, "--vars", &root])
    }

    /// Returns the configuration of an agent that plays a sample scenario over JSON lines.
    pub fn sample_agent(&self, name: &str, sample: &str) -> String {
        agent_config(name, &[&format!("sample:{sample}")])
    }

    /// Writes one of the sample scenarios and returns the file's path.
    #[track_caller]
    pub fn sample(&self, name: &str) -> PathBuf {
        let text =
            scenario::sample(name).unwrap_or_else(|| panic!("unknown sample scenario {name}"));
        self.scenario(name, text)
    }

    /// Returns a `provost` command with these arguments and the home's environment.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(self.provost_program());
        command.args(args).current_dir(self.root()).env_clear().envs(self.environment());
        command
    }

    /// Runs `provost` to completion.
    #[track_caller]
    pub fn provost<S: AsRef<OsStr>>(&self, args: &[S]) -> ProgramOutput {
        self.provost_with_input(args, "")
    }

    /// Runs `provost` to completion in this directory.
    #[track_caller]
    pub fn provost_in<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> ProgramOutput {
        let mut command = self.command(args);
        command.current_dir(dir);
        output::run(command, Vec::new(), TimeLimits::default())
            .unwrap_or_else(|why| panic!("{why}"))
    }

    /// Runs `provost` to completion with this input on stdin.
    #[track_caller]
    pub fn provost_with_input<S: AsRef<OsStr>>(&self, args: &[S], input: &str) -> ProgramOutput {
        let ran = output::run(self.command(args), input.as_bytes().to_vec(), TimeLimits::default());
        ran.unwrap_or_else(|why| panic!("{why}"))
    }

    /// Starts a `provost` command that prints continuously.
    #[track_caller]
    pub fn follow<S: AsRef<OsStr>>(&self, args: &[S]) -> OutputFollower {
        OutputFollower::start(self.command(args))
    }

    /// Waits until `provost status ID --json` prints an accepted object, and returns it.
    #[track_caller]
    pub fn wait_state(&self, id: &str, accept: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("an accepted status of {id}"), || {
            let output = self.provost(&["status", id, "--json"]);
            match serde_json::from_str::<Value>(&output.stdout) {
                Ok(row) if accept(&row) => Ok(row),
                _ => Err(output),
            }
        })
    }

    /// Returns the current output of `provost status ID --json`.
    #[track_caller]
    pub fn status(&self, id: &str) -> Value {
        self.provost(&["status", id, "--json"]).ok().json()
    }

    /// Waits until the session is in this state.
    #[track_caller]
    pub fn wait(&self, id: &str, state: &str) -> Value {
        self.wait_state(id, |row| row["state"] == state)
    }

    /// Waits for the sealed outcome.
    #[track_caller]
    pub fn wait_sealed(&self, id: &str) -> Value {
        self.wait_state(id, |row| row["sealed"] == true)
    }

    /// Returns the events of a session, oldest first.
    #[track_caller]
    pub fn events(&self, id: &str) -> Vec<Value> {
        let list = self.provost(&["events", id, "--json", "--limit", "10000"]).ok().json();
        list["events"].as_array().expect("a list of events").clone()
    }

    /// Returns the events of one kind.
    #[track_caller]
    pub fn events_of(&self, id: &str, kind: &str) -> Vec<Value> {
        self.events(id).into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// Starts a session in the home's root and returns its id.
    #[track_caller]
    pub fn spawn(&self, args: &[&str]) -> String {
        self.provost(&[&["spawn", "--json"], args].concat()).ok().id()
    }

    /// Returns the records of the ledger, in order.
    #[track_caller]
    pub fn ledger_records(&self) -> Vec<Value> {
        let lines = self.provost(&["ledger", "export"]).ok().json_lines();
        lines.into_iter().filter_map(|line| line.get("record").cloned()).collect()
    }

    /// Asserts that the ledger is intact and its projections match its events.
    #[track_caller]
    pub fn assert_ledger_verified(&self) {
        self.provost(&["ledger", "verify", "--json"]).ok();
    }

    /// Returns the home's daemon.
    pub fn daemon(&self) -> HomeDaemon<'_> {
        HomeDaemon(self)
    }

    /// Returns the current leftovers.
    pub fn leftovers(&self) -> Vec<String> {
        leftovers(self.root())
    }

    /// Allows the clean-up of the home to kill running processes without failing the test. This is
    /// for tests that deliberately break a home, so that Provost cannot clean up.
    pub fn leave_unchecked(&mut self) {
        self.unchecked = true;
    }

    /// Sets the time that stopped processes may take to exit when the home is cleaned up.
    pub fn set_end_wait(&mut self, wait: Duration) {
        self.end_wait = wait;
    }

    pub(super) fn processes(&self) -> Vec<HomeProcess> {
        leftovers::processes_of(self.root()).expect("the processes can be listed")
    }

    fn provost_program(&self) -> PathBuf {
        self.provost.clone().unwrap_or_else(provost_bin)
    }

    /// Returns the complete environment of the programs that the home runs.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let root = self.root();
        let mut known: BTreeMap<OsString, OsString> = [
            ("PROVOST_HOME", self.path()),
            ("PROVOST_BIN", self.provost_program()),
            ("HOME", root.join("user")),
            ("XDG_CONFIG_HOME", root.join("user/.config")),
            ("XDG_STATE_HOME", root.join("user/.local/state")),
            ("XDG_DATA_HOME", root.join("user/.local/share")),
            ("XDG_CACHE_HOME", root.join("user/.cache")),
            ("XDG_RUNTIME_DIR", root.join("tmp")),
            ("TMPDIR", root.join("tmp")),
            ("TMUX_TMPDIR", root.join("tmp")),
        ]
        .map(|(name, path)| (name.into(), path.into_os_string()))
        .into();
        let fixed = [
            ("LANG", "C.UTF-8"),
            ("TZ", "UTC"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("PROVOST_SESSION_SETTLE", "50ms"),
        ];
        known.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        known.insert("PATH".into(), self.search_path());
        known.extend(self.extra.clone());
        known
    }

    /// Returns the search path: the programs under test first, then the test's own path.
    #[expect(clippy::disallowed_methods, reason = "the home inherits the test's search path")]
    fn search_path(&self) -> OsString {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let mut path: Vec<PathBuf> =
            self.provost_program().parent().map(Path::to_owned).into_iter().collect();
        path.extend(std::env::split_paths(&inherited));
        std::env::join_paths(path).expect("directories of programs have no colon in their names")
    }

    /// Stops all processes, first with Provost's own commands. Returns the processes that these
    /// commands did not stop.
    fn close(&self) -> Vec<String> {
        if !self.processes().is_empty() {
            self.stop_through_provost();
        }
        let nothing = || match self.leftovers() {
            left if left.is_empty() => Ok(()),
            left => Err(left),
        };
        let left = poll_until(Deadline::after(self.end_wait), nothing)
            .err()
            .map(|_| self.leftovers())
            .unwrap_or_default();
        self.kill_all();
        left
    }

    /// Stops every session with a living process, then the daemon. Failures show up as leftovers.
    fn stop_through_provost(&self) {
        let ask =
            |args: &[&str]| output::run(self.command(args), Vec::new(), TimeLimits::default()).ok();
        let living = || {
            let list = ask(&["ls", "--all", "--json"])
                .and_then(|output| serde_json::from_str(&output.stdout).ok());
            living_sessions(&list.unwrap_or_default())
        };
        // There is no point in waiting for external agents.
        let is_external = |stopped: &ProgramOutput| stopped.stderr.contains(EXTERNAL_AGENT);
        let mut external = living();
        external.retain(|id| ask(&["stop", id]).as_ref().is_some_and(is_external));
        // The daemon must keep running, because it sends TERM and KILL to agents that ignore an
        // interrupt.
        let all_ended = || living().iter().all(|id| external.contains(id)).then_some(());
        drop(poll_until(Deadline::after(self.end_wait), all_ended));
        ask(&["daemon", "stop"]);
    }

    fn kill_all(&self) {
        let all_gone = || {
            let left = self.processes();
            left.iter()
                .try_for_each(HomeProcess::kill)
                .expect("a process of the home can be killed");
            left.is_empty().then_some(())
        };
        // The next check of the test root reports processes that cannot be killed.
        drop(poll_until(Deadline::after(self.end_wait), all_gone));
    }

    fn show_logs(&self) {
        for file in fs::read_dir(self.path().join("log")).into_iter().flatten().flatten() {
            let text = fs::read(file.path()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..].join("\n");
            print_stderr(&format!("--- {}\n{tail}", file.path().display()));
        }
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
            return self.kill_all();
        }
        if self.unchecked {
            return self.kill_all();
        }
        let left = self.close();
        assert!(
            self.unchecked || left.is_empty(),
            "left behind by this test:\n{}",
            left.join("\n")
        );
    }
}

/// Returns the ids in the output of `ls` whose process is alive or will be started: it is being
/// launched, or its worktree is being made.
fn living_sessions(list: &Value) -> Vec<String> {
    let rows = list["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let starting = |row: &Value| match row["launches"].as_array().and_then(|all| all.last()) {
        Some(launch) => launch["phase"] == "pending",
        None => row["sealed"] == false,
    };
    let living = rows.iter().filter(|row| row["process"] == "alive" || starting(row));
    living.filter_map(|row| row["id"].as_str()).map(str::to_owned).collect()
}

/// Returns the configuration of an agent that is the scripted agent with these arguments.
fn agent_config(name: &str, arguments: &[&str]) -> String {
    let program = scripted_agent_bin().display().to_string();
    let command = [&[program.as_str()], arguments].concat();
    format!("[agents.{name}]\nadapter = \"jsonl\"\ncommand = {command:?}\n")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test run's environment names the directory of its homes"
)]
fn test_root() -> PathBuf {
    std::env::var_os("PROVOST_TEST_ROOT").map_or_else(std::env::temp_dir, PathBuf::from)
}

#[expect(
    clippy::print_stderr,
    reason = "the test runner captures it and shows it for a failed test"
)]
fn print_stderr(text: &str) {
    eprintln!("{text}");
}
