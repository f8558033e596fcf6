//! Launches whose directory vanishes, and live holders that do not answer: neither counts as an end.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provost_testkit::harness::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{HANGS, Stage, lives, signal};

/// Shortens a stop, so that all of its steps are taken.
const QUICK: &str = "[session]\nstop_grace = \"1s\"\n";

/// Writes its pid, and removes the directory of its launch on request. It moves the directory in one step: a holder
/// that sees half of it gone may end the agent before the rest is removed.
const REMOVES: &str = "echo $$ > pid.new; mv pid.new pid; while [ ! -e go ]; do sleep 0.02; done; mv \"$PROVOST_HOME/launches/$PROVOST_LAUNCH\" \"$PROVOST_HOME/gone\"; rm -rf \"$PROVOST_HOME/gone\";";

/// Runs until it is killed; ignores TERM.
const STAYS: &str = "trap '' TERM; while :; do sleep 1; done";

/// Writes its pid, and keeps stopping its holder.
const STOPS: &str =
    "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do kill -STOP $PPID; done";

#[test]
fn a_launch_without_its_directory_is_not_over_before_its_processes_are() {
    let stage = Stage::new();
    let id = shell(&stage, &[], &format!("{REMOVES} {STAYS}"));
    let agent = removed(&stage, &id);
    stage.home.daemon().kill();
    let row = stage.home.wait_state(&id, |row| {
        assert!(row["sealed"] == false || !lives(agent), "sealed while {agent} runs: {row}");
        row["sealed"] == true
    });
    assert_eq!((&row["state"], &row["process"]), (&json!("ended_unclaimed"), &json!("unknown")));
    assert!(flags(&row).contains(&json!("exit_code_unobserved")), "{row}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "nothing was started twice");
}

#[test]
fn a_launch_without_its_directory_can_be_cancelled() {
    let stage = Stage::new();
    stage.configure(QUICK);
    let id = shell(&stage, &[], &format!("{REMOVES} {STAYS}"));
    let agent = removed(&stage, &id);
    // Unless the directory vanished before the start was recorded: then the launch ends for that reason.
    let cancelled = stage.home.provost(&["cancel", &id]);
    let row = stage.sealed(&id);
    assert!(!lives(agent), "sealed while {agent} runs: {row}");
    if cancelled.code() == Some(0) {
        assert_eq!(row["state"], "cancelled", "{row}");
    }
    assert!(!flags(&row).contains(&json!("not_verified_gone")), "{row}");
}

#[test]
fn an_agent_without_its_directory_does_not_become_the_operator() {
    let stage = Stage::new();
    let resolve = "$PROVOST_BIN resolve $PROVOST_SESSION --as accepted --because mine";
    let id = shell(&stage, &[], &format!("{REMOVES} while :; do {resolve}; sleep 0.1; done"));
    let agent = removed(&stage, &id);
    stage.home.daemon().kill();
    let row = stage.sealed(&id);
    assert!(!lives(agent), "sealed while {agent} runs: {row}");
    assert_eq!((&row["state"], &row["resolution"]), (&json!("ended_unclaimed"), &Value::Null));
}

#[test]
fn a_directory_that_was_emptied_or_tells_a_lie_is_no_end() {
    let stage = Stage::new();
    for lie in [true, false] {
        let id = stage.play(HANGS, &[]);
        let (agent, dir) = (stage.pid(&id), launch_dir(&stage, &id));
        if lie {
            forge_the_end(&dir);
        } else {
            fs::remove_file(dir.join("held.json")).unwrap();
            fs::remove_file(dir.join("holder.json")).unwrap();
        }
        stage.home.daemon().kill();
        let row = stage.sealed(&id);
        assert!(!lives(agent), "sealed while {agent} runs: {row}");
        assert_eq!(row["process"], "unknown", "{row}");
    }
}

#[test]
fn a_forged_end_beside_a_holder_that_is_kept_stopped_is_not_believed() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    let (agent, dir) = (stage.pid(&id), launch_dir(&stage, &id));
    let holder = holder(&dir);
    // The state that a daemon leaves if it is killed while it ends such a launch.
    stage.home.daemon().kill();
    signal(holder, Signal::STOP);
    signal(agent, Signal::KILL);
    forge_the_end(&dir);
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["process"]), (&json!("ended_unclaimed"), &json!("unknown")));
    assert!(!lives(agent) && !lives(holder), "sealed while {agent} or {holder} runs: {row}");
}

