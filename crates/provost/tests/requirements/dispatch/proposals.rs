//! Choosing the next step by two blind proposals and a reviewer.

use serde_json::{Value, json};

use super::kit::Desk;

const MINE: &str = "first the second caller, then its tests";
const THEIRS: &str = "first the tests of both callers";

#[test]
fn what_a_worker_proposes_is_shown_to_nobody_before_the_manager_wrote_its_own() {
    let desk = Desk::new();
    desk.bind("limits", "eye", "reviewer");
    desk.act("boss", &["task", "propose", THEIRS]).exits(4);
    desk.act("hand", &["task", "propose", MINE]).ok();
    let seen: &[&[&str]] = &[
        &["cycle", "limits", "--as", "boss", "--json"],
        &["cycle", "limits", "--json"],
        &["task", "show", "limits", "--json"],
        &["status", "limits", "--json"],
        &["inbox", "ls", "--all", "--task", "limits", "--json"],
        &["events", "--limit", "1000", "--json"],
        &["replay", "limits", "--as", "timeline", "--content", "--json"],
        &["audit", "limits", "--content", "--json"],
        &["search", "second", "caller", "tests", "--json"],
    ];
    for words in seen {
        let shown = desk.shown(words);
        assert!(!shown.contains("then its tests"), "{words:?}: {shown}");
    }
    let own = desk.provost(&["cycle", "limits", "--as", "hand", "--json"]).ok().json();
    assert_eq!(own["cycle"]["proposals"]["worker"]["text"], MINE);
    desk.act("boss", &["task", "propose", THEIRS]).ok();
    let both = desk.provost(&["cycle", "limits", "--as", "boss", "--json"]).ok().json();
    assert_eq!(both["cycle"]["proposals"]["worker"]["text"], MINE);
    let asked = desk.next("eye", &[]);
    let text = asked["text"].as_str().unwrap();
    assert!(text.contains(MINE) && text.contains(THEIRS), "{text}");
    desk.act("boss", &["task", "choose", "manager", "--because", "mine is the better one"])
        .exits(4);
    let because = ["--because", "it is smaller, and shows more"];
    desk.act("eye", &[&["task", "choose", "worker"], &because[..]].concat()).ok();
    let message = desk.next("boss", &[]);
    assert!(
        message["text"].as_str().unwrap().contains("the proposal of hand comes next"),
        "{message}"
    );
    assert_eq!(desk.task()["state"], "active");
}

#[test]
fn a_stop_pauses_the_task_until_a_person_lets_it_go_on() {
    let desk = Desk::new();
    desk.bind("limits", "eye", "reviewer");
    desk.act("hand", &["task", "propose", MINE]).ok();
    desk.act("boss", &["task", "propose", THEIRS]).ok();
    let because = ["--because", "neither says how it is tested"];
    desk.act("eye", &[&["task", "choose", "stop"], &because[..]].concat()).ok();
    assert_eq!(desk.task()["state"], "paused");
    desk.send("hand", "go on all the same");
    assert_eq!(desk.next("hand", &[]), Value::Null);
    desk.provost(&["task", "go-on", "limits"]).ok();
    assert_eq!(desk.next("hand", &[])["text"], json!("go on all the same"));
}
