//! A run of real Codex through every stage, while the daemon dies at some of its commits. The
//! outcome is the same, each hook runs once, each model response is requested once, and the run
//! lands once.
//!
//! The hardening tests crash runs of the scripted agent at many more points.

use std::fs;

use provost_testkit::harness::{COMMIT_FAILPOINTS, Crash, eventually};
use serde_json::{Value, json};

use super::run_threads::{COLOUR_QUESTION, FINDING, review_thread, triage_thread, work_thread};
use crate::codex_env::CodexEnv;

/// The number of crash points to try, unless all are tried.
const SUBSET: usize = 3;

/// The exit code of a command that could not reach the daemon.
const UNREACHABLE: i32 = 6;

/// Fields that differ between any two runs. Receipts contain times; the outcome shows that all checks passed.
const VARYING: [&str; 6] = ["at", "commit", "receipts", "request", "session", "spec"];

#[test]
fn full_run_has_same_outcome_when_daemon_dies() {
    let Some((undisturbed, commits)) = play_run(None) else { return };
    let mut died = 0;
    for crash in Crash::sample(commits, &COMMIT_FAILPOINTS, SUBSET) {
        let Some((disturbed, deaths)) = play_run(Some(&crash)) else { return };
        assert_eq!(disturbed, undisturbed, "with {crash}");
        died += deaths;
    }
    assert!(died > 0, "no crash point was reached");
}

/// Plays the run. Returns its events, and the number of commits without a crash, or of daemon deaths with one.
fn play_run(crash: Option<&Crash>) -> Option<(Vec<String>, u64)> {
    let scenario = [
        triage_thread(COLOUR_QUESTION),
        work_thread("echo hello > greeting.txt"),
        review_thread(FINDING),
    ]
    .concat();
    let stage = CodexEnv::new(&scenario)?;
    let (checks, hooks) = (stage.root().join("checks.log"), stage.root().join("hooks.log"));
    let hook = |name: &str| format!("\"run.{name}\" = \"echo {name} >> {}\"\n", hooks.display());
    let names = ["opened", "question", "findings", "succeeded", "completed", "failed", "cancelled"];
    stage.configure(&format!("[hooks]\n{}", names.map(hook).concat()));
    let mut first = stage.daemon().start(crash);
    let id = open_run(
        &stage,
        &format!("grep -q hello greeting.txt && echo run >> {}", checks.display()),
    );
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    let events = settled_events(&stage, &id);

    let hooks_run = fs::read_to_string(&hooks).unwrap();
    let mut hooks_run: Vec<&str> = hooks_run.lines().collect();
    hooks_run.sort_unstable();
    assert_eq!(hooks_run, ["findings", "opened", "succeeded"], "each hook runs once");
    assert_eq!(fs::read_to_string(&checks).unwrap(), "run\n");
    let moves = stage.repo.git(&["reflog", "show", "--format=%gs", "main"]);
    assert_eq!(moves.lines().count(), 2, "created, and landed on once: {moves}");
    assert_eq!(stage.repo.read("greeting.txt"), "hello\n");
    stage.model.assert_all_as_scripted();

    let deaths = u64::from(first.try_wait().unwrap().is_some());
    let counted = if crash.is_none() { count_commits(&stage) } else { deaths };
    stage.provost(&["daemon", "stop"]).ok();
    first.wait().unwrap();
    Some((events, counted))
}

/// Opens the run exactly once, even if daemons die meanwhile.
fn open_run(stage: &CodexEnv, check: &str) -> String {
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

/// Waits for the run's hooks and its summary, and returns its other events without the varying fields.
fn settled_events(stage: &CodexEnv, id: &str) -> Vec<String> {
    let after = |event: &Value| {
        ["run.hook_finished", "run.report_written"].iter().any(|kind| event["kind"] == *kind)
    };
    let events = eventually("hooks and summary are done", || {
        let listed = stage.provost(&["events", id, "--limit", "10000", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).map_err(|_| listed)?;
        let mut events = listed["events"].as_array().cloned().unwrap_or_default();
        events.retain(|event| event["stream"] == "run");
        let ended = events.iter().filter(|event| after(event)).count();
        // The run has three hooks and a summary.
        if ended >= 4 { Ok(events) } else { Err(stage.provost(&["status", id])) }
    });
    let rest = events.iter().filter(|event| !after(event));
    rest.map(|event| format!("{} {}", event["kind"], normalize(&event["data"]))).collect()
}

fn normalize(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !VARYING.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), normalize(value))).collect())
        }
        Value::Array(items) => items.iter().map(normalize).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Returns a lower bound for the number of commits: events of one commit share a timestamp.
fn count_commits(stage: &CodexEnv) -> u64 {
    let lines = stage.provost(&["ledger", "export"]).ok().json_lines();
    let moment = |line: &Value| line["record"]["mono_ms"].as_u64();
    let moments: std::collections::BTreeSet<u64> = lines.iter().filter_map(moment).collect();
    moments.len() as u64
}
