//! The user's own files and branches stay untouched.

use serde_json::json;

use super::plan_env::{PlanEnv, after_peer_starts};
use provost_testkit::env::HANGS;

fn two_task_plan() -> PlanEnv {
    PlanEnv::new(&[
        ("one", &[], "while test -e $root/hold; do sleep 0.05; done; echo 1 > one.txt"),
        ("two", &["one"], "echo 2 > README.md"),
    ])
}

#[test]
fn user_branch_with_run_name_is_left_and_named() {
    let env = two_task_plan();
    env.touch("hold");
    let id = env.open_run(&["--check", "true"]);
    let branch = env.branch(&id);
    // The branch points at the run's base, so a fast-forward would lose no commit.
    let mine = env.repo.head();
    env.repo.git(&["branch", &branch]);
    std::fs::remove_file(env.stage.file("hold")).unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("queue")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains(&branch) && detail.contains("rename or delete"), "{detail}");
    assert_eq!(env.repo.git(&["rev-parse", &branch]), mine);
    env.repo.git(&["branch", "--move", &branch, "kept"]);
    env.stage.provost(&["resume", &id]).ok();
    let row = env.wait_sealed_attempt(&id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(2)),
        "{row:#}"
    );
    assert_eq!(env.repo.git(&["rev-parse", "kept"]), mine);
    assert_eq!(env.instructions_of("one").len(), 1, "what was done is not done again");
}

#[test]
fn user_checkout_changes_are_not_seen_or_touched() {
    let env = two_task_plan();
    env.repo.write("README.md", "changed\n");
    env.repo.write("staged.txt", "staged\n");
    env.repo.git(&["add", "staged.txt"]);
    env.repo.write("one.txt", "mine\n");
    let statuses = || {
        let status = env.repo.git(&["status", "--porcelain"]);
        let diff = env.repo.git(&["diff", "HEAD"]);
        (status, diff, env.repo.read("one.txt"), env.repo.head())
    };
    let before = statuses();
    let id = env.open_run(&["--check", "true"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(statuses(), before);
    assert_eq!(env.files_at(&env.branch(&id)), ["README.md", "one.txt"]);
    assert_eq!(env.file_at(&env.branch(&id), "README.md"), "2");
}

#[test]
fn foreign_work_on_run_branch_is_not_lost() {
    let hold = "while test -e $root/hold; do sleep 0.05; done; echo 2 > two.txt";
    let env = PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], hold)]);
    env.touch("hold");
    let id = env.open_run(&["--check", "true"]);
    env.wait_task(&id, "one", "merged");
    let branch = env.branch(&id);
    let place = env.stage.file("mine");
    env.repo.git(&["worktree", "add", "--quiet", &place, &branch]);
    let commit = ["-C", &place, "commit", "--quiet", "--allow-empty", "--message", "Mine"];
    env.repo.git(&commit);
    let mine = env.repo.git(&["rev-parse", &branch]);
    std::fs::remove_file(env.stage.file("hold")).unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("queue")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains(&format!("is at {mine}")), "{row:#}");
    assert_eq!(env.repo.git(&["rev-parse", &branch]), mine);
    env.repo.git(&["worktree", "remove", "--force", &place]);
}

#[test]
fn agent_programs_neither_merge_nor_act_as_operator() {
    let env = PlanEnv::new(&[]);
    let victim = env.stage.spawn_scenario(HANGS, &[]);
    let bin = env.stage.home.command::<&str>(&[]).get_program().to_str().unwrap().to_owned();
    let driver = format!(
        "PROVOST_HOME={} {bin} cancel {victim}; touch {}; exit 0",
        env.stage.home.path().display(),
        env.stage.file("ran")
    );
    std::fs::write(env.stage.file("driver.sh"), driver).unwrap();
    // The agent that gets the conflict sees both versions and keeps both.
    let settle = "test $n = 1 || { grep -v '^[<=>]' shared.txt | sort > s; mv s shared.txt; }";
    let arm = "git config merge.x.driver \"sh $root/driver.sh\"; mkdir -p $(git rev-parse --git-common-dir)/info; echo '* merge=x' > $(git rev-parse --git-common-dir)/info/attributes";
    let left = after_peer_starts(
        "left",
        "right",
        &format!("{arm}; test $n != 1 || echo left > shared.txt; {settle}"),
    );
    let right = after_peer_starts(
        "right",
        "left",
        &format!("test $n != 1 || echo right > shared.txt; {settle}"),
    );
    env.write_plan(&[("left", &[], &left), ("right", &[], &right)]);
    env.repo.write("shared.txt", "base\n");
    env.repo.commit("Something to change");
    let id = env.open_run(&["--check", "true"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(!std::path::Path::new(&env.stage.file("ran")).exists(), "the agent's driver ran");
    assert_eq!(env.file_at(&env.branch(&id), "shared.txt"), "left\nright");
    assert_eq!(env.stage.status(&victim)["state"], "working");
}

#[test]
fn gc_keeps_files_of_open_runs() {
    let hold = "while test -e $root/hold; do sleep 0.05; done; echo 2 > two.txt";
    let env = PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &[], hold)]);
    env.touch("hold");
    let id = env.open_run(&["--check", "true"]);
    env.wait_task(&id, "one", "merged");
    let found = env.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!(found["removed"], json!([]), "{found:#}");
    assert_eq!(found["kept"][0]["reason"], "the run of the session is still active", "{found:#}");
    std::fs::remove_file(env.stage.file("hold")).unwrap();
    assert_eq!(env.wait_sealed(&id)["state"], "succeeded");
    let found = env.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert!(!found["removed"].as_array().unwrap().is_empty(), "{found:#}");
}
