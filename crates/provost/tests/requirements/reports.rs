//! Reports after exit, from older launches, from unknown callers and from the operator.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{HANGS, LaunchCredentials, TALKER, TestEnv, WRITES_CREDENTIALS};

/// Asks a question and exits. In its next launch, it hangs.
const ASKS_AND_EXITS: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
if_launch = 1
emit = { type = "turn_started", turn = "t1" }
[[step]]
if_launch = 1
emit = { type = "request", id = "q1", kind = "question", blocking = true, title = "Which?", questions = [] }
[[step]]
if_launch = 1
exit = 0
[[step]]
hang = true
"#;

#[test]
fn a03_report_after_exit_before_seal_is_applied() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(
        &format!("{WRITES_CREDENTIALS}\n[[step]]\nexit = 0\n"),
        &["--settle", "1h"],
    );
    let row = stage.home.wait_state(&id, |row| row["state"] == "exited_without_claim");
    assert_eq!((&row["process"], &row["sealed"]), (&json!("exit0"), &json!(false)));
    let who = stage.credentials(1);
    let working = stage.report_as(&who, &["working"]).ok().json();
    assert_eq!(
        (&working["status"], &working["state"]),
        (&json!("recorded"), &json!("exited_without_claim"))
    );
    let fact = stage.report_as(&who, &["fact", "--branch", "fix/x"]).ok().json();
    assert_eq!(fact["status"], "applied");
    let completed = stage.report_as(&who, &["completed", "--message", "really"]).ok().json();
    assert_eq!(
        (&completed["status"], &completed["state"]),
        (&json!("applied"), &json!("completed"))
    );
    let row = stage.status(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("really")));
    assert_eq!(row["facts"][0]["value"], "fix/x");
}

#[test]
fn a03_late_report_after_seal_keeps_the_outcome() {
    let stage = TestEnv::new();
    for (scenario, outcome) in [("exit = 0", "exited_without_claim"), ("exit = 3", "failed")] {
        let id =
            stage.spawn_scenario(&format!("{WRITES_CREDENTIALS}\n[[step]]\n{scenario}\n"), &[]);
        let before = stage.wait_sealed(&id);
        assert_eq!(before["state"], outcome);
        let who = LaunchCredentials { launch: format!("{id}.l1"), ..stage.credentials(1) };
        let reply = stage.report_as(&who, &["completed", "--message", "late"]).ok().json();
        assert_eq!(reply["status"], "recorded_late", "{reply}");
        assert_eq!((&reply["state"], &reply["sealed"]), (&json!(outcome), &json!(true)));
        let offered = reply["next"].to_string();
        assert!(offered.contains("resolve"), "{offered}");
        let after = stage.status(&id);
        for kept in ["state", "cause", "rule", "sealed", "sealed_at", "claim"] {
            assert_eq!(after[kept], before[kept], "{kept}");
        }
        assert_eq!(after["late_claims"][0]["claim"], "completed");
        assert_eq!(after["late_claims"][0]["text"], "late");
        assert!(after["flags"].as_array().unwrap().contains(&json!("late_claim")), "{after}");
        let fact = stage.report_as(&who, &["fact", "--pr", "https://example.org/7"]).ok().json();
        assert_eq!(fact["status"], "applied");
        let again = stage.report_as(&who, &["working"]).ok().json();
        assert_eq!(again["status"], "recorded");
        assert_eq!(stage.status(&id)["facts"][0]["fact"], "pr");
        std::fs::remove_file(stage.file("credentials-1")).unwrap();
    }
}

