//! Reactions: Provost acts once per event, and users can trigger the same actions by hand.

use std::{fs, time::Duration};

use provost_testkit::harness::{eventually, eventually_within, is_deep};
use serde_json::{Value, json};

use provost_testkit::env::{TALKER, TestEnv};

/// An agent in the middle of a turn.
const IN_A_TURN: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "u" }
"#;

/// An agent that claims completion, with a reason.
const CLAIMS_DONE: &str = r#"
[[step]]
emit = { type = "claim", claim = "completed", text = "after: {{input}}" }
[[step]]
emit = { type = "turn_ended", status = "ok" }
[[step]]
hang = true
"#;

fn wait_input_step(what: &str) -> String {
    format!("[[step]]\nwait_input = {{ type = \"{what}\" }}\n")
}

fn emit_step(what: &str) -> String {
    format!("[[step]]\nemit = {{ {what} }}\n")
}

/// Starts the agent with this reaction in the configuration.
fn spawn_with_reaction(stage: &TestEnv, scenario: &str, reaction: &str) -> String {
    stage.configure_talker(scenario, &format!("[reactions.mine]\n{reaction}\n"));
    stage.spawn_in(stage.home.root(), &["--agent", TALKER, "do it"])
}

fn reaction_count(stage: &TestEnv, id: &str) -> usize {
    stage.events_of(id, "reaction.done").len()
}

fn message_fate(row: &Value, kind: &str) -> Value {
    let messages = row["messages"].as_array().unwrap();
    messages.iter().find(|one| one["kind"] == kind).map_or(Value::Null, |one| one["status"].clone())
}

#[test]
fn quiet_agent_is_nudged_once_despite_daemon_death() {
    let stage = TestEnv::new();
    let scenario =
        [IN_A_TURN, &wait_input_step("nudge"), &wait_input_step("steer"), CLAIMS_DONE].concat();
    let reaction = "on = \"quiet\"\nafter = \"300ms\"\ndo = \"nudge\"\ntext = \"Are you there?\"";
    let id = spawn_with_reaction(&stage, &scenario, reaction);
    let nudged = |row: &Value| message_fate(row, "nudge") == "delivered";
    stage.home.wait_state(&id, nudged);
    stage.home.daemon().kill();
    assert!(nudged(&stage.status(&id)));
    assert_eq!(reaction_count(&stage, &id), 1);
    stage.home.provost(&["send", &id, "go"]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("after: go")));
    assert_eq!(reaction_count(&stage, &id), 1, "one silence is answered once");
}

#[test]
fn stalled_agent_is_interrupted_and_resumed() {
    let stage = TestEnv::new();
    let left = emit_step("type = \"turn_ended\", turn = \"u\", status = \"interrupted\"");
    let again = emit_step("type = \"turn_started\", turn = \"v\"");
    let scenario = [
        IN_A_TURN,
        &wait_input_step("interrupt"),
        &left,
        &wait_input_step("continue"),
        &again,
        CLAIMS_DONE,
    ]
    .concat();
    let reaction = "on = \"stalled\"\ndo = \"interrupt\"\ntext = \"Otherwise.\"\n[session]\nstale_after = \"400ms\"";
    let id = spawn_with_reaction(&stage, &scenario, reaction);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["claim_text"], "after: Otherwise.");
    assert_eq!(
        (message_fate(&row, "interrupt"), reaction_count(&stage, &id)),
        (json!("delivered"), 1)
    );
    assert_eq!(message_fate(&row, "result_wanted"), Value::Null, "it continued by itself");
}

