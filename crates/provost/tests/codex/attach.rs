//! A user at Codex's own screen, while Provost keeps supervising the conversation.

use std::fs;

use provost_testkit::{
    harness::eventually,
    model::{MODEL, codex},
};
use serde_json::json;

use crate::{
    codex_env::{CodexEnv, TestedCodex},
    crash_recovery::WAITS_ON_HOLD,
    tmux_screen::TmuxScreen,
};

/// Asks for two approvals, the second after hold `gate`, then blocks on hold `door`, then claims completion.
const ASKS_TWICE: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ shell = "echo first > first.txt", escalate = true, justification = "May I go first?" }] },
    { items = [{ hold = "gate" }, { shell = "echo second > second.txt", escalate = true, justification = "And once more?" }] },
    { items = [{ hold = "door" }, { message = "Both are there." }] },
  ] },
  { response = [
    { items = [{ message = '{"status":"completed","summary":"both are there"}' }] },
  ] },
]
"#;

#[test]
fn screen_and_cli_answer_and_closing_ends_nothing() {
    let Some(stage) = CodexEnv::new(ASKS_TWICE) else { return };
    let id = stage.spawn(&["Write both files."]);
    let first = wait_request_id(&stage, &id, "q1");
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    approve_on_screen(&screen, "May I go first?");
    stage.model.wait_for_hold("gate");
    stage.home.wait_state(&id, |row| row["requests"] == json!([]));
    stage.model.release("gate");
    wait_request_id(&stage, &id, "q2");
    assert_eq!(stage.repo.read("first.txt"), "first\n", "it was approved on the screen");
    let late = stage.home.provost(&["approve", &first, "--revision", "1"]);
    assert_ne!(late.code(), Some(0), "the first answer counts: {late:#?}");
    assert!(late.stderr.contains("answered on the agent's screen"), "{late:#?}");

    screen.wait_for_text("And once more?");
    stage.home.provost(&["approve", &format!("{id}.q2")]).ok();
    stage.model.wait_for_hold("door");
    screen.wait_for_text("Ran echo second");
    drop(screen);

    stage.model.release("door");
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["claim"]),
        (&"completed".into(), &"completed".into()),
        "{row:#}"
    );
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "nothing was restarted");
    assert_eq!(stage.repo.read("second.txt"), "second\n");
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "ended");
    let ended = stage.home.provost(&["attach", &id]);
    assert!(ended.assert_code(4).stderr.contains("has ended"), "{ended:#?}");
    assert!(ended.stderr.contains("provost resume"), "{ended:#?}");
    stage.model.assert_all_as_scripted();
}

