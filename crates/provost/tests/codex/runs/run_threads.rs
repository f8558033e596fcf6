//! Fixtures for runs: the conversations of their stages, and queries on runs.

use provost_testkit::harness::{ProgramOutput, eventually};
use serde_json::Value;

use crate::codex_env::CodexEnv;

/// A thread with these responses in its first turn and its result in the second.
fn thread_with_result(responses: &str, result: &str) -> String {
    let message = format!("{{ message = '{result}' }}");
    format!(
        "[[thread]]\nturn = [\n  {{ response = [\n{responses}\n  ] }},\n  {{ response = [{{ items = [{message}], usage = {{ input = 100, output = 10 }} }}] }},\n]\n"
    )
}

/// A question with an id, as triage asks it.
pub(crate) const COLOUR_QUESTION: &str = r#"
    { items = [{ ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] }] },
    { items = [{ message = "I see." }] },"#;

/// Responses of a turn that changes nothing.
pub(crate) const NO_CHANGE: &str = r#"    { items = [{ message = "I have looked." }] },"#;

/// A triage thread with these responses before its result.
pub(crate) fn triage_thread(responses: &str) -> String {
    thread_with_result(
        responses,
        r#"{"status":"completed","summary":"read","understanding":"a greeting is to be written","needs_plan":false}"#,
    )
}

/// Work that runs a command and claims completion.
pub(crate) fn work_thread(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}], usage = {{ input = 100, output = 10 }} }},\n    {{ items = [{{ message = \"Done.\" }}] }},"
    );
    thread_with_result(&responses, r#"{"status":"completed","summary":"wrote it"}"#)
}

/// Work that runs a command and blocks on hold `door`. Once resumed, it claims completion.
pub(crate) fn work_until_resumed(command: &str) -> String {
    let begins = format!(
        "  {{ response = [\n    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ hold = \"door\" }}, {{ message = \"Done.\" }}] }},\n  ] }},\n"
    );
    let resumed = r#"
  { response = [{ items = [{ message = "It was done before." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"it was done"}' }] }] },"#;
    format!("[[thread]]\nturn = [\n{begins}{resumed}\n]\n")
}

/// Work that runs a command, blocks on hold `door` and claims completion.
pub(crate) fn work_after_hold(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ hold = \"door\" }}, {{ message = \"Done.\" }}] }},"
    );
    thread_with_result(&responses, r#"{"status":"completed","summary":"wrote it"}"#)
}

/// Appends to a thread a turn that runs a command, and its result.
pub(crate) fn with_rework_turn(first: &str, command: &str) -> String {
    let more = format!(
        "  {{ response = [{{ items = [{{ shell = {command:?} }}] }}, {{ items = [{{ message = \"Fixed.\" }}] }}] }},\n"
    );
    let result = r#"  { response = [{ items = [{ message = '{"status":"completed","summary":"fixed"}' }] }] },"#;
    format!("{}{more}{result}\n]\n", first.trim_end().trim_end_matches(']'))
}

/// A thread that blocks on hold `door`.
pub(crate) const HELD_THREAD: &str = "[[thread]]\nturn = [{ response = [{ items = [{ hold = \"door\" }, { message = \"Done.\" }] }] }]\n";

/// A review with these findings.
pub(crate) fn review_thread(findings: &str) -> String {
    review_thread_after(NO_CHANGE, findings)
}

/// A review with these responses before its findings.
pub(crate) fn review_thread_after(responses: &str, findings: &str) -> String {
    let result =
        format!(r#"{{"status":"completed","summary":"reviewed","findings":[{findings}]}}"#);
    thread_with_result(responses, &result)
}

/// A review that runs a command to fix its finding.
pub(crate) fn fixing_review(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ message = \"Fixed.\" }}] }},"
    );
    let finding = FINDING.replace(r#""repaired":false"#, r#""repaired":true"#);
    let result = format!(r#"{{"status":"completed","summary":"fixed","findings":[{finding}]}}"#);
    thread_with_result(&responses, &result)
}

pub(crate) const FINDING: &str = r#"{"title":"No newline","detail":"the file ends without one","severity":"low","file":"greeting.txt","line":1,"repaired":false}"#;

impl CodexEnv {
    /// Opens a detached run and returns its id.
    #[track_caller]
    pub(crate) fn run_detached(&self, arguments: &[&str]) -> String {
        let opened = self.run(&[&["--detach", "--json"], arguments].concat());
        opened.ok().json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let all = [&["run"], arguments].concat();
        self.home.provost_in(self.repo.path(), &all)
    }

    #[track_caller]
    pub(crate) fn run_row(&self, id: &str) -> Value {
        self.home.provost(&["status", id, "--json"]).ok().json()
    }

    #[track_caller]
    pub(crate) fn wait_run(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually("the run has the expected state", || {
            let row = self.run_row(id);
            if holds(&row) { Ok(row) } else { Err(format!("{row:#}")) }
        })
    }

    #[track_caller]
    pub(crate) fn wait_run_sealed(&self, id: &str) -> Value {
        self.wait_run(id, |row| row["sealed"] == true)
    }

    /// Waits for the summary, which is written after the outcome is sealed.
    #[track_caller]
    pub(crate) fn wait_summary(&self, id: &str) -> String {
        eventually("the summary", || {
            let summary = self.home.provost(&["summary", id]);
            if summary.code() == Some(0) { Ok(summary.stdout) } else { Err(summary) }
        })
    }

    /// Returns the run's own events, in order.
    #[track_caller]
    pub(crate) fn run_events(&self, id: &str) -> Vec<Value> {
        let listed = self.home.provost(&["events", id, "--limit", "10000", "--json"]).ok().json();
        let events = listed["events"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["stream"] == "run").collect()
    }

    /// Returns the kinds of the run's own events, in order.
    #[track_caller]
    pub(crate) fn run_kinds(&self, id: &str) -> Vec<String> {
        let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned();
        self.run_events(id).iter().map(kind).collect()
    }
}
