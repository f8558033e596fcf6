//! Landing verified work: fast-forwarded if the branch has not moved, merged and checked again if it has. The user's
//! own changes are never lost.

use serde_json::json;

use super::kit::{waiting_work, work};
use crate::kit::Stage;

const WRITE: &str = "echo hello > greeting.txt";
const CHECK: &str = "grep -q hello greeting.txt";

const MERGED: [&str; 8] = [
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
fn stages(row: &serde_json::Value) -> Vec<String> {
    let sessions = row["sessions"].as_array().unwrap();
    sessions.iter().map(|one| one["stage"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn work_is_merged_into_a_branch_that_has_not_moved_and_the_users_files_stay() {
    let Some(stage) = Stage::new(&work(WRITE)) else { return };
    stage.repo.write("mine.txt", "not committed");
    let id = stage.run_detached(&MERGED);
    let row = stage.run_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(row["landing"]["commit"], json!(stage.repo.head()), "{row:#}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(stage.repo.read("mine.txt"), "not committed");
    assert_eq!(stages(&row), ["work"]);
}

#[test]
fn a_branch_that_moved_is_merged_with_the_work_and_the_merge_is_checked_before_it_lands() {
    let Some(stage) = Stage::new(&waiting_work(WRITE)) else { return };
    let id = stage.run_detached(&MERGED);
    stage.model.wait_for_hold("door");
    stage.repo.write("other.txt", "theirs\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(stages(&row), ["work", "land"], "the merge was checked separately");
    let parents = stage.repo.git(&["log", "-1", "--format=%P"]);
    assert!(parents.contains(&theirs), "{parents}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(row["checks"][0]["tree"], json!(stage.repo.tree("HEAD")), "{row:#}");
}

#[test]
fn e18_a_merge_that_fails_its_checks_does_not_land() {
    let Some(stage) = Stage::new(&waiting_work(WRITE)) else { return };
    let check = "test ! -e other.txt && grep -q hello greeting.txt";
    let arguments = [&MERGED[..7], &[check]].concat();
    let id = stage.run_detached(&arguments);
    stage.model.wait_for_hold("door");
    stage.repo.write("other.txt", "theirs\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.run_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert_eq!(stage.repo.head(), theirs, "the branch is unchanged");
    assert_eq!(row["landing"]["done"], false);
}

#[test]
fn conflicts_with_a_branch_that_moved_are_mended_by_an_agent_and_no_marker_lands() {
    let fixes = work("echo hello and goodbye > greeting.txt");
    let Some(stage) = Stage::new(&[waiting_work(WRITE), fixes].concat()) else { return };
    let id = stage.run_detached(&MERGED);
    stage.model.wait_for_hold("door");
    stage.repo.write("greeting.txt", "goodbye\n");
    let theirs = stage.repo.commit("theirs");
    stage.model.release("door");
    let row = stage.run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(stages(&row), ["work", "land"]);
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello and goodbye");
    let history = stage.repo.git(&["log", "-p", "--format=%H"]);
    assert!(history.contains(&theirs) && !history.contains("<<<<<<<"), "{history}");
    let asked = stage.model.wait_for_request("the conflict", |made| {
        made.request.prompts().iter().any(|said| said.contains("conflict markers"))
    });
    assert!(asked.request.prompts().join("\n").contains("- greeting.txt"));
    stage.model.assert_all_as_scripted();
}

#[test]
fn changes_of_the_user_in_the_way_are_kept_and_the_run_is_resumed_when_they_are_gone() {
    let Some(stage) = Stage::new(&work(WRITE)) else { return };
    stage.repo.write("greeting.txt", "my own\n");
    let id = stage.run_detached(&MERGED);
    let row = stage.run_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("greeting.txt") && detail.contains("resume"), "{detail}");
    assert_eq!(stage.repo.read("greeting.txt"), "my own\n");
    std::fs::remove_file(stage.repo.path().join("greeting.txt")).unwrap();
    stage.provost(&["resume", &id]).ok();
    let row = stage.wait_run(&id, |row| row["leg"] == 2 && row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");
    assert_eq!(stages(&row), ["work"], "nothing was done again");
}