#[test]
fn m06_silent_turn_stalls_only_after_the_window() {
    let stage = TestEnv::new();
    let scenario = [IN_A_TURN, "[[step]]\nhang = true\n"].concat();
    // With --deep, the test uses the default window.
    let (set, window) =
        if is_deep() { ("", 300_000) } else { ("[session]\nstale_after = \"700ms\"", 700) };
    let id = spawn_with_reaction(
        &stage,
        &scenario,
        &format!("on = \"stalled\"\ndo = \"notify\"\n{set}"),
    );
    let patience = Duration::from_millis(window) + Duration::from_secs(30);
    eventually_within(patience, "the reaction", || {
        (reaction_count(&stage, &id) == 1).then_some(())
    });
    let at = |kind: &str| stage.events_of(&id, kind)[0]["at"].as_i64().unwrap();
    let silent = u64::try_from(at("stream.silent") - at("turn.started")).unwrap();
    // Never early. Both times are truncated to milliseconds.
    assert!(silent >= window - 1, "stalled after {silent} ms");
    assert_eq!(stage.status(&id)["state"], "stalled");
    let monitor = ["monitor", &id, "--timeout", "20s", "--json"];
    let own: &[&str] = if is_deep() { &[] } else { &["--stale-after", "700ms"] };
    let output = stage.home.provost(&[&monitor, own].concat());
    assert!(output.assert_code(1).stdout.contains("stuck"), "{output:?}");
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn full_context_is_shown_and_compacted() {
    let stage = TestEnv::new();
    let scenario = [
        IN_A_TURN,
        &emit_step("type = \"context\", used = 90, window = 100"),
        &emit_step("type = \"turn_ended\", turn = \"u\", status = \"ok\""),
        &wait_input_step("compact"),
        &emit_step("type = \"compacted\""),
        &wait_input_step("result_wanted"),
        CLAIMS_DONE,
    ]
    .concat();
    let id = spawn_with_reaction(&stage, &scenario, "on = \"context\"\nat = 80\ndo = \"compact\"");
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["turns"]), (&json!("completed"), &json!(1)));
    assert_eq!(stage.events_of(&id, "context.compacted").len(), 1);
    assert_eq!(stage.events_of(&id, "context.reported")[0]["data"]["context"]["used"], 90);
    assert_eq!(row["context"], Value::Null, "its usage since then is unknown");
}

#[test]
fn question_is_notified_once() {
    let stage = TestEnv::new();
    let log = stage.file("reactions");
    let asks = emit_step("type = \"request\", id = \"q\", kind = \"question\", title = \"Which?\"");
    let scenario = [IN_A_TURN, &asks, &wait_input_step("answer"), CLAIMS_DONE].concat();
    let hook = format!("[hooks]\nsession.reaction = \"cat >> {log}; echo >> {log}\"");
    let reaction = format!("on = \"needs_input\"\nafter = \"50ms\"\ndo = \"notify\"\n{hook}");
    let id = spawn_with_reaction(&stage, &scenario, &reaction);
    let line =
        eventually("the hook", || fs::read_to_string(&log).ok().filter(|t| t.ends_with('\n')));
    let payload: Value = serde_json::from_str(line.trim()).unwrap();
    let expected = json!({"name": "mine", "on": "needs_input", "do": "notify"});
    assert_eq!((&payload["reaction"], &payload["event"]), (&expected, &json!("session.reaction")));
    stage.home.daemon().kill();
    let request = stage.status(&id)["requests"][0]["id"].as_str().unwrap().to_owned();
    stage.home.provost(&["answer", &request, "this"]).ok();
    stage.wait_sealed(&id);
    assert_eq!(reaction_count(&stage, &id), 1);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);
}

#[test]
fn handover_keeps_worktree_and_is_recorded() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let first = stage.home.scripted_agent(
        "first",
        &[
            IN_A_TURN,
            "[[step]]\nrun = [\"sh\", \"-c\", \"echo one > begun\"]\n[[step]]\nhang = true\n",
        ]
        .concat(),
    );
    let second = [
        &emit_step("type = \"ready\", thread = \"s\""),
        &wait_input_step("instruction"),
        &emit_step("type = \"turn_started\", turn = \"v\""),
        "[[step]]\nrun = [\"sh\", \"-c\", \"cp begun finished\"]\n",
        CLAIMS_DONE,
    ]
    .concat();
    let second = stage.home.scripted_agent("second", &second);
    stage.configure(&format!(
        "[session]\nstale_after = \"400ms\"\nstop_grace = \"200ms\"\n\
         [reactions.mine]\non = \"stalled\"\ndo = \"hand_over\"\nagent = \"second\"\n\
         {first}{second}"
    ));
    let arguments = ["--agent", "first", "--worktree", "--check", "test -e finished", "do it"];
    let id = stage.spawn_in(repo.path(), &arguments);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["agent"]), (&json!("succeeded"), &json!("second")), "{row:#}");
    let claimed = row["claim_text"].as_str().unwrap();
    assert!(claimed.contains("Another agent (first)") && claimed.ends_with("do it"), "{claimed}");
    let replaced = &stage.events_of(&id, "agent.replaced")[0]["data"];
    assert_eq!((&replaced["from"], &replaced["to"]), (&json!("first"), &json!("second")));
    assert_eq!((reaction_count(&stage, &id), row["launches"].as_array().unwrap().len()), (1, 2));
}

