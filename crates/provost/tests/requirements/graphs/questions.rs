//! Questions asked while tasks are worked on, and decided for all of them.

use std::fs;

use serde_json::json;

use super::plan_env::PlanEnv;

/// Asks through the agent's own protocol, and waits there for the answer.
const ASKS_ON_CHANNEL: &str = r#"
echo '{"type":"request","id":"q1","kind":"question","blocking":true,"title":"Storage","questions":[{"id":"store","header":"Store","question":"Where is it kept?","options":[],"secret":false}]}'
read -r answer
printf '%s\n' "$answer" > $root/answer-$id
echo $id > $id.txt
"#;

#[test]
fn r21_decision_is_shared_with_later_tasks() {
    let free = "touch $root/beside; while ! test -e $root/go; do sleep 0.05; done; echo b > b.txt";
    let env = PlanEnv::new(&[
        ("asks", &[], ASKS_ON_CHANNEL),
        ("beside", &[], free),
        ("again", &["asks", "beside"], ASKS_ON_CHANNEL),
        ("hears", &["beside"], "echo h > hears.txt"),
    ]);
    let id = env.open_run(&["--name", "mine", "--check", "true"]);
    let row = env.stage.wait_state(&id, |row| row["requests"][0]["id"].is_string());
    assert_eq!(row["requests"].as_array().unwrap().len(), 1, "{row:#}");
    env.wait_task(&id, "asks", "needs_input");
    // A task without a question continues meanwhile.
    env.wait_file("beside");
    let shown = env.stage.provost(&["status", "mine"]);
    assert!(shown.ok().stdout.contains("Where is it kept?"), "{shown:#?}");
    env.stage.provost(&["answer", "mine", "In SQLite"]).ok();
    env.wait_file("answer-asks");
    env.touch("go");
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(4)),
        "{row:#}"
    );
    for task in ["again", "hears"] {
        let instruction = env.instruction(task, 1);
        assert!(instruction.contains("Where is it kept?\n  Decided: In SQLite"), "{instruction}");
    }
    // A task that was in progress was notified once. The task that asked was not notified.
    let decided = |task: &str, kind: &str| {
        let session = env.instructions_of(task)[0].session.clone();
        let events = env.stage.events_of(&session, kind);
        events.iter().filter(|event| event["data"]["key"] == "decision-1").count()
    };
    for kind in ["message.queued", "message.delivered"] {
        assert_eq!((decided("beside", kind), decided("asks", kind)), (1, 0), "{kind}");
    }
    let again = fs::read_to_string(env.stage.file("answer-again")).unwrap();
    assert!(again.contains("In SQLite"), "{again}");
    assert_eq!(env.events(&id, "run.decision_made").len(), 1);
    assert_eq!(env.events(&id, "run.request_observed").len(), 1, "the question is not repeated");
}

#[test]
fn tokens_are_counted_per_task_in_one_conversation() {
    let env =
        PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], "echo 2 > two.txt")]);
    let id = env.open_run(&[]);
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["usage"]["input"]),
        (&json!("completed"), &json!(20)),
        "{row:#}"
    );
    let graph = env.graph(&id);
    let used: Vec<_> =
        graph["tasks"].as_array().unwrap().iter().map(|task| &task["usage"]).collect();
    assert_eq!(used, [&json!({"input": 10, "output": 1}); 2], "{graph:#}");
}

#[test]
fn stopping_run_awaits_no_answer() {
    let env = PlanEnv::new(&[("asks", &[], ASKS_ON_CHANNEL)]);
    // The agent exits slowly, so that the state can be observed.
    env.repo.write("provost.toml", "[session]\nstop_grace = \"3s\"\n");
    env.repo.commit("A longer grace");
    let id = env.open_run(&[]);
    env.stage.wait_state(&id, |row| row["requests"][0]["id"].is_string());
    env.stage.provost(&["cancel", &id]).ok();
    let row = env.stage.status(&id);
    assert_eq!(row["requests"], json!([]), "{row:#}");
    let shown = env.stage.provost(&["status", &id]);
    assert!(!shown.stdout.contains("needs input"), "{shown:#?}");
    assert!(!shown.stdout.contains("provost answer"), "{shown:#?}");
    assert_eq!(env.wait_sealed(&id)["state"], "cancelled");
}
