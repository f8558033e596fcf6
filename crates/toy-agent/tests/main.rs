//! A new agent, registered by a program of its own, is supervised like any other. A build without
//! its adapter neither starts nor interprets it.

use std::path::PathBuf;

use provost_api::{Client, OpenSessionRequest};
use provost_testkit::harness::{TestHome, provost_bin};
use serde_json::{Value, json};

/// Returns a home whose `provost` knows the toy agent.
fn toy_home() -> TestHome {
    let home = TestHome::with_provost(PathBuf::from(env!("CARGO_BIN_EXE_provost-with-toy")));
    home.configure(&format!("[agents.toy]\npath = {:?}\n", env!("CARGO_BIN_EXE_toy-agent")));
    home
}

/// Shortens the wait for the answer to an interrupt, which an agent with an unknown adapter never
/// gets.
const SHORT_STOP_GRACE: &str = "[session]\nstop_grace = \"1s\"\n";

#[track_caller]
fn spawn(home: &TestHome, arguments: &[&str]) -> String {
    let spawned = home.provost(&[&["spawn", "--json", "--agent", "toy"], arguments].concat());
    spawned.ok().json()["id"].as_str().expect("a session has an id").to_owned()
}

#[test]
fn protocol_reports_turn_question_and_result() {
    let home = toy_home();
    let id = spawn(&home, &["paint the wall", "--model", "m1"]);
    let row = home.wait(&id, "needs_input");
    let request = &row["requests"][0];
    assert_eq!((&request["kind"], &request["title"]), (&json!("question"), &json!("Which color?")));
    assert_eq!((&row["adapter"], &row["thread"]), (&json!("toy"), &json!("toy-1")));
    assert_eq!(row["turns"], 1);
    home.provost(&["answer", &id, "blue"]).ok();
    let row = home.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row}");
    assert!(row.to_string().contains("painted in blue"), "{row}");
    let logs = home.provost(&["logs", &id]);
    assert!(logs.stdout.contains("I was told to paint the wall"), "{}", logs.stdout);
    assert!(!logs.stdout.contains("begin 1"), "{}", logs.stdout);
}

#[test]
fn screen_shows_request_and_transcript_shows_turn() {
    let home = toy_home();
    let id = spawn(&home, &["--tty"]);
    let row = home.wait(&id, "needs_input");
    let request = &row["requests"][0];
    assert_eq!(request["title"], "May I paint the wall?", "{row}");
    home.provost(&["approve", &id]).ok();
    let row = home.wait_state(&id, |row| row["turns"] == 1 && row["state"] != "needs_input");
    assert_eq!(row["thread"], "toy-1", "{row}");
    home.wait_state(&id, |_| home.events(&id).iter().any(|event| event["kind"] == "turn.ended"));
    home.provost(&["cancel", &id]).ok();
    home.wait_sealed(&id);
}

#[test]
fn section_and_options_belong_to_the_agent() {
    let home = toy_home();
    let shown = home.provost(&["config", "show", "--json"]).ok().json();
    let keys: Vec<&str> = shown["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["key"].as_str())
        .filter(|key| key.starts_with("agents.toy."))
        .collect();
    assert_eq!(keys, ["agents.toy.path", "agents.toy.model"]);
    let once = home.provost(&["spawn", "--agent", "toy", "--once", "paint"]);
    assert!(once.stderr.contains("Toy cannot run with --once"), "{}", once.stderr);
    let refused = home.provost(&["spawn", "--agent", "toy", "--sandbox", "read-only", "paint"]);
    assert!(refused.stderr.contains("agents.toy.sandbox"), "{}", refused.stderr);
}

#[test]
fn unknown_adapter_is_neither_interpreted_nor_prompted() {
    let mut home = toy_home();
    let id = spawn(&home, &["paint the wall"]);
    home.wait(&id, "needs_input");
    home.daemon().stop();
    home.use_provost(provost_bin());
    // This build does not know the section either.
    home.configure("");
    let row = home.wait_state(&id, |row| row["process"] == "unknown");
    let warnings = row["warnings"].to_string();
    assert!(warnings.contains("there is no adapter \\\"toy\\\" in this build"), "{warnings}");
    assert!(warnings.contains("known adapters: command, jsonl"), "{warnings}");
    home.provost(&["answer", &id, "blue"]).ok();
    assert_eq!(home.events_of(&id, "message.delivered").len(), 1, "only the instruction");
    // The build that knows the adapter continues where it stopped.
    home.daemon().stop();
    home.use_provost(PathBuf::from(env!("CARGO_BIN_EXE_provost-with-toy")));
    let row = home.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row}");
}

#[test]
fn session_with_unknown_adapter_can_be_cancelled() {
    let mut home = toy_home();
    home.configure(&format!(
        "{SHORT_STOP_GRACE}[agents.toy]\npath = {:?}\n",
        env!("CARGO_BIN_EXE_toy-agent")
    ));
    let id = spawn(&home, &["paint the wall"]);
    home.wait(&id, "needs_input");
    home.daemon().stop();
    home.use_provost(provost_bin());
    home.configure("");
    home.wait_state(&id, |row| row["process"] == "unknown");
    home.provost(&["cancel", &id]).ok();
    let row = home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["process"]), (&json!("cancelled"), &json!("stopped")), "{row}");
}

#[test]
fn unknown_adapter_is_refused_when_a_session_is_opened() {
    let mut home = toy_home();
    let id = spawn(&home, &["paint the wall"]);
    home.wait(&id, "needs_input");
    let opened = home.events_of(&id, "session.opened");
    home.provost(&["cancel", &id]).ok();
    home.wait_sealed(&id);
    home.daemon().stop();
    home.use_provost(provost_bin());
    home.configure("");
    let unknown = home.provost(&["spawn", "--agent", "toy", "paint"]);
    assert!(unknown.stderr.contains("there is no agent \"toy\""), "{}", unknown.stderr);
    home.provost(&["daemon", "status"]);
    home.provost(&["spawn", "--wait", "--", "true"]).ok();
    let client = Client::new(home.path().join("daemon.sock"));
    let request = OpenSessionRequest { id: None, spec: opened[0]["data"]["spec"].clone() };
    let refused = client.post::<Value>("/v1/sessions", &request, "again").unwrap_err();
    let expected = "there is no adapter \"toy\" in this build of Provost; known adapters: ";
    assert!(refused.message.starts_with(expected), "{}", refused.message);
}
