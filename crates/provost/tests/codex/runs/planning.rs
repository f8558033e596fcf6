//! Plans of real Codex: they are parsed strictly, corrected once, reviewed and rejected.

use crate::codex_env::CodexEnv;

/// A thread that returns these results, one per turn.
fn scripted_thread(when: &str, results: &[&str]) -> String {
    let turns: String = results
        .iter()
        .map(|result| format!("  {{ response = [{{ items = [{{ message = '{result}' }}] }}] }},\n"))
        .collect();
    format!("[[thread]]\nwhen = {{ prompt = \"{when}\" }}\nturn = [\n{turns}]\n")
}

const PLANNER: &str = "Divide it into tasks";
const REVIEWER: &str = "Review the plan below";

/// A task of a plan; `more` adds fields that a plan may not have.
fn plan_task(id: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","title":"The {id}","instruction":"Write {id}.","after":[],"criteria":[],"checks":[],"scope":[]{more}}}"#
    )
}

fn plan_json(tasks: &[String]) -> String {
    format!(r#"{{"status":"completed","summary":"planned","tasks":[{}]}}"#, tasks.join(","))
}

/// A thread that works on these tasks, one after another.
fn work_on_tasks(ids: &[&str]) -> String {
    let turn = |id: &&str| {
        format!(
            "  {{ response = [{{ items = [{{ shell = \"echo {id} > {id}\" }}] }}, {{ items = [{{ message = \"Done.\" }}] }}] }},\n  {{ response = [{{ items = [{{ json = {{ status = \"completed\", summary = \"wrote {id}\" }} }}] }}] }},\n"
        )
    };
    let (first, turns) = (ids[0], ids.iter().map(turn).collect::<String>());
    format!("[[thread]]\nwhen = {{ prompt = \"{first}: The {first}\" }}\nturn = [\n{turns}]\n")
}

const PLAN_ARGS: [&str; 5] =
    ["Write both.", "--no-triage", "--plan-mode", "always", "--review-task"];

#[test]
fn e01_e02_invalid_plan_is_returned_once_with_errors() {
    let faulty = plan_json(&[plan_task("one", r#","status":"done""#), plan_task("one", "")]);
    let right = plan_json(&[plan_task("one", ""), plan_task("two", "")]);
    let scenario = [
        scripted_thread(PLANNER, &[&faulty, &right]),
        work_on_tasks(&["one"]),
        work_on_tasks(&["two"]),
    ]
    .concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let id = stage.run_detached(&[&PLAN_ARGS[..], &["off", "--review-plan", "off"]].concat());
    let row = stage.wait_run_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&"completed".into(), &2.into()),
        "{row:#}"
    );
    let heard = stage.model.wait_for_request("the faults", |made| {
        made.request.prompt().contains("Your result cannot be accepted")
    });
    let prompt = heard.request.prompt();
    assert!(prompt.contains("status") && prompt.contains("\"one\""), "{prompt}");
    let faults = stage.run_events(&id);
    let faults = faults.iter().find(|event| event["kind"] == "run.plan_invalid").unwrap();
    assert_eq!(faults["data"]["faults"].as_array().unwrap().len(), 2, "{faults:#}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn e01_plan_without_tasks_fails_the_run() {
    let empty = plan_json(&[]);
    let Some(stage) = CodexEnv::new(&scripted_thread(PLANNER, &[&empty, &empty])) else { return };
    let ran = stage.run(&[&PLAN_ARGS[..], &["off", "--review-plan", "off"]].concat());
    let id = ran.assert_code(1).stdout.lines().next().unwrap().to_owned();
    let row = stage.run_row(&id);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"plan".into()), "{row:#}");
    stage.model.assert_all_as_scripted();
}

#[test]
fn e04_rejected_plan_fails_the_run() {
    let planned = plan_json(&[plan_task("one", ""), plan_task("two", "")]);
    let rejects = r#"{"status":"completed","summary":"looked","verdict":"reject","reason":"nothing tests it","edits":[]}"#;
    let scenario =
        [scripted_thread(PLANNER, &[&planned]), scripted_thread(REVIEWER, &[rejects])].concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let log = stage.root().join("hooks.log");
    stage.configure(&format!(
        "[hooks]\n\"run.failed\" = \"echo failed >> {0}\"\n\"run.planned\" = \"echo planned >> {0}\"\n",
        log.display()
    ));
    let ran = stage.run(&[&PLAN_ARGS[..], &["off"]].concat());
    let id = ran.assert_code(1).stdout.lines().next().unwrap().to_owned();
    let row = stage.run_row(&id);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"plan".into()), "{row:#}");
    assert_eq!(row["detail"], "the plan was rejected: nothing tests it", "{row:#}");
    provost_testkit::eventually("the failure hook ran", || match std::fs::read_to_string(&log) {
        Ok(text) if text == "failed\n" => Ok(()),
        read => Err(read),
    });
    stage.model.assert_all_as_scripted();
}

#[test]
fn plan_command_output_can_start_a_run() {
    let draft = plan_json(&[plan_task("one", ""), plan_task("two", "")]);
    let edits = r#"{"status":"completed","summary":"looked","verdict":"accept","reason":"in order","edits":[{"op":"depend","id":"two","on":"one"}]}"#;
    let scenario = [
        scripted_thread(PLANNER, &[&draft]),
        scripted_thread(REVIEWER, &[edits]),
        work_on_tasks(&["one", "two"]),
    ]
    .concat();
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let planned =
        stage.home.provost_in(stage.repo.path(), &["plan", "Write both.", "--no-triage", "--toml"]);
    let file = stage.root().join("plan.toml");
    std::fs::write(&file, &planned.ok().stdout).unwrap();
    assert!(planned.stdout.contains("after = [\"one\"]"), "{}", planned.stdout);
    let ran = stage.run(&[
        "Write both.",
        "--no-triage",
        "--review-task",
        "off",
        "--plan",
        file.to_str().unwrap(),
    ]);
    let id = ran.ok().stdout.lines().next().unwrap().to_owned();
    let row = stage.run_row(&id);
    assert_eq!(row["tasks"]["merged"], 2, "{row:#}");
    stage.model.assert_all_as_scripted();
}
