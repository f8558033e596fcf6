//! Recovery and resumption: work that survives a crash, and outcomes that must not be confused.

use std::{collections::BTreeMap, fs, time::Duration};

use provost_testkit::harness::{eventually, eventually_within};
use serde_json::{Value, json};

use crate::{
    approvals::rollout_path,
    codex_env::{CodexEnv, TestedCodex},
    journal::LaunchJournal,
    one_shot::assert_foreign_thread_refused,
};

/// Blocks on hold `door` in its first turn, then claims completion.
pub(crate) const WAITS_ON_HOLD: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ hold = "door" }, { message = "Here I am." }] }] },
  { response = [{ items = [{ message = '{"status":"completed","summary":"done"}' }] }] },
]
"#;

/// Blocks on hold `door`. After it was killed and restarted, it tries to write and claims
/// completion.
const DIES_ONCE: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ hold = "door" }, { message = "never said" }] }] },
  { response = [
    { items = [{ shell = "touch tried.txt" }] },
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "went on" } }] },
    { items = [{ message = "Went on." }] },
  ] },
]
"#;

/// Blocks on hold `door` in every turn.
const DIES_ALWAYS: &str = r#"
[[thread]]
turn = [{ repeat = "forever", response = [{ items = [{ hold = "door" }, { message = "never said" }] }] }]
"#;

#[test]
fn turn_survives_daemon_kill_without_resending() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, WAITS_ON_HOLD) else { return };
        let id = stage.spawn(&["Wait for the door."]);
        stage.model.wait_for_hold("door");
        stage.home.daemon().kill();
        stage.model.release("door");
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim"]),
            (&json!("completed"), &json!("completed")),
            "{which:?}: {row:#}"
        );
        assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{which:?}");
        assert_eq!(stage.count_turns_with("Wait for the door."), 1, "{which:?}");
        assert_eq!(row["turns"], 2);
        stage.model.assert_all_as_scripted();
    }
}

