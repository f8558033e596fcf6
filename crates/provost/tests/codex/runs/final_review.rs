//! Final reviews that fix problems: their changes are checked again before the outcome is announced.

use std::fs;

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::run_threads::{fixing_review, work_thread};
use crate::codex_env::CodexEnv;

const FINAL_REVIEW_ARGS: [&str; 10] = [
    "Write a greeting.",
    "--no-triage",
    "--review-task",
    "off",
    "--review-final",
    "repair",
    "--cycles",
    "1",
    "--land",
    "merge",
];

/// Plays a run whose review changes the work. Returns the sealed run, its events and the sorted
/// lines that its hooks wrote.
fn play_run(stage: &CodexEnv) -> (Value, Vec<Value>, Vec<String>) {
    let log = stage.root().join("hooks.log");
    let names = ["findings", "succeeded", "completed", "failed", "cancelled"];
    let hook = |name: &str| format!("\"run.{name}\" = \"echo {name} >> {}\"\n", log.display());
    stage.configure(&format!("session.rework = 0\n[hooks]\n{}", names.map(hook).concat()));
    let check = format!(
        "grep -q hello greeting.txt && echo passed >> {}",
        stage.root().join("checks.log").display()
    );
    let id = stage.run_detached(&[&FINAL_REVIEW_ARGS[..], &["--check", &check]].concat());
    let row = stage.wait_run_sealed(&id);
    let events = eventually("the last hook has ended", || {
        let events = stage.run_events(&id);
        let last = format!("run.{}", row["state"].as_str().unwrap());
        let ended = events.iter().any(|event| {
            event["kind"] == "run.hook_finished" && event["data"]["key"]["event"] == last
        });
        ended.then_some(events)
    });
    let mut hooks: Vec<String> =
        fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    hooks.sort_unstable();
    (row, events, hooks)
}

fn event_index(events: &[Value], holds: impl Fn(&Value) -> bool) -> usize {
    let found: Vec<usize> = (0..events.len()).filter(|at| holds(&events[*at])).collect();
    assert_eq!(found.len(), 1, "{events:#?}");
    found[0]
}

#[test]
fn e03_r17_success_is_announced_after_checked_fix() {
    let scenario =
        [work_thread("echo hello > greeting.txt"), fixing_review("echo world >> greeting.txt")]
            .concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let (row, events, hooks) = play_run(&stage);
    assert_eq!((&row["state"], &row["verified"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    assert_eq!(hooks, ["findings", "succeeded"], "each once");
    assert_eq!(fs::read_to_string(stage.root().join("checks.log")).unwrap(), "passed\npassed\n");
    assert_eq!(stage.repo.read("greeting.txt"), "hello\nworld\n", "the fixed work has landed");
    assert_eq!(row["checks"][0]["tree"], json!(stage.repo.tree("HEAD")), "{row:#}");
    let found = &row["findings"][0];
    assert_eq!((&found["title"], &found["open"]), (&json!("No newline"), &json!(false)), "{row:#}");

    let review = row["sessions"][1]["id"].clone();
    let reviewed = event_index(&events, |event| {
        event["kind"] == "run.session_ended" && event["data"]["session"] == review
    });
    let landed = event_index(&events, |event| event["kind"] == "run.landed");
    let sealed = event_index(&events, |event| event["kind"] == "run.sealed");
    let announced = event_index(&events, |event| {
        event["kind"] == "run.hook_finished" && event["data"]["key"]["event"] == "run.succeeded"
    });
    assert!(reviewed < landed && landed < sealed && sealed < announced, "{events:#?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn e18_fix_that_breaks_the_check_fails_the_run() {
    let scenario =
        [work_thread("echo hello > greeting.txt"), fixing_review("echo goodbye > greeting.txt")]
            .concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let head = stage.repo.head();
    let (row, events, hooks) = play_run(&stage);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("review")), "{row:#}");
    assert_eq!(hooks, ["failed", "findings"], "each once, and no success before");
    assert!(!events.iter().any(|event| event["kind"] == "run.landed"), "{events:#?}");
    assert_eq!((stage.repo.head(), stage.repo.is_clean()), (head, true));
    // Both the verified work and the review's change are kept.
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{commit}:greeting.txt")]), "hello");
    let review = stage.status(row["sessions"][1]["id"].as_str().unwrap());
    let made = review["worktree"]["branch"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{made}:greeting.txt")]), "goodbye");
}
