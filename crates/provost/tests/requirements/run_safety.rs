//! Runs in repositories with uncommitted work. No state of a checkout is lost, and a run that
//! cannot proceed reports this before it starts.

use std::{fs, os::unix::fs::symlink};

use provost_testkit::harness::{TestRepo, eventually};
use serde_json::json;

use crate::{
    kit::{TestEnv, text},
    run_env::RunEnv,
};

const WORK_LINE: &str = "echo work > work.txt";
const MERGE_FLAGS: [&str; 4] = ["--land", "merge", "--check", "test -s work.txt"];

/// Returns git's view of the user's checkout, including uncommitted changes.
fn checkout_state(site: &RunEnv) -> [String; 5] {
    [
        site.repo.git(&["status", "--porcelain", "--ignored"]),
        site.repo.git(&["diff"]),
        site.repo.git(&["diff", "--cached"]),
        site.repo.git(&["stash", "list"]),
        site.repo.git(&["show", "stash@{0}:README.md"]),
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
    let site = RunEnv::new(WORK_LINE);
    make_dirty(&site.repo);
    let before = checkout_state(&site);
    let row = site.wait_sealed(&site.open_run(&MERGE_FLAGS));
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(checkout_state(&site), before);
    let files = ["work.txt", "mine.ignored", "deep/new.txt"].map(|file| site.repo.read(file));
    assert_eq!(files, ["work\n", "kept to myself\n", "new\n"]);
    // The agent did not see any of these changes, and none was committed.
    let committed = site.repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(committed.lines().collect::<Vec<_>>(), [".gitignore", "README.md", "work.txt"]);
}

#[test]
fn run_warns_about_uncommitted_files_only() {
    let site = RunEnv::new(WORK_LINE);
    let clean = site.wait_sealed(&site.open_run(&["--name", "clean"]));
    assert_eq!(clean["warnings"], json!([]), "{clean:#}");
    make_dirty(&site.repo);
    site.repo.write("other.txt", "new\n");
    let output = site.run(&["--name", "dirty"]);
    let row = output.ok().json()["run"].clone();
    let [warning] = &row["warnings"].as_array().unwrap()[..] else { panic!("{row:#}") };
    let warning = warning.as_str().unwrap();
    assert!(warning.contains("without your uncommitted changes: README.md,"), "{warning}");
    assert!(warning.ends_with(" and 1 more") && !warning.contains("ignored"), "{warning}");
    assert!(output.stderr.is_empty() || output.stderr.contains(warning), "{output:#?}");
    site.wait_sealed(row["id"].as_str().unwrap());
}

#[test]
fn old_run_leftovers_are_removed() {
    let site = RunEnv::new(WORK_LINE);
    let id = site.open_run(&["--check", "true"]);
    site.wait_sealed(&id);
    let summaries = site.stage.home.path().join("runs").join(&id);
    eventually("the summary", || summaries.join("summary-1.md").exists().then_some(()));
    let young = site.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert!(summaries.exists(), "{young:#}");
    let old = site.stage.provost(&["gc", "--apply", "--older-than", "0s", "--json"]).ok().json();
    let removed = old["removed"].as_array().unwrap();
    let named = removed.iter().filter(|one| one["run"] == *id).count();
    assert_eq!((named, summaries.exists()), (1, false), "{old:#}");
    let gone = site.stage.provost(&["summary", &id]);
    assert!(gone.assert_code(3).stderr.contains("provost gc"), "{gone:#?}");
}

#[test]
fn changed_file_blocking_a_merge_is_named_and_kept() {
    let site = RunEnv::new("echo work > work.txt; echo theirs > README.md");
    make_dirty(&site.repo);
    let (before, head) = (checkout_state(&site), site.repo.head());
    let id = site.open_run(&MERGE_FLAGS);
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("README.md") && detail.contains("commit or stash"), "{detail}");
    assert_eq!((checkout_state(&site), site.repo.head()), (before, head));
    // The work is kept too.
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(site.repo.git(&["show", &format!("{commit}:README.md")]), "theirs");
}

