//! The death of a process ends every wait at once, with its own reason.

use std::process::Stdio;

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use crate::kit::{HANGS, Stage, kill, text};

/// An agent that prints a line and then lives until it is ended.
fn says_and_hangs() -> String {
    format!("[[step]]\nsay = \"here\"\n{HANGS}")
}

#[test]
fn e16_process_death_ends_every_wait_with_its_own_reason() {
    let stage = Stage::new();
    let agent = text(&provost_testkit::harness::scripted_agent_bin());
    let scenario = text(&stage.home.scenario("hang", &says_and_hangs()));
    let mut waiting = stage
        .home
        .command(&["spawn", "--name", "dying", "--wait", "--json", "--", &agent, &scenario]);
    let waiting =
        waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the session", || {
        stage.home.provost(&["status", "dying"]).code().filter(|code| *code == 0)
    });
    let pid = stage.pid("dying");
    let events = stage.home.follow(&["events", "dying", "-f", "--json"]);
    let mut logs = stage.home.follow(&["logs", "dying", "-f"]);
    logs.wait_line("the output", |line| line.contains("here").then_some(()));
    kill(pid);
    let ended = events.wait_line("the end of the process", |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["kind"] == "process.ended").then_some(event)
    });
    assert_eq!(ended["data"]["end"], json!({"signal": 9}));
    assert_eq!(ended["data"]["by"], "itself");
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&reply["ok"], &reply["error"]["code"]), (&json!(false), &json!("failed")));
    let row = &reply["session"];
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("crash")));
    assert_eq!(row["exit"], json!({"code": null, "signal": 9, "by": "itself"}));
    assert!(logs.wait_end().success());
}

#[test]
fn e16_each_end_has_its_own_reason_in_the_wait() {
    let stage = Stage::new();
    let ends = [
        ("exit = 3", &[][..], 1, "failed crash code=3 signal=null"),
        ("die = 15", &[], 1, "failed crash code=null signal=15"),
        ("exit = 0", &[], 1, "ended_unclaimed null code=0 signal=null"),
        ("exit = 0", &["--exit0-is-done"], 0, "completed null code=0 signal=null"),
        ("hang = true", &["--time-limit", "200ms"], 1, "failed timeout code=null signal=15"),
    ];
    for (step, flags, code, expected) in ends {
        let agent = text(&provost_testkit::harness::scripted_agent_bin());
        let scenario = text(&stage.home.scenario("end", &format!("[[step]]\n{step}\n")));
        let arguments =
            [&["spawn", "--wait", "--json"], flags, &["--", &agent, &scenario]].concat();
        let row = stage.home.provost(&arguments).exits(code).json()["session"].clone();
        let cause = row["cause"].as_str().unwrap_or("null");
        let (exit, state) = (&row["exit"], row["state"].as_str().unwrap());
        assert_eq!(
            format!("{state} {cause} code={} signal={}", exit["code"], exit["signal"]),
            expected
        );
    }
    let missing = stage
        .home
        .provost(&["spawn", "--wait", "--json", "--", "/no/such/program"])
        .exits(1)
        .json();
    assert_eq!(
        (&missing["session"]["state"], &missing["session"]["cause"]),
        (&json!("failed"), &json!("launch"))
    );
}

#[test]
fn e16_a_wait_lasts_across_the_death_of_the_daemon() {
    let stage = Stage::new();
    let agent = text(&provost_testkit::harness::scripted_agent_bin());
    let scenario = text(
        &stage
            .home
            .scenario("go", "[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n"),
    );
    let mut waiting = stage
        .home
        .command(&["spawn", "--name", "waited", "--wait", "--json", "--", &agent, &scenario]);
    let waiting =
        waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the session", || {
        stage.home.provost(&["status", "waited"]).code().filter(|code| *code == 0)
    });
    stage.pid("waited");
    stage.home.daemon().kill();
    std::fs::write(stage.file("go"), "").unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reply["session"]["state"], "completed");
}

#[test]
fn e16_the_death_of_a_holder_ends_the_wait_as_unobserved() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    let agent = stage.pid(&id);
    let logs = stage.home.follow(&["logs", &id, "-f"]);
    let started = stage.events_of(&id, "launch.started").remove(0);
    kill(u32::try_from(started["data"]["holder"]["pid"].as_u64().unwrap()).unwrap());
    let row = stage.sealed(&id);
    assert_eq!(row["process"], "unknown", "how it ended was not seen: {row}");
    assert!(row["flags"].as_array().unwrap().contains(&json!("exit_code_unobserved")), "{row}");
    assert!(!crate::kit::lives(agent), "what outlives its holder is ended");
    drop(logs);
}
