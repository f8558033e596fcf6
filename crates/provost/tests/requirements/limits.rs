//! Checks and hooks have time and output limits, and are killed with every process they started.

use std::fs;

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, is_running};

/// Starts a grandchild in its own session, prints its pid, and sleeps.
const STARTS_GRANDCHILD: &str =
    "setsid sleep 600 & echo $! >> pids; sleep 600 & echo $! >> pids; echo $$ >> pids; wait";

const WRITES_FILE: &str = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n";

#[test]
fn e26_endless_hook_is_killed_with_its_group() {
    let stage = TestEnv::new();
    let script = STARTS_GRANDCHILD.replace("pids", &stage.file("pids"));
    stage.configure(&format!(
        "[hooks]\nsession.completed = {{ command = {script:?}, time_limit = \"400ms\" }}\n"
    ));
    let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &[]);
    let finished = finished_hook(&stage, &id);
    assert_eq!(finished["data"]["end"], "time_limit", "{finished}");
    assert_all_gone(&stage.file("pids"));
    let row = stage.status(&id);
    assert_eq!(row["state"], "completed", "a hook says nothing about the work");
}

#[test]
fn e26_flooding_hook_is_killed() {
    let stage = TestEnv::new();
    stage.configure(
        "[hooks]\nsession.completed = { command = \"yes\", output_limit = \"64KiB\" }\n",
    );
    let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &[]);
    assert_eq!(finished_hook(&stage, &id)["data"]["end"], "output_limit");
    assert_bounded(&stage, 64 << 10);
}

#[test]
fn e26_endless_check_is_killed_with_group_and_fails() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure("[verify]\ntime_limit = \"400ms\"\n[session]\nstop_grace = \"200ms\"\n");
    let script = STARTS_GRANDCHILD.replace("pids", &stage.file("pids"));
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &["--worktree", "--check", &script]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("verification")));
    assert!(row["flags"].as_array().unwrap().contains(&json!("checks_unfinished")), "{row}");
    assert_eq!(row["checks"][0]["result"], "unfinished", "{row}");
    assert_all_gone(&stage.file("pids"));
}

#[test]
fn e26_flooding_check_is_killed_and_fails() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure("[verify]\noutput_limit = \"64KiB\"\n");
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &["--worktree", "--check", "yes"]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("verification")));
    assert_ne!(row["checks"][0]["result"], "passed");
    assert_bounded(&stage, 64 << 10);
}

#[test]
fn e26_processes_left_by_a_check_are_killed() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure("[session]\ndrain = \"100ms\"\nstop_grace = \"100ms\"\n");
    let script = format!("sleep 600 & echo $! > {}; exit 0", stage.file("pids"));
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &["--worktree", "--check", &script]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row}");
    assert_all_gone(&stage.file("pids"));
}

fn finished_hook(stage: &TestEnv, id: &str) -> Value {
    eventually("the end of the hook", || stage.events_of(id, "hook.finished").pop())
}

#[track_caller]
fn assert_all_gone(pids: &str) {
    let text = fs::read_to_string(pids).unwrap();
    assert!(!text.is_empty());
    for pid in text.lines() {
        assert!(!is_running(pid.parse().unwrap()), "{pid} was left behind");
    }
}

/// Asserts that the journal is only slightly larger than the limit, because frames have headers and
/// the content of one pipe may follow.
#[track_caller]
fn assert_bounded(stage: &TestEnv, limit: u64) {
    let mut journals = 0;
    for entry in fs::read_dir(stage.home.path().join("checks")).unwrap().map(Result::unwrap) {
        let size = fs::metadata(entry.path().join("journal")).unwrap().len();
        assert!(size > 0 && size <= 2 * limit + (128 << 10), "{size} bytes were kept");
        journals += 1;
    }
    assert_eq!(journals, 1);
}
