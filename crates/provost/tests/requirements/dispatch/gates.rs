//! Gates stay closed after a failed check, and for members that try to bypass them.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::team_env::TeamEnv;

/// A team in a repository, with a manager that acknowledged its contract and a loop set by the operator.
fn gated_loop(required: &str) -> (TeamEnv, PathBuf) {
    let env = TeamEnv::in_repo(&[]);
    env.bind("limits", "boss", "manager");
    env.act_as("boss", &["team", "contract", "accept", "--revision", "0"]).ok();
    env.act_as_operator(&["team", "loop", "start", "--require", required, "--max-iterations", "3"])
        .ok();
    let cwd = PathBuf::from(env.show_task()["cwd"].as_str().unwrap());
    (env, cwd)
}

fn check_tests(env: &TeamEnv) -> provost_testkit::harness::ProgramOutput {
    env.act_as_operator(&["team", "prove", "--evidence", "tests", "--wait"])
}

#[test]
fn failed_check_closes_the_gate_for_pending() {
    let (env, cwd) = gated_loop("tests=verified:test ! -e bad");
    check_tests(&env).ok();
    let go_on = ["team", "send", "hand", "go on with 2", "--next", "--iteration", "2"];
    env.act_as_operator(&go_on).ok();
    fs::write(cwd.join("bad"), "").unwrap();
    check_tests(&env).assert_code(1);
    assert_eq!(env.take_next("hand", &[]), Value::Null);
    let looped = &env.show_task()["loop"];
    assert_eq!((&looped["iteration"], &looped["missing"]), (&json!(1), &json!(["tests"])));
    assert_eq!(looped["verified"], json!({}), "what was shown is taken back: {looped:#}");
    let refused = env.act_as_operator(&go_on);
    assert!(refused.assert_code(4).stdout.contains("missing_evidence"), "{refused:?}");
    fs::remove_file(cwd.join("bad")).unwrap();
    check_tests(&env).ok();
    env.act_as_operator(&go_on).ok();
    assert_eq!(env.take_next("hand", &[])["kind"], "continuation");
}

#[test]
fn manager_cannot_finish_after_dropping_gate() {
    let (env, _) = gated_loop("tests=verified:false");
    let short = env.act_as("boss", &["team", "loop", "stop", "--because", "x"]);
    assert!(short.assert_code(2).stdout.contains("is too short"), "{short:?}");
    env.act_as("boss", &["team", "loop", "stop", "--because", "it takes too long for me"]).ok();
    let finish = ["team", "done", "limits", "--because", "all that was asked for is there"];
    let refused = env.provost(&[&finish[..], &["--as", "boss", "--json"]].concat());
    let refused = refused.assert_code(4).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("gate_dropped: boss stopped the operator's loop"), "{why}");
    let next = refused["error"]["next"][0].as_str().unwrap();
    // The hint omits `team done`, because the caller that acts for boss would run it as the
    // operator.
    assert!(next.contains("team send operator ") && next.ends_with(" --as boss"), "{next}");
    let weaker = ["team", "loop", "start", "--require", "notes=asserted"];
    let refused = env.act_as("boss", &weaker);
    assert!(
        refused.assert_code(4).stdout.contains("only the operator can replace it"),
        "{refused:?}"
    );
    assert_eq!(env.show_task()["blockers"][0]["code"], "gate_dropped");
    // Without its loop, no proof of the work remains.
    env.provost(&finish).assert_code(4);
    env.provost(&[&finish[..], &["--allow", "nothing_proved"]].concat()).ok();
    assert_eq!(env.show_task()["state"], "done");
    let status = env.provost(&["team", "loop", "status", "-t", "limits", "--json"]).ok().json();
    assert_eq!(status["loop"]["recommendation"], "the team is done");
}

#[test]
fn audit_names_the_acting_member() {
    let env = TeamEnv::in_repo(&[]);
    env.bind("limits", "boss", "manager");
    let before = env.provost(&["audit", "limits", "--json"]).ok().json();
    let before = before["actions"].as_array().unwrap().len();
    let no = env.act_as("boss", &["team", "contract", "accept", "--revision", "0"]).ok().json();
    assert_eq!(no["ok"], true);
    let because = ["--because", "the work needs it so"];
    let sent = env.act_as("boss", &["team", "send", "hand", "Begin."]).ok().json();
    let no = sent["message"]["no"].to_string();
    env.act_as("boss", &[&["team", "inbox", "dead-letter", &no], &because[..]].concat()).ok();
    env.act_as("boss", &["team", "criterion", "add", "two callers are told to wait"]).ok();
    env.act_as("boss", &["team", "loop", "start", "--require", "notes=asserted"]).ok();
    env.act_as("boss", &[&["team", "loop", "stop"], &because[..]].concat()).ok();
    let own = ["limits", "--as", "boss", "--json"];
    env.provost(&[&["team", "pause"], &own[..], &because].concat()).ok();
    env.provost(&[&["team", "resume"], &own[..]].concat()).ok();
    env.provost(&[&["team", "done"], &own[..], &because].concat()).assert_code(4);
    let audit = env.provost(&["audit", "limits", "--json"]).ok().json();
    let actions = audit["actions"].as_array().unwrap()[before..].iter();
    // Provost's own notifications are attributed to no member.
    let actions: Vec<_> = actions.filter(|action| action["actor"] != "provost").collect();
    assert_eq!(actions.len(), 9, "{actions:#?}");
    for action in actions {
        let attribution = (&action["by"], &action["actor"], &action["channel"]);
        let expected = (&json!("boss"), &json!("operator as boss"), &json!("command line"));
        assert_eq!(attribution, expected, "{action:#}");
    }
    let figures = env.provost(&["telemetry", "--json"]).ok().json();
    let failure = figures["failures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&failure["kind"], &failure["by"]), (&json!("team.finish_refused"), &json!("boss")));
}

#[test]
fn separate_review_is_attested_by_reviewer() {
    let env = TeamEnv::new();
    env.satisfy_criterion();
    env.bind("limits", "eye", "reviewer");
    let config = r#"{"epilogue": ["separate_review"]}"#;
    env.act_as_operator(&["team", "contract", "set", config, "--expect", "0"]).ok();
    env.act_as("boss", &["team", "contract", "accept", "--revision", "1"]).ok();
    let blocker = env.show_task()["blockers"][0].clone();
    assert_eq!(blocker["code"], "epilogue_open");
    assert!(blocker["next"].as_str().unwrap().ends_with("--as eye"), "{blocker}");
    let review =
        ["team", "contract", "epilogue", "separate-review", "--evidence", "I looked at all of it"];
    for who in ["hand", "boss"] {
        let refused = env.act_as(who, &review);
        assert!(
            refused.assert_code(4).stdout.contains("only a reviewer can record"),
            "{refused:?}"
        );
    }
    env.act_as("eye", &review).ok();
    assert_eq!(env.show_task()["blockers"], json!([]));
}
