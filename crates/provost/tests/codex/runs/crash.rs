//! A whole run of real Codex with every stage, while the daemon dies at some of its commits: the same outcome, each hook
//! once, each answer of the model asked for once, and one landing.
//!
//! The scripted agent's runs in the hardening tests are crashed at many more places.

use std::fs;

use provost_testkit::harness::{COMMIT_PLACES, Crash, eventually};
use serde_json::{Value, json};

use super::kit::{ASKS, FINDING, review, triage, work};
use crate::kit::Stage;

/// How many passages are tried unless all are.
const SUBSET: usize = 3;

/// The exit code of a command that could not reach the daemon.
const UNREACHABLE: i32 = 6;

/// What differs between any two runs. A check's receipt tells times; that all passed is told by the outcome.
const VARYING: [&str; 6] = ["at", "commit", "receipts", "request", "session", "spec"];

#[test]
fn a_run_of_every_stage_ends_the_same_whenever_the_daemon_dies() {
    let Some((undisturbed, commits)) = play(None) else { return };
    let mut died = 0;
    for crash in Crash::some(commits, &COMMIT_PLACES, SUBSET) {
        let Some((disturbed, deaths)) = play(Some(&crash)) else { return };
        assert_eq!(disturbed, undisturbed, "with {crash}");
        died += deaths;
    }
    assert!(died > 0, "no passage was reached");
}

/// Plays the run. Gives its own events, and how many commits it took (undisturbed) or how often the daemon died.
fn play(crash: Option<&Crash>) -> Option<(Vec<String>, u64)> {
    let scenario = [triage(ASKS), work("echo hello > greeting.txt"), review(FINDING)].concat();
    let stage = Stage::new(&scenario)?;
    let (checks, hooks) = (stage.root().join("checks.log"), stage.root().join("hooks.log"));
    let hook = |name: &str| format!("\"run.{name}\" = \"echo {name} >> {}\"\n", hooks.display());
    let names = ["opened", "question", "findings", "succeeded", "completed", "failed", "cancelled"];
    stage.configure(&format!("[hooks]\n{}", names.map(hook).concat()));
    let mut first = stage.daemon().start(crash);
    let id =
        open(&stage, &format!("grep -q hello greeting.txt && echo run >> {}", checks.display()));
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["proved"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    let events = settled(&stage, &id);

    let told = fs::read_to_string(&hooks).unwrap();
    let mut told: Vec<&str> = told.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["findings", "opened", "succeeded"], "each hook runs once");
    assert_eq!(fs::read_to_string(&checks).unwrap(), "run\n");
    let moves = stage.repo.git(&["reflog", "show", "--format=%gs", "main"]);
    assert_eq!(moves.lines().count(), 2, "made, and landed on once: {moves}");
    assert_eq!(stage.repo.read("greeting.txt"), "hello\n");
    stage.model.assert_all_as_scripted();

    let deaths = u64::from(first.try_wait().unwrap().is_some());
    let counted = if crash.is_none() { commits(&stage) } else { deaths };
    stage.provost(&["daemon", "stop"]).ok();
    first.wait().unwrap();
    Some((events, counted))
}

/// Opens the run, once, however often a daemon dies meanwhile.
fn open(stage: &Stage, check: &str) -> String {
    let answers = stage.root().join("answers.json");
    fs::write(&answers, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#).unwrap();
    let given = ["--answers", answers.to_str().unwrap(), "--land", "merge", "--check", check];
    let opens =
        [&["--detach", "--json", "--key", "once", "Write a greeting."][..], &given].concat();
    let opened = eventually("a daemon answers", || {
        let opened = stage.run(&opens);
        if opened.code() == Some(UNREACHABLE) { Err(opened) } else { Ok(opened) }
    });
    opened.ok().json()["id"].as_str().unwrap().to_owned()
}

/// Waits for the run's hooks and its card, and gives its other events without what differs between any two runs.
fn settled(stage: &Stage, id: &str) -> Vec<String> {
    let after = |event: &Value| {
        ["run.hook_finished", "run.card_written"].iter().any(|kind| event["kind"] == *kind)
    };
    let events = eventually("hooks and card are done", || {
        let listed = stage.provost(&["events", id, "--limit", "10000", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).map_err(|_| listed)?;
        let mut events = listed["events"].as_array().cloned().unwrap_or_default();
        events.retain(|event| event["stream"] == "run");
        let ended = events.iter().filter(|event| after(event)).count();
        // Three hooks and a card.
        if ended >= 4 { Ok(events) } else { Err(stage.provost(&["status", id])) }
    });
    let rest = events.iter().filter(|event| !after(event));
    rest.map(|event| format!("{} {}", event["kind"], normal(&event["data"]))).collect()
}

fn normal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !VARYING.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), normal(value))).collect())
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// How many commits there were, at least: what is decided together has one moment.
fn commits(stage: &Stage) -> u64 {
    let lines = stage.provost(&["ledger", "export"]).ok().json_lines();
    let moment = |line: &Value| line["record"]["mono_ms"].as_u64();
    let moments: std::collections::BTreeSet<u64> = lines.iter().filter_map(moment).collect();
    moments.len() as u64
}
