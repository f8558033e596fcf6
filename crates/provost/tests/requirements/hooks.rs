//! Hooks run once per event, with the event on standard input.

use std::fs;

use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::{Value, json};

use provost_testkit::env::TestEnv;

/// Each hook run writes its own file atomically, because several run at the same time.
fn configure_hooks(stage: &TestEnv, events: &[&str]) {
    let dir = stage.file("inputs");
    fs::create_dir(&dir).unwrap();
    let command = format!("new=$(mktemp {dir}/.XXXXXX); cat > $new; mv $new {dir}/${{new##*.}}");
    let hooks: String =
        events.iter().map(|event| format!("session.{event} = {command:?}\n")).collect();
    stage.configure(&format!("[hooks]\n{hooks}"));
}

fn wait_hook_inputs(stage: &TestEnv, count: usize) -> Vec<Value> {
    eventually("the hooks", || {
        let files = fs::read_dir(stage.file("inputs")).unwrap().flatten();
        let whole = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
        let inputs: Vec<Value> = whole
            .map(|file| serde_json::from_str(&fs::read_to_string(file.path()).unwrap()).unwrap())
            .collect();
        if inputs.len() >= count { Ok(inputs) } else { Err(inputs) }
    })
}

#[test]
fn hook_runs_once_per_event() {
    let stage = TestEnv::new();
    configure_hooks(
        &stage,
        &["opened", "started", "needs_input", "completed", "failed", "late_claim"],
    );
    let id = stage.spawn_sample("completed_exit0", &["--name", "hooked"]);
    stage.wait_sealed(&id);
    let lines = wait_hook_inputs(&stage, 3);
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events.len(), 3, "{events:?}");
    for event in ["session.opened", "session.started", "session.completed"] {
        assert!(events.contains(&event), "{events:?}");
    }
    assert!(lines.iter().all(|line| line["version"] == 1), "{lines:#?}");
    let completed = lines.iter().find(|line| line["event"] == "session.completed").unwrap();
    assert_eq!(
        (&completed["state"], &completed["attempt"], &completed["occasion"]),
        (&json!("completed"), &json!(1), &json!(1))
    );
    assert_eq!(
        (&completed["session"]["id"], &completed["session"]["sealed"]),
        (&json!(id), &json!(true))
    );
    stage.home.provost(&["report", "failed", "--session", &id]).ok();
    let lines = wait_hook_inputs(&stage, 4);
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().any(|line| line["event"] == "session.late_claim"), "{lines:#?}");
    stage.home.daemon().kill();
    stage.status(&id);
    eventually("no hook is pending", || {
        (stage.events_of(&id, "hook.finished").len() == 4).then_some(())
    });
    assert_eq!(wait_hook_inputs(&stage, 4).len(), 4, "a restart repeats nothing");
}

#[test]
fn hook_runs_once_despite_daemon_death() {
    let stage = TestEnv::new();
    let (ran, go) = (stage.file("ran"), stage.file("go"));
    let command = format!("echo run >> {ran}; while [ ! -e {go} ]; do sleep 0.05; done");
    stage.configure(&format!("[hooks]\nsession.completed = {command:?}\n"));
    let id = stage.spawn_sample("completed_exit0", &[]);
    eventually("the hook runs", || read_nonempty(&ran));
    stage.home.daemon().kill();
    stage.status(&id);
    stage.home.daemon().kill();
    fs::write(&go, "").unwrap();
    let finished =
        eventually("the end of the hook", || stage.events_of(&id, "hook.finished").pop());
    assert_eq!(finished["data"]["end"], json!({"exit": 0}));
    assert_eq!(fs::read_to_string(&ran).unwrap(), "run\n");
}

#[test]
fn failed_hook_changes_only_its_record() {
    let stage = TestEnv::new();
    stage.configure("[hooks]\nsession.failed = \"exit 7\"\n");
    let id = stage.spawn_sample("exit1_silent", &[]);
    let finished =
        eventually("the end of the hook", || stage.events_of(&id, "hook.finished").pop());
    assert_eq!(finished["data"]["end"], json!({"exit": 7}));
    let row = stage.status(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("crash")));
}
