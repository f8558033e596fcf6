//! Snapshots of a user's own checkout, which stays identical byte for byte.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use provost_git::{CheckoutSnapshot, OngoingOperation, SnapshotLocation, snapshot_user_checkout};

use crate::test_env::{GitTestEnv, contents, keep, says, write};

#[test]
fn staged_and_untracked_work_is_kept_untouched() {
    let env = GitTestEnv::new();
    env.write("b.txt", "b\n");
    env.commit_all("second");
    env.write("staged.txt", "staged\n");
    env.user(&env.top(), &["add", "staged.txt"]);
    env.write("a.txt", "unstaged\n");
    env.write("untracked\nfile", "untracked\n");
    env.write("x.log", "ignored\n");
    fs::remove_file(env.top().join("b.txt")).unwrap();
    let snapshot = take_untouched(&env);
    assert!(snapshot.changed);
    assert_eq!(snapshot.parent, Some(env.rev("HEAD")));
    assert_eq!(env.rev("refs/provost/keep/k"), snapshot.commit);
    assert_eq!(snapshot.place, SnapshotLocation::Beside { kept: keep("k"), ongoing: None });
    assert_eq!(
        files(&env, &snapshot),
        [".gitignore", "a.txt", "staged.txt", "\"untracked\\nfile\""]
    );
    assert_eq!(show(&env, &snapshot, "a.txt"), "unstaged");
}

#[test]
fn same_state_same_commit_other_state_kept_too() {
    let env = GitTestEnv::new();
    env.write("a.txt", "two\n");
    let first = take_untouched(&env);
    assert_eq!(take_untouched(&env), first);
    env.write("a.txt", "three\n");
    let second = take_untouched(&env);
    assert_eq!(second.place, SnapshotLocation::Beside { kept: keep("k-2"), ongoing: None });
    assert_eq!(env.rev("refs/provost/keep/k"), first.commit);
}

#[test]
fn clean_checkout_is_head() {
    let env = GitTestEnv::new();
    let snapshot = take_untouched(&env);
    assert_eq!((snapshot.changed, &snapshot.commit), (false, &env.rev("HEAD")));
    assert_eq!(env.rev("refs/provost/keep/k"), snapshot.commit);
}

#[test]
fn a_repository_without_commits_or_index_works() {
    let env = GitTestEnv::empty();
    env.write("a.txt", "one\n");
    let snapshot = take_untouched(&env);
    assert_eq!((snapshot.parent.as_ref(), snapshot.changed), (None, true));
    assert_eq!(files(&env, &snapshot), ["a.txt"]);
    assert!(!env.top().join(".git/index").exists());
    assert_eq!(env.try_user(&env.top(), &["rev-parse", "--verify", "HEAD"]).0, None);
}

#[test]
fn sparse_checkout_omissions_are_not_deletions() {
    for mode in ["--cone", "--no-cone"] {
        let env = GitTestEnv::new();
        env.write("in/file", "in\n");
        env.write("out/file", "out\n");
        env.commit_all("dirs");
        env.user(&env.top(), &["sparse-checkout", "set", mode, "in"]);
        assert!(!env.top().join("out").exists());
        env.write("in/file", "changed\n");
        env.write("elsewhere/new", "outside of the patterns\n");
        let snapshot = take_untouched(&env);
        let listed = files(&env, &snapshot);
        assert!(listed.contains(&"out/file".to_owned()), "{mode}: {listed:?}");
        assert!(listed.contains(&"elsewhere/new".to_owned()), "{mode}: {listed:?}");
        assert_eq!(show(&env, &snapshot, "in/file"), "changed");
    }
}

#[test]
fn a_submodule_stays_a_link_to_its_commit() {
    let env = GitTestEnv::new();
    env.add_submodule();
    write(&env.top().join("sub/inner.txt"), "changed inside\n");
    env.write("a.txt", "two\n");
    let snapshot = take_untouched(&env);
    let link = |name: &str| env.user(&env.top(), &["ls-tree", name, "sub"]);
    assert!(link(snapshot.commit.as_str()).starts_with("160000 commit"));
    assert_eq!(link(snapshot.commit.as_str()), link("HEAD"));
    fs::remove_dir_all(env.top().join("sub")).unwrap();
    fs::create_dir(env.top().join("sub")).unwrap();
    assert_eq!(link(take_untouched(&env).commit.as_str()), link("HEAD"));
}

#[test]
fn links_out_of_the_tree_are_not_followed() {
    let env = GitTestEnv::new();
    write(&env.path("outside/secret"), "secret\n");
    symlink(env.path("outside"), env.top().join("dir")).unwrap();
    symlink(env.path("outside/secret"), env.top().join("file")).unwrap();
    symlink("/nowhere", env.top().join("dangling")).unwrap();
    let snapshot = take_untouched(&env);
    assert_eq!(files(&env, &snapshot), [".gitignore", "a.txt", "dangling", "dir", "file"]);
    assert_eq!(show(&env, &snapshot, "dir"), env.path("outside").to_str().unwrap());
}

#[test]
fn conflicts_stay_conflicts() {
    let env = GitTestEnv::new();
    env.user(&env.top(), &["checkout", "-q", "-b", "other"]);
    env.write("a.txt", "theirs\n");
    env.commit_all("theirs");
    env.user(&env.top(), &["checkout", "-q", "main"]);
    env.write("a.txt", "ours\n");
    env.commit_all("ours");
    assert_eq!(env.try_user(&env.top(), &["merge", "-q", "other"]).0, None);
    let snapshot = take_untouched(&env);
    assert_eq!(
        snapshot.place,
        SnapshotLocation::Beside { kept: keep("k"), ongoing: Some(OngoingOperation::Merge) }
    );
    assert!(show(&env, &snapshot, "a.txt").contains(">>>>>>>"));
    assert_ne!(env.user(&env.top(), &["ls-files", "--unmerged"]), "");
}

#[test]
fn change_in_the_index_timestamp_tick_is_seen() {
    let env = GitTestEnv::new();
    for round in 0..20 {
        let name = format!("racy-{round}");
        env.write(&name, "old");
        env.user(&env.top(), &["add", &name]);
        env.write(&name, "new");
        let snapshot = take_untouched(&env);
        assert_eq!(show(&env, &snapshot, &name), "new", "round {round}");
    }
}

/// Takes a snapshot and asserts that none of the user's files has changed.
fn take_untouched(env: &GitTestEnv) -> CheckoutSnapshot {
    let before = users(env);
    let snapshot =
        snapshot_user_checkout(&env.git, &env.project(), &keep("k"), &says("work")).unwrap();
    let after = users(env);
    let names = |files: &[(PathBuf, Vec<u8>)]| {
        files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
    assert!(before == after, "a file of the user's has changed");
    snapshot
}

/// Returns all files except git's objects and Provost's own refs. Index, HEAD, branches, logs and
/// configuration are included.
fn users(env: &GitTestEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let git = env.top().join(".git");
    let own = [git.join("objects"), git.join("refs/provost")];
    contents(&env.top())
        .into_iter()
        .filter(|(path, _)| !own.iter().any(|own| path.starts_with(own)))
        .collect()
}

fn files(env: &GitTestEnv, snapshot: &CheckoutSnapshot) -> Vec<String> {
    let listed = env.user(&env.top(), &["ls-tree", "-r", "--name-only", snapshot.commit.as_str()]);
    listed.lines().map(str::to_owned).collect()
}

fn show(env: &GitTestEnv, snapshot: &CheckoutSnapshot, name: &str) -> String {
    env.user(&env.top(), &["show", &format!("{}:{name}", snapshot.commit)])
}