/// Blocks on hold `door`, continues after the next prompt, and claims completion.
const CONTINUES_AFTER_INTERRUPT: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ hold = "door" }, { message = "Here I am." }] }] },
  { response = [{ items = [{ message = "Went on." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"done"}' }] }] },
]
"#;

/// A turn that was interrupted on the screen is not finished. Provost asks nothing and seals no
/// outcome, neither while the user is attached nor later, until the user continues the session.
#[test]
fn f1_s1_turn_interrupted_on_screen_waits_for_user() {
    let Some(stage) = CodexEnv::new(CONTINUES_AFTER_INTERRUPT) else { return };
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    let screen = TmuxScreen::run_provost_and_stay(&stage, &["attach", &id]);
    screen.wait_for_text("esc to interrupt");
    eventually("the turn is interrupted", || {
        screen.tmux(&["send-keys", "Escape"]);
        let row = stage.home.status(&id);
        if row["state"] == "idle" { Ok(()) } else { Err(row) }
    });
    stage.model.release("door");
    screen.tmux(&["send-keys", "C-\\"]);
    screen.wait_for_text(
        "detached; the turn was interrupted, and the session is waiting for your next",
    );
    stage.home.wait_state(&id, |row| row["flags"].to_string().contains("interrupted"));
    eventually("no viewer is left", || {
        let left = stage.home.events_of(&id, "viewers.changed");
        left.iter().any(|event| event["data"]["viewers"] == 0).then_some(())
    });
    // The next daemon applies the same rule.
    stage.home.daemon().kill();
    let row = stage.home.status(&id);
    assert_eq!((&row["state"], &row["sealed"]), (&json!("idle"), &json!(false)), "{row:#}");
    assert!(row["reason"].as_str().unwrap().contains("it waits for you"), "{row:#}");
    assert_eq!(stage.home.events_of(&id, "result.requested"), Vec::<serde_json::Value>::new());
    let listed = stage.home.provost(&["ls"]).ok().stdout.clone();
    assert!(listed.contains("interrupted") && listed.contains("it waits for you"), "{listed}");
    let shown = stage.home.provost(&["status", &id]);
    let resume = format!("provost resume {}", &id[id.len() - 8..]);
    assert!(shown.ok().stderr.contains(&resume), "{shown:#?}");

    stage.home.provost(&["resume", &id]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
}

#[test]
fn f1_s1_detach_key_keeps_agent_running() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    let screen = TmuxScreen::run_provost_and_stay(&stage, &["attach", &id]);
    screen.wait_for_text("esc to interrupt");
    screen.tmux(&["send-keys", "C-\\"]);
    screen.wait_for_text("detached; the agent keeps running");
    let all = screen.tmux(&["capture-pane", "-p", "-S", "-"]);
    assert!(all.contains("press Ctrl-\\ to detach"), "{all}");
    let row = stage.home.status(&id);
    assert_eq!((&row["state"], &row["process"]), (&json!("working"), &json!("alive")), "{row:#}");
    stage.model.release("door");
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
}

#[test]
fn attach_ends_with_reason_when_agent_ends() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    let screen = TmuxScreen::run_provost_and_stay(&stage, &["attach", &id]);
    screen.wait_for_text("esc to interrupt");
    stage.home.provost(&["cancel", &id]).ok();
    screen.wait_for_text("has ended");
    stage.wait_sealed(&id);
}

/// Codex offers a newer model at startup. Pressing Enter would switch to it, permanently and unrecorded.
#[test]
fn e22_attach_offers_no_other_model() {
    let Some(stage) = CodexEnv::new(ASKS_TWICE) else { return };
    let config = stage.codex_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with(&format!("{MODEL:?} =")));
    fs::write(&config, kept.collect::<Vec<_>>().join("\n")).unwrap();
    let id = stage.spawn(&["Write both files."]);
    wait_request_id(&stage, &id, "q1");
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("May I go first?");
    let shown = screen.tmux(&["capture-pane", "-p", "-S", "-"]);
    assert!(!shown.contains("Try new model"), "{shown}");
    drop(screen);
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
}

/// A user at the screen may change the model. Attaching changes nothing, and a change is recorded.
#[test]
fn model_change_on_screen_is_recorded() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["--model", "gpt-5.4", "Wait."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    let screen = TmuxScreen::run_provost(&stage, &["attach", &id]);
    screen.wait_for_text("esc to interrupt");
    assert_eq!(stage.home.status(&id)["warnings"], json!([]), "as it was set");
    screen.wait_for_text("gpt-5.4");
    screen.tmux(&["send-keys", "-l", "/model"]);
    eventually("the first model that is offered is taken", || {
        let shown = screen.tmux(&["capture-pane", "-p"]);
        if shown.contains("Model changed to") {
            return Ok(());
        }
        screen.tmux(&["send-keys", "Enter"]);
        Err(shown)
    });
    let row = stage.home.wait_state(&id, |row| row["warnings"] != json!([]));
    let warning = row["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("the settings of the conversation changed")
            && warning.contains("instead of gpt-5.4"),
        "{warning}"
    );
    drop(screen);
    stage.model.release("door");
    stage.wait_sealed(&id);
}

#[test]
fn r13_agent_cannot_attach() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["attach", &id, "--print"]).ok();
    let elsewhere = stage.home.provost(&["attach", &id]);
    assert!(elsewhere.assert_code(2).stderr.contains("--print"), "not a terminal: {elsewhere:#?}");

    let tries = format!(
        "$PROVOST_BIN attach {id} --print > printed 2>&1; echo $? > code;
         env -i PROVOST_HOME=$PROVOST_HOME setsid $PROVOST_BIN attach {id} --json; echo $? >> code;
         unshare --user --map-root-user --pid --fork --mount-proc $PROVOST_BIN attach {id} --print > hidden 2>&1;
         echo $? >> code"
    );
    let arguments = ["spawn", "--json", "--exit-zero-completes", "--", "sh", "-c", &tries];
    let agent = stage.home.provost_in(stage.home.root(), &arguments).ok().json();
    stage.wait_sealed(agent["id"].as_str().unwrap());
    let found = |name: &str| fs::read_to_string(stage.home.root().join(name)).unwrap();
    assert_eq!(found("code"), "4\n4\n4\n", "{}{}", found("printed"), found("hidden"));
    assert!(
        found("printed").contains("an agent can only report about itself"),
        "{}",
        found("printed")
    );
    assert!(!found("printed").contains("--remote"), "{}", found("printed"));
    assert!(found("hidden").contains("an agent can only report"), "{}", found("hidden"));

    stage.model.release("door");
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
}

