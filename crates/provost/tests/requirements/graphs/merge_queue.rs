//! The merge queue: conflicts, tasks that break the work of others, and a branch on which every
//! commit passes.

use serde_json::{Value, json};

use super::plan_env::{PlanEnv, ScriptedTask, after_peer_starts};

/// Returns a script that adds a line. Two tasks add a line at the same position, and the task that
/// gets the conflict keeps both lines.
fn adds_line(line: &str) -> String {
    format!(
        "case $n in 1) printf 'base\\n{line}\\n' > shared.txt;; *) cp shared.txt $root/seen-{line}-$n; grep -v '^[<=>]' shared.txt | sort > s; mv s shared.txt;; esac"
    )
}

#[test]
fn conflict_returns_to_its_session_with_both_sides() {
    let (left, right) = (
        after_peer_starts("left", "right", &adds_line("left")),
        after_peer_starts("right", "left", &adds_line("right")),
    );
    let env = PlanEnv::new(&[("left", &[], &left), ("right", &[], &right)]);
    env.repo.write("shared.txt", "base\n");
    env.repo.commit("Something to change");
    let check = "test -s shared.txt && ! grep -q '^[<=>]' shared.txt";
    let id = env.open_run(&["--check", check]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let returned = env.events(&id, "run.task_returned");
    assert_eq!(returned.len(), 1, "{returned:#?}");
    let task = returned[0]["task"].as_str().unwrap();
    let instructions = env.instructions_of(task);
    assert_eq!(
        (instructions.len(), &instructions[0].session),
        (2, &instructions[1].session),
        "{instructions:?}"
    );
    assert_eq!(instructions[1].thread, "t", "it is the same conversation");
    let words = env.instruction(task, 2);
    assert!(words.contains("conflict markers") && words.contains("- shared.txt"), "{words}");
    let seen = std::fs::read_to_string(env.stage.file(&format!("seen-{task}-2"))).unwrap();
    for part in ["<<<<<<<", "left\n", "=======", "right\n", ">>>>>>>"] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
    let branch = env.branch(&id);
    assert_eq!(env.file_at(&branch, "shared.txt"), "base\nleft\nright");
    env.assert_every_commit_passes(&branch, check);
    let graph = env.graph(&id);
    let back = graph["tasks"].as_array().unwrap().iter().find(|one| one["id"] == task).unwrap();
    assert_eq!((&back["state"], &back["returns"]), (&json!("merged"), &json!(1)));
}

/// A check that passes for a task alone and fails together with `third.txt`, until the task is
/// fixed.
const COMPATIBLE: &str = "test ! -e bad.txt || test ! -e third.txt || test -e fixed.txt";

/// Waits for a signal file, and writes a file.
fn writes_on_signal(name: &str) -> String {
    format!("while ! test -e $root/go-{name}; do sleep 0.05; done; echo {name} > {name}.txt")
}

#[test]
fn breaking_task_is_bisected_and_sent_back() {
    let names = ["zero", "held", "first", "second", "third", "bad", "fourth"];
    let scripts = names.map(writes_on_signal);
    let bad = format!("{}; test $n = 1 || echo m > fixed.txt", scripts[5]);
    let script = |at: usize| if at == 5 { bad.as_str() } else { scripts[at].as_str() };
    let tasks: Vec<ScriptedTask<'_>> = (0..7).map(|at| (names[at], &[][..], script(at))).collect();
    let env = PlanEnv::new(&tasks);
    // The check of the second merge blocks until the others are in the queue, so that they form one
    // batch.
    let root = env.stage.home.root().display().to_string();
    let holds = format!(
        "test ! -e zero.txt || test ! -e held.txt || {{ touch {root}/holding; while ! test -e {root}/go-on; do sleep 0.05; done; }}"
    );
    let check = format!("({COMPATIBLE}) || {{ echo these two do not fit; exit 1; }}");
    let id = env.open_run(&["--parallel", "8", "--check", &holds, "--check", &check]);
    env.touch("go-zero");
    env.wait_task(&id, "zero", "merged");
    env.touch("go-held");
    env.wait_file("holding");
    for task in ["first", "second", "third", "bad", "fourth"] {
        env.touch(&format!("go-{task}"));
        env.wait_task(&id, task, "queued");
    }
    env.touch("go-on");
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(7)),
        "{row:#}"
    );
    let merged = env.events(&id, "run.batch_merged");
    assert!(
        merged.iter().any(|batch| batch["links"].as_array().unwrap().len() == 5),
        "{merged:#?}"
    );
    let returned = env.events(&id, "run.task_returned");
    let back: Vec<&str> = returned.iter().map(|one| one["task"].as_str().unwrap()).collect();
    assert_eq!(back, ["bad"], "{returned:#?}");
    let words = env.instruction("bad", 2);
    assert!(words.contains("> these two do not fit") && words.contains(COMPATIBLE), "{words}");
    let instructions = env.instructions_of("bad");
    assert_eq!(instructions[0].session, instructions[1].session, "its author fixes it");
    env.assert_every_commit_passes(&env.branch(&id), COMPATIBLE);
    let others = ["first", "second", "third", "fourth"].map(|task| env.instructions_of(task).len());
    assert_eq!(others, [1; 4], "no other task is repeated");
}

