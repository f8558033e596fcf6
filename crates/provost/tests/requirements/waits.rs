//! The death of a process ends every wait at once, with a specific reason.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{HANGS, TestEnv, interrupt, kill, text};

/// An agent that prints a line and then runs until it is killed.
fn prints_then_hangs() -> String {
    format!("[[step]]\nsay = \"here\"\n{HANGS}")
}

#[test]
fn e16_process_death_ends_waits_with_its_reason() {
    let stage = TestEnv::new();
    let agent = text(&provost_testkit::harness::scripted_agent_bin());
    let scenario = text(&stage.home.scenario("hang", &prints_then_hangs()));
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
fn e16_each_end_has_its_own_wait_reason() {
    let stage = TestEnv::new();
    let ends = [
        ("exit = 3", &[][..], 1, "failed crash code=3 signal=null"),
        ("die = 15", &[], 1, "failed crash code=null signal=15"),
        (
            "exit = 0",
            &["--no-exit-zero-completes"],
            1,
            "exited_without_claim null code=0 signal=null",
        ),
        ("exit = 0", &[], 0, "completed null code=0 signal=null"),
        ("hang = true", &["--time-limit", "200ms"], 1, "failed timeout code=null signal=15"),
    ];
    for (step, flags, code, expected) in ends {
        let agent = text(&provost_testkit::harness::scripted_agent_bin());
        let scenario = text(&stage.home.scenario("end", &format!("[[step]]\n{step}\n")));
        let arguments =
            [&["spawn", "--wait", "--json"], flags, &["--", &agent, &scenario]].concat();
        let row = stage.home.provost(&arguments).assert_code(code).json()["session"].clone();
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
        .assert_code(1)
        .json();
    assert_eq!(
        (&missing["session"]["state"], &missing["session"]["cause"]),
        (&json!("failed"), &json!("launch"))
    );
}

#[test]
fn wait_prints_its_target_on_stderr() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    // The waits are bounded, so that a missing line fails the test.
    stage.configure("session.time_limit = \"60s\"\nverify.time_limit = \"60s\"\n");
    let until = |name: &str| format!("until test -f {}; do sleep 0.05; done", stage.file(name));
    let (first, second) = (until("1"), format!("{}; exit 4", until("2")));
    let agent = format!("{}; touch made; provost report completed", until("0"));
    let arguments = ["spawn", "--name", "w", "--worktree", "--check", &first, "--check", &second];
    let mut waiting =
        stage.home.command(&[&arguments[..], &["--wait", "--", "sh", "-c", &agent]].concat());
    waiting.current_dir(repo.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr_lines =
        BufReader::new(waiting.stderr.take().unwrap()).lines().map(Result::unwrap);
    let steps =
        ["w working", "w verifying: check 1 of 2 `until", "w verifying: check 2 of 2 `until"];
    for (no, step) in steps.into_iter().enumerate() {
        assert!(stderr_lines.any(|line| line.contains(step)), "{step:?} is not printed");
        std::fs::write(stage.file(&no.to_string()), "").unwrap();
    }
    let again = stderr_lines.filter(|line| steps.iter().any(|step| line.contains(step))).count();
    assert_eq!(again, 0, "each is printed once");
    let output = waiting.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    let short = &lines[0][lines[0].len() - 8..];
    assert_eq!(lines[1..], [format!("{short} w failed (verification)")]);
    let json =
        stage.home.provost(&["spawn", "--exit-zero-completes", "--wait", "--json", "--", "true"]);
    assert_eq!(json.ok().stderr.lines().count(), 1, "only the id: {json:?}");
}

#[test]
fn followed_logs_end_with_the_outcome() {
    let stage = TestEnv::new();
    let id =
        stage.spawn_scenario("[[step]]\nsay = \"here\"\n[[step]]\nexit = 4\n", &["--name", "vis2"]);
    let followed = stage.home.provost(&["logs", &id, "-f"]);
    assert_eq!(followed.ok().stdout, "here\n");
    let outcome = format!("{} vis2 failed (crash), exit 4", &id[id.len() - 8..]);
    assert_eq!(followed.stderr.lines().next(), Some(outcome.as_str()), "{followed:?}");
    let json = stage.home.provost(&["logs", &id, "-f", "--json"]);
    assert_eq!(json.ok().stderr, "");
}

#[test]
fn ctrl_c_ends_the_wait_not_the_session() {
    let stage = TestEnv::new();
    let agent = text(&provost_testkit::harness::scripted_agent_bin());
    let scenario = text(&stage.home.scenario("hang", &prints_then_hangs()));
    let mut waiting =
        stage.home.command(&["spawn", "--name", "left", "--wait", "--", &agent, &scenario]);
    waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    // Once its first line is printed, the command handles the signal.
    let mut out = BufReader::new(waiting.stdout.take().unwrap());
    let mut id = String::new();
    out.read_line(&mut id).unwrap();
    let pid = stage.pid("left");
    interrupt(waiting.id());
    let output = waiting.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let short = &id.trim()[id.trim().len() - 8..];
    assert!(stderr.contains(&format!("session {short} continues")), "{stderr}");
    assert!(stderr.contains(&format!("provost logs {short} -f")), "{stderr}");
    assert!(provost_testkit::env::is_running(pid));
    assert_eq!(stage.status("left")["process"], "alive");
}

#[test]
fn e16_wait_survives_daemon_death() {
    let stage = TestEnv::new();
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
fn e16_holder_death_ends_wait_as_unobserved() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let agent = stage.pid(&id);
    let logs = stage.home.follow(&["logs", &id, "-f"]);
    let started = stage.events_of(&id, "launch.started").remove(0);
    kill(u32::try_from(started["data"]["holder"]["pid"].as_u64().unwrap()).unwrap());
    let row = stage.wait_sealed(&id);
    assert_eq!(row["process"], "unknown", "how it ended was not seen: {row}");
    assert!(row["flags"].as_array().unwrap().contains(&json!("exit_code_unobserved")), "{row}");
    assert!(!provost_testkit::env::is_running(agent), "what outlives its holder is ended");
    drop(logs);
}
