//! The environment of one scenario: a home, a daemon that can be set to crash, and commands that
//! are retried.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Child;

use provost_testkit::{Crash, ProgramOutput, TestHome, TestRepo, eventually};
use serde_json::Value;

use super::scenarios::CrashScenario;

/// The signal that ends an aborted process.
const SIGABRT: i32 = 6;

/// The exit code of a command that could not reach the daemon.
const UNREACHABLE: i32 = 6;

const RUN_HOOKS: [&str; 7] =
    ["opened", "question", "findings", "succeeded", "completed", "failed", "cancelled"];

/// A home in which a scenario is played.
pub(super) struct CrashEnv {
    pub(super) home: TestHome,
    pub(super) repo: TestRepo,
    first_daemon: Child,
    changes: u32,
}

impl CrashEnv {
    /// Creates a home and starts the daemon that may die.
    pub(super) fn start(scenario: &CrashScenario, crash: Option<&Crash>) -> CrashEnv {
        let mut home = TestHome::with_short_windows();
        home.set_env("PROVOST_SESSION_REWORK", "1");
        home.set_env("PROVOST_SESSION_STOP_GRACE", scenario.grace);
        let repo = home.repo("sample");
        let agent = home.scripted_agent("scripted", scenario.agent);
        let hooks = home.root().join("hooks.log");
        let names = ["opened", "started", "needs_input", "rework"];
        let ends = [
            "exited_without_claim",
            "stopped",
            "succeeded",
            "completed",
            "cancelled",
            "failed",
            "disputed",
        ];
        let hook = |name: &&str| format!("{name} = \"echo {name} >> {}\"\n", hooks.display());
        let session: String = names.iter().chain(&ends).map(hook).collect();
        let run: String = RUN_HOOKS
            .map(|name| format!("\"run.{name}\" = \"echo run.{name} >> {}\"\n", hooks.display()))
            .concat();
        home.configure(&format!("[hooks]\n{run}[hooks.session]\n{session}\n{agent}"));
        let first = home.daemon().start(crash);
        CrashEnv { home, repo, first_daemon: first, changes: 0 }
    }

    /// A file outside the home, in which effects are counted.
    pub(super) fn outside_file(&self, name: &str) -> PathBuf {
        self.home.root().join(name)
    }

    /// Sends a command until a daemon has answered. Because of the idempotency key, it takes effect
    /// once.
    #[track_caller]
    pub(super) fn send_change(&mut self, args: &[&str], rest: &[&str]) -> ProgramOutput {
        self.changes += 1;
        let key = format!("change-{}", self.changes);
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
        let spawned = self.send_change(&[&["spawn"], args].concat(), rest);
        spawned.ok().id()
    }

    /// Waits until the outcome is sealed, the exit of every process was observed, every hook has finished, and every
    /// run has its summary.
    #[track_caller]
    pub(super) fn wait_settled(&self, id: &str, hooks: usize) -> Value {
        let row = self.home.wait_sealed(id);
        eventually("everything has ended", || {
            // A status query starts a daemon if the last one died; an export does not.
            self.home.provost(&["status", id]);
            let all = self.records();
            let count = |kind: &str| all.iter().filter(|record| record["kind"] == kind).count();
            let ended = count("hook.finished") + count("run.hook_finished");
            let gone = count("process_tree.reaped") + count("process.unobserved");
            let reported = count("run.report_written") >= count("run.opened");
            let settled = ended >= hooks && gone >= count("launch.requested").max(1) && reported;
            if settled { Ok(()) } else { Err((ended, gone, reported, row.to_string())) }
        });
        row
    }

    /// Returns the recorded events of a kind.
    pub(super) fn events(&self, kind: &str) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["kind"] == kind).collect()
    }

    fn records(&self) -> Vec<Value> {
        // An export may be truncated if the daemon dies meanwhile, so it is repeated.
        let all = eventually("an export", || {
            let export = self.home.provost(&["ledger", "export"]);
            if export.code() == Some(0) { Ok(export) } else { Err(export) }
        });
        all.json_lines().into_iter().filter_map(|line| line.get("record").cloned()).collect()
    }

    /// Returns a lower bound for the number of commits: events of one commit share a timestamp.
    pub(super) fn count_commits(&self) -> u64 {
        let mut moments: Vec<u64> = self
            .home
            .ledger_records()
            .iter()
            .filter_map(|record| record["mono_ms"].as_u64())
            .collect();
        // An export is ordered by stream, and a commit may contain events of several streams.
        moments.sort_unstable();
        moments.dedup();
        moments.len() as u64
    }

    /// Whether the first daemon died at its crash point.
    pub(super) fn daemon_died(&mut self) -> bool {
        let status = self.first_daemon.try_wait().expect("the first daemon can be waited for");
        if let Some(status) = status {
            assert_eq!(status.signal(), Some(SIGABRT), "the daemon ended by itself: {status}");
        }
        status.is_some()
    }
}

impl Drop for CrashEnv {
    fn drop(&mut self) {
        // Stops the daemon if it is running. Its exit status is collected in any case.
        drop(self.home.provost(&["daemon", "stop"]));
        drop(self.first_daemon.wait());
    }
}