/// The daemon aborts itself at one commit after another. The holder's journal has the messages that
/// were sent, and the ledger has those that were recorded. At least one crash must happen between
/// the two.
#[test]
fn crash_between_send_and_record_resends_nothing() {
    let mut between = Vec::new();
    for nth in 3..=7 {
        let Some(mut stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
        stage.home.set_env("PROVOST_FAILPOINT", format!("commit.before:{nth}"));
        let key = ["--key", "once", "Wait for the door."];
        let first = stage.try_spawn(&key);
        let is_dead = || stage.daemon().pid().is_none();
        // The last of these commits may come after the request to the model.
        eventually("it died or works on the turn", || {
            (is_dead() || stage.model.open_streams() > 0).then_some(())
        });
        if is_dead() && is_sent_but_unrecorded(&stage) {
            between.push(nth);
        }
        stage.home.set_env("PROVOST_FAILPOINT", "");
        let again = eventually("it is requested again", || {
            let again = stage.try_spawn(&key);
            if again.code() == Some(0) { Ok(again) } else { Err(again) }
        });
        let id = again.json()["id"].as_str().unwrap().to_owned();
        stage.model.wait_for_hold("door");
        stage.model.release("door");
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{nth}: {row:#} {first:#?}");
        assert_eq!(stage.count_turns_with("Wait for the door."), 1, "{nth}");
        assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{nth}");
        let sent = LaunchJournal::read(&stage, &id, 1).keys_containing("Wait for the door.").len();
        assert_eq!(sent, 1, "{nth}: it was written to the agent once");
        assert_eq!(stage.events_of(&id, "message.delivered").len(), 2, "{nth}: and its result");
        stage.model.assert_all_as_scripted();
    }
    assert!(!between.is_empty(), "no crash fell between sending and recording");
}

/// The process runs but never listens. The holder waits 30 s for it.
#[test]
#[ignore = "deep: two launches wait 30 s each"]
fn r09_codex_that_never_listens_fails_launch() {
    let Some(mut stage) = CodexEnv::new("[[thread]]\nturn = []\n") else { return };
    stage.replace_codex(r#"[ "$1" = app-server ] || exec "$REAL" "$@"; exec sleep 600"#);
    let id = stage.spawn(&["Start."]);
    let stopped = || stage.events_of(&id, "attempt.stopped").pop();
    let event = eventually_within(Duration::from_secs(90), "the launch fails", stopped);
    let detail = event["data"]["detail"].as_str().unwrap();
    assert!(detail.contains("did not listen within 30 s"), "{detail}");
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("launch")), "{row:#}");
}

#[test]
fn session_without_conversation_is_not_resumed() {
    let Some(stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let id = stage.spawn(&["Wait for the door."]);
    stage.model.wait_for_hold("door");
    stage.model.release("door");
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    stage.wait_state(&id, |row| row["process"] != "alive");
    let output = stage.provost(&["gc", "--apply", "--older-than", "0s"]).ok().stdout.clone();
    assert!(output.contains("can no longer be resumed"), "{output}");
    for arguments in [&["resume", &id][..], &["send", &id, "Go on."]] {
        let refused = stage.provost(arguments);
        assert!(refused.assert_code(4).stderr.contains("cannot be resumed"), "{refused:#?}");
    }
    let row = stage.status(&id);
    assert_eq!((&row["state"], &row["attempt"]), (&json!("completed"), &json!(1)), "{row:#}");
}

/// A handshake needs both sides, so a day without a daemon does not count towards the agent's
/// timeout.
#[test]
fn e16_handshake_survives_a_day_without_daemon() {
    let Some(mut stage) = CodexEnv::new(WAITS_ON_HOLD) else { return };
    let door = stage.root().join("may-start");
    let script = r#"[ "$1" = app-server ] || exec "$REAL" "$@"
while [ ! -e DOOR ]; do sleep 0.05; done
exec "$REAL" "$@""#;
    stage.replace_codex(&script.replace("DOOR", door.to_str().unwrap()));
    let id = stage.spawn(&["Wait for the door."]);
    eventually("it runs", || (!stage.events_of(&id, "launch.started").is_empty()).then_some(()));
    stage.daemon().kill();
    stage.run_a_day_later(&["status", &id]);
    eventually("it is followed", || {
        (!stage.events_of(&id, "launch.followed").is_empty()).then_some(())
    });
    fs::write(&door, "").unwrap();
    stage.model.wait_for_hold("door");
    stage.model.release("door");
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{row:#}");
    stage.model.assert_all_as_scripted();
}

/// Whether the instruction reached the agent without being recorded in the ledger. Needs no daemon.
fn is_sent_but_unrecorded(stage: &CodexEnv) -> bool {
    let records = stage.provost(&["ledger", "export"]).ok().json_lines();
    let of_kind = |kind: &str| {
        let all = records.iter().map(|line| &line["record"]);
        all.filter(|record| record["kind"] == kind).cloned().collect::<Vec<_>>()
    };
    let Some(opened) = of_kind("session.opened").pop() else { return false };
    let id = opened["stream"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let journal = LaunchJournal::read(stage, &id, 1);
    !journal.keys_containing("Wait for the door.").is_empty()
        && of_kind("message.delivered").is_empty()
}

/// While Codex is down, the user's configuration changes to full access and another model.
#[test]
fn e22_killed_codex_resumes_with_same_settings() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, DIES_ONCE) else { return };
        let model = which.model();
        let strict = ["--sandbox", "read-only", "--approvals", "never"];
        let mind = ["--model", model, "--effort", "low"];
        let task = ["Wait for the door."];
        let id = stage.spawn(&[&strict[..], &mind, &task].concat());
        stage.model.wait_for_hold("door");
        let thread = stage.wait_state(&id, |row| row["thread"].is_string())["thread"].clone();
        allow_everything(&stage);
        stage.kill_codex(&id, 1);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim_text"]),
            (&json!("completed"), &json!("went on")),
            "{which:?}: {row:#}"
        );
        assert_eq!(row["thread"], thread);
        assert_eq!(row["launches"].as_array().unwrap().len(), 2);
        let requests = stage.model.requests();
        let (before, after) = (&requests[0].request, &requests[1].request);
        assert_eq!((before.thread(), before.model()), (after.thread(), after.model()));
        assert_eq!(before.model(), model);
        assert_eq!(before.body["reasoning"]["effort"], "low");
        assert_eq!(before.body["reasoning"], after.body["reasoning"], "{which:?}");
        let prompt = after.prompt();
        assert!(
            prompt.contains("killed by signal 9") && prompt.contains("Wait for the door."),
            "{prompt}"
        );
        let turns = turn_settings(&stage, &id);
        assert_eq!(turns.len(), 2, "{turns:#?}");
        assert_eq!(turns[0], turns[1], "{which:?}");
        assert_eq!(turns[0]["sandbox_policy"]["type"], "read-only", "{which:?}: {turns:#?}");
        assert_eq!(turns[0]["approval_policy"], "never", "{which:?}");
        assert_eq!(turns[0]["cwd"], stage.repo.path().to_str().unwrap(), "{which:?}");
        let tried = requests[2].request.last_output();
        assert!(
            tried.contains("Read-only file system") || tried.contains("Permission denied"),
            "{which:?}: {tried}"
        );
        assert!(!stage.repo.path().join("tried.txt").exists(), "{which:?}");
        stage.model.assert_all_as_scripted();
    }
}

