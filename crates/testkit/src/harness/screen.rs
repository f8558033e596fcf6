//! A fake Codex whose screen follows a scenario.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::home::TestHome;
use super::programs::scripted_agent_bin;
use crate::agent::VERSION;

impl TestHome {
    /// Replaces the home's Codex with a scripted one. With `--version` it prints the version whose
    /// files it writes. With any other arguments it plays the scenario.
    pub fn script_codex(&mut self, scenario: &str) {
        let scenario = self.scenario("scripted-codex", scenario);
        let (agent, scenario) = (scripted_agent_bin(), scenario.display().to_string());
        let program = self.root().join("scripted-codex");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo codex-cli {VERSION} && exit\nexec {:?} {scenario:?}\n",
            agent.display().to_string()
        );
        fs::write(&program, text).expect("the program can be written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .expect("the program can be made executable");
        self.set_env("PROVOST_CODEX", program);
    }
}
