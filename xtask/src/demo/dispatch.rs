//! The last part of the demo: a manager and two workers, all real Codex with a scripted model, from
//! the first instruction to an audited finish. The model's script is a story of the test kit, which
//! a test plays too.

use anyhow::{Context as _, Result, ensure};
use provost_testkit::{
    model::{ModelScenario, ModelServer},
    story::dispatch::{self, BOSS, HAND, MATE, NAME},
};
use serde_json::Value;

use super::{
    env::{DemoEnv, kill},
    narrate, shop,
};

/// Plays a whole team with this Codex, from its opening to its end.
pub(super) fn play(stage: &DemoEnv) -> Result<()> {
    let model = ModelServer::bind(ModelScenario::parse(&dispatch::scenario())?, 0)?;
    shop::configure(&stage.user().join(".codex"), &model)?;
    stage.commit(&dispatch::FILES, "A check of limits")?;

    narrate(
        "Now a team: a manager and two workers, all real Codex. They act through tools, and rules decide.",
    );
    let words = dispatch::start_args();
    stage.show(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    model.wait_for_hold(dispatch::HALF_WAY);
    let task = wait(stage, "a criterion to be accepted", |task| {
        task["criteria"][0]["state"] == "accepted"
    })?;
    narrate("One worker proposed a criterion. The other is in the middle of the second iteration:");
    stage.show(&["team", "loop", "status", "-t", NAME])?;
    narrate(
        "The criterion's check is a command that an agent wrote. It runs only after you approve it:",
    );
    stage.show(&["approve", NAME])?;

    let worker = kill_worker(stage, &task)?;
    let daemon = stage.kill_daemon()?;
    narrate(&format!(
        "That worker, process {worker}, and the daemon, process {daemon}, are killed with SIGKILL. The worker resumes its conversation."
    ));
    // The next command starts a new daemon.
    wait(stage, "an iteration to be refused", |task| task["loop"]["refusals"] == 1)?;
    model.wait_for_hold(dispatch::AT_THE_GATE);
    narrate(
        "The worker claims that the tests pass. The manager requests the third iteration and is refused: the tests were not run.",
    );
    stage.show(&["team", "loop", "status", "-t", NAME])?;
    model.release(dispatch::AT_THE_GATE);
    let task = wait(stage, "the task to end", |task| task["terminal"] == true)?;
    narrate(
        "Each iteration was verified. The first finish was refused because a criterion was open; the second was granted:",
    );
    stage.show(&["team", "show", NAME])?;
    check(&task)?;
    for name in [HAND, MATE, BOSS] {
        stage.wait_for_end(session(&task, name)?)?;
    }
    let strange = [model.unexpected(), model.left_over()].concat();
    ensure!(strange.is_empty(), "unexpected model requests: {strange:?}");
    Ok(())
}

fn wait(stage: &DemoEnv, what: &str, accept: impl Fn(&Value) -> bool) -> Result<Value> {
    let show = ["team", "show", NAME, "--json"].map(str::to_owned);
    stage.wait_until(what, || Ok(stage.json(&show)?["team"].clone()), accept)
}

fn session<'t>(task: &'t Value, name: &str) -> Result<&'t str> {
    let mut members = task["members"].as_array().into_iter().flatten();
    let member = members.find(|one| one["name"] == name).context("a member is missing")?;
    member["session"].as_str().context("a member has no session")
}

/// Kills the process of the working worker and returns its pid.
fn kill_worker(stage: &DemoEnv, task: &Value) -> Result<i32> {
    let events = ["events", session(task, HAND)?, "--json", "--limit", "1000"].map(str::to_owned);
    let events = stage.json(&events)?;
    let mut events = events["events"].as_array().into_iter().flatten();
    let started = events.find(|event| event["kind"] == "launch.started");
    let pid = started.and_then(|event| event["data"]["child"]["pid"].as_i64());
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).context("the worker has no process")?;
    kill(pid).context("cannot kill the worker")?;
    Ok(pid)
}

/// Verifies that the team finished with evidence in three iterations.
fn check(task: &Value) -> Result<()> {
    ensure!(task["state"] == "done", "the team is {task}");
    ensure!(task["loop"]["iteration"] == 3 && task["loop"]["refusals"] == 1, "the loop is {task}");
    ensure!(
        task["criteria"][0]["receipt"] == "verified",
        "a criterion was accepted without evidence: {task}"
    );
    Ok(())
}
