//! The workflow is reloaded when it changes, and a broken one does no harm.

use serde_json::json;

use super::kit::{FRONT, Served, UNTIL_GO, WORKS, of_kind};

#[test]
fn a_broken_workflow_keeps_the_last_good_one_and_begins_nothing_until_it_is_mended() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    served.workflow("tracker: [\n");
    let broken = serving.event("not_reloaded");
    assert_eq!(broken["class"], "workflow_parse_error");
    served.issue("b", "todo");
    // By the rules still in force, the finished issue loses its run.
    served.issue("a", "done");
    let events = serving.until("ended", "a");
    assert_eq!(of_kind(&events, "opened").len(), 0, "{events:?}");
    std::fs::remove_file(served.path()).unwrap();
    assert_eq!(serving.event("not_reloaded")["class"], "missing_workflow_file");
    served.workflow(FRONT);
    let events = serving.until("opened", "b");
    assert_eq!(of_kind(&events, "reloaded").len(), 1, "{events:?}");
    served.finish();
}

#[test]
fn a_changed_workflow_is_followed_from_then_on() {
    let served = Served::new(UNTIL_GO);
    served.workflow(&format!("{FRONT}agent: {{max_concurrent_agents: 1}}\n"));
    served.issue("a", "todo");
    served.issue("b", "todo");
    served.issue("c", "ready");
    let serving = served.serve();
    let events = serving.until("opened", "a");
    assert_eq!(of_kind(&events, "serving")[0]["at_once"], 1);
    let front = FRONT.replace("kind: file", "kind: file, active_states: [todo, ready]");
    served.workflow_text(&format!("---\n{front}---\nAnother text.\n"));
    let events = serving.until("opened", "c");
    assert_eq!(of_kind(&events, "reloaded")[0]["at_once"], 10);
    let run = served.runs().into_iter().find(|run| run["name"] == "c").unwrap();
    let opened = &served.stage.events_of(run["id"].as_str().unwrap(), "run.opened")[0];
    assert_eq!(opened["data"]["spec"]["spec"], "Another text.");
    served.finish();
}

#[test]
fn a_key_that_is_not_known_is_told_and_does_no_harm() {
    let served = Served::new(UNTIL_GO);
    served.workflow(&format!("{FRONT}server: {{port: 1}}\n"));
    let events = served.once();
    let warnings = of_kind(&events, "warning");
    assert_eq!(warnings[0]["message"], json!("unknown key server has no effect"));
}

#[test]
fn changes_and_ended_runs_are_seen_before_the_time() {
    let served = Served::new(WORKS);
    let slow = FRONT.replace("interval_ms: 100", "interval_ms: 3600000");
    served.workflow(&format!("{slow}agent: {{max_concurrent_agents: 1}}\n"));
    let serving = served.serve();
    serving.event("serving");
    served.issue("a", "todo");
    serving.event_of("opened", "a");
    served.issue("b", "todo");
    serving.event_of("opened", "b");
    serving.event_of("ended", "b");
    served.workflow(&slow);
    serving.event("reloaded");
}
