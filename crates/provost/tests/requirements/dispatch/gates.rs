//! Gates hold after a failed check, and against members who try to avoid them.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::kit::Desk;

/// A team in a repository, with a manager that acknowledged its contract and a loop set by the operator.
fn gated(required: &str) -> (Desk, PathBuf) {
    let desk = Desk::in_repo(&[]);
    desk.bind("limits", "boss", "manager");
    desk.act("boss", &["manager", "ack", "--revision", "0"]).ok();
    desk.operate(&["loop", "start", "--require", required, "--max-iterations", "3"]).ok();
    let cwd = PathBuf::from(desk.task()["cwd"].as_str().unwrap());
    (desk, cwd)
}

fn check(desk: &Desk) -> provost_testkit::harness::Output {
    desk.operate(&["check", "--evidence", "tests", "--wait"])
}

#[test]
fn a_check_that_fails_closes_the_gate_also_before_what_waits() {
    let (desk, cwd) = gated("tests=verified:test ! -e bad");
    check(&desk).ok();
    let go_on = ["loop", "continue", "2", "--to", "hand", "go on with 2"];
    desk.operate(&go_on).ok();
    fs::write(cwd.join("bad"), "").unwrap();
    check(&desk).exits(1);
    assert_eq!(desk.next("hand", &[]), Value::Null);
    let looped = &desk.task()["loop"];
    assert_eq!((&looped["iteration"], &looped["missing"]), (&json!(1), &json!(["tests"])));
    assert_eq!(looped["verified"], json!({}), "what was shown is taken back: {looped:#}");
    let refused = desk.operate(&go_on);
    assert!(refused.exits(4).stdout.contains("missing_evidence"), "{refused:?}");
    fs::remove_file(cwd.join("bad")).unwrap();
    check(&desk).ok();
    desk.operate(&go_on).ok();
    assert_eq!(desk.next("hand", &[])["kind"], "continuation");
}

#[test]
fn a_manager_does_not_finish_behind_a_gate_that_it_dropped() {
    let (desk, _) = gated("tests=verified:false");
    let short = desk.act("boss", &["loop", "stop", "--because", "x"]);
    assert!(short.exits(2).stdout.contains("says too little"), "{short:?}");
    desk.act("boss", &["loop", "stop", "--because", "it takes too long for me"]).ok();
    let finish = ["finish", "limits", "--because", "all that was asked for is there"];
    let refused = desk.provost(&[&finish[..], &["--as", "boss", "--json"]].concat());
    let refused = refused.exits(4).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("gate_dropped: boss stopped the operator's loop"), "{why}");
    let next = refused["error"]["next"][0].as_str().unwrap();
    // The hint omits `finish`: typed by the caller that acts for boss, it would run as the operator.
    assert!(next.contains("send --to operator ") && next.ends_with(" --as boss"), "{next}");
    let weaker = ["loop", "start", "--require", "notes=asserted"];
    let refused = desk.act("boss", &weaker);
    assert!(refused.exits(4).stdout.contains("only the operator can replace it"), "{refused:?}");
    assert_eq!(desk.task()["blockers"][0]["code"], "gate_dropped");
    // Without its loop, no proof of the work remains.
    desk.provost(&finish).exits(4);
    desk.provost(&[&finish[..], &["--allow", "nothing_proved"]].concat()).ok();
    assert_eq!(desk.task()["state"], "done");
    let status = desk.provost(&["loop", "status", "--task", "limits", "--json"]).ok().json();
    assert_eq!(status["loop"]["recommendation"], "the team is done");
}

#[test]
fn the_audit_names_the_member_in_whose_name_it_was_done() {
    let desk = Desk::in_repo(&[]);
    desk.bind("limits", "boss", "manager");
    let before = desk.provost(&["audit", "limits", "--json"]).ok().json();
    let before = before["deeds"].as_array().unwrap().len();
    let no = desk.act("boss", &["manager", "ack", "--revision", "0"]).ok().json();
    assert_eq!(no["ok"], true);
    let because = ["--because", "the work needs it so"];
    let sent = desk.act("boss", &["send", "--to", "hand", "Begin."]).ok().json();
    let no = sent["message"]["no"].to_string();
    desk.act("boss", &[&["inbox", "bury", &no], &because[..]].concat()).ok();
    desk.act("boss", &["criteria", "add", "two callers are told to wait"]).ok();
    desk.act("boss", &["loop", "start", "--require", "notes=asserted"]).ok();
    desk.act("boss", &[&["loop", "stop"], &because[..]].concat()).ok();
    let own = ["limits", "--as", "boss", "--json"];
    desk.provost(&[&["task", "pause"], &own[..], &because].concat()).ok();
    desk.provost(&[&["task", "go-on"], &own[..]].concat()).ok();
    desk.provost(&[&["finish"], &own[..], &because].concat()).exits(4);
    let audit = desk.provost(&["audit", "limits", "--json"]).ok().json();
    let deeds = audit["deeds"].as_array().unwrap()[before..].iter();
    // Provost's own notifications are attributed to no member.
    let deeds: Vec<_> = deeds.filter(|deed| deed["actor"] != "provost").collect();
    assert_eq!(deeds.len(), 9, "{deeds:#?}");
    for deed in deeds {
        let attribution = (&deed["by"], &deed["actor"], &deed["channel"]);
        let expected = (&json!("boss"), &json!("operator as boss"), &json!("command line"));
        assert_eq!(attribution, expected, "{deed:#}");
    }
    let figures = desk.provost(&["telemetry", "--json"]).ok().json();
    let failure = figures["failures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&failure["kind"], &failure["by"]), (&json!("task.finish_refused"), &json!("boss")));
}

#[test]
fn a_separate_review_is_the_word_of_who_reviews() {
    let desk = Desk::new();
    desk.prove();
    desk.bind("limits", "eye", "reviewer");
    let config = r#"{"epilogue": ["separate_review"]}"#;
    desk.operate(&["manager", "set", config, "--expect", "0"]).ok();
    desk.act("boss", &["manager", "ack", "--revision", "1"]).ok();
    let blocker = desk.task()["blockers"][0].clone();
    assert_eq!(blocker["code"], "epilogue_open");
    assert!(blocker["next"].as_str().unwrap().ends_with("--as eye"), "{blocker}");
    let review = ["manager", "epilogue", "separate-review", "--evidence", "I looked at all of it"];
    for who in ["hand", "boss"] {
        let refused = desk.act(who, &review);
        assert!(refused.exits(4).stdout.contains("a reviewer does"), "{refused:?}");
    }
    desk.act("eye", &review).ok();
    assert_eq!(desk.task()["blockers"], json!([]));
}
