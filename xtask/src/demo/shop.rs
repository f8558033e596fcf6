//! The main part of the demo: a spec becomes a plan, and real Codex works on its tasks at the same time, offline, with a
//! scripted model. What the model says is a story of the test kit, which a test plays too.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use provost_testkit::{
    model::{MODEL, ModelServer, Scenario, codex_config},
    story::shop,
};
use serde_json::Value;

use super::{stage::Stage, tell};

/// What the run is called.
const NAME: &str = "shop";

/// Plays a whole run with this Codex, from the spec to the branch.
pub(super) fn play(stage: &Stage) -> Result<()> {
    let model = ModelServer::bind(Scenario::parse(&shop::scenario())?, 0)?;
    configure(&stage.user().join(".codex"), &model)?;
    let gate = prepare(stage)?;

    tell(
        "A spec is to be built by real Codex. Its model is scripted; nothing leaves this machine.",
    );
    begin(stage, &gate)?;
    asked(stage)?;
    together(stage, &model)?;
    merged(stage, &model, &gate)?;
    let row = stage.wait_for_run("the run to end", NAME, |row| row["sealed"] == true)?;
    tell("Landed. The whole graph, the branch, and the report card with the evidence:");
    stage.show(&["graph", NAME])?;
    stage.show_git(&["log", "--first-parent", "--format=%h %s", "main"])?;
    stage.show(&["report-card", NAME])?;
    check(&row, &stage.graph(NAME)?, &model)
}

/// The person's own configuration of Codex, which leads to the model. Provost never changes it.
pub(super) fn configure(home: &Path, model: &ModelServer) -> Result<()> {
    fs::create_dir_all(home)?;
    // Otherwise Codex makes mount points in the machine's own directory of temporary files.
    let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
    fs::write(home.join("config.toml"), codex_config(MODEL, &model.url()) + sandbox)?;
    Ok(())
}

/// Commits what the shop begins with, shuts the gate, and gives its path.
fn prepare(stage: &Stage) -> Result<PathBuf> {
    let files: Vec<(&str, &str)> = shop::FILES.into_iter().chain([shop::SPEC]).collect();
    stage.commit(&files, "An empty shop")?;
    let gate = stage.user().join("gate");
    fs::write(&gate, "")?;
    Ok(gate)
}

fn begin(stage: &Stage, gate: &Path) -> Result<()> {
    let check = shop::check(gate);
    let args = ["run", "--detach", "--name", NAME, "--spec", shop::SPEC.0, "--check", &check];
    let how = ["--parallel", "5", "--review-task", "off", "--land", "merge", shop::GOAL];
    stage.show(&[&args[..], &how].concat()).map(drop)
}

/// The planner asks; the daemon is killed before anybody answers.
fn asked(stage: &Stage) -> Result<()> {
    stage.wait_for_run("a question", NAME, |row| row["requests"][0].is_object())?;
    tell("Triage found it too large for one task. While it is planned, something is unclear:");
    stage.show(&["status", NAME])?;
    let killed = stage.kill_daemon()?;
    tell(&format!(
        "The daemon, process {killed}, is killed with SIGKILL. The answer starts another."
    ));
    stage.show(&["answer", NAME, shop::ANSWER])?;
    stage.wait_for_run("the plan", NAME, |row| row["awaits_approval"] == true)?;
    tell(
        "The planner wrote a check of its own. Provost runs no command of an agent before you agree to exactly that command:",
    );
    stage.show(&["status", NAME])?;
    stage.show(&["approve", NAME]).map(drop)
}

/// Five agents stand at their doors at the same time.
fn together(stage: &Stage, model: &ModelServer) -> Result<()> {
    for door in shop::PARALLEL {
        model.wait_for_hold(door);
    }
    stage.wait_for_tasks(NAME, &shop::PARALLEL.map(|task| (task, "working")))?;
    tell(
        "The plan was reviewed and edited; the first task is merged, and five are worked on at the same time:",
    );
    stage.show(&["graph", NAME])?;
    tell(
        "The cart is done first. Its check refutes it, so it is reworked in the same conversation, and merged.",
    );
    model.release("cart");
    stage.wait_for_tasks(NAME, &[("cart", "merged")])?;
    tell(
        "The taxes changed the same line as the cart: they go back to their own agent, with both sides shown.",
    );
    model.release("tax");
    stage.wait_for_tasks(NAME, &[("tax", "merged")])
}

/// Two are done while a third is checked; one of them breaks the batch.
fn merged(stage: &Stage, model: &ModelServer, gate: &Path) -> Result<()> {
    model.release("stock");
    stage.wait_for_graph("the stock to be checked", NAME, |graph| {
        graph["queue"]["batch"][0] == "stock"
    })?;
    let killed = stage.kill_daemon()?;
    tell(&format!(
        "While the stock is checked with the others, the daemon, process {killed}, is killed again. The check goes on."
    ));
    for door in ["labels", "help"] {
        model.release(door);
    }
    stage.wait_for_graph("two tasks to wait", NAME, |graph| {
        graph["queue"]["waiting"].as_array().map_or(0, Vec::len) == 2
    })?;
    stage.show(&["graph", NAME])?;
    tell(
        "Two more wait and are merged together. One of them is good alone and bad beside the stock: the batch is searched by halves.",
    );
    fs::remove_file(gate)?;
    Ok(())
}

/// It succeeded by the check, all is merged, and everything was asked, said and answered once.
fn check(row: &Value, graph: &Value, model: &ModelServer) -> Result<()> {
    ensure!(row["state"] == "succeeded" && row["proved"] == true, "the run is {row}");
    ensure!(row["landing"]["merged"] == true, "it has not landed: {row}");
    let tasks = graph["tasks"].as_array().context("the graph has tasks")?;
    let of = |id: &str| tasks.iter().find(|task| task["id"] == id).context("a task is missing");
    ensure!(tasks.len() == 7 && tasks.iter().all(|task| task["state"] == "merged"), "{graph}");
    ensure!(of("tax")?["returns"] == 1, "the taxes met no conflict: {graph}");
    ensure!(of("labels")?["returns"] == 1, "the labels were not sent back: {graph}");
    ensure!(of("cart")?["session"] == of("money")?["session"], "the chain was broken: {graph}");
    let strange = [model.unexpected(), model.left_over()].concat();
    ensure!(strange.is_empty(), "the model was asked otherwise: {strange:?}");
    Ok(())
}
