//! A whole run: triage, question, work, checks, review and landing.

use std::ops::Add as _;

use provost_testkit::harness::eventually;
use serde_json::Value;

use super::run_threads::{
    COLOUR_QUESTION, FINDING, NO_CHANGE, review_thread, triage_thread, work_thread,
};
use crate::codex_env::{CodexEnv, TestedCodex};

const WRITE: &str = "echo hello > greeting.txt";
const CHECK: &str = "grep -q hello greeting.txt";

#[test]
fn r04_r21_decision_reaches_every_later_stage() {
    let scenario =
        [triage_thread(COLOUR_QUESTION), work_thread(WRITE), review_thread(FINDING)].concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let id = stage.run_detached(&["Write a greeting.", "--name", "greet", "--check", CHECK]);
    let row = stage.wait_run(&id, |row| row["requests"][0].is_object());
    assert_eq!((&row["stage"], &row["state"]), (&"triage".into(), &"running".into()), "{row:#}");
    let shown = stage.provost(&["status", "greet"]).ok().stdout.clone();
    for part in ["needs input", "Which colour?", "provost answer "] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    stage.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["decisions"][0]["answer"][0], "Blue", "{row:#}");
    assert_eq!(row["findings"][0]["title"], "No newline", "{row:#}");
    assert_eq!(
        (&row["verified"], &row["landing"]["done"]),
        (&true.into(), &true.into()),
        "{row:#}"
    );
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{branch}:greeting.txt")]).trim(), "hello");
    for prompt in ["Do the task below", "Review the work"] {
        let heard = stage.model.wait_for_request(prompt, |made| {
            made.request.prompts().iter().any(|text| text.contains(prompt))
        });
        let prompts = heard.request.prompts().join("\n");
        assert!(
            prompts.contains("Which colour?") && prompts.contains("Decided: Blue"),
            "{prompts}"
        );
    }
    stage.model.assert_all_as_scripted();
}

#[test]
fn oldest_codex_turns_goal_into_verified_branch() {
    let scenario = [triage_thread(NO_CHANGE), work_thread(WRITE), review_thread(FINDING)].concat();
    let Some(stage) = CodexEnv::with_version(TestedCodex::Oldest, &scenario) else { return };
    let id = stage.run_detached(&["Write a greeting.", "--check", CHECK]);
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&"succeeded".into(), &true.into()), "{row:#}");
    assert_eq!(row["understanding"], "a greeting is to be written", "{row:#}");
    assert_eq!(row["findings"][0]["title"], "No newline", "{row:#}");
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(stage.repo.git(&["show", &format!("{branch}:greeting.txt")]).trim(), "hello");
    stage.model.assert_all_as_scripted();
}

const PLAIN_RUN_ARGS: [&str; 5] =
    ["Write a greeting.", "--no-triage", "--review-task", "off", "--check"];

