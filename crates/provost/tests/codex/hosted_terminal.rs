//! Codex's own screen in a terminal hosted by Provost, and a Codex that was started outside Provost.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use crate::{
    codex_env::{CodexEnv, TestedCodex},
    tmux_screen::TmuxScreen,
};

/// Responds once, then blocks on hold `door` in its second turn.
const TALKS: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ message = "First is done." }] }] },
  { response = [{ items = [{ hold = "door" }, { message = "Second is done." }] }] },
]
"#;

/// Asks for an approval, then finishes.
const ASKS: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo hi > hi.txt", escalate = true, justification = "May I write?" }] },
    { items = [{ message = "It is there." }] },
  ] },
]
"#;

/// An environment and a session in a terminal whose directory the user trusts.
pub(crate) fn hosted_session(scenario: &str, instruction: &str) -> Option<(CodexEnv, String)> {
    let stage = CodexEnv::new(scenario)?;
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, instruction]);
    Some((stage, id))
}

fn status_facts(stage: &CodexEnv, id: &str) -> Vec<Value> {
    let why = stage.home.provost(&["status", id, "--why", "--json"]);
    why.ok().json()["facts"].as_array().unwrap().clone()
}

#[test]
fn a07_typed_text_is_confirmed_by_rollout() {
    let Some((stage, id)) = hosted_session(TALKS, "Do the first.") else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let row = stage.home.wait_state(&id, |row| row["messages"][0]["status"] == "delivered");
    assert!(row["thread"].is_string(), "{row:#}");
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    let row = stage.home.wait_state(&id, |row| row["messages"][1]["status"] == "delivered");
    assert_eq!(row["state"], "working", "{row:#}");
    // Nothing is typed during a turn. The message stays queued, and the status shows the reason.
    stage.home.provost(&["send", &id, "And a third."]).ok();
    let row = stage.home.wait_state(&id, |row| row["messages"][2]["reason"].is_string());
    assert_eq!(row["messages"][2]["status"], "queued", "{row:#}");
    let facts = status_facts(&stage, &id);
    let has_fact = |fact: &str, source: &str| {
        facts.iter().any(|one| one["fact"] == fact && one["source"] == source)
    };
    assert!(has_fact("record", "rollout") && has_fact("record", "hook"), "{facts:#?}");
    stage.home.provost(&["stop", &id]).ok();
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn m07_screen_approval_is_answered_by_cli() {
    let Some((stage, id)) = hosted_session(ASKS, "Write it.") else { return };
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert_eq!(row["requests"][0]["kind"], "approval", "{row:#}");
    let request = row["requests"][0]["id"].as_str().unwrap().to_owned();
    stage.home.provost(&["approve", &request]).ok();
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    assert_eq!(stage.repo.read("hi.txt"), "hi\n");
    stage.home.provost(&["stop", &id]).ok();
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

#[test]
fn trust_dialog_is_never_typed_into() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let id = stage.spawn(&["--tty", "Do the first."]);
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert_eq!(row["requests"][0]["kind"], "dialog", "{row:#}");
    assert!(row["requests"][0]["title"].as_str().unwrap().contains("trust"), "{row:#}");
    // A key press would end Codex, and the dialog takes no text.
    let attach = format!("provost attach {}", &id[id.len() - 8..]);
    assert_eq!(row["requests"][0]["commands"], json!([attach]));
    let request = row["requests"][0]["id"].as_str().unwrap();
    for words in [&["answer", &id, "1"][..], &["deny", request]] {
        let refused = stage.home.provost(&[words, &["--json"]].concat()).assert_code(4).json();
        assert_eq!(refused["error"]["code"], "refused", "{refused}");
        assert_eq!(refused["error"]["next"], json!([attach]), "{refused}");
    }
    assert_eq!(stage.home.wait_state(&id, |_| true)["state"], "needs_input");
    stage.home.provost(&["send", &id, "Anything."]).ok();
    let row = stage.home.wait_state(&id, |row| row["messages"][1]["reason"].is_string());
    assert_eq!(row["messages"][1]["status"], "queued", "{row:#}");
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("Trust this folder?");
    drop(screen);
    assert_eq!(
        stage.home.wait_state(&id, |_| true)["state"],
        "needs_input",
        "closing the terminal changes nothing"
    );
    stage.home.provost(&["cancel", &id, "--because", "enough"]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn t03_killed_agent_is_not_working() {
    let Some((stage, id)) = hosted_session(TALKS, "Do the first.") else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    let pid = stage.home.wait_state(&id, |_| true)["launches"][0]["pid"].to_string();
    let own = stage.home.provost(&["adopt", "--pid", &pid]);
    assert!(own.assert_code(4).stderr.contains("started by Provost"), "{own:#?}");
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working");
    stage.kill_codex(&id, 1);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("crash")), "{row:#}");
}

#[test]
fn t04_escape_on_screen_interrupts_without_claim() {
    let Some((stage, id)) = hosted_session(TALKS, "Do the first.") else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working" && row["turns"] == 2);
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("esc to interrupt");
    screen.tmux(&["send-keys", "Escape"]);
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle");
    drop(screen);
    assert_eq!((&row["claim"], &row["terminal"]), (&json!("none"), &json!(false)), "{row:#}");
    let ends: Vec<Value> =
        stage.events_of(&id, "turn.ended").iter().map(|e| e["data"]["end"].clone()).collect();
    assert_eq!(ends, ["ok", "interrupted"]);
    stage.home.provost(&["stop", &id]).ok();
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

/// The oldest version with supported rollouts reports less about its state, and shows a dialog of its own.
#[test]
fn oldest_codex_model_offer_is_left_to_user() {
    let Some(stage) = CodexEnv::with_version(TestedCodex::Oldest, TALKS) else { return };
    let path = stage.repo.path().display().to_string();
    let id = stage.spawn(&["--tty", "--accept-trust", &path, "Do the first."]);
    let row = stage.home.wait_state(&id, |row| row["state"] == "needs_input");
    assert!(row["requests"][0]["title"].as_str().unwrap().contains("another model"), "{row:#}");
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("Use existing model");
    screen.tmux(&["send-keys", "Down"]);
    screen.tmux(&["send-keys", "Enter"]);
    screen.wait_for_text("First is done.");
    drop(screen);
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    stage.kill_codex(&id, 1);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["cause"], "crash", "{row:#}");
}

#[test]
fn daemon_crash_loses_no_terminal_turn() {
    let Some((stage, id)) = hosted_session(TALKS, "Do the first.") else { return };
    stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 1);
    stage.home.provost(&["send", &id, "Now the second."]).ok();
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["messages"][1]["status"] == "delivered");
    stage.home.daemon().kill();
    stage.model.release("door");
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle" && row["turns"] == 2);
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{row:#}");
    eventually("both turns are recorded once", || {
        let events = stage.home.provost(&["events", &id, "--json"]);
        let count = |kind: &str| events.stdout.matches(&format!("\"{kind}\"")).count();
        let counts = (count("turn.started"), count("turn.ended"));
        if counts == (2, 2) { Ok(()) } else { Err(format!("{counts:?}")) }
    });
    stage.home.provost(&["stop", &id]).ok();
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
}

