//! One unreadable record does not hide other records.

use rusqlite::Connection;

use provost_testkit::env::{HANGS, TestEnv};

#[test]
fn e09_one_unreadable_record_hides_no_other() {
    let stage = TestEnv::new();
    let ids = ["first", "broken", "last"].map(|name| {
        let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &["--name", name]);
        stage.wait_sealed(&id);
        id
    });
    let before = stage.list_sessions();
    stage.home.daemon().stop();
    corrupt_event(&stage, &ids[1], "claim.made");
    assert_eq!(stage.list_sessions(), before, "ls shows all of them");
    for id in &ids {
        stage.home.provost(&["status", id]).ok();
    }
    for id in [&ids[0], &ids[2]] {
        stage.home.provost(&["status", id, "--why"]).ok();
        stage.home.provost(&["events", id]).ok();
        stage.home.provost(&["resolve", id, "--as", "accepted", "--because", "fine"]).ok();
    }
    let why = stage.home.provost(&["status", &ids[1], "--why", "--json"]);
    let error = why.assert_code(6).json();
    assert!(error["error"]["message"].as_str().unwrap().contains("claim.made"), "{error}");
    let verified = stage.home.provost(&["ledger", "verify", "--json"]).assert_code(1).json();
    let differences = verified["differences"].as_array().unwrap();
    assert!(!differences.is_empty());
    for difference in differences {
        assert_eq!(difference["stream"], format!("session/{}", ids[1]), "{verified}");
    }
}

#[test]
fn e09_unreadable_open_session_stops_no_other() {
    let stage = TestEnv::new();
    let broken = stage.spawn_scenario(HANGS, &["--name", "broken"]);
    let sound = stage.spawn_scenario(HANGS, &["--name", "sound"]);
    let pid = stage.pid(&broken);
    stage.pid(&sound);
    stage.home.daemon().kill();
    let undamaged = corrupt_event(&stage, &broken, "launch.started");
    let names: Vec<_> = stage.list_sessions().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    stage.home.provost(&["cancel", &sound]).ok();
    assert_eq!(stage.wait_sealed(&sound)["state"], "cancelled");
    let refused = stage.home.provost(&["cancel", &broken, "--json"]).assert_code(6).json();
    assert_eq!(refused["ok"], false);
    assert!(provost_testkit::env::is_running(pid), "what cannot be read is not ended");
    stage.home.daemon().stop();
    restore_event(&stage, &broken, &undamaged);
    assert_eq!(stage.status(&broken)["process"], "alive");
}

/// Corrupts an event of a session in a stopped ledger, and returns its original data.
fn corrupt_event(stage: &TestEnv, id: &str, kind: &str) -> String {
    let ledger = open_ledger(stage);
    let stream = format!("session/{id}");
    let whole = "SELECT data FROM event WHERE stream = ?1 AND kind = ?2";
    let data = ledger.query_row(whole, [stream.as_str(), kind], |row| row.get(0)).unwrap();
    let spoilt = "UPDATE event SET data = '{\"kind' WHERE stream = ?1 AND data = ?2";
    assert_eq!(ledger.execute(spoilt, [&stream, &data]).unwrap(), 1);
    data
}

fn restore_event(stage: &TestEnv, id: &str, data: &str) {
    let stream = format!("session/{id}");
    let whole = "UPDATE event SET data = ?2 WHERE stream = ?1 AND data = '{\"kind'";
    assert_eq!(open_ledger(stage).execute(whole, [stream.as_str(), data]).unwrap(), 1);
}

fn open_ledger(stage: &TestEnv) -> Connection {
    Connection::open(stage.home.path().join("ledger/ledger.db")).unwrap()
}
