//! Options have three values: an explicit off is a value like any other.

use std::fs;

use serde_json::{Value, json};

use provost_testkit::env::TestEnv;

const USER_ON: &str = r#"
[session]
exit_zero_completes = true
allow_empty_diff = true
time_limit = "1h"
[verify]
checks = ["false"]
[worktree]
enabled = true
setup = "false"
[hooks]
session.exited_without_claim = "touch hook-ran"
[agents.plain]
adapter = "command"
command = ["true"]
"#;

const PROJECT_OFF: &str = r#"
[session]
exit_zero_completes = false
allow_empty_diff = false
time_limit = false
[verify]
checks = []
[worktree]
enabled = false
setup = false
[hooks]
session.exited_without_claim = false
"#;

const KEYS: [&str; 7] = [
    "session.exit_zero_completes",
    "session.allow_empty_diff",
    "session.time_limit",
    "verify.checks",
    "worktree.enabled",
    "worktree.setup",
    "hooks.session.exited_without_claim",
];

#[test]
fn r12_project_off_beats_user_on() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure(USER_ON);
    repo.write("provost.toml", PROJECT_OFF);
    stage.trust(repo.path());
    let shown = stage.home.provost_in(repo.path(), &["config", "show", "--json"]).ok().json();
    for key in KEYS {
        let entry = config_entry(&shown, key);
        let off = if key == "verify.checks" { json!([]) } else { json!(false) };
        assert_eq!(entry["value"], off, "{entry}");
        assert!(entry["source"].to_string().contains("project"), "{entry}");
        assert!(entry["shadowed"][0]["source"].to_string().contains("user"), "{entry}");
    }
    let id = stage.spawn_in(repo.path(), &["--agent", "plain"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "exited_without_claim", "exit 0 was taken for a claim");
    assert_eq!((&row["worktree"], &row["checks"]), (&Value::Null, &json!([])));
    let spec = stage.spec(&id);
    assert_eq!((&spec["bounds"]["time_limit_ms"], &spec["hooks"]), (&Value::Null, &json!({})));
    assert_eq!(
        (&spec["exit_zero"], &spec["empty_diff"], &spec["setup"]),
        (&json!("not_a_claim"), &json!("refused"), &Value::Null)
    );
    assert!(!repo.path().join("hook-ran").exists());
}

#[test]
fn r12_unset_project_keys_use_user_values() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure(
        &USER_ON.replace("[\"false\"]", "[\"test -f README.md\"]").replace("\"false\"", "\"true\""),
    );
    repo.write("provost.toml", "[ui]\ncolor = \"never\"\n");
    repo.commit("Configure");
    let shown = stage.home.provost_in(repo.path(), &["config", "show", "--json"]).ok().json();
    for key in KEYS {
        assert!(config_entry(&shown, key)["source"].to_string().contains("user"), "{key}");
    }
    let id = stage.spawn_in(repo.path(), &["--", "true"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row}");
    assert!(row["worktree"]["path"].is_string());
}

#[test]
fn r12_flag_beats_project_and_user() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write("provost.toml", "[worktree]\nenabled = true\n[verify]\nchecks = [\"false\"]\n[session]\nexit_zero_completes = false\n");
    repo.commit("Configure");
    stage.trust(repo.path());
    let id = stage.spawn_in(
        repo.path(),
        &["--no-worktree", "--no-check", "--exit-zero-completes", "--", "true"],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["worktree"]), (&json!("completed"), &Value::Null));
    fs::write(repo.path().join("provost.toml"), "[worktree]\nenabled = false\n").unwrap();
    stage.trust(repo.path());
    let id = stage.spawn_in(repo.path(), &["--worktree", "--", "true"]);
    assert!(stage.wait_sealed(&id)["worktree"]["path"].is_string());
}

fn config_entry(shown: &Value, key: &str) -> Value {
    let entries = shown["entries"].as_array().unwrap();
    entries
        .iter()
        .find(|entry| entry["key"] == key)
        .unwrap_or_else(|| panic!("{key} is not shown"))
        .clone()
}
