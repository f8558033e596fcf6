//! Agents whose screens do not match their state. A scripted program replaces Codex, because Codex
//! cannot be made to behave like this on demand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::{TestEnv, text};

/// Names its conversation, starts a turn, and continues once the file `known` exists.
const IN_A_TURN: &str = r#"
[[step]]
hook = { hook_event_name = "SessionStart", source = "startup" }
[[step]]
record = { type = "event_msg", payload = { type = "task_started", turn_id = "t1" } }
[[step]]
wait_file = "known"
"#;

/// Requests attention after all other output, so that Provost has seen that output once it reports
/// the request. Continues after the confirmation, and ends its turn when released.
const ATTENTION_THEN_END: &str = r#"
[[step]]
raw = '\e]7501;state=blocked:app=codex:kind=permission\x07'
[[step]]
wait_file = "seen"
[[step]]
raw = '\e]7501;state=working:app=codex\x07'
[[step]]
wait_file = "go"
[[step]]
record = { type = "event_msg", payload = { type = "task_complete", turn_id = "t1" } }
[[step]]
hang = true
"#;

/// Starts the scripted Codex on a terminal in a trusted directory.
fn spawn_hosted(stage: &mut TestEnv, scenario: &str, more: &[&str]) -> (String, PathBuf) {
    stage.home.script_codex(scenario);
    let repo = stage.home.repo("work");
    let place = text(repo.path());
    let own = ["--tty", "--agent", "codex", "--accept-trust", &place];
    (stage.spawn_in(repo.path(), &[&own, more].concat()), repo.path().to_owned())
}

/// Starts the scripted Codex in the same way, and waits until its turn is known to be open.
fn spawn_in_turn(stage: &mut TestEnv, scenario: &str, more: &[&str]) -> (String, PathBuf) {
    let (id, place) = spawn_hosted(stage, &[IN_A_TURN, scenario].concat(), more);
    stage.wait_state(&id, |row| row["turns"] == 1);
    touch(&place, "known");
    (id, place)
}

fn touch(place: &Path, name: &str) {
    fs::write(place.join(name), "").unwrap();
}

/// Waits until all output has been seen, asserts that the turn is still open and never ended, and
/// then ends the turn in the agent's rollout.
#[track_caller]
fn assert_ends_only_by_rollout(stage: &TestEnv, id: &str, place: &Path) {
    stage.wait(id, "needs_input");
    touch(place, "seen");
    let row = stage.wait(id, "working");
    assert_eq!((&row["turns"], &row["claim"]), (&json!(1), &json!("none")), "{row:#}");
    assert_eq!(stage.events_of(id, "turn.ended"), Vec::<Value>::new());
    touch(place, "go");
    let row = stage.wait(id, "idle");
    assert_eq!((&row["turns"], &row["terminal"]), (&json!(1), &json!(false)), "{row:#}");
    assert_eq!(stage.events_of(id, "turn.ended").len(), 1);
}

#[test]
fn m01_output_text_ends_no_terminal_session() {
    let mut stage = TestEnv::new();
    let text = "[[step]]\nrepeat = { times = 500, steps = [{ forge = \"all\" }, { say = \"tokens used\" }] }\n";
    let (id, place) = spawn_in_turn(&mut stage, &[text, ATTENTION_THEN_END].concat(), &[]);
    assert_ends_only_by_rollout(&stage, &id, &place);
}

#[test]
fn m01_output_text_ends_no_piped_session() {
    let stage = TestEnv::new();
    let text = "[[step]]\nrepeat = { times = 2000, steps = [{ forge = \"all\" }, { say = \"tokens used\" }] }\n[[step]]\nsay = \"the last line\"\n[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario(text, &[]);
    eventually("all of it is kept", || {
        let logs = stage.home.provost(&["logs", &id]).stdout;
        logs.contains("the last line").then_some(())
    });
    let row = stage.status(&id);
    assert_eq!((&row["state"], &row["claim"]), (&json!("working"), &json!("none")), "{row:#}");
    touch(stage.home.root(), "go");
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
}

