//! Failed tasks and cancelled runs: finished work stays, and the rest can be resumed.

use std::fs;

use serde_json::json;

use super::plan_env::{PlanEnv, ScriptedTask};
use provost_testkit::env::is_running;

const WITH_A_FAILURE: [ScriptedTask<'static>; 4] = [
    ("good", &[], "echo g > good.txt"),
    ("bad", &[], "test -e $root/fixed && echo b > bad.txt || claim=failed"),
    ("behind", &["bad"], "echo b > behind.txt"),
    ("beside", &["good"], "echo b > beside.txt"),
];

#[test]
fn failed_task_blocks_only_dependents_until_resume() {
    let env = PlanEnv::new(&WITH_A_FAILURE);
    let plan = env.stage.file("plan.toml");
    let output = env.run_with(&["--plan", &plan, "--name", "mine", "--check", "true"]);
    let output = output.assert_code(1);
    assert!(output.stdout.contains("2 of 4 tasks are merged; bad: "), "{output:#?}");
    let row = env.stage.status("mine");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    let id = row["id"].as_str().unwrap();
    let states: Vec<String> = env.task_states(id).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["merged", "failed", "waiting", "merged"]);
    let branch = env.branch(id);
    assert_eq!(env.files_at(&branch), ["README.md", "beside.txt", "good.txt"]);

    let summary = env.stage.provost(&["summary", "mine"]).ok().stdout.clone();
    assert!(summary.contains("4 tasks, 2 merged, in 2 batches"), "{summary}");
    for (task, end) in [
        ("good", "merged; by "),
        ("bad", "not merged: failed"),
        ("behind", "not merged: not started"),
    ] {
        let line = summary.lines().find(|line| line.contains(&format!("The task {task}"))).unwrap();
        assert!(line.contains(end), "{line}");
    }

    env.touch("fixed");
    env.stage.provost(&["resume", "mine"]).ok();
    let row = env.wait_sealed_attempt(id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(4)),
        "{row:#}"
    );
    let times = |task: &str| env.instructions_of(task).len();
    assert_eq!(["good", "bad", "behind", "beside"].map(times), [1, 2, 1, 1]);
    let bad = env.instructions_of("bad");
    assert_eq!(bad[0].session, bad[1].session, "the same conversation continues");
    assert_eq!(env.files_at(&branch).len(), 5);
}

#[test]
fn crashed_task_is_retried_up_to_the_limit() {
    let crashes = "test $n = 2 || exit 9; echo c > crashed.txt";
    let env = PlanEnv::new(&[("crashed", &[], crashes)]);
    let row = env.wait_sealed(&env.open_run(&[]));
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(env.instructions_of("crashed").len(), 2);

    let env = PlanEnv::with_config(&[("crashed", &[], crashes)], "run.retries = 0");
    let row = env.wait_sealed(&env.open_run(&[]));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    assert_eq!(env.instructions_of("crashed").len(), 1);
}

