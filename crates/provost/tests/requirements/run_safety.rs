//! Runs in repositories with uncommitted work. No state of a checkout is lost, and a run that
//! cannot proceed reports this before it starts.

use std::{fs, os::unix::fs::symlink};

use provost_testkit::harness::{TestRepo, eventually};
use serde_json::json;

use crate::run_env::RunEnv;
use provost_testkit::env::{TestEnv, text};

const WORK_LINE: &str = "echo work > work.txt";
const MERGE_FLAGS: [&str; 4] = ["--land", "merge", "--check", "test -s work.txt"];

/// Returns git's view of the user's checkout, including uncommitted changes.
fn checkout_state(env: &RunEnv) -> [String; 5] {
    [
        env.repo.git(&["status", "--porcelain", "--ignored"]),
        env.repo.git(&["diff"]),
        env.repo.git(&["diff", "--cached"]),
        env.repo.git(&["stash", "list"]),
        env.repo.git(&["show", "stash@{0}:README.md"]),
    ]
}

/// Leaves every kind of change in the user's checkout.
fn make_dirty(repo: &TestRepo) {
    repo.write(".gitignore", "*.ignored\n");
    repo.commit("Ignore");
    repo.write("README.md", "put away\n");
    repo.git(&["stash", "push", "--quiet"]);
    repo.write("README.md", "# Sample\n\nchanged\n");
    repo.write("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    repo.write("staged.txt", "staged\nand changed\n");
    repo.write("deep/new.txt", "new\n");
    repo.write("mine.ignored", "kept to myself\n");
}

#[test]
fn uncommitted_changes_survive_a_merge() {
    let env = RunEnv::new(WORK_LINE);
    make_dirty(&env.repo);
    let before = checkout_state(&env);
    let row = env.wait_sealed(&env.open_run(&MERGE_FLAGS));
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(checkout_state(&env), before);
    let files = ["work.txt", "mine.ignored", "deep/new.txt"].map(|file| env.repo.read(file));
    assert_eq!(files, ["work\n", "kept to myself\n", "new\n"]);
    // The agent did not see any of these changes, and none was committed.
    let committed = env.repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(committed.lines().collect::<Vec<_>>(), [".gitignore", "README.md", "work.txt"]);
}

#[test]
fn run_warns_about_uncommitted_files_only() {
    let env = RunEnv::new(WORK_LINE);
    let clean = env.wait_sealed(&env.open_run(&["--name", "clean"]));
    assert_eq!(clean["warnings"], json!([]), "{clean:#}");
    make_dirty(&env.repo);
    env.repo.write("other.txt", "new\n");
    let output = env.run(&["--name", "dirty"]);
    let row = output.ok().json()["run"].clone();
    let [warning] = &row["warnings"].as_array().unwrap()[..] else { panic!("{row:#}") };
    let warning = warning.as_str().unwrap();
    assert!(warning.contains("without your uncommitted changes: README.md,"), "{warning}");
    assert!(warning.ends_with(" and 1 more") && !warning.contains("ignored"), "{warning}");
    assert!(output.stderr.is_empty() || output.stderr.contains(warning), "{output:#?}");
    env.wait_sealed(row["id"].as_str().unwrap());
}

#[test]
fn old_run_leftovers_are_removed() {
    let env = RunEnv::new(WORK_LINE);
    let id = env.open_run(&["--check", "true"]);
    env.wait_sealed(&id);
    let summaries = env.stage.home.path().join("runs").join(&id);
    eventually("the summary", || summaries.join("summary-1.md").exists().then_some(()));
    let young = env.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert!(summaries.exists(), "{young:#}");
    let old = env.stage.provost(&["gc", "--apply", "--older-than", "0s", "--json"]).ok().json();
    let removed = old["removed"].as_array().unwrap();
    let named = removed.iter().filter(|one| one["run"] == *id).count();
    assert_eq!((named, summaries.exists()), (1, false), "{old:#}");
    let gone = env.stage.provost(&["summary", &id]);
    assert!(gone.assert_code(3).stderr.contains("provost gc"), "{gone:#?}");
}

#[test]
fn changed_file_blocking_a_merge_is_named_and_kept() {
    let env = RunEnv::new("echo work > work.txt; echo theirs > README.md");
    make_dirty(&env.repo);
    let (before, head) = (checkout_state(&env), env.repo.head());
    let id = env.open_run(&MERGE_FLAGS);
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("README.md") && detail.contains("commit or stash"), "{detail}");
    for command in ["monitor", "status", "events"] {
        let shown = env.stage.home.provost(&[command, &id]);
        assert!(shown.stdout.contains("README.md"), "{shown:#?}");
        assert!(!shown.stdout.contains(['␊', '␉']), "{shown:#?}");
    }
    assert_eq!((checkout_state(&env), env.repo.head()), (before, head));
    // The work is kept too.
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(env.repo.git(&["show", &format!("{commit}:README.md")]), "theirs");
}

