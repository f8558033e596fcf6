//! Many concurrent writers.

use std::{collections::BTreeSet, fs, process::Stdio};

use provost_testkit::harness::eventually;

use provost_testkit::env::{HANGS, TestEnv};

/// Number of processes that write concurrently.
const WRITERS: usize = 50;

#[test]
fn e08_concurrent_writes_are_neither_lost_nor_doubled() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--stdin", "--", "sh", "-c", "exec cat > got"]);
    stage.pid(&id);
    let mut running = Vec::new();
    for no in 0..WRITERS {
        // Two processes use each key at the same time. Only one of them writes, once.
        let (key, text) = (format!("key-{}", no / 2), format!("said {}", no / 2));
        let report = ["report", "working", "--session", &id, "--message", &text, "--key", &key];
        let send = ["send", &id, &text, "--key", &key];
        for arguments in [&report[..], &send[..]] {
            let mut command = stage.home.command(arguments);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            running.push(command.spawn().unwrap());
        }
    }
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let expected: BTreeSet<String> = (0..WRITERS / 2).map(|no| format!("said {no}")).collect();
    let claims = stage.events_of(&id, "claim.made");
    let claimed: BTreeSet<String> =
        claims.iter().map(|event| event["data"]["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!((claims.len(), &claimed), (expected.len(), &expected));
    let got = eventually("every message", || {
        let got = fs::read_to_string(stage.file("got")).unwrap_or_default();
        if got.lines().count() >= expected.len() { Ok(got) } else { Err(got) }
    });
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!(lines.len(), expected.len(), "a message came twice");
    assert_eq!(lines.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>(), expected);
    stage.home.provost(&["ledger", "verify"]).ok();
}

#[test]
fn e08_concurrently_opened_sessions_all_exist() {
    let stage = TestEnv::new();
    let children: Vec<_> = (0..WRITERS / 2)
        .map(|no| {
            let mut command =
                stage.home.command(&["spawn", "--name", &format!("s{no}"), "--", "true"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let names: BTreeSet<String> =
        stage.list_sessions().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, (0..WRITERS / 2).map(|no| format!("s{no}")).collect());
}

#[test]
fn e08_key_of_another_session_hides_nothing() {
    let stage = TestEnv::new();
    let [one, other] = [0; 2].map(|_| stage.spawn_scenario(HANGS, &[]));
    stage.home.provost(&["cancel", &one, "--key", "k"]).ok();
    stage.home.provost(&["cancel", &one, "--key", "k"]).ok();
    let refused =
        stage.home.provost(&["cancel", &other, "--key", "k", "--json"]).assert_code(4).json();
    assert!(refused["error"]["message"].as_str().unwrap().contains(&one), "{refused}");
    assert_eq!(stage.status(&other)["terminal"], false);
}
