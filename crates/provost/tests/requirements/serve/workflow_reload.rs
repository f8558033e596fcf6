//! The workflow is reloaded when it changes. An invalid version is not used.

use serde_json::json;

use super::serve_env::{FRONT_MATTER, ServeEnv, WORKS, WORKS_UNTIL_RELEASED, filter_kind};

#[test]
fn broken_workflow_keeps_last_good_and_starts_nothing() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    served.write_workflow("tracker: [\n");
    let broken = serving.wait_event("not_reloaded");
    assert_eq!(broken["class"], "workflow_parse_error");
    served.write_issue("b", "todo");
    // The last valid rules still apply, so the run of the finished issue is cancelled.
    served.write_issue("a", "done");
    let events = serving.events_until("ended", "a");
    assert_eq!(filter_kind(&events, "opened").len(), 0, "{events:?}");
    std::fs::remove_file(served.workflow_path()).unwrap();
    assert_eq!(serving.wait_event("not_reloaded")["class"], "missing_workflow_file");
    served.write_workflow(FRONT_MATTER);
    let events = serving.events_until("opened", "b");
    assert_eq!(filter_kind(&events, "reloaded").len(), 1, "{events:?}");
    served.cancel_open_runs();
}

#[test]
fn changed_workflow_is_reloaded() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_workflow(&format!("{FRONT_MATTER}agent: {{max_concurrent_agents: 1}}\n"));
    served.write_issue("a", "todo");
    served.write_issue("b", "todo");
    served.write_issue("c", "ready");
    let serving = served.start_serving();
    let events = serving.events_until("opened", "a");
    assert_eq!(filter_kind(&events, "serving")[0]["at_once"], 1);
    let front = FRONT_MATTER.replace("kind: file", "kind: file, active_states: [todo, ready]");
    served.write_workflow_text(&format!("---\n{front}---\nAnother text.\n"));
    let events = serving.events_until("opened", "c");
    assert_eq!(filter_kind(&events, "reloaded")[0]["at_once"], 10);
    let run = served.runs().into_iter().find(|run| run["name"] == "c").unwrap();
    let opened = &served.stage.events_of(run["id"].as_str().unwrap(), "run.opened")[0];
    assert_eq!(opened["data"]["spec"]["spec"], "Another text.");
    served.cancel_open_runs();
}

#[test]
fn unknown_workflow_key_only_warns() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_workflow(&format!("{FRONT_MATTER}server: {{port: 1}}\n"));
    let events = served.serve_once();
    let warnings = filter_kind(&events, "warning");
    assert_eq!(warnings[0]["message"], json!("unknown key server has no effect"));
}

#[test]
fn changes_and_ended_runs_wake_serve_early() {
    let served = ServeEnv::new(WORKS);
    let slow = FRONT_MATTER.replace("interval_ms: 100", "interval_ms: 3600000");
    served.write_workflow(&format!("{slow}agent: {{max_concurrent_agents: 1}}\n"));
    let serving = served.start_serving();
    serving.wait_event("serving");
    served.write_issue("a", "todo");
    serving.wait_issue_event("opened", "a");
    served.write_issue("b", "todo");
    serving.wait_issue_event("opened", "b");
    serving.wait_issue_event("ended", "b");
    served.write_workflow(&slow);
    serving.wait_event("reloaded");
}
