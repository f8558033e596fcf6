//! A ledger that lost its newest events or was replaced by an older copy. Every command reports the
//! loss, no change is possible before the operator decides, and processes unknown to the ledger are
//! listed and can be stopped.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use provost_testkit::env::{assert_refused, count_lines, wait_file};
use provost_testkit::harness::string_value;
use provost_testkit::{TestHome, eventually};
use serde_json::Value;

const RECOVER: &str = "provost ledger recover";

fn ledger_path(home: &TestHome, name: &str) -> PathBuf {
    home.path().join("ledger").join(name)
}

/// The state that was acknowledged before the loss.
struct AcknowledgedState {
    sessions: Vec<String>,
    /// The session that was spawned last and is still running.
    sleeper: String,
    /// The highest sequence number seen.
    last_seq: u64,
}

/// Spawns and acknowledges sessions, the last of which keeps running, and kills the daemon.
fn spawn_and_kill_daemon(home: &TestHome, sessions: usize) -> AcknowledgedState {
    let sessions: Vec<String> = (0..sessions).map(|_| home.spawn(&["--", "true"])).collect();
    for id in &sessions {
        home.wait_sealed(id);
    }
    let sleeper = home.spawn(&["--", "sleep", "600"]);
    home.wait_state(&sleeper, |row| row["process"] == "alive");
    let events = home.provost(&["events", "--json", "--limit", "1"]).ok().json();
    let last_seq = events["last"].as_u64().expect("a number");
    home.daemon().kill();
    AcknowledgedState { sessions, sleeper, last_seq }
}

fn cut_in_half(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).expect("the file can be opened");
    let whole = file.metadata().expect("it has a length").len();
    file.set_len(whole / 2).expect("it can be cut");
}

/// Asserts that every command reports the loss and that no change is made.
#[track_caller]
fn assert_loss_reported(home: &TestHome) {
    for args in
        [&["ls"][..], &["status"], &["ls", "--all", "--json"], &["events"], &["ledger", "export"]]
    {
        let output = home.provost(args);
        assert!(output.ok().stderr.contains(RECOVER), "{output:#?}");
    }
    for args in [&["ls", "--json"][..], &["ls", "--all", "--json"], &["status", "--json"]] {
        let value = home.provost(args).ok().json();
        assert!(string_value(&value["ledger_loss"]).contains("was recorded"), "{value}");
    }
    let spawned = home.provost(&["spawn", "--json", "--", "true"]);
    assert_refused(&spawned, 6, "storage", &["nothing can be changed", "was recorded"]);
    assert_eq!(spawned.json()["error"]["next"][0], RECOVER);
    let removed = home.provost(&["gc", "--apply", "--json"]);
    assert_refused(&removed, 6, "storage", &["was recorded"]);
    let status = home.provost(&["daemon", "status", "--json"]).ok().json();
    assert!(string_value(&status["read_only"]).contains("was recorded"), "{status}");
    let doctor = home.provost(&["doctor", "--json"]);
    let findings = doctor.assert_code(1).json()["findings"].as_array().cloned().expect("a list");
    let about = findings.iter().find(|finding| finding["what"] == "ledger").expect("a finding");
    assert_eq!((&about["level"], &about["fix"]), (&"fail".into(), &RECOVER.into()), "{about}");
    let verify = home.provost(&["ledger", "verify", "--json"]);
    assert_ne!(verify.code(), Some(0), "{verify:#?}");
    assert!(
        string_value(&verify.json()["differences"][0]["what"]).contains("was recorded"),
        "{verify:#?}"
    );
}

/// Recovers the ledger. Asserts that sequence numbers are not reused and that followers learn of the gap.
#[track_caller]
fn assert_recovers(home: &TestHome, before: &AcknowledgedState) -> Value {
    let args = ["ledger", "recover", "--json", "--stop-unknown", "--accept-loss"];
    let done = home.provost(&args).ok().json();
    let accepted = &done["accepted"];
    assert!(accepted["last"].as_u64() >= Some(before.last_seq), "{done}");
    assert!(Path::new(&string_value(&accepted["copy"])).is_dir(), "{done}");
    let id = home.spawn(&["--", "true"]);
    home.wait_sealed(&id);
    let first = &home.events(&id)[0];
    let lost = home.events_of(&id, "ledger.events_lost");
    assert_eq!(lost.len(), 1, "followers of a session learn of the gap too");
    let since = before.last_seq.to_string();
    let followed = home.provost(&["events", "--json", "--since", &since]).ok().json();
    let kinds: Vec<&Value> =
        followed["events"].as_array().expect("a list").iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds.first(), Some(&&"ledger.events_lost".into()), "{kinds:?}");
    let opened = home.events_of(&id, "session.opened");
    assert!(opened[0]["seq"].as_u64() > accepted["seq"].as_u64(), "{first}");
    let shown = home.provost(&["events", "--since", &since]);
    assert!(shown.ok().stdout.contains("were lost"), "{shown:#?}");
    let list = home.provost(&["ls", "--all", "--json"]);
    assert!(
        list.ok().json()["ledger_loss"].is_null() && !list.stderr.contains(RECOVER),
        "{list:#?}"
    );
    home.assert_ledger_verified();
    let again = home.provost(&["ledger", "recover", "--json"]).ok().json();
    assert!(again["loss"].is_null() && again["unknown"] == serde_json::json!([]), "{again}");
    done
}

