//! A spec becomes a plan, and the plan becomes a branch. Real Codex works on its tasks in parallel, with a question,
//! rework, a merge conflict, a task that breaks its batch, and kills of the daemon.

use std::fs;

use provost_testkit::{harness::eventually, story::shop};
use serde_json::Value;

use crate::codex_env::CodexEnv;

#[test]
fn r18_r21_e20_spec_is_planned_merged_and_verified() {
    let Some(stage) = CodexEnv::new(&shop::scenario()) else { return };
    for (name, text) in shop::FILES {
        stage.repo.write(name, text);
    }
    stage.repo.commit("Begin");
    let gate = stage.root().join("gate");
    fs::write(&gate, "").unwrap();
    let spec = stage.root().join(shop::SPEC.0);
    fs::write(&spec, shop::SPEC.1).unwrap();
    let check = shop::check(&gate);
    let id = stage.run_detached(&[
        shop::GOAL,
        "--spec",
        spec.to_str().unwrap(),
        "--check",
        &check,
        "--name",
        "shop",
        "--parallel",
        "5",
        "--review-task",
        "off",
        "--land",
        "merge",
    ]);

    // The planner asks a question, and the daemon crashes before the answer.
    let row = stage.wait_run(&id, |row| row["requests"][0].is_object());
    assert_eq!(row["stage"], "plan", "{row:#}");
    stage.home.daemon().kill();
    stage.provost(&["answer", &id, shop::ANSWER]).ok();

    // The planner added its own check, which the operator approves.
    let row = stage.wait_run(&id, |row| row["awaits_approval"] == true);
    assert_eq!(row["approval"]["commands"], serde_json::json!([shop::PLANNED_CHECK]), "{row:#}");
    stage.provost(&["approve", &id]).ok();

    // Five tasks work in parallel.
    for door in shop::PARALLEL {
        stage.model.wait_for_hold(door);
    }
    let states = |wanted: &[(&str, &str)]| {
        wait_tasks(&stage, &id, |tasks| {
            wanted.iter().all(|(id, state)| task_state(tasks, id) == *state)
        })
    };
    let working = shop::PARALLEL.map(|task| (task, "working"));
    states(&working);

    // The first task fails its checks. The next one changed the same line.
    stage.model.release("cart");
    states(&[("cart", "merged")]);
    stage.model.release("tax");
    states(&[("tax", "merged")]);

    // The daemon is killed while one task is being checked. Meanwhile two others finish, one of
    // them broken.
    stage.model.release("stock");
    let graph = wait_graph(&stage, &id, |graph| graph["queue"]["batch"][0] == "stock");
    assert_eq!(graph["queue"]["batch"].as_array().unwrap().len(), 1, "{graph:#}");
    stage.home.daemon().kill();
    stage.model.release("labels");
    stage.model.release("help");
    wait_graph(&stage, &id, |graph| graph["queue"]["waiting"].as_array().unwrap().len() == 2);
    fs::remove_file(&gate).unwrap();

    let row = stage.wait_run_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&"succeeded".into(), &true.into()), "{row:#}");
    assert_eq!(row["landing"]["merged"], true, "{row:#}");
    assert_eq!(row["tasks"]["merged"], 7, "{row:#}");
    let graph = wait_graph(&stage, &id, |_| true);
    let task = |id: &str| {
        graph["tasks"].as_array().unwrap().iter().find(|t| t["id"] == id).unwrap().clone()
    };
    assert_eq!(task("cart")["session"], task("money")["session"], "a chain keeps its conversation");
    assert_eq!(
        (&task("tax")["returns"], &task("labels")["returns"]),
        (&1.into(), &1.into()),
        "{graph:#}"
    );
    assert_every_commit_passes(&stage, &row, &check);
    assert_every_task_saw_answer(&stage);
    let summary = stage.wait_summary(&id);
    for part in ["shop", shop::QUESTION, shop::ANSWER, "check.sh"] {
        assert!(summary.contains(part), "{part} is not in {summary}");
    }
    stage.model.assert_all_as_scripted();
}

fn wait_graph(stage: &CodexEnv, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually("the graph has the expected state", || {
        let graph = stage.provost(&["graph", id, "--json"]).ok().json()["graph"].clone();
        if holds(&graph) { Ok(graph) } else { Err(format!("{graph:#}")) }
    })
}

fn wait_tasks(stage: &CodexEnv, id: &str, holds: impl Fn(&[Value]) -> bool) {
    wait_graph(stage, id, |graph| holds(graph["tasks"].as_array().unwrap()));
}

fn task_state<'a>(tasks: &'a [Value], id: &str) -> &'a str {
    tasks.iter().find(|task| task["id"] == id).unwrap()["state"].as_str().unwrap()
}

/// Asserts that each first-parent commit of the branch passes the check.
#[track_caller]
fn assert_every_commit_passes(stage: &CodexEnv, row: &Value, check: &str) {
    let base = row["base"].as_str().unwrap();
    let listed = stage.repo.git(&["rev-list", "--first-parent", &format!("{base}..main")]);
    assert!(listed.lines().count() >= 7, "{listed}");
    for commit in listed.lines() {
        let place = stage.root().join(format!("at-{commit}"));
        stage.repo.git(&[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            place.to_str().unwrap(),
            commit,
        ]);
        let ran = std::process::Command::new("sh").args(["-c", check]).current_dir(&place).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{commit} is red: {ran:?}");
        stage.repo.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
    }
}

#[track_caller]
fn assert_every_task_saw_answer(stage: &CodexEnv) {
    let requests = stage.model.requests();
    let decided = format!("Decided: {}", shop::ANSWER);
    for task in ["money", "cart", "tax", "stock", "labels", "help", "receipt"] {
        let heading = format!("## Your task\n\n{task}: ");
        let prompts = requests.iter().flat_map(|made| made.request.prompts());
        let prompts: Vec<String> = prompts.filter(|prompt| prompt.contains(&heading)).collect();
        assert!(!prompts.is_empty(), "{task} got no instruction");
        assert!(prompts.iter().all(|prompt| prompt.contains(&decided)), "{task}: {prompts:?}");
    }
}
