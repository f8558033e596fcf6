//! Choosing the next step by two blind proposals and a reviewer.

use serde_json::{Value, json};

use super::kit::TeamEnv;

const WORKER_PROPOSAL: &str = "first the second caller, then its tests";
const MANAGER_PROPOSAL: &str = "first the tests of both callers";

#[test]
fn worker_proposal_is_hidden_until_manager_writes() {
    let desk = TeamEnv::new();
    desk.bind("limits", "eye", "reviewer");
    desk.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).assert_code(4);
    desk.act_as("hand", &["team", "propose", WORKER_PROPOSAL]).ok();
    let seen: &[&[&str]] = &[
        &["team", "overview", "limits", "--as", "boss", "--json"],
        &["team", "overview", "limits", "--json"],
        &["team", "show", "limits", "--json"],
        &["status", "limits", "--json"],
        &["team", "inbox", "ls", "--all", "-t", "limits", "--json"],
        &["events", "--limit", "1000", "--json"],
        &["replay", "limits", "--as", "timeline", "--content", "--json"],
        &["audit", "limits", "--content", "--json"],
        &["search", "second", "caller", "tests", "--json"],
    ];
    for words in seen {
        let shown = desk.stdout_of(words);
        assert!(!shown.contains("then its tests"), "{words:?}: {shown}");
    }
    let own = desk.provost(&["team", "overview", "limits", "--as", "hand", "--json"]).ok().json();
    assert_eq!(own["cycle"]["proposals"]["worker"]["text"], WORKER_PROPOSAL);
    desk.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).ok();
    let both = desk.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    assert_eq!(both["cycle"]["proposals"]["worker"]["text"], WORKER_PROPOSAL);
    let asked = desk.take_next("eye", &[]);
    let text = asked["text"].as_str().unwrap();
    assert!(text.contains(WORKER_PROPOSAL) && text.contains(MANAGER_PROPOSAL), "{text}");
    desk.act_as("boss", &["team", "choose", "manager", "--because", "mine is the better one"])
        .assert_code(4);
    let because = ["--because", "it is smaller, and shows more"];
    desk.act_as("eye", &[&["team", "choose", "worker"], &because[..]].concat()).ok();
    let message = desk.take_next("boss", &[]);
    assert!(
        message["text"].as_str().unwrap().contains("the proposal of hand comes next"),
        "{message}"
    );
    assert_eq!(desk.show_task()["state"], "active");
}

#[test]
fn stop_choice_pauses_team_until_operator_resumes() {
    let desk = TeamEnv::new();
    desk.bind("limits", "eye", "reviewer");
    desk.act_as("hand", &["team", "propose", WORKER_PROPOSAL]).ok();
    desk.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).ok();
    let because = ["--because", "neither says how it is tested"];
    desk.act_as("eye", &[&["team", "choose", "stop"], &because[..]].concat()).ok();
    assert_eq!(desk.show_task()["state"], "paused");
    desk.send("hand", "go on all the same");
    assert_eq!(desk.take_next("hand", &[]), Value::Null);
    desk.provost(&["team", "resume", "limits"]).ok();
    assert_eq!(desk.take_next("hand", &[])["text"], json!("go on all the same"));
}
