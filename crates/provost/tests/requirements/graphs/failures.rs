//! Failed tasks and cancelled runs: finished work stays, and the rest can be resumed.

use std::fs;

use serde_json::json;

use super::kit::{PlanEnv, ScriptedTask};
use crate::kit::is_running;

const WITH_A_FAILURE: [ScriptedTask<'static>; 4] = [
    ("good", &[], "echo g > good.txt"),
    ("bad", &[], "test -e $root/fixed && echo b > bad.txt || claim=failed"),
    ("behind", &["bad"], "echo b > behind.txt"),
    ("beside", &["good"], "echo b > beside.txt"),
];

#[test]
fn failed_task_blocks_only_dependents_until_resume() {
    let site = PlanEnv::new(&WITH_A_FAILURE);
    let plan = site.stage.file("plan.toml");
    let output = site.run_with(&["--plan", &plan, "--name", "mine", "--check", "true"]);
    let output = output.assert_code(1);
    assert!(output.stdout.contains("2 of 4 tasks are merged; bad: "), "{output:#?}");
    let row = site.stage.status("mine");
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    let id = row["id"].as_str().unwrap();
    let states: Vec<String> = site.task_states(id).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["merged", "failed", "waiting", "merged"]);
    let branch = site.branch(id);
    assert_eq!(site.files_at(&branch), ["README.md", "beside.txt", "good.txt"]);

    let summary = site.stage.provost(&["summary", "mine"]).ok().stdout.clone();
    assert!(summary.contains("4 tasks, 2 merged, in 2 batches"), "{summary}");
    for (task, end) in [
        ("good", "merged; by "),
        ("bad", "not merged: failed"),
        ("behind", "not merged: not started"),
    ] {
        let line = summary.lines().find(|line| line.contains(&format!("The task {task}"))).unwrap();
        assert!(line.contains(end), "{line}");
    }

    site.touch("fixed");
    site.stage.provost(&["resume", "mine"]).ok();
    let row = site.wait_sealed_attempt(id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(4)),
        "{row:#}"
    );
    let times = |task: &str| site.instructions_of(task).len();
    assert_eq!(["good", "bad", "behind", "beside"].map(times), [1, 2, 1, 1]);
    let bad = site.instructions_of("bad");
    assert_eq!(bad[0].session, bad[1].session, "the same conversation continues");
    assert_eq!(site.files_at(&branch).len(), 5);
}

#[test]
fn crashed_task_is_retried_up_to_the_limit() {
    let crashes = "test $n = 2 || exit 9; echo c > crashed.txt";
    let site = PlanEnv::new(&[("crashed", &[], crashes)]);
    let row = site.wait_sealed(&site.open_run(&[]));
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(site.instructions_of("crashed").len(), 2);

    let site = PlanEnv::with_config(&[("crashed", &[], crashes)], "run.retries = 0");
    let row = site.wait_sealed(&site.open_run(&[]));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    assert_eq!(site.instructions_of("crashed").len(), 1);
}

