//! A repository where the scripted agent works for a run.

use std::path::{Path, PathBuf};

use provost_testkit::harness::{ProgramOutput, TestRepo};
use serde_json::{Value, json};

use provost_testkit::env::{TALKER, TestEnv};

/// Arguments for a run with only work, checks and landing.
const PLAIN_RUN: [&str; 6] = ["--agent", TALKER, "--no-triage", "--review-task", "off", "go"];

/// A repository whose agent runs one shell line and claims completion.
pub(crate) struct RunEnv {
    pub(crate) stage: TestEnv,
    pub(crate) repo: TestRepo,
}

impl RunEnv {
    pub(crate) fn new(line: &str) -> RunEnv {
        let stage = TestEnv::new();
        let repo = stage.home.repo("work");
        RunEnv::with_script(stage, repo, line)
    }

    pub(crate) fn with_script(stage: TestEnv, repo: TestRepo, line: &str) -> RunEnv {
        let steps = format!(
            "[[step]]\nrun = [\"sh\", \"-ec\", {line:?}]\n[[step]]\nreport = \"completed\"\n"
        );
        RunEnv::with_steps(stage, repo, &steps)
    }

    /// A repository whose agent speaks JSON lines and performs these steps.
    pub(crate) fn with_steps(stage: TestEnv, repo: TestRepo, steps: &str) -> RunEnv {
        let ready = "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n";
        stage.configure_talker(&format!("{ready}{steps}"), "");
        RunEnv { stage, repo }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let all = [&["run", "--detach", "--json"], arguments, &PLAIN_RUN].concat();
        self.stage.home.provost_in(self.repo.path(), &all)
    }

    #[track_caller]
    pub(crate) fn open_run(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_sealed(&self, id: &str) -> Value {
        self.stage.wait_sealed(id)
    }

    /// Asserts that a run is refused before anything is created.
    #[track_caller]
    pub(crate) fn assert_refused(&self, dir: &Path, land: &str, message: &str) {
        let all = [&["run", "--land", land], &PLAIN_RUN[..]].concat();
        let refused = self.stage.home.provost_in(dir, &all);
        assert!(refused.assert_code(2).stderr.contains(message), "{refused:#?}");
        let listed = self.stage.home.provost(&["ls", "--all", "--json"]).ok().json();
        assert_eq!((&listed["runs"], &listed["sessions"]), (&json!([]), &json!([])));
        assert_eq!(self.repo.worktrees(), Vec::<PathBuf>::new());
    }
}
