//! Launches whose directory vanishes, and live holders that do not answer. Neither counts as an
//! end.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provost_testkit::harness::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use provost_testkit::env::{HANGS, TestEnv, is_running, signal};

/// Shortens a stop, so that all of its steps are taken.
const SHORT_STOP_GRACE: &str = "[session]\nstop_grace = \"1s\"\n";

/// Writes its pid, and removes the directory of its launch on request. It renames the directory in
/// one step, because a holder that finds half of it missing may end the agent before the rest is
/// removed.
const REMOVES_LAUNCH_DIR: &str = "echo $$ > pid.new; mv pid.new pid; while [ ! -e go ]; do sleep 0.05; done; mv \"$PROVOST_HOME/launches/$PROVOST_LAUNCH\" \"$PROVOST_HOME/gone\"; rm -rf \"$PROVOST_HOME/gone\";";

/// Runs until it is killed; ignores TERM.
const IGNORES_TERM: &str = "trap '' TERM; while :; do sleep 1; done";

/// Writes its pid, and keeps stopping its holder.
const STOPS_HOLDER: &str =
    "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do kill -STOP $PPID; done";

#[test]
fn launch_without_dir_lasts_until_processes_end() {
    let stage = TestEnv::new();
    let id = spawn_shell(&stage, &[], &format!("{REMOVES_LAUNCH_DIR} {IGNORES_TERM}"));
    let agent = wait_dir_removed(&stage, &id);
    stage.home.daemon().kill();
    let row = stage.home.wait_state(&id, |row| {
        assert!(row["sealed"] == false || !is_running(agent), "sealed while {agent} runs: {row}");
        row["sealed"] == true
    });
    assert_eq!(
        (&row["state"], &row["process"]),
        (&json!("exited_without_claim"), &json!("unknown"))
    );
    assert!(flags(&row).contains(&json!("exit_code_unobserved")), "{row}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "nothing was started twice");
}

#[test]
fn launch_without_dir_can_be_cancelled() {
    let stage = TestEnv::new();
    stage.configure(SHORT_STOP_GRACE);
    let id = spawn_shell(&stage, &[], &format!("{REMOVES_LAUNCH_DIR} {IGNORES_TERM}"));
    let agent = wait_dir_removed(&stage, &id);
    // If the directory vanished before the start was recorded, the launch ends for that reason.
    let cancelled = stage.home.provost(&["cancel", &id]);
    let row = stage.wait_sealed(&id);
    assert!(!is_running(agent), "sealed while {agent} runs: {row}");
    if cancelled.code() == Some(0) {
        assert_eq!(row["state"], "cancelled", "{row}");
    }
    assert!(!flags(&row).contains(&json!("processes_may_remain")), "{row}");
}

#[test]
fn agent_without_launch_dir_is_not_operator() {
    let stage = TestEnv::new();
    let resolve = "$PROVOST_BIN resolve $PROVOST_SESSION --as accepted --because mine";
    let id = spawn_shell(
        &stage,
        &[],
        &format!("{REMOVES_LAUNCH_DIR} while :; do {resolve}; sleep 0.1; done"),
    );
    let agent = wait_dir_removed(&stage, &id);
    stage.home.daemon().kill();
    let row = stage.wait_sealed(&id);
    assert!(!is_running(agent), "sealed while {agent} runs: {row}");
    assert_eq!((&row["state"], &row["resolution"]), (&json!("exited_without_claim"), &Value::Null));
}

#[test]
fn emptied_or_forged_launch_dir_is_not_an_end() {
    let stage = TestEnv::new();
    for lie in [true, false] {
        let id = stage.spawn_scenario(HANGS, &[]);
        let (agent, dir) = (stage.pid(&id), launch_dir(&stage, &id));
        if lie {
            forge_exit_record(&dir);
        } else {
            fs::remove_file(dir.join("held.json")).unwrap();
            fs::remove_file(dir.join("holder.json")).unwrap();
        }
        stage.home.daemon().kill();
        let row = stage.wait_sealed(&id);
        assert!(!is_running(agent), "sealed while {agent} runs: {row}");
        assert_eq!(row["process"], "unknown", "{row}");
    }
}

#[test]
fn forged_exit_beside_stopped_holder_is_ignored() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let (agent, dir) = (stage.pid(&id), launch_dir(&stage, &id));
    let holder = holder_pid(&dir);
    // This is the state after a daemon was killed while it ended such a launch.
    stage.home.daemon().kill();
    signal(holder, Signal::STOP);
    signal(agent, Signal::KILL);
    forge_exit_record(&dir);
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["process"]),
        (&json!("exited_without_claim"), &json!("unknown"))
    );
    assert!(
        !is_running(agent) && !is_running(holder),
        "sealed while {agent} or {holder} runs: {row}"
    );
}

#[test]
fn stopped_holder_still_enforces_time_limit() {
    let stage = TestEnv::new();
    stage.configure(SHORT_STOP_GRACE);
    let script = "echo $$ > pid.new; mv pid.new pid; kill -STOP $PPID; while :; do sleep 1; done";
    let id = spawn_shell(&stage, &["--time-limit", "1s"], script);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("timeout")), "{row}");
    assert!(!is_running(written_pid(&stage)), "{row}");
}

