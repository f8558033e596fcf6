//! Pull requests: created once and watched; feedback goes to the session that did the work.
//!
//! `gh` is a stand-in that answers from files in GitHub's format. The remote is a bare repository, and the pushes are
//! real.

use provost_testkit::forge::{FakeForge, PULL_REQUESTS};
use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::run_threads::{with_rework_turn, work_thread};
use crate::codex_env::CodexEnv;

const PULL_REQUEST_ARGS: [&str; 8] = [
    "Write a greeting.",
    "--no-triage",
    "--review-task",
    "off",
    "--land",
    "pr",
    "--check",
    "grep -q hello greeting.txt",
];

/// Creates a forge for the environment's repository.
fn forge_of(stage: &mut CodexEnv) -> FakeForge {
    let forge = FakeForge::with_remote(&mut stage.home, &stage.repo, PULL_REQUESTS);
    stage.configure("[run]\npull_every = \"50ms\"\npull_checks = \"0s\"\n");
    forge
}

fn finished_check(conclusion: &str) -> Value {
    json!([{"name": "build", "status": "COMPLETED", "conclusion": conclusion}])
}

fn running_check() -> Value {
    json!([{"name": "build", "status": "IN_PROGRESS", "conclusion": ""}])
}

#[test]
fn pull_request_is_created_once_with_evidence() {
    let Some(mut stage) = CodexEnv::new(&work_thread("echo hello > greeting.txt")) else { return };
    let forge = forge_of(&mut stage);
    forge.set_view("OPEN", &running_check());
    let id = stage.run_detached(&PULL_REQUEST_ARGS);
    let row = stage.wait_run(&id, |row| row["landing"]["pull_request"]["checks"] == "pending");
    assert_eq!((&row["stage"], &row["sealed"]), (&json!("land"), &json!(false)), "{row:#}");
    // The next daemon finds the pull request and creates no other.
    stage.daemon().kill();
    forge.set_view("OPEN", &finished_check("SUCCESS"));
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["landing"]["pull_request"]["url"], "https://example.invalid/pull/7");
    assert_eq!(forge.count_calls("pr create"), 1);
    let body = forge.pull_request_text();
    for part in ["Write a greeting.", "grep -q hello greeting.txt", "passed"] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
}

#[test]
fn failed_check_and_comment_reach_session_once() {
    let scenario =
        with_rework_turn(&work_thread("echo hello > greeting.txt"), "echo more >> greeting.txt");
    let Some(mut stage) = CodexEnv::new(&scenario) else { return };
    let forge = forge_of(&mut stage);
    let comment = json!([{"id": 3, "user": {"login": "ann"}, "author_association": "MEMBER", "path": "greeting.txt", "line": 1, "body": "say more"}]);
    forge.write_json("lines.json", &comment);
    forge.set_view("OPEN", &finished_check("FAILURE"));
    let id = stage.run_detached(&PULL_REQUEST_ARGS);
    let asked = stage.model.wait_for_request("the review comments", |made| {
        made.request.prompts().iter().any(|prompt| prompt.contains("> greeting.txt:1: say more"))
    });
    let prompts = asked.request.prompts().join("\n");
    assert!(prompts.contains("The check \"build\" ended with FAILURE"), "{prompts}");
    forge.set_view("OPEN", &finished_check("SUCCESS"));
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["sessions"].as_array().unwrap().len(), 1, "one conversation: {row:#}");
    assert_eq!(forge.count_calls("pr create"), 1);
    let pushed = stage.repo.git(&["ls-remote", "origin", "refs/heads/provost/*"]);
    assert!(pushed.starts_with(row["commit"].as_str().unwrap()), "{pushed} {row:#}");
    assert_eq!(
        stage.run_kinds(&id).iter().filter(|kind| *kind == "run.land_step_added").count(),
        1,
        "each comment reached the session once"
    );
    stage.model.assert_all_as_scripted();
}

#[test]
fn cancelled_run_keeps_its_pull_request() {
    let Some(mut stage) = CodexEnv::new(&work_thread("echo hello > greeting.txt")) else { return };
    let forge = forge_of(&mut stage);
    forge.set_view("OPEN", &running_check());
    let id = stage.run_detached(&PULL_REQUEST_ARGS);
    stage.wait_run(&id, |row| row["landing"]["pull_request"].is_object());
    stage.provost(&["cancel", &id]).ok();
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["landing"]["done"]), (&json!("cancelled"), &json!(false)));
    assert_eq!(row["landing"]["pull_request"]["number"], 7, "{row:#}");
    let seen = forge.count_calls("pr view");
    // The daemon no longer polls: the next poll would have happened before this command ended.
    stage.provost(&["ls"]).ok();
    assert!(forge.count_calls("pr view") <= seen + 1);
}

#[test]
fn missing_gh_fails_landing_and_resumes_later() {
    let Some(mut stage) = CodexEnv::new(&work_thread("echo hello > greeting.txt")) else { return };
    let forge = forge_of(&mut stage);
    forge.uninstall();
    let id = stage.run_detached(&PULL_REQUEST_ARGS);
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("gh"), "{row:#}");
    // The work is kept, and the run can be resumed once `gh` exists.
    forge.install(PULL_REQUESTS);
    forge.set_view("MERGED", &json!([]));
    stage.provost(&["resume", &id]).ok();
    let row = eventually("the second attempt is sealed", || {
        let row = stage.run_row(&id);
        if row["attempt"] == 2 && row["sealed"] == true { Ok(row) } else { Err(format!("{row:#}")) }
    });
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
}
