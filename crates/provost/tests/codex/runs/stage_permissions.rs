//! Permissions of each stage, as sent to Codex and as Codex reports them. They are read from the
//! launch's journal, not from Provost's spec.

use serde_json::{Map, Value, json};

use super::run_threads::{
    COLOUR_QUESTION, review_thread, review_thread_after, triage_thread, work_thread,
};
use crate::{codex_env::CodexEnv, journal::LaunchJournal};

const WRITE: &str = "echo hello > greeting.txt";

/// Allowed parameters of a turn; none of them changes the settings of the conversation.
const TURN_PARAMETERS: [&str; 4] = ["clientUserMessageId", "input", "outputSchema", "threadId"];

/// The settings with which the conversation of one stage was opened.
#[derive(Debug, PartialEq)]
struct StageSettings {
    stage: String,
    sandbox: Value,
    /// The sandbox as reported by Codex.
    reported_sandbox: Value,
    questions: Value,
    /// Whether the conversation has Provost's tool for questions.
    ask_tool: bool,
    network: Value,
    multi_agent: Value,
    /// Whether every turn asks for a structured result.
    structured: bool,
}

/// Returns the parameters of all requests with this method.
fn requests_of(journal: &LaunchJournal, method: &str) -> Vec<Map<String, Value>> {
    let lines = journal.input.iter().filter_map(|(_, line)| serde_json::from_str(line).ok());
    let matching = lines.filter(|line: &Value| line["method"] == method);
    matching.map(|line| line["params"].as_object().unwrap().clone()).collect()
}

impl StageSettings {
    #[track_caller]
    fn from_journal(stage: &CodexEnv, session: &Value) -> StageSettings {
        let journal = LaunchJournal::read(stage, session["id"].as_str().unwrap(), 1);
        let opened = requests_of(&journal, "thread/start");
        assert_eq!(opened.len(), 1, "{opened:#?}");
        let config = &opened[0]["config"];
        let answer = journal.output.iter().find(|message| message["result"]["thread"].is_object());
        let turns = requests_of(&journal, "turn/start");
        assert!(!turns.is_empty(), "{journal:#?}");
        for turn in &turns {
            assert!(turn.keys().all(|key| TURN_PARAMETERS.contains(&key.as_str())), "{turn:#?}");
        }
        StageSettings {
            stage: session["stage"].as_str().unwrap().to_owned(),
            sandbox: opened[0]["sandbox"].clone(),
            reported_sandbox: answer.unwrap()["result"]["sandbox"]["type"].clone(),
            questions: config["features.default_mode_request_user_input"].clone(),
            ask_tool: opened[0]["dynamicTools"].to_string().contains("\"provost_ask\""),
            network: config["sandbox_workspace_write.network_access"].clone(),
            multi_agent: config["features.multi_agent"].clone(),
            structured: turns.iter().all(|turn| turn.contains_key("outputSchema")),
        }
    }
}

/// Plays a run of three stages to its end and returns its row.
#[track_caller]
fn play_run(stage: &CodexEnv) -> Value {
    let answers = stage.root().join("answers.json");
    std::fs::write(&answers, r#"{"answers":{"colour":{"answers":["Blue"]}}}"#).unwrap();
    let given = ["--answers", answers.to_str().unwrap(), "--check", "grep -q hello greeting.txt"];
    let id = stage.run_detached(&[&["Write a greeting."][..], &given].concat());
    let row = stage.wait_run_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    row
}

#[test]
fn r19_codex_gets_the_permissions_of_its_stage() {
    let reviewer = review_thread_after(&COLOUR_QUESTION.replace("colour", "size"), "");
    let Some(stage) =
        CodexEnv::new(&[triage_thread(COLOUR_QUESTION), work_thread(WRITE), reviewer].concat())
    else {
        return;
    };
    let row = play_run(&stage);
    let sessions = row["sessions"].as_array().unwrap();
    let resolved = |session: &Value| {
        let opened = stage.events_of(session["id"].as_str().unwrap(), "session.opened");
        opened[0]["data"]["spec"]["agent"]["settings"]["multi_agent"].clone()
    };
    let multi_agent = resolved(&sessions[0]);
    assert_eq!(multi_agent["source"], "Codex", "nothing is configured: {multi_agent}");
    assert!(sessions.iter().all(|session| resolved(session) == multi_agent));
    let given = |name: &str, edits: bool, asks: bool, formed: bool| StageSettings {
        stage: name.to_owned(),
        sandbox: json!(if edits { "workspace-write" } else { "read-only" }),
        reported_sandbox: json!(if edits { "workspaceWrite" } else { "readOnly" }),
        questions: json!(asks),
        ask_tool: asks,
        network: json!(false),
        multi_agent: multi_agent["on"].clone(),
        structured: formed,
    };
    let expected = [
        given("triage", false, true, true),
        given("work", true, true, false),
        given("task_review", false, false, true),
    ];
    let found: Vec<StageSettings> =
        sessions.iter().map(|session| StageSettings::from_journal(&stage, session)).collect();
    assert_eq!(found, expected);
    // Codex always lists its tool for questions, and returns an error if questions are off.
    let refused = stage.model.wait_for_request("the refusal of the reviewer's question", |made| {
        made.request.last_output().contains("unavailable")
    });
    let prompts = refused.request.prompts().join("\n");
    assert!(prompts.contains("Review the work"), "the reviewer only: {prompts}");
    assert_eq!(row["decisions"].as_array().unwrap().len(), 1, "{row:#}");
}

#[test]
fn multi_agent_setting_applies_to_every_stage() {
    let Some(stage) = CodexEnv::new(
        &[triage_thread(COLOUR_QUESTION), work_thread(WRITE), review_thread("")].concat(),
    ) else {
        return;
    };
    stage.configure("[agents.codex]\nmulti_agent = false\n");
    let row = play_run(&stage);
    for session in row["sessions"].as_array().unwrap() {
        assert_eq!(
            StageSettings::from_journal(&stage, session).multi_agent,
            json!(false),
            "{session}"
        );
        let opened = stage.events_of(session["id"].as_str().unwrap(), "session.opened");
        let resolved = &opened[0]["data"]["spec"]["agent"]["settings"]["multi_agent"];
        assert_eq!(resolved["on"], false, "{resolved}");
        assert!(resolved["source"].as_str().unwrap().contains("provost.toml"), "{resolved}");
    }
}
