//! Test environment for the scripted agent: a home, a configuration, and short helpers to query state.

use std::{fs, ops::Deref, path::Path, process::Command};

use provost_testkit::harness::{
    ProgramOutput, TestHome, eventually, read_nonempty, scripted_agent_bin,
};
use serde_json::Value;

/// Name of the configured agent whose scenarios speak JSON lines.
pub(crate) const TALKER: &str = "talker";

/// A home plus the helpers that every test uses.
pub(crate) struct TestEnv {
    pub(crate) home: TestHome,
}

/// Exposes the home's methods directly.
impl Deref for TestEnv {
    type Target = TestHome;

    fn deref(&self) -> &TestHome {
        &self.home
    }
}

/// The credentials that a launch authenticates with.
pub(crate) struct LaunchCredentials {
    pub(crate) launch: String,
    pub(crate) token: String,
}

/// The flag for scripted agents, which report their own claims, so that exit 0 is not a claim.
pub(crate) const NO_EXIT_CLAIM: &str = "--no-exit-zero-completes";

impl TestEnv {
    pub(crate) fn new() -> Self {
        TestEnv { home: TestHome::new() }
    }

    /// Returns the path of a file beside the home.
    pub(crate) fn file(&self, name: &str) -> String {
        text(&self.home.root().join(name))
    }

    /// Configures the agent [`TALKER`] with a JSON-lines scenario; `more` is further configuration.
    pub(crate) fn configure_talker(&self, scenario: &str, more: &str) {
        let path = text(&self.home.scenario(TALKER, scenario));
        let agent = text(&scripted_agent_bin());
        self.configure(&format!(
            "{more}\n[agents.{TALKER}]\nadapter = \"jsonl\"\ncommand = [{agent:?}, {path:?}]\n"
        ));
    }

    /// Starts a scenario as a plain command in the home's root and returns the session id.
    #[track_caller]
    pub(crate) fn spawn_scenario(&self, scenario: &str, flags: &[&str]) -> String {
        self.spawn_scenario_in(self.home.root(), scenario, flags)
    }

    /// Starts a scenario in a directory, as a plain command that reports its own claims.
    #[track_caller]
    pub(crate) fn spawn_scenario_in(&self, dir: &Path, scenario: &str, flags: &[&str]) -> String {
        let name = format!("scene-{}", next_scenario_no());
        let path = text(&self.home.scenario(&name, scenario));
        let agent = text(&scripted_agent_bin());
        self.spawn_in(dir, &[&[NO_EXIT_CLAIM], flags, &["--", &agent, &path]].concat())
    }

    /// Starts one of the sample scenarios, as a plain command that reports its own claims.
    #[track_caller]
    pub(crate) fn spawn_sample(&self, name: &str, flags: &[&str]) -> String {
        let agent = text(&scripted_agent_bin());
        let sample = format!("sample:{name}");
        self.spawn_in(
            self.home.root(),
            &[&[NO_EXIT_CLAIM], flags, &["--", &agent, &sample]].concat(),
        )
    }

    /// Starts a session and returns its id.
    #[track_caller]
    pub(crate) fn spawn_in(&self, dir: &Path, arguments: &[&str]) -> String {
        let spawned = self.home.provost_in(dir, &[&["spawn", "--json"], arguments].concat());
        spawned.ok().json()["id"].as_str().unwrap().to_owned()
    }

    /// Returns the rows of `ls --all`.
    #[track_caller]
    pub(crate) fn list_sessions(&self) -> Vec<Value> {
        let list = self.home.provost(&["ls", "--all", "--json"]).ok().json();
        list["sessions"].as_array().unwrap().clone()
    }

    /// Returns the spec with which a session was opened.
    #[track_caller]
    pub(crate) fn spec(&self, id: &str) -> Value {
        self.events_of(id, "session.opened")[0]["data"]["spec"].clone()
    }

    /// Reports as a launch whose process no longer descends from its holder.
    #[track_caller]
    pub(crate) fn report_as(&self, who: &LaunchCredentials, arguments: &[&str]) -> ProgramOutput {
        let mut command = self.home.command(&[&["report"], arguments, &["--json"]].concat());
        command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
        output_of(command)
    }

    /// Waits for the credentials file that a launch wrote, and reads it.
    pub(crate) fn credentials(&self, launch_no: u32) -> LaunchCredentials {
        let path = self.home.root().join(format!("credentials-{launch_no}"));
        let found = eventually("the credentials of a launch", || read_nonempty(&path));
        let (launch, token) = found.trim().split_once(' ').unwrap();
        LaunchCredentials { launch: launch.to_owned(), token: token.to_owned() }
    }

    /// Returns the pid of the newest launch of a session.
    #[track_caller]
    pub(crate) fn pid(&self, id: &str) -> u32 {
        let row = self.home.wait_state(id, |row| newest_pid(row).is_some());
        u32::try_from(newest_pid(&row).unwrap()).unwrap()
    }
}

/// A step that writes the launch's credentials to a file.
pub(crate) const WRITES_CREDENTIALS: &str = r#"
[[step]]
run = ["sh", "-c", "echo $PROVOST_LAUNCH $PROVOST_TOKEN > new && mv new credentials-$PROVOST_LAUNCH_NO"]
"#;

/// Runs until it is killed.
pub(crate) const HANGS: &str = "[[step]]\nhang = true\n";

/// Runs a command to completion.
#[track_caller]
pub(crate) fn output_of(mut command: Command) -> ProgramOutput {
    let line = format!("{command:?}");
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    ProgramOutput {
        command: line,
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        raw_stdout: output.stdout,
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Whether a process is running; a zombie is not.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, Some('Z' | 'X')))
}

/// Kills a process started by this test's home.
#[track_caller]
pub(crate) fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

/// Sends SIGINT to a process of this test, as Ctrl-C does.
#[track_caller]
pub(crate) fn interrupt(pid: u32) {
    signal(pid, rustix::process::Signal::INT);
}

#[track_caller]
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn newest_pid(row: &Value) -> Option<u64> {
    row["launches"].as_array()?.last()?["pid"].as_u64()
}

fn next_scenario_no() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SCENES: AtomicU32 = AtomicU32::new(0);
    SCENES.fetch_add(1, Ordering::Relaxed)
}