#[test]
fn unpushed_commits_stay_unpushed() {
    let site = RunEnv::new(WORK_LINE);
    let remote = site.stage.home.root().join("remote.git");
    site.repo.git(&["init", "--quiet", "--bare", &text(&remote)]);
    site.repo.git(&["remote", "add", "origin", &text(&remote)]);
    site.repo.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    let pushed = site.repo.head();
    site.repo.write("mine.txt", "mine\n");
    let unpushed = site.repo.commit("Mine, and not pushed");
    for land in ["branch", "merge"] {
        let row = site.wait_sealed(&site.open_run(&["--land", land, "--allow-empty-diff"]));
        assert_eq!(row["state"], "completed", "{row:#}");
        let branch = row["landing"]["branch"].as_str().unwrap();
        site.repo.git(&["merge-base", "--is-ancestor", &unpushed, branch]);
    }
    let there = site.repo.git(&["ls-remote", "origin"]);
    assert!(there.lines().all(|line| line.starts_with(&pushed)), "{there}");
}

#[test]
fn detached_head_stays_where_it_is() {
    let site = RunEnv::new(WORK_LINE);
    let main = site.repo.head();
    site.repo.git(&["switch", "--quiet", "--detach"]);
    site.repo.write("mine.txt", "mine\n");
    let mine = site.repo.commit("On no branch");
    site.assert_refused(site.repo.path(), "merge", "no branch is checked out");
    let row =
        site.wait_sealed(&site.open_run(&["--land", "branch", "--check", "test -s work.txt"]));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(site.repo.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    let branch = row["landing"]["branch"].as_str().unwrap();
    let parents = site.repo.git(&["rev-parse", &format!("{branch}^")]);
    assert_eq!(
        (site.repo.head(), parents, site.repo.git(&["rev-parse", "main"])),
        (mine.clone(), mine, main)
    );
}

#[test]
fn bare_and_empty_repositories_are_refused() {
    let site = RunEnv::new(WORK_LINE);
    let (bare, young) =
        (site.stage.home.root().join("bare.git"), site.stage.home.root().join("young"));
    site.repo.git(&["init", "--quiet", "--bare", &text(&bare)]);
    site.repo.git(&["init", "--quiet", &text(&young)]);
    fs::write(young.join("mine.txt"), "mine\n").unwrap();
    for land in ["branch", "merge", "pr"] {
        site.assert_refused(&bare, land, "bare repository");
        site.assert_refused(&young, land, "git commit --allow-empty");
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
    let site = RunEnv::with_script(stage, repo, &line);
    let row = site.wait_sealed(&site.open_run(&MERGE_FLAGS));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let modes = site.repo.git(&["ls-tree", "HEAD", "own", "there"]);
    assert!(modes.lines().all(|line| line.starts_with("120000 ")), "{modes}");
    assert_eq!(
        site.repo.git(&["log", "--all", "--format=%H", "-S", "secret\n", "--", "there/secret"]),
        ""
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret\n");
}

#[test]
fn merge_does_not_follow_user_symlinks() {
    let site = RunEnv::new("echo work > work.txt; mkdir data; echo theirs > data/secret");
    let outside = site.stage.home.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    symlink(&outside, site.repo.path().join("data")).unwrap();
    let head = site.repo.head();
    let row = site.wait_sealed(&site.open_run(&MERGE_FLAGS));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("data"), "{row:#}");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret\n");
    assert_eq!(fs::read_link(site.repo.path().join("data")).unwrap(), outside);
    assert_eq!(site.repo.head(), head);
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
    let site = RunEnv::with_script(stage, repo, WORK_LINE);
    site.repo.write("lib/inner.txt", "changed by the user\n");
    site.repo.write("lib/new.txt", "new\n");
    let check = "test -s work.txt && test \"$(cat lib/inner.txt)\" = inner";
    let row = site.wait_sealed(&site.open_run(&["--land", "merge", "--check", check]));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(
        site.repo.read("lib/inner.txt") + &site.repo.read("lib/new.txt"),
        "changed by the user\nnew\n"
    );
    assert_eq!(site.repo.git(&["rev-parse", "HEAD:lib"]), inner);
    assert_eq!(site.repo.read("work.txt"), "work\n");
}

#[test]
fn sparse_checkout_stays_sparse_and_complete() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write("here/a.txt", "a\n");
    repo.write("elsewhere/b.txt", "b\n");
    repo.commit("Two directories");
    repo.git(&["sparse-checkout", "set", "--cone", "here"]);
    let site = RunEnv::with_script(
        stage,
        repo,
        "echo work > work.txt; mkdir -p elsewhere; echo c > elsewhere/c.txt",
    );
    let row = site.wait_sealed(&site.open_run(&MERGE_FLAGS));
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let files = site.repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]);
    let expected = ["README.md", "elsewhere/b.txt", "elsewhere/c.txt", "here/a.txt", "work.txt"];
    assert_eq!(files.lines().collect::<Vec<_>>(), expected);
    assert_eq!(site.repo.git(&["sparse-checkout", "list"]), "here");
    assert!(!site.repo.path().join("elsewhere").exists(), "what was left out stays out");
    assert!(site.repo.is_clean());
}

