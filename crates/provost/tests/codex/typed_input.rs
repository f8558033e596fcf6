//! Text is typed only into Codex's composer, never into another part of its screen.

use std::path::PathBuf;

use provost_testkit::{
    harness::{ProgramOutput, eventually},
    model::{RecordedRequest, ServedAnswer},
};
use serde_json::Value;

use crate::{codex_env::CodexEnv, tmux_screen::TmuxScreen};

/// Responds to every prompt.
const TALKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [{ items = [{ message = "Second is done." }] }] },
  { response = [{ items = [{ message = "Third is done." }] }] },
  { response = [{ items = [{ message = "Fourth is done." }] }] },
]
"#;

/// Asks for two approvals, one after another.
const ASKS_TWICE: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo 1 > one.txt", escalate = true, justification = "May I first?" }] },
    { items = [{ shell = "echo 2 > two.txt", escalate = true, justification = "May I then?" }] },
    { items = [{ message = "Both are there." }] },
  ] },
]
"#;

/// Asks for an approval, then blocks on hold `door`.
const ASKS_AND_WAITS: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo 1 > one.txt", escalate = true, justification = "May I first?" }] },
    { items = [{ hold = "door" }, { message = "It is there." }] },
  ] },
]
"#;

/// A session on Codex's own screen, in a trusted directory.
fn hosted_session(scenario: &str, instruction: &[&str]) -> Option<(CodexEnv, String)> {
    let stage = CodexEnv::new(scenario)?;
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&[&["--tty", "--accept-trust", &path], instruction].concat());
    Some((stage, id))
}

fn stop_session(stage: &CodexEnv, id: &str) {
    stage.home.provost(&["stop", id]).ok();
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "ended");
}

fn send(stage: &CodexEnv, id: &str, text: &str) -> ProgramOutput {
    stage.home.provost(&["send", id, text])
}

fn fate(row: &Value, no: usize) -> &str {
    row["messages"][no]["status"].as_str().unwrap_or_default()
}

/// Waits until a message is queued for this reason.
#[track_caller]
fn wait_queued(stage: &CodexEnv, id: &str, no: usize, why: &str) {
    stage.home.wait_state(id, |row| {
        let reason = row["messages"][no]["reason"].as_str().unwrap_or_default();
        fate(row, no) == "queued" && reason.contains(why)
    });
}

