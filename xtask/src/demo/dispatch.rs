//! The last part of the demo: a manager and two workers, all of them real Codex with a scripted model, from the first
//! instruction to an audited end. What the model says is a story of the test kit, which a test plays too.

use anyhow::{Context as _, Result, ensure};
use provost_testkit::{
    model::{ModelServer, Scenario},
    story::dispatch::{self, BOSS, HAND, MATE, NAME},
};
use serde_json::Value;

use super::{
    shop,
    stage::{Stage, kill},
    tell,
};

/// Plays a whole task with this Codex, from its opening to its end.
pub(super) fn play(stage: &Stage) -> Result<()> {
    let model = ModelServer::bind(Scenario::parse(&dispatch::scenario())?, 0)?;
    shop::configure(&stage.user().join(".codex"), &model)?;
    stage.commit(&dispatch::FILES, "A check of limits")?;

    tell(
        "A manager and two workers are real Codex too. They have tools to act with, and rules that decide.",
    );
    let words = dispatch::pair();
    stage.show(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    model.wait_for_hold(dispatch::HALF_WAY);
    let task = wait(stage, "a criterion to be accepted", |task| {
        task["criteria"][0]["state"] == "accepted"
    })?;
    tell(
        "One worker proposed what has to hold. The other stands in the middle of the second iteration:",
    );
    stage.show(&["loop", "status", "--task", NAME])?;
    tell("Its check is a command that an agent wrote. It runs only once you agreed to it:");
    stage.show(&["approve", NAME])?;

    let worker = kill_worker(stage, &task)?;
    let daemon = stage.kill_daemon()?;
    tell(&format!(
        "That worker, process {worker}, and the daemon, process {daemon}, are killed with SIGKILL. It goes on in its conversation."
    ));
    // Whoever looks first starts the next daemon.
    wait(stage, "an iteration to be refused", |task| task["loop"]["refusals"] == 1)?;
    model.wait_for_hold(dispatch::AT_THE_GATE);
    tell(
        "It is done, and says that the tests pass. The manager asks for the third iteration and is refused: nobody ran them.",
    );
    stage.show(&["loop", "status", "--task", NAME])?;
    model.release(dispatch::AT_THE_GATE);
    let task = wait(stage, "the task to end", |task| task["terminal"] == true)?;
    tell(
        "Each iteration was proved, the first finish was refused for a criterion that was open, and the second was granted:",
    );
    stage.show(&["task", "show", NAME])?;
    check(&task)?;
    for name in [HAND, MATE, BOSS] {
        stage.wait_for_end(session(&task, name)?)?;
    }
    let strange = [model.unexpected(), model.left_over()].concat();
    ensure!(strange.is_empty(), "the model was asked otherwise: {strange:?}");
    Ok(())
}

fn wait(stage: &Stage, what: &str, accept: impl Fn(&Value) -> bool) -> Result<Value> {
    let show = ["task", "show", NAME, "--json"].map(str::to_owned);
    stage.wait_until(what, || Ok(stage.json(&show)?["task"].clone()), accept)
}

fn session<'t>(task: &'t Value, name: &str) -> Result<&'t str> {
    let mut members = task["members"].as_array().into_iter().flatten();
    let member = members.find(|one| one["name"] == name).context("a member is missing")?;
    member["session"].as_str().context("a member has no session")
}

/// Kills the process of the worker that is at work, and gives its number.
fn kill_worker(stage: &Stage, task: &Value) -> Result<i32> {
    let events = ["events", session(task, HAND)?, "--json", "--limit", "1000"].map(str::to_owned);
    let events = stage.json(&events)?;
    let mut events = events["events"].as_array().into_iter().flatten();
    let started = events.find(|event| event["kind"] == "launch.started");
    let pid = started.and_then(|event| event["data"]["child"]["pid"].as_i64());
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).context("the worker has no process")?;
    kill(pid).context("the worker")?;
    Ok(pid)
}

/// It is done by proof alone, in three iterations.
fn check(task: &Value) -> Result<()> {
    ensure!(task["state"] == "done", "the task is {task}");
    ensure!(task["loop"]["iteration"] == 3 && task["loop"]["refusals"] == 1, "the loop is {task}");
    ensure!(task["criteria"][0]["receipt"] == "verified", "a word was taken for a proof: {task}");
    Ok(())
}