#[test]
fn unpushed_commits_stay_unpushed() {
    let env = RunEnv::new(WORK_LINE);
    let remote = env.stage.home.root().join("remote.git");
    env.repo.git(&["init", "--quiet", "--bare", &text(&remote)]);
    env.repo.git(&["remote", "add", "origin", &text(&remote)]);
    env.repo.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    let pushed = env.repo.head();
    env.repo.write("mine.txt", "mine\n");
    let unpushed = env.repo.commit("Mine, and not pushed");
    for land in ["branch", "merge"] {
        let row = env.wait_sealed(&env.open_run(&["--land", land, "--allow-empty-diff"]));
        assert_eq!(row["state"], "completed", "{row:#}");
        let branch = row["landing"]["branch"].as_str().unwrap();
        env.repo.git(&["merge-base", "--is-ancestor", &unpushed, branch]);
    }
    let there = env.repo.git(&["ls-remote", "origin"]);
    assert!(there.lines().all(|line| line.starts_with(&pushed)), "{there}");
}

#[test]
fn detached_head_stays_where_it_is() {
    let env = RunEnv::new(WORK_LINE);
    let main = env.repo.head();
    env.repo.git(&["switch", "--quiet", "--detach"]);
    env.repo.write("mine.txt", "mine\n");
    let mine = env.repo.commit("On no branch");
    env.assert_refused(env.repo.path(), "merge", "no branch is checked out");
    let row = env.wait_sealed(&env.open_run(&["--land", "branch", "--check", "test -s work.txt"]));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(env.repo.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    let branch = row["landing"]["branch"].as_str().unwrap();
    let parents = env.repo.git(&["rev-parse", &format!("{branch}^")]);
    assert_eq!(
        (env.repo.head(), parents, env.repo.git(&["rev-parse", "main"])),
        (mine.clone(), mine, main)
    );
}

#[test]
fn bare_and_empty_repositories_are_refused() {
    let env = RunEnv::new(WORK_LINE);
    let (bare, young) =
        (env.stage.home.root().join("bare.git"), env.stage.home.root().join("young"));
    env.repo.git(&["init", "--quiet", "--bare", &text(&bare)]);
    env.repo.git(&["init", "--quiet", &text(&young)]);
    fs::write(young.join("mine.txt"), "mine\n").unwrap();
    for land in ["branch", "merge", "pr"] {
        env.assert_refused(&bare, land, "bare repository");
        env.assert_refused(&young, land, "git commit --allow-empty");
    }
    assert_eq!(fs::read_to_string(young.join("mine.txt")).unwrap(), "mine\n");
    assert!(!young.join(".git/index").exists(), "nothing was added");
}

#[test]
fn outside_symlinks_are_committed_as_links() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let outside = stage.home.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    symlink(&outside, repo.path().join("there")).unwrap();
    repo.commit("A link out of the tree");
    let line = format!("echo work > work.txt; ln -s {}/secret own", outside.display());
    let env = RunEnv::with_script(stage, repo, &line);
    let row = env.wait_sealed(&env.open_run(&MERGE_FLAGS));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let modes = env.repo.git(&["ls-tree", "HEAD", "own", "there"]);
    assert!(modes.lines().all(|line| line.starts_with("120000 ")), "{modes}");
    assert_eq!(
        env.repo.git(&["log", "--all", "--format=%H", "-S", "secret\n", "--", "there/secret"]),
        ""
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret\n");
}

#[test]
fn merge_does_not_follow_user_symlinks() {
    let env = RunEnv::new("echo work > work.txt; mkdir data; echo theirs > data/secret");
    let outside = env.stage.home.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    symlink(&outside, env.repo.path().join("data")).unwrap();
    let head = env.repo.head();
    let row = env.wait_sealed(&env.open_run(&MERGE_FLAGS));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("data"), "{row:#}");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret\n");
    assert_eq!(fs::read_link(env.repo.path().join("data")).unwrap(), outside);
    assert_eq!(env.repo.head(), head);
}

