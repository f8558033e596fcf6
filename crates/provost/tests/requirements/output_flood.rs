//! An agent that never stops printing: the ledger keeps the important events and stays small.

use serde_json::json;

use provost_testkit::env::TestEnv;

/// Number of messages of each kind that the agent prints.
const MESSAGES: u64 = 50_000;

#[test]
fn progress_flood_is_folded_without_loss() {
    let stage = TestEnv::new();
    let script = format!(
        r#"echo '{{"type":"ready"}}'
seq 1 {MESSAGES} | sed 's/.*/{{"type":"progress","done":&,"total":{MESSAGES}}}\n{{"type":"usage","input":2,"output":1}}/'
echo '{{"type":"fact","fact":"branch","value":"mine"}}'
echo '{{"type":"claim","claim":"completed","text":"all told"}}'
echo '{{"type":"turn_ended","status":"ok"}}'"#
    );
    let path = stage.file("chatter.sh");
    std::fs::write(&path, script).unwrap();
    stage.configure(&format!(
        "[agents.chatter]\nadapter = \"jsonl\"\ncommand = [\"/bin/sh\", {path:?}]\n"
    ));
    let id = stage.spawn_in(stage.home.root(), &["--agent", "chatter", "talk"]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_text"]), (&json!("completed"), &json!("all told")));
    let done = json!({"done": MESSAGES, "total": MESSAGES, "source": "agent"});
    assert_eq!(row["progress"], done, "the last one counts");
    assert_eq!(row["usage"], json!({"input": 2 * MESSAGES, "output": MESSAGES}), "all are summed");
    assert_eq!(row["facts"][0]["value"], "mine");
    let events = stage.events(&id).len();
    assert!(events < 500, "{events} events for {} messages", 2 * MESSAGES);
}

#[test]
fn final_progress_is_shown() {
    let mut stage = TestEnv::new();
    stage.home.set_env("PROVOST_SESSION_STOP_GRACE", "150ms");
    let reports: String = (1..=5)
        .map(|done| {
            format!("[[step]]\nemit = {{ type = \"progress\", done = {done}, total = 9 }}\n")
        })
        .collect();
    stage.configure_talker(&format!("{reports}[[step]]\nhang = true\n"), "");
    let id = stage.spawn_in(stage.home.root(), &["--agent", "talker", "talk"]);
    stage.home.wait_state(&id, |row| row["progress"]["done"] == 5);
    stage.home.provost(&["cancel", &id]).ok();
    stage.wait_sealed(&id);
}

#[test]
fn request_without_id_is_plain_output() {
    let stage = TestEnv::new();
    let scenario = r#"
[[step]]
emit = { type = "request", id = " ", title = "Which?" }
[[step]]
emit = { type = "claim", claim = "completed" }
[[step]]
emit = { type = "turn_ended", status = "ok" }
"#;
    stage.configure_talker(scenario, "");
    let id = stage.spawn_in(stage.home.root(), &["--agent", "talker", "ask"]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["requests"]), (&json!("completed"), &json!([])), "{row:#}");
    assert!(stage.events_of(&id, "request.opened").is_empty());
}
