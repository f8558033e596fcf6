//! A stage for Codex: a home of the user with its configuration, a repository, and a scripted model.

use std::{collections::BTreeSet, fs, path::PathBuf};

use provost_holder::{Looked, look};
use provost_testkit::{
    harness::{Home, Output, Repo, eventually},
    model::{MODEL, ModelServer, OLD_MODEL, codex, codex_config, old_codex},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Everything that a session with Codex needs.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) model: ModelServer,
    pub(crate) repo: Repo,
}

/// Which Codex is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Pinned,
    Oldest,
}

impl Stage {
    /// A stage with the pinned Codex, or none if this run may do without.
    #[track_caller]
    pub(crate) fn new(scenario: &str) -> Option<Stage> {
        Stage::with(Which::Pinned, scenario)
    }

    #[track_caller]
    pub(crate) fn with(which: Which, scenario: &str) -> Option<Stage> {
        let (program, name) = match which {
            Which::Pinned => (codex()?, MODEL),
            Which::Oldest => (old_codex()?, OLD_MODEL),
        };
        let model = ModelServer::play(scenario);
        let mut home = Home::new();
        home.set_env("PROVOST_CODEX", program);
        let repo = home.repo("work");
        let stage = Stage { home, model, repo };
        stage.configure_codex(name, "");
        Some(stage)
    }

    /// The user's own Codex home.
    pub(crate) fn codex_home(&self) -> PathBuf {
        self.home.root().join("user/.codex")
    }

    /// Writes the user's configuration of Codex; `more` is added at its end.
    pub(crate) fn configure_codex(&self, model: &str, more: &str) {
        fs::create_dir_all(self.codex_home()).unwrap();
        // Otherwise Codex makes mount points in the machine's own directory of temporary files.
        let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
        let text = codex_config(model, &self.model.url()) + sandbox + more;
        fs::write(self.codex_home().join("config.toml"), text).unwrap();
    }

    /// Writes the user's configuration of Provost.
    pub(crate) fn configure(&self, toml: &str) {
        let dir = self.home.root().join("user/.config/provost");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("provost.toml"), toml).unwrap();
    }

    /// Starts a session in the repository and gives its id.
    #[track_caller]
    pub(crate) fn spawn(&self, arguments: &[&str]) -> String {
        let spawned = self.try_spawn(arguments);
        spawned.ok().json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn try_spawn(&self, arguments: &[&str]) -> Output {
        let all = [&["spawn", "--json", "--agent", "codex"], arguments].concat();
        self.home.provost_in(self.repo.path(), &all)
    }

    #[track_caller]
    pub(crate) fn status(&self, id: &str) -> Value {
        self.home.provost(&["status", id, "--json"]).ok().json()
    }

    /// Waits for the sealed outcome.
    #[track_caller]
    pub(crate) fn sealed(&self, id: &str) -> Value {
        self.home.wait_state(id, |row| row["sealed"] == true)
    }

    #[track_caller]
    pub(crate) fn wait(&self, id: &str, state: &str) -> Value {
        self.home.wait_state(id, |row| row["state"] == state)
    }

    /// The events of one kind, oldest first.
    #[track_caller]
    pub(crate) fn events_of(&self, id: &str, kind: &str) -> Vec<Value> {
        let list = self.home.provost(&["events", id, "--json", "--limit", "10000"]).ok().json();
        let all = list["events"].as_array().unwrap().clone();
        all.into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// Kills the process of a launch and nothing else.
    #[track_caller]
    pub(crate) fn kill_codex(&self, id: &str, launch: usize) {
        let dir = self.home.path().join("launches").join(format!("{id}.l{launch}"));
        let held = eventually("the holder lives", || match look(&dir) {
            Ok(Looked::Alive { held }) => Ok(held),
            other => Err(format!("{other:?}")),
        });
        let pid = i32::try_from(held.child.pid).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// How many of the model's turns began with a message that has this in it.
    pub(crate) fn turns_asked(&self, part: &str) -> usize {
        let requests = self.model.requests();
        let asked = requests.iter().filter(|made| made.request.prompt().contains(part));
        asked.map(|made| made.request.turn().map(str::to_owned)).collect::<BTreeSet<_>>().len()
    }
}
