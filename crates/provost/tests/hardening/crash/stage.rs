//! One run of a scenario: a home, a daemon that may be told to die, and commands that outlive it.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use provost_testkit::{Home, Output, Repo, eventually, scripted_agent_bin};
use serde_json::Value;

use super::scenarios::Scenario;
use crate::kit::{configure, quick_home, records, sealed};

/// The signal by which an aborted process dies.
const SIGABRT: i32 = 6;

/// The exit code of a command that could not reach the daemon.
const UNREACHABLE: i32 = 6;

/// Where the daemon dies: at this passage of this place.
pub(super) struct Crash {
    pub(super) place: &'static str,
    pub(super) nth: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place, self.nth)
    }
}

/// A home in which a scenario is played.
pub(super) struct Stage {
    pub(super) home: Home,
    pub(super) repo: Repo,
    first: Child,
    asked: u32,
}

impl Stage {
    /// Makes a home and starts the daemon that may die.
    pub(super) fn set(scenario: &Scenario, crash: Option<&Crash>) -> Stage {
        let mut home = quick_home();
        home.set_env("PROVOST_SESSION_REWORK", "1");
        home.set_env("PROVOST_SESSION_STOP_GRACE", scenario.grace);
        let repo = home.repo("sample");
        let agent = home.scenario("agent", scenario.agent);
        let hooks = home.root().join("hooks.log");
        let names = ["opened", "started", "needs_input", "rework"];
        let ends = ["ended_unclaimed", "succeeded", "completed", "cancelled", "failed", "disputed"];
        let hook = |name: &&str| format!("{name} = \"echo {name} >> {}\"\n", hooks.display());
        let hooks: String = names.iter().chain(&ends).map(hook).collect();
        let (program, root) = (scripted_agent_bin(), home.root().display().to_string());
        configure(
            &home,
            &format!(
                "[hooks.session]\n{hooks}\n[agents.scripted]\ndriver = \"jsonl\"\ncommand = [\"{}\", \"{}\", \"--vars\", \"root={root}\"]\n",
                program.display(),
                agent.display(),
            ),
        );
        let first = daemon(&home, crash);
        Stage { home, repo, first, asked: 0 }
    }

    /// A file of the outside world, in which effects are counted.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.home.root().join(name)
    }

    /// Asks for a change until a daemon has answered; the same key makes it happen once.
    #[track_caller]
    pub(super) fn change(&mut self, args: &[&str], rest: &[&str]) -> Output {
        self.asked += 1;
        let key = format!("change-{}", self.asked);
        let args = [args, &["--json", "--key", &key], rest].concat();
        eventually("a daemon answers", || {
            let output = self.home.provost_in(self.repo.path(), &args);
            match output.code() {
                Some(UNREACHABLE) => Err(output),
                _ => Ok(output),
            }
        })
    }

    #[track_caller]
    pub(super) fn spawn(&mut self, args: &[&str], rest: &[&str]) -> String {
        let spawned = self.change(&[&["spawn"], args].concat(), rest);
        crate::kit::text(&spawned.ok().json()["id"])
    }

    /// Waits until the outcome is sealed, the process's end was seen, and every hook has run to its end.
    #[track_caller]
    pub(super) fn settled(&self, id: &str, hooks: usize) -> Value {
        let row = sealed(&self.home, id);
        eventually("everything has ended", || {
            // Whatever asks starts a daemon if the last one died; an export asks none.
            self.home.provost(&["status", id]);
            let ended = self.events("hook.finished").len();
            let gone = self.events("tree.gone").len() + self.events("process.unobserved").len();
            if ended >= hooks && gone > 0 { Ok(()) } else { Err((ended, gone, row.to_string())) }
        });
        row
    }

    /// The recorded events of a kind.
    pub(super) fn events(&self, kind: &str) -> Vec<Value> {
        // An export at the moment at which the daemon dies may be cut short; it is asked for again.
        let all = eventually("an export", || {
            let export = self.home.provost(&["ledger", "export"]);
            if export.code() == Some(0) { Ok(export) } else { Err(export) }
        });
        let records = all.json_lines().into_iter().filter_map(|line| line.get("record").cloned());
        records.filter(|record| record["kind"] == kind).collect()
    }

    /// How many commits there were, at least: what is decided together has one moment.
    pub(super) fn commits(&self) -> u64 {
        let mut moments: Vec<u64> =
            records(&self.home).iter().filter_map(|record| record["mono_ms"].as_u64()).collect();
        moments.dedup();
        moments.len() as u64
    }

    /// Whether the first daemon died where it was told to.
    pub(super) fn daemon_died(&mut self) -> bool {
        let status = self.first.try_wait().expect("the first daemon can be waited for");
        if let Some(status) = status {
            assert_eq!(status.signal(), Some(SIGABRT), "the daemon ended by itself: {status}");
        }
        status.is_some()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Ended in order if it lives; its exit status is taken either way.
        drop(self.home.provost(&["daemon", "stop"]));
        drop(self.first.wait());
    }
}

/// Starts a daemon and waits until it answers.
fn daemon(home: &Home, crash: Option<&Crash>) -> Child {
    let mut command = home.command(&["daemon", "run"]);
    if let Some(crash) = crash {
        command.env("PROVOST_FAILPOINT", crash.to_string());
    }
    let mut daemon = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the daemon can be started");
    let mut first = String::new();
    let stdout = daemon.stdout.as_mut().expect("its output is a pipe");
    BufReader::new(stdout).read_line(&mut first).expect("the daemon can be heard");
    assert_eq!(first, "ready\n");
    daemon
}

/// Whether every passage is to be tried.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge at which a test run says how much it tries"
)]
pub(super) fn deep() -> bool {
    std::env::var_os("PROVOST_DEEP").is_some_and(|deep| deep == "1")
}

/// Which subset is tried.
#[expect(clippy::disallowed_methods, reason = "the edge at which a test run says what it tries")]
pub(super) fn seed() -> usize {
    std::env::var("PROVOST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}