/// A Codex in its own terminal, as a user starts one.
pub(crate) struct ExternalCodex<'a> {
    stage: &'a CodexEnv,
    pub(crate) screen: TmuxScreen<'a>,
}

impl<'a> ExternalCodex<'a> {
    pub(crate) fn start(stage: &'a CodexEnv) -> ExternalCodex<'a> {
        let path = stage.repo.path().display().to_string();
        let trust = format!("[projects.{path:?}]\ntrust_level = \"trusted\"\n");
        stage.configure_codex(TestedCodex::Pinned.model(), &trust);
        let home = stage.codex_home().display().to_string();
        let program = provost_testkit::model::codex().unwrap().display().to_string();
        let line = format!(
            "cd {path} && CODEX_HOME={home} exec {program} -c features.daemon_auto_start=false 'Do the first.'"
        );
        ExternalCodex { stage, screen: TmuxScreen::run(stage, &["sh", "-c", &line]) }
    }

    pub(crate) fn pid(&self) -> String {
        let mut found = String::new();
        eventually("Codex writes its conversation", || {
            let discovered = self.stage.home.provost(&["discover", "--json"]).ok().json();
            let agents = discovered["agents"].as_array().unwrap().clone();
            let cwd = self.stage.repo.path().display().to_string();
            let ours = agents.iter().find(|one| one["cwd"] == cwd && one["rollout"].is_string());
            match ours {
                Some(one) => {
                    found = one["pid"].to_string();
                    Ok(())
                }
                None => Err(format!("{} agents", agents.len())),
            }
        });
        found
    }
}

#[test]
fn external_agent_is_adopted_and_watched_to_its_end() {
    let Some(stage) = CodexEnv::new(TALKS) else { return };
    let theirs = ExternalCodex::start(&stage);
    theirs.screen.wait_for_text("First is done.");
    let pid = theirs.pid();
    // The agent uses another Codex home. Provost checks the process that writes the rollout before
    // it searches for files.
    let discovered = stage.home.provost(&["discover", "--json"]).ok().json();
    let number: u64 = pid.parse().unwrap();
    let ours = discovered["agents"].as_array().unwrap().iter().find(|one| one["pid"] == number);
    let thread = ours.unwrap()["thread"].as_str().unwrap().to_owned();
    let other = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";
    stage.home.provost(&["adopt", "--pid", &pid, "--thread", other]).assert_code(3);
    let form = ["adopt", "--pid", &pid, "--thread", &thread, "--name", "theirs", "--json"];
    let adopted = stage.home.provost(&form);
    let id = adopted.ok().json()["id"].as_str().unwrap().to_owned();
    let row = stage.home.wait_state(&id, |row| row["state"] == "idle" && row["thread"].is_string());
    assert!(row["flags"].as_array().unwrap().contains(&json!("adopted")), "{row:#}");
    theirs.screen.tmux(&["send-keys", "-l", "Now the second."]);
    theirs.screen.wait_for_text("Now the second.");
    theirs.screen.tmux(&["send-keys", "Enter"]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["state"] == "working");
    let refused = stage.home.provost(&["stop", &id]);
    assert!(
        refused.assert_code(4).stderr.contains("Provost did not start this agent"),
        "{refused:#?}"
    );
    stage.home.daemon().kill();
    stage.model.release("door");
    stage.home.wait_state(&id, |row| row["state"] == "idle");
    drop(theirs);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "exited_without_claim", "{row:#}");
    let flags = row["flags"].as_array().unwrap();
    assert!(flags.contains(&json!("exit_code_unobserved")), "exit code unknown: {row:#}");
}
