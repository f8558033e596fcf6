//! Which tasks run in parallel.

use serde_json::json;

use super::kit::{Scripted, Site};

/// Waits until the other side works too, so that neither finishes unless they run in parallel.
const LEFT: &str =
    "touch $root/left; while ! test -e $root/right; do sleep 0.01; done; echo l > left.txt";
const RIGHT: &str =
    "touch $root/right; while ! test -e $root/left; do sleep 0.01; done; echo r > right.txt";

const DIAMOND: [Scripted<'static>; 4] = [
    ("top", &[], "echo t > top.txt"),
    ("left", &["top"], LEFT),
    ("right", &["top"], RIGHT),
    ("bottom", &["left", "right"], "cat top.txt left.txt right.txt > bottom.txt"),
];

#[test]
fn e20_the_sides_of_a_diamond_are_worked_on_at_the_same_time_in_worktrees_of_their_own() {
    let site = Site::new(&DIAMOND);
    let id = site.opened(&["--check", "test -s top.txt"]);
    let row = site.ended(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(4)),
        "{row:#}"
    );
    assert_eq!(site.file_at(&site.branch(&id), "bottom.txt"), "t\nl\nr");
    let log = site.log();
    let order: Vec<&str> = log.iter().map(|entry| entry.task.as_str()).collect();
    assert_eq!((order[0], order[3]), ("top", "bottom"));
    let places = |task: &str| {
        let session = &site.told_of(task)[0].session;
        site.stage.status(session)["worktree"]["path"].clone()
    };
    assert_ne!(places("left"), places("right"));
    site.every_commit_passes(&site.branch(&id), "test -s top.txt");
}

#[test]
fn e20_the_settings_that_nobody_made_run_in_parallel() {
    let site = Site::new(&[("left", &[], LEFT), ("right", &[], RIGHT)]);
    site.stage.configure_talker(
        &std::fs::read_to_string(site.stage.file("talker.toml")).unwrap(),
        "session.stop_grace = \"100ms\"",
    );
    let row = site.ended(&site.opened(&[]));
    assert_eq!(row["state"], "completed", "{row:#}");
}

#[test]
fn e20_a_ready_task_does_not_wait_for_an_unrelated_slow_one() {
    let site = Site::new(&[
        (
            "slow",
            &[],
            "touch $root/slow; while ! test -e $root/go; do sleep 0.01; done; echo s > s",
        ),
        ("one", &[], "echo 1 > one"),
        ("two", &["one"], "echo 2 > two"),
        ("three", &["two"], "echo 3 > three"),
    ]);
    let id = site.opened(&["--parallel", "2", "--check", "true"]);
    site.wait_task(&id, "three", "merged");
    assert_eq!(site.states(&id)[0], ("slow".to_owned(), "working".to_owned()));
    assert_eq!(site.files_at(&site.branch(&id)), ["README.md", "one", "three", "two"]);
    site.sign("go");
    let row = site.ended(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
}

/// Signals its start, and waits to be released; records a violation if two run at once.
fn alone(name: &str) -> String {
    format!(
        "mkdir $root/alone || touch $root/two-at-once; touch $root/at-{name}\nwhile ! test -e $root/go-{name}; do sleep 0.01; done\nrmdir $root/alone || true; echo {name} > {name}"
    )
}

#[test]
fn e20_no_more_agents_work_than_the_run_may_have() {
    let [one, two] = ["one", "two"].map(alone);
    let site = Site::new(&[("one", &[], &one), ("two", &[], &two)]);
    let id = site.opened(&["--parallel", "1"]);
    site.appears("at-one");
    assert_eq!(site.states(&id)[1].1, "waiting");
    site.sign("go-one");
    site.sign("go-two");
    let row = site.ended(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert!(!site.stage.home.root().join("two-at-once").exists());
}

#[test]
fn e20_no_more_agents_work_on_the_machine_than_all_runs_together_may_have() {
    let [one, two] = ["one", "two"].map(alone);
    let site =
        Site::configured(&[("one", &[], &one), ("two", &[], &two)], "run.machine_parallel = 1");
    let first = site.opened(&["--name", "first"]);
    site.appears("at-one");
    let second = site.opened(&["--name", "second"]);
    let waiting = ["one", "two"].map(|task| (task.to_owned(), "waiting".to_owned()));
    assert_eq!(site.states(&second), waiting);
    site.sign("go-one");
    site.sign("go-two");
    // When an agent of one run ends, the other run gets its slot.
    for id in [first, second] {
        let row = site.ended(&id);
        assert_eq!((&row["state"], &row["tasks"]["merged"]), (&json!("completed"), &json!(2)));
    }
    assert!(!site.stage.home.root().join("two-at-once").exists());
}