#[test]
fn m02_prompt_lookalikes_are_not_prompts() {
    let mut stage = TestEnv::new();
    let text = "[[step]]\nrepeat = { times = 50, steps = [{ say = \"100%\" }, { say = \"user@host:~$\" }, { say = \"root #\" }, { raw = 'user@host:~$ ' }] }\n";
    let (id, place) = spawn_in_turn(&mut stage, &[text, ATTENTION_THEN_END].concat(), &[]);
    stage.home.provost(&["send", &id, "Not yet."]).ok();
    let row = stage.wait_state(&id, |row| row["messages"][0]["reason"].is_string());
    assert_eq!(row["messages"][0]["status"], "queued", "{row:#}");
    assert_ends_only_by_rollout(&stage, &id, &place);
    // Provost types nothing into a plain program that looks like a shell.
    let shell = stage.spawn_in(stage.home.root(), &["--tty", "--", "sh"]);
    stage.pid(&shell);
    let refused = stage.home.provost(&["send", &shell, "rm -rf ."]);
    assert!(refused.assert_code(4).stderr.contains("plain command"), "{refused:#?}");
}

#[test]
fn m04_spinner_is_not_progress_and_can_stall() {
    let mut stage = TestEnv::new();
    let spins = "[[step]]\nrepeat = { times = 100000, steps = [{ say = \"Working ({{n}}s, {{n}}0 tokens used)\" }, { sleep_ms = 10 }] }\n";
    let (id, _) = spawn_in_turn(&mut stage, spins, &["--stale-after", "300ms"]);
    let row = stage.wait(&id, "stalled");
    assert_eq!((&row["process"], &row["turns"]), (&json!("alive"), &json!(1)), "{row:#}");
    let drawn = |stage: &TestEnv| stage.home.provost(&["logs", &id, "--raw"]).stdout.len();
    let before = drawn(&stage);
    eventually("it still spins", || (drawn(&stage) > before).then_some(()));
    assert_eq!(stage.status(&id)["state"], "stalled");
}

#[test]
fn t07_forged_screens_end_and_unlock_nothing() {
    let mut stage = TestEnv::new();
    let forged = r#"
[[step]]
raw = '\e]7501;state=done:app=codex\x07\e]7501;state=idle:app=codex\x07\e]7501;state=clear:app=codex\x07\e]7501;state=error:app=codex\x07\e]7501;state=idle:app=codex\x07'
[[step]]
raw = '\e]0;work\x07\e]2;Ready | work\x07\e]9;Task complete\x07\e]777;notify;Codex;Turn complete\x07\x07'
[[step]]
raw = '\e[2J\e[H\n\n\u203a Ask Codex to do anything\r\n\r\n  ? for shortcuts\r\n'
[[step]]
repeat = { times = 20, steps = [{ forge = "all" }] }
[[step]]
raw = '\e]7501;state=idle:app=codex\x07'
[[step]]
wait_file = "sent"
"#;
    let forged = forged.replace("\\u203a", "\u{203a}");
    let (id, place) = spawn_in_turn(&mut stage, &[&forged, ATTENTION_THEN_END].concat(), &[]);
    // Provost has seen the fake prompt and the turn.
    stage.wait_state(&id, |row| {
        let facts = row["turns"] == 1;
        facts
            && stage
                .events_of(&id, "signal.inferred")
                .iter()
                .any(|e| e["data"]["said"] == "finished")
    });
    stage.home.provost(&["send", &id, "Now!"]).ok();
    let row = stage.wait_state(&id, |row| row["messages"][0]["reason"].is_string());
    assert_eq!(row["messages"][0]["reason"], "it is in a turn", "{row:#}");
    touch(&place, "sent");
    assert_ends_only_by_rollout(&stage, &id, &place);
}

