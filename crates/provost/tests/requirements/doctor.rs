//! `provost doctor` reports past problems: a daemon that keeps crashing, and panics in its log.

use std::{fs, io::Write as _};

use serde_json::Value;

use crate::kit::TestEnv;

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
    assert!(found["found"].as_str().unwrap().contains("died 3 times"), "{found}");
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
