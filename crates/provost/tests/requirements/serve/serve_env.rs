//! A repository with a workflow, issues as files, and a `provost serve` for them.

use std::{fs, path::PathBuf};

use provost_testkit::harness::{OutputFollower, ProgramOutput, TestRepo, eventually};
use serde_json::Value;

use provost_testkit::env::{TALKER, TestEnv, text};

/// An agent that works, then waits for the file `go` in the test's directory.
pub(super) const WORKS_UNTIL_RELEASED: &str = "[[step]]\nwrite = { path = \"work.txt\", content = \"work\\n\" }\n[[step]]\nwait_file = \"ROOT/go\"\n[[step]]\nreport = \"completed\"\n";

/// An agent that works and reports completion.
pub(super) const WORKS: &str = "[[step]]\nwrite = { path = \"work.txt\", content = \"work\\n\" }\n[[step]]\nreport = \"completed\"\n";

/// An agent that reports failure.
pub(super) const FAILS: &str = "[[step]]\nreport = \"failed\"\n";

/// Front matter shared by the workflows here; polls every 100 ms.
pub(super) const FRONT_MATTER: &str =
    "tracker: {kind: file}\npolling: {interval_ms: 100}\nprovost: {agent: talker}\n";

pub(super) struct ServeEnv {
    pub(super) stage: TestEnv,
    pub(super) repo: TestRepo,
}

impl ServeEnv {
    /// A repository whose agent performs these steps for each issue.
    pub(super) fn new(steps: &str) -> ServeEnv {
        let stage = TestEnv::new();
        let repo = stage.home.repo("work");
        let steps = steps.replace("ROOT", &text(stage.home.root()));
        let ready = "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n";
        let more = "session.stop_grace = \"100ms\"\nsession.settle = \"0s\"\n[run]\ntriage = false\n[review]\ntask = \"off\"\n";
        stage.configure_talker(&format!("{ready}{steps}"), more);
        fs::create_dir(repo.path().join("issues")).unwrap();
        let served = ServeEnv { stage, repo };
        served.write_workflow(FRONT_MATTER);
        served
    }

    pub(super) fn workflow_path(&self) -> PathBuf {
        self.repo.path().join("WORKFLOW.md")
    }

    /// Writes the workflow atomically.
    pub(super) fn write_workflow(&self, front: &str) {
        self.write_workflow_text(&format!("---\n{front}---\nDo {{{{ issue.title }}}}.{{% if attempt %}} Try {{{{ attempt }}}}.{{% endif %}}\n"));
    }

    pub(super) fn write_workflow_text(&self, text: &str) {
        let new = self.repo.path().join("WORKFLOW.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.workflow_path()).unwrap();
        self.stage.trust(self.repo.path());
    }

    /// Writes an issue atomically.
    pub(super) fn write_issue(&self, id: &str, state: &str) {
        self.write_issue_with(id, &format!("title: the work of {id}\nstate: {state}\n"));
    }

    pub(super) fn write_issue_with(&self, id: &str, front: &str) {
        let new = self.repo.path().join("issue.new");
        fs::write(&new, format!("---\n{front}---\nAll about {id}.\n")).unwrap();
        fs::rename(new, self.repo.path().join(format!("issues/{id}.md"))).unwrap();
    }

    /// Releases agents that wait for the file `go`.
    pub(super) fn release_agents(&self) {
        fs::write(self.stage.file("go"), "").unwrap();
    }

    /// Polls once and returns the events it printed.
    #[track_caller]
    pub(super) fn serve_once(&self) -> Vec<Value> {
        self.serve_once_output().ok().json_lines()
    }

    #[track_caller]
    pub(super) fn serve_once_output(&self) -> ProgramOutput {
        let arguments = ["serve", "--once", "--json", "--workflow", &text(&self.workflow_path())];
        self.stage.home.provost(&arguments)
    }

    /// Serves until the process is killed.
    #[track_caller]
    pub(super) fn start_serving(&self) -> ServeProcess {
        let arguments = ["serve", "--json", "--workflow", &text(&self.workflow_path())];
        ServeProcess(self.stage.home.follow(&arguments))
    }

    /// The rows of all runs, oldest first.
    #[track_caller]
    pub(super) fn runs(&self) -> Vec<Value> {
        let listed = self.stage.home.provost(&["ls", "--runs", "--all", "--json"]).ok().json();
        let mut runs = listed["runs"].as_array().unwrap().clone();
        runs.sort_by_key(|run| run["opened_at"].as_i64());
        runs
    }

    /// The runs as identifier, attempt and state.
    #[track_caller]
    pub(super) fn run_states(&self) -> Vec<(String, u64, String)> {
        let of = |run: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let origin = &run["origin"];
            (text(&origin["identifier"]), origin["attempt"].as_u64().unwrap(), text(&run["state"]))
        };
        self.runs().iter().map(of).collect()
    }

    #[track_caller]
    pub(super) fn wait_sealed(&self, id: &str) -> Value {
        self.stage.wait_sealed(id)
    }

    /// Cancels all open runs.
    #[track_caller]
    pub(super) fn cancel_open_runs(&self) {
        for run in self.runs().iter().filter(|run| run["sealed"] == false) {
            let id = run["id"].as_str().unwrap();
            // A run that is already being cancelled refuses this, and ends anyway.
            self.stage.home.provost(&["cancel", id]);
            self.wait_sealed(id);
        }
    }

    /// Waits until a session of a run has a worktree that contains a file, and returns its directory.
    #[track_caller]
    pub(super) fn worktree_with(&self, run: &str, file: &str) -> PathBuf {
        eventually(&format!("{file} in a worktree of {run}"), || {
            let row = self.stage.status(run);
            let session = row["sessions"][0]["id"].as_str()?.to_owned();
            let row = self.stage.status(&session);
            let path = PathBuf::from(row["worktree"]["path"].as_str()?);
            path.join(file).exists().then_some(path)
        })
    }
}

/// A running `provost serve`; killed on drop.
pub(super) struct ServeProcess(pub(super) OutputFollower);

impl ServeProcess {
    /// Waits for an event of this kind.
    #[track_caller]
    pub(super) fn wait_event(&self, kind: &str) -> Value {
        self.0.wait_line(kind, |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["event"] == kind).then_some(event)
        })
    }

    /// Waits for an event of this kind about an issue.
    #[track_caller]
    pub(super) fn wait_issue_event(&self, kind: &str, issue: &str) -> Value {
        self.0.wait_line(&format!("{kind} of {issue}"), |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["event"] == kind && event["issue_identifier"] == issue).then_some(event)
        })
    }

    /// Collects events up to the first of this kind about an issue.
    #[track_caller]
    pub(super) fn events_until(&self, kind: &str, issue: &str) -> Vec<Value> {
        let mut events = Vec::new();
        self.0.wait_line(&format!("{kind} of {issue}"), |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let last = event["event"] == kind && event["issue_identifier"] == issue;
            events.push(event);
            last.then_some(())
        });
        events
    }
}

/// The run id of an event.
pub(super) fn run_id(event: &Value) -> &str {
    event["run"].as_str().unwrap()
}

/// The events of one kind.
pub(super) fn filter_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind).collect()
}

/// The agent's name, for workflows with further settings.
pub(super) const AGENT_NAME: &str = TALKER;
