//! Budgets that stop a session, and usage limits whose reset a session waits for.

use serde_json::json;

use crate::codex_env::{CodexEnv, TestedCodex};

/// Uses 1000 tokens per step, without end.
const SPENDS_FOREVER: &str = r#"
[[thread]]
turn = [{ repeat = "forever", response = [
  { repeat = "forever", items = [{ shell = "true" }], usage = { input = 900, output = 100 } },
] }]
"#;

#[test]
fn a08_token_budget_stops_and_can_be_raised() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, SPENDS_FOREVER) else { return };
        let id = stage.spawn(&["--budget", "2500", "Spend."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["cause"]),
            (&json!("failed"), &json!("budget")),
            "{which:?}: {row:#}"
        );
        let calls = stage.model.requests().len();
        assert!((3..=4).contains(&calls), "{which:?}: {calls} calls of 1000 tokens");
        stage.home.daemon().kill();
        let refused =
            stage.home.provost(&["resume", &id, "Go on.", "--json"]).assert_code(4).json();
        let next = refused["error"]["next"][0].as_str().unwrap();
        assert!(next.starts_with("provost limit") && next.ends_with("--tokens N"), "{refused:#}");
        let row = stage.wait_sealed(&id);
        assert_eq!(row["attempt"], 1, "the budget stays used up after a restart: {row:#}");
        assert_eq!(stage.model.requests().len(), calls, "{which:?}: no call begins");
        stage.home.provost(&["limit", &id, "--tokens", "6000"]).ok();
        stage.home.provost(&["resume", &id, "Go on."]).ok();
        let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
        assert_eq!(row["cause"], "budget", "{row:#}");
        let requests = stage.model.requests();
        assert!((6..=8).contains(&requests.len()), "{which:?}: {} calls", requests.len());
        let threads = requests.iter().map(|made| made.request.thread().to_owned());
        assert_eq!(threads.collect::<std::collections::BTreeSet<_>>().len(), 1, "one thread");
    }
}

#[test]
fn a08_turn_budget_stops_before_next_turn() {
    let scenario = r#"
        [[thread]]
        turn = [{ response = [{ items = [{ message = "I say no more." }] }] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let id = stage.spawn(&["--turns", "1", "Say something."]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["turns"]), (&json!("failed"), &json!(1)), "{row:#}");
    assert_eq!(row["cause"], "budget", "{row:#}");
    assert_eq!(stage.model.requests().len(), 1, "its result would have been another turn");
}

/// Returns a scenario in which the first turn reaches the account's usage limit and the second one
/// succeeds.
fn limited_scenario(resets_in_s: u64) -> String {
    format!(
        r#"
        [[thread]]
        turn = [
          {{ response = [{{ usage_limit = {{ resets_in_s = {resets_in_s} }} }}] }},
          {{ response = [
            {{ items = [{{ tool = "provost_report", args = {{ status = "completed", summary = "later" }} }}] }},
            {{ items = [{{ message = "Done." }}] }},
          ] }},
        ]"#
    )
}

#[test]
fn a09_usage_limit_wait_survives_daemon_kill() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &limited_scenario(3)) else { return };
        stage.configure("[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"2s\"\n");
        let id = stage.spawn(&["Work."]);
        let row = stage.home.wait_state(&id, |row| row["limited"].is_object());
        assert!(row["flags"].as_array().unwrap().contains(&json!("limited")), "{row:#}");
        assert_eq!((&row["state"], &row["claim"]), (&json!("working"), &json!("none")), "{row:#}");
        stage.home.daemon().kill();
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim_text"]),
            (&json!("completed"), &json!("later")),
            "{which:?}: {row:#}"
        );
        assert_eq!(row["launches"].as_array().unwrap().len(), 1);
        let prompts = stage.model.requests().last().unwrap().request.prompts().join("\n");
        assert!(prompts.contains("The limit has passed"), "{prompts}");
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn a09_usage_limit_is_waited_for_ten_times() {
    let scenario = r#"
        [[thread]]
        turn = [{ repeat = "forever", response = [{ usage_limit = { resets_in_s = 1 } }] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    stage.configure("[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"0s\"\n");
    let id = stage.spawn(&["Work."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["cause"]),
        (&json!("failed"), &json!("agent_error")),
        "{row:#}"
    );
    let requests = stage.model.requests();
    assert_eq!(requests.len(), 11, "the first, and one after each wait");
    let waited =
        requests[1..].iter().all(|made| made.request.prompt().contains("The limit has passed"));
    assert!(waited, "{:#?}", requests.iter().map(|made| made.request.prompt()).collect::<Vec<_>>());
    assert_eq!(row["launches"].as_array().unwrap().len(), 1, "it stayed the same process");
}

#[test]
fn a09_sessions_of_one_account_resume_staggered() {
    let Some(stage) = CodexEnv::new(&[limited_scenario(3), limited_scenario(3)].concat()) else {
        return;
    };
    stage.configure("[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"4s\"\n");
    let ids = ["One.", "Two."].map(|text| stage.spawn(&[text]));
    let until = ids.each_ref().map(|id| {
        let row = stage.home.wait_state(id, |row| row["limited"].is_object());
        row["limited"]["until"].as_i64().unwrap()
    });
    // Deadlines use the monotonic clock, and each wall-clock time is rounded separately.
    const ROUNDED: u64 = 2;
    assert!(until[0].abs_diff(until[1]) >= 4_000 - ROUNDED, "{until:?}");
    stage.home.daemon().kill();
    for (id, until) in ids.iter().zip(until) {
        assert_eq!(stage.wait_sealed(id)["state"], "completed", "{until:?}");
        let lifted = stage.events_of(id, "limit.lifted");
        assert_eq!(lifted.len(), 1, "{lifted:?}");
        // A session may resume late on a slow machine, but never early.
        let early = until - lifted[0]["at"].as_i64().unwrap();
        assert!(early <= ROUNDED as i64, "{lifted:?}, announced {until}");
    }
}
