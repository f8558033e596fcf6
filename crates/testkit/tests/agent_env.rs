//! A directory in which the real scripted agent plays a scenario.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use provost_testkit::{TestHome, eventually};

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_scripted-agent");

/// The environment of one test. Processes that still run in it are killed at the end.
pub(crate) struct AgentEnv {
    home: TestHome,
}

/// A running agent with its pipes.
pub(crate) struct RunningAgent {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl AgentEnv {
    pub(crate) fn new() -> Self {
        let mut home = TestHome::new();
        home.leave_unchecked();
        Self { home }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.root().join(name)
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name))
            .unwrap_or_else(|error| panic!("cannot read {name}: {error}"))
    }

    /// Returns a command for the scripted agent with this scenario, in this directory.
    pub(crate) fn agent(&self, scenario: &str) -> Command {
        self.agent_with(&self.home.scenario("scenario", scenario), &[])
    }

    /// Returns a command for the scripted agent with a scenario file and further arguments.
    fn agent_with(&self, scenario: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(AGENT);
        command.arg(scenario).args(args).current_dir(self.home.root());
        command.env_remove("PROVOST_BIN").env_remove("PROVOST_LAUNCH_NO").stdin(Stdio::null());
        command
    }

    /// Plays a scenario to completion.
    pub(crate) fn play(&self, scenario: &str) -> Output {
        self.agent(scenario).output().expect("the agent can be run")
    }

    /// Starts a scenario that keeps running.
    pub(crate) fn start(&self, scenario: &str) -> RunningAgent {
        Self::started(self.agent(scenario))
    }

    /// Starts a scenario from a file, with further arguments.
    pub(crate) fn start_with(&self, scenario: &Path, args: &[&str]) -> RunningAgent {
        Self::started(self.agent_with(scenario, args))
    }

    pub(crate) fn started(mut command: Command) -> RunningAgent {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent can be started");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout is a pipe"));
        RunningAgent { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Writes an executable shell script.
    pub(crate) fn script(&self, name: &str, body: &str) -> PathBuf {
        script_at(&self.path(name), body)
    }
}

impl RunningAgent {
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the agent's stdout can be read");
        line.trim_end().to_owned()
    }

    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("stdin is open"), "{line}")
            .expect("the agent reads its stdin");
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("the agent can be waited for").code()
    }

    /// Kills the agent and waits for its exit.
    pub(crate) fn end(&mut self) {
        self.child.kill().expect("the agent can be killed");
        self.child.wait().expect("the agent can be waited for");
    }
}

/// Writes an executable script. Another process writes the file, so that no forked thread of this
/// process can have it open for writing when it is executed.
pub(crate) fn script_at(path: &Path, body: &str) -> PathBuf {
    let draft = path.with_extension("draft");
    fs::write(&draft, format!("#!/bin/sh\n{body}\n")).expect("the script can be written");
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))
        .expect("the script can be made executable");
    let copied =
        Command::new("cp").arg("-p").args([draft.as_path(), path]).status().expect("cp can be run");
    assert!(copied.success());
    path.to_owned()
}

/// Parses the pids in a file that a `spawn` step wrote.
pub(crate) fn pids(text: &str) -> Vec<u32> {
    text.lines().map(|line| line.parse().expect("a pid per line")).collect()
}

/// Returns a field of `/proc/PID/status`, or `None` once the process has exited or is a zombie.
pub(crate) fn status_of(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |name: &str| {
        let line = status.lines().find(|line| line.split(':').next() == Some(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    if value("State")?.starts_with('Z') { None } else { value(field) }
}

/// Whether a process ignores TERM, according to the kernel.
pub(crate) fn ignores_term(pid: u32) -> bool {
    let ignored = status_of(pid, "SigIgn").expect("the process lives");
    u64::from_str_radix(&ignored, 16).expect("a mask of signals") & (1 << 14) != 0
}

/// Returns the session of a process, from `/proc/PID/stat`.
pub(crate) fn session_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let (_, fields) = stat.rsplit_once(')').expect("a stat line has a name");
    fields
        .split_whitespace()
        .nth(3)
        .and_then(|field| field.parse().ok())
        .expect("a stat line has a session")
}

#[track_caller]
pub(crate) fn wait_gone(pid: u32) {
    eventually(&format!("process {pid} is gone"), || status_of(pid, "Pid").is_none().then_some(()));
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid is small"))
        .expect("a pid is not 0");
    rustix::process::kill_process(pid, signal).expect("the process can be signalled");
}
