//! The second part of the demo: real Codex works in a worktree, offline, with a scripted model.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use provost_testkit::model::{MODEL, ModelServer, Scenario, codex_config};
use serde_json::Value;

use super::{stage::Stage, tell};

/// What the session's work has to pass.
const CHECK: &str = "grep -q bonjour GREETING.md && test -s KERNEL.txt";
/// What it is asked to do.
const TASK: &str = "Write a greeting into GREETING.md.";
/// Where the model stops until the daemon is dead.
const HOLD: &str = "crash";
/// What the model says and does; everything else is Codex itself.
const SCENARIO: &str = r#"description = "Asks, wants to leave the sandbox, edits a file, tells how it went."

[[thread]]

[[thread.turn]]

[[thread.turn.response]]
items = [
  { message = "I need to know the language.", phase = "commentary" },
  { ask = [{ id = "language", header = "Language", question = "In which language is the greeting?", options = [
    { label = "English", description = "hello" },
    { label = "French", description = "bonjour" },
  ] }] },
]

[[thread.turn.response]]
items = [{ shell = "uname -s > KERNEL.txt", escalate = true, justification = "This has to be seen from outside of the sandbox." }]

[[thread.turn.response]]
items = [
  { hold = "crash" },
  { patch = """
*** Begin Patch
*** Add File: GREETING.md
+bonjour
*** End Patch""" },
]

[[thread.turn.response]]
items = [{ message = "The greeting is written.", phase = "final_answer" }]

[[thread.turn]]

[[thread.turn.response]]
items = [{ json = { status = "completed", summary = "wrote GREETING.md, in French" } }]
"#;

/// Plays a whole session with this Codex: a question, an approval, a crash, a proved end.
pub(super) fn play(stage: &Stage) -> Result<()> {
    let model = ModelServer::bind(Scenario::parse(SCENARIO)?, 0)?;
    configure(&stage.user().join(".codex"), &model)?;

    tell(
        "Real Codex gets a task in a worktree of its own. Its model is scripted; nothing leaves this machine.",
    );
    let id = begin(stage)?;
    waits(stage, &id, "question")?;
    tell("It asks. `status` shows what, and how to answer; any terminal will do.");
    stage.show(&["status", &id])?;
    stage.show(&["answer", &id, "French"])?;

    waits(stage, &id, "approval")?;
    tell(
        "It wants to run a command outside of its sandbox. Nothing runs before somebody allows it.",
    );
    stage.show(&["status", &id])?;
    stage.show(&["approve", &id])?;

    crash(stage, &model)?;
    tell(
        "The next command finds no daemon and starts one, which follows the same turn to its end.",
    );
    let row = stage.wait_for("Codex to be done", &id, |row| row["sealed"] == true)?;
    stage.show(&["ls", "--state", "succeeded"])?;
    stage.show(&["status", &id, "--why"])?;
    stage.show_git(&["show", "--stat", "--format=%s", branch(&row)?])?;
    check(stage, &row, &model)
}

/// The person's own configuration of Codex, which leads to the model. Provost never changes it.
fn configure(home: &Path, model: &ModelServer) -> Result<()> {
    fs::create_dir_all(home)?;
    // Otherwise Codex makes mount points in the machine's own directory of temporary files.
    let sandbox = "[sandbox_workspace_write]\nexclude_slash_tmp = true\n";
    fs::write(home.join("config.toml"), codex_config(MODEL, &model.url()) + sandbox)?;
    Ok(())
}

/// Starts the session and gives the short form of its id.
fn begin(stage: &Stage) -> Result<String> {
    let args = ["spawn", "--agent", "codex", "--worktree", "--name", "greeter", "--check", CHECK];
    let told = stage.show(&[&args[..], &[TASK]].concat())?;
    let id = told.split_whitespace().next().context("spawn gave no id")?;
    let short = id.rsplit('-').next().context("an id has parts")?;
    Ok(short[short.len().saturating_sub(8)..].to_owned())
}

fn waits(stage: &Stage, id: &str, kind: &str) -> Result<()> {
    let asked = |row: &Value| row["state"] == "needs_input" && row["requests"][0]["kind"] == kind;
    stage.wait_for(&format!("Codex to bring its {kind}"), id, asked).map(drop)
}

/// Kills the daemon while the model is in the middle of its answer, which it ends while no daemon lives.
fn crash(stage: &Stage, model: &ModelServer) -> Result<()> {
    model.wait_for_hold(HOLD);
    let killed = stage.kill_daemon()?;
    tell(&format!(
        "In the middle of the turn the daemon, process {killed}, was killed with SIGKILL. Codex goes on."
    ));
    model.release(HOLD);
    Ok(())
}

fn branch(row: &Value) -> Result<&str> {
    row["worktree"]["branch"].as_str().context("the session has no branch")
}

/// It succeeded by the check, in one launch, and everything was asked, said and answered once.
fn check(stage: &Stage, row: &Value, model: &ModelServer) -> Result<()> {
    ensure!(row["state"] == "succeeded", "the session with Codex is {row}");
    ensure!(row["checks"][0]["result"] == "passed", "the check did not pass: {}", row["checks"]);
    let launches = row["launches"].as_array().map_or(0, Vec::len);
    ensure!(launches == 1, "Codex was started {launches} times");
    let strange = [model.unexpected(), model.left_over()].concat();
    ensure!(strange.is_empty(), "the model was asked otherwise: {strange:?}");
    let own = stage.checkout()?;
    ensure!(!own.contains("GREETING.md"), "the person's own checkout was changed: {own}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_one_and_stops_where_the_demo_waits() {
        Scenario::parse(SCENARIO).unwrap();
        assert!(SCENARIO.contains(&format!("hold = \"{HOLD}\"")));
    }
}
