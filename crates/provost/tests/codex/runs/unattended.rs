//! Runs that ask no questions, and runs whose answers were given in advance.

use super::run_threads::{COLOUR_QUESTION, triage_thread, work_thread};
use crate::codex_env::CodexEnv;

const WORK: &str = "echo hello > greeting.txt";

#[test]
fn r21_predefined_answers_are_used_unasked() {
    let Some(stage) = CodexEnv::new(&[triage_thread(COLOUR_QUESTION), work_thread(WORK)].concat())
    else {
        return;
    };
    let answers = stage.root().join("answers.json");
    std::fs::write(&answers, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#).unwrap();
    let answers = answers.to_str().unwrap();
    let ran = stage.run(&["Write it.", "--review-task", "off", "--answers", answers, "--json"]);
    let row = &ran.ok().json()["run"];
    assert_eq!(row["state"], "completed", "there was no check: {row:#}");
    assert_eq!(row["decisions"][0]["answer"][0], "Blue", "{row:#}");
    let kinds = stage.run_kinds(row["id"].as_str().unwrap());
    assert!(!kinds.iter().any(|kind| kind == "run.request_observed"), "{kinds:?}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r19_no_questions_refuses_agent_questions() {
    let Some(stage) = CodexEnv::new(&[triage_thread(COLOUR_QUESTION), work_thread(WORK)].concat())
    else {
        return;
    };
    let ran = stage.run(&["Write it.", "--review-task", "off", "--no-questions"]);
    assert!(ran.ok().stdout.contains("completed"), "{ran:#?}");
    let id = ran.stdout.lines().next().unwrap();
    let kinds = stage.run_kinds(id);
    assert!(!kinds.iter().any(|kind| kind == "run.request_observed"), "{kinds:?}");
    assert_eq!(stage.run_row(id)["decisions"], serde_json::json!([]));
    let refused = stage.model.wait_for_request("the refusal of the question", |made| {
        made.request.last_output().contains("unavailable")
    });
    assert!(!refused.request.last_output().contains("Blue"), "{refused:?}");
    stage.model.assert_all_as_scripted();
}