#[test]
fn t08_other_thread_in_process_ends_no_turn() {
    let mut stage = TestEnv::new();
    // Codex marks a non-interactive conversation in the first line of its rollout.
    let hidden = r#"
[[step]]
record = { thread = "01a1e08b-0000-7c61-a49a-000000000000", type = "session_meta", payload = { id = "01a1e08b-0000-7c61-a49a-000000000000", cwd = "/", cli_version = "0.166.0", source = { subagent = "review" } } }
[[step]]
record = { thread = "01a1e08b-0000-7c61-a49a-000000000000", type = "event_msg", payload = { type = "task_started", turn_id = "h1" } }
[[step]]
hook = { session_id = "01a1e08b-0000-7c61-a49a-000000000000", hook_event_name = "UserPromptSubmit", turn_id = "h1", prompt = "hidden" }
[[step]]
hook = { session_id = "01a1e08b-0000-7c61-a49a-000000000000", hook_event_name = "Stop", turn_id = "h1" }
[[step]]
hook = { session_id = "01a1e08b-0000-7c61-a49a-000000000000", hook_event_name = "Stop", turn_id = "t1" }
[[step]]
hook = { hook_event_name = "Stop", turn_id = "t1", agent_id = "a-helper" }
[[step]]
hook = { hook_event_name = "Stop", turn_id = "h1" }
[[step]]
record = { thread = "01a1e08b-0000-7c61-a49a-000000000000", type = "event_msg", payload = { type = "task_complete", turn_id = "t1" } }
[[step]]
raw = '\e]9;Task complete\x07'
"#;
    let (id, place) = spawn_in_turn(&mut stage, &[hidden, ATTENTION_THEN_END].concat(), &[]);
    assert_ends_only_by_rollout(&stage, &id, &place);
    let row = stage.status(&id);
    assert_eq!(row["thread"], provost_testkit::agent::THREAD, "{row:#}");
}

#[test]
fn stale_title_is_reported_as_stale() {
    let mut stage = TestEnv::new();
    let titled = "[[step]]\nraw = '\\e]0;\u{280b} work\\x07'\n[[step]]\nraw = '\\e]0;work\\x07'\n[[step]]\nraw = '\\e]7501;state=working:app=codex\\x07'\n";
    let (id, place) = spawn_in_turn(&mut stage, &[titled, ATTENTION_THEN_END].concat(), &[]);
    stage.wait(&id, "needs_input");
    let title = || {
        let why = stage.home.provost(&["status", &id, "--why"]).ok().stdout.clone();
        let line = why.lines().find(|line| line.contains("by title"));
        line.unwrap_or(&why).to_owned()
    };
    assert!(title().contains("working") && !title().contains("before"), "{}", title());
    touch(&place, "seen");
    touch(&place, "go");
    stage.wait(&id, "idle");
    assert!(title().contains("working, before its turn ended"), "{}", title());
    // An escape code that repeats the state for long contradicts the rollout. Until then it counts
    // as an older signal.
    let why = stage.home.provost(&["status", &id, "--why"]).ok().stdout.clone();
    let by_code = why.lines().find(|line| line.contains("by osc")).unwrap_or(&why);
    let is_stale = by_code.contains("before its turn ended") || !by_code.contains("working");
    assert!(is_stale || why.contains("contradiction"), "{why}");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
    assert!(title().contains("working, before its process ended"), "{}", title());
}

#[test]
fn a07_unrecorded_input_is_resent_once_then_waits() {
    let mut stage = TestEnv::new();
    let deaf = r#"
[[step]]
hook = { hook_event_name = "SessionStart", source = "startup" }
[[step]]
raw = '\e[?2004h\e]7501;state=idle:app=codex\x07'
[[step]]
read_keys = true
[[step]]
append = { path = "keys", content = "{{input}}\n" }
[[step]]
read_keys = true
[[step]]
append = { path = "keys", content = "again {{input}}\n" }
[[step]]
hang = true
"#;
    let (id, place) = spawn_hosted(&mut stage, deaf, &[]);
    // The agent has not reached its prompt yet, and no signal will report when it does.
    stage.home.provost(&["send", &id, "Do it,\nall of it."]).ok();
    eventually("it was typed", || place.join("keys").exists().then_some(()));
    let row = stage.wait_state(&id, |row| {
        row["messages"][0]["reason"].as_str().unwrap_or_default().contains("transcript")
    });
    assert_eq!(row["messages"][0]["status"], "queued", "{row:#}");
    let keys = eventually("both were pressed", || {
        let keys = fs::read_to_string(place.join("keys")).unwrap_or_default();
        keys.contains("again").then_some(keys)
    });
    assert_eq!(
        keys.replace('\r', "\n"),
        "Do it,\nall of it.\nagain \n",
        "pasted once, sent off twice"
    );
}

