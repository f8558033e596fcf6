//! Questions, answers and instructions reach the agent exactly once.

use std::fs;

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{HANGS, TALKER, TestEnv, is_running, text};

/// Works on one instruction after another and records all of its input.
const SERVES_INSTRUCTIONS: &str = r#"
[[step]]
emit = { type = "ready", thread = "serving" }
[[step]]
[step.repeat]
times = 20
steps = [
  { wait_input = { type = "instruction" } },
  { append = { path = "input", content = "{{input}}\n" } },
  { emit = { type = "turn_started", turn = "t{{n}}" } },
  { emit = { type = "claim", claim = "completed", text = "did {{input}}" } },
  { emit = { type = "turn_ended", turn = "t{{n}}", status = "ok" } },
]
"#;

/// Starts a turn and records every line of its input.
const RECORDS_INPUT: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
repeat = { times = 99, steps = [ { read_line = true }, { append = { path = "input", content = "{{input}}\n" } } ] }
"#;

const SHORT_STOP_GRACE: &str = "[session]\nstop_grace = \"100ms\"\n";

#[test]
fn question_needs_input_and_answer_arrives_once() {
    let stage = TestEnv::new();
    stage.configure(&stage.sample_agent("asker", "asks_question"));
    let id = stage.spawn_in(stage.home.root(), &["--agent", "asker", "store it"]);
    let row = stage.wait(&id, "needs_input");
    let request = &row["requests"][0];
    assert_eq!(
        (&request["kind"], &request["blocking"], &request["title"]),
        (&json!("question"), &json!(true), &json!("Storage"))
    );
    assert_eq!(request["questions"][0]["options"][0], "SQLite");
    assert_eq!(
        (&row["terminal"], &row["process"], &row["thread"]),
        (&json!(false), &json!("alive"), &json!("scripted-thread"))
    );
    let stale = stage
        .home
        .provost(&["answer", &id, "x", "--revision", "7", "--json"])
        .assert_code(4)
        .json();
    assert_eq!(stale["ok"], false);
    stage.home.provost(&["answer", request["id"].as_str().unwrap(), "SQLite"]).ok();
    // The daemon may die between the answer and its delivery, and receive the same request again.
    stage.home.daemon().kill();
    stage
        .home
        .provost(&["answer", request["id"].as_str().unwrap(), "PostgreSQL", "--json"])
        .assert_code(4);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["requests"]), (&json!("completed"), &json!([])));
    let got = fs::read_to_string(stage.file("ANSWER.json")).unwrap();
    assert!(got.contains("SQLite"), "{got}");
    assert_eq!(
        stage.events_of(&id, "message.delivered").len(),
        2,
        "the instruction and the answer"
    );
    let keys: Vec<_> = row["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["status"].clone())
        .collect();
    assert_eq!(keys, ["delivered", "delivered"]);
}

#[test]
fn secret_answer_from_stdin_is_not_stored() {
    let stage = TestEnv::new();
    stage.configure_talker(
        r#"
[[step]]
emit = { type = "turn_started", turn = "t" }
[[step]]
emit = { type = "request", id = "q", kind = "question", blocking = true, title = "Key?", questions = [ { id = "k", header = "k", question = "k", options = [], secret = true } ] }
[[step]]
wait_input = { type = "answer" }
[[step]]
write = { path = "got", content = "{{input}}" }
[[step]]
emit = { type = "claim", claim = "completed" }
[[step]]
emit = { type = "turn_ended", turn = "t", status = "ok" }
"#,
        SHORT_STOP_GRACE,
    );
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "go"]);
    stage.wait(&id, "needs_input");
    stage.home.provost(&["answer", &id, "hunter2hunter2", "--json"]).assert_code(2);
    stage.home.provost_with_input(&["answer", &id, "-"], "hunter2hunter2").ok();
    stage.wait_sealed(&id);
    assert!(fs::read_to_string(stage.file("got")).unwrap().contains("hunter2hunter2"));
    stage.home.daemon().stop();
    assert_eq!(files_with(&stage.home.path(), "hunter2hunter2"), Vec::<String>::new());
}

