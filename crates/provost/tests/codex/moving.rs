//! A user who starts another conversation at Codex's screen is followed there; a sub-agent's conversation is not.

use std::path::PathBuf;

use provost_testkit::model::CODE_MODE_MODEL;
use provost_watch::rollout::{Places, meta};
use serde_json::{Value, json};

use crate::{
    kit::Stage,
    screen::Screen,
    terminal::{Theirs, hosted},
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
fn types(screen: &Screen<'_>, line: &str) {
    screen.shows("? for shortcuts");
    screen.tmux(&["send-keys", "-l", line]);
    screen.shows(&format!("› {line}"));
    screen.tmux(&["send-keys", "Enter"]);
}

/// Starts another conversation, in the same directory if Codex asks.
fn begins_anew(screen: &Screen<'_>, command: &str) {
    types(screen, command);
    if command == "/new" {
        screen.shows("Where should the new conversation run?");
        screen.tmux(&["send-keys", "Enter"]);
    }
    screen.shows("› Ask Codex to do anything");
}

fn moves(stage: &Stage, id: &str) -> Vec<(Value, Value)> {
    let moved = stage.events_of(id, "thread.moved");
    moved.iter().map(|e| (e["data"]["from"].clone(), e["data"]["to"].clone())).collect()
}

/// Waits until a session has moved to another conversation and returns its thread.
fn moved_from(stage: &Stage, id: &str, before: &Value) -> Value {
    let row = stage.wait_state(id, |row| row["thread"] != *before && row["state"] == "working");
    row["thread"].clone()
}

#[test]
fn a_conversation_that_is_begun_at_a_hosted_screen_is_followed() {
    let Some((stage, id)) = hosted(CONVERSATIONS, "Do the first.") else { return };
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let first = row["thread"].clone();
    let screen = Screen::begin(&stage, &["attach", &id]);
    begins_anew(&screen, "/clear");
    types(&screen, "Now the second.");
    stage.model.wait_for_hold("second");
    let second = moved_from(&stage, &id, &first);
    stage.model.release("second");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    drop(screen);
    // Text sent now is typed there, and the rollout of that conversation confirms it.
    stage.home.provost(&["send", &id, "Go on."]).ok();
    stage.wait_state(&id, |row| row["messages"][1]["fate"] == "delivered");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 3);
    let screen = Screen::begin(&stage, &["attach", &id]);
    begins_anew(&screen, "/new");
    types(&screen, "Now the third.");
    stage.model.wait_for_hold("third");
    let third = moved_from(&stage, &id, &second);
    drop(screen);
    // The next daemon reads the same conversation from where the last one stopped.
    stage.home.daemon().kill();
    stage.model.release("third");
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 4);
    assert_eq!(row["thread"], third, "{row:#}");
    assert_eq!(moves(&stage, &id), [(first, second.clone()), (second, third)]);
    assert_eq!(stage.events_of(&id, "turn.ended").len(), 4);
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn a_conversation_that_is_begun_at_the_screen_of_somebody_elses_codex_is_followed() {
    let Some(stage) = Stage::new(CONVERSATIONS) else { return };
    let theirs = Theirs::begin(&stage);
    theirs.screen.shows("First is done.");
    let pid = theirs.pid();
    let adopted = stage.home.provost(&["adopt", "--pid", &pid, "--json"]);
    let id = adopted.ok().json()["id"].as_str().unwrap().to_owned();
    let row = stage.wait_state(&id, |row| row["state"] == "idle" && row["thread"].is_string());
    let first = row["thread"].clone();
    begins_anew(&theirs.screen, "/clear");
    types(&theirs.screen, "Now the second.");
    stage.model.wait_for_hold("second");
    let second = moved_from(&stage, &id, &first);
    stage.home.daemon().kill();
    stage.model.release("second");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    begins_anew(&theirs.screen, "/new");
    types(&theirs.screen, "Now the third.");
    stage.model.wait_for_hold("third");
    let third = moved_from(&stage, &id, &second);
    stage.model.release("third");
    stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    assert_eq!(moves(&stage, &id), [(first, second.clone()), (second, third)]);
    // The process has all three rollouts open, so the caller has to name one, and can.
    let second_home = provost_testkit::harness::Home::new();
    let refused = second_home.provost(&["adopt", "--pid", &pid]);
    assert!(refused.exits(2).stderr.contains("several conversations"), "{refused:#?}");
    let open = Places::new(vec![stage.codex_home()]).newest(1).rollouts.remove(0).path;
    let open = open.to_str().unwrap();
    let named = second_home.provost(&["adopt", "--pid", &pid, "--rollout", open, "--json"]);
    let other = named.ok().json()["id"].as_str().unwrap().to_owned();
    drop(theirs);
    stage.sealed(&id);
    second_home.sealed(&other);
}

/// Counts the hidden conversations in a Codex home, such as those of sub-agents.
fn hidden(home: PathBuf) -> usize {
    let all = Places::new(vec![home]).newest(20).rollouts;
    all.iter().filter(|one| meta(&one.path).unwrap().is_some_and(|meta| meta.hidden)).count()
}

#[test]
fn t08_a_sub_agent_is_not_taken_for_the_conversation_of_a_hosted_screen() {
    let Some(stage) = Stage::new(DELEGATES) else { return };
    stage.configure_codex(CODE_MODE_MODEL, "");
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, "Delegate it."]);
    stage.model.wait_for_hold("child");
    let row = stage.wait_state(&id, |row| row["state"] == "working" && row["thread"].is_string());
    stage.model.release("child");
    let after = stage.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    assert_eq!(after["thread"], row["thread"], "{after:#}");
    assert_eq!(moves(&stage, &id), []);
    let home = stage.home.path().join("agents").join(&id).join("codex");
    assert_eq!(hidden(home), 1, "there was one to confuse it with");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn an_approval_is_waited_for_until_whoever_is_at_the_screen_leaves() {
    let Some((stage, id)) = hosted(ASKS, "Write it.") else { return };
    let row = stage.wait_state(&id, |row| row["state"] == "needs_input");
    let request = row["requests"][0]["id"].as_str().unwrap().to_owned();
    let screen = Screen::begin(&stage, &["attach", &id]);
    screen.shows("Press enter to confirm");
    stage.wait_state(&id, |_| !stage.events_of(&id, "people.attached").is_empty());
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
