//! Questions by both of Codex's mechanisms: shown, answered in every way, and answered once.

use std::process::Command;

use provost_testkit::{harness::eventually, model::CODE_MODE_MODEL};
use serde_json::{Value, json};

use crate::{
    kit::{Stage, Which},
    requests::{open, told, turn_of},
};

const COLOUR: &str = r#"
    { items = [{ ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] }] },
    { items = [{ message = "Thank you." }] },"#;

const TWO: &str = r#"
    { items = [{ ask = [
      { id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
      { id = "size", header = "Size", question = "Which size?", options = [{ label = "S", description = "small" }, { label = "L", description = "large" }] },
    ] }] },
    { items = [{ message = "Thank you." }] },"#;

#[test]
fn r07_status_shows_a_question_with_a_command_that_answers_it() {
    let Some(stage) = Stage::new(&turn_of(COLOUR)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = open(&stage, &id, 1);
    let question = &asked["questions"][0];
    assert_eq!(
        (&question["id"], &question["header"], &question["question"], &question["secret"]),
        (&"colour".into(), &"Colour".into(), &"Which colour?".into(), &false.into())
    );
    assert!(question["options"].to_string().contains("Blue"), "{asked:#}");
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    for part in ["Which colour?", "Red", "Blue", "colour"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let printed = command_in(&shown, "provost answer").replace("TEXT", "Blue");
    let words: Vec<&str> = printed.split_whitespace().skip(1).collect();
    stage.home.provost(&words).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert_eq!(told(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    let late = stage.home.provost(&["answer", asked["id"].as_str().unwrap(), "Red"]);
    assert_ne!(late.code(), Some(0), "{late:#?}");
    stage.model.assert_all_as_scripted();
}

/// Gives the command line that a screen shows.
#[track_caller]
fn command_in(shown: &str, begins: &str) -> String {
    let line = shown.lines().find_map(|line| Some(&line[line.find(begins)?..]));
    line.unwrap_or_else(|| panic!("no {begins} in {shown}")).trim().to_owned()
}

#[test]
fn r02_answers_to_several_questions_are_for_exactly_the_ids_that_were_asked() {
    let Some(stage) = Stage::new(&turn_of(TWO)) else { return };
    let id = stage.spawn(&["Paint it."]);
    open(&stage, &id, 1);
    let calls = stage.model.requests().len();
    let wrong = [
        json!({"answers": {"colour": {"answers": ["Red"]}}}),
        json!({"answers": {"colour": {"answers": ["Red"]}, "size": {"answers": ["S"]}, "taste": {"answers": ["x"]}}}),
        json!({"answers": {"colour": {"answers": ["Red"]}, "size": {"answers": []}}}),
        json!({"colour": ["Red"], "size": ["S"]}),
    ];
    for answers in wrong {
        let refused =
            stage.home.provost_with_input(&["answer", &id, "--answers", "-"], &answers.to_string());
        refused.exits(2);
        let told = &refused.stderr;
        assert!(told.contains("size") || told.contains("expected"), "{refused:#?}");
    }
    let text = stage.home.provost(&["answer", &id, "Red"]);
    assert!(text.exits(2).stderr.contains("colour, size"), "{text:#?}");
    assert_eq!(stage.events_of(&id, "request.settled").len(), 0, "nothing was stored");
    assert_eq!(stage.model.requests().len(), calls, "nothing was sent");

    let file = stage.home.root().join("answers.json");
    let right = json!({"answers": {"colour": {"answers": ["Blue"]}, "size": {"answers": ["L"]}}});
    std::fs::write(&file, right.to_string()).unwrap();
    stage.home.provost(&["answer", &id, "--answers", file.to_str().unwrap()]).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert_eq!(told(&stage, r#""size":{"answers":["L"]}"#), 1);
    assert_eq!(told(&stage, r#""colour":{"answers":["Blue"]}"#), 1);
    stage.model.assert_all_as_scripted();
}

#[test]
fn r03_a_text_is_the_answer_verbatim() {
    let Some(stage) = Stage::new(&turn_of(COLOUR)) else { return };
    let id = stage.spawn(&["Paint it."]);
    open(&stage, &id, 1);
    let text = r#"{"answers": "none of these"} - and 'more'"#;
    stage.home.provost(&["answer", &id, text]).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    let given = json!({"answers": {"colour": {"answers": [text]}}}).to_string();
    assert_eq!(told(&stage, &given), 1, "{:#?}", stage.model.requests().last());
    stage.model.assert_all_as_scripted();
}

#[test]
fn a_question_of_a_code_mode_model_is_answered_beside_its_work() {
    let beside = r#"
    { items = [{ ask_async = [{ title = "Which colour?", options = ["Red", "Blue"] }] }] },
    { items = [{ hold = "door" }, { message = "Going on." }] },
    { items = [{ message = "Taken." }] },"#;
    let Some(stage) = Stage::new(&turn_of(beside)) else { return };
    stage.configure_codex(CODE_MODE_MODEL, "");
    let id = stage.spawn(&["Paint it."]);
    stage.model.wait_for_hold("door");
    let asked = open(&stage, &id, 1);
    assert_eq!(
        (&asked["blocking"], &asked["questions"][0]["question"]),
        (&false.into(), &"Which colour?".into())
    );
    assert_eq!(stage.status(&id)["state"], "working", "the agent goes on");
    stage.home.provost(&["answer", &id, "Blue"]).ok();
    stage.model.release("door");
    let heard = stage.model.wait_for_request("the answer", |recorded| {
        recorded.request.prompts().iter().any(|said| said.contains("Blue"))
    });
    assert!(
        heard.request.prompts().iter().any(|said| said.contains("Which colour?")),
        "{:?}",
        heard.request.prompts()
    );
    assert_eq!(stage.sealed(&id)["state"], "completed");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r10_a_question_withdrawn_by_an_interrupt_is_not_answered_later() {
    let Some(stage) = Stage::new(&turn_of(COLOUR)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = open(&stage, &id, 1);
    stage.home.provost(&["stop", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["process"] != "alive");
    let late = stage.home.provost(&["answer", asked["id"].as_str().unwrap(), "Blue"]);
    assert!(late.exits(4).stderr.contains("the agent withdrew it"), "{late:#?} {row:#}");
    assert_eq!(told(&stage, "Blue"), 0);
}

#[test]
fn e17_parallel_questions_have_separate_slots() {
    let both = r#"
    { items = [
      { ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] },
      { ask = [{ id = "size", header = "Size", question = "Which size?", options = [{ label = "S", description = "small" }, { label = "L", description = "large" }] }] },
    ] },
    { items = [{ message = "Thank you." }] },"#;
    let Some(stage) = Stage::new(&turn_of(both)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let first = open(&stage, &id, 1);
    let name = |asked: &Value| asked["questions"][0]["id"].as_str().unwrap().to_owned();
    let is_colour = name(&first) == "colour";
    let wrong =
        stage.home.provost(&["answer", first["id"].as_str().unwrap(), "--revision", "7", "Blue"]);
    assert_ne!(wrong.code(), Some(0), "an answer is for one revision: {wrong:#?}");
    stage
        .home
        .provost(&["answer", first["id"].as_str().unwrap(), if is_colour { "Blue" } else { "L" }])
        .ok();
    let second = open(&stage, &id, 2);
    assert_ne!(name(&first), name(&second));
    let again = stage.home.provost(&["answer", first["id"].as_str().unwrap(), "Red"]);
    assert_ne!(again.code(), Some(0), "the next question never takes it: {again:#?}");
    stage
        .home
        .provost(&["answer", second["id"].as_str().unwrap(), if is_colour { "L" } else { "Blue" }])
        .ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert_eq!(told(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    assert_eq!(told(&stage, r#"{"answers":{"size":{"answers":["L"]}}}"#), 1);
    stage.model.assert_all_as_scripted();
}

#[test]
fn a_daemon_killed_in_a_pending_question_has_it_answered_once() {
    let Some(stage) = Stage::new(&turn_of(COLOUR)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = open(&stage, &id, 1);
    stage.home.daemon().kill();
    assert_eq!(open(&stage, &id, 1)["revision"], asked["revision"]);
    stage.home.provost(&["answer", &id, "Blue", "--key", "once"]).ok();
    stage.home.provost(&["answer", &id, "Blue", "--key", "once"]).ok();
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
    assert_eq!(told(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    stage.model.assert_all_as_scripted();
}

#[test]
fn a04_a_question_survives_the_agent_and_the_daemon_and_its_answer_resumes_the_thread_once() {
    let asks = turn_of(COLOUR).replacen(r#"    { items = [{ message = "Thank you." }] },"#, "", 1);
    let asks = asks.replacen(
        "  { response = [{ items",
        "  { response = [{ items = [{ message = \"Thank you.\" }] }] },\n  { response = [{ items",
        1,
    );
    let Some(stage) = Stage::new(&asks) else { return };
    let id = stage.spawn(&["Paint it."]);
    open(&stage, &id, 1);
    let thread = stage.status(&id)["thread"].clone();
    kill_agent(&stage, &id);
    stage.home.wait_state(&id, |row| row["launches"].as_array().unwrap().len() == 2);
    stage.home.daemon().kill();
    open(&stage, &id, 1);
    assert_eq!(stage.status(&id)["state"], "needs_input");
    stage.home.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["thread"], thread, "the same conversation");
    assert_eq!(row["launches"].as_array().unwrap().len(), 2, "{row:#}");
    let said = stage.model.requests().pop().unwrap().request.prompts();
    assert_eq!(said.iter().filter(|said| said.contains("Blue")).count(), 1, "{said:#?}");
    stage.model.assert_all_as_scripted();
}

/// Kills the agent's process, which is the holder's child.
fn kill_agent(stage: &Stage, id: &str) {
    let row = stage.status(id);
    let pid = row["launches"][0]["pid"].as_u64().unwrap_or_else(|| panic!("no pid in {row:#}"));
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn e13_waiting_for_a_person_does_not_consume_the_time_limit() {
    let Some(stage) = Stage::new(&turn_of(COLOUR)) else { return };
    let id = stage.spawn(&["--time-limit", "3s", "Paint it."]);
    let asked = open(&stage, &id, 1);
    let since = asked["asked_at"].as_i64().unwrap();
    // The limit passes while nobody answers; the clock is the condition here.
    eventually("the limit is over", || {
        let made = stage.home.root().join("clock");
        std::fs::write(&made, "").unwrap();
        let now = made.metadata().unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        (now > since as u128 + 3500).then_some(())
    });
    assert_eq!(stage.status(&id)["state"], "needs_input");
    stage.home.provost(&["answer", &id, "Blue"]).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    stage.model.assert_all_as_scripted();
}

#[test]
fn a07_what_is_sent_reaches_the_agent_through_the_protocol() {
    let works = r#"
    { items = [{ hold = "door" }, { shell = "true" }] },
    { items = [{ message = "Heard." }] },"#;
    for which in [Which::Pinned, Which::Oldest] {
        let Some(stage) = Stage::with(which, &turn_of(works)) else { return };
        let id = stage.spawn(&["Work."]);
        stage.model.wait_for_hold("door");
        stage.home.wait_state(&id, |row| row["turns"] == 1);
        stage.home.provost(&["send", &id, "Also update the changelog."]).ok();
        stage.home.wait_state(&id, |row| {
            row["messages"]
                .as_array()
                .unwrap()
                .iter()
                .any(|m| m["fate"] == "delivered" && m["kind"] != "instruction")
        });
        stage.model.release("door");
        let row = stage.sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?} {row:#}");
        let said = stage.model.requests().pop().unwrap().request.prompts();
        assert_eq!(
            said.iter().filter(|said| said.contains("Also update the changelog.")).count(),
            1,
            "{said:#?}"
        );
        stage.model.assert_all_as_scripted();
    }
}
