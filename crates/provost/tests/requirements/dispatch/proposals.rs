//! Choosing the next step by two blind proposals and a reviewer.

use serde_json::{Value, json};

use super::team_env::TeamEnv;

const WORKER_PROPOSAL: &str = "first the second caller, then its tests";
const MANAGER_PROPOSAL: &str = "first the tests of both callers";

#[test]
fn worker_proposal_is_hidden_until_manager_writes() {
    let env = TeamEnv::new();
    env.bind("limits", "eye", "reviewer");
    env.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).assert_code(4);
    env.act_as("hand", &["team", "propose", WORKER_PROPOSAL]).ok();
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
        let shown = env.stdout_of(words);
        assert!(!shown.contains("then its tests"), "{words:?}: {shown}");
    }
    let own = env.provost(&["team", "overview", "limits", "--as", "hand", "--json"]).ok().json();
    assert_eq!(own["cycle"]["proposals"]["worker"]["text"], WORKER_PROPOSAL);
    env.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).ok();
    let both = env.provost(&["team", "overview", "limits", "--as", "boss", "--json"]).ok().json();
    assert_eq!(both["cycle"]["proposals"]["worker"]["text"], WORKER_PROPOSAL);
    let asked = env.take_next("eye", &[]);
    let text = asked["text"].as_str().unwrap();
    assert!(text.contains(WORKER_PROPOSAL) && text.contains(MANAGER_PROPOSAL), "{text}");
    env.act_as("boss", &["team", "choose", "manager", "--because", "mine is the better one"])
        .assert_code(4);
    let because = ["--because", "it is smaller, and shows more"];
    env.act_as("eye", &[&["team", "choose", "worker"], &because[..]].concat()).ok();
    let message = env.take_next("boss", &[]);
    assert!(
        message["text"].as_str().unwrap().contains("the proposal of hand comes next"),
        "{message}"
    );
    assert_eq!(env.show_task()["state"], "active");
}

#[test]
fn stop_choice_pauses_team_until_operator_resumes() {
    let env = TeamEnv::new();
    env.bind("limits", "eye", "reviewer");
    env.act_as("hand", &["team", "propose", WORKER_PROPOSAL]).ok();
    env.act_as("boss", &["team", "propose", MANAGER_PROPOSAL]).ok();
    let because = ["--because", "neither says how it is tested"];
    env.act_as("eye", &[&["team", "choose", "stop"], &because[..]].concat()).ok();
    assert_eq!(env.show_task()["state"], "paused");
    env.send("hand", "go on all the same");
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    env.provost(&["team", "resume", "limits"]).ok();
    assert_eq!(env.take_next("hand", &[])["text"], json!("go on all the same"));
}
