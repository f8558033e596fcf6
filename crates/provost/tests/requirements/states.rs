//! Every declared state is reached.

use std::{collections::BTreeSet, fs};

use provost_core::lifecycle::State;
use serde_json::Value;

use provost_testkit::env::{HANGS, TestEnv};

/// Claims nothing in two turns, and ignores a request to exit.
const CLAIMS_NOTHING: &str = r#"
[[step]]
ignore_term = true
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
wait_input = { type = "result_wanted" }
[[step]]
emit = { type = "turn_started", turn = "t2" }
[[step]]
emit = { type = "turn_ended", turn = "t2", status = "ok" }
[[step]]
hang = true
"#;

/// Makes a claim that its checks refute, and ignores a request to exit.
const CLAIMS_FAIL_CHECKS: &str = r#"
[[step]]
ignore_term = true
[[step]]
write = { path = "a.txt", content = "a" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
emit = { type = "claim", claim = "completed" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
hang = true
"#;

const WRITES_FILE: &str = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n";

#[test]
fn e25_all_declared_states_are_reached() {
    let mut stage = TestEnv::new();
    stage.home.set_env("PROVOST_SESSION_STOP_GRACE", "300ms");
    let repo = stage.home.repo("work");
    configure_agents(&stage);
    // Only a follower sees short-lived states, so the daemon is killed before the other sessions
    // start.
    let lost = stage.spawn_scenario(HANGS, &["--stale-after", "100ms"]);
    let mut seen: BTreeSet<String> = make_unobservable(&stage, &lost);
    let follower = stage.home.follow(&["events", "-f", "--since", "0", "--json"]);
    follower.wait_line("the stream is open", |line| line.contains("session.opened").then_some(()));
    let top = stage.home.root().to_owned();
    stage.spawn_in(&top, &["--agent", "deaf", "go"]);
    stage.spawn_in(repo.path(), &["--agent", "refuted", "--worktree", "--check", "false", "go"]);
    stage.spawn_scenario_in(repo.path(), WRITES_FILE, &["--worktree", "--check", "sleep 0.2"]);
    stage.spawn_sample("needs_input_exit0", &[]);
    stage.spawn_scenario("[[step]]\nreport = \"completed\"\n[[step]]\nsleep_ms = 300\n", &[]);
    stage.spawn_scenario("[[step]]\nreport = \"completed\"\n[[step]]\nexit = 1\n", &[]);
    stage.spawn_scenario("[[step]]\nexit = 1\n", &[]);
    let unclaimed = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    let cancelled = stage.spawn_scenario(HANGS, &[]);
    stage.home.provost(&["cancel", &cancelled]).ok();
    let stopped = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&stopped);
    stage.home.provost(&["stop", &stopped]).ok();
    let superseded = stage.spawn_in(&top, &["--agent", "deaf", "first"]);
    stage.home.provost(&["send", &superseded, "--supersede", "second"]).ok();
    stage.wait_sealed(&unclaimed);
    stage.home.provost(&["resolve", &unclaimed, "--as", "accepted", "--because", "seen"]).ok();
    let declared: BTreeSet<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
    follower.wait_line("every state", |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let shown = [
            &event["state"],
            &event["data"]["sealed"]["judgement"]["state"],
            &event["data"]["state"],
        ];
        seen.extend(shown.into_iter().filter_map(Value::as_str).map(str::to_owned));
        let missing: Vec<_> = declared.iter().filter(|state| !seen.contains(**state)).collect();
        missing.is_empty().then_some(())
    });
}

/// Makes the launch unobservable until it is shown as lost, and then observable again; returns the states that
/// were seen.
fn make_unobservable(stage: &TestEnv, id: &str) -> BTreeSet<String> {
    let stalled = stage.wait(id, "stalled");
    let held = stage.home.path().join("launches").join(format!("{id}.l1/held.json"));
    let whole = fs::read(&held).unwrap();
    stage.home.daemon().kill();
    fs::write(&held, "{").unwrap();
    let row = stage.wait(id, "lost");
    assert_eq!((&row["terminal"], &row["process"]), (&false.into(), &"unknown".into()));
    fs::write(&held, whole).unwrap();
    stage.home.wait_state(id, |row| row["process"] == "alive");
    [stalled, row].iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

fn configure_agents(stage: &TestEnv) {
    let mut toml = String::from("session.rework = 0\n");
    for (name, scenario) in [("deaf", CLAIMS_NOTHING), ("refuted", CLAIMS_FAIL_CHECKS)] {
        toml.push_str(&stage.scripted_agent(name, scenario));
    }
    stage.configure(&toml);
}
