//! How headless agents end, and that their outcome stays the same.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::TestEnv;

#[test]
fn a01_reported_completed_exit_0_stays_completed() {
    let stage = TestEnv::new();
    let id = stage.spawn_sample("completed_exit0", &[]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed");
    assert_eq!((&row["cause"], &row["requests"]), (&Value::Null, &json!([])));
    assert_eq!((&row["claim"], &row["claim_source"]), (&json!("completed"), &json!("agent")));
    assert_eq!((&row["process"], &row["exit"]["code"]), (&json!("exit0"), &json!(0)));
    assert_eq!((&row["facts"], &row["verification"]), (&json!([]), &json!("none")));
    assert_immediate_outcome(&stage, &id);
    for _ in 0..20 {
        assert_eq!(stage.status(&id), row, "a look changed it");
    }
    let events = stage.events(&id);
    stage.home.daemon().kill();
    assert_eq!(stage.status(&id), row, "a killed daemon changed it");
    stage.home.daemon().stop();
    assert_eq!(stage.status(&id), row, "a stopped daemon changed it");
    assert_eq!(stage.events(&id), events);
}

/// Asserts that the session has no other state between the exit of its process and its outcome, and
/// no other events.
#[track_caller]
fn assert_immediate_outcome(stage: &TestEnv, id: &str) {
    let events = stage.events(id);
    let sealed = events.iter().find(|event| event["kind"] == "attempt.sealed").unwrap();
    assert_eq!(sealed["data"]["sealed"]["judgement"]["state"], "completed");
    let kinds: BTreeSet<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    let needed = [
        "session.opened",
        "work.prepared",
        "launch.requested",
        "launch.started",
        "claim.made",
        "process.ended",
        "stream.closed",
        "process_tree.reaped",
        "attempt.sealed",
    ];
    assert!(kinds.is_subset(&BTreeSet::from(needed)), "{kinds:?}");
}

#[test]
fn a01_end_is_the_same_without_a_daemon() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(
        "[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\nmessage = \"alone\"\n[[step]]\nexit = 0\n",
        &[],
    );
    stage.pid(&id);
    stage.home.daemon().kill();
    std::fs::write(stage.file("go"), "").unwrap();
    let gone = stage.home.path().join("launches").join(format!("{id}.l1/gone.json"));
    eventually("the end of the process", || gone.exists().then_some(()));
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("alone")));
    assert_eq!(stage.events_of(&id, "claim.made").len(), 1);
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
}

/// Viewers that leave or stay do not affect the end of a session.
#[test]
fn a01_end_does_not_depend_on_viewers() {
    let stage = TestEnv::new();
    let waits = "[[step]]\nsay = \"at work\"\n[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n[[step]]\nexit = 0\n";
    let ids = [0; 3].map(|_| stage.spawn_scenario(waits, &[]));
    let mut viewers = [&ids[0], &ids[1]].map(|id| {
        let mut viewer = stage.home.command(&["logs", id, "-f"]);
        let mut viewer = viewer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(viewer.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("at work"), "{first}");
        viewer
    });
    viewers[1].kill().unwrap();
    viewers[1].wait().unwrap();
    for id in &ids {
        assert_eq!(stage.status(id)["state"], "working");
    }
    std::fs::write(stage.file("go"), "").unwrap();
    let lines = ids
        .clone()
        .map(|id| describe_row(&stage.wait_sealed(&id)).split_once(' ').unwrap().1.to_owned());
    assert!(lines.iter().all(|one| *one == lines[0]), "{lines:#?}");
    assert_eq!(stage.status(&ids[0])["state"], "completed");
    viewers[0].wait().unwrap();
}

#[test]
fn a02_five_endings_have_distinct_records() {
    let stage = TestEnv::new();
    let samples =
        ["exit0_silent", "exit1_silent", "completed_exit0", "needs_input_exit0", "working_killed9"];
    let ids = samples.map(|sample| stage.spawn_sample(sample, &["--name", sample]));
    for id in &ids {
        stage.home.wait_state(id, |row| {
            row["process"] != "alive" && row["activity"] == "exited" && is_settled(row)
        });
    }
    let rows = stage.list_sessions();
    let lines =
        ids.map(|id| describe_row(rows.iter().find(|row| row["id"] == id.as_str()).unwrap()));
    assert_eq!(
        lines,
        [
            "exit0_silent exited_without_claim null true none exit0 code=0 signal=null []",
            "exit1_silent failed \"crash\" true none exitN code=1 signal=null []",
            "completed_exit0 completed null true completed exit0 code=0 signal=null [\"unverified\"]",
            "needs_input_exit0 needs_input null false needs_input exit0 code=0 signal=null []",
            "working_killed9 failed \"crash\" true working exitN code=null signal=9 []",
        ]
    );
    let distinct: BTreeSet<&str> =
        lines.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(distinct.len(), 5);
}

fn is_settled(row: &Value) -> bool {
    row["sealed"] == true || row["state"] == "needs_input"
}

fn describe_row(row: &Value) -> String {
    let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {} {} {} {} code={} signal={} {}",
        word("name"),
        word("state"),
        row["cause"],
        row["terminal"],
        word("claim"),
        word("process"),
        row["exit"]["code"],
        row["exit"]["signal"],
        row["flags"]
    )
}
