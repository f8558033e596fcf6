//! Runs that are cancelled in each stage: no process is left, no work is lost, and they stay cancelled.

use serde_json::Value;

use super::run_threads::{
    COLOUR_QUESTION, HELD_THREAD, triage_thread, work_thread, work_until_resumed,
};
use crate::codex_env::CodexEnv;

const WRITE: &str = "echo hello > greeting.txt";

/// Cancels a run and returns its sealed row.
#[track_caller]
fn cancel_run(stage: &CodexEnv, id: &str) -> Value {
    stage.provost(&["cancel", id, "--because", "enough"]).ok();
    wait_cancelled(stage, id)
}

/// Waits for a cancelled run to be sealed and returns its row.
#[track_caller]
fn wait_cancelled(stage: &CodexEnv, id: &str) -> Value {
    let row = stage.wait_run_sealed(id);
    assert_eq!((&row["state"], &row["detail"]), (&"cancelled".into(), &"enough".into()), "{row:#}");
    for session in row["sessions"].as_array().unwrap() {
        let session = stage.status(session["id"].as_str().unwrap());
        assert_ne!(session["process"], "alive", "{session:#}");
    }
    let again = stage.provost(&["cancel", id]);
    assert!(again.ok().stderr.contains("already cancelled"), "{again:#?}");
    row
}

#[test]
fn r01_r15_run_cancelled_at_question_stays_cancelled() {
    let Some(stage) = CodexEnv::new(&triage_thread(COLOUR_QUESTION)) else { return };
    let id = stage.run_detached(&["Write it."]);
    let asked = stage.wait_run(&id, |row| row["requests"][0].is_object());
    let mut watch = stage.follow(&["status", &id, "--watch", "--json"]);
    let first =
        watch.wait_line("the run as it is", |line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(first["stage"], "triage", "{first:#}");
    let row = cancel_run(&stage, &id);
    assert_eq!(row["stage"], "triage", "{row:#}");
    let sealed = watch.wait_line("its end", |line| {
        serde_json::from_str::<Value>(line).ok().filter(|row| row["sealed"] == true)
    });
    assert_eq!(sealed["state"], "cancelled");
    assert!(watch.wait_end().success());
    let request = asked["requests"][0]["id"].as_str().unwrap();
    stage.provost(&["answer", request, "Blue"]).assert_code(4);
    stage.provost(&["answer", &id, "Blue"]).assert_code(4);
    assert_eq!(stage.run_row(&id)["state"], "cancelled");
    assert!(stage.wait_summary(&id).contains("cancelled"));
}

#[test]
fn e05_e06_cancelled_work_is_kept_and_resumed() {
    let Some(stage) = CodexEnv::new(&work_until_resumed(WRITE)) else { return };
    let id = stage.run_detached(&["Write it.", "--no-triage", "--review-task", "off"]);
    stage.model.wait_for_hold("door");
    let row = stage.run_row(&id);
    let session = row["sessions"][0]["id"].as_str().unwrap();
    for verb in [&["stop", &id][..], &["send", &id, "Hurry."]] {
        let refused = stage.provost(verb);
        let named = format!("provost {} {}", verb[0], &session[session.len() - 8..]);
        assert!(refused.assert_code(4).stderr.contains(&named), "{refused:#?}");
    }
    let why = stage.provost(&["status", &id, "--why", "--json"]).ok().json();
    assert_eq!(why["session"]["session"]["id"], *session, "{why:#}");
    assert_eq!(why["why"], "it waits for its session of the stage work", "{why:#}");
    let listed = stage.provost(&["ls", "--json"]).ok().json();
    assert_eq!(listed["sessions"][0]["run"], *id, "{listed:#}");
    assert_eq!(listed["runs"][0]["id"], *id, "{listed:#}");
    let shown = stage.provost(&["ls", "--runs"]).ok().stdout.clone();
    assert!(shown.contains("Write it.") && shown.contains("work"), "{shown}");
    cancel_run(&stage, &id);
    let place = stage.status(session)["worktree"]["path"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(format!("{place}/greeting.txt")).unwrap(), "hello\n");
    assert!(stage.repo.is_clean(), "the checkout itself is unchanged");
    stage.model.release("door");

    stage.provost(&["resume", &id]).ok();
    stage.provost(&["resume", &id]).assert_code(4);
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["attempt"]), (&"completed".into(), &2.into()), "{row:#}");
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{branch}:greeting.txt")]), "hello");
    let second = stage.wait_summary(&id);
    assert!(second.contains(": completed"), "{second}");
    let first = stage.provost(&["summary", &id, "--attempt", "1"]).ok().stdout.clone();
    assert!(first.starts_with("# run-") && first.contains(": cancelled"), "{first}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn e06_run_cancelled_while_planning_ignores_plan() {
    let task = r#"{"id":"one","title":"The one","instruction":"Write one.","after":[],"criteria":[],"checks":[],"scope":[]}"#;
    let plan = format!(r#"{{"status":"completed","summary":"planned","tasks":[{task}]}}"#);
    let planner = format!(
        "[[thread]]\nturn = [{{ response = [{{ items = [{{ hold = \"door\" }}, {{ message = '{plan}' }}] }}] }}]\n"
    );
    let Some(stage) = CodexEnv::new(&planner) else { return };
    let id = stage.run_detached(&["Write it.", "--no-triage", "--plan-mode", "always"]);
    stage.model.wait_for_hold("door");
    assert_eq!(stage.run_row(&id)["stage"], "plan");
    stage.provost(&["cancel", &id, "--because", "enough"]).ok();
    // The planner's reply races with the cancellation.
    stage.model.release("door");
    let row = wait_cancelled(&stage, &id);
    assert_eq!((&row["stage"], &row["tasks"]), (&"plan".into(), &Value::Null), "{row:#}");
    assert_eq!(row["sessions"].as_array().unwrap().len(), 1, "no work started: {row:#}");
    assert!(!stage.run_kinds(&id).contains(&"run.plan_made".to_owned()));
}

#[test]
fn e05_run_cancelled_in_review_keeps_work() {
    let Some(stage) = CodexEnv::new(&[work_thread(WRITE), HELD_THREAD.to_owned()].concat()) else {
        return;
    };
    let id = stage.run_detached(&["Write it.", "--no-triage", "--check", "test -s greeting.txt"]);
    stage.model.wait_for_hold("door");
    let row = cancel_run(&stage, &id);
    assert_eq!((&row["stage"], &row["verified"]), (&"task_review".into(), &true.into()), "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{commit}:greeting.txt")]), "hello");
    stage.model.release("door");
}

#[test]
fn e05_run_cancelled_in_final_review_lands_nothing() {
    let Some(stage) = CodexEnv::new(&[work_thread(WRITE), HELD_THREAD.to_owned()].concat()) else {
        return;
    };
    let reviews = ["--review-task", "off", "--review-final", "repair"];
    let asked = ["Write it.", "--no-triage", "--land", "merge", "--check", "test -s greeting.txt"];
    let head = stage.repo.head();
    let id = stage.run_detached(&[&asked[..], &reviews].concat());
    stage.model.wait_for_hold("door");
    let row = cancel_run(&stage, &id);
    assert_eq!(
        (&row["stage"], &row["verified"]),
        (&"final_review".into(), &true.into()),
        "{row:#}"
    );
    assert_eq!((&row["landing"]["done"], stage.repo.head()), (&false.into(), head), "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{commit}:greeting.txt")]), "hello");
    stage.model.release("door");
}
