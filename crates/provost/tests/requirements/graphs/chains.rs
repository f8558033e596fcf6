//! Chained tasks: one conversation, or a recorded handover.

use std::fs;

use provost_testkit::harness::eventually;
use serde_json::json;

use super::plan_env::{PlanEnv, ScriptedTask};

const CHAIN: [ScriptedTask<'static>; 3] = [
    ("one", &[], "echo 1 > one.txt"),
    ("two", &["one"], "cat one.txt > two.txt; while test -e $root/hold; do sleep 0.05; done"),
    ("three", &["two"], "cat two.txt one.txt > three.txt"),
];

#[track_caller]
fn assert_one_conversation(env: &PlanEnv) {
    let log = env.log();
    let tasks: Vec<&str> = log.iter().map(|entry| entry.task.as_str()).collect();
    assert_eq!(tasks, ["one", "two", "three"]);
    assert!(log.iter().all(|entry| entry.session == log[0].session), "{log:?}");
    assert_eq!((log[1].thread.as_str(), log[2].thread.as_str()), ("t", "t"));
}

#[test]
fn r18_chained_tasks_share_one_conversation() {
    let env = PlanEnv::new(&CHAIN);
    let id = env.open_run(&["--check", "test -s one.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_one_conversation(&env);
    assert!(
        env.instruction("two", 1).contains("Now do the next task"),
        "{}",
        env.instruction("two", 1)
    );
    assert_eq!(env.file_at(&env.branch(&id), "three.txt"), "1\n1");
    assert!(env.events(&id, "run.handed_over").is_empty());
}

#[test]
fn r18_conversation_survives_daemon_death() {
    let env = PlanEnv::new(&CHAIN);
    let hold = env.stage.file("hold");
    fs::write(&hold, "").unwrap();
    // The check of the first task delays its merge, so that the daemon also dies between the tasks.
    let check = format!(
        "test -e two.txt || {{ touch {0}; while test -e {0}; do sleep 0.05; done; }}",
        env.stage.file("between")
    );
    let id = env.open_run(&["--check", &check]);
    env.wait_file("between");
    env.stage.daemon().kill();
    fs::remove_file(env.stage.file("between")).unwrap();
    env.stage.wait_state(&id, |_| true);
    env.wait_file("instructions/two.1");
    env.stage.daemon().kill();
    fs::remove_file(&hold).unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_one_conversation(&env);
}

#[test]
fn r18_missing_worktree_is_a_recorded_handover() {
    let waits = "while ! test -e $root/go-one; do sleep 0.05; done; echo 1 > one.txt";
    let [_, two, three] = CHAIN;
    let env = PlanEnv::new(&[("zero", &[], "echo 0 > zero.txt"), ("one", &[], waits), two, three]);
    // The check of the second merge runs until its worktree was removed.
    let root = env.stage.home.root().display().to_string();
    let check = format!(
        "test ! -e zero.txt || test ! -e one.txt || {{ touch {root}/holding; while ! test -e {root}/go-on; do sleep 0.05; done; }}"
    );
    let id = env.open_run(&["--check", &check]);
    env.wait_task(&id, "zero", "merged");
    env.touch("go-one");
    env.wait_file("holding");
    let session = env.instructions_of("one")[0].session.clone();
    let row = env.stage.wait_state(&session, |row| row["process"] != "alive");
    let place = row["worktree"]["path"].as_str().unwrap().to_owned();
    fs::remove_dir_all(&place).unwrap();
    env.touch("go-on");
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let handed = env.events(&id, "run.handed_over");
    assert_eq!(handed.len(), 1, "{handed:#?}");
    assert_eq!((&handed[0]["task"], &handed[0]["from"]), (&json!("two"), &json!(session)));
    assert!(handed[0]["reason"].as_str().unwrap().contains("is gone"), "{handed:#?}");
    let words = env.instruction("two", 1);
    assert!(words.contains("one, instruction 1"), "the report is handed over: {words}");
    let [two, three] = ["two", "three"].map(|task| env.instructions_of(task)[0].session.clone());
    assert_ne!(two, session);
    assert_eq!(two, three, "from there on it is one conversation again");
    // The summary is written after the outcome is sealed.
    let summary = eventually("the summary", || {
        let summary = env.stage.provost(&["summary", &id]);
        (summary.code() == Some(0)).then_some(summary.stdout)
    });
    assert!(summary.contains("taken over from") && summary.contains("is gone"), "{summary}");
    env.repo.git(&["worktree", "remove", "--force", "--force", &place]);
}

#[test]
fn r18_conversation_continues_after_conflict_fix() {
    let waits = |own: &str, other: &str| {
        format!("touch $root/{own}-there; while ! test -e $root/{other}-there; do sleep 0.05; done")
    };
    let repair_step = |line: &str| {
        format!(
            "case $n in 1) printf 'base\\n{line}\\n' > shared.txt;; *) grep -v '^[<=>]' shared.txt | sort > s; mv s shared.txt;; esac"
        )
    };
    let left = format!("{}\n{}", waits("left", "right"), repair_step("left"));
    let right = format!("{}\n{}", waits("right", "left"), repair_step("right"));
    let env = PlanEnv::new(&[
        ("left", &[], &left),
        ("right", &[], &right),
        ("after-left", &["left"], "echo l > after-left.txt"),
        ("after-right", &["right"], "echo r > after-right.txt"),
    ]);
    env.repo.write("shared.txt", "base\n");
    env.repo.commit("Something to change");
    let id = env.open_run(&["--check", "! grep -q '^[<=>]' shared.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    for (before, after) in [("left", "after-left"), ("right", "after-right")] {
        let (before, after) = (env.instructions_of(before), env.instructions_of(after));
        assert_eq!(
            before[0].session,
            after[0].session,
            "{:#?}",
            env.events(&id, "run.handed_over")
        );
    }
    assert!(env.events(&id, "run.handed_over").is_empty());
    env.assert_every_commit_passes(&env.branch(&id), "! grep -q '^[<=>]' shared.txt");
}
