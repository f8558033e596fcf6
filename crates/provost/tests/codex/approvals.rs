//! Approvals are shown in full. A user or the project's rules decide them, never the agent.

use std::{
    fs,
    path::{Path, PathBuf},
};

use provost_testkit::model::ModelScenario;
use serde_json::{Value, json};

use crate::codex_env::{CodexEnv, TestedCodex};

const ONE_COMMAND: &str = r#"
    { items = [{ shell = "echo hello >> ../../outside.txt", escalate = true, justification = "May I write beside it?" }] },
    { items = [{ message = "Gone on." }] },"#;

/// One turn with these responses, then the structured result.
pub(crate) fn turn_with_result(responses: &str) -> String {
    let result = r#"{ message = '{"status":"completed","summary":"done"}' }"#;
    format!(
        "[[thread]]\nturn = [\n  {{ response = [\n{responses}\n  ] }},\n  {{ response = [{{ items = [{result}] }}] }},\n]\n"
    )
}

/// Waits for an open request and returns it.
#[track_caller]
pub(crate) fn wait_request(stage: &CodexEnv, id: &str, no: u32) -> Value {
    let name = format!("{id}.q{no}");
    let row = stage.home.wait_state(id, |row| find_request(row, &name).is_some());
    find_request(&row, &name).unwrap().clone()
}

fn find_request<'a>(row: &'a Value, name: &str) -> Option<&'a Value> {
    row["requests"].as_array()?.iter().find(|request| request["id"] == name)
}

/// Counts the tool outputs containing `part` that the model received.
pub(crate) fn count_outputs(stage: &CodexEnv, part: &str) -> usize {
    let requests = stage.model.requests();
    let last = requests.iter().map(|recorded| recorded.request.outputs()).max_by_key(Vec::len);
    last.unwrap_or_default().iter().filter(|(_, output)| output.contains(part)).count()
}

/// Returns every file below the root of the test's home.
pub(crate) fn all_files(stage: &CodexEnv) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![stage.home.root().to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// Returns the rollout of a session, in the Codex home that Provost created.
#[track_caller]
pub(crate) fn rollout_path(stage: &CodexEnv, id: &str) -> PathBuf {
    let store = stage.path().join("agents").join(id);
    let is_rollout = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.starts_with(&store) && name.starts_with("rollout-") && name.ends_with(".jsonl")
    };
    let found: Vec<PathBuf> = all_files(stage).into_iter().filter(is_rollout).collect();
    let [only] = found.as_slice() else { panic!("one conversation, but {found:?}") };
    only.clone()
}

/// Asserts that Codex stored no permanent permissions; Provost must never make it do so.
#[track_caller]
fn assert_no_rules(stage: &CodexEnv) {
    let found = all_files(stage).into_iter().find(|path| path.ends_with("rules/default.rules"));
    assert_eq!(found, None);
}

/// A directory outside the repository and the sandbox.
fn outside_dir(stage: &CodexEnv) -> &Path {
    stage.home.root()
}

fn read_outside(stage: &CodexEnv) -> String {
    fs::read_to_string(outside_dir(stage).join("outside.txt")).unwrap_or_default()
}

#[test]
fn command_is_shown_and_runs_once_approved() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(ONE_COMMAND)) else {
            return;
        };
        let id = stage.spawn(&["Write it."]);
        let asked = wait_request(&stage, &id, 1);
        let subject = &asked["subject"];
        let command = subject["command"].as_str().unwrap();
        assert!(command.contains("echo hello >> ../../outside.txt"), "{which:?}: {asked:#}");
        assert_eq!(subject["cwd"], stage.repo.path().to_str().unwrap(), "{asked:#}");
        assert_eq!(subject["reason"], "May I write beside it?", "{asked:#}");
        assert_eq!(stage.status(&id)["state"], "needs_input");
        let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
        let parts = [
            "echo hello >> ../../outside.txt",
            "May I write beside it?",
            "provost approve",
            "provost deny",
        ];
        for part in parts {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert_eq!(read_outside(&stage), "", "it is not approved yet");
        stage.home.provost(&["approve", &id]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{row:#}");
        assert_eq!(read_outside(&stage), "hello\n", "{which:?}");
        assert_eq!(stage.events_of(&id, "request.settled").len(), 1);
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn denied_command_cannot_be_approved_later() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(ONE_COMMAND)) else {
            return;
        };
        let id = stage.spawn(&["Write it."]);
        let asked = wait_request(&stage, &id, 1);
        let request = asked["id"].as_str().unwrap();
        stage.home.provost(&["deny", request]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "the turn continues: {row:#}");
        assert_eq!(
            count_outputs(&stage, "rejected"),
            1,
            "{which:?}: {:#?}",
            stage.model.requests().last()
        );
        assert!(stage.events_of(&id, "request.contradicted").is_empty(), "{which:?}");
        let late = stage.home.provost(&["approve", request]);
        assert_ne!(late.code(), Some(0), "{late:#?}");
        assert_eq!(read_outside(&stage), "");
        stage.model.assert_all_as_scripted();
    }
}

