//! Snapshots of a user's own checkout, which stays identical byte for byte.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use provost_git::{CheckoutSnapshot, OngoingOperation, SnapshotLocation, snapshot_user_checkout};

use crate::test_env::{GitTestEnv, contents, keep, says, write};

#[test]
fn staged_and_untracked_work_is_kept_untouched() {
    let lab = GitTestEnv::new();
    lab.write("b.txt", "b\n");
    lab.commit_all("second");
    lab.write("staged.txt", "staged\n");
    lab.user(&lab.top(), &["add", "staged.txt"]);
    lab.write("a.txt", "unstaged\n");
    lab.write("untracked\nfile", "untracked\n");
    lab.write("x.log", "ignored\n");
    fs::remove_file(lab.top().join("b.txt")).unwrap();
    let snapshot = take_untouched(&lab);
    assert!(snapshot.changed);
    assert_eq!(snapshot.parent, Some(lab.rev("HEAD")));
    assert_eq!(lab.rev("refs/provost/keep/k"), snapshot.commit);
    assert_eq!(snapshot.place, SnapshotLocation::Beside { kept: keep("k"), ongoing: None });
    assert_eq!(
        files(&lab, &snapshot),
        [".gitignore", "a.txt", "staged.txt", "\"untracked\\nfile\""]
    );
    assert_eq!(show(&lab, &snapshot, "a.txt"), "unstaged");
}

#[test]
fn same_state_same_commit_other_state_kept_too() {
    let lab = GitTestEnv::new();
    lab.write("a.txt", "two\n");
    let first = take_untouched(&lab);
    assert_eq!(take_untouched(&lab), first);
    lab.write("a.txt", "three\n");
    let second = take_untouched(&lab);
    assert_eq!(second.place, SnapshotLocation::Beside { kept: keep("k-2"), ongoing: None });
    assert_eq!(lab.rev("refs/provost/keep/k"), first.commit);
}

#[test]
fn clean_checkout_is_head() {
    let lab = GitTestEnv::new();
    let snapshot = take_untouched(&lab);
    assert_eq!((snapshot.changed, &snapshot.commit), (false, &lab.rev("HEAD")));
    assert_eq!(lab.rev("refs/provost/keep/k"), snapshot.commit);
}

#[test]
fn a_repository_without_commits_or_index_works() {
    let lab = GitTestEnv::empty();
    lab.write("a.txt", "one\n");
    let snapshot = take_untouched(&lab);
    assert_eq!((snapshot.parent.as_ref(), snapshot.changed), (None, true));
    assert_eq!(files(&lab, &snapshot), ["a.txt"]);
    assert!(!lab.top().join(".git/index").exists());
    assert_eq!(lab.try_user(&lab.top(), &["rev-parse", "--verify", "HEAD"]).0, None);
}

#[test]
fn sparse_checkout_omissions_are_not_deletions() {
    for mode in ["--cone", "--no-cone"] {
        let lab = GitTestEnv::new();
        lab.write("in/file", "in\n");
        lab.write("out/file", "out\n");
        lab.commit_all("dirs");
        lab.user(&lab.top(), &["sparse-checkout", "set", mode, "in"]);
        assert!(!lab.top().join("out").exists());
        lab.write("in/file", "changed\n");
        lab.write("elsewhere/new", "outside of the patterns\n");
        let snapshot = take_untouched(&lab);
        let listed = files(&lab, &snapshot);
        assert!(listed.contains(&"out/file".to_owned()), "{mode}: {listed:?}");
        assert!(listed.contains(&"elsewhere/new".to_owned()), "{mode}: {listed:?}");
        assert_eq!(show(&lab, &snapshot, "in/file"), "changed");
    }
}

