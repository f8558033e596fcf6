//! Questions through both of Codex's mechanisms: they are shown, accept every form of answer, and
//! are answered once.

use std::process::Command;

use provost_testkit::{
    harness::eventually,
    model::{CODE_MODE_MODEL, MODEL},
};
use serde_json::{Value, json};

use crate::{
    approvals::{count_outputs, turn_with_result, wait_request},
    codex_env::{CodexEnv, TestedCodex},
    journal::LaunchJournal,
};

const COLOUR_QUESTION: &str = r#"
    { items = [{ ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] }] },
    { items = [{ message = "Thank you." }] },"#;

const TWO_QUESTIONS: &str = r#"
    { items = [{ ask = [
      { id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
      { id = "size", header = "Size", question = "Which size?", options = [{ label = "S", description = "small" }, { label = "L", description = "large" }] },
    ] }] },
    { items = [{ message = "Thank you." }] },"#;

/// Questions whose ids do not appear in their texts.
const HARD_TO_GUESS: &str = r#"
    { items = [{ ask = [
      { id = "k1", header = "Shade", question = "Which one?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] },
      { id = "k2", header = "Word", question = "Which word?", secret = true, options = [{ label = "None", description = "go on without" }, { label = "Later", description = "ask again" }] },
    ] }] },
    { items = [{ message = "Thank you." }] },"#;

#[test]
fn r07_status_shows_question_and_answer_command() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_QUESTION)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = wait_request(&stage, &id, 1);
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
    let printed = shown_command(&shown, "provost answer").replace("TEXT", "Blue");
    let words: Vec<&str> = printed.split_whitespace().skip(1).collect();
    stage.home.provost(&words).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(count_outputs(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    let late = stage.home.provost(&["answer", asked["id"].as_str().unwrap(), "Red"]);
    assert_ne!(late.code(), Some(0), "{late:#?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r07_several_questions_show_ids_and_answer_form() {
    let Some(stage) = CodexEnv::new(&turn_with_result(HARD_TO_GUESS)) else { return };
    let hooked = stage.root().join("hooked");
    stage.configure(&format!(
        "[hooks]\nsession.needs_input = {:?}\n",
        format!("cat > {}", hooked.display())
    ));
    let id = stage.spawn(&["Paint it."]);
    let asked = wait_request(&stage, &id, 1);
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    for part in ["k1 · ", "Shade: Which one?", "warm", "k2 · ", "(the answer is a secret)"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let form = shown_command(&shown, "{\"answers\"").replacen('…', "Red", 1).replacen('…', "XL", 1);
    let answer = asked["commands"][0].as_str().unwrap().replace("FILE", "-");
    let words: Vec<&str> = answer.split_whitespace().skip(1).collect();
    let payload = eventually("the hook has run", || {
        std::fs::read_to_string(&hooked).ok().filter(|text| text.ends_with('}'))
    });
    assert!(payload.contains(asked["commands"][0].as_str().unwrap()), "{payload}");
    stage.home.provost_with_input(&words, &form).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    stage.model.assert_all_as_scripted();
}

/// Returns the command on a screen that starts with a text.
#[track_caller]
fn shown_command(shown: &str, begins: &str) -> String {
    let line = shown.lines().find_map(|line| Some(&line[line.find(begins)?..]));
    line.unwrap_or_else(|| panic!("no {begins} in {shown}")).trim().to_owned()
}

#[test]
fn r02_answers_must_match_the_asked_ids() {
    let Some(stage) = CodexEnv::new(&turn_with_result(TWO_QUESTIONS)) else { return };
    let id = stage.spawn(&["Paint it."]);
    wait_request(&stage, &id, 1);
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
        refused.assert_code(2);
        let message = &refused.stderr;
        assert!(message.contains("size") || message.contains("expected"), "{refused:#?}");
    }
    let text = stage.home.provost(&["answer", &id, "Red"]);
    assert!(text.assert_code(2).stderr.contains("colour, size"), "{text:#?}");
    assert_eq!(stage.events_of(&id, "request.settled").len(), 0, "nothing was stored");
    assert_eq!(stage.model.requests().len(), calls, "nothing was sent");

    let file = stage.home.root().join("answers.json");
    let right = json!({"answers": {"colour": {"answers": ["Blue"]}, "size": {"answers": ["L"]}}});
    std::fs::write(&file, right.to_string()).unwrap();
    stage.home.provost(&["answer", &id, "--answers", file.to_str().unwrap()]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(count_outputs(&stage, r#""size":{"answers":["L"]}"#), 1);
    assert_eq!(count_outputs(&stage, r#""colour":{"answers":["Blue"]}"#), 1);
    stage.model.assert_all_as_scripted();
}

#[test]
fn r03_text_answer_is_verbatim() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_QUESTION)) else { return };
    let id = stage.spawn(&["Paint it."]);
    wait_request(&stage, &id, 1);
    let text = r#"{"answers": "none of these"} - and 'more'"#;
    stage.home.provost(&["answer", &id, text]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    let given = json!({"answers": {"colour": {"answers": [text]}}}).to_string();
    assert_eq!(count_outputs(&stage, &given), 1, "{:#?}", stage.model.requests().last());
    stage.model.assert_all_as_scripted();
}

#[test]
fn code_mode_question_does_not_block_work() {
    let beside = r#"
    { items = [{ ask_async = [{ title = "Which colour?", options = ["Red", "Blue"] }] }] },
    { items = [{ hold = "door" }, { message = "Going on." }] },
    { items = [{ message = "Taken." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(beside)) else { return };
    stage.configure_codex(CODE_MODE_MODEL, "");
    let id = stage.spawn(&["Paint it."]);
    stage.model.wait_for_hold("door");
    let asked = wait_request(&stage, &id, 1);
    assert_eq!(
        (&asked["blocking"], &asked["questions"][0]["question"]),
        (&false.into(), &"Which colour?".into())
    );
    assert_eq!(stage.status(&id)["state"], "working", "the agent keeps working");
    stage.home.provost(&["answer", &id, "Blue"]).ok();
    stage.model.release("door");
    let heard = stage.model.wait_for_request("the answer", |recorded| {
        recorded.request.prompts().iter().any(|prompt| prompt.contains("Blue"))
    });
    assert!(
        heard.request.prompts().iter().any(|prompt| prompt.contains("Which colour?")),
        "{:?}",
        heard.request.prompts()
    );
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r10_question_of_cancelled_session_is_closed() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_QUESTION)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = wait_request(&stage, &id, 1);
    stage.home.provost(&["cancel", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["process"] != "alive");
    let late = stage.home.provost(&["answer", asked["id"].as_str().unwrap(), "Blue"]);
    assert!(late.assert_code(4).stderr.contains("the session was cancelled"), "{late:#?} {row:#}");
    assert_eq!(count_outputs(&stage, "Blue"), 0);
}

#[test]
fn e17_parallel_questions_have_separate_slots() {
    let both = r#"
    { items = [
      { tool = "provost_ask", args = { question = "Which colour?", options = ["red", "blue"] } },
      { tool = "provost_ask", args = { question = "Which size?", options = ["S", "L"] } },
    ] },
    { items = [{ message = "Thank you." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(both)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let row = stage.wait_state(&id, |row| row["requests"].as_array().unwrap().len() == 2);
    let slot = |question: &str| {
        let all = row["requests"].as_array().unwrap().iter();
        let found = all.filter(|asked| asked["questions"][0]["question"] == question);
        let found: Vec<&Value> = found.collect();
        assert_eq!((found.len(), &found[0]["revision"]), (1, &json!(1)), "{row:#}");
        found[0]["id"].as_str().unwrap().to_owned()
    };
    let (colour, size) = (slot("Which colour?"), slot("Which size?"));
    assert_ne!(colour, size);

    let either = stage.provost(&["answer", &id, "blue"]);
    let named = either.assert_code(2).stderr.clone();
    assert!(named.contains(".q1") && named.contains(".q2"), "several are open: {named}");
    let other = stage.provost(&["answer", &size, "--revision", "7", "L"]);
    assert_ne!(other.code(), Some(0), "an answer is for one revision: {other:#?}");
    assert_eq!(stage.events_of(&id, "request.settled").len(), 0, "nothing was settled");

    stage.provost(&["answer", &size, "--revision", "1", "L"]).ok();
    let left = stage.wait_state(&id, |row| row["requests"].as_array().unwrap().len() == 1);
    assert_eq!(left["requests"][0]["id"], colour.as_str(), "{left:#}");
    let again = stage.provost(&["answer", &size, "M"]);
    assert_ne!(again.code(), Some(0), "the other question never gets it: {again:#?}");
    stage.provost(&["answer", &colour, "--revision", "1", "blue"]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    let outputs = stage.model.requests()[1].request.outputs();
    let given = |no: usize| outputs[no].1.as_str();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    assert!(given(0).contains("blue") && !given(0).contains('L'), "the first call: {outputs:?}");
    assert!(given(1).contains('L') && !given(1).contains("blue"), "the second call: {outputs:?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn e17_sequential_questions_keep_their_answers() {
    let both = r#"
    { items = [
      { ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] },
      { ask = [{ id = "size", header = "Size", question = "Which size?", options = [{ label = "S", description = "small" }, { label = "L", description = "large" }] }] },
    ] },
    { items = [{ message = "Thank you." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(both)) else { return };
    let id = stage.spawn(&["Paint it."]);
    // Codex asks one at a time, in its own order.
    for no in [1, 2] {
        let asked = wait_request(&stage, &id, no);
        let is_colour = asked["questions"][0]["id"] == "colour";
        let request = asked["id"].as_str().unwrap();
        stage.provost(&["answer", request, if is_colour { "Blue" } else { "L" }]).ok();
        let again = stage.provost(&["answer", request, "Red"]);
        assert_ne!(again.code(), Some(0), "the next question never gets it: {again:#?}");
    }
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(count_outputs(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    assert_eq!(count_outputs(&stage, r#"{"answers":{"size":{"answers":["L"]}}}"#), 1);
    stage.model.assert_all_as_scripted();
}

#[test]
fn e14_unknown_request_gets_an_error() {
    let Some(stage) = CodexEnv::new("[[thread]]\nturn = []\n") else { return };
    // With this setting, Codex asks its client for the time before it calls the model.
    let clock = "[features.current_time_reminder]\nenabled = true\nclock_source = \"external\"\n";
    stage.configure_codex(MODEL, clock);
    let id = stage.spawn(&["What time is it?"]);
    let row = stage.wait_sealed(&id);
    let asked = LaunchJournal::read(&stage, &id, 1).output;
    let asked: Vec<&Value> =
        asked.iter().filter(|message| message["method"] == "currentTime/read").collect();
    assert_eq!(asked.len(), 1, "it was asked");
    assert_eq!(
        LaunchJournal::read(&stage, &id, 1)
            .keys_containing("unknown method currentTime/read")
            .len(),
        1,
        "and answered once"
    );
    assert_eq!((&row["state"], &row["claim_source"]), (&json!("failed"), &json!("turn_error")));
    assert!(row["claim_text"].as_str().unwrap().contains("currentTime/read"), "{row:#}");
}

#[test]
fn e15_unshowable_questions_are_rejected() {
    let choices =
        r#"options = [{ label = "A", description = "one" }, { label = "B", description = "two" }]"#;
    let large = "x".repeat(300 << 10);
    let asks = format!(
        r#"
    {{ items = [{{ ask = [{{ id = "large", header = "L", question = "{large}", {choices} }}] }}] }},
    {{ items = [{{ ask = [{{ id = "same", header = "1", question = "One?", {choices} }}, {{ id = "same", header = "2", question = "Two?", {choices} }}] }}] }},
    {{ items = [{{ message = "Gone on." }}] }},"#
    );
    let Some(stage) = CodexEnv::new(&turn_with_result(&asks)) else { return };
    let id = stage.spawn(&["Ask too much."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(stage.events_of(&id, "request.opened").len(), 0, "no request was opened");
    let journal = LaunchJournal::read(&stage, &id, 1);
    let asked =
        journal.output.iter().filter(|message| message["method"] == "item/tool/requestUserInput");
    assert_eq!(asked.count(), 2);
    for why in ["larger than", "two questions have the same id"] {
        assert_eq!(journal.keys_containing(why).len(), 1, "{why}");
    }
    assert_eq!(
        count_outputs(&stage, r#"{"answers":{}}"#),
        2,
        "the model knows that it has no answer"
    );
    stage.model.assert_all_as_scripted();
}

#[test]
fn r20_oldest_codex_asks_and_warns_of_gaps() {
    let Some(stage) = CodexEnv::with_version(TestedCodex::Oldest, &turn_with_result(TWO_QUESTIONS))
    else {
        return;
    };
    let id = stage.spawn(&["Paint it."]);
    wait_request(&stage, &id, 1);
    let tools = stage.model.requests()[0].request.tools();
    assert!(!tools.iter().any(|tool| tool == "request_user_input_async"), "{tools:?}");
    let answers = json!({"answers": {"colour": {"answers": ["Blue"]}, "size": {"answers": ["L"]}}});
    stage.provost_with_input(&["answer", &id, "--answers", "-"], &answers.to_string()).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(count_outputs(&stage, r#""size":{"answers":["L"]}"#), 1);
    assert_eq!(count_outputs(&stage, r#""colour":{"answers":["Blue"]}"#), 1);
    let warned = stage.events_of(&id, "agent.warned");
    assert_eq!(warned.len(), 1, "{warned:#?}");
    let warning = warned[0]["data"]["text"].as_str().unwrap();
    for lacks in ["codex 0.107.0 lacks", "MCP servers", "unix socket", "keyed messages"] {
        assert!(warning.contains(lacks), "{lacks} is not in {warning}");
    }
    stage.model.assert_all_as_scripted();
}

#[test]
fn question_across_daemon_kill_is_answered_once() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_QUESTION)) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = wait_request(&stage, &id, 1);
    stage.home.daemon().kill();
    assert_eq!(wait_request(&stage, &id, 1)["revision"], asked["revision"]);
    stage.home.provost(&["answer", &id, "Blue", "--key", "once"]).ok();
    stage.home.provost(&["answer", &id, "Blue", "--key", "once"]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
    assert_eq!(count_outputs(&stage, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#), 1);
    stage.model.assert_all_as_scripted();
}

/// Two sessions with a time limit of an hour: one asks a question, the other works.
const ASKS_AND_WORKS: &str = r#"
[[thread]]
when = { prompt = "Paint" }
turn = [
  { response = [
    { items = [{ ask = [{ id = "colour", header = "Colour", question = "Which colour?", options = [{ label = "Red", description = "warm" }, { label = "Blue", description = "cold" }] }] }] },
  ] },
  { response = [{ items = [{ message = "Thank you." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"done"}' }] }] },
]
[[thread]]
when = { prompt = "Work" }
turn = [{ response = [{ items = [{ hold = "door" }, { message = "never said" }] }] }]
"#;

#[test]
fn a04_question_survives_a_day_and_both_kills() {
    let Some(stage) = CodexEnv::new(ASKS_AND_WORKS) else { return };
    let works = stage.spawn(&["--time-limit", "1h", "Work on."]);
    stage.model.wait_for_hold("door");
    let paint = ["--time-limit", "1h", "Paint it."];
    let id = stage.spawn(&paint);
    let asked = wait_request(&stage, &id, 1);
    let thread = stage.status(&id)["thread"].clone();
    kill_agent(&stage, &id);
    eventually("it has resumed its conversation", || {
        (stage.events_of(&id, "stream.ready").len() == 2).then_some(())
    });
    stage.daemon().kill();
    stage.run_a_day_later(&["status", &id]);

    let row = stage.wait_sealed(&works);
    assert_eq!(
        (&row["state"], &row["cause"]),
        (&json!("failed"), &json!("timeout")),
        "the day passed for a session without a question: {row:#}"
    );
    let still = wait_request(&stage, &id, 1);
    assert_eq!(
        (&still["revision"], &still["questions"]),
        (&asked["revision"], &asked["questions"])
    );
    assert_eq!(stage.status(&id)["state"], "needs_input");
    stage.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["thread"], thread, "the same conversation");
    assert_eq!(row["launches"].as_array().unwrap().len(), 2, "{row:#}");
    let prompts = stage.model.requests().pop().unwrap().request.prompts();
    assert_eq!(prompts.iter().filter(|prompt| prompt.contains("Blue")).count(), 1, "{prompts:#?}");
    stage.model.assert_nothing_unexpected();
}

#[test]
fn a04_answer_resumes_a_stopped_session() {
    let Some(stage) = CodexEnv::new(ASKS_AND_WORKS) else { return };
    let id = stage.spawn(&["Paint it."]);
    let asked = wait_request(&stage, &id, 1);
    stage.provost(&["stop", &id]).ok();
    let row = stage.wait_state(&id, |row| row["process"] != "alive");
    assert_eq!(row["state"], "needs_input", "{row:#}");
    assert_eq!(wait_request(&stage, &id, 1)["questions"], asked["questions"]);
    stage.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 2, "{row:#}");
    let settled = stage.events_of(&id, "request.settled");
    assert_eq!(settled.len(), 1, "{settled:#?}");
    assert_eq!(settled[0]["data"]["status"], "answered");
    stage.model.assert_nothing_unexpected();
}

#[test]
fn a04_stop_voids_open_approval() {
    let asks = r#"
    { items = [{ shell = "echo x > x.txt", escalate = true, justification = "May I?" }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(asks)) else { return };
    let id = stage.spawn(&["Write x."]);
    wait_request(&stage, &id, 1);
    let stopped = stage.provost(&["stop", &id]);
    assert!(!stopped.ok().stderr.contains("provost approve"), "{stopped:#?}");
    let late = stage.provost(&["approve", &format!("{id}.q1")]);
    assert!(late.assert_code(4).stderr.contains("the session was stopped"), "{late:#?}");
    stage.wait_state(&id, |row| row["process"] != "alive");
    let settled = stage.events_of(&id, "request.settled");
    assert_eq!(settled.len(), 1, "{settled:#?}");
    assert_eq!(settled[0]["data"]["status"], "void");
}

/// Kills the agent's process, which is the holder's child.
fn kill_agent(stage: &CodexEnv, id: &str) {
    let row = stage.status(id);
    let pid = row["launches"][0]["pid"].as_u64().unwrap_or_else(|| panic!("no pid in {row:#}"));
    let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn e13_waiting_for_user_does_not_use_time_limit() {
    let Some(stage) = CodexEnv::new(&turn_with_result(COLOUR_QUESTION)) else { return };
    let id = stage.spawn(&["--time-limit", "8s", "Paint it."]);
    let asked = wait_request(&stage, &id, 1);
    let since = asked["asked_at"].as_i64().unwrap();
    // The time limit passes while the question is open. The test waits for the clock, because no
    // event marks that moment.
    eventually("the limit is over", || {
        let made = stage.home.root().join("clock");
        std::fs::write(&made, "").unwrap();
        let now = made.metadata().unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        (now > since as u128 + 8500).then_some(())
    });
    assert_eq!(stage.status(&id)["state"], "needs_input");
    stage.home.provost(&["answer", &id, "Blue"]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    stage.model.assert_all_as_scripted();
}

#[test]
fn a07_sent_text_reaches_agent_by_protocol() {
    let works = r#"
    { items = [{ hold = "door" }, { shell = "true" }] },
    { items = [{ message = "Heard." }] },"#;
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(works)) else { return };
        let id = stage.spawn(&["Work."]);
        stage.model.wait_for_hold("door");
        stage.home.wait_state(&id, |row| row["turns"] == 1);
        stage.home.provost(&["send", &id, "Also update the changelog."]).ok();
        stage.home.wait_state(&id, |row| {
            row["messages"]
                .as_array()
                .unwrap()
                .iter()
                .any(|m| m["status"] == "delivered" && m["kind"] != "instruction")
        });
        stage.model.release("door");
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?} {row:#}");
        let prompts = stage.model.requests().pop().unwrap().request.prompts();
        assert_eq!(
            prompts.iter().filter(|prompt| prompt.contains("Also update the changelog.")).count(),
            1,
            "{prompts:#?}"
        );
        stage.model.assert_all_as_scripted();
    }
}