#[test]
fn a03_report_of_older_launch_is_recorded_there() {
    let stage = TestEnv::new();
    stage.configure_talker(
        &format!("{WRITES_CREDENTIALS}{ASKS_AND_EXITS}"),
        "session.stop_grace = \"100ms\"",
    );
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "go"]);
    stage.home.wait_state(&id, |row| row["state"] == "needs_input" && row["process"] == "exit0");
    stage.home.provost(&["answer", &id, "this one"]).ok();
    let (older, newer) = (stage.credentials(1), stage.credentials(2));
    assert_ne!((&older.launch, &older.token), (&newer.launch, &newer.token));
    let before = stage.home.wait_state(&id, |row| row["launches"].as_array().unwrap().len() == 2);
    let reply = stage.report_as(&older, &["failed", "--message", "old news"]).ok().json();
    assert_eq!(reply["status"], "recorded");
    let fact = stage.report_as(&older, &["fact", "--branch", "old"]).ok().json();
    assert_eq!(fact["status"], "recorded");
    let after = stage.status(&id);
    assert_eq!((&after["claim"], &after["facts"]), (&before["claim"], &json!([])));
    assert_eq!(after["late_claims"], json!([]));
    let claim = stage.events_of(&id, "claim.made").pop().unwrap();
    assert_eq!(claim["data"]["launch"], older.launch.as_str());
    let reply = stage.report_as(&newer, &["completed"]).ok().json();
    assert_eq!(reply["status"], "applied", "the newer launch speaks for the attempt");
}

#[test]
fn a03_only_invalid_reports_are_errors() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(&format!("{WRITES_CREDENTIALS}{HANGS}"), &[]);
    let right = stage.credentials(1);
    let code = |output: &provost_testkit::harness::ProgramOutput, exit: i32| {
        let value = output.assert_code(exit).json();
        assert_eq!(value["ok"], false);
        value["error"]["code"].as_str().unwrap().to_owned()
    };
    let unknown = stage.home.provost(&["report", "completed", "--session", "nobody", "--json"]);
    assert_eq!(code(&unknown, 3), "not_found");
    let guessed =
        LaunchCredentials { launch: right.launch.clone(), token: "0".repeat(right.token.len()) };
    assert_eq!(code(&stage.report_as(&guessed, &["completed"]), 4), "forbidden");
    let elsewhere = LaunchCredentials { launch: format!("{id}.l7"), token: right.token.clone() };
    assert_eq!(code(&stage.report_as(&elsewhere, &["completed"]), 4), "forbidden");
    let garbled = LaunchCredentials { launch: "l1".to_owned(), token: right.token };
    assert_eq!(code(&stage.report_as(&garbled, &["completed"]), 2), "bad_request");
    assert_eq!(
        code(&stage.home.provost(&["report", "perfect", "--session", &id, "--json"]), 2),
        "bad_request"
    );
    for body in [
        json!({"session": id, "claim": "perfect"}),
        json!({"session": id}),
        json!({"claim": 7}),
        json!([]),
    ] {
        let (status, reply) = post(&stage, "/v1/reports", &body.to_string());
        assert!((400..500).contains(&status), "{status} {reply} for {body}");
    }
    assert_eq!(stage.events_of(&id, "claim.made"), Vec::<Value>::new());
    assert_eq!(stage.status(&id)["claim"], "none");
}

#[test]
fn a03_operator_reports_without_token_after_exit() {
    let stage = TestEnv::new();
    let open = stage.spawn_scenario("[[step]]\nexit = 0\n", &["--settle", "1h"]);
    stage.wait(&open, "exited_without_claim");
    let reply =
        stage.home.provost(&["report", "completed", "--session", &open, "--json"]).ok().json();
    assert_eq!((&reply["status"], &reply["state"]), (&json!("applied"), &json!("completed")));
    assert_eq!(stage.status(&open)["claim_source"], "operator");
    let closed = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    stage.wait_sealed(&closed);
    let reply =
        stage.home.provost(&["report", "completed", "--session", &closed, "--json"]).ok().json();
    assert_eq!(
        (&reply["status"], &reply["state"]),
        (&json!("recorded_late"), &json!("exited_without_claim"))
    );
    let row = stage.status(&closed);
    assert_eq!(row["late_claims"][0]["source"], "operator");
    let resolved = stage.home.provost(&[
        "resolve",
        &closed,
        "--as",
        "accepted",
        "--because",
        "read it",
        "--json",
    ]);
    let row = resolved.ok().json()["session"].clone();
    assert_eq!(row["state"], "accepted");
    assert_eq!(row["since"], row["resolution"]["at"], "it is accepted since it was resolved");
}