#[test]
fn branch_taken_before_landing_is_left_and_named() {
    let go = "while ! test -e go; do sleep 0.05; done";
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let line = format!("cd {}; {go}; cd -; {WORK_LINE}", stage.home.root().display());
    let site = RunEnv::with_script(stage, repo, &line);
    let id = site.open_run(&["--check", "test -s work.txt"]);
    let spec = site.stage.events_of(&id, "run.opened")[0]["data"]["spec"].clone();
    let branch = spec["branch"].as_str().unwrap();
    site.repo.write("mine.txt", "mine\n");
    let mine = site.repo.commit("Mine");
    site.repo.git(&["branch", branch]);
    fs::write(site.stage.home.root().join("go"), "").unwrap();
    let row = site.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("landing")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains(branch) && detail.contains("rename or delete"), "{detail}");
    assert_eq!(site.repo.git(&["rev-parse", branch]), mine);
    site.repo.git(&["branch", "--move", branch, "kept"]);
    site.stage.home.provost(&["resume", &id]).ok();
    let row = site.stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(site.repo.git(&["show", &format!("{branch}:work.txt")]), "work");
    assert_eq!(site.repo.git(&["rev-parse", "kept"]), mine);
}

#[test]
fn branch_name_conflict_is_left_and_named() {
    let site = RunEnv::new(WORK_LINE);
    site.repo.git(&["branch", "provost"]);
    let row = site.wait_sealed(&site.open_run(&[]));
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("work")), "{row:#}");
    let detail = row["detail"].as_str().unwrap();
    assert!(detail.contains("(launch): ") && detail.contains("refs/heads/provost"), "{detail}");
    assert_eq!(site.repo.branches(), ["main", "provost"]);
}

#[test]
fn resumable_run_leftovers_are_kept_until_old() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let begun = stage.home.root().join("begun");
    let first = format!("echo half > work.txt; touch {}; sleep 1000", begun.display());
    let line = format!("test -e work.txt || {{ {first}; }}; echo done >> work.txt");
    let site = RunEnv::with_script(stage, repo, &line);
    let id = site.open_run(&["--check", "grep -q done work.txt"]);
    eventually("the agent's first half", || begun.exists().then_some(()));
    site.stage.provost(&["cancel", &id]).ok();
    assert_eq!(site.wait_sealed(&id)["state"], "cancelled");
    let found = site.stage.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!(found["removed"], json!([]), "{found:#}");
    assert_eq!(found["kept"][0]["reason"], "the run of the session can be resumed", "{found:#}");
    site.stage.provost(&["resume", &id]).ok();
    let row = site.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    let work = site.repo.git(&["show", &format!("{commit}:work.txt")]);
    assert_eq!(work, "half\ndone", "it continued from the existing work");
}