#[cfg(feature = "failpoints")]
#[test]
fn secret_lost_with_daemon_is_asked_again() {
    let mut stage = TestEnv::new();
    stage.configure_talker(
        r#"
[[step]]
emit = { type = "turn_started", turn = "t" }
[[step]]
if_launch = 1
emit = { type = "request", id = "q", kind = "question", blocking = true, title = "Key?", questions = [ { id = "k", header = "k", question = "k", options = [], secret = true } ] }
[[step]]
if_launch = 1
exit = 0
[[step]]
wait_input = { type = "answer" }
[[step]]
append = { path = "got", content = "{{input}}\n" }
[[step]]
emit = { type = "claim", claim = "completed" }
"#,
        "[session]\nstop_grace = \"100ms\"\n",
    );
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "go"]);
    stage.home.wait_state(&id, |row| row["state"] == "needs_input" && row["process"] == "exit0");
    // The daemon dies after it recorded the answer and before it could deliver it.
    stage.home.daemon().stop();
    stage.home.set_env("PROVOST_FAILPOINT", "commit.after:1");
    stage.home.provost_with_input(&["answer", &id, "-"], "first").assert_code(6);
    stage.home.set_env("PROVOST_FAILPOINT", "");
    let row = stage.home.wait_state(&id, |row| {
        row["state"] == "needs_input" && row["requests"][0]["revision"].as_u64() >= Some(2)
    });
    assert_eq!(row["requests"][0]["title"], "Key?");
    stage.home.provost_with_input(&["answer", &id, "-"], "second").ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(fs::read_to_string(stage.file("got")).unwrap(), "second\n");
}

/// The files below a directory that contain a text.
fn files_with(dir: &std::path::Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_with(&path, needle)),
            kind if kind.is_file() => {
                let bytes = fs::read(&path).unwrap();
                if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                    found.push(text(&path));
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn answer_after_exit_relaunches_agent_once() {
    let stage = TestEnv::new();
    stage.configure_talker(
        r#"
[[step]]
append = { path = "launches", content = "{{launch_no}}\n" }
[[step]]
if_launch = 1
emit = { type = "ready", thread = "kept" }
[[step]]
if_launch = 1
emit = { type = "turn_started", turn = "t1" }
[[step]]
if_launch = 1
emit = { type = "request", id = "q", kind = "question", blocking = true, title = "Which?", questions = [] }
[[step]]
if_launch = 1
exit = 0
[[step]]
wait_input = { type = "answer" }
[[step]]
append = { path = "answers", content = "{{input}}\n" }
[[step]]
emit = { type = "claim", claim = "completed" }
"#,
        SHORT_STOP_GRACE,
    );
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "go"]);
    let row = stage
        .home
        .wait_state(&id, |row| row["state"] == "needs_input" && row["process"] == "exit0");
    assert!(row["flags"].as_array().unwrap().contains(&json!("answer_resumes")), "{row}");
    stage.home.daemon().kill();
    stage.home.provost(&["answer", &id, "the second"]).ok();
    stage.home.daemon().kill();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["attempt"]), (&json!("completed"), &json!(1)));
    assert_eq!(fs::read_to_string(stage.file("launches")).unwrap(), "1\n2\n");
    assert_eq!(fs::read_to_string(stage.file("answers")).unwrap(), "the second\n");
}

#[test]
fn kept_agent_serves_next_attempt_in_same_launch() {
    let stage = TestEnv::new();
    stage.configure_talker(SERVES_INSTRUCTIONS, SHORT_STOP_GRACE);
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "--keep", "first"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["process"], &row["attempt"]),
        (&json!("completed"), &json!("alive"), &json!(1))
    );
    let pid = stage.pid(&id);
    stage.home.provost(&["send", &id, "second", "--key", "s"]).ok();
    stage.home.provost(&["send", &id, "second", "--key", "s"]).ok();
    let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("did second")));
    assert_eq!((row["launches"].as_array().unwrap().len(), stage.pid(&id)), (1, pid));
    assert_eq!(fs::read_to_string(stage.file("input")).unwrap(), "first\nsecond\n");
    stage.home.provost(&["stop", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["process"] != "alive");
    assert_eq!(row["state"], "completed", "a parked agent's end changes no outcome");
}

