//! Text is typed into Codex's composer, and never into anything else on its screen.

use std::path::PathBuf;

use provost_testkit::{
    harness::{Output, eventually},
    model::{Recorded, Served},
};
use serde_json::Value;

use crate::{kit::Stage, screen::Screen};

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
fn hosted(scenario: &str, instruction: &[&str]) -> Option<(Stage, String)> {
    let stage = Stage::new(scenario)?;
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&[&["--tty", "--accept-trust", &path], instruction].concat());
    Some((stage, id))
}

fn end(stage: &Stage, id: &str) {
    stage.home.provost(&["stop", id]).ok();
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "ended");
}

fn send(stage: &Stage, id: &str, text: &str) -> Output {
    stage.home.provost(&["send", id, text])
}

fn fate(row: &Value, no: usize) -> &str {
    row["messages"][no]["fate"].as_str().unwrap_or_default()
}

/// Waits until a message is queued for this reason.
#[track_caller]
fn waits(stage: &Stage, id: &str, no: usize, why: &str) {
    stage.home.wait_state(id, |row| {
        let reason = row["messages"][no]["reason"].as_str().unwrap_or_default();
        fate(row, no) == "queued" && reason.contains(why)
    });
}

/// Waits until this number of viewers is recorded.
#[track_caller]
fn attended(stage: &Stage, id: &str, people: u32) {
    eventually(&format!("{people} at the screen"), || {
        let last = stage.events_of(id, "people.attached").pop().unwrap_or_default();
        if last["data"]["people"] == people { Ok(()) } else { Err(last.to_string()) }
    });
}

/// Returns the prompts of all scripted model requests.
fn told(stage: &Stage) -> Vec<String> {
    let scripted = |made: &&Recorded| matches!(&made.served, Served::Scripted(_));
    let calls = stage.model.requests();
    calls.iter().filter(scripted).map(|made| made.request.prompt()).collect()
}

fn file(stage: &Stage, name: &str) -> PathBuf {
    stage.repo.path().join(name)
}

