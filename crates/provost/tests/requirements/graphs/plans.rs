//! Plans that are refused immediately, with the reasons.

use std::fs;

use serde_json::json;

use super::kit::Site;

/// Asserts that a plan is refused before anything is created, with all of these messages.
#[track_caller]
fn refused(site: &Site, name: &str, text: &str, messages: &[&str]) {
    let path = site.stage.file(name);
    fs::write(&path, text).unwrap();
    let refused = site.ask(&["--plan", &path]);
    let refused = refused.exits(2);
    for part in messages {
        assert!(refused.stderr.contains(part), "{part:?} in {refused:#?}");
    }
    let listed = site.stage.provost(&["ls", "--all", "--json"]).ok().json();
    assert_eq!((&listed["runs"], &listed["sessions"]), (&json!([]), &json!([])));
}

const TASK: &str = "[[task]]\nid = \"a\"\ntitle = \"A\"\ninstruction = \"Make a.\"\n";

#[test]
fn e01_a_plan_without_tasks_is_refused_and_never_all_done() {
    let site = Site::new(&[]);
    refused(&site, "empty.toml", "", &["empty.toml", "task"]);
    refused(&site, "none.toml", "task = []\n", &["none.toml", "task"]);
    refused(&site, "none.json", "{\"tasks\": []}", &["none.json", "task"]);
    refused(&site, "nothing.json", "{}", &["nothing.json", "task"]);
}

#[test]
fn e02_a_plan_cannot_say_how_far_a_task_is() {
    let site = Site::new(&[]);
    for field in ["status = \"done\"", "state = \"merged\"", "retries = 0", "finished_at = 1"] {
        let name = field.split(' ').next().unwrap();
        let text = format!("{TASK}{field}\n");
        refused(&site, "status.toml", &text, &["line 1: task ", "\"a\"", &format!("\"{name}\"")]);
    }
    let json = "{\"tasks\": [{\"id\": \"a\", \"title\": \"A\", \"instruction\": \"Make a.\", \"status\": \"done\"}]}";
    refused(&site, "status.json", json, &["\"status\""]);
}

#[test]
fn a_plan_that_is_wrong_is_refused_with_everything_that_is_wrong_and_where() {
    let site = Site::new(&[]);
    let two =
        format!("{TASK}after = [\"b\"]\n{}", TASK.replace("\"a\"", "\"b\"") + "after = [\"a\"]\n");
    refused(&site, "cycle.toml", &two, &["a -> b -> a"]);
    let twice = format!("{TASK}{TASK}after = [\"none\"]\n");
    refused(&site, "twice.toml", &twice, &["\"a\"", "\"none\"", "line"]);
    refused(&site, "broken.toml", "[[task]\n", &["broken.toml", "line 1"]);
    refused(&site, "plan.yaml", TASK, &[".toml", ".json"]);
    refused(&site, "escape.toml", &TASK.replace("\"a\"", "\"\\u001b[31mred\""), &["\\u{1b}"]);
    let missing = site.ask(&["--plan", "not-there.toml"]);
    assert!(missing.exits(2).stderr.contains("not-there.toml"), "{missing:#?}");
    for other in [&["--no-plan"][..], &["--plan-mode", "always"]] {
        let both = site.run(other);
        assert!(both.exits(2).stdout.contains("'--plan <FILE>' cannot be used with"), "{both:#?}");
    }
}
