//! The user's own files and branches stay untouched.

use serde_json::json;

use super::kit::{PlanEnv, after_peer_starts};
use crate::kit::HANGS;

fn two_task_plan() -> PlanEnv {
    PlanEnv::new(&[
        ("one", &[], "while test -e $root/hold; do sleep 0.05; done; echo 1 > one.txt"),
        ("two", &["one"], "echo 2 > README.md"),
    ])
}

#[test]
fn user_branch_with_run_name_is_left_and_named() {
    let site = two_task_plan();
    site.touch("hold");
    let id = site.open_run(&["--check", "true"]);
    let branch = site.branch(&id);
    // The branch points at the run's base, so a fast-forward would lose no commit.
    let mine = site.repo.head();
    site.repo.git(&["branch", &branch]);
    std::fs::remove_file(site.stage.file("hold")).unwrap();
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("queue")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains(&branch) && detail.contains("rename or delete"), "{detail}");
    assert_eq!(site.repo.git(&["rev-parse", &branch]), mine);
    site.repo.git(&["branch", "--move", &branch, "kept"]);
    site.stage.provost(&["resume", &id]).ok();
    let row = site.wait_sealed_attempt(&id, 2);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(2)),
        "{row:#}"
    );
    assert_eq!(site.repo.git(&["rev-parse", "kept"]), mine);
    assert_eq!(site.instructions_of("one").len(), 1, "what was done is not done again");
}

#[test]
fn user_checkout_changes_are_not_seen_or_touched() {
    let site = two_task_plan();
    site.repo.write("README.md", "changed\n");
    site.repo.write("staged.txt", "staged\n");
    site.repo.git(&["add", "staged.txt"]);
    site.repo.write("one.txt", "mine\n");
    let standing = || {
        let status = site.repo.git(&["status", "--porcelain"]);
        let diff = site.repo.git(&["diff", "HEAD"]);
        (status, diff, site.repo.read("one.txt"), site.repo.head())
    };
    let before = standing();
    let id = site.open_run(&["--check", "true"]);
    let row = site.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(standing(), before);
    assert_eq!(site.files_at(&site.branch(&id)), ["README.md", "one.txt"]);
    assert_eq!(site.file_at(&site.branch(&id), "README.md"), "2");
}

#[test]
fn foreign_work_on_run_branch_is_not_lost() {
    let hold = "while test -e $root/hold; do sleep 0.05; done; echo 2 > two.txt";
    let site = PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &["one"], hold)]);
    site.touch("hold");
    let id = site.open_run(&["--check", "true"]);
    site.wait_task(&id, "one", "merged");
    let branch = site.branch(&id);
    let place = site.stage.file("mine");
    site.repo.git(&["worktree", "add", "--quiet", &place, &branch]);
    let commit = ["-C", &place, "commit", "--quiet", "--allow-empty", "--message", "Mine"];
    site.repo.git(&commit);
    let mine = site.repo.git(&["rev-parse", &branch]);
    std::fs::remove_file(site.stage.file("hold")).unwrap();
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("queue")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains(&format!("is at {mine}")), "{row:#}");
    assert_eq!(site.repo.git(&["rev-parse", &branch]), mine);
    site.repo.git(&["worktree", "remove", "--force", &place]);
}

#[test]
fn agent_programs_neither_merge_nor_act_as_operator() {
    let site = PlanEnv::new(&[]);
    let victim = site.stage.spawn_scenario(HANGS, &[]);
    let bin = site.stage.home.command::<&str>(&[]).get_program().to_str().unwrap().to_owned();
    let driver = format!(
        "PROVOST_HOME={} {bin} cancel {victim}; touch {}; exit 0",
        site.stage.home.path().display(),
        site.stage.file("ran")
    );
    std::fs::write(site.stage.file("driver.sh"), driver).unwrap();
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
    site.write_plan(&[("left", &[], &left), ("right", &[], &right)]);
    site.repo.write("shared.txt", "base\n");
    site.repo.commit("Something to change");
    let id = site.open_run(&["--check", "true"]);
    let row = site.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(!std::path::Path::new(&site.stage.file("ran")).exists(), "the agent's driver ran");
    assert_eq!(site.file_at(&site.branch(&id), "shared.txt"), "left\nright");
    assert_eq!(site.stage.status(&victim)["state"], "working");
}

#[test]
fn gc_keeps_files_of_open_runs() {
    let hold = "while test -e $root/hold; do sleep 0.05; done; echo 2 > two.txt";
    let site = PlanEnv::new(&[("one", &[], "echo 1 > one.txt"), ("two", &[], hold)]);
    site.touch("hold");
    let id = site.open_run(&["--check", "true"]);
    site.wait_task(&id, "one", "merged");
    let found = site.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!(found["removed"], json!([]), "{found:#}");
    assert_eq!(found["kept"][0]["reason"], "the run of the session is still active", "{found:#}");
    std::fs::remove_file(site.stage.file("hold")).unwrap();
    assert_eq!(site.wait_sealed(&id)["state"], "succeeded");
    let found = site.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert!(!found["removed"].as_array().unwrap().is_empty(), "{found:#}");
}
