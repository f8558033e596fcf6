//! Codex is interrupted, compacts its context, and triggers reactions.

use provost_testkit::model::{RequestPurpose, ServedAnswer, codex_config};
use serde_json::{Value, json};

use crate::codex_env::{CodexEnv, TestedCodex};

/// Blocks on hold `door` in its first turn, and reports in its second.
const WAITS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ hold = "door" }, { message = "I say no more." }] }] },
  { response = [
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
    { items = [{ message = "Done." }] },
  ] },
]
"#;

/// Responds once, then blocks on hold `door` in its second turn.
const TALKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [{ items = [{ hold = "door" }, { message = "Second is done." }] }] },
]
"#;

/// Starts a session on Codex's own screen and waits for its first turn to end.
fn hosted_session() -> Option<(CodexEnv, String)> {
    let stage = CodexEnv::new(TALKS)?;
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, "Do the first."]);
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    Some((stage, id))
}

fn stop_session(stage: &CodexEnv, id: &str) {
    stage.home.provost(&["stop", id]).ok();
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "ended");
}

fn count_compactions(stage: &CodexEnv) -> usize {
    let requests = stage.model.requests();
    requests
        .iter()
        .filter(|made| made.served == ServedAnswer::Hidden(RequestPurpose::Compaction))
        .count()
}

#[test]
fn interrupted_turn_continues_with_new_text() {
    let Some(stage) = CodexEnv::new(WAITS) else { return };
    let id = stage.spawn(&["Work."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["interrupt", &id, "Otherwise, please."]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("done")));
    let ends: Vec<Value> = stage.events_of(&id, "turn.ended");
    assert_eq!(ends[0]["data"]["end"], "interrupted", "{ends:#?}");
    assert_eq!(stage.count_turns_with("Otherwise, please."), 1);
}

#[test]
fn d09_compacts_between_turns_and_reports_context() {
    let Some(stage) = CodexEnv::new(WAITS) else { return };
    let id = stage.spawn(&["Work."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["compact", &id]).ok();
    stage.model.release("door");
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["turns"]), (&json!("completed"), &json!(2)), "{row:#}");
    assert_eq!(stage.events_of(&id, "context.compacted").len(), 1);
    assert_eq!(count_compactions(&stage), 1);
    let context = &stage.events_of(&id, "context.reported")[0]["data"]["context"];
    assert!(context["window"].as_u64().unwrap() > context["used"].as_u64().unwrap(), "{context}");
}

#[test]
fn t04_interrupt_command_ends_turn_without_claim() {
    let Some((stage, id)) = hosted_session() else { return };
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working" && row["turns"] == 2);
    stage.home.provost(&["interrupt", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!((&row["claim"], &row["sealed"]), (&json!("none"), &json!(false)), "{row:#}");
    let ends: Vec<Value> = stage.events_of(&id, "turn.ended");
    assert_eq!(ends.last().unwrap()["data"]["end"], "interrupted", "{ends:#?}");
    stop_session(&stage, &id);
}

#[test]
fn d09_terminal_compacts_and_rollout_confirms() {
    let Some((stage, id)) = hosted_session() else { return };
    let row = stage.home.wait_state(&id, |row| row["context"].is_object());
    assert!(row["context"]["window"].as_u64().unwrap() > 0, "{row:#}");
    stage.home.provost(&["compact", &id]).ok();
    let compacted = |row: &Value| {
        let messages = row["messages"].as_array().unwrap();
        messages.iter().any(|one| one["kind"] == "compact" && one["status"] == "delivered")
    };
    stage.home.wait_state(&id, |row| compacted(row) && row["state"] == "idle");
    provost_testkit::harness::eventually("the compaction is recorded", || {
        (stage.events_of(&id, "context.compacted").len() == 1).then_some(())
    });
    assert_eq!((count_compactions(&stage), &stage.status(&id)["turns"]), (1, &json!(1)));
    stop_session(&stage, &id);
}

#[test]
fn a09_reaction_bounds_waits_for_usage_limit() {
    let scenario = r#"
        [[thread]]
        turn = [{ repeat = "forever", response = [{ usage_limit = { resets_in_s = 1 } }] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    stage.configure(
        "[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"0s\"\n\
         [reactions.later]\non = \"usage_limit\"\ndo = \"resume_later\"\ntotal = 2\n",
    );
    let id = stage.spawn(&["Work."]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("agent_error")));
    assert_eq!(stage.model.requests().len(), 3, "the first, and one after each wait");
    assert_eq!(stage.events_of(&id, "reaction.done").len(), 2);
}

#[test]
fn t05_unreachable_model_retries_then_stalls() {
    let Some(stage) = CodexEnv::new("") else { return };
    stage.configure("[session]\nstale_after = \"3s\"\n");
    let unreachable = "http://127.0.0.1:9/v1";
    let config = codex_config(TestedCodex::Pinned.model(), unreachable)
        .replace("stream_max_retries = 0", "stream_max_retries = 100");
    std::fs::write(stage.codex_home().join("config.toml"), config).unwrap();
    let id = stage.spawn(&["Work."]);
    let row = stage.home.wait_state(&id, |row| row["retrying"].is_string());
    assert!(!row["terminal"].as_bool().unwrap(), "{row:#}");
    let row = stage.home.wait_state(&id, |row| row["state"] == "stalled");
    assert_eq!((&row["claim"], &row["sealed"]), (&json!("none"), &json!(false)), "{row:#}");
    let at = |kind: &str| stage.events_of(&id, kind)[0]["at"].as_i64().unwrap();
    // Retries do not count as output, so they do not delay the stall. It is never early.
    let stalled = at("stream.silent") - at("turn.started");
    assert!(stalled >= 3_000, "stalled after {stalled} ms");
    stage.home.provost(&["cancel", &id]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "cancelled");
}