/// Changes the user's configuration to full access and another model.
fn allow_everything(stage: &CodexEnv) {
    stage.configure_codex("gpt-5.1", "");
    let file = stage.codex_home().join("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    let loose = "sandbox_mode = \"danger-full-access\"\napproval_policy = \"on-request\"\nmodel_reasoning_effort = \"high\"\n";
    fs::write(&file, format!("{loose}{text}")).unwrap();
}

/// Returns the settings of each turn, as Codex wrote them to the rollout.
fn turn_settings(stage: &CodexEnv, id: &str) -> Vec<Value> {
    let kept = ["cwd", "approval_policy", "sandbox_policy", "model", "effort"];
    let settings = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let payload = &line["payload"];
        (line["type"] == "turn_context").then(|| kept.map(|key| (key, payload[key].clone())).into())
    };
    let text = fs::read_to_string(rollout_path(stage, id)).unwrap();
    text.lines()
        .filter_map(|line| settings(line).map(|all: BTreeMap<&str, Value>| json!(all)))
        .collect()
}

/// The oldest Codex uses pipes, so a script can rewrite its output.
#[test]
fn resume_into_another_thread_is_refused() {
    let scenario = r#"
        [[thread]]
        turn = [{ response = [{ items = [{ hold = "door" }, { message = "never said" }] }] }]"#;
    let Some(mut stage) = CodexEnv::with_version(TestedCodex::Oldest, scenario) else { return };
    let mark = stage.root().join("begun");
    let script = r#"[ "$1" = app-server ] || exec "$REAL" "$@"
[ -e MARK ] || { touch MARK; exec "$REAL" "$@"; }
"$REAL" "$@" | sed -u -E '/"thread":\{/s/("id":")[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"/\1nobody"/'"#;
    stage.replace_codex(&script.replace("MARK", mark.to_str().unwrap()));
    let id = stage.spawn(&["Wait."]);
    stage.model.wait_for_hold("door");
    stage.wait_state(&id, |row| row["turns"] == 1);
    stage.kill_codex(&id, 1);
    let row = stage.wait_sealed(&id);
    assert_foreign_thread_refused(&stage, &id, &row);
    stage.model.assert_all_as_scripted();
}