#[test]
fn agent_with_stopped_holder_can_be_cancelled() {
    let stage = TestEnv::new();
    stage.configure(SHORT_STOP_GRACE);
    let id = spawn_shell(&stage, &[], STOPS_HOLDER);
    let agent = written_pid(&stage);
    let cancelled = stage.home.provost(&["cancel", &id]);
    let row = stage.wait_sealed(&id);
    assert!(!is_running(agent), "sealed while {agent} runs: {row}");
    assert!(!flags(&row).contains(&json!("processes_may_remain")), "{row}");
    if cancelled.code() == Some(0) {
        assert_eq!(row["state"], "cancelled", "{row}");
    }
    // Other sessions start as usual.
    let next = spawn_shell(&stage, &["--exit-zero-completes"], "true");
    assert_eq!(stage.wait_sealed(&next)["state"], "completed");
}

#[test]
fn grandchild_stopping_holder_does_not_delay_outcome() {
    let stage = TestEnv::new();
    stage.configure(&format!("{SHORT_STOP_GRACE}drain = \"3s\"\n"));
    let repo = stage.home.repo("work");
    let ended =
        "until [ -e \"$PROVOST_HOME/launches/$PROVOST_LAUNCH/exit.json\" ]; do sleep 0.1; done";
    let recorded = stage.file("recorded");
    let left = format!(
        "(trap '' TERM; {ended}; until [ -e {recorded} ]; do sleep 0.05; done; while :; do kill -STOP $PPID; done) &"
    );
    let script = format!("echo a > a.txt; {left} exit 0");
    let options = ["--worktree", "--exit-zero-completes", "--check", "true"];
    let arguments = [&options[..], &["--", "sh", "-c", &script]].concat();
    let id = stage.spawn_in(repo.path(), &arguments);
    eventually("the end is recorded", || {
        (!stage.home.events_of(&id, "process.ended").is_empty()).then_some(())
    });
    fs::write(&recorded, "").unwrap();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row}");
    assert!(flags(&row).contains(&json!("leftovers")), "{row}");
}

#[test]
fn check_with_stopped_holder_ends_on_cancel() {
    let stage = TestEnv::new();
    stage.configure(SHORT_STOP_GRACE);
    let repo = stage.home.repo("work");
    let outside = stage.file("check.pid");
    let check = format!("echo $$ > {outside}; trap '' TERM; while :; do kill -STOP $PPID; done");
    let steps = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario_in(repo.path(), steps, &["--worktree", "--check", &check]);
    let check = eventually("the check runs", || read_pid(Path::new(&outside)));
    stage.home.provost(&["cancel", &id]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "cancelled", "{row}");
    eventually("the check is ended", || (!is_running(check)).then_some(()));
}

/// Starts a shell script as a session, in the home's root.
#[track_caller]
fn spawn_shell(stage: &TestEnv, options: &[&str], script: &str) -> String {
    stage.spawn_in(stage.home.root(), &[options, &["--", "sh", "-c", script]].concat())
}

/// Returns the pid that the process wrote.
fn written_pid(stage: &TestEnv) -> u32 {
    eventually("the agent says who it is", || read_pid(&stage.home.root().join("pid")))
}

/// Returns the pid of the process that removed its launch directory, once it has done so. A file
/// that its holder was just writing may remain. The request follows the launch record, because
/// without a record the launch could not be known to have run.
fn wait_dir_removed(stage: &TestEnv, id: &str) -> u32 {
    let (agent, journal) = (written_pid(stage), launch_dir(stage, id).join("journal"));
    stage.home.wait_state(id, |row| row["launches"][0]["pid"].is_number());
    fs::write(stage.home.root().join("go"), "").unwrap();
    eventually("the journal is gone", || (!journal.exists()).then_some(()));
    agent
}

fn read_pid(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Writes a forged record into a launch's directory: a successful exit with no processes left.
fn forge_exit_record(dir: &Path) {
    let exit = r#"{"version":1,"end":{"exited":{"code":0}},"ended_by":"itself","wall_ms":1,"mono_ms":1,"journal_end":0}"#;
    let gone = r#"{"version":1,"leftovers":0,"verified":true,"journal_end":0}"#;
    fs::write(dir.join("exit.json"), exit).unwrap();
    fs::write(dir.join("gone.json"), gone).unwrap();
}

/// Returns the pid of a launch's holder.
fn holder_pid(dir: &Path) -> u32 {
    let taken: Value = serde_json::from_slice(&fs::read(dir.join("holder.json")).unwrap()).unwrap();
    u32::try_from(taken["holder"]["pid"].as_u64().unwrap()).unwrap()
}

fn launch_dir(stage: &TestEnv, id: &str) -> PathBuf {
    stage.home.path().join("launches").join(format!("{id}.l1"))
}

fn flags(row: &Value) -> Vec<Value> {
    row["flags"].as_array().cloned().unwrap_or_default()
}