/// A test cannot control which of two clients answers first, so a script sends the other answer to
/// Codex.
#[test]
fn contradicted_decision_is_flagged() {
    for (answer, sent, other) in [("deny", "decline", "accept"), ("approve", "accept", "decline")] {
        let Some(mut stage) =
            CodexEnv::with_version(TestedCodex::Oldest, &turn_with_result(ONE_COMMAND))
        else {
            return;
        };
        stage.replace_codex(&format!(
            r#"[ "$1" = app-server ] || exec "$REAL" "$@"
sed -u 's/"decision":"{sent}"/"decision":"{other}"/' | "$REAL" "$@""#
        ));
        let id = stage.spawn(&["Write it."]);
        let asked = wait_request(&stage, &id, 1);
        stage.home.provost(&[answer, asked["id"].as_str().unwrap()]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{row:#}");
        let ran = if answer == "deny" { "hello\n" } else { "" };
        assert_eq!(read_outside(&stage), ran, "{answer}");
        let flags = row["flags"].as_array().unwrap();
        assert!(flags.contains(&json!("answer_overridden")), "{answer}: {row:#}");
        let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("q1 was ") && words.contains("by an earlier answer elsewhere"),
            "{shown}"
        );
    }
}

#[test]
fn session_approval_is_not_asked_again() {
    let twice = r#"
    { items = [{ shell = "echo more >> ../../outside.txt", escalate = true, justification = "May I?", prefix_rule = ["echo"] }] },
    { items = [{ shell = "echo more >> ../../outside.txt", escalate = true, justification = "Once more?", prefix_rule = ["echo"] }] },
    { items = [{ message = "Twice." }] },"#;
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(twice)) else { return };
        let id = stage.spawn(&["Write it."]);
        wait_request(&stage, &id, 1);
        stage.home.provost(&["approve", &id, "--session"]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        assert_eq!(read_outside(&stage), "more\nmore\n");
        assert_eq!(stage.events_of(&id, "request.opened").len(), 1, "the second was not asked");
        assert!(stage.events_of(&id, "request.contradicted").is_empty(), "{which:?}");
        assert_no_rules(&stage);
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn change_outside_roots_is_shown_as_diff() {
    let patch = r#"
    { items = [{ patch = "*** Begin Patch\n*** Add File: ../../added.txt\n+a new line\n*** End Patch" }] },
    { items = [{ message = "Added." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(patch)) else { return };
    let place = outside_dir(&stage).join("added.txt");
    let id = stage.spawn(&["Add it."]);
    let asked = wait_request(&stage, &id, 1);
    assert_eq!(asked["subject"]["paths"], json!([place.to_str().unwrap()]), "{asked:#}");
    assert!(asked["subject"]["diff"].as_str().unwrap().contains("a new line"), "{asked:#}");
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    assert!(shown.contains("a new line"), "{shown}");
    assert!(!place.exists(), "it is not approved yet");
    stage.home.provost(&["approve", &id]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(fs::read_to_string(place).unwrap(), "a new line\n");
    stage.model.assert_all_as_scripted();
}

#[test]
fn r13_path_rule_does_not_follow_symlinks() {
    let patch = r#"
    { items = [{ patch = "*** Begin Patch\n*** Add File: link/added.txt\n+a new line\n*** End Patch" }] },
    { items = [{ message = "Asked." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(patch)) else { return };
    let root = outside_dir(&stage);
    std::os::unix::fs::symlink(root, stage.repo.path().join("link")).unwrap();
    stage.configure("[approvals]\nversion = 1\nallow = [\"path: link/\"]\n");
    let id = stage.spawn(&["Write it."]);
    wait_request(&stage, &id, 1);
    assert!(stage.events_of(&id, "request.ruled").is_empty());
    stage.home.provost(&["deny", &id]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert!(!root.join("added.txt").exists());
}

#[test]
fn approval_expires_when_configured() {
    let asks = r#"
    { items = [{ shell = "touch ../../late.txt", escalate = true, justification = "May I?" }] },
    { items = [{ message = "Asked." }] },"#;
    let Some(stage) = CodexEnv::new(&turn_with_result(asks)) else { return };
    stage.configure("[approvals]\nversion = 1\nexpire_after = \"1s\"\n");
    let id = stage.spawn(&["Try it."]);
    assert_eq!(stage.wait_sealed(&id)["state"], "completed", "the agent continues without it");
    let ruled = stage.events_of(&id, "request.ruled");
    assert_eq!(ruled.len(), 1, "{ruled:#?}");
    assert!(ruled[0]["data"]["rule"].as_str().unwrap().starts_with("expired"), "{ruled:#?}");
    let late = stage.provost(&["approve", &format!("{id}.q1")]);
    assert!(late.assert_code(4).stderr.contains("no longer open"), "{late:#?}");
    assert!(!outside_dir(&stage).join("late.txt").exists());
    stage.model.assert_all_as_scripted();
}

#[test]
fn project_rules_decide_each_approval() {
    let three = r#"
    { items = [{ shell = "touch ../../allowed.txt", escalate = true, justification = "One?" }] },
    { items = [{ shell = "rm -rf ../../denied.txt", escalate = true, justification = "Two?" }] },
    { items = [{ shell = "touch ../../allowed.txt; touch ../../more.txt", escalate = true, justification = "Three?" }] },
    { items = [{ message = "Asked." }] },"#;
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(three)) else { return };
        let root = outside_dir(&stage);
        fs::write(root.join("denied.txt"), "kept").unwrap();
        stage.configure(
            "[approvals]\nversion = 1\nallow = [\"command: touch ../../allowed.txt\"]\ndeny = [\"command: rm\"]\n",
        );
        let id = stage.spawn(&["Try three things."]);
        wait_request(&stage, &id, 3);
        assert!(root.join("allowed.txt").exists(), "{which:?}: the first was allowed");
        assert!(root.join("denied.txt").exists(), "the second was denied");
        let ruled = stage.events_of(&id, "request.ruled");
        assert_eq!(ruled.len(), 2, "{ruled:#?}");
        stage.home.provost(&["deny", &id]).ok();
        assert_eq!(stage.wait_sealed(&id)["state"], "completed");
        assert!(!root.join("more.txt").exists(), "a rule never matches shell syntax");
        assert_no_rules(&stage);
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn approval_across_daemon_kill_runs_command_once() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &turn_with_result(ONE_COMMAND)) else {
            return;
        };
        let id = stage.spawn(&["Write it."]);
        let asked = wait_request(&stage, &id, 1);
        stage.home.daemon().kill();
        assert_eq!(wait_request(&stage, &id, 1), asked, "the same, under the same revision");
        stage.home.provost(&["approve", &id]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        assert_eq!(read_outside(&stage), "hello\n", "it ran once");
        assert_eq!(row["launches"].as_array().unwrap().len(), 1);
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn r10_approval_ends_with_the_session() {
    let Some(stage) = CodexEnv::new(&turn_with_result(ONE_COMMAND)) else { return };
    let id = stage.spawn(&["Write it."]);
    let asked = wait_request(&stage, &id, 1);
    stage.home.provost(&["cancel", &id]).ok();
    let row = stage.wait_sealed(&id);
    assert_eq!(row["requests"], json!([]), "{row:#}");
    let late = stage.home.provost(&["approve", asked["id"].as_str().unwrap()]);
    assert!(late.assert_code(4).stderr.contains("is no longer open"), "{late:#?}");
    assert_eq!(read_outside(&stage), "");
}

#[test]
fn r13_agent_can_neither_approve_nor_answer() {
    let tries = r#"
    { items = [{ shell = "$PROVOST_BIN approve SESSION > printed 2>&1; echo $? > code; env -i PROVOST_HOME=$PROVOST_HOME setsid -w $PROVOST_BIN approve SESSION.q1 >> printed 2>&1; echo $? >> code; $PROVOST_BIN answer SESSION yes >> printed 2>&1; echo $? >> code" }] },
    { items = [{ message = "Tried." }] },"#;
    for sandbox in ["workspace-write", "full-access"] {
        let Some(stage) = CodexEnv::new(&turn_with_result(ONE_COMMAND)) else { return };
        let asking = stage.spawn(&["Ask."]);
        let asked = wait_request(&stage, &asking, 1);
        stage.model.add(
            ModelScenario::parse(&turn_with_result(&tries.replace("SESSION", &asking))).unwrap(),
        );
        let id = stage.spawn(&["--sandbox", sandbox, "Try it."]);
        assert_eq!(stage.wait_sealed(&id)["state"], "completed");
        let (codes, printed) = (stage.repo.read("code"), stage.repo.read("printed"));
        let all_refused = codes.lines().count() == 3 && codes.lines().all(|code| code != "0");
        assert!(all_refused, "{sandbox}: {codes} {printed}");
        if sandbox == "full-access" {
            assert_eq!(
                printed.matches("an agent can only report about itself").count(),
                2,
                "{printed}"
            );
        }
        assert_eq!(wait_request(&stage, &asking, 1), asked, "{sandbox}: nothing was settled");
        assert_eq!(read_outside(&stage), "");
        stage.home.provost(&["cancel", &asking]).ok();
        stage.wait_sealed(&asking);
    }
}