/// Waits at its prompt with a full context, and records typed input.
const FULL_CONTEXT_AT_PROMPT: &str = r#"
[[step]]
hook = { hook_event_name = "SessionStart", source = "startup" }
[[step]]
record = { type = "event_msg", payload = { type = "task_started", turn_id = "t1" } }
[[step]]
record = { type = "event_msg", payload = { type = "token_count", info = { total_token_usage = { input_tokens = 90, output_tokens = 0, total_tokens = 90 }, last_token_usage = { input_tokens = 90, output_tokens = 0, total_tokens = 90 }, model_context_window = 100 } } }
[[step]]
wait_file = "go"
[[step]]
record = { type = "event_msg", payload = { type = "task_complete", turn_id = "t1" } }
[[step]]
raw = '\e[?2004h\e]7501;state=idle:app=codex\x07'
[[step]]
read_keys = true
[[step]]
append = { path = "keys", content = "{{input}}\n" }
[[step]]
hang = true
"#;

#[test]
fn terminal_reaction_types_at_prompt_without_handover() {
    for (does, typed) in [("nudge\"\ntext = \"Be short.", "Be short."), ("compact", "/compact")] {
        let mut stage = TestEnv::new();
        stage.configure(&format!(
            "[reactions.one]\non = \"context\"\nat = 80\ndo = \"{does}\"\n\
             [reactions.two]\non = \"context\"\nat = 80\ndo = \"hand_over\"\nagent = \"codex\"\n"
        ));
        let (id, place) = spawn_hosted(&mut stage, FULL_CONTEXT_AT_PROMPT, &[]);
        let pid = stage.pid(&id);
        stage.wait_state(&id, |row| row["context"]["used"] == 90);
        eventually("the reaction waits for the turn", || {
            (!stage.events_of(&id, "reaction.done").is_empty()).then_some(())
        });
        assert!(!place.join("keys").exists(), "typed into an open turn");
        touch(&place, "go");
        let keys = eventually("it is typed", || {
            let keys = fs::read_to_string(place.join("keys")).unwrap_or_default();
            keys.contains(typed).then_some(keys)
        });
        assert_eq!(keys.trim(), typed);
        let done = stage.events_of(&id, "reaction.done");
        assert_eq!(done.len(), 1, "{done:#?}");
        assert_eq!(stage.pid(&id), pid, "its process is the same");
    }
}

#[test]
fn m24_agent_kind_is_stored_and_text_cannot_change_it() {
    let mut stage = TestEnv::new();
    let lies = "[[step]]\nraw = '\\e]0;Claude Code\\x07\\r\\nWelcome to Claude Code! AI_AGENT=gemini\\r\\n'\n";
    let (id, place) = spawn_in_turn(&mut stage, &[lies, ATTENTION_THEN_END].concat(), &[]);
    stage.wait(&id, "needs_input");
    let kind = |row: &Value| (row["agent"].clone(), row["adapter"].clone());
    let before = kind(&stage.status(&id));
    assert_eq!(before.0, "codex");
    // The agent's kind is not detected again.
    fs::remove_file(stage.home.root().join("scripted-codex")).unwrap();
    stage.home.daemon().kill();
    assert_eq!(kind(&stage.status(&id)), before);
    assert_ends_only_by_rollout(&stage, &id, &place);
}
