//! Following events: no event is missed or repeated, whichever process dies meanwhile.

use serde_json::Value;

use crate::run_env::RunEnv;
use provost_testkit::env::{HANGS, TestEnv};

#[test]
fn follower_is_exact_across_daemon_death() {
    let stage = TestEnv::new();
    stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    let follower = stage.home.follow(&["events", "-f", "--since", "0", "--json"]);
    let mut seen = Vec::new();
    for round in 0..3 {
        let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &[]);
        stage.wait_sealed(&id);
        follow_until(&follower, &mut seen, |event| {
            event["session"] == id.as_str() && event["kind"] == "attempt.sealed"
        });
        stage.home.daemon().kill();
        assert!(seen.len() > round * 3);
    }
    let last = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    stage.home.wait_state(&last, |row| row["sealed"] == true && row["activity"] == "exited");
    follow_until(&follower, &mut seen, |event| {
        event["session"] == last.as_str() && event["kind"] == "attempt.sealed"
    });
    let expected: Vec<u64> = (1..=*seen.last().unwrap()).collect();
    assert_eq!(seen, expected);
}

/// Collects the sequence numbers up to an event.
#[track_caller]
fn follow_until(
    follower: &provost_testkit::harness::OutputFollower,
    seen: &mut Vec<u64>,
    last: impl Fn(&Value) -> bool,
) {
    follower.wait_line("an event", |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        seen.push(event["seq"].as_u64().unwrap());
        last(&event).then_some(())
    });
}

#[test]
fn since_starts_after_a_sequence_number() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    stage.wait_sealed(&id);
    let all = stage.home.provost(&["events", "--json"]).ok().json();
    let seqs = |list: &Value| -> Vec<u64> {
        list["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect()
    };
    let some = stage.home.provost(&["events", "--since", "4", "--json"]).ok().json();
    assert_eq!(seqs(&some)[..], seqs(&all)[4..]);
    let follower = stage.home.follow(&["events", "-f", "--since", "4", "--json"]);
    let first =
        follower.wait_line("the first event", |line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(first["seq"], 5);
    let other = stage.spawn_scenario(HANGS, &[]);
    let one = stage.home.follow(&["events", &other, "-f", "--json"]);
    let first = one.wait_line("the first event of the session", |line| {
        serde_json::from_str::<Value>(line).ok()
    });
    assert_eq!(
        (&first["kind"], &first["session"]),
        (&"session.opened".into(), &other.as_str().into())
    );
}

#[test]
fn logs_follow_across_daemon_death() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario("[[step]]\nsay = \"one\"\n[[step]]\nwait_file = \"go\"\n[[step]]\nsay = \"two\"\n[[step]]\nreport = \"completed\"\n", &[]);
    let mut logs = stage.home.follow(&["logs", &id, "-f"]);
    let mut lines = Vec::new();
    logs.wait_line("the first line", |line| {
        lines.push(line.to_owned());
        line.contains("one").then_some(())
    });
    stage.home.daemon().kill();
    std::fs::write(stage.file("go"), "").unwrap();
    logs.wait_line("the second line", |line| {
        lines.push(line.to_owned());
        line.contains("two").then_some(())
    });
    assert!(logs.wait_end().success());
    assert_eq!(lines.iter().filter(|line| line.contains("one")).count(), 1);
}

#[test]
fn follow_of_ended_session_prints_all_and_exits() {
    let stage = TestEnv::new();
    let other = stage.spawn_scenario(HANGS, &[]);
    let id = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    // It began before the end.
    let mut early = stage.home.follow(&["events", &id, "-f", "--json"]);
    assert!(early.wait_end().success());
    stage.home.wait_state(&id, |row| row["sealed"] == true);
    let all: Vec<Value> = stage.events(&id);
    let followed = stage.home.provost(&["events", &id, "-f", "--json"]);
    let lines: Vec<Value> =
        followed.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all);
    let last = all.last().unwrap()["seq"].to_string();
    let none = stage.home.provost(&["events", &id, "-f", "--json", "--since", &last]);
    assert_eq!(none.ok().stdout, "");
    assert_eq!(stage.home.status(&other)["sealed"], false, "the other one runs on");
}

#[test]
fn follow_of_ended_run_or_team_exits() {
    let env = RunEnv::new("echo work > work.txt");
    let id = env.open_run(&["--land", "branch"]);
    let mut early = env.stage.home.follow(&["events", &id, "-f", "--json"]);
    assert!(early.wait_end().success());
    assert_eq!(env.wait_sealed(&id)["sealed"], true);
    let all = env.stage.events(&id);
    let followed = env.stage.home.provost(&["events", &id, "-f", "--json"]);
    let lines: Vec<Value> =
        followed.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all);
    env.stage.home.provost(&["logs", &id, "-f"]).ok();

    let home = &env.stage.home;
    home.provost(&["team", "new", "limits", "--goal", "raise the limits"]).ok();
    home.provost(&["team", "cancel", "limits", "--because", "enough"]).ok();
    let followed = home.provost(&["events", "limits", "-f", "--json"]);
    assert!(followed.ok().stdout.contains("cancelled"), "{followed:#?}");
}