/// Waits until this number of viewers is recorded.
#[track_caller]
fn wait_viewers(stage: &CodexEnv, id: &str, people: u32) {
    eventually(&format!("{people} at the screen"), || {
        let last = stage.events_of(id, "viewers.changed").pop().unwrap_or_default();
        if last["data"]["viewers"] == people { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Returns the prompts of all scripted model requests.
fn model_prompts(stage: &CodexEnv) -> Vec<String> {
    let scripted = |made: &&RecordedRequest| matches!(&made.served, ServedAnswer::Scripted(_));
    let calls = stage.model.requests();
    calls.iter().filter(scripted).map(|made| made.request.prompt()).collect()
}

fn repo_file(stage: &CodexEnv, name: &str) -> PathBuf {
    stage.repo.path().join(name)
}

/// Returns the id of the open request.
fn open_request(row: &Value) -> String {
    row["requests"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a07_waiting_answer_is_not_typed_into_next_request() {
    let Some((stage, id)) = hosted_session(ASKS_TWICE, &["Write both."]) else { return };
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    let first = open_request(&row);
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("May I first?");
    wait_viewers(&stage, &id, 1);
    stage.home.provost(&["approve", &first]).ok();
    wait_queued(&stage, &id, 1, "a user is at its screen");
    screen.tmux(&["send-keys", "y"]);
    screen.wait_for_text("May I then?");
    let row = stage.home.wait_state(&id, |row| fate(row, 1) == "undeliverable");
    assert!(row["messages"][1]["reason"].as_str().unwrap().contains("screen"), "{row:#}");
    let late = stage.home.provost(&["approve", &first]);
    assert!(late.assert_code(4).stderr.contains("settled at the agent's screen"), "{late:#?}");
    drop(screen);
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert!(repo_file(&stage, "one.txt").exists() && !repo_file(&stage, "two.txt").exists());
    let second = open_request(&row);
    stage.home.provost(&["approve", &second]).ok();
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert!(repo_file(&stage, "two.txt").exists());
    stop_session(&stage, &id);
}

#[test]
fn waiting_interrupt_does_not_cancel_approval() {
    let Some((stage, id)) = hosted_session(ASKS_AND_WAITS, &["Write it."]) else { return };
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    let request = open_request(&row);
    stage.home.provost(&["interrupt", &id]).ok();
    wait_queued(&stage, &id, 1, "open request");
    stage.home.provost(&["approve", &request]).ok();
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert!(repo_file(&stage, "one.txt").exists(), "it was approved first");
    let row = stage.home.wait_state(&id, |_| true);
    let fates: Vec<&str> = (0..3).map(|no| fate(&row, no)).collect();
    assert_eq!(fates, ["delivered", "delivered", "delivered"], "{row:#}");
    let ends = stage.events_of(&id, "turn.ended");
    assert_eq!(ends[0]["data"]["end"], "interrupted", "{ends:#?}");
    stop_session(&stage, &id);
}

#[test]
fn typed_text_is_never_a_composer_command() {
    let Some((stage, id)) = hosted_session(TALKS, &["/status of the first"]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    for text in ["!touch ran.txt", " \n!touch ran.txt"] {
        let refused = send(&stage, &id, text);
        assert!(refused.assert_code(2).stderr.contains("begin it with a word"), "{refused:#?}");
    }
    let spawn = stage.try_spawn(&["--tty", "!touch ran.txt"]);
    assert!(spawn.assert_code(2).stdout.contains("begin it with a word"), "{spawn:#?}");
    stage
        .home
        .configure("[reactions.mine]\non = \"stalled\"\ndo = \"interrupt\"\ntext = \"!ls\"\n");
    let spawn = stage.try_spawn(&["--tty", "Do it."]);
    assert!(spawn.assert_code(2).stdout.contains("reactions.mine"), "{spawn:#?}");
    for (no, text) in [(1, "/compact is a fine word"), (2, "look at @READ"), (3, "a\u{7}b\u{9b}c")]
    {
        send(&stage, &id, text).ok();
        stage.home.wait_state(&id, |row| fate(row, no) == "delivered");
        stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == no + 1);
    }
    let asked = ["/status of the first", "/compact is a fine word", "look at @READ", "abc"];
    assert_eq!(model_prompts(&stage), asked);
    assert!(!repo_file(&stage, "ran.txt").exists());
    stop_session(&stage, &id);
}

#[test]
fn unsent_draft_is_not_sent_with_next_text() {
    let Some((stage, id)) = hosted_session(TALKS, &["Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("First is done.");
    screen.tmux(&["send-keys", "-l", "half a thought"]);
    screen.wait_for_text("half a thought");
    drop(screen);
    wait_viewers(&stage, &id, 0);
    send(&stage, &id, "Now the second.").ok();
    wait_queued(&stage, &id, 1, "its prompt has unsent text");
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("half a thought");
    screen.tmux(&["send-keys", "C-u"]);
    screen.wait_for_text("Ask Codex");
    drop(screen);
    stage.home.wait_state(&id, |row| fate(row, 1) == "delivered");
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    assert_eq!(model_prompts(&stage), ["Do the first.", "Now the second."]);
    stop_session(&stage, &id);
}

/// A tmux window without a client does not count as a viewer.
#[test]
fn tmux_session_is_typed_into_unless_viewed() {
    let Some((stage, id)) = hosted_session(TALKS, &["--tmux", "Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    send(&stage, &id, "Now the second.").ok();
    stage.home.wait_state(&id, |row| fate(row, 1) == "delivered" && row["turns"] == 2);
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!(stage.events_of(&id, "viewers.changed").len(), 0, "the window is not a viewer");
    // Closing the terminal detaches too.
    let screen = TmuxScreen::run_provost(&stage, &["attach", "--tmux", &id]);
    wait_viewers(&stage, &id, 1);
    drop(screen);
    wait_viewers(&stage, &id, 0);
    let screen = TmuxScreen::run_provost_and_stay(&stage, &["attach", "--tmux", &id]);
    screen.wait_for_text("Second is done.");
    wait_viewers(&stage, &id, 1);
    send(&stage, &id, "Now the third.").ok();
    wait_queued(&stage, &id, 2, "a user is at its screen");
    screen.tmux(&["send-keys", "C-b", "d"]);
    screen.wait_for_text("detached");
    wait_viewers(&stage, &id, 0);
    stage.home.wait_state(&id, |row| fate(row, 2) == "delivered" && row["turns"] == 3);
    stop_session(&stage, &id);
}

#[test]
fn text_taken_as_image_is_undeliverable() {
    let Some((stage, id)) = hosted_session(TALKS, &["Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    std::fs::write(repo_file(&stage, "dot.png"), ONE_PIXEL_PNG).unwrap();
    send(&stage, &id, repo_file(&stage, "dot.png").to_str().unwrap()).ok();
    send(&stage, &id, "Now the third.").ok();
    let row = stage.home.wait_state(&id, |row| fate(row, 2) == "delivered");
    assert_eq!(fate(&row, 1), "undeliverable", "{row:#}");
    assert!(row["messages"][1]["reason"].as_str().unwrap().contains("transcript"), "{row:#}");
    stop_session(&stage, &id);
}

#[test]
fn text_sent_during_startup_is_typed() {
    let Some((stage, id)) = hosted_session(TALKS, &[]) else { return };
    send(&stage, &id, "Do the first.").ok();
    eventually("its turn began", || (model_prompts(&stage) == ["Do the first."]).then_some(()));
    stage.home.wait_state(&id, |row| fate(row, 0) == "delivered");
    stop_session(&stage, &id);
}

/// A PNG image of one pixel.
const ONE_PIXEL_PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0x60, 0x60, 0x00,
    0x00, 0x00, 0x04, 0x00, 0x01, 0xf6, 0x17, 0x38, 0x55, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];
