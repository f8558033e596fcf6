//! Trust in runs: a landing does not rely on an agent's claims, runs none of its programs, and
//! never acts for it with the user's identity.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use provost_testkit::forge::{FakeForge, PULL_REQUESTS};
use provost_testkit::harness::eventually;
use serde_json::json;

use provost_testkit::env::TestEnv;

use crate::{graphs, run_env::RunEnv};

/// Waits for a file in the test's directory.
#[track_caller]
fn wait_file(stage: &TestEnv, name: &str) {
    let path = stage.file(name);
    eventually(&format!("{name} appears"), || Path::new(&path).exists().then_some(()));
}

/// An agent that signals that it has started, runs the `work` line once released, and completes. If it finds
/// conflict markers, it runs the `conflict` line instead.
fn pausing_env(work: &str, conflict: &str) -> RunEnv {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write("shared.txt", "base\n");
    repo.commit("Something to change");
    let root = stage.home.root().display().to_string();
    let line = format!(
        "if grep -q '^<' shared.txt; then {conflict}; else touch {root}/there; while ! test -e {root}/go; do sleep 0.05; done; {work}; fi"
    );
    RunEnv::with_script(stage, repo, &line)
}

#[test]
fn moved_branch_lands_only_after_task_checks() {
    let script = "touch $root/there; while ! test -e $root/go; do sleep 0.05; done; echo a > a.txt";
    let env = graphs::plan_env::PlanEnv::new(&[("a", &[], script)]);
    let plan = env.stage.file("plan.toml");
    let task = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, task + "checks = [\"test -s a.txt && ! test -e user.txt\"]\n").unwrap();
    let id = env.open_run(&["--land", "merge"]);
    env.wait_file("there");
    env.repo.write("user.txt", "mine\n");
    let mine = env.repo.commit("Meanwhile");
    env.touch("go");
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert_eq!(env.repo.head(), mine, "what the checks refuse does not land");
}

#[test]
fn unresolved_conflicts_do_not_land() {
    // One agent ignores the conflict, the other does something else.
    for (conflict, state) in [("true", "failed"), ("echo note > note.txt", "failed")] {
        let env = pausing_env("echo run > shared.txt", conflict);
        let id = env.open_run(&["--land", "merge"]);
        wait_file(&env.stage, "there");
        env.repo.write("shared.txt", "user\n");
        let mine = env.repo.commit("Meanwhile");
        fs::write(env.stage.file("go"), "").unwrap();
        let row = env.wait_sealed(&id);
        assert_eq!((&row["state"], &row["cause"]), (&json!(state), &json!("landing")), "{row:#}");
        assert!(row["detail"].as_str().unwrap().contains("shared.txt"), "{row:#}");
        assert_eq!((env.repo.head(), env.repo.read("shared.txt")), (mine, "user\n".to_owned()));
    }
}

#[test]
fn conflicts_go_back_until_resolved() {
    let first = "test -e note.txt || { echo note > note.txt; exit 0; }; echo both > shared.txt";
    let env = pausing_env("echo run > shared.txt", first);
    let id = env.open_run(&["--land", "merge", "--check", "true"]);
    wait_file(&env.stage, "there");
    env.repo.write("shared.txt", "user\n");
    env.repo.commit("Meanwhile");
    fs::write(env.stage.file("go"), "").unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(env.repo.read("shared.txt") + &env.repo.read("note.txt"), "both\nnote\n");
    assert_eq!(
        env.repo.git(&["log", "-m", "--format=%H", "-S", "<<<<<<<"]),
        "",
        "no marker came in"
    );
}

