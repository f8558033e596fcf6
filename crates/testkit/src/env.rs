//! The environment of a test with the scripted agent: a home, a configuration, and short helpers to
//! start sessions and to query their state.

use std::{
    fs,
    ops::{Deref, DerefMut},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{
    ProgramOutput, TestHome, eventually, read_nonempty, scripted_agent_bin, string_value,
};

/// The name of the configured agent whose scenarios speak JSON lines.
pub const TALKER: &str = "talker";

/// The flag for scripted agents that report their own claims, so that exit 0 is not a claim.
pub const NO_EXIT_CLAIM: &str = "--no-exit-zero-completes";

/// A step that writes the launch's credentials to a file, for [`TestEnv::credentials`].
pub const WRITES_CREDENTIALS: &str = r#"
[[step]]
run = ["sh", "-c", "echo $PROVOST_LAUNCH $PROVOST_TOKEN > new && mv new credentials-$PROVOST_LAUNCH_NO"]
"#;

/// A scenario that runs until it is killed.
pub const HANGS: &str = "[[step]]\nhang = true\n";

/// A home plus the helpers that every test uses.
#[derive(Debug)]
pub struct TestEnv {
    pub home: TestHome,
}

/// The credentials with which a launch identifies itself.
#[derive(Debug)]
pub struct LaunchCredentials {
    pub launch: String,
    pub token: String,
}

/// Makes the home's methods available directly.
impl Deref for TestEnv {
    type Target = TestHome;

    fn deref(&self) -> &TestHome {
        &self.home
    }
}

impl DerefMut for TestEnv {
    fn deref_mut(&mut self) -> &mut TestHome {
        &mut self.home
    }
}

impl TestEnv {
    /// Creates an environment with an empty home.
    #[expect(
        clippy::new_without_default,
        reason = "creates directories on disk, which are not a default value"
    )]
    pub fn new() -> Self {
        TestEnv { home: TestHome::new() }
    }

    /// Returns the path of a file beside the home.
    pub fn file(&self, name: &str) -> String {
        text(&self.home.root().join(name))
    }

    /// Configures the agent [`TALKER`] with a scenario. `more` is placed before it, so it may set
    /// keys without a table.
    pub fn configure_talker(&self, scenario: &str, more: &str) {
        let agent = self.home.scripted_agent(TALKER, scenario);
        self.configure(&format!("{more}\n{agent}"));
    }

    /// Starts a scenario as a plain command in the home's root and returns the session's id.
    #[track_caller]
    pub fn spawn_scenario(&self, scenario: &str, flags: &[&str]) -> String {
        self.spawn_scenario_in(self.home.root(), scenario, flags)
    }

    /// Starts a scenario in a directory, as a plain command that reports its own claims.
    #[track_caller]
    pub fn spawn_scenario_in(&self, dir: &Path, scenario: &str, flags: &[&str]) -> String {
        let path = text(&self.home.scenario(&next_scenario_name(), scenario));
        self.spawn_scripted(dir, &path, flags)
    }

    /// Starts one of the sample scenarios, as a plain command that reports its own claims.
    #[track_caller]
    pub fn spawn_sample(&self, name: &str, flags: &[&str]) -> String {
        self.spawn_scripted(self.home.root(), &format!("sample:{name}"), flags)
    }

    #[track_caller]
    fn spawn_scripted(&self, dir: &Path, scenario: &str, flags: &[&str]) -> String {
        let agent = text(&scripted_agent_bin());
        self.spawn_in(dir, &[&[NO_EXIT_CLAIM], flags, &["--", &agent, scenario]].concat())
    }

    /// Starts a session in a directory and returns its id.
    #[track_caller]
    pub fn spawn_in(&self, dir: &Path, arguments: &[&str]) -> String {
        self.home.provost_in(dir, &[&["spawn", "--json"], arguments].concat()).ok().id()
    }

    /// Returns the rows of `ls --all`.
    #[track_caller]
    pub fn list_sessions(&self) -> Vec<Value> {
        let list = self.home.provost(&["ls", "--all", "--json"]).ok().json();
        list["sessions"].as_array().expect("a list of sessions").clone()
    }

    /// Returns the spec with which a session was opened.
    #[track_caller]
    pub fn spec(&self, id: &str) -> Value {
        self.events_of(id, "session.opened")[0]["data"]["spec"].clone()
    }

    /// Reports as a launch whose process no longer descends from its holder.
    #[track_caller]
    pub fn report_as(&self, who: &LaunchCredentials, arguments: &[&str]) -> ProgramOutput {
        let mut command = self.home.command(&[&["report"], arguments, &["--json"]].concat());
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        output_of(command)
    }

    /// Waits for the file that [`WRITES_CREDENTIALS`] writes, and reads it.
    #[track_caller]
    pub fn credentials(&self, launch_no: u32) -> LaunchCredentials {
        let path = self.home.root().join(format!("credentials-{launch_no}"));
        let found = eventually("the credentials of a launch", || read_nonempty(&path));
        let (launch, token) = found.trim().split_once(' ').expect("a launch and its token");
        LaunchCredentials { launch: launch.to_owned(), token: token.to_owned() }
    }

    /// Waits for the newest launch of a session and returns its pid.
    #[track_caller]
    pub fn pid(&self, id: &str) -> u32 {
        let row = self.home.wait_state(id, |row| newest_pid(row).is_some());
        newest_pid(&row).and_then(|pid| u32::try_from(pid).ok()).expect("a pid is small")
    }
}

/// Runs a command to completion, without input.
#[track_caller]
pub fn output_of(mut command: Command) -> ProgramOutput {
    let line = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().expect("the command can be started");
    ProgramOutput {
        command: line,
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        raw_stdout: output.stdout,
    }
}

/// Returns a path as text.
#[track_caller]
pub fn text(path: &Path) -> String {
    path.to_str().expect("the test's paths are UTF-8").to_owned()
}

/// Whether a process is running. A zombie is not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, Some('Z' | 'X')))
}

/// Kills a process that this test's home started.
#[track_caller]
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends SIGINT to a process of this test, as Ctrl-C does.
#[track_caller]
pub fn interrupt(pid: u32) {
    signal(pid, Signal::INT);
}

/// Sends a signal to a process of this test.
#[track_caller]
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid is small");
    kill_process(pid, signal).expect("the process can be signalled");
}

/// Returns the number of lines of a file, or 0 if it does not exist.
pub fn count_lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Waits until a file exists.
#[track_caller]
pub fn wait_file(path: &Path) {
    eventually(&format!("{} appears", path.display()), || path.exists().then_some(()));
}

/// Asserts that the output is a JSON error with this exit code and error code, and that its message
/// contains all these parts. Returns the message.
#[track_caller]
pub fn assert_refused(output: &ProgramOutput, exit: i32, code: &str, parts: &[&str]) -> String {
    output.assert_code(exit);
    let value = output.json();
    assert_eq!(value["ok"], false, "{value}");
    assert_eq!(value["error"]["code"], code, "{value}");
    let message = string_value(&value["error"]["message"]);
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    message
}

fn newest_pid(row: &Value) -> Option<u64> {
    row["launches"].as_array()?.last()?["pid"].as_u64()
}

fn next_scenario_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("scenario-{}", LAST.fetch_add(1, Ordering::Relaxed))
}