#[test]
fn e16_crashing_codex_fails_after_three_launches() {
    let Some(stage) = CodexEnv::new(DIES_ALWAYS) else { return };
    let task = ["spawn", "--json", "--agent", "codex", "--wait", "Wait."];
    let mut waiting = stage.command(&task);
    waiting.current_dir(stage.repo.path()).stdout(std::process::Stdio::null());
    let mut waiting = waiting.spawn().unwrap();
    for launch in 1..=3 {
        eventually("it is asked", || (stage.model.requests().len() == launch).then_some(()));
        let id = stage.home.provost(&["ls", "--json"]).ok().json()["sessions"][0]["id"].clone();
        stage.kill_codex(id.as_str().unwrap(), launch);
    }
    assert_eq!(waiting.wait().unwrap().code(), Some(1), "the waiting command ends at once");
    let id =
        stage.home.provost(&["ls", "--all", "--json"]).ok().json()["sessions"][0]["id"].clone();
    let row = stage.wait_sealed(id.as_str().unwrap());
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("crash")), "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 3);
}

/// Asks for an approval, and reports failure after a restart.
const ASKS_AND_GIVES_UP: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ shell = "echo x > x.txt", escalate = true, justification = "May I?" }] }] },
  { response = [{ items = [{ tool = "provost_report", args = { status = "failed", summary = "gave up" } }] },
                { items = [{ message = "I gave up." }] }] },
]
"#;

#[test]
fn e16_approval_of_dead_asker_is_refused_as_void() {
    let Some(stage) = CodexEnv::new(ASKS_AND_GIVES_UP) else { return };
    let id = stage.spawn(&["Write x."]);
    stage.wait(&id, "needs_input");
    stage.daemon().kill();
    stage.kill_holder(&id, 1);
    // Until the launch's processes have ended, the caller cannot be identified, and the error asks
    // the user to try again.
    let late = eventually("the caller is identified", || {
        let late = stage.provost(&["approve", &format!("{id}.q1")]);
        (!late.stderr.contains("try again")).then_some(late)
    });
    assert!(late.assert_code(4).stderr.contains("the process that asked has ended"), "{late:#?}");
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["claim_text"], &row["requests"]), (&json!("gave up"), &json!([])), "{row:#}");
    let settled = stage.events_of(&id, "request.settled");
    assert_eq!((settled.len(), &settled[0]["data"]["status"]), (1, &json!("void")), "{settled:#?}");
    assert!(!stage.repo.path().join("x.txt").exists());
}

#[test]
fn e16_codex_exit_voids_open_approval() {
    let Some(stage) = CodexEnv::new(ASKS_AND_GIVES_UP) else { return };
    let id = stage.spawn(&["Write x."]);
    stage.wait(&id, "needs_input");
    stage.kill_codex(&id, 1);
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["claim_text"]),
        (&json!("failed"), &json!("gave up")),
        "{row:#}"
    );
    assert_eq!(row["requests"], json!([]), "{row:#}");
    let settled = stage.events_of(&id, "request.settled");
    assert_eq!(settled.len(), 1, "voided once: {settled:#?}");
    assert_eq!(settled[0]["data"]["status"], "void");
    let late = stage.home.provost(&["approve", &format!("{id}.q1")]);
    assert!(late.assert_code(4).stderr.contains("no longer open"), "{late:#?}");
    assert!(!stage.repo.path().join("x.txt").exists());
}

#[test]
fn r09_completed_turn_with_failed_claim_fails() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [
              { response = [{ items = [{ message = "All is well, everything succeeded." }] }] },
              { response = [{ items = [{ message = '{"status":"failed","summary":"it cannot be done"}' }] }] },
            ]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["Do the impossible."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim"], &row["claim_text"]),
            (&json!("failed"), &json!("failed"), &json!("it cannot be done")),
            "{which:?}: {row:#}"
        );
    }
}

