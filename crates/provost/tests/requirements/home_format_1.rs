//! A stored home of format 1, which every later version has to open. Its files and the holder of its
//! live session are recordings, see `tests/fixtures/home-format-1`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use provost_testkit::env::{TestEnv, assert_refused, text, wait_file};
use serde_json::{Value, json};

/// The sessions of the stored home.
const FINISHED: &str = "finished";
const REFUTED: &str = "refuted";
const LIVE: &str = "live";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-format-1").join(name)
}

/// A copy of the stored home.
fn stored_home() -> TestEnv {
    let env = TestEnv::new();
    let mut tar = Command::new("tar");
    tar.args(["--no-same-owner", "-xzf"]).arg(fixture("home.tar.gz")).arg("-C").arg(env.path());
    assert!(tar.status().unwrap().success());
    env
}

/// The recorded holder of the live session.
struct RecordedHolder(Child);

impl RecordedHolder {
    /// Starts the holder in the directory of the only launch that has not ended.
    fn start(env: &TestEnv) -> RecordedHolder {
        let launches = fs::read_dir(env.path().join("launches")).unwrap();
        let mut live = launches
            .map(|entry| entry.unwrap().path())
            .filter(|launch| !launch.join("exit.json").exists());
        let (launch, other) = (live.next().unwrap(), live.next());
        assert_eq!(other, None, "only one launch is live");
        // The holder that was recorded wrote these.
        for record in ["holder.json", "held.json"] {
            fs::remove_file(launch.join(record)).unwrap();
        }
        let mut perl = Command::new("perl");
        perl.arg(fixture("holder.pl")).arg(&launch).current_dir("/");
        let holder = perl.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        wait_file(&launch.join("held.json"));
        RecordedHolder(holder)
    }
}

/// Ends the holder and its agent, which end on their own when the session is stopped.
impl Drop for RecordedHolder {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn session<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {rows:#?}"))
}

/// Asserts that `ledger verify` finds nothing wrong with the events. The texts in the row of a stream that
/// this build has not changed yet are those of the build that wrote the row.
fn assert_events_verified(env: &TestEnv) {
    let verified = env.provost(&["ledger", "verify", "--json"]).json();
    let differences = verified["differences"].as_array().unwrap();
    for difference in differences {
        assert_eq!(
            difference["what"], "the stream's projection does not match its events",
            "{difference:#}"
        );
    }
    assert_eq!(verified["ok"], differences.is_empty(), "{verified:#}");
}

#[test]
fn stored_home_is_opened_with_its_live_session() {
    let env = stored_home();
    let mut holder = RecordedHolder::start(&env);
    let row = env.wait_state(LIVE, |row| row["launches"][0]["phase"] == "running");
    assert_eq!((&row["state"], &row["process"]), (&json!("working"), &json!("alive")), "{row:#}");
    let rows = env.list_sessions();
    assert_eq!(session(&rows, FINISHED)["state"], "completed");
    assert_eq!(session(&rows, REFUTED)["state"], "failed");
    let logs = env.provost(&["logs", LIVE]).ok().stdout.clone();
    assert!(logs.contains("the agent is ready"), "{logs}");
    let team = env.provost(&["team", "show", "limits", "--json"]).ok().json()["team"].clone();
    assert_eq!(
        (&team["state"], &team["criteria"][0]["no"]),
        (&json!("active"), &json!(1)),
        "{team:#}"
    );
    let run = env.provost(&["ls", "--runs", "--all", "--json"]).ok().json()["runs"][0].clone();
    assert_eq!(
        (&run["state"], &run["goal"]),
        (&json!("succeeded"), &json!("Write a file")),
        "{run:#}"
    );
    assert_events_verified(&env);
    // The new version steers the old holder, and the holder's last records are the outcome.
    env.provost(&["stop", LIVE]).ok();
    let row = env.wait_sealed(LIVE);
    assert_eq!((&row["state"], &row["exit"]["signal"]), (&json!("stopped"), &json!(15)), "{row:#}");
    assert!(!row["flags"].to_string().contains("unobserved"), "{row:#}");
    assert!(holder.0.wait().unwrap().success());
}

#[test]
fn stored_home_can_be_continued() {
    let env = stored_home();
    // The holder of the live session is gone, so the session has ended unobserved.
    let row = env.wait_sealed(LIVE);
    assert!(row["flags"].to_string().contains("exit_code_unobserved"), "{row:#}");
    let before = env.ledger_records().len();
    let id = env.spawn_sample("completed_exit0", &[]);
    assert_eq!(env.wait_sealed(&id)["state"], "completed");
    env.provost(&["team", "send", "-t", "limits", "hand", "begin"]).ok();
    assert!(env.ledger_records().len() > before);
    env.assert_ledger_verified();
}

/// Changes a number in the header of the stored ledger.
fn set_header(env: &TestEnv, pragma: &str, value: i32) {
    let ledger = rusqlite::Connection::open(env.path().join("ledger/ledger.db")).unwrap();
    ledger.pragma_update(None, pragma, value).unwrap();
}

#[test]
fn home_of_another_format_is_refused_in_one_sentence() {
    for (pragma, value, reason) in [
        ("application_id", 0x5072_764c, "was written by a provost from before the first release"),
        ("user_version", 0x7fff, "was written by a newer provost"),
    ] {
        let env = stored_home();
        set_header(&env, pragma, value);
        let ledger = env.path().join("ledger/ledger.db");
        let before = fs::read(&ledger).unwrap();
        for command in [&["ls", "--json"][..], &["spawn", "--json", "--", "true"]] {
            let refused = env.provost(command);
            let message =
                assert_refused(&refused, 6, "storage", &[reason, &text(&ledger), "PROVOST_HOME"]);
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        assert!(fs::read(&ledger).unwrap() == before, "nothing was changed");
    }
}