#[test]
fn r16_e19_run_output_and_summary_are_complete() {
    let Some(stage) = CodexEnv::new(&work_thread(WRITE)) else { return };
    let ran = stage.run(&[&PLAIN_RUN_ARGS[..], &[CHECK]].concat());
    let (stdout, stderr) = (&ran.ok().stdout, &ran.stderr);
    let id = stdout.lines().next().unwrap();
    assert!(stdout.lines().last().unwrap().contains("succeeded"), "{stdout}");
    for part in ["stage work", "stage land", "landed on branch provost/", "sealed as succeeded"] {
        assert!(stderr.contains(part), "{part} is not in {stderr}");
    }
    for off in ["stage triage", "stage task review", "stage final review"] {
        assert!(!stderr.contains(off), "{off} is in {stderr}");
    }
    let merge = stderr.lines().rev().find_map(|line| Some(&line[line.find("git -C ")?..])).unwrap();
    let branch = merge.split("  ").next().unwrap().rsplit(' ').next().unwrap();
    stage.repo.git(&["merge", "--quiet", branch]);
    assert_eq!(stage.repo.read("greeting.txt").trim(), "hello");

    let summary = stage.provost(&["summary", id]).ok().stdout.clone();
    for part in [
        "## Asked",
        "Write a greeting.",
        "`greeting.txt` (+1 −0)",
        "passed (set by you, exit 0",
        "to be merged",
    ] {
        assert!(summary.contains(part), "{part} is not in {summary}");
    }
    let html = stage.provost(&["summary", id, "--html"]).ok().stdout.clone();
    assert!(html.starts_with("<!doctype html>") && html.contains("<h2>Proved</h2>"), "{html}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r17_run_hooks_fire_once_and_last_after_sealing() {
    let scenario =
        [triage_thread(COLOUR_QUESTION), work_thread(WRITE), review_thread(FINDING)].concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let log = stage.root().join("hooks.log");
    let hook = |event: &str| format!("\"run.{event}\" = \"echo {event} >> {}\"\n", log.display());
    let events =
        ["opened", "question", "findings", "succeeded", "completed", "failed", "cancelled"];
    let hooks: String = events.into_iter().map(hook).collect();
    stage.configure(&format!("[hooks]\n{hooks}[prices]\ninput = 1.5\noutput = 10\n"));
    let id = stage.run_detached(&["Write a greeting.", "--check", CHECK]);
    stage.wait_run(&id, |row| row["requests"][0].is_object());
    stage.provost(&["answer", &id, "Blue"]).ok();
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let finished = |events: &[Value]| {
        let ended = events.iter().filter(|event| event["kind"] == "run.hook_finished");
        ended.map(|event| event["data"]["key"]["event"].clone()).collect::<Vec<_>>()
    };
    let events = eventually("all hooks have ended", || {
        let events = stage.run_events(&id);
        if finished(&events).len() == 4 { Ok(events) } else { Err(finished(&events)) }
    });
    let sealed: Vec<usize> =
        (0..events.len()).filter(|at| events[*at]["kind"] == "run.sealed").collect();
    assert_eq!(sealed.len(), 1, "{events:#?}");
    let before = finished(&events[..sealed[0]]);
    assert!(!before.contains(&"run.succeeded".into()), "{before:?}");
    let fired = std::fs::read_to_string(&log).unwrap();
    let mut fired: Vec<&str> = fired.lines().collect();
    fired.sort_unstable();
    assert_eq!(fired, ["findings", "opened", "question", "succeeded"]);
    let (input, output) = (&row["usage"]["input"], &row["usage"]["output"]);
    let millionths = input.as_u64().unwrap() * 15 / 10 + output.as_u64().unwrap() * 10;
    let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
    assert_eq!(row["cost"]["amount"], format!("{whole}.{rest:06}"), "{row:#}");
}

#[test]
fn e07_e18_failed_run_resumes_same_conversation() {
    let again = r#"
  { response = [{ items = [{ shell = "echo hello > greeting.txt" }] }, { items = [{ message = "Fixed." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"fixed"}' }] }] },
]"#;
    let first = work_thread("echo goodbye > greeting.txt");
    let Some(stage) = CodexEnv::new(&first.trim_end().trim_end_matches(']').to_owned().add(again))
    else {
        return;
    };
    stage.configure("session.rework = 0\n");
    let spec = stage.root().join("spec.md");
    std::fs::write(&spec, "The greeting is hello.").unwrap();
    let ran =
        stage.run(&[&PLAIN_RUN_ARGS[..], &[CHECK, "--spec", spec.to_str().unwrap()]].concat());
    let id = ran.assert_code(1).stdout.lines().next().unwrap().to_owned();
    std::fs::remove_file(&spec).unwrap();
    let row = stage.run_row(&id);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"work".into()), "{row:#}");
    assert_eq!(row["checks"][0]["result"], "failed", "{row:#}");
    assert!(ran.stderr.contains("provost resume"), "{}", ran.stderr);

    stage.provost(&["resume", &id]).ok();
    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["attempt"]), (&"succeeded".into(), &2.into()), "{row:#}");
    assert_eq!(row["sessions"].as_array().unwrap().len(), 1, "one conversation: {row:#}");
    let heard = stage.model.wait_for_request("the continuation", |made| {
        made.request.prompt().contains("The work was interrupted before it was done")
    });
    assert!(
        heard.request.prompt().contains("The greeting is hello."),
        "{}",
        heard.request.prompt()
    );
    stage.provost(&["resume", &id]).assert_code(4);
    stage.model.assert_all_as_scripted();
}

#[test]
fn r19_only_editing_stages_get_writable_sandbox() {
    let scenario = [triage_thread(COLOUR_QUESTION), work_thread(WRITE), review_thread("")].concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let id = stage.run_detached(&["Write a greeting.", "--check", CHECK]);
    stage.wait_run(&id, |row| row["requests"][0].is_object());
    stage.provost(&["answer", &id, "Red"]).ok();
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let opened = |session: &Value| {
        let events = stage.events_of(session["id"].as_str().unwrap(), "session.opened");
        let settings = events[0]["data"]["spec"]["agent"]["settings"].clone();
        let stage = session["stage"].as_str().unwrap().to_owned();
        (stage, settings["sandbox"].as_str().unwrap().to_owned(), settings["questions"] == true)
    };
    let stages: Vec<_> = row["sessions"].as_array().unwrap().iter().map(opened).collect();
    let stages: Vec<_> =
        stages.iter().map(|(s, sandbox, asks)| (s.as_str(), sandbox.as_str(), *asks)).collect();
    let expected = [
        ("triage", "read-only", true),
        ("work", "workspace-write", true),
        ("task_review", "read-only", false),
    ];
    assert_eq!(stages, expected);
}
