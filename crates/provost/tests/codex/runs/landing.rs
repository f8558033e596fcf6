//! Landing verified work. It is fast-forwarded if the branch has not moved, or else merged and
//! checked again. The user's own changes are never lost.

use serde_json::json;

use super::run_threads::{work_after_hold, work_thread};
use crate::codex_env::CodexEnv;

const WRITE: &str = "echo hello > greeting.txt";
const CHECK: &str = "grep -q hello greeting.txt";

const MERGE_ARGS: [&str; 8] = [
    "Write a greeting.",
    "--no-triage",
    "--review-task",
    "off",
    "--land",
    "merge",
    "--check",
    CHECK,
];

/// Returns the stages of a run's sessions.
fn session_stages(row: &serde_json::Value) -> Vec<String> {
    let sessions = row["sessions"].as_array().unwrap();
    sessions.iter().map(|one| one["stage"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn work_lands_on_unmoved_branch_and_keeps_files() {
    let Some(stage) = CodexEnv::new(&work_thread(WRITE)) else { return };
    stage.repo.write("mine.txt", "not committed");
    let id = stage.run_detached(&MERGE_ARGS);
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(row["landing"]["commit"], json!(stage.repo.head()), "{row:#}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(stage.repo.read("mine.txt"), "not committed");
    assert_eq!(session_stages(&row), ["work"]);
}

#[test]
fn moved_branch_is_merged_and_checked_before_landing() {
    let Some(stage) = CodexEnv::new(&work_after_hold(WRITE)) else { return };
    let id = stage.run_detached(&MERGE_ARGS);
    stage.model.wait_for_hold("door");
    stage.repo.write("other.txt", "theirs\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(session_stages(&row), ["work"], "the merge was checked without a session");
    assert_eq!(row["verifications"][0]["state"], "passed", "{row:#}");
    let parents = stage.repo.git(&["log", "-1", "--format=%P"]);
    assert!(parents.contains(&theirs), "{parents}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(row["checks"][0]["tree"], json!(stage.repo.tree("HEAD")), "{row:#}");
}

#[test]
fn e18_merge_failing_its_checks_does_not_land() {
    let Some(stage) = CodexEnv::new(&work_after_hold(WRITE)) else { return };
    let check = "test ! -e other.txt && grep -q hello greeting.txt";
    let arguments = [&MERGE_ARGS[..7], &[check]].concat();
    let id = stage.run_detached(&arguments);
    stage.model.wait_for_hold("door");
    stage.repo.write("other.txt", "theirs\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert_eq!(stage.repo.head(), theirs, "the branch is unchanged");
    assert_eq!(row["landing"]["done"], false);
}

#[test]
fn conflicts_with_moved_branch_are_fixed_by_agent() {
    let fixes = work_thread("echo hello and goodbye > greeting.txt");
    let Some(stage) = CodexEnv::new(&[work_after_hold(WRITE), fixes].concat()) else { return };
    let id = stage.run_detached(&MERGE_ARGS);
    stage.model.wait_for_hold("door");
    stage.repo.write("greeting.txt", "goodbye\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(session_stages(&row), ["work", "land"]);
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello and goodbye");
    let history = stage.repo.git(&["log", "-p", "--format=%H"]);
    assert!(history.contains(&theirs) && !history.contains("<<<<<<<"), "{history}");
    let asked = stage.model.wait_for_request("the conflict", |made| {
        made.request.prompts().iter().any(|prompt| prompt.contains("conflict markers"))
    });
    assert!(asked.request.prompts().join("\n").contains("- greeting.txt"));
    stage.model.assert_all_as_scripted();
}

#[test]
fn landing_keeps_user_changes_and_resumes_later() {
    let Some(stage) = CodexEnv::new(&work_thread(WRITE)) else { return };
    stage.repo.write("greeting.txt", "my own\n");
    let id = stage.run_detached(&MERGE_ARGS);
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("greeting.txt") && detail.contains("resume"), "{detail}");
    assert_eq!(stage.repo.read("greeting.txt"), "my own\n");
    std::fs::remove_file(stage.repo.path().join("greeting.txt")).unwrap();
    stage.provost(&["resume", &id]).ok();
    let row = stage.wait_run(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(session_stages(&row), ["work"], "nothing was done again");
}
