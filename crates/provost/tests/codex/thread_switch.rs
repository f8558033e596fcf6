//! Provost follows a user who starts another conversation at Codex's screen. It does not follow a
//! sub-agent's conversation.

use std::path::PathBuf;

use provost_agent_codex::rollout::{CodexHomes, read_meta};
use provost_testkit::model::CODE_MODE_MODEL;
use serde_json::{Value, json};

use crate::{
    codex_env::CodexEnv,
    hosted_terminal::{ExternalCodex, hosted_session},
    tmux_screen::TmuxScreen,
};

/// Three conversations; the second and third block on holds.
const CONVERSATIONS: &str = r#"
[[thread]]
turn = [{ response = [{ items = [{ message = "First is done." }] }] }]

[[thread]]
turn = [
  { response = [{ items = [{ hold = "second" }, { message = "Second is done." }] }] },
  { response = [{ items = [{ message = "It continues there." }] }] },
]

[[thread]]
turn = [{ response = [{ items = [{ hold = "third" }, { message = "Third is done." }] }] }]
"#;

/// A sub-agent blocks on hold `child` while the agent waits for it.
const DELEGATES: &str = r#"
[[thread]]
name = "child"
when = { agent = "helper" }
turn = [{ response = [{ items = [{ hold = "child" }, { message = "child result 42" }] }] }]

[[thread]]
turn = [
  { response = [
    { items = [{ spawn = "work", name = "helper" }] },
    { items = [{ wait_agents = true, timeout_ms = 60000 }] },
    { items = [{ message = "All is done." }] },
  ] },
]
"#;

/// Asks for an approval, then finishes.
const ASKS: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo hi > hi.txt", escalate = true, justification = "May I write?" }] },
    { items = [{ message = "It is there." }] },
  ] },
]
"#;

/// Types a line at the prompt and waits until it is visible before pressing Enter.
fn type_line(screen: &TmuxScreen<'_>, line: &str) {
    screen.wait_for_text("? for shortcuts");
    screen.tmux(&["send-keys", "-l", line]);
    screen.wait_for_text(&format!("› {line}"));
    screen.tmux(&["send-keys", "Enter"]);
}

/// Starts another conversation, in the same directory if Codex asks.
fn start_conversation(screen: &TmuxScreen<'_>, command: &str) {
    type_line(screen, command);
    if command == "/new" {
        screen.wait_for_text("Where should the new conversation run?");
        screen.tmux(&["send-keys", "Enter"]);
    }
    screen.wait_for_text("› Ask Codex to do anything");
}

fn thread_moves(stage: &CodexEnv, id: &str) -> Vec<(Value, Value)> {
    let moved = stage.events_of(id, "thread.switched");
    moved.iter().map(|e| (e["data"]["from"].clone(), e["data"]["to"].clone())).collect()
}

/// Waits until a session has moved to another conversation and returns its thread.
fn wait_moved(stage: &CodexEnv, id: &str, before: &Value) -> Value {
    let row = stage.wait_state(id, |row| row["thread"] != *before && row["state"] == "working");
    row["thread"].clone()
}

