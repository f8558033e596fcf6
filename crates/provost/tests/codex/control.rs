//! Codex is interrupted, compacts its context, and triggers reactions.

use provost_testkit::model::{Kind, Served, codex_config};
use serde_json::{Value, json};

use crate::kit::{Stage, Which};

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
fn hosted() -> Option<(Stage, String)> {
    let stage = Stage::new(TALKS)?;
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, "Do the first."]);
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    Some((stage, id))
}

fn end(stage: &Stage, id: &str) {
    stage.home.provost(&["stop", id]).ok();
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "ended");
}

fn compactions(stage: &Stage) -> usize {
    let requests = stage.model.requests();
    requests.iter().filter(|made| made.served == Served::Apart(Kind::Compaction)).count()
}

#[test]
fn a_turn_of_codex_is_interrupted_and_goes_on_as_it_is_told() {
    let Some(stage) = Stage::new(WAITS) else { return };
    let id = stage.spawn(&["Work."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["interrupt", &id, "Otherwise, please."]).ok();
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("done")));
    let ends: Vec<Value> = stage.events_of(&id, "turn.ended");
    assert_eq!(ends[0]["data"]["end"], "interrupted", "{ends:#?}");
    assert_eq!(stage.turns_asked("Otherwise, please."), 1);
}

#[test]
fn d09_codex_compacts_between_turns_and_how_full_it_is_is_known() {
    let Some(stage) = Stage::new(WAITS) else { return };
    let id = stage.spawn(&["Work."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["compact", &id]).ok();
    stage.model.release("door");
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["turns"]), (&json!("completed"), &json!(2)), "{row:#}");
    assert_eq!(stage.events_of(&id, "context.compacted").len(), 1);
    assert_eq!(compactions(&stage), 1);
    let context = &stage.events_of(&id, "context.told")[0]["data"]["context"];
    assert!(context["window"].as_u64().unwrap() > context["used"].as_u64().unwrap(), "{context}");
}

#[test]
fn t04_escape_in_a_turn_is_interrupted_and_not_done() {
    let Some((stage, id)) = hosted() else { return };
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working" && row["turns"] == 2);
    stage.home.provost(&["interrupt", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!((&row["claim"], &row["sealed"]), (&json!("none"), &json!(false)), "{row:#}");
    let ends: Vec<Value> = stage.events_of(&id, "turn.ended");
    assert_eq!(ends.last().unwrap()["data"]["end"], "interrupted", "{ends:#?}");
    end(&stage, &id);
}

#[test]
fn d09_a_terminal_compacts_at_its_prompt_and_its_own_record_shows_it() {
    let Some((stage, id)) = hosted() else { return };
    let row = stage.home.wait_state(&id, |row| row["context"].is_object());
    assert!(row["context"]["window"].as_u64().unwrap() > 0, "{row:#}");
    stage.home.provost(&["compact", &id]).ok();
    let compacted = |row: &Value| {
        let messages = row["messages"].as_array().unwrap();
        messages.iter().any(|one| one["kind"] == "compact" && one["fate"] == "delivered")
    };
    stage.home.wait_state(&id, |row| compacted(row) && row["state"] == "idle");
    provost_testkit::harness::eventually("the compaction is recorded", || {
        (stage.events_of(&id, "context.compacted").len() == 1).then_some(())
    });
    assert_eq!((compactions(&stage), &stage.status(&id)["turns"]), (1, &json!(1)));
    end(&stage, &id);
}

#[test]
fn a09_a_reaction_bounds_how_often_a_limit_is_waited_for_and_tells_of_it() {
    let scenario = r#"
        [[thread]]
        turn = [{ repeat = "forever", response = [{ usage_limit = { resets_in_s = 1 } }] }]"#;
    let Some(stage) = Stage::new(scenario) else { return };
    stage.configure(
        "[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"0s\"\n\
         [reactions.later]\non = \"usage_limit\"\ndo = \"resume_later\"\ntotal = 2\n",
    );
    let id = stage.spawn(&["Work."]);
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("agent_error")));
    assert_eq!(stage.model.requests().len(), 3, "the first, and one after each wait");
    assert_eq!(stage.events_of(&id, "reaction.done").len(), 2);
}

#[test]
fn t05_a_model_that_cannot_be_reached_is_retried_then_stalled_and_never_done() {
    let Some(stage) = Stage::new("") else { return };
    stage.configure("[session]\nstale_after = \"3s\"\n");
    let nobody = "http://127.0.0.1:9/v1";
    let config = codex_config(Which::Pinned.model(), nobody)
        .replace("stream_max_retries = 0", "stream_max_retries = 100");
    std::fs::write(stage.codex_home().join("config.toml"), config).unwrap();
    let id = stage.spawn(&["Work."]);
    let row = stage.home.wait_state(&id, |row| row["retrying"].is_string());
    assert!(!row["terminal"].as_bool().unwrap(), "{row:#}");
    let row = stage.home.wait_state(&id, |row| row["state"] == "stalled");
    assert_eq!((&row["claim"], &row["sealed"]), (&json!("none"), &json!(false)), "{row:#}");
    let at = |kind: &str| stage.events_of(&id, kind)[0]["at"].as_i64().unwrap();
    let retried = at("stream.retrying") - at("turn.started");
    assert!(retried < 15_000, "retrying after {retried} ms");
    let stalled = at("stream.silent") - at("turn.started");
    assert!((3_000..5_000).contains(&stalled), "stalled after {stalled} ms");
    stage.home.provost(&["cancel", &id]).ok();
    assert_eq!(stage.sealed(&id)["state"], "cancelled");
}
