//! A repository in which the scripted agent works for a run.

use std::path::{Path, PathBuf};

use provost_testkit::harness::{Output, Repo};
use serde_json::{Value, json};

use crate::kit::{Stage, TALKER};

/// What makes a run of work, checks and landing.
const PLAIN: [&str; 6] = ["--agent", TALKER, "--no-triage", "--review-task", "off", "go"];

/// A repository in which an agent does what a line of shell does, and claims to be done.
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

    /// A repository in which an agent that speaks JSON lines does these steps.
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

    /// Demands that a run was refused before anything was made.
    #[track_caller]
    pub(crate) fn refused(&self, dir: &Path, land: &str, told: &str) {
        let all = [&["run", "--land", land], &PLAIN[..]].concat();
        let refused = self.stage.home.provost_in(dir, &all);
        assert!(refused.exits(2).stderr.contains(told), "{refused:#?}");
        let listed = self.stage.home.provost(&["ls", "--all", "--json"]).ok().json();
        assert_eq!((&listed["runs"], &listed["sessions"]), (&json!([]), &json!([])));
        assert_eq!(self.repo.worktrees(), Vec::<PathBuf>::new());
    }
}