#[test]
fn submodules_keep_user_changes_and_commits() {
    let stage = TestEnv::new();
    let (repo, origin) = (stage.home.repo("work"), stage.home.repo("origin"));
    origin.write("inner.txt", "inner\n");
    origin.commit("Add the inner file");
    let allow = "protocol.file.allow=always";
    repo.git(&["-c", allow, "submodule", "--quiet", "add", &text(origin.path()), "lib"]);
    repo.commit("Add a submodule");
    let inner = repo.git(&["rev-parse", "HEAD:lib"]);
    let env = RunEnv::with_script(stage, repo, WORK_LINE);
    env.repo.write("lib/inner.txt", "changed by the user\n");
    env.repo.write("lib/new.txt", "new\n");
    let check = "test -s work.txt && test \"$(cat lib/inner.txt)\" = inner";
    let row = env.wait_sealed(&env.open_run(&["--land", "merge", "--check", check]));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(
        env.repo.read("lib/inner.txt") + &env.repo.read("lib/new.txt"),
        "changed by the user\nnew\n"
    );
    assert_eq!(env.repo.git(&["rev-parse", "HEAD:lib"]), inner);
    assert_eq!(env.repo.read("work.txt"), "work\n");
}

#[test]
fn sparse_checkout_stays_sparse_and_complete() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write("here/a.txt", "a\n");
    repo.write("elsewhere/b.txt", "b\n");
    repo.commit("Two directories");
    repo.git(&["sparse-checkout", "set", "--cone", "here"]);
    let env = RunEnv::with_script(
        stage,
        repo,
        "echo work > work.txt; mkdir -p elsewhere; echo c > elsewhere/c.txt",
    );
    let row = env.wait_sealed(&env.open_run(&MERGE_FLAGS));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let files = env.repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    let expected = ["README.md", "elsewhere/b.txt", "elsewhere/c.txt", "here/a.txt", "work.txt"];
    assert_eq!(files.lines().collect::<Vec<_>>(), expected);
    assert_eq!(env.repo.git(&["sparse-checkout", "list"]), "here");
    assert!(!env.repo.path().join("elsewhere").exists(), "what was left out stays out");
    assert!(env.repo.is_clean());
}

#[test]
fn branch_taken_before_landing_is_left_and_named() {
    let go = "while ! test -e go; do sleep 0.05; done";
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let line = format!("cd {}; {go}; cd -; {WORK_LINE}", stage.home.root().display());
    let env = RunEnv::with_script(stage, repo, &line);
    let id = env.open_run(&["--check", "test -s work.txt"]);
    let spec = env.stage.events_of(&id, "run.opened")[0]["data"]["spec"].clone();
    let branch = spec["branch"].as_str().unwrap();
    env.repo.write("mine.txt", "mine\n");
    let mine = env.repo.commit("Mine");
    env.repo.git(&["branch", branch]);
    fs::write(env.stage.home.root().join("go"), "").unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains(branch) && detail.contains("rename or delete"), "{detail}");
    assert_eq!(env.repo.git(&["rev-parse", branch]), mine);
    env.repo.git(&["branch", "--move", branch, "kept"]);
    env.stage.home.provost(&["resume", &id]).ok();
    let row = env.stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(env.repo.git(&["show", &format!("{branch}:work.txt")]), "work");
    assert_eq!(env.repo.git(&["rev-parse", "kept"]), mine);
}

#[test]
fn branch_name_conflict_is_left_and_named() {
    let env = RunEnv::new(WORK_LINE);
    env.repo.git(&["branch", "provost"]);
    let row = env.wait_sealed(&env.open_run(&[]));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("work")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("(launch): ") && detail.contains("refs/heads/provost"), "{detail}");
    assert_eq!(env.repo.branches(), ["main", "provost"]);
}

#[test]
fn resumable_run_leftovers_are_kept_until_old() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let begun = stage.home.root().join("begun");
    let first = format!("echo half > work.txt; touch {}; sleep 1000", begun.display());
    let line = format!("test -e work.txt || {{ {first}; }}; echo done >> work.txt");
    let env = RunEnv::with_script(stage, repo, &line);
    let id = env.open_run(&["--check", "grep -q done work.txt"]);
    eventually("the agent's first half", || begun.exists().then_some(()));
    env.stage.provost(&["cancel", &id]).ok();
    assert_eq!(env.wait_sealed(&id)["state"], "cancelled");
    let found = env.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!(found["removed"], json!([]), "{found:#}");
    assert_eq!(found["kept"][0]["reason"], "the run of the session can be resumed", "{found:#}");
    env.stage.provost(&["resume", &id]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    let work = env.repo.git(&["show", &format!("{commit}:work.txt")]);
    assert_eq!(work, "half\ndone", "it continued from the existing work");
}