#[test]
fn session_resolved_before_start_is_not_stopping() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--", "sleep", "340"]);
    stage.home.provost(&["resolve", &id, "--as", "accepted", "--because", "seen"]).ok();
    stage.home.wait_state(&id, |row| {
        let phase = row["launches"][0]["phase"].as_str();
        phase.is_none_or(|phase| !matches!(phase, "pending" | "running"))
    });
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    assert!(!shown.contains("being stopped"), "{shown}");
}

#[test]
fn report_with_unusual_key_counts_once() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(&format!("{WRITES_CREDENTIALS}{HANGS}"), &[]);
    let who = stage.credentials(1);
    let report = ["working", "--message", "on it", "--key", "run/7:step~2%20../x"];
    assert_eq!(stage.report_as(&who, &report).ok().json()["status"], "applied");
    stage.home.daemon().kill();
    let dropped = stage.report_as(&who, &report).ok().json();
    let path = std::path::PathBuf::from(dropped["dropped"].as_str().unwrap());
    assert!(path.exists(), "{dropped:#}");
    stage.status(&id);
    eventually("the box is emptied", || (!path.exists()).then_some(()));
    assert_eq!(stage.events_of(&id, "claim.made").len(), 1);
    assert_eq!(stage.status(&id)["claim_source"], "agent");
}

/// Posts a body to the daemon's socket, as any program could.
fn post(stage: &TestEnv, path: &str, body: &str) -> (u16, String) {
    let mut socket = UnixStream::connect(stage.home.path().join("daemon.sock")).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: provost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    let status = reply.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, reply)
}

/// Sends these messages to the MCP server with a launch's credentials, and returns its answers.
pub(crate) fn call_tools_as(
    stage: &TestEnv,
    who: &LaunchCredentials,
    flags: &[&str],
    messages: &[String],
) -> Vec<Value> {
    let mut command = stage.home.command(&[&["agent-tools"], flags].concat());
    command.env("PROVOST_LAUNCH", &who.launch).env("PROVOST_TOKEN", &who.token);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = messages.join("\n") + "\n";
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let text = String::from_utf8(ended.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn tool_call_counts_once_per_process_and_id() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(&format!("{WRITES_CREDENTIALS}\n{HANGS}"), &[]);
    let who = stage.credentials(1);
    let arguments = json!({"kind": "branch", "value": "topic"});
    let params = json!({"name": "provost_fact", "arguments": arguments});
    let call = |id: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let fact_count = |stage: &TestEnv| stage.status(&id)["facts"].as_array().unwrap().len();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}).to_string(),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        call(json!(1)),
        call(json!(1)),
        call(json!("1")),
        "no JSON".to_owned(),
        "x".repeat(2 << 20),
        json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}).to_string(),
    ];
    let answers = call_tools_as(&stage, &who, &[], &messages);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(json!(ids), json!([0, 1, 1, "1", null, null, 9]), "{answers:#?}");
    assert_eq!(answers[2]["result"]["content"][0]["text"], "Noted.", "{answers:#?}");
    assert_eq!(answers[1]["result"], answers[2]["result"]);
    assert_eq!(fact_count(&stage), 2, "two ids");
    call_tools_as(&stage, &who, &[], &[call(json!(1))]);
    assert_eq!(fact_count(&stage), 3, "another process begins its ids anew");
    let forged = LaunchCredentials { token: "forged".to_owned(), ..stage.credentials(1) };
    let refused = &call_tools_as(&stage, &forged, &[], &[call(json!(1))])[0]["result"];
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("token"), "{refused}");
    assert_eq!(fact_count(&stage), 3);
}
