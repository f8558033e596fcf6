//! Real Codex as manager and worker of one team: tools, wake-ups and finish.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use crate::codex_env::{CodexEnv, TestedCodex};

const MANAGER: &str = r#"
[[thread]]
when = { prompt = "the manager of" }
turn = [
  { response = [
    { items = [{ tool = "provost_team_status", args = {} }] },
    { items = [{ tool = "provost_team_acknowledge", args = { revision = 0 } }] },
    { items = [{ message = "I wait." }] },
  ] },
  { when = "Ready.", response = [
    { items = [{ tool = "provost_team_send", args = { to = "hand", text = "Write limits.txt.", kind = "instruction" } }] },
    { items = [{ message = "I wait for it." }] },
  ] },
  { when = "Written.", response = [
    { items = [{ tool = "provost_team_finish", args = { because = "limits.txt is written" } }] },
    { items = [{ message = "It is finished." }] },
  ] },
  { repeat = "forever", response = [{ items = [{ message = "I wait." }] }] },
]
"#;

const WORKER: &str = r#"
[[thread]]
when = { prompt = "a worker of" }
turn = [
  { response = [{ items = [{ message = "Ready." }] }] },
  { response = [
    { items = [{ shell = "echo 10 > limits.txt" }] },
    { items = [{ tool = "provost_team_send", args = { to = "boss", text = "It is written.", kind = "report" } }] },
    { items = [{ message = "Written." }] },
  ] },
]
"#;

#[track_caller]
fn open_pair(stage: &CodexEnv, flags: &[&str]) -> Value {
    let words = [
        "team",
        "start",
        "limit how often each caller may call",
        "--name",
        "limits",
        "--worker",
        "hand=codex",
        "--manager",
        "boss=codex",
        "--json",
    ];
    let opened = stage.provost_in(stage.repo.path(), &[&words, flags].concat());
    opened.ok().json()["team"].clone()
}

fn member_session(task: &Value, name: &str) -> String {
    let members = task["members"].as_array().unwrap();
    let member = members.iter().find(|one| one["name"] == name).unwrap();
    member["session"].as_str().unwrap().to_owned()
}

#[test]
fn manager_and_worker_finish_a_team_with_tools() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, &format!("{MANAGER}{WORKER}")) else {
            return;
        };
        let task = open_pair(&stage, &["--check", "test -s limits.txt"]);
        let (boss, hand) = (member_session(&task, "boss"), member_session(&task, "hand"));
        let id = task["id"].as_str().unwrap().to_owned();
        eventually("the team is done", || {
            let shown = stage.provost(&["team", "show", &id, "--json"]).ok().json();
            (shown["team"]["state"] == "done").then_some(())
        });
        let calls = |id: &str| -> Vec<Value> {
            let all = stage.events_of(id, "tool.answered");
            all.iter().map(|event| event["data"]["ok"].clone()).collect()
        };
        assert_eq!((calls(&boss), calls(&hand)), (vec![json!(true); 4], vec![json!(true); 1]));
        for id in [&boss, &hand] {
            assert!(stage.events_of(id, "result.requested").is_empty(), "{which:?}");
            let row = stage.wait_sealed(id);
            assert_eq!(row["state"], "stopped", "{which:?}: {row:#}");
        }
        let listed =
            stage.provost(&["team", "inbox", "ls", "--all", "-t", &id, "--json"]).ok().json();
        let to = |name: &str| {
            let all = listed["messages"].as_array().unwrap();
            all.iter().filter(|one| one["to"] == name && one["status"] == "acknowledged").count()
        };
        assert_eq!(to("hand"), 1, "{which:?}: {listed:#}");
        let arrived = listed["messages"].as_array().unwrap().iter().any(|one| {
            let text = one["text"].as_str().unwrap();
            one["to"] == "boss" && text.contains("says:\n> Ready.")
        });
        assert!(arrived, "{which:?}: the worker's answer did not reach its manager: {listed:#}");
    }
}

#[test]
fn manager_call_across_daemon_kill_runs_once() {
    let manager = r#"
        [[thread]]
        when = { prompt = "the manager of" }
        turn = [{ response = [
          { items = [{ tool = "provost_team_acknowledge", args = { revision = 0 } }] },
          { items = [{ hold = "door" }, { tool = "provost_team_ask_user", args = { text = "Which limit?" } }] },
          { items = [{ message = "I wait." }] },
        ] }, { response = [{ items = [{ message = "Seen." }] }] }]
        [[thread]]
        when = { prompt = "a worker of" }
        turn = [{ response = [{ items = [{ message = "Ready." }] }] }]"#;
    let Some(stage) = CodexEnv::new(manager) else { return };
    let task = open_pair(&stage, &[]);
    let (id, boss) = (task["id"].as_str().unwrap(), member_session(&task, "boss"));
    stage.model.wait_for_hold("door");
    stage.daemon().kill();
    stage.model.release("door");
    stage.wait(&boss, "idle");
    let listed = stage.provost(&["team", "inbox", "ls", "--all", "-t", id, "--json"]).ok().json();
    let messages = listed["messages"].as_array().unwrap();
    let asked = messages.iter().filter(|one| one["to"] == "operator").count();
    assert_eq!(asked, 1, "{listed:#}");
    // News about the worker may start another turn of the manager, whose request contains the whole
    // conversation.
    let requests = stage.model.requests();
    let answered = requests.iter().map(|made| {
        let outputs = made.request.outputs();
        outputs.iter().filter(|(_, output)| output.contains("Which limit?")).count()
    });
    assert_eq!(answered.max(), Some(1));
    for name in ["boss", "hand"] {
        let id = member_session(&task, name);
        stage.provost(&["stop", &id]).ok();
        stage.wait_sealed(&id);
    }
}

/// Works on an instruction of its own, then on its part in a team.
const BOUND_LATER: &str = r#"
[[thread]]
turn = [
  { response = [
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "read it" } }] },
    { items = [{ message = "I have read it." }] },
  ] },
  { response = [
    { items = [{ tool = "provost_report", args = { status = "completed", summary = "understood" } }] },
    { items = [{ message = "Understood." }] },
  ] },
]
"#;

#[test]
fn late_bound_codex_gets_commands_instead_of_tools() {
    let Some(stage) = CodexEnv::new(BOUND_LATER) else { return };
    let id = stage.spawn(&["Read the repository."]);
    stage.wait_sealed(&id);
    stage
        .provost(&["team", "new", "limits", "--goal", "limit how often each caller may call"])
        .ok();
    let bind = ["team", "bind", "limits", "hand", "--role", "worker", "--session", &id, "--json"];
    let bound = stage.provost(&bind).ok().json()["team"]["members"][0].clone();
    let how = &bound["communication"];
    assert_eq!((&how["kind"], &how["receive"]), (&json!("protocol"), &json!("turns")), "{how}");
    assert_eq!((&how["can_push"], &how["acts"]), (&json!(true), &json!("commands")), "{how}");
    assert!(how["note"].as_str().unwrap().contains("no member tools"), "{how}");
    stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(stage.count_turns_with("You are hand, a worker of the team"), 1);
    assert_eq!(stage.count_turns_with("use the commands below"), 1);
    let shown = stage.provost(&["team", "show", "limits"]).ok().stdout.clone();
    assert!(shown.contains("acts by commands"), "{shown}");
    stage.model.assert_all_as_scripted();
}