#[test]
fn r09_failed_turn_fails_with_its_reason() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [{ response = [{ http = { status = 400, body = "no such thing" } }] }]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["Try."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim_source"]),
            (&json!("failed"), &json!("turn_error")),
            "{which:?}: {row:#}"
        );
        assert!(row["claim_text"].as_str().unwrap().contains("no such thing"), "{row:#}");
    }
}

#[test]
fn unreachable_model_retries_then_stalls() {
    let Some(mut stage) = CodexEnv::new("[[thread]]\nturn = []\n") else { return };
    let file = stage.codex_home().join("config.toml");
    let nowhere = format!("http://127.0.0.1:{}/v1", free_port());
    let text = fs::read_to_string(&file).unwrap().replace(&stage.model.url(), &nowhere);
    let text = text.replace("unbounded_connection_retries = false\n", "");
    fs::write(&file, text).unwrap();
    stage.home.set_end_wait(std::time::Duration::from_secs(20));
    let id = stage.spawn(&["--stale-after", "1s", "Reach out."]);
    let row = stage.home.wait_state(&id, |row| row_flags(row).contains(&"retrying".to_owned()));
    assert_eq!(row["state"], "working", "{row:#}");
    let why = row["retrying"].as_str().unwrap();
    assert!(!why.is_empty(), "{row:#}");
    for shown in [&["ls"][..], &["status", &id]] {
        let output = stage.home.provost(shown).ok().stdout.clone();
        assert!(output.contains("retrying"), "{output}");
    }
    let row = stage.wait(&id, "stalled");
    assert_eq!((&row["sealed"], &row["claim"]), (&json!(false), &json!("none")), "{row:#}");
    stage.home.provost(&["cancel", &id]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "cancelled");
}

#[test]
fn stop_ends_turn_and_background_processes() {
    let scenario = r#"
        [[thread]]
        turn = [{ response = [
          { items = [{ shell = "echo $$ > pid; exec sleep 600", yield_time_ms = 250 }] },
          { items = [{ hold = "door" }, { message = "never said" }] },
        ] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let id = stage.spawn(&["Sleep."]);
    stage.model.wait_for_hold("door");
    let sleeps = || stage.home.leftovers().iter().any(|left| left.contains("sleep"));
    assert!(sleeps(), "{:#?}", stage.home.leftovers());
    stage.home.provost(&["stop", &id]).ok();
    let row = stage.home.wait_state(&id, |row| row["process"] != "alive");
    assert_ne!(row["state"], "completed", "{row:#}");
    eventually("no sleep is left", || (!sleeps()).then_some(()));
}

#[test]
fn sub_agent_turn_does_not_end_session_turn() {
    let scenario = r#"
        [[thread]]
        when = { prompt = "Delegate" }
        turn = [{ response = [
          { items = [{ spawn = "CHILD task", name = "helper" }] },
          { items = [{ wait_agents = true }] },
          { items = [{ hold = "door" }, { tool = "provost_report", args = { status = "completed", summary = "both" } }] },
          { items = [{ message = "Both are done." }] },
        ] }]
        [[thread]]
        when = { subagent = true }
        turn = [{ response = [{ items = [{ message = "The child is done." }], usage = { input = 7, output = 1 } }] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let id = stage.spawn(&["Delegate it."]);
    stage.model.wait_for_hold("door");
    let row = stage.status(&id);
    assert_eq!(
        (&row["state"], &row["turns"]),
        (&json!("working"), &json!(1)),
        "the child's turn is over, the session's is not: {row:#}"
    );
    assert!(stage.events_of(&id, "turn.ended").is_empty());
    stage.model.release("door");
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["claim_text"]),
        (&json!("completed"), &json!("both")),
        "{row:#}"
    );
    stage.model.assert_all_as_scripted();
}

fn row_flags(row: &Value) -> Vec<String> {
    let list = row["flags"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns a port without a listener.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
