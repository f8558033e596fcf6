//! A repository where the scripted agent works for a run.

use std::path::{Path, PathBuf};

use provost_testkit::harness::{Output, Repo};
use serde_json::{Value, json};

use crate::kit::{Stage, TALKER};

/// Arguments for a run with only work, checks and landing.
const PLAIN: [&str; 6] = ["--agent", TALKER, "--no-triage", "--review-task", "off", "go"];

/// A repository whose agent runs one shell line and claims completion.
pub(crate) struct Site {
    pub(crate) stage: Stage,
    pub(crate) repo: Repo,
}

impl Site {
    pub(crate) fn new(line: &str) -> Site {
        let stage = Stage::new();
        let repo = stage.home.repo("work");
        Site::with(stage, repo, line)
    }

    pub(crate) fn with(stage: Stage, repo: Repo, line: &str) -> Site {
        let steps = format!(
            "[[step]]\nrun = [\"sh\", \"-ec\", {line:?}]\n[[step]]\nreport = \"completed\"\n"
        );
        Site::playing(stage, repo, &steps)
    }

    /// A repository whose agent speaks JSON lines and performs these steps.
    pub(crate) fn playing(stage: Stage, repo: Repo, steps: &str) -> Site {
        let ready = "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n";
        stage.configure_talker(&format!("{ready}{steps}"), "");
        Site { stage, repo }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let all = [&["run", "--detach", "--json"], arguments, &PLAIN].concat();
        self.stage.home.provost_in(self.repo.path(), &all)
    }

    #[track_caller]
    pub(crate) fn opened(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok().json()["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn ended(&self, id: &str) -> Value {
        self.stage.sealed(id)
    }

    /// Asserts that a run is refused before anything is created.
    #[track_caller]
    pub(crate) fn refused(&self, dir: &Path, land: &str, message: &str) {
        let all = [&["run", "--land", land], &PLAIN[..]].concat();
        let refused = self.stage.home.provost_in(dir, &all);
        assert!(refused.exits(2).stderr.contains(message), "{refused:#?}");
        let listed = self.stage.home.provost(&["ls", "--all", "--json"]).ok().json();
        assert_eq!((&listed["runs"], &listed["sessions"]), (&json!([]), &json!([])));
        assert_eq!(self.repo.worktrees(), Vec::<PathBuf>::new());
    }
}
