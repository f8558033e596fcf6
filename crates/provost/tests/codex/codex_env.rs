//! The test environment for Codex: a user's home with its configuration, a repository and a scripted model.

use std::{
    collections::BTreeSet, fs, ops::Deref, os::unix::fs::PermissionsExt as _, path::PathBuf,
    process::Command,
};

use provost_holder::{HeldRecord, LaunchState, inspect};
use provost_testkit::{
    harness::{ProgramOutput, TestHome, TestRepo, eventually},
    model::{MODEL, ModelServer, OLD_MODEL, codex, codex_config, old_codex},
};
use rustix::process::{Pid, Signal, kill_process};

/// A home, a scripted model and a repository for sessions with Codex.
pub(crate) struct CodexEnv {
    pub(crate) home: TestHome,
    pub(crate) model: ModelServer,
    pub(crate) repo: TestRepo,
}

/// Makes the methods of the home available directly.
impl Deref for CodexEnv {
    type Target = TestHome;

    fn deref(&self) -> &TestHome {
        &self.home
    }
}

/// The Codex version under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestedCodex {
    Pinned,
    Oldest,
}

impl TestedCodex {
    /// Returns a model for which this Codex offers one tool per function.
    pub(crate) fn model(self) -> &'static str {
        match self {
            TestedCodex::Pinned => MODEL,
            TestedCodex::Oldest => OLD_MODEL,
        }
    }
}

impl CodexEnv {
    /// An environment with the pinned Codex; `None` if it is not installed and this run allows that.
    #[track_caller]
    pub(crate) fn new(scenario: &str) -> Option<CodexEnv> {
        CodexEnv::with_version(TestedCodex::Pinned, scenario)
    }

    #[track_caller]
    pub(crate) fn with_version(which: TestedCodex, scenario: &str) -> Option<CodexEnv> {
        let program = match which {
            TestedCodex::Pinned => codex()?,
            TestedCodex::Oldest => old_codex()?,
        };
        let model = ModelServer::play(scenario);
        let mut home = TestHome::new();
        home.set_env("PROVOST_CODEX", program);
        let repo = home.repo("work");
        let stage = CodexEnv { home, model, repo };
        stage.configure_codex(which.model(), "");
        Some(stage)
    }

    /// The user's Codex home.
    pub(crate) fn codex_home(&self) -> PathBuf {
        self.home.root().join("user/.codex")
    }

    /// Writes the user's Codex configuration and appends `more`.
    pub(crate) fn configure_codex(&self, model: &str, more: &str) {
        fs::create_dir_all(self.codex_home()).unwrap();
        // Otherwise Codex creates mount points in the machine's temporary directory.
        let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
        let text = codex_config(model, &self.model.url()) + sandbox + more;
        fs::write(self.codex_home().join("config.toml"), text).unwrap();
    }

    /// Starts a session in the repository and returns its id.
    #[track_caller]
    pub(crate) fn spawn(&self, arguments: &[&str]) -> String {
        let spawned = self.try_spawn(arguments);
        spawned.ok().json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn try_spawn(&self, arguments: &[&str]) -> ProgramOutput {
        let all = [&["spawn", "--json", "--agent", "codex"], arguments].concat();
        self.home.provost_in(self.repo.path(), &all)
    }

    /// Runs a command that starts the daemon with its monotonic clock one day ahead, in a time namespace. All limits
    /// are measured by that clock.
    #[track_caller]
    pub(crate) fn run_a_day_later(&self, arguments: &[&str]) {
        let like = self.command(arguments);
        let mut later = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            later.args(["--user", "--map-current-user"]);
        }
        later.args(["--time", "--monotonic", "86400", "--fork"]);
        later.arg(like.get_program()).args(like.get_args()).current_dir(self.root()).env_clear();
        later.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = later.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }

    /// Replaces Codex with a script, which finds the real one in `$REAL`.
    pub(crate) fn replace_codex(&mut self, script: &str) {
        let like = self.home.command(&["status"]);
        let mut variables = like.get_envs();
        let (_, real) = variables.find(|(name, _)| *name == "PROVOST_CODEX").unwrap();
        let real = real.unwrap().to_str().unwrap();
        let path = self.home.root().join("codex-stand-in");
        fs::write(&path, format!("#!/bin/sh\nREAL={real:?}\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.home.set_env("PROVOST_CODEX", path);
    }

    /// Kills the process of a launch.
    #[track_caller]
    pub(crate) fn kill_codex(&self, id: &str, launch: usize) {
        self.signal_codex(id, launch, Signal::KILL);
    }

    /// Sends a signal to the process of a launch.
    #[track_caller]
    pub(crate) fn signal_codex(&self, id: &str, launch: usize, signal: Signal) {
        send_signal(self.wait_holder(id, launch).child.pid, signal);
    }

    /// Kills the holder of a launch.
    #[track_caller]
    pub(crate) fn kill_holder(&self, id: &str, launch: usize) {
        send_signal(self.wait_holder(id, launch).holder.pid, Signal::KILL);
    }

    #[track_caller]
    fn wait_holder(&self, id: &str, launch: usize) -> HeldRecord {
        let dir = self.home.path().join("launches").join(format!("{id}.l{launch}"));
        eventually("the holder lives", || match inspect(&dir) {
            Ok(LaunchState::Alive { held }) => Ok(held),
            other => Err(format!("{other:?}")),
        })
    }

    /// Returns the number of model turns whose prompt contains `part`.
    pub(crate) fn count_turns_with(&self, part: &str) -> usize {
        let requests = self.model.requests();
        let asked = requests.iter().filter(|made| made.request.prompt().contains(part));
        asked.map(|made| made.request.turn().map(str::to_owned)).collect::<BTreeSet<_>>().len()
    }
}

fn send_signal<N: TryInto<i32>>(pid: N, signal: Signal) {
    let pid = pid.try_into().ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}
