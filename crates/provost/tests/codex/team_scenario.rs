//! A whole team of real Codex sessions: a manager and two workers, from the first instruction to an audited finish. A
//! worker and the daemon are killed on the way, and another home shows the same history after an import.

use std::{fs, path::Path};

use provost_testkit::{
    harness::{TestHome, eventually},
    story::dispatch::{self, BOSS, HAND, MATE},
};
use serde_json::{Value, json};

use crate::codex_env::CodexEnv;

#[test]
fn team_finishes_despite_killed_worker_and_daemon() {
    let Some(stage) = CodexEnv::new(&dispatch::scenario()) else { return };
    for (name, text) in dispatch::FILES {
        stage.repo.write(name, text);
    }
    stage.repo.commit("Begin");
    let words = [dispatch::start_args(), vec!["--json".to_owned()]].concat();
    let opened = stage.provost_in(stage.repo.path(), &words).ok().json()["team"].clone();
    let id = opened["id"].as_str().unwrap();
    let [boss, hand, mate] = [BOSS, HAND, MATE].map(|name| member_session(&opened, name));

    // Each step has its own timeout, so that a slow machine does not fail the test.
    stage.model.wait_for_request("the manager has begun", |made| {
        made.request.prompt().contains("You are boss")
    });
    // One worker's proposed criterion is accepted. An assertion does not satisfy it.
    let task = wait_team(&stage, |task| task["criteria"][0]["state"] == "accepted");
    assert_eq!(task["criteria"][0]["source"], "worker", "{task:#}");
    assert_eq!(task["awaits_consent"], serde_json::json!([dispatch::PROOF]), "{task:#}");
    stage.provost(&["approve", id]).ok();
    eventually("a mere statement is refused", || {
        let refused = stage.events_of(id, "team.action_refused");
        refused.iter().any(|event| event["data"]["code"] == "insufficient").then_some(())
    });

    // The other worker is killed in the middle of the second iteration, together with the daemon.
    stage.model.wait_for_hold(dispatch::HALF_WAY);
    wait_team(&stage, |task| task["loop"]["iteration"] == 2);
    stage.kill_codex(&hand, 1);
    stage.daemon().kill();
    let row = stage.wait_state(&hand, |row| row["launches"].as_array().unwrap().len() == 2);
    assert_eq!(row["sealed"], false, "{row:#}");

    // The third iteration is refused without evidence. The daemon is killed again before the manager requests the
    // evidence.
    stage.model.wait_for_hold(dispatch::AT_THE_GATE);
    let task = wait_team(&stage, |task| task["loop"]["refusals"] == 1);
    assert_eq!(
        (&task["loop"]["iteration"], &task["loop"]["missing"]),
        (&json!(2), &json!(["tests"]))
    );
    stage.daemon().kill();
    stage.model.release(dispatch::AT_THE_GATE);

    // With the evidence, the iteration starts. The team can finish only after the criterion is
    // satisfied and the audit has passed.
    wait_team(&stage, |task| task["loop"]["iteration"] == 3);
    wait_team(&stage, |task| task["loop"]["missing"] == json!([]));
    wait_team(&stage, |task| task["criteria"][0]["state"] == "satisfied");
    let task = wait_team(&stage, |task| task["terminal"] == true);
    assert_eq!((&task["state"], &task["loop"]["iteration"]), (&json!("done"), &json!(3)));
    assert_eq!(task["criteria"][0]["receipt"], "verified", "{task:#}");
    assert_eq!(task["audited"]["worker"], HAND, "{task:#}");
    assert_loop_and_finish(&stage, id);
    for (name, refused) in dispatch::REFUSED {
        let answers = stage.events_of(&member_session(&opened, name), "tool.answered");
        let not = answers.iter().filter(|event| event["data"]["ok"] == false).count();
        assert_eq!(not, refused, "{name}: {answers:#?}");
    }
    for member in [&boss, &hand, &mate] {
        let row = stage.wait_sealed(member);
        assert_eq!(row["state"], "stopped", "a finished team leaves no agent running: {row:#}");
    }
    assert_same_after_import(&stage, &hand);
    stage.model.assert_all_as_scripted();
}

fn member_session(task: &Value, name: &str) -> String {
    let members = task["members"].as_array().unwrap();
    let member = members.iter().find(|one| one["name"] == name).unwrap();
    member["session"].as_str().unwrap().to_owned()
}

fn wait_team(stage: &CodexEnv, holds: impl Fn(&Value) -> bool) -> Value {
    eventually("the team has the expected state", || {
        let show = ["team", "show", dispatch::NAME, "--json"];
        let task = stage.provost(&show).ok().json()["team"].clone();
        if holds(&task) { Ok(task) } else { Err(format!("{task:#}")) }
    })
}

/// Asserts that each iteration started once, that one iteration and the first finish were refused,
/// and that the worker's death was reported once.
#[track_caller]
fn assert_loop_and_finish(stage: &CodexEnv, id: &str) {
    let of = |kind: &str| -> Vec<Value> {
        stage.events_of(id, kind).into_iter().map(|event| event["data"].clone()).collect()
    };
    let begun: Vec<Value> =
        of("team.loop_advanced").into_iter().map(|e| json!([e["to"], e["consumer"]])).collect();
    assert_eq!(begun, [json!([2, HAND]), json!([3, HAND])]);
    let refused = of("team.continuation_refused");
    let why = json!({"missing_evidence": ["tests"]});
    assert_eq!((refused.len(), &refused[0]["iteration"], &refused[0]["why"]), (1, &json!(3), &why));
    let unfinished = of("team.finish_refused");
    assert_eq!(unfinished.len(), 1, "{unfinished:#?}");
    assert_eq!(unfinished[0]["blockers"][0]["blocker"], "open_criterion", "{unfinished:#?}");
    let messages = [of("team.message_stored"), of("team.news_added")].concat();
    let lost = |data: &&Value| {
        let text = data["text"].as_str().unwrap();
        text.lines().next_back().unwrap().starts_with("its process was lost")
    };
    assert_eq!(messages.iter().filter(lost).count(), 1, "{messages:#?}");
}

/// Imports a bundle of the team into an empty home. Asserts that queries and a second export return
/// the same results.
#[track_caller]
fn assert_same_after_import(here: &CodexEnv, session: &str) {
    let (first, second) = (here.root().join("first"), here.root().join("second"));
    eventually("the team can be exported", || {
        let exported = here.provost(&["export", dispatch::NAME, "--to", first.to_str().unwrap()]);
        if exported.code() == Some(0) { Ok(()) } else { Err(exported) }
    });
    let there = TestHome::new();
    there.provost(&["import", first.to_str().unwrap()]).ok();
    for look in [
        &["replay", dispatch::NAME][..],
        &["audit", dispatch::NAME, "--content"],
        &["team", "inbox", "ls", "--all", "-t", dispatch::NAME],
        &["events", session, "--limit", "10000"],
    ] {
        let words = [look, &["--json"]].concat();
        let [mine, theirs] = [&here.home, &there].map(|home| {
            let mut output = home.provost(&words).ok().json();
            strip_commands(&mut output);
            output
        });
        assert_eq!(mine, theirs, "{look:?}");
    }
    there.provost(&["ledger", "verify"]).ok();
    there.provost(&["export", dispatch::NAME, "--to", second.to_str().unwrap()]).ok();
    assert_eq!(read_files(&first), read_files(&second));
}

/// Removes commands, which name their own home and program.
fn strip_commands(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "receive_command");
            fields.values_mut().for_each(strip_commands);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_commands),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn read_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut found: Vec<_> =
        entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect();
    found.sort();
    found
}
