//! Workflows that cannot be served are refused before any work, with a clear message.

use super::serve_env::{AGENT_NAME, FRONT_MATTER, ServeEnv, WORKS};

#[track_caller]
fn assert_refused(front: &str, message: &str) {
    let served = ServeEnv::new(WORKS);
    served.write_issue("a", "todo");
    served.write_workflow(front);
    let output = served.serve_once_output();
    let error = &output.assert_code(2).json()["error"];
    assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    assert_eq!(served.runs().len(), 0);
}

#[test]
fn e10_unsupported_key_is_refused_with_alternative() {
    assert_refused(
        &format!("{FRONT_MATTER}workspace: {{root: /x}}\n"),
        "workspace.root cannot be set",
    );
    assert_refused(&format!("{FRONT_MATTER}hooks: {{before_run: make}}\n"), "worktree.setup");
    assert_refused(
        &format!("{FRONT_MATTER}codex: {{command: 'codex --oss app-server'}}\n"),
        "agents.codex.path",
    );
}

#[test]
fn unknown_tracker_is_refused() {
    assert_refused("tracker: {kind: linear}\n", "expected file or github");
}

#[test]
fn codex_settings_are_refused_for_other_agents() {
    let served = ServeEnv::new(WORKS);
    served.write_issue("a", "todo");
    served.write_workflow(&format!("{FRONT_MATTER}codex: {{thread_sandbox: read-only}}\n"));
    let output = served.serve_once_output();
    let events = output.assert_code(1).json_lines();
    let message =
        events.iter().find(|one| one["event"] == "not_opened").unwrap()["message"].clone();
    assert!(
        message.as_str().unwrap().contains("codex.thread_sandbox applies only to Codex"),
        "{AGENT_NAME}: {message}"
    );
    assert_eq!(served.runs().len(), 0);
}

#[test]
fn missing_workflow_is_refused_after_default_name() {
    let served = ServeEnv::new(WORKS);
    let nowhere = served.stage.file("nowhere.md");
    let output = served.stage.home.provost(&["serve", &nowhere]);
    assert!(output.assert_code(3).stderr.contains("missing_workflow_file"), "{output:?}");
    let output = served.stage.home.provost(&["serve", "--once"]);
    assert!(output.assert_code(3).stderr.contains("WORKFLOW.md"), "{output:?}");
    served.stage.home.provost_in(served.repo.path(), &["serve", "--once"]).ok();
}
