//! The main part of the demo: a spec becomes a plan, and real Codex works on its tasks in parallel, offline, with a
//! scripted model. The model's script is a story of the test kit, which a test plays too.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use provost_testkit::{
    model::{MODEL, ModelScenario, ModelServer, codex_config},
    story::shop,
};
use serde_json::Value;

use super::{env::DemoEnv, narrate};

/// The name of the run.
const NAME: &str = "shop";

/// Plays a whole run with this Codex, from the spec to the branch.
pub(super) fn play(stage: &DemoEnv) -> Result<()> {
    let model = ModelServer::bind(ModelScenario::parse(&shop::scenario())?, 0)?;
    configure(&stage.user().join(".codex"), &model)?;
    let gate = prepare(stage)?;

    narrate("Real Codex implements a spec. Its model is scripted; nothing leaves this machine.");
    begin(stage, &gate)?;
    answer_planner(stage)?;
    run_in_parallel(stage, &model)?;
    merge_batch(stage, &model, &gate)?;
    let row = stage.wait_for_run("the run to end", NAME, |row| row["sealed"] == true)?;
    narrate("Landed. The whole graph, the branch, and the summary with the evidence:");
    stage.show(&["graph", NAME])?;
    stage.show_git(&["log", "--first-parent", "--format=%h %s", "main"])?;
    stage.show(&["summary", NAME])?;
    check(&row, &stage.graph(NAME)?, &model)
}

/// Writes the user's own Codex configuration, which selects the scripted model. Provost never changes it.
pub(super) fn configure(home: &Path, model: &ModelServer) -> Result<()> {
    fs::create_dir_all(home)?;
    // Without these settings, Codex creates mount points in the machine's own temporary directory.
    let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
    fs::write(home.join("config.toml"), codex_config(MODEL, &model.url()) + sandbox)?;
    Ok(())
}

/// Commits the initial files of the shop, closes the gate, and returns its path.
fn prepare(stage: &DemoEnv) -> Result<PathBuf> {
    let files: Vec<(&str, &str)> = shop::FILES.into_iter().chain([shop::SPEC]).collect();
    stage.commit(&files, "An empty shop")?;
    let gate = stage.user().join("gate");
    fs::write(&gate, "")?;
    Ok(gate)
}

fn begin(stage: &DemoEnv, gate: &Path) -> Result<()> {
    let check = shop::check(gate);
    let args = ["run", "--detach", "--name", NAME, "--spec", shop::SPEC.0, "--check", &check];
    let how = ["--parallel", "5", "--review-task", "off", "--land", "merge", shop::GOAL];
    stage.show(&[&args[..], &how].concat()).map(drop)
}

/// Answers the planner's question. The daemon is killed before the answer.
fn answer_planner(stage: &DemoEnv) -> Result<()> {
    stage.wait_for_run("a question", NAME, |row| row["requests"][0].is_object())?;
    narrate("Triage found the goal too large for one task. The planner has a question:");
    stage.show(&["status", NAME])?;
    let killed = stage.kill_daemon()?;
    narrate(&format!(
        "The daemon, process {killed}, is killed with SIGKILL. Answering starts a new one."
    ));
    stage.show(&["answer", NAME, shop::ANSWER])?;
    stage.wait_for_run("the plan", NAME, |row| row["awaits_approval"] == true)?;
    narrate(
        "The planner added its own check. Provost runs an agent's command only after you approve exactly that command:",
    );
    stage.show(&["status", NAME])?;
    stage.show(&["approve", NAME]).map(drop)
}

/// Runs five agents, which wait at their gates at the same time.
fn run_in_parallel(stage: &DemoEnv, model: &ModelServer) -> Result<()> {
    for door in shop::PARALLEL {
        model.wait_for_hold(door);
    }
    stage.wait_for_tasks(NAME, &shop::PARALLEL.map(|task| (task, "working")))?;
    narrate(
        "The plan was reviewed and edited. The first task is merged, and five agents work in parallel:",
    );
    stage.show(&["graph", NAME])?;
    narrate(
        "The cart is done first. Its check fails, so it is reworked in the same conversation, then merged.",
    );
    model.release("cart");
    stage.wait_for_tasks(NAME, &[("cart", "merged")])?;
    narrate(
        "The taxes change the same line as the cart. They go back to their agent, with both sides of the conflict.",
    );
    model.release("tax");
    stage.wait_for_tasks(NAME, &[("tax", "merged")])
}

/// Finishes two tasks while a third is checked. One of them breaks the batch.
fn merge_batch(stage: &DemoEnv, model: &ModelServer, gate: &Path) -> Result<()> {
    model.release("stock");
    stage.wait_for_graph("the stock to be checked", NAME, |graph| {
        graph["queue"]["batch"][0] == "stock"
    })?;
    let killed = stage.kill_daemon()?;
    narrate(&format!(
        "The daemon, process {killed}, is killed again while the stock is checked. The check continues."
    ));
    for door in ["labels", "help"] {
        model.release(door);
    }
    stage.wait_for_graph("two tasks to wait", NAME, |graph| {
        graph["queue"]["waiting"].as_array().map_or(0, Vec::len) == 2
    })?;
    stage.show(&["graph", NAME])?;
    narrate(
        "Two more tasks wait and are merged as a batch. One of them breaks the stock; bisecting the batch finds it.",
    );
    fs::remove_file(gate)?;
    Ok(())
}

/// Verifies that the run succeeded by its check, all tasks are merged, and each question was asked
/// and answered once.
fn check(row: &Value, graph: &Value, model: &ModelServer) -> Result<()> {
    ensure!(row["state"] == "succeeded" && row["verified"] == true, "the run is {row}");
    ensure!(row["landing"]["merged"] == true, "the run has not landed: {row}");
    let tasks = graph["tasks"].as_array().context("the graph has no tasks")?;
    let of = |id: &str| tasks.iter().find(|task| task["id"] == id).context("a task is missing");
    ensure!(tasks.len() == 7 && tasks.iter().all(|task| task["state"] == "merged"), "{graph}");
    ensure!(of("tax")?["returns"] == 1, "the taxes had no conflict: {graph}");
    ensure!(of("labels")?["returns"] == 1, "the labels were not sent back: {graph}");
    ensure!(of("cart")?["session"] == of("money")?["session"], "the chain was broken: {graph}");
    let strange = [model.unexpected(), model.left_over()].concat();
    ensure!(strange.is_empty(), "unexpected model requests: {strange:?}");
    Ok(())
}
