//! `provost doctor` reports past problems: a daemon that keeps crashing, and panics in its log.

use std::{fs, io::Write as _};

use serde_json::Value;

use provost_testkit::env::TestEnv;

#[track_caller]
fn finding(stage: &TestEnv, what: &str) -> Value {
    let found = stage.home.provost(&["doctor", "--json"]).json();
    let findings = found["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["what"] == what).unwrap().clone()
}

#[test]
fn repeated_daemon_crashes_are_reported() {
    let stage = TestEnv::new();
    for _ in 0..5 {
        stage.home.provost(&["ls"]).ok();
        stage.home.daemon().stop();
    }
    assert_eq!(finding(&stage, "restarts")["level"], "ok", "an orderly stop is no death");
    for _ in 0..3 {
        stage.home.provost(&["ls"]).ok();
        stage.home.daemon().kill();
    }
    stage.home.provost(&["ls"]).ok();
    let found = finding(&stage, "restarts");
    assert_eq!(found["level"], "warn", "{found}");
    assert!(found["found"].as_str().unwrap().contains("crashed 3 times"), "{found}");
}

#[test]
fn untrusted_project_starts_nothing_and_doctor_says_so() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("untrusted");
    repo.write("provost.toml", "worktree.setup = \"true\"\n");
    let found = stage.home.provost_in(repo.path(), &["doctor", "--json"]).json();
    let findings = found["findings"].as_array().unwrap();
    let trust = findings.iter().find(|finding| finding["what"] == "trust").unwrap();
    let text = trust["found"].as_str().unwrap();
    assert!(text.contains("nothing is started here"), "{text}");
    assert!(!text.contains("provost trust"), "the fix alone has the command: {text}");
    assert!(trust["fix"].as_str().unwrap().starts_with("provost trust /"), "{trust}");
    let spawn = ["spawn", "--exit-zero-completes", "--", "true"];
    stage.home.provost_in(repo.path(), &spawn).assert_code(4);
}

#[test]
fn checks_that_need_a_broken_config_are_skipped() {
    let stage = TestEnv::new();
    stage.configure("nonsense = 1\n");
    for what in ["pass_env", "codex"] {
        let found = finding(&stage, what);
        assert_eq!(found["level"], "skipped", "{found}");
        assert!(found["found"].as_str().unwrap().contains("configuration has errors"), "{found}");
    }
}

#[test]
fn panic_in_log_is_reported() {
    let stage = TestEnv::new();
    stage.home.provost(&["ls"]).ok();
    assert_eq!(finding(&stage, "daemon log")["level"], "ok");
    let log = stage.home.path().join("log/daemon.log");
    let mut file = fs::OpenOptions::new().append(true).create(true).open(&log).unwrap();
    writeln!(file, "thread 'owner' (7) panicked at crates/x.rs:1:2:\nboom").unwrap();
    let found = finding(&stage, "daemon log");
    // A panic in the log fails every test, so the line that this test wrote is removed.
    fs::remove_file(&log).unwrap();
    assert_eq!(found["level"], "warn", "{found}");
    assert!(found["found"].as_str().unwrap().contains("crates/x.rs:1:2"), "{found}");
}