/// Codex obeys every peer that connects to it, so all connections must go through its holder. The holder rejects
/// agents, both on the path that Codex chose and on its own.
#[test]
fn r13_agent_cannot_reach_app_server() {
    let Some(stage) = CodexEnv::new(ASKS_TWICE) else { return };
    let id = stage.spawn(&["Write both files."]);
    let request = wait_request_id(&stage, &id, "q1");
    let row = stage.home.wait_state(&id, |row| row["turns"] == 1);
    let thread = row["thread"].as_str().unwrap();

    // The agent tries the same as the operator: it opens Codex's screen on each socket and presses
    // `y`.
    let store = stage.path().join("agents").join(&id);
    let tries = format!(
        r#"cd {root}; n=0
        for socket in {store}/*.sock $(readlink {store}/l1.sock); do
            n=$((n + 1)); export CODEX_HOME={store}/codex TERM=xterm-256color
            tmux -S t$n.sock -f /dev/null new-session -d -x 120 -y 40 \
                "{codex} --remote unix://$socket resume {thread}; echo over; cat"
            for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
                sleep 0.5; tmux -S t$n.sock capture-pane -p > tried.$n; tmux -S t$n.sock send-keys y
                grep -q '^over' tried.$n && break
            done
            tmux -S t$n.sock kill-server
        done"#,
        root = stage.home.root().display(),
        codex = codex().unwrap().display(),
        store = store.display(),
    );
    let arguments = ["spawn", "--json", "--exit-zero-completes", "--", "sh", "-c", &tries];
    let agent = stage.home.provost_in(stage.home.root(), &arguments).ok().json();
    stage.wait_sealed(agent["id"].as_str().unwrap());
    let tried = fs::read_to_string(stage.home.root().join("tried.1")).unwrap();
    let row = stage.home.status(&id);
    assert_eq!(row["requests"][0]["id"], request.as_str(), "{tried}\n{row:#}");
    assert!(!stage.repo.path().join("first.txt").exists(), "{tried}");
    assert!(tried.contains("over") && tried.contains("unix://"), "it could not connect: {tried}");

    stage.home.provost(&["deny", &request]).ok();
    stage.model.wait_for_hold("gate");
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn attach_to_old_codex_is_refused_with_version() {
    let Some(stage) = CodexEnv::with_version(TestedCodex::Oldest, WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    let refused = stage.home.provost(&["attach", &id]);
    assert!(refused.assert_code(4).stderr.contains("0.107.0"), "{refused:#?}");
    stage.model.release("door");
    stage.wait_sealed(&id);
}

#[test]
fn logs_show_text_and_raw_logs_show_protocol() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait a moment."]);
    stage.model.wait_for_hold("door");
    stage.model.release("door");
    stage.wait_sealed(&id);
    let read = stage.home.provost(&["logs", &id, "--stdout"]).ok().stdout.clone();
    assert!(read.contains("> Wait a moment.\nHere I am.\n── turn completed\n"), "{read}");
    assert!(!read.contains("\"method\""), "{read}");
    let raw = stage.home.provost(&["logs", &id, "--stdout", "--raw"]).ok().stdout.clone();
    assert!(raw.contains("\"method\":\"turn/completed\""), "{raw}");
    let json = stage.home.provost(&["logs", &id, "--json"]).ok().json_lines();
    let is_message = |line: &serde_json::Value| {
        line["text"].as_str().unwrap().contains("\"method\":\"turn/completed\"")
    };
    assert!(json.iter().any(is_message), "{json:#?}");
}

/// Waits for an open request and returns its id.
#[track_caller]
fn wait_request_id(stage: &CodexEnv, id: &str, no: &str) -> String {
    let request = format!("{id}.{no}");
    stage.home.wait_state(id, |row| row["requests"][0]["id"] == request.as_str());
    request
}

/// Approves the request with this reason. Codex may lose a key that arrives right after it painted the prompt, so the
/// key is pressed again, as a user would.
#[track_caller]
fn approve_on_screen(screen: &TmuxScreen<'_>, reason: &str) {
    screen.wait_for_text(reason);
    eventually(&format!("{reason:?} is settled"), || {
        let shown = screen.tmux(&["capture-pane", "-p"]);
        if !shown.contains(reason) {
            return Ok(());
        }
        screen.tmux(&["send-keys", "y"]);
        Err(shown)
    });
}
