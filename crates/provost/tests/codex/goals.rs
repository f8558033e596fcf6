//! Turns that Codex starts by itself, and launches that fail before it responds.

use serde_json::json;

use crate::codex_env::CodexEnv;

/// Sets a goal in its first turn. Codex starts the second turn by itself and does half of the work.
/// The third turn does the rest.
const GOAL: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ tool = "create_goal", args = { objective = "Write both files." } }] },
    { items = [{ message = "I set a goal." }] },
  ] },
  { response = [
    { items = [{ shell = "echo one > one.txt" }] },
    { items = [{ hold = "half" }, { message = "Half of it is there." }] },
  ] },
  { response = [
    { items = [{ shell = "echo two > two.txt" }] },
    { items = [{ tool = "update_goal", args = { status = "complete" } }] },
    { items = [{ message = "All of it is there." }] },
  ] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"both"}' }] }] },
]
"#;

#[test]
fn f4_2_goal_turns_count_before_claim() {
    let Some(stage) = CodexEnv::new(GOAL) else { return };
    let check = "test -e one.txt && test -e two.txt";
    let id = stage.spawn(&["--worktree", "--check", check, "Write two files."]);
    stage.model.wait_for_hold("half");
    let row = stage.wait_state(&id, |row| row["turns"] == 2);
    assert_eq!((&row["state"], &row["claim"]), (&json!("working"), &json!("none")), "{row:#}");
    stage.daemon().kill();
    stage.model.release("half");
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["turns"]), (&json!("succeeded"), &json!(4)), "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{row:#}");
    let goals = stage.events_of(&id, "goal.changed");
    let asked = stage.events_of(&id, "result.requested");
    assert_eq!((goals.len(), asked.len()), (2, 1), "{goals:#?} {asked:#?}");
    assert!(asked[0]["seq"].as_u64() > goals[1]["seq"].as_u64(), "{goals:#?} {asked:#?}");
    assert_eq!(stage.events_of(&id, "message.refused"), Vec::<serde_json::Value>::new());
    stage.model.assert_all_as_scripted();
}

const DONE_SCENARIO: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
  { items = [{ message = "Done." }] },
] }]
"#;

#[test]
fn f4_1_failed_launch_is_retried_once() {
    let Some(mut stage) = CodexEnv::new(DONE_SCENARIO) else { return };
    stage.replace_codex(
        r#"case "$*" in *app-server*) [ -e "$0.failed" ] || { : > "$0.failed"; exit 1; };; esac
exec "$REAL" "$@""#,
    );
    let id = stage.spawn(&["Do it."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    let requested = stage.events_of(&id, "launch.requested");
    let why: Vec<_> = requested.iter().map(|event| event["data"]["why"].clone()).collect();
    assert_eq!(why, ["first", "retry"], "{requested:#?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn f4_1_launch_failing_twice_is_not_retried() {
    let Some(mut stage) = CodexEnv::new("") else { return };
    stage.replace_codex(
        r#"case "$*" in *app-server*) exit 1;; esac
exec "$REAL" "$@""#,
    );
    let id = stage.spawn(&["Do it."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "failed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 2, "{row:#}");
}
