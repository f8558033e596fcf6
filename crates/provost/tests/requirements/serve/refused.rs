//! Workflows that cannot be served are refused before any work, with a clear message.

use super::kit::{AGENT, FRONT, Served, WORKS};

#[track_caller]
fn refused(front: &str, message: &str) {
    let served = Served::new(WORKS);
    served.issue("a", "todo");
    served.workflow(front);
    let output = served.once_output();
    let error = &output.exits(2).json()["error"];
    assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    assert_eq!(served.runs().len(), 0);
}

#[test]
fn e10_a_key_that_cannot_be_followed_is_refused_with_the_way_that_there_is() {
    refused(&format!("{FRONT}workspace: {{root: /x}}\n"), "workspace.root cannot be set");
    refused(&format!("{FRONT}hooks: {{before_run: make}}\n"), "worktree.setup");
    refused(&format!("{FRONT}codex: {{command: 'codex --oss app-server'}}\n"), "agents.codex.path");
}

#[test]
fn a_tracker_that_is_not_known_is_refused() {
    refused("tracker: {kind: linear}\n", "expected file or github");
}

#[test]
fn what_is_for_codex_is_refused_for_another_agent() {
    let served = Served::new(WORKS);
    served.issue("a", "todo");
    served.workflow(&format!("{FRONT}codex: {{thread_sandbox: read-only}}\n"));
    let output = served.once_output();
    let events = output.exits(1).json_lines();
    let message =
        events.iter().find(|one| one["event"] == "not_opened").unwrap()["message"].clone();
    assert!(
        message.as_str().unwrap().contains("codex.thread_sandbox applies only to Codex"),
        "{AGENT}: {message}"
    );
    assert_eq!(served.runs().len(), 0);
}

#[test]
fn a_workflow_that_is_not_there_is_refused_and_the_usual_name_is_tried() {
    let served = Served::new(WORKS);
    let nowhere = served.stage.file("nowhere.md");
    let output = served.stage.home.provost(&["serve", &nowhere]);
    assert!(output.exits(3).stderr.contains("missing_workflow_file"), "{output:?}");
    let output = served.stage.home.provost(&["serve", "--once"]);
    assert!(output.exits(3).stderr.contains("WORKFLOW.md"), "{output:?}");
    served.stage.home.provost_in(served.repo.path(), &["serve", "--once"]).ok();
}