/// The id of the open request.
fn open_request(row: &Value) -> String {
    row["requests"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a07_an_answer_that_waited_is_not_typed_into_what_is_asked_next() {
    let Some((stage, id)) = hosted(ASKS_TWICE, &["Write both."]) else { return };
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    let first = open_request(&row);
    let screen = Screen::begin(&stage, &["attach", &id]);
    screen.shows("May I first?");
    attended(&stage, &id, 1);
    stage.home.provost(&["approve", &first]).ok();
    waits(&stage, &id, 1, "a user is at its screen");
    screen.tmux(&["send-keys", "y"]);
    screen.shows("May I then?");
    let row = stage.home.wait_state(&id, |row| fate(row, 1) == "undeliverable");
    assert!(row["messages"][1]["reason"].as_str().unwrap().contains("screen"), "{row:#}");
    let late = stage.home.provost(&["approve", &first]);
    assert!(late.exits(4).stderr.contains("settled at the agent's screen"), "{late:#?}");
    drop(screen);
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert!(file(&stage, "one.txt").exists() && !file(&stage, "two.txt").exists());
    let second = open_request(&row);
    stage.home.provost(&["approve", &second]).ok();
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert!(file(&stage, "two.txt").exists());
    end(&stage, &id);
}

#[test]
fn an_interrupt_that_waits_for_a_question_does_not_call_off_what_is_approved() {
    let Some((stage, id)) = hosted(ASKS_AND_WAITS, &["Write it."]) else { return };
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    let request = open_request(&row);
    stage.home.provost(&["interrupt", &id]).ok();
    waits(&stage, &id, 1, "open request");
    stage.home.provost(&["approve", &request]).ok();
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert!(file(&stage, "one.txt").exists(), "it was approved first");
    let row = stage.home.wait_state(&id, |_| true);
    let fates: Vec<&str> = (0..3).map(|no| fate(&row, no)).collect();
    assert_eq!(fates, ["delivered", "delivered", "delivered"], "{row:#}");
    let ends = stage.events_of(&id, "turn.ended");
    assert_eq!(ends[0]["data"]["end"], "interrupted", "{ends:#?}");
    end(&stage, &id);
}

#[test]
fn a_text_is_no_command_to_the_composer_whatever_it_begins_or_ends_with() {
    let Some((stage, id)) = hosted(TALKS, &["/status of the first"]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    for text in ["!touch ran.txt", " \n!touch ran.txt"] {
        let refused = send(&stage, &id, text);
        assert!(refused.exits(2).stderr.contains("begin it with a word"), "{refused:#?}");
    }
    let spawn = stage.try_spawn(&["--tty", "!touch ran.txt"]);
    assert!(spawn.exits(2).stdout.contains("begin it with a word"), "{spawn:#?}");
    stage
        .home
        .configure("[reactions.mine]\non = \"stalled\"\ndo = \"interrupt\"\ntext = \"!ls\"\n");
    let spawn = stage.try_spawn(&["--tty", "Do it."]);
    assert!(spawn.exits(2).stdout.contains("reactions.mine"), "{spawn:#?}");
    for (no, text) in [(1, "/compact is a fine word"), (2, "look at @READ"), (3, "a\u{7}b\u{9b}c")]
    {
        send(&stage, &id, text).ok();
        stage.home.wait_state(&id, |row| fate(row, no) == "delivered");
        stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == no + 1);
    }
    let asked = ["/status of the first", "/compact is a fine word", "look at @READ", "abc"];
    assert_eq!(told(&stage), asked);
    assert!(!file(&stage, "ran.txt").exists());
    end(&stage, &id);
}

#[test]
fn what_a_person_left_half_written_is_not_sent_with_the_next_text() {
    let Some((stage, id)) = hosted(TALKS, &["Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let screen = Screen::begin(&stage, &["attach", &id]);
    screen.shows("First is done.");
    screen.tmux(&["send-keys", "-l", "half a thought"]);
    screen.shows("half a thought");
    drop(screen);
    attended(&stage, &id, 0);
    send(&stage, &id, "Now the second.").ok();
    waits(&stage, &id, 1, "its prompt has unsent text");
    let screen = Screen::begin(&stage, &["attach", &id]);
    screen.shows("half a thought");
    screen.tmux(&["send-keys", "C-u"]);
    screen.shows("Ask Codex");
    drop(screen);
    stage.home.wait_state(&id, |row| fate(row, 1) == "delivered");
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    assert_eq!(told(&stage), ["Do the first.", "Now the second."]);
    end(&stage, &id);
}

/// A tmux window without a client does not count as a viewer.
#[test]
fn a_session_in_a_window_is_spoken_to_unless_somebody_looks_at_it() {
    let Some((stage, id)) = hosted(TALKS, &["--tmux", "Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    send(&stage, &id, "Now the second.").ok();
    stage.home.wait_state(&id, |row| fate(row, 1) == "delivered" && row["turns"] == 2);
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!(stage.events_of(&id, "people.attached").len(), 0, "the window is not a viewer");
    // Closing the terminal detaches as well.
    let screen = Screen::begin(&stage, &["attach", "--tmux", &id]);
    attended(&stage, &id, 1);
    drop(screen);
    attended(&stage, &id, 0);
    let screen = Screen::begin_and_stay(&stage, &["attach", "--tmux", &id]);
    screen.shows("Second is done.");
    attended(&stage, &id, 1);
    send(&stage, &id, "Now the third.").ok();
    waits(&stage, &id, 2, "a user is at its screen");
    screen.tmux(&["send-keys", "C-b", "d"]);
    screen.shows("detached");
    attended(&stage, &id, 0);
    stage.home.wait_state(&id, |row| fate(row, 2) == "delivered" && row["turns"] == 3);
    end(&stage, &id);
}

#[test]
fn what_codex_takes_for_a_picture_is_given_up_and_the_next_text_goes() {
    let Some((stage, id)) = hosted(TALKS, &["Do the first."]) else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    std::fs::write(file(&stage, "dot.png"), DOT).unwrap();
    send(&stage, &id, file(&stage, "dot.png").to_str().unwrap()).ok();
    send(&stage, &id, "Now the third.").ok();
    let row = stage.home.wait_state(&id, |row| fate(row, 2) == "delivered");
    assert_eq!(fate(&row, 1), "undeliverable", "{row:#}");
    assert!(row["messages"][1]["reason"].as_str().unwrap().contains("transcript"), "{row:#}");
    end(&stage, &id);
}

#[test]
fn a_text_that_is_sent_while_the_agent_starts_is_typed_though_nobody_asks_for_it() {
    let Some((stage, id)) = hosted(TALKS, &[]) else { return };
    send(&stage, &id, "Do the first.").ok();
    eventually("its turn began", || (told(&stage) == ["Do the first."]).then_some(()));
    stage.home.wait_state(&id, |row| fate(row, 0) == "delivered");
    end(&stage, &id);
}

/// A PNG image of one pixel.
const DOT: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0x60, 0x60, 0x00,
    0x00, 0x00, 0x04, 0x00, 0x01, 0xf6, 0x17, 0x38, 0x55, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];