#[test]
fn f8_v3_truncated_log_is_reported_and_recovered() {
    let home = TestHome::with_short_windows();
    let before = spawn_and_kill_daemon(&home, 6);
    cut_in_half(&ledger_path(&home, "ledger.db-wal"));
    assert_loss_reported(&home);
    let list = home.provost(&["ls", "--all", "--json"]).ok().json();
    let listed = list["sessions"].as_array().expect("a list").len();
    assert!(listed < before.sessions.len() + 1, "{listed} sessions are left");
    // Processes unknown to the ledger are listed, with pid and command.
    let unknown = &list["unknown_holders"][0];
    assert_eq!(unknown["key"], format!("{}.l1", before.sleeper), "{list}");
    assert_eq!((&unknown["alive"], &unknown["command"]), (&true.into(), &"sleep 600".into()));
    let pid = unknown["pid"].as_u64().expect("its process").to_string();
    for args in [&["ls"][..], &["status"], &["daemon", "status"]] {
        let shown = home.provost(args);
        let stdout = &shown.ok().stdout;
        assert!(stdout.contains("not in the ledger") && stdout.contains(&pid), "{shown:#?}");
    }
    let doctor = home.provost(&["doctor"]);
    assert!(doctor.stdout.contains("sleep 600"), "{doctor:#?}");
    let shown = home.provost(&["ledger", "recover"]);
    assert!(
        shown.ok().stdout.contains("running, pid") && shown.stdout.contains("lost  "),
        "{shown:#?}"
    );
    // Accepting the loss stops no process. `--stop-unknown` does, and verifies the result.
    let done = assert_recovers(&home, &before);
    assert_eq!(done["stopped"][0]["key"], unknown["key"], "{done}");
    assert!(!Path::new("/proc").join(&pid).exists(), "the sleeper is gone");
    home.provost(&["doctor", "--json"]);
}