#[test]
fn failed_worktree_setup_is_retried_on_resume() {
    let env = RunEnv::new("echo work > work.txt");
    let ok = env.stage.file("ok");
    env.repo.write("provost.toml", &format!("[worktree]\nsetup = \"test -e {ok}\"\n"));
    env.repo.commit("A setup");
    env.stage.trust(env.repo.path());
    let id = env.open_run(&["--check", "test -s work.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("work")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("the setup command"), "{row:#}");
    fs::write(ok, "").unwrap();
    env.stage.provost(&["resume", &id]).ok();
    let row = env.stage.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
}

#[test]
fn work_with_unrelated_history_is_merged() {
    let orphan = "git checkout -q --orphan x; echo b > b.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm o";
    let env = graphs::plan_env::PlanEnv::new(&[("a", &[], "echo a > a.txt"), ("b", &[], orphan)]);
    let id = env.open_run(&["--check", "true"]);
    let row = env.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["tasks"]["merged"]),
        (&json!("succeeded"), &json!(2)),
        "{row:#}"
    );
    assert_eq!(env.files_at(&env.branch(&id)), ["README.md", "a.txt", "b.txt"]);
    env.repo.git(&["merge-base", "main", &env.branch(&id)]);
}

#[test]
fn push_runs_no_agent_program_and_keeps_its_remote() {
    let mut stage = TestEnv::new();
    let repo = stage.home.repo("work");
    // Like the real `gh`, it calls git in the project.
    let status = format!("git -C '{}' status --porcelain > /dev/null\n", repo.path().display());
    let script = PULL_REQUESTS.replace("case \"$1 $2\" in\n", &(status + "case \"$1 $2\" in\n"));
    let forge = FakeForge::with_remote(&mut stage.home, &repo, &script);
    let (remote, ran) = (forge.path("remote.git"), stage.file("ran"));
    stage.home.set_env("GH_TOKEN", "sekrit");
    let evil = format!("echo $0 $GH_TOKEN >> {ran}; false");
    fs::write(stage.file("evil.sh"), format!("#!/bin/sh\n{evil}\n")).unwrap();
    fs::set_permissions(stage.file("evil.sh"), fs::Permissions::from_mode(0o700)).unwrap();
    let arm = PLANTS_PROGRAMS.replace("EVIL", &stage.file("evil.sh"));
    fs::write(stage.file("arm.sh"), arm).unwrap();
    let line = format!("echo work > work.txt; sh {}", stage.file("arm.sh"));
    let steps =
        format!("[[step]]\nrun = [\"sh\", \"-ec\", {line:?}]\n[[step]]\nreport = \"completed\"\n");
    let ready = "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n";
    stage.configure_talker(
        &format!("{ready}{steps}"),
        "run.pull_every = \"50ms\"\nrun.pull_checks = \"0s\"\n",
    );
    let env = RunEnv { stage, repo };
    let id = env.open_run(&["--land", "pr", "--check", "test -s work.txt"]);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert!(!Path::new(&ran).exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
    let there = env.repo.git(&["ls-remote", remote.to_str().unwrap()]);
    assert!(there.contains(row["commit"].as_str().unwrap()), "{there}");
}

/// Plants programs in all places where a push, or git under `gh`, would look for one, and another
/// push URL. Filters are not included, because work that needs one is refused (see the boundary
/// tests).
const PLANTS_PROGRAMS: &str = r#"
common=$(git rev-parse --path-format=absolute --git-common-dir)
for hook in reference-transaction pre-push post-index-change; do cp EVIL "$common/hooks/$hook" 2>/dev/null || { mkdir -p "$common/hooks"; cp EVIL "$common/hooks/$hook"; }; done
git config core.fsmonitor EVIL
git config core.sshCommand EVIL
git config credential.helper EVIL
git config remote.origin.receivepack EVIL
git init -q --bare "$common/elsewhere.git"
git config remote.origin.url "$common/elsewhere.git"
git config remote.origin.pushurl "$common/elsewhere.git"
"#;

#[test]
fn pull_request_without_remote_is_refused() {
    let env = RunEnv::new("echo work > work.txt");
    env.assert_refused(env.repo.path(), "pr", "has no remote");
}
