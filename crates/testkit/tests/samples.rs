//! Plays the sample scenarios.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use provost_testkit::scenario::sample;
use serde_json::Value;

use crate::agent_env::{AGENT, AgentEnv, RunningAgent};

/// Plays a sample with a fake `provost` that records the claims.
fn play(stage: &AgentEnv, name: &str, launch: u32) -> Output {
    let provost = stage.script("recorder", "echo \"$2\" >> claims");
    let mut agent = stage.agent(sample(name).expect("a sample of that name"));
    agent
        .env("PROVOST_BIN", provost)
        .env("PROVOST_LAUNCH_NO", launch.to_string())
        .output()
        .expect("the agent can be run")
}

#[test]
fn silent_samples_are_silent() {
    for (name, code) in [("exit0_silent", 0), ("exit1_silent", 1)] {
        let output = Command::new(AGENT).arg(format!("sample:{name}")).output().unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), output.stderr.len()),
            (Some(code), 0, 0),
            "{name}"
        );
    }
}

#[test]
fn reporting_samples_claim_as_named() {
    let stage = AgentEnv::new();
    assert_eq!(play(&stage, "completed_exit0", 1).status.code(), Some(0));
    assert_eq!(play(&stage, "needs_input_exit0", 1).status.code(), Some(0));
    assert_eq!(play(&stage, "needs_input_exit0", 2).status.code(), Some(0));
    assert_eq!(play(&stage, "working_killed9", 1).status.signal(), Some(9));
    assert_eq!(stage.read("claims"), "completed\nneeds-input\ncompleted\nworking\n");
}

#[test]
fn edits_and_completes_is_a_whole_turn() {
    let stage = AgentEnv::new();
    let mut playing = stage.start(sample("edits_and_completes").unwrap());
    assert_eq!(kind(&mut playing), "ready");
    playing.send(r#"{"type":"instruction","key":"k","text":"add a change"}"#);
    let kinds: Vec<String> = (0..6).map(|_| kind(&mut playing)).collect();
    assert_eq!(kinds, ["turn_started", "progress", "progress", "usage", "claim", "turn_ended"]);
    assert_eq!(playing.code(), Some(0));
    assert_eq!(stage.read("CHANGE.md"), "Instruction: add a change\n");
}

#[test]
fn asks_question_waits_for_its_answer() {
    let stage = AgentEnv::new();
    let mut playing = stage.start(sample("asks_question").unwrap());
    playing.send(r#"{"type":"instruction","key":"k","text":"go"}"#);
    assert_eq!([kind(&mut playing), kind(&mut playing)], ["ready", "turn_started"]);
    let request: Value = serde_json::from_str(&playing.line()).unwrap();
    assert_eq!((&request["type"], &request["blocking"]), (&"request".into(), &true.into()));
    assert_eq!(request["questions"][0]["options"][1]["label"], "PostgreSQL");
    assert!(!stage.path("ANSWER.json").exists());
    playing.send(r#"{"type":"answer","key":"a","request":"q1","answers":{"store":["SQLite"]}}"#);
    assert_eq!([kind(&mut playing), kind(&mut playing)], ["claim", "turn_ended"]);
    assert_eq!(playing.code(), Some(0));
    assert_eq!(stage.read("ANSWER.json"), "{\"store\":[\"SQLite\"]}\n");
}

fn kind(playing: &mut RunningAgent) -> String {
    let line: Value = serde_json::from_str(&playing.line()).expect("a JSON line");
    line["type"].as_str().expect("a type").to_owned()
}
