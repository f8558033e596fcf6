//! Runs `codex exec --json` to its end and captures its output.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_testkit::eventually;
use provost_testkit::model::{self, CODE_MODE_MODEL, CodexHome, MODEL, ModelServer, OLD_MODEL};
use serde_json::Value;

/// A version of Codex with a model, which together determine the tools.
#[derive(Debug, Clone)]
pub(crate) struct CodexVariant {
    pub(crate) codex: PathBuf,
    pub(crate) model: &'static str,
}

/// Returns every form in which Codex offers tools.
pub(crate) fn variants() -> Vec<CodexVariant> {
    let (Some(new), Some(old)) = (model::codex(), model::old_codex()) else { return Vec::new() };
    vec![
        CodexVariant { codex: new.clone(), model: MODEL },
        CodexVariant { codex: new, model: CODE_MODE_MODEL },
        CodexVariant { codex: old, model: OLD_MODEL },
    ]
}

/// A running `exec`.
pub(crate) struct RunningExec {
    pub(crate) child: Child,
    output: PathBuf,
}

/// An `exec` that has exited.
#[derive(Debug)]
pub(crate) struct ExecResult {
    pub(crate) code: Option<i32>,
    pub(crate) events: Vec<Value>,
    stderr: String,
}

/// Runs `codex exec --json` with these arguments to its end.
pub(crate) fn exec(home: &CodexHome, codex: &Path, args: &[&str]) -> ExecResult {
    start(home, codex, args).end()
}

/// Plays a scenario with a fresh home and returns the server and the result.
pub(crate) fn play(
    scenario: &str,
    variant: &CodexVariant,
    args: &[&str],
) -> (ModelServer, ExecResult) {
    let server = ModelServer::play(scenario);
    let home = CodexHome::with_model(&server, variant.model);
    let ended = exec(&home, &variant.codex, args);
    (server, ended)
}

pub(crate) fn start(home: &CodexHome, codex: &Path, args: &[&str]) -> RunningExec {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let output = home.path().join(format!("output-{number}"));
    let file = |name: &str| {
        File::create(output.with_extension(name)).expect("a file for the output can be made")
    };
    let mut command = home.command(codex, &["exec", "--json", "--sandbox", "workspace-write"]);
    command.args(args).stdout(Stdio::from(file("out"))).stderr(Stdio::from(file("err")));
    RunningExec { child: command.spawn().expect("Codex starts"), output }
}

impl RunningExec {
    #[track_caller]
    pub(crate) fn end(mut self) -> ExecResult {
        let status = eventually("the end of exec", || {
            self.child.try_wait().expect("Codex can be asked").ok_or_else(|| self.read("out"))
        });
        let events = self
            .read("out")
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        ExecResult { code: status.code(), events, stderr: self.read("err") }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.output.with_extension(name)).expect("the output can be read")
    }
}

impl ExecResult {
    /// Returns the completed items of this type.
    pub(crate) fn items(&self, kind: &str) -> Vec<&Value> {
        let items = self.events.iter().filter(|event| event["type"] == "item.completed");
        items.map(|event| &event["item"]).filter(|item| item["type"] == kind).collect()
    }

    pub(crate) fn messages(&self) -> Vec<&str> {
        self.items("agent_message").iter().filter_map(|item| item["text"].as_str()).collect()
    }

    pub(crate) fn usage(&self) -> &Value {
        self.events
            .iter()
            .find(|event| event["type"] == "turn.completed")
            .map_or(&Value::Null, |event| &event["usage"])
    }

    pub(crate) fn thread(&self) -> &str {
        self.events[0]["thread_id"].as_str().expect("the thread came first")
    }

    #[track_caller]
    pub(crate) fn ok(&self) -> &Self {
        assert!(self.code == Some(0) && !self.usage().is_null(), "{self:#?}");
        assert!(!self.stderr.contains("WARNING"), "{}", self.stderr);
        self
    }

    /// Returns why the turn failed.
    #[track_caller]
    pub(crate) fn failure(&self) -> &str {
        let failed = self.events.iter().find(|event| event["type"] == "turn.failed");
        let failed = failed.unwrap_or_else(|| panic!("the turn did not fail: {self:#?}"));
        assert_eq!(self.code, Some(1));
        failed["error"]["message"].as_str().expect("a failure has a message")
    }
}