#[test]
fn manual_interrupt_then_steer_resumes_turn() {
    let stage = TestEnv::new();
    let left = emit_step("type = \"turn_ended\", turn = \"u\", status = \"interrupted\"");
    let again = emit_step("type = \"turn_started\", turn = \"v\"");
    let scenario = [
        IN_A_TURN,
        &wait_input_step("interrupt"),
        &left,
        &wait_input_step("steer"),
        &again,
        CLAIMS_DONE,
    ]
    .concat();
    stage.configure_talker(&scenario, "");
    let id = stage.spawn_in(stage.home.root(), &["--agent", TALKER, "do it"]);
    stage.home.wait_state(&id, |row| row["turns"] == 1);
    stage.home.provost(&["interrupt", &id]).ok();
    let held = |row: &Value| row["flags"].as_array().unwrap().contains(&json!("interrupted"));
    let row = stage.home.wait_state(&id, held);
    assert_eq!((&row["state"], message_fate(&row, "result_wanted")), (&json!("idle"), Value::Null));
    let refused = stage.home.provost(&["interrupt", &id, "--json"]).assert_code(4).json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("no turn is open"), "{refused}");
    stage.home.daemon().kill();
    assert!(held(&stage.status(&id)), "it still waits for the user after a crash");
    stage.home.provost(&["send", &id, "Otherwise."]).ok();
    assert_eq!(stage.wait_sealed(&id)["claim_text"], "after: Otherwise.");
}

#[test]
fn plain_command_rejects_compact_and_interrupt() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(provost_testkit::env::HANGS, &[]);
    stage.pid(&id);
    for command in ["compact", "interrupt"] {
        let refused = stage.home.provost(&[command, &id, "--json"]).assert_code(4).json();
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("command has no"), "{why}");
    }
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn invalid_reaction_is_refused_before_start() {
    let stage = TestEnv::new();
    for (reaction, hint) in [
        ("on = \"quiet\"\ndo = \"compact\"", "is not a valid reaction to"),
        ("on = \"quiet\"\ndo = \"hand_over\"", "needs an agent"),
        ("on = \"quiet\"\ndo = \"hand_over\"\nagent = \"nobody\"", "no agent"),
        ("on = \"quiet\"\ndo = \"notify\"\ntext = \"x\"", "sends no text"),
        ("on = \"quiet\"\ndo = \"notify\"\nat = 5", "is only valid with on"),
        ("on = \"quite\"\ndo = \"notify\"", "quiet"),
        ("on = \"quiet\"", "do"),
    ] {
        stage.configure(&format!("[reactions.mine]\n{reaction}\n"));
        let error = stage.home.provost(&["spawn", "--json", "--", "true"]).assert_code(2).json();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(hint) && message.contains("mine"), "{reaction}: {message}");
        // A well-formed reaction is shown, with a warning.
        let shown = stage.home.provost(&["config", "show", "--json"]);
        if shown.code() == Some(0) {
            let warned = shown.json()["warnings"].to_string();
            assert!(warned.contains(hint) && warned.contains("reactions.mine"), "{warned}");
        }
    }
    stage.configure("[workflows.b]\nverifier = \"bmad-dev\"\nfallback = [\"nope\"]\n");
    let warned = stage.home.provost(&["config", "show", "--json"]).ok().json();
    assert!(warned["warnings"].to_string().contains("workflows.b.fallback"), "{warned}");
}
