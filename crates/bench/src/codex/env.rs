//! The environment of a measurement with Codex: a scripted model, a repository, a home configured for both, and a
//! daemon.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use provost_testkit::model::{MODEL, ModelScenario, ModelServer, codex_config};
use serde_json::Value;

use crate::{daemon::BenchDaemon, event_follower::BenchEventFollower};

/// A daemon whose sessions use a scripted model.
pub(crate) struct CodexBenchEnv<'a> {
    pub(crate) codex: &'a Path,
    pub(crate) daemon: BenchDaemon,
    dir: tempfile::TempDir,
    pub(crate) model: ModelServer,
}

impl CodexBenchEnv<'_> {
    pub(crate) fn new<'a>(codex: &'a Path, scenario: &str) -> Result<CodexBenchEnv<'a>> {
        let scene = CodexBenchEnv {
            codex,
            daemon: BenchDaemon::home()?,
            dir: tempfile::Builder::new().prefix("pbc").tempdir()?,
            model: ModelServer::bind(ModelScenario::parse(scenario)?, 0)?,
        };
        scene.begin_repository()?;
        scene.configure(&scene.user())?;
        scene.daemon.start()?;
        Ok(scene)
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    fn user(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    fn begin_repository(&self) -> Result<()> {
        fs::create_dir(self.repository())?;
        for args in
            [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "Begin"]]
        {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]);
            let status = git.args(args).current_dir(self.repository()).status()?;
            ensure!(status.success(), "git {args:?}");
        }
        Ok(())
    }

    /// Creates an unused Codex home.
    pub(crate) fn fresh_home(&self, name: &str) -> Result<PathBuf> {
        let home = self.dir.path().join(name);
        self.configure(&home)?;
        Ok(home)
    }

    /// Writes a Codex configuration that selects the model.
    fn configure(&self, home: &Path) -> Result<()> {
        fs::create_dir_all(home)?;
        fs::write(home.join("config.toml"), codex_config(MODEL, &self.model.url()))?;
        Ok(())
    }

    /// Returns a `provost` command with the daemon's home, in the repository.
    pub(crate) fn provost(&self, args: &[&str]) -> Result<Command> {
        let mut command = self.daemon.command(args)?;
        command.current_dir(self.repository()).env("PROVOST_CODEX", self.codex);
        command.env("CODEX_HOME", self.user());
        Ok(command)
    }

    /// Runs `provost` and returns the JSON object that it prints.
    pub(crate) fn run_json(&self, args: &[&str]) -> Result<Value> {
        let output = self.provost(args)?.output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "provost {args:?}: {complaint}");
        serde_json::from_slice(&output.stdout).context("provost did not print a JSON object")
    }

    /// Starts a session that writes a file, and returns its id.
    pub(crate) fn spawn(&self, more: &[&str]) -> Result<String> {
        self.spawn_session(&[&["--sandbox", "full-access"], more, &["Write hello."]].concat())
    }

    /// Starts a session and returns its id.
    pub(crate) fn spawn_session(&self, more: &[&str]) -> Result<String> {
        let reply = self.run_json(&[&["spawn", "--json", "--agent", "codex"], more].concat())?;
        reply["id"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("the reply has no session id: {reply}"))
    }

    /// Follows the event stream from now on.
    pub(crate) fn follow_events(&self) -> Result<BenchEventFollower> {
        BenchEventFollower::from_now(&self.daemon)
    }

    /// Verifies that there are `count` sessions, all in this state.
    pub(crate) fn assert_all_in_state(&self, state: &str, count: usize) -> Result<()> {
        let all: Value = self.daemon.client().get("/v1/sessions")?;
        let rows = all["sessions"].as_array().context("the reply has no sessions")?;
        let states: Vec<&str> = rows.iter().filter_map(|row| row["state"].as_str()).collect();
        let right = states.len() == count && states.iter().all(|found| *found == state);
        ensure!(right, "expected {count} {state} sessions: {states:?}");
        Ok(())
    }
}
