//! Every session and member shows its delivery channel; a member bound late gets an onboarding message.

use std::{fs, process::Command};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::team_env::TeamEnv;
use provost_testkit::env::{HANGS, TALKER, kill, output_of};

/// Accepts any input, and records it.
const RECORDS_INPUT: &str = r#"
[[step]]
emit = { type = "ready", thread = "before" }
[[step]]
[step.repeat]
times = 5
steps = [
  { wait_input = { type = "instruction" } },
  { append = { path = "got", content = "{{input}}\n--\n" } },
  { emit = { type = "turn_started" } },
  { emit = { type = "claim", claim = "completed", text = "that is done" } },
  { emit = { type = "turn_ended", status = "ok" } },
]
"#;

fn row_of<'a>(rows: &'a Value, id: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    &rows.iter().find(|row| row["id"] == id).unwrap()["communication"]
}

#[test]
fn session_rows_name_their_channel() {
    let env = TeamEnv::new();
    env.configure_talker(RECORDS_INPUT, "[session]\nstop_grace = \"100ms\"\n");
    let spawned = env.provost(&["spawn", "--agent", TALKER, "--json", "begin"]).ok().json();
    let talks = spawned["id"].as_str().unwrap().to_owned();
    let turns = json!({
        "kind": "protocol", "receive": "turns", "can_push": true, "needs_wake": false, "receive_command": null,
    });
    assert_eq!(spawned["session"]["communication"], turns, "spawn");
    let plain = env.spawn_scenario(HANGS, &[]);
    let listed = env.provost(&["ls", "--json"]).ok().json()["sessions"].clone();
    assert_eq!(*row_of(&listed, &talks), turns, "ls");
    assert_eq!(row_of(&listed, &plain)["kind"], "pipe");
    assert_eq!(row_of(&listed, &plain)["can_push"], false);
    assert_eq!(env.status(&talks)["communication"], turns, "status");
    let found = env.provost(&["search", TALKER, "--in", "sessions", "--json"]).ok().json();
    assert_eq!(*row_of(&found["hits"], &talks), turns, "search");
}

#[test]
fn team_members_name_channel_and_working_command() {
    let env = TeamEnv::new();
    env.configure_talker(RECORDS_INPUT, "[session]\nstop_grace = \"100ms\"\n");
    let worker = format!("hand={TALKER}");
    let pair = ["team", "start", "count the callers", "--name", "count", "--worker", &worker];
    let more = ["--manager", "me", "--no-worktree", "--json"];
    let opened = env.provost(&[&pair[..], &more].concat()).ok().json();
    let members = opened["team"]["members"].clone();
    let hand = &members[0]["communication"];
    assert_eq!((&hand["kind"], &hand["receive"]), (&json!("protocol"), &json!("turns")));
    assert_eq!((&hand["receive_command"], &hand["acts"]), (&Value::Null, &json!("tools")));
    let me = &members[1]["communication"];
    assert_eq!((&me["kind"], &me["needs_wake"]), (&json!("pull"), &json!(true)));
    let shown = env.provost(&["team", "show", "count", "--json"]).ok().json();
    let command = shown["team"]["members"][1]["communication"]["receive_command"].clone();
    env.provost(&["team", "send", "me", "Hear this.", "-t", "count"]).ok();
    let mut shell = Command::new("/usr/bin/env");
    shell.args(["-i", "/bin/sh", "-c", command.as_str().unwrap()]);
    assert!(output_of(shell).ok().json()["item"].is_object());
}

