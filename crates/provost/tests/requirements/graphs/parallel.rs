//! Which tasks run in parallel.

use serde_json::json;

use super::plan_env::{PlanEnv, ScriptedTask};

/// Waits until the other task works too, so that both finish only if they run in parallel.
const LEFT_SCRIPT: &str =
    "touch $root/left; while ! test -e $root/right; do sleep 0.05; done; echo l > left.txt";
const RIGHT_SCRIPT: &str =
    "touch $root/right; while ! test -e $root/left; do sleep 0.05; done; echo r > right.txt";

const DIAMOND: [ScriptedTask<'static>; 4] = [
    ("top", &[], "echo t > top.txt"),
    ("left", &["top"], LEFT_SCRIPT),
    ("right", &["top"], RIGHT_SCRIPT),
    ("bottom", &["left", "right"], "cat top.txt left.txt right.txt > bottom.txt"),
];

#[test]
fn e20_diamond_sides_run_parallel_in_own_worktrees() {
    let env = PlanEnv::new(&DIAMOND);
    let id = env.open_run(&["--check", "test -s top.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(4)),
        "{row:#}"
    );
    assert_eq!(env.file_at(&env.branch(&id), "bottom.txt"), "t\nl\nr");
    let log = env.log();
    let order: Vec<&str> = log.iter().map(|entry| entry.task.as_str()).collect();
    assert_eq!((order[0], order[3]), ("top", "bottom"));
    let places = |task: &str| {
        let session = &env.instructions_of(task)[0].session;
        env.stage.status(session)["worktree"]["path"].clone()
    };
    assert_ne!(places("left"), places("right"));
    env.assert_every_commit_passes(&env.branch(&id), "test -s top.txt");
}

#[test]
fn e20_default_settings_run_in_parallel() {
    let env = PlanEnv::new(&[("left", &[], LEFT_SCRIPT), ("right", &[], RIGHT_SCRIPT)]);
    env.stage.configure_talker(
        &std::fs::read_to_string(env.stage.file("talker.toml")).unwrap(),
        "session.stop_grace = \"100ms\"",
    );
    let row = env.wait_sealed(&env.open_run(&[]));
    assert_eq!(row["state"], "completed", "{row:#}");
}

#[test]
fn e20_ready_task_skips_unrelated_slow_task() {
    let env = PlanEnv::new(&[
        (
            "slow",
            &[],
            "touch $root/slow; while ! test -e $root/go; do sleep 0.05; done; echo s > s",
        ),
        ("one", &[], "echo 1 > one"),
        ("two", &["one"], "echo 2 > two"),
        ("three", &["two"], "echo 3 > three"),
    ]);
    let id = env.open_run(&["--parallel", "2", "--check", "true"]);
    env.wait_task(&id, "three", "merged");
    assert_eq!(env.task_states(&id)[0], ("slow".to_owned(), "working".to_owned()));
    assert_eq!(env.files_at(&env.branch(&id)), ["README.md", "one", "three", "two"]);
    env.touch("go");
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
}

/// Signals its start and waits for its release. Records a violation if two tasks run at once.
fn alone_until_released(name: &str) -> String {
    format!(
        "mkdir $root/alone || touch $root/two-at-once; touch $root/at-{name}\nwhile ! test -e $root/go-{name}; do sleep 0.05; done\nrmdir $root/alone || true; echo {name} > {name}"
    )
}

#[test]
fn e20_run_agent_limit_holds() {
    let [one, two] = ["one", "two"].map(alone_until_released);
    let env = PlanEnv::new(&[("one", &[], &one), ("two", &[], &two)]);
    let id = env.open_run(&["--parallel", "1"]);
    env.wait_file("at-one");
    assert_eq!(env.task_states(&id)[1].1, "waiting");
    env.touch("go-one");
    env.touch("go-two");
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert!(!env.stage.home.root().join("two-at-once").exists());
}

#[test]
fn e20_machine_agent_limit_holds_across_runs() {
    let [one, two] = ["one", "two"].map(alone_until_released);
    let env =
        PlanEnv::with_config(&[("one", &[], &one), ("two", &[], &two)], "run.machine_parallel = 1");
    let first = env.open_run(&["--name", "first"]);
    env.wait_file("at-one");
    let second = env.open_run(&["--name", "second"]);
    let waiting = ["one", "two"].map(|task| (task.to_owned(), "waiting".to_owned()));
    assert_eq!(env.task_states(&second), waiting);
    env.touch("go-one");
    env.touch("go-two");
    // When an agent of one run ends, the other run gets its slot.
    for id in [first, second] {
        let row = env.wait_sealed(&id);
        assert_eq!((&row["state"], &row["tasks"]["merged"]), (&json!("completed"), &json!(2)));
    }
    assert!(!env.stage.home.root().join("two-at-once").exists());
}