#[test]
fn a_submodule_stays_a_link_to_its_commit() {
    let lab = GitTestEnv::new();
    lab.add_submodule();
    write(&lab.top().join("sub/inner.txt"), "changed inside\n");
    lab.write("a.txt", "two\n");
    let snapshot = take_untouched(&lab);
    let link = |name: &str| lab.user(&lab.top(), &["ls-tree", name, "sub"]);
    assert!(link(snapshot.commit.as_str()).starts_with("160000 commit"));
    assert_eq!(link(snapshot.commit.as_str()), link("HEAD"));
    fs::remove_dir_all(lab.top().join("sub")).unwrap();
    fs::create_dir(lab.top().join("sub")).unwrap();
    assert_eq!(link(take_untouched(&lab).commit.as_str()), link("HEAD"));
}

#[test]
fn links_out_of_the_tree_are_not_followed() {
    let lab = GitTestEnv::new();
    write(&lab.path("outside/secret"), "secret\n");
    symlink(lab.path("outside"), lab.top().join("dir")).unwrap();
    symlink(lab.path("outside/secret"), lab.top().join("file")).unwrap();
    symlink("/nowhere", lab.top().join("dangling")).unwrap();
    let snapshot = take_untouched(&lab);
    assert_eq!(files(&lab, &snapshot), [".gitignore", "a.txt", "dangling", "dir", "file"]);
    assert_eq!(show(&lab, &snapshot, "dir"), lab.path("outside").to_str().unwrap());
}

#[test]
fn conflicts_stay_conflicts() {
    let lab = GitTestEnv::new();
    lab.user(&lab.top(), &["checkout", "-q", "-b", "other"]);
    lab.write("a.txt", "theirs\n");
    lab.commit_all("theirs");
    lab.user(&lab.top(), &["checkout", "-q", "main"]);
    lab.write("a.txt", "ours\n");
    lab.commit_all("ours");
    assert_eq!(lab.try_user(&lab.top(), &["merge", "-q", "other"]).0, None);
    let snapshot = take_untouched(&lab);
    assert_eq!(
        snapshot.place,
        SnapshotLocation::Beside { kept: keep("k"), ongoing: Some(OngoingOperation::Merge) }
    );
    assert!(show(&lab, &snapshot, "a.txt").contains(">>>>>>>"));
    assert_ne!(lab.user(&lab.top(), &["ls-files", "--unmerged"]), "");
}

#[test]
fn change_in_the_index_timestamp_tick_is_seen() {
    let lab = GitTestEnv::new();
    for round in 0..20 {
        let name = format!("racy-{round}");
        lab.write(&name, "old");
        lab.user(&lab.top(), &["add", &name]);
        lab.write(&name, "new");
        let snapshot = take_untouched(&lab);
        assert_eq!(show(&lab, &snapshot, &name), "new", "round {round}");
    }
}

/// Takes a snapshot and asserts that none of the user's files has changed.
fn take_untouched(lab: &GitTestEnv) -> CheckoutSnapshot {
    let before = users(lab);
    let snapshot =
        snapshot_user_checkout(&lab.git, &lab.project(), &keep("k"), &says("work")).unwrap();
    let after = users(lab);
    let names = |files: &[(PathBuf, Vec<u8>)]| {
        files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&after));
    assert!(before == after, "a file of the user's has changed");
    snapshot
}

/// Returns all files except git's objects and Provost's own refs. Index, HEAD, branches, logs and
/// configuration are included.
fn users(lab: &GitTestEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let git = lab.top().join(".git");
    let own = [git.join("objects"), git.join("refs/provost")];
    contents(&lab.top())
        .into_iter()
        .filter(|(path, _)| !own.iter().any(|own| path.starts_with(own)))
        .collect()
}

fn files(lab: &GitTestEnv, snapshot: &CheckoutSnapshot) -> Vec<String> {
    let listed = lab.user(&lab.top(), &["ls-tree", "-r", "--name-only", snapshot.commit.as_str()]);
    listed.lines().map(str::to_owned).collect()
}

fn show(lab: &GitTestEnv, snapshot: &CheckoutSnapshot, name: &str) -> String {
    lab.user(&lab.top(), &["show", &format!("{}:{name}", snapshot.commit)])
}
