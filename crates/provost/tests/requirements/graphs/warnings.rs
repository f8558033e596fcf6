//! A run's warnings about files that its checks rely on, and about files missing from its trees.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use super::plan_env::{PlanEnv, ScriptedTask, after_peer_starts};

/// A repository with a test that the checks rely on.
fn protected_env(tasks: &[ScriptedTask<'_>]) -> PlanEnv {
    let env = PlanEnv::with_config(tasks, "verify.protected = [\"test/**\"]\n");
    env.repo.write("test/range.js", "checks\n");
    env.repo.commit("A test");
    env
}

/// Waits for the summary, which compares the run's end with its base, and returns the row and the summary.
#[track_caller]
fn wait_summary(env: &PlanEnv, id: &str) -> (Value, String) {
    env.wait_sealed(id);
    eventually("the card is written", || {
        (!env.events(id, "run.report_written").is_empty()).then_some(())
    });
    let summary = env.stage.provost(&["summary", id]).ok().stdout.clone();
    (env.wait_sealed(id), summary)
}

#[track_caller]
fn warnings(row: &Value) -> String {
    row["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

/// The "Still open" section of a summary.
fn still_open(summary: &str) -> &str {
    summary.split_once("Still open").map_or("", |(_, open)| open)
}

#[test]
fn f5_g3_chained_task_deleting_test_is_reported() {
    let env =
        protected_env(&[("one", &[], "rm test/range.js"), ("two", &["one"], "echo 2 > two.txt")]);
    let id = env.open_run(&["--check", "true"]);
    let (row, summary) = wait_summary(&env, &id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(warnings(&row).contains("test/range.js"), "{row:#}");
    assert!(still_open(&summary).contains("test/range.js"), "{summary}");
}

/// Deletes a test, and adds a line at the same position as another task. The task that gets the
/// conflict keeps both lines.
fn deletes_test_and_conflicts(line: &str) -> String {
    format!(
        "case $n in 1) rm test/{line}.js; printf 'base\\n{line}\\n' > shared.txt;; *) grep -v '^[<=>]' shared.txt | sort > s; mv s shared.txt;; esac"
    )
}

#[test]
fn f5_g3_returned_task_deleting_test_is_reported() {
    let (left, right) = (
        after_peer_starts("left", "right", &deletes_test_and_conflicts("left")),
        after_peer_starts("right", "left", &deletes_test_and_conflicts("right")),
    );
    let env = protected_env(&[("left", &[], &left), ("right", &[], &right)]);
    for file in ["shared.txt", "test/left.js", "test/right.js"] {
        env.repo.write(file, "base\n");
    }
    env.repo.commit("Something to change");
    let id = env.open_run(&["--check", "test -s shared.txt"]);
    let (row, summary) = wait_summary(&env, &id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(env.events(&id, "run.task_returned").len(), 1, "{row:#}");
    for file in ["test/left.js", "test/right.js"] {
        assert!(warnings(&row).contains(file), "{row:#}");
        assert!(still_open(&summary).contains(file), "{summary}");
    }
}

#[test]
fn f5_g3_reverted_change_is_not_reported() {
    let env = protected_env(&[
        ("one", &[], "rm test/range.js"),
        ("two", &["one"], "mkdir -p test; echo checks > test/range.js; echo 2 > two.txt"),
    ]);
    let id = env.open_run(&["--check", "true"]);
    let (row, summary) = wait_summary(&env, &id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(!warnings(&row).contains("test/range.js"), "{row:#}");
    assert!(!still_open(&summary).contains("test/range.js"), "{summary}");
}

#[test]
fn f5_g3_unmerged_task_warns_of_nothing() {
    let env = protected_env(&[
        ("good", &[], "echo 1 > one.txt"),
        ("bad", &[], "rm test/range.js; echo 1 > bad.txt"),
    ]);
    let id = env.open_run(&["--check", "test ! -e bad.txt"]);
    let (row, summary) = wait_summary(&env, &id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    assert_eq!(row["tasks"]["merged"], 1, "{row:#}");
    assert!(!warnings(&row).contains("test/range.js"), "{row:#}");
    assert!(!still_open(&summary).contains("test/range.js"), "{summary}");
}

#[test]
fn f5_g3_missing_files_are_in_the_summary() {
    let env = protected_env(&[
        ("one", &[], "git init -q made; echo 1 > made/file; echo 1 > one.txt"),
        ("two", &["one"], "echo 2 > two.txt"),
    ]);
    let id = env.open_run(&["--check", "true"]);
    let (row, summary) = wait_summary(&env, &id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(warnings(&row).contains("made"), "{row:#}");
    assert!(still_open(&summary).contains("made"), "{summary}");
}