#[test]
fn f8_v3_zeroed_log_page_is_reported_and_recovered() {
    let home = TestHome::with_short_windows();
    let before = spawn_and_kill_daemon(&home, 4);
    let log = ledger_path(&home, "ledger.db-wal");
    let mut bytes = fs::read(&log).expect("the log can be read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0);
    fs::write(&log, bytes).expect("it can be damaged");
    assert_loss_reported(&home);
    assert_recovers(&home, &before);
}

#[test]
fn f8_v3_older_copy_is_reported_and_recovered() {
    for with_log in [false, true] {
        let home = TestHome::with_short_windows();
        home.wait_sealed(&home.spawn(&["--", "true"]));
        home.daemon().stop();
        let names = ["ledger.db", "ledger.db-wal"];
        let old = home.root().join("old");
        fs::create_dir(&old).expect("a directory can be made");
        if with_log {
            home.wait_sealed(&home.spawn(&["--", "true"]));
            home.daemon().kill();
        }
        for name in names.iter().filter(|name| ledger_path(&home, name).exists()) {
            fs::copy(ledger_path(&home, name), old.join(name)).expect("it can be copied");
        }
        assert_eq!(old.join("ledger.db-wal").exists(), with_log);
        let before = spawn_and_kill_daemon(&home, 2);
        for name in names {
            let restored = ledger_path(&home, name);
            fs::remove_file(&restored).expect("it can be removed");
            if old.join(name).exists() {
                fs::copy(old.join(name), restored).expect("it can be restored");
            }
        }
        fs::remove_file(ledger_path(&home, "ledger.db-shm")).ok();
        assert_loss_reported(&home);
        assert_recovers(&home, &before);
    }
}

#[test]
fn f8_v3_deleted_log_is_reported_and_recovered() {
    let home = TestHome::with_short_windows();
    home.wait_sealed(&home.spawn(&["--", "true"]));
    // A daemon that stops in order checkpoints its write-ahead log into the database.
    home.daemon().stop();
    let before = spawn_and_kill_daemon(&home, 2);
    fs::remove_file(ledger_path(&home, "ledger.db-wal")).expect("it can be removed");
    fs::remove_file(ledger_path(&home, "ledger.db-shm")).ok();
    assert_loss_reported(&home);
    assert_recovers(&home, &before);
}

#[test]
fn f8_v3_restored_backup_needs_operator_consent() {
    let home = TestHome::with_short_windows();
    home.wait_sealed(&home.spawn(&["--", "true"]));
    let backup = home.root().join("backup");
    home.provost(&["ledger", "backup", &backup.display().to_string()]).ok();
    let before = spawn_and_kill_daemon(&home, 2);
    fs::remove_file(ledger_path(&home, "ledger.db-wal")).expect("it can be removed");
    for entry in fs::read_dir(&backup).expect("a directory").map(|entry| entry.expect("an entry")) {
        fs::copy(entry.path(), ledger_path(&home, &entry.file_name().to_string_lossy()))
            .expect("it can be restored");
    }
    assert_loss_reported(&home);
    assert_recovers(&home, &before);
}

/// Logs the instruction it received, and keeps running.
const AGENT: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
append = { path = "{{root}}/received", content = "{{input}}\n" }
[[step]]
hang = true
"#;

#[test]
fn f8_v3_lost_launch_of_session_is_not_adopted() {
    let home = TestHome::with_short_windows();
    home.configure(&home.scripted_agent("scripted", AGENT));
    let log = home.root().join("received");
    let heard = |count: usize| {
        eventually("the agent received it", || (count_lines(&log) == count).then_some(()));
    };
    let id = home.spawn(&["--agent", "scripted", "first"]);
    heard(1);
    home.provost(&["stop", &id]).ok();
    home.wait_sealed(&id);
    home.daemon().stop();
    let old = fs::read(ledger_path(&home, "ledger.db")).expect("the ledger can be copied");
    home.provost(&["resume", &id, "second"]).ok();
    heard(2);
    home.daemon().kill();
    fs::remove_file(ledger_path(&home, "ledger.db-wal")).expect("it can be removed");
    fs::write(ledger_path(&home, "ledger.db"), old).expect("it can be restored");
    let accept = ["ledger", "recover", "--json", "--accept-loss"];
    assert_refused(&home.provost(&accept), 4, "refused", &["stop them first"]);
    let survey = home.provost(&["ledger", "recover", "--json"]).ok().json();
    assert_eq!(survey["unknown"][0]["key"], format!("{id}.l2"), "{survey}");
    assert_eq!(survey["unknown"][0]["owner_known"], true, "{survey}");
    home.provost(&["ledger", "recover", "--stop-unknown", "--accept-loss"]).ok();
    assert!(home.path().join("lost").join(format!("{id}.l2")).is_dir());
    // The next launch reuses the number of the lost launch, and receives the new instruction.
    home.provost(&["resume", &id, "third"]).ok();
    heard(3);
    let lines = fs::read_to_string(&log).expect("the log exists");
    assert!(lines.lines().last().is_some_and(|line| line.contains("third")), "{lines}");
    wait_file(&home.path().join("launches").join(format!("{id}.l2")));
    let launched =
        home.ledger_records().iter().filter(|record| record["kind"] == "launch.requested").count();
    assert_eq!(launched, 2, "the lost one is not among them");
    home.provost(&["stop", &id]).ok();
    home.assert_ledger_verified();
}

#[test]
fn unreadable_ledger_names_and_stops_live_processes() {
    let home = TestHome::with_short_windows();
    let before = spawn_and_kill_daemon(&home, 1);
    let held =
        fs::read_to_string(home.path().join(format!("launches/{}.l1/held.json", before.sleeper)));
    let held: Value = serde_json::from_str(&held.expect("its record")).expect("JSON");
    let pid = held["child"]["pid"].as_u64().expect("its process").to_string();
    cut_in_half(&ledger_path(&home, "ledger.db"));
    fs::remove_file(ledger_path(&home, "ledger.db-wal")).expect("it can be removed");
    for args in
        [&["ls", "--json"][..], &["spawn", "--json", "--", "true"], &["ledger", "verify", "--json"]]
    {
        let refused = home.provost(args);
        assert_refused(&refused, 6, "storage", &["is damaged", "1 process is still running"]);
        assert_eq!(refused.json()["error"]["next"][0], format!("{RECOVER} --stop-unknown"));
    }
    let doctor = home.provost(&["doctor"]);
    assert!(
        doctor.assert_code(1).stdout.contains(&format!("sleep 600 (pid {pid})")),
        "{doctor:#?}"
    );
    let listed = home.provost(&["ledger", "recover"]);
    assert!(listed.ok().stdout.contains(&format!("running, pid {pid}")), "{listed:#?}");
    let accept = home.provost(&["ledger", "recover", "--json", "--accept-loss"]);
    assert_refused(&accept, 6, "storage", &["restore a backup made with `provost ledger backup`"]);
    assert!(Path::new("/proc").join(&pid).exists(), "nothing was stopped yet");
    let done = home.provost(&["ledger", "recover", "--json", "--stop-unknown"]).ok().json();
    assert_eq!(done["stopped"][0]["key"], format!("{}.l1", before.sleeper), "{done}");
    assert_eq!(done["unknown"], serde_json::json!([]), "{done}");
    assert!(!Path::new("/proc").join(&pid).exists(), "the sleeper is gone");
    let refused = home.provost(&["ls", "--json"]);
    assert!(!refused.assert_code(6).stdout.contains("still running"), "{refused:#?}");
}