#[test]
fn refuted_task_goes_to_another_agent() {
    let site = PlanEnv::new(&[("refuted", &[], "echo $n > tries.txt")]);
    let id = site.open_run(&["--check", "grep -q 2 tries.txt"]);
    let row = site.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let instructions = site.instructions_of("refuted");
    assert_eq!(instructions.len(), 2);
    assert_ne!(instructions[0].session, instructions[1].session);
    let retried = site.events(&id, "run.task_retried");
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
    let site = PlanEnv::new(&tasks);
    let id = site.open_run(&["--check", "true"]);
    site.wait_task(&id, "done", "merged");
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| site.wait_file(&format!("pid-{name}")));
    site.stage.provost(&["cancel", &id, "--because", "enough"]).ok();
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["detail"]), (&json!("cancelled"), &json!("enough")), "{row:#}");
    for name in names {
        let pid = fs::read_to_string(site.stage.file(&format!("pid-{name}"))).unwrap();
        assert!(!is_running(pid.trim().parse().unwrap()), "{name} still runs");
        let session = &site.instructions_of(name)[0].session;
        let worktree = site.stage.status(session)["worktree"]["path"].clone();
        let kept = format!("{}/{name}.txt", worktree.as_str().unwrap());
        assert_eq!(fs::read_to_string(kept).unwrap(), format!("{name}\n"));
    }
    assert_eq!(site.files_at(&site.branch(&id)), ["README.md", "done.txt"]);
    assert!(site.instructions_of("never").is_empty());
    let states: Vec<String> = site.task_states(&id).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["merged", "stopped", "stopped", "stopped", "waiting"]);

    // Unfinished work resumes in its worktree; finished work is not repeated.
    for name in names {
        fs::write(site.stage.file(&format!("tasks/{name}")), format!("test -s {name}.txt\n"))
            .unwrap();
    }
    site.stage.provost(&["resume", &id]).ok();
    let row = site.wait_sealed_attempt(&id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(5)),
        "{row:#}"
    );
    for name in names {
        let instructions = site.instructions_of(name);
        assert_eq!((instructions.len(), &instructions[0].session), (2, &instructions[1].session));
    }
    assert_eq!(site.instructions_of("done").len(), 1);
}

#[test]
fn worktree_removed_during_checks_is_replaced_once() {
    let site = PlanEnv::new(&[("one", &[], "echo $n > one.txt")]);
    let root = site.stage.home.root().display().to_string();
    let check = format!("touch {root}/checked; while test ! -e {root}/go; do sleep 0.05; done");
    let id = site.open_run(&["--check", &check]);
    site.wait_file("checked");
    let first = site.instructions_of("one")[0].session.clone();
    let place = site.stage.status(&first)["worktree"]["path"].as_str().unwrap().to_owned();
    fs::remove_dir_all(&place).unwrap();
    site.touch("go");
    let row = site.wait_sealed(&id);
    assert_eq!(row["state"], json!("succeeded"), "{row:#}");
    let instructions = site.instructions_of("one");
    assert_eq!(instructions.len(), 2, "{instructions:?}");
    assert_ne!(instructions[1].session, first, "no agent works in a deleted worktree");
    let retried = site.events(&id, "run.task_retried");
    let detail = retried[0]["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("the worktree {place} is gone")), "{detail}");
    assert_eq!((retried.len(), site.file_at(&site.branch(&id), "one.txt")), (1, "2".to_owned()));
    site.repo.git(&["worktree", "remove", "--force", "--force", &place]);
}

#[test]
fn failed_claim_fails_task_despite_passing_checks() {
    let site = PlanEnv::new(&[("gives-up", &[], "echo a > a.txt; claim=failed")]);
    let id = site.open_run(&["--check", "true"]);
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("tasks")), "{row:#}");
    assert_eq!(site.instructions_of("gives-up").len(), 1, "it is not retried");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("it said: gives-up, instruction 1"), "{detail}");
}

#[test]
fn failed_run_names_the_failed_task_check() {
    let site = PlanEnv::with_config(
        &[("good", &[], "echo g > g.txt"), ("bad", &["good"], "echo b > b.txt")],
        "run.retries = 0",
    );
    let plan = site.stage.file("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    let text = text.replacen("after = []\n", "after = []\nchecks = [\"test -s g.txt\"]\n", 1);
    std::fs::write(&plan, text).unwrap();
    let id = site.open_run(&["--check", "! test -e b.txt"]);
    let row = site.wait_sealed(&id);
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("the check `! test -e b.txt` ended with exit 1"), "{detail}");
    let checks: Vec<_> =
        row["checks"].as_array().unwrap().iter().map(|one| &one["command"]).collect();
    assert_eq!(checks, ["! test -e b.txt", "test -s g.txt"], "{row:#}");
}