#[test]
fn late_bound_session_gets_onboarding_and_tools() {
    let env = TeamEnv::new();
    env.configure_talker(RECORDS_INPUT, "[session]\nstop_grace = \"100ms\"\n");
    let repo = env.repo("work");
    let session = env.spawn_in(repo.path(), &["--agent", TALKER, "--no-worktree", "begin"]);
    env.wait_sealed(&session);
    let bind = ["team", "bind", "limits", "arm", "--role", "worker", "--session", &session];
    let bound = env.provost(&[&bind[..], &["--json"]].concat()).ok().json();
    let members = bound["team"]["members"].as_array().unwrap().clone();
    let arm = members.iter().find(|one| one["name"] == "arm").unwrap();
    assert_eq!(arm["communication"]["can_push"], true, "{arm}");
    let got = eventually("the onboarding message", || {
        let got = fs::read_to_string(repo.path().join("got")).ok()?;
        got.contains("You are arm, a worker of the team").then_some(got)
    });
    assert!(got.contains("limit how often each caller may call"), "{got}");
    env.provost(&["team", "send", "arm", "Count them.", "-t", "limits"]).ok();
    let got = eventually("and then its messages", || {
        let got = fs::read_to_string(repo.path().join("got")).ok()?;
        got.contains("Count them.").then_some(got)
    });
    assert_eq!(got.matches("You are arm").count(), 1, "once: {got}");
}

#[test]
fn bound_plain_command_pulls_messages() {
    let env = TeamEnv::new();
    let session = env.spawn_scenario(HANGS, &[]);
    env.pid(&session);
    let bind = ["team", "bind", "limits", "arm", "--role", "worker", "--session", &session];
    env.provost(&bind).ok();
    let how = env.status(&session)["communication"].clone();
    assert_eq!((&how["receive"], &how["acts"]), (&json!("polls"), &json!("commands")));
    let command = how["receive_command"].as_str().unwrap();
    assert!(command.contains("--as arm"), "{command}");
    assert!(env.stdout_of(&["status", &session]).contains("polls for its messages"));
}

/// Answers one instruction, and then reads no more input.
const ANSWERS_ONCE: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
append = { path = "got", content = "{{input}}\n--\n" }
[[step]]
emit = { type = "turn_started" }
[[step]]
emit = { type = "turn_ended", status = "ok", text = "I am ready; nothing was changed." }
[[step]]
hang = true
"#;

/// D2, D3: a message is handled by the launch that starts with it, and a worker's answer reaches its manager.
#[test]
fn d3_message_is_redelivered_after_worker_death() {
    let env = TeamEnv::new();
    env.configure_talker(ANSWERS_ONCE, "[session]\nstop_grace = \"100ms\"\n");
    let repo = env.repo("work");
    let worker = format!("arm={TALKER}");
    let pair = ["team", "start", "count the callers", "--name", "count", "--worker", &worker];
    let more = ["--manager", "me", "--no-worktree", "--json"];
    let opened = env.provost_in(repo.path(), &[&pair[..], &more].concat()).ok().json();
    let session = opened["team"]["members"][0]["session"].as_str().unwrap().to_owned();
    let next = ["team", "next", "-t", "count", "--as", "me", "--wait", "--json"];
    let text = env.provost(&next).ok().json()["item"]["text"].to_string();
    assert!(text.contains("> I am ready; nothing was changed."), "{text}");
    env.provost(&["team", "send", "arm", "Count them.", "-t", "count"]).ok();
    let sent = || {
        let listed = env.provost(&["team", "inbox", "ls", "--all", "-t", "count", "--json"]);
        let listed = listed.ok().json()["messages"].clone();
        let mut messages = listed.as_array().unwrap().iter();
        messages.find(|one| one["text"] == "Count them.").unwrap().clone()
    };
    // The message was written into the pipe, but no process reads it.
    env.wait_state(&session, |row| {
        let messages = row["messages"].as_array().unwrap();
        messages.last().is_some_and(|one| one["status"] == "delivered")
    });
    assert_eq!(sent()["status"], "offered");
    kill(env.pid(&session));
    let got = eventually("the next process begins with it", || {
        let got = fs::read_to_string(repo.path().join("got")).ok()?;
        got.contains("Count them.").then_some(got)
    });
    assert_eq!(got.matches("Count them.").count(), 1, "{got}");
    eventually("it is handled", || (sent()["status"] == "acknowledged").then_some(()));
    assert_eq!(sent()["offers"], 2);
}
