//! What runs are tried with: the conversations of their stages, and how a run is asked about.

use provost_testkit::harness::{Output, eventually};
use serde_json::Value;

use crate::kit::Stage;

/// A conversation that says nothing but its result.
fn thread(responses: &str, result: &str) -> String {
    let told = format!("{{ message = '{result}' }}");
    format!(
        "[[thread]]\nturn = [\n  {{ response = [\n{responses}\n  ] }},\n  {{ response = [{{ items = [{told}], usage = {{ input = 100, output = 10 }} }}] }},\n]\n"
    )
}

/// A question with an id, as triage asks it.
pub(crate) const ASKS: &str = r#"
    { items = [{ ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] }] },
    { items = [{ message = "I see." }] },"#;

/// A conversation that only looks.
pub(crate) const SAYS: &str = r#"    { items = [{ message = "I have looked." }] },"#;

/// Triage with what it does before it tells what it understood.
pub(crate) fn triage(responses: &str) -> String {
    thread(
        responses,
        r#"{"status":"completed","summary":"read","understanding":"a greeting is to be written","needs_plan":false}"#,
    )
}

/// Work that runs a command and claims to be done.
pub(crate) fn work(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}], usage = {{ input = 100, output = 10 }} }},\n    {{ items = [{{ message = \"Done.\" }}] }},"
    );
    thread(&responses, r#"{"status":"completed","summary":"wrote it"}"#)
}

/// Work that runs a command and then waits at a door, and claims to be done when it is gone on with.
pub(crate) fn held_work(command: &str) -> String {
    let begins = format!(
        "  {{ response = [\n    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ hold = \"door\" }}, {{ message = \"Done.\" }}] }},\n  ] }},\n"
    );
    let resumed = r#"
  { response = [{ items = [{ message = "It was done before." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"it was done"}' }] }] },"#;
    format!("[[thread]]\nturn = [\n{begins}{resumed}\n]\n")
}

/// Work that runs a command, waits at a door and claims to be done.
pub(crate) fn waiting_work(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ hold = \"door\" }}, {{ message = \"Done.\" }}] }},"
    );
    thread(&responses, r#"{"status":"completed","summary":"wrote it"}"#)
}

/// A conversation in which this is said and done after what is in another.
pub(crate) fn then(first: &str, command: &str) -> String {
    let more = format!(
        "  {{ response = [{{ items = [{{ shell = {command:?} }}] }}, {{ items = [{{ message = \"Mended.\" }}] }}] }},\n"
    );
    let told = r#"  { response = [{ items = [{ message = '{"status":"completed","summary":"mended"}' }] }] },"#;
    format!("{}{more}{told}\n]\n", first.trim_end().trim_end_matches(']'))
}

/// A conversation that waits at a door and does nothing.
pub(crate) const HELD: &str = "[[thread]]\nturn = [{ response = [{ items = [{ hold = \"door\" }, { message = \"Done.\" }] }] }]\n";

/// A review that tells these findings.
pub(crate) fn review(findings: &str) -> String {
    review_after(SAYS, findings)
}

/// A review that says or does something before it tells these findings.
pub(crate) fn review_after(responses: &str, findings: &str) -> String {
    let result =
        format!(r#"{{"status":"completed","summary":"reviewed","findings":[{findings}]}}"#);
    thread(responses, &result)
}

/// A review that mends by a command what it tells.
pub(crate) fn repair(command: &str) -> String {
    let responses = format!(
        "    {{ items = [{{ shell = {command:?} }}] }},\n    {{ items = [{{ message = \"Mended.\" }}] }},"
    );
    let finding = FINDING.replace(r#""repaired":false"#, r#""repaired":true"#);
    let result = format!(r#"{{"status":"completed","summary":"mended","findings":[{finding}]}}"#);
    thread(&responses, &result)
}

pub(crate) const FINDING: &str = r#"{"title":"No newline","detail":"the file ends without one","severity":"low","file":"greeting.txt","line":1,"repaired":false}"#;

impl Stage {
    /// Opens a run that goes on by itself, and gives its id.
    #[track_caller]
    pub(crate) fn run_detached(&self, arguments: &[&str]) -> String {
        let opened = self.run(&[&["--detach", "--json"], arguments].concat());
        opened.ok().json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let all = [&["run"], arguments].concat();
        self.home.provost_in(self.repo.path(), &all)
    }

    #[track_caller]
    pub(crate) fn run_row(&self, id: &str) -> Value {
        self.home.provost(&["status", id, "--json"]).ok().json()
    }

    #[track_caller]
    pub(crate) fn wait_run(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually("the run is as wanted", || {
            let row = self.run_row(id);
            if holds(&row) { Ok(row) } else { Err(format!("{row:#}")) }
        })
    }

    #[track_caller]
    pub(crate) fn run_sealed(&self, id: &str) -> Value {
        self.wait_run(id, |row| row["sealed"] == true)
    }

    /// Waits for the report card, which is written after the outcome is sealed.
    #[track_caller]
    pub(crate) fn card(&self, id: &str) -> String {
        eventually("the report card", || {
            let card = self.home.provost(&["report-card", id]);
            if card.code() == Some(0) { Ok(card.stdout) } else { Err(card) }
        })
    }

    /// Gives the run's own events, in their order.
    #[track_caller]
    pub(crate) fn run_events(&self, id: &str) -> Vec<Value> {
        let listed = self.home.provost(&["events", id, "--limit", "10000", "--json"]).ok().json();
        let events = listed["events"].as_array().unwrap().clone();
        events.into_iter().filter(|event| event["stream"] == "run").collect()
    }

    /// Gives the kinds of the run's own events, in their order.
    #[track_caller]
    pub(crate) fn run_kinds(&self, id: &str) -> Vec<String> {
        let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned();
        self.run_events(id).iter().map(kind).collect()
    }
}
