//! Plans that are refused immediately, with the reasons.

use std::fs;

use serde_json::json;

use super::plan_env::PlanEnv;

/// Asserts that a plan is refused before anything is created, with all of these messages.
#[track_caller]
fn assert_refused(env: &PlanEnv, name: &str, text: &str, messages: &[&str]) {
    let path = env.stage.file(name);
    fs::write(&path, text).unwrap();
    let refused = env.run_with(&["--plan", &path]);
    let refused = refused.assert_code(2);
    for part in messages {
        assert!(refused.stderr.contains(part), "{part:?} in {refused:#?}");
    }
    let listed = env.stage.provost(&["ls", "--all", "--json"]).ok().json();
    assert_eq!((&listed["runs"], &listed["sessions"]), (&json!([]), &json!([])));
}

const TASK: &str = "[[task]]\nid = \"a\"\ntitle = \"A\"\ninstruction = \"Make a.\"\n";

#[test]
fn e01_plan_without_tasks_is_refused() {
    let env = PlanEnv::new(&[]);
    assert_refused(&env, "empty.toml", "", &["empty.toml", "task"]);
    assert_refused(&env, "none.toml", "task = []\n", &["none.toml", "task"]);
    assert_refused(&env, "none.json", "{\"tasks\": []}", &["none.json", "task"]);
    assert_refused(&env, "nothing.json", "{}", &["nothing.json", "task"]);
}

#[test]
fn e02_plan_cannot_set_task_status() {
    let env = PlanEnv::new(&[]);
    for field in ["status = \"done\"", "state = \"merged\"", "retries = 0", "finished_at = 1"] {
        let name = field.split(' ').next().unwrap();
        let text = format!("{TASK}{field}\n");
        assert_refused(
            &env,
            "status.toml",
            &text,
            &["line 5: task ", "\"a\"", &format!("\"{name}\"")],
        );
    }
    let json = "{\"tasks\": [{\"id\": \"a\", \"title\": \"A\", \"instruction\": \"Make a.\", \"status\": \"done\"}]}";
    assert_refused(&env, "status.json", json, &["\"status\""]);
}

#[test]
fn invalid_plan_is_refused_with_all_errors() {
    let env = PlanEnv::new(&[]);
    let two =
        format!("{TASK}after = [\"b\"]\n{}", TASK.replace("\"a\"", "\"b\"") + "after = [\"a\"]\n");
    assert_refused(&env, "cycle.toml", &two, &["a -> b -> a"]);
    let twice = format!("{TASK}{TASK}after = [\"none\"]\n");
    assert_refused(&env, "twice.toml", &twice, &["\"a\"", "\"none\"", "line"]);
    assert_refused(&env, "broken.toml", "[[task]\n", &["broken.toml", "line 1"]);
    assert_refused(&env, "plan.yaml", TASK, &[".toml", ".json"]);
    assert_refused(&env, "escape.toml", &TASK.replace("\"a\"", "\"\\u001b[31mred\""), &["\\u{1b}"]);
    let missing = env.run_with(&["--plan", "not-there.toml"]);
    assert!(missing.assert_code(2).stderr.contains("not-there.toml"), "{missing:#?}");
    for other in [&["--no-plan"][..], &["--plan-mode", "always"]] {
        let both = env.run(other);
        assert!(
            both.assert_code(2).stdout.contains("'--plan <FILE>' cannot be used with"),
            "{both:#?}"
        );
    }
}