#[test]
fn setup_changes_do_not_affect_queue_checks() {
    let tasks: [ScriptedTask<'_>; 2] =
        [("one", &[], "echo 1 > one.txt"), ("two", &[], "echo 2 > two.txt")];
    let env = PlanEnv::with_config(&tasks, "worktree.setup = \"echo set up >> README.md\"\n");
    let id = env.open_run(&["--check", "true"]);
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["verified"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    let branch = env.branch(&id);
    let tree = env.repo.git(&["rev-parse", &format!("{branch}^{{tree}}")]);
    assert_eq!(row["tree"], json!(tree), "what was proved is what is on the branch");
    assert_eq!(env.file_at(&branch, "README.md").matches("set up").count(), 1);
}

/// Two tasks that start from the same commit, so that their merge is a tree of its own.
fn two_tasks() -> PlanEnv {
    let (left, right) = (
        after_peer_starts("left", "right", "echo left > left.txt"),
        after_peer_starts("right", "left", "echo right > right.txt"),
    );
    PlanEnv::new(&[("left", &[], &left), ("right", &[], &right)])
}

/// A check that counts how often it ran on the merge, where it blocks until it is released.
fn blocking_check(env: &PlanEnv) -> String {
    let root = env.stage.home.root().display().to_string();
    format!(
        "test ! -e left.txt || test ! -e right.txt || {{ echo on the merge; echo ran >> {root}/ran; while ! test -e {root}/go-on; do sleep 0.05; done; }}"
    )
}

/// Returns the merge checks of a run that has succeeded.
fn merge_checks(env: &PlanEnv, id: &str) -> Value {
    let row = env.wait_sealed(id);
    assert_eq!((&row["state"], &row["verified"]), (&json!("succeeded"), &json!(true)), "{row:#}");
    row["verifications"].clone()
}

#[test]
fn queue_check_survives_daemon_kill_and_runs_once() {
    let env = two_tasks();
    let id = env.open_run(&["--check", &blocking_check(&env)]);
    env.wait_file("ran");
    env.stage.home.daemon().kill();
    let running = env.stage.status(&id)["verifications"][0].clone();
    assert_eq!(running["state"], "running", "{running:#}");
    env.touch("go-on");
    let checks = merge_checks(&env, &id);
    assert_eq!(checks.as_array().unwrap().len(), 1, "{checks:#}");
    assert_eq!(std::fs::read_to_string(env.stage.file("ran")).unwrap(), "ran\n", "it ran once");
    let output = checks[0]["checks"][0]["output"].as_str().unwrap();
    assert!(output.starts_with(&format!("checks/{id}.verify-1~")), "{output}");
    let shown = env.stage.provost(&["logs", &id, "--verification", "1"]);
    assert_eq!(shown.ok().stdout, "on the merge\n");
}

#[test]
fn queue_check_needs_no_session_and_three_commits() {
    let env = two_tasks();
    let id = env.open_run(&["--check", "true"]);
    let checks = merge_checks(&env, &id);
    assert_eq!((&checks[0]["no"], &checks[0]["state"]), (&json!(1), &json!("passed")));
    let row = env.stage.status(&id);
    let stages: Vec<&str> = row["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["stage"].as_str().unwrap())
        .collect();
    assert_eq!(stages, ["work", "work"]);
    let mut events = env.stage.events(&id);
    events.retain(|event| event["stream"] == "run");
    let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned();
    let asked = events.iter().position(|one| kind(one) == "run.verification_requested").unwrap();
    let kinds: Vec<String> = events[asked - 1..asked + 3].iter().map(kind).collect();
    let expected = [
        "run.batch_merged",
        "run.verification_requested",
        "run.verification_done",
        "run.integrated",
    ];
    assert_eq!(kinds, expected);
    let at = |event: &Value| event["at"].as_i64().unwrap();
    assert_eq!(
        at(&events[asked - 1]),
        at(&events[asked]),
        "the merge and the request are one commit"
    );
}

#[test]
fn cancelled_queue_check_ends_with_its_run() {
    let env = two_tasks();
    let id = env.open_run(&["--check", &blocking_check(&env)]);
    env.wait_file("ran");
    env.stage.provost(&["cancel", &id, "--because", "enough"]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "cancelled", "{row:#}");
    assert_eq!(row["verifications"][0]["state"], "stopped", "{row:#}");
    env.touch("go-on");
    env.stage.provost(&["resume", &id]).ok();
    let row = env.wait_sealed_attempt(&id, 2);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let states: Vec<&str> = row["verifications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["stopped", "passed"]);
}