#[test]
fn refuted_task_goes_to_another_agent() {
    let env = PlanEnv::new(&[("refuted", &[], "echo $n > tries.txt")]);
    let id = env.open_run(&["--check", "grep -q 2 tries.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let instructions = env.instructions_of("refuted");
    assert_eq!(instructions.len(), 2);
    assert_ne!(instructions[0].session, instructions[1].session);
    let retried = env.events(&id, "run.task_retried");
    assert_eq!((retried.len(), &retried[0]["fresh"]), (1, &json!(true)), "{retried:#?}");
}

/// Leaves its work, and then a child process that never exits by itself.
fn leaves_endless_process(name: &str) -> String {
    format!(
        "echo {name} > {name}.txt; sh -c 'echo $$ > '$root'/pid-{name}.new; mv '$root'/pid-{name}.new '$root'/pid-{name}; exec sleep 600'"
    )
}

#[test]
fn cancel_with_three_agents_keeps_work_not_processes() {
    let [one, two, three] = ["one", "two", "three"].map(leaves_endless_process);
    let tasks: [ScriptedTask<'_>; 5] = [
        ("done", &[], "echo d > done.txt"),
        ("one", &[], &one),
        ("two", &[], &two),
        ("three", &[], &three),
        ("never", &["one"], "echo n > never.txt"),
    ];
    let env = PlanEnv::new(&tasks);
    let id = env.open_run(&["--check", "true"]);
    env.wait_task(&id, "done", "merged");
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| env.wait_file(&format!("pid-{name}")));
    env.stage.provost(&["cancel", &id, "--because", "enough"]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["detail"]), (&json!("cancelled"), &json!("enough")), "{row:#}");
    for name in names {
        let pid = fs::read_to_string(env.stage.file(&format!("pid-{name}"))).unwrap();
        assert!(!is_running(pid.trim().parse().unwrap()), "{name} still runs");
        let session = &env.instructions_of(name)[0].session;
        let worktree = env.stage.status(session)["worktree"]["path"].clone();
        let kept = format!("{}/{name}.txt", worktree.as_str().unwrap());
        assert_eq!(fs::read_to_string(kept).unwrap(), format!("{name}\n"));
    }
    assert_eq!(env.files_at(&env.branch(&id)), ["README.md", "done.txt"]);
    assert!(env.instructions_of("never").is_empty());
    let states: Vec<String> = env.task_states(&id).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["merged", "stopped", "stopped", "stopped", "waiting"]);

    // Unfinished work resumes in its worktree; finished work is not repeated.
    for name in names {
        fs::write(env.stage.file(&format!("tasks/{name}")), format!("test -s {name}.txt\n"))
            .unwrap();
    }
    env.stage.provost(&["resume", &id]).ok();
    let row = env.wait_sealed_attempt(&id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(5)),
        "{row:#}"
    );
    for name in names {
        let instructions = env.instructions_of(name);
        assert_eq!((instructions.len(), &instructions[0].session), (2, &instructions[1].session));
    }
    assert_eq!(env.instructions_of("done").len(), 1);
}

#[test]
fn worktree_removed_during_checks_is_replaced_once() {
    let env = PlanEnv::new(&[("one", &[], "echo $n > one.txt")]);
    let root = env.stage.home.root().display().to_string();
    let check = format!("touch {root}/checked; while test ! -e {root}/go; do sleep 0.05; done");
    let id = env.open_run(&["--check", &check]);
    env.wait_file("checked");
    let first = env.instructions_of("one")[0].session.clone();
    let place = env.stage.status(&first)["worktree"]["path"].as_str().unwrap().to_owned();
    fs::remove_dir_all(&place).unwrap();
    env.touch("go");
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], json!("succeeded"), "{row:#}");
    let instructions = env.instructions_of("one");
    assert_eq!(instructions.len(), 2, "{instructions:?}");
    assert_ne!(instructions[1].session, first, "no agent works in a deleted worktree");
    let retried = env.events(&id, "run.task_retried");
    let detail = retried[0]["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("the worktree {place} is gone")), "{detail}");
    assert_eq!((retried.len(), env.file_at(&env.branch(&id), "one.txt")), (1, "2".to_owned()));
    env.repo.git(&["worktree", "remove", "--force", "--force", &place]);
}

#[test]
fn failed_claim_fails_task_despite_passing_checks() {
    let env = PlanEnv::new(&[("gives-up", &[], "echo a > a.txt; claim=failed")]);
    let id = env.open_run(&["--check", "true"]);
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    assert_eq!(env.instructions_of("gives-up").len(), 1, "it is not retried");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("it said: gives-up, instruction 1"), "{detail}");
}

#[test]
fn failed_run_names_the_failed_task_check() {
    let env = PlanEnv::with_config(
        &[("good", &[], "echo g > g.txt"), ("bad", &["good"], "echo b > b.txt")],
        "run.retries = 0",
    );
    let plan = env.stage.file("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    let text = text.replacen("after = []\n", "after = []\nchecks = [\"test -s g.txt\"]\n", 1);
    std::fs::write(&plan, text).unwrap();
    let id = env.open_run(&["--check", "! test -e b.txt"]);
    let row = env.wait_sealed(&id);
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("the check `! test -e b.txt` ended with exit 1"), "{detail}");
    let checks: Vec<_> =
        row["checks"].as_array().unwrap().iter().map(|one| &one["command"]).collect();
    assert_eq!(checks, ["! test -e b.txt", "test -s g.txt"], "{row:#}");
}