#[test]
fn new_thread_on_hosted_screen_is_followed() {
    let Some((stage, id)) = hosted_session(CONVERSATIONS, "Do the first.") else { return };
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let first = row["thread"].clone();
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    start_conversation(&screen, "/clear");
    type_line(&screen, "Now the second.");
    stage.model.wait_for_hold("second");
    let second = wait_moved(&stage, &id, &first);
    stage.model.release("second");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    drop(screen);
    // Text sent now is typed there, and the rollout of that conversation confirms it.
    stage.home.provost(&["send", &id, "Go on."]).ok();
    stage.wait_state(&id, |row| row["messages"][1]["status"] == "delivered");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 3);
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    start_conversation(&screen, "/new");
    type_line(&screen, "Now the third.");
    stage.model.wait_for_hold("third");
    let third = wait_moved(&stage, &id, &second);
    drop(screen);
    // The next daemon reads the same conversation from where the last one stopped.
    stage.home.daemon().kill();
    stage.model.release("third");
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 4);
    assert_eq!(row["thread"], third, "{row:#}");
    assert_eq!(thread_moves(&stage, &id), [(first, second.clone()), (second, third)]);
    assert_eq!(stage.events_of(&id, "turn.ended").len(), 4);
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn new_thread_of_external_codex_is_followed() {
    let Some(stage) = CodexEnv::new(CONVERSATIONS) else { return };
    let theirs = ExternalCodex::start(&stage);
    theirs.screen.wait_for_text("First is done.");
    let pid = theirs.pid();
    let adopted = stage.home.provost(&["adopt", "--pid", &pid, "--json"]);
    let id = adopted.ok().json()["id"].as_str().unwrap().to_owned();
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["thread"].is_string());
    let first = row["thread"].clone();
    start_conversation(&theirs.screen, "/clear");
    type_line(&theirs.screen, "Now the second.");
    stage.model.wait_for_hold("second");
    let second = wait_moved(&stage, &id, &first);
    stage.home.daemon().kill();
    stage.model.release("second");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    start_conversation(&theirs.screen, "/new");
    type_line(&theirs.screen, "Now the third.");
    stage.model.wait_for_hold("third");
    let third = wait_moved(&stage, &id, &second);
    stage.model.release("third");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    assert_eq!(thread_moves(&stage, &id), [(first, second.clone()), (second, third)]);
    // The process has all three rollouts open, so the caller must name one of them.
    let second_home = provost_testkit::harness::TestHome::new();
    let refused = second_home.provost(&["adopt", "--pid", &pid]);
    assert!(refused.assert_code(2).stderr.contains("several conversations"), "{refused:#?}");
    let open = CodexHomes::new(vec![stage.codex_home()]).newest(1).rollouts.remove(0).path;
    let open = open.to_str().unwrap();
    let named = second_home.provost(&["adopt", "--pid", &pid, "--rollout", open, "--json"]);
    let other = named.ok().json()["id"].as_str().unwrap().to_owned();
    drop(theirs);
    stage.wait_sealed(&id);
    second_home.wait_sealed(&other);
}

/// Counts the hidden conversations in a Codex home, such as those of sub-agents.
fn count_hidden(home: PathBuf) -> usize {
    let all = CodexHomes::new(vec![home]).newest(20).rollouts;
    all.iter().filter(|one| read_meta(&one.path).unwrap().is_some_and(|meta| meta.hidden)).count()
}

#[test]
fn t08_sub_agent_thread_is_not_followed() {
    let Some(stage) = CodexEnv::new(DELEGATES) else { return };
    stage.configure_codex(CODE_MODE_MODEL, "");
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, "Delegate it."]);
    stage.model.wait_for_hold("child");
    let row = stage.wait_state(&id, |row| row["state"] == "working" && row["thread"].is_string());
    stage.model.release("child");
    let after = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    assert_eq!(after["thread"], row["thread"], "{after:#}");
    assert_eq!(thread_moves(&stage, &id), []);
    let home = stage.home.path().join("agents").join(&id).join("codex");
    assert_eq!(count_hidden(home), 1, "there was one to confuse it with");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn approval_waits_until_viewer_detaches() {
    let Some((stage, id)) = hosted_session(ASKS, "Write it.") else { return };
    let row = stage.wait_state(&id, |row| row["state"] == "needs_input");
    let request = row["requests"][0]["id"].as_str().unwrap().to_owned();
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("Press enter to confirm");
    stage.wait_state(&id, |_| !stage.events_of(&id, "viewers.changed").is_empty());
    stage.home.provost(&["approve", &request]).ok();
    let row = stage.wait_state(&id, |row| row["messages"][1]["reason"].is_string());
    assert_eq!(row["state"], "needs_input", "{row:#}");
    let why = row["reason"].as_str().unwrap_or_default();
    assert!(why.contains("waits") && why.contains("at its screen"), "{row:#}");
    assert!(!stage.repo.path().join("hi.txt").exists());
    drop(screen);
    stage.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!(stage.repo.read("hi.txt"), "hi\n");
    let row = stage.status(&id);
    assert_eq!(row["reason"], json!(null), "{row:#}");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}