#[test]
fn an_agent_that_stopped_its_holder_once_is_ended_at_its_time_limit() {
    let stage = Stage::new();
    stage.configure(QUICK);
    let script = "echo $$ > pid.new; mv pid.new pid; kill -STOP $PPID; while :; do sleep 1; done";
    let id = shell(&stage, &["--time-limit", "1s"], script);
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("timeout")), "{row}");
    assert!(!lives(pid(&stage)), "{row}");
}

#[test]
fn an_agent_that_keeps_its_holder_stopped_can_be_cancelled() {
    let stage = Stage::new();
    stage.configure(QUICK);
    let id = shell(&stage, &[], STOPS);
    let agent = pid(&stage);
    let cancelled = stage.home.provost(&["cancel", &id]);
    let row = stage.sealed(&id);
    assert!(!lives(agent), "sealed while {agent} runs: {row}");
    assert!(!flags(&row).contains(&json!("not_verified_gone")), "{row}");
    if cancelled.code() == Some(0) {
        assert_eq!(row["state"], "cancelled", "{row}");
    }
    // Other sessions start as usual.
    let next = shell(&stage, &["--exit0-is-done"], "true");
    assert_eq!(stage.sealed(&next)["state"], "completed");
}

#[test]
fn a_grandchild_that_stops_the_holder_does_not_hold_up_the_outcome() {
    let stage = Stage::new();
    stage.configure(&format!("{QUICK}drain = \"3s\"\n"));
    let repo = stage.home.repo("work");
    let ended =
        "until [ -e \"$PROVOST_HOME/launches/$PROVOST_LAUNCH/exit.json\" ]; do sleep 0.1; done";
    let left = format!("(trap '' TERM; {ended}; sleep 0.3; while :; do kill -STOP $PPID; done) &");
    let script = format!("echo a > a.txt; {left} exit 0");
    let options = ["--worktree", "--exit0-is-done", "--check", "true"];
    let arguments = [&options[..], &["--", "sh", "-c", &script]].concat();
    let id = stage.spawn_in(repo.path(), &arguments);
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row}");
    assert!(flags(&row).contains(&json!("leftovers")), "{row}");
}

#[test]
fn a_check_that_stops_its_holder_does_not_outlive_a_cancel() {
    let stage = Stage::new();
    stage.configure(QUICK);
    let repo = stage.home.repo("work");
    let outside = stage.file("check.pid");
    let check = format!("echo $$ > {outside}; trap '' TERM; while :; do kill -STOP $PPID; done");
    let steps = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.play_in(repo.path(), steps, &["--worktree", "--check", &check]);
    let check = eventually("the check runs", || number(Path::new(&outside)));
    stage.home.provost(&["cancel", &id]).ok();
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "cancelled", "{row}");
    eventually("the check is ended", || (!lives(check)).then_some(()));
}

/// Starts a shell script as a session, in the home's root.
#[track_caller]
fn shell(stage: &Stage, options: &[&str], script: &str) -> String {
    stage.spawn_in(stage.home.root(), &[options, &["--", "sh", "-c", script]].concat())
}

/// The pid that the process wrote.
fn pid(stage: &Stage) -> u32 {
    eventually("the agent says who it is", || number(&stage.home.root().join("pid")))
}

/// The pid of the process that removed its launch directory, once it has. A file its holder was just writing may
/// stay. The request follows the launch record: without a record, the launch could not be known to have run.
fn removed(stage: &Stage, id: &str) -> u32 {
    let (agent, journal) = (pid(stage), launch_dir(stage, id).join("journal"));
    stage.home.wait_state(id, |row| row["launches"][0]["pid"].is_number());
    fs::write(stage.home.root().join("go"), "").unwrap();
    eventually("the journal is gone", || (!journal.exists()).then_some(()));
    agent
}

fn number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Writes a forged record into a launch's directory: a successful exit with no processes left.
fn forge_the_end(dir: &Path) {
    let exit = r#"{"version":1,"end":{"exited":{"code":0}},"ended_by":"itself","wall_ms":1,"mono_ms":1,"journal_end":0}"#;
    let gone = r#"{"version":1,"leftovers":0,"verified":true,"journal_end":0}"#;
    fs::write(dir.join("exit.json"), exit).unwrap();
    fs::write(dir.join("gone.json"), gone).unwrap();
}

/// The pid of a launch's holder.
fn holder(dir: &Path) -> u32 {
    let taken: Value = serde_json::from_slice(&fs::read(dir.join("holder.json")).unwrap()).unwrap();
    u32::try_from(taken["holder"]["pid"].as_u64().unwrap()).unwrap()
}

fn launch_dir(stage: &Stage, id: &str) -> PathBuf {
    stage.home.path().join("launches").join(format!("{id}.l1"))
}

fn flags(row: &Value) -> Vec<Value> {
    row["flags"].as_array().cloned().unwrap_or_default()
}