#[test]
fn without_keep_next_instruction_relaunches() {
    let stage = TestEnv::new();
    stage.configure_talker(SERVES_INSTRUCTIONS, SHORT_STOP_GRACE);
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "first"]);
    stage.home.wait_state(&id, |row| row["sealed"] == true && row["process"] != "alive");
    stage.home.provost(&["send", &id, "second"]).ok();
    let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(
        (&row["state"], row["launches"].as_array().unwrap().len()),
        (&json!("completed"), 2)
    );
    assert_eq!(fs::read_to_string(stage.file("input")).unwrap(), "first\nsecond\n");
}

#[test]
fn message_to_open_attempt_steers_it() {
    let stage = TestEnv::new();
    stage.configure_talker(RECORDS_INPUT, SHORT_STOP_GRACE);
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "begin"]);
    for key in ["a", "a", "b"] {
        stage.home.provost(&["send", &id, &format!("also {key}"), "--key", key]).ok();
    }
    let input = eventually("the input", || {
        let input = fs::read_to_string(stage.file("input")).unwrap_or_default();
        if input.lines().count() >= 3 { Ok(input) } else { Err(input) }
    });
    let kinds: Vec<String> = input
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", line["type"].as_str().unwrap(), line["text"].as_str().unwrap())
        })
        .collect();
    assert_eq!(kinds, ["instruction begin", "steer also a", "steer also b"]);
    assert_eq!(stage.status(&id)["attempt"], 1);
}

#[test]
fn superseding_instruction_ends_open_attempt() {
    let stage = TestEnv::new();
    stage.configure_talker(
        "[[step]]\nwait_input = { type = \"instruction\" }\n[[step]]\nemit = { type = \"turn_started\", turn = \"t\" }\n[[step]]\nif_launch = 1\nwait_input = { type = \"instruction\" }\n[[step]]\nemit = { type = \"claim\", claim = \"completed\", text = \"{{input}}\" }\n[[step]]\nemit = { type = \"turn_ended\", turn = \"t\", status = \"ok\" }\n",
        SHORT_STOP_GRACE,
    );
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "old"]);
    stage.pid(&id);
    stage.home.provost(&["send", &id, "new", "--supersede"]).ok();
    let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(
        (&row["state"], &row["claim_text"], &row["instruction"]),
        (&json!("completed"), &json!("new"), &json!("new"))
    );
    let sealed: Vec<_> = stage
        .events_of(&id, "attempt.sealed")
        .iter()
        .map(|event| event["data"]["sealed"]["judgement"]["state"].clone())
        .collect();
    assert_eq!(sealed, ["superseded", "completed"]);
}

#[test]
fn stop_ends_the_process_and_cancel_the_work() {
    let mut stage = TestEnv::new();
    stage.home.set_env("PROVOST_SESSION_STOP_GRACE", "200ms");
    let stopped = stage.spawn_scenario(HANGS, &[]);
    let cancelled = stage.spawn_sample("ignores_term_with_grandchildren", &[]);
    let pids = [stage.pid(&stopped), stage.pid(&cancelled)];
    stage.home.provost(&["stop", &stopped]).ok();
    stage.home.provost(&["cancel", &cancelled, "--because", "not now"]).ok();
    let row = stage.wait_sealed(&stopped);
    assert_eq!(
        (&row["state"], &row["exit"]["by"], &row["process"]),
        (&json!("stopped"), &json!("provost"), &json!("stopped"))
    );
    let row = stage.wait_sealed(&cancelled);
    assert_eq!((&row["state"], &row["reason"]), (&json!("cancelled"), &json!("not now")));
    assert!(pids.iter().all(|pid| !is_running(*pid)));
    stage.home.provost(&["stop", &stopped, "--json"]).assert_code(4);
    let repeated = stage.home.provost(&["cancel", &cancelled, "--json"]);
    assert!(repeated.ok().stderr.contains("already cancelled"), "{repeated:?}");
    stage.home.provost(&["send", &cancelled, "go on", "--json"]).assert_code(4);
}
