//! Creating worktrees: once, again, and after a crash at any step.

use std::fs;
use std::os::unix::fs::symlink;

use provost_git::worktree::Error;
use provost_git::{Worktree, unique_branch, worktree_add, worktree_find};

use crate::test_env::{GitTestEnv, branch, commit_all, write};

#[test]
fn worktree_is_created_on_own_branch_and_locked() {
    let lab = GitTestEnv::new();
    let worktree = lab.worktree();
    assert_eq!(worktree.path, lab.path("trees/w1"));
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(lab.user(&worktree.path, &["symbolic-ref", "HEAD"]), "refs/heads/provost/t1");
    assert_eq!(lab.user(&worktree.path, &["status", "--porcelain"]), "");
    let list = lab.user(&lab.top(), &["worktree", "list", "--porcelain"]);
    assert!(list.ends_with("locked provost"), "{list}");
    assert_eq!(lab.user(&lab.top(), &["symbolic-ref", "HEAD"]), "refs/heads/main");
    let found = worktree_find(&lab.git, &lab.project(), &worktree.path, &worktree.branch).unwrap();
    assert_eq!(found, Some(worktree));
}

#[test]
fn any_commit_can_be_the_base() {
    let lab = GitTestEnv::new();
    let first = lab.rev("HEAD");
    lab.write("a.txt", "two\n");
    lab.commit_all("second");
    let (project, path) = (lab.project(), lab.path("w"));
    let wrong = worktree_add(&lab.git, &project, &path, &branch("provost/b"), "--force");
    assert!(matches!(wrong, Err(Error::NoSuchBase { .. })));
    let made =
        worktree_add(&lab.git, &project, &path, &branch("provost/b"), first.as_str()).unwrap();
    assert_eq!(fs::read_to_string(made.path.join("a.txt")).unwrap(), "one\n");
}

#[test]
fn worktrees_can_be_created_concurrently() {
    let lab = GitTestEnv::new();
    let (project, head) = (lab.project(), lab.rev("HEAD"));
    std::thread::scope(|scope| {
        for no in 0..16 {
            let (lab, project, head) = (&lab, &project, &head);
            scope.spawn(move || {
                let (path, name) = (lab.path(&format!("w{no}")), format!("provost/w{no}"));
                worktree_add(&lab.git, project, &path, &branch(&name), head.as_str()).unwrap();
            });
        }
    });
    let list = lab.user(&lab.top(), &["worktree", "list"]);
    assert_eq!(list.lines().count(), 17, "{list}");
}

#[test]
fn repeated_call_takes_existing_worktree() {
    let lab = GitTestEnv::new();
    let worktree = lab.worktree();
    write(&worktree.path.join("a.txt"), "changed\n");
    let commit = commit_all(&lab, &worktree.path, "work");
    write(&worktree.path.join("new.txt"), "new\n");
    lab.user(&lab.top(), &["worktree", "unlock", worktree.path.to_str().unwrap()]);
    assert_eq!(lab.worktree(), worktree);
    assert_eq!(lab.rev("provost/t1"), commit);
    assert_eq!(fs::read_to_string(worktree.path.join("new.txt")).unwrap(), "new\n");
    assert!(lab.user(&lab.top(), &["worktree", "list", "--porcelain"]).contains("locked provost"));
}

#[test]
fn lost_directory_is_restored_at_branch_tip() {
    let lab = GitTestEnv::new();
    let worktree = lab.worktree();
    write(&worktree.path.join("a.txt"), "changed\n");
    let commit = commit_all(&lab, &worktree.path, "work");
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(lab.worktree().path, worktree.path);
    assert_eq!(lab.rev("provost/t1"), commit);
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "changed\n");
}

#[test]
fn worktree_is_finished_after_crash_at_any_step() {
    // The states after a crash: registered only; on a branch that does not exist yet; on its new
    // branch; in the middle of the checkout.
    for steps in 1..=4 {
        let lab = GitTestEnv::new();
        let path = lab.path("trees/w1");
        half_make(&lab, steps);
        let worktree = lab.worktree();
        assert_eq!(worktree.path, path, "after step {steps}");
        assert_eq!(
            lab.user(&path, &["symbolic-ref", "HEAD"]),
            "refs/heads/provost/t1",
            "after step {steps}"
        );
        assert_eq!(lab.user(&path, &["status", "--porcelain"]), "", "after step {steps}");
        assert_eq!(lab.rev("provost/t1"), lab.rev("main"), "after step {steps}");
        let list = lab.user(&lab.top(), &["worktree", "list", "--porcelain"]);
        assert!(list.ends_with("locked provost"), "after step {steps}: {list}");
    }
}

fn half_make(lab: &GitTestEnv, steps: usize) {
    let path = lab.path("trees/w1");
    let reason = ["--lock", "--reason", "provost: being made"];
    let add = ["worktree", "add", "-q", "--no-checkout", "--detach"];
    lab.user(&lab.top(), &[&add[..], &reason, &[path.to_str().unwrap()]].concat());
    if steps > 1 {
        lab.user(&path, &["symbolic-ref", "HEAD", "refs/heads/provost/t1"]);
    }
    if steps > 2 {
        lab.user(&path, &["update-ref", "refs/heads/provost/t1", "main"]);
    }
    if steps > 3 {
        write(&path.join("a.txt"), "o");
        for lock in ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"] {
            write(&lab.top().join(".git/worktrees/w1").join(lock), "");
        }
    }
}

#[test]
fn unfinished_registration_is_created_again() {
    let lab = GitTestEnv::new();
    let path = lab.path("trees/w1");
    lab.user(
        &lab.top(),
        &["worktree", "add", "-q", "--no-checkout", "--detach", path.to_str().unwrap()],
    );
    write(&lab.top().join(".git/worktrees/w1/locked"), "initializing");
    let worktree = lab.worktree();
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "one\n");
}

#[test]
fn empty_directory_is_used_and_full_one_refused() {
    let lab = GitTestEnv::new();
    let (empty, full, link) = (lab.path("empty"), lab.path("full"), lab.path("link"));
    fs::create_dir(&empty).unwrap();
    write(&full.join("precious"), "mine");
    symlink(&empty, &link).unwrap();
    let add = |path, name| worktree_add(&lab.git, &lab.project(), path, &branch(name), "HEAD");
    assert!(matches!(add(&full, "provost/a"), Err(Error::Occupied { .. })));
    assert_eq!(fs::read_to_string(full.join("precious")).unwrap(), "mine");
    assert!(matches!(add(&link, "provost/a"), Err(Error::Occupied { .. })));
    assert_eq!(lab.try_user(&lab.top(), &["rev-parse", "--verify", "provost/a"]).0, None);
    assert_eq!(add(&empty, "provost/a").unwrap().path, empty);
}

#[test]
fn work_without_an_index_is_never_reset() {
    let lab = GitTestEnv::new();
    let worktree = lab.worktree();
    write(&worktree.path.join("a.txt"), "precious\n");
    fs::remove_file(worktree.git_dir.join("index")).unwrap();
    lab.worktree();
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "precious\n");
}

#[test]
fn taken_branch_is_an_error_and_free_one_found() {
    let lab = GitTestEnv::new();
    lab.user(&lab.top(), &["branch", "provost/t1"]);
    lab.user(&lab.top(), &["branch", "provost/t1-2"]);
    lab.user(&lab.top(), &["branch", "provost/dir/leaf"]);
    let (project, path) = (lab.project(), lab.path("trees/w1"));
    let error = worktree_add(&lab.git, &project, &path, &branch("provost/t1"), "HEAD").unwrap_err();
    assert!(matches!(&error, Error::BranchTaken { branch } if branch.as_str() == "provost/t1"));
    assert!(error.hint().is_some());
    assert!(!path.exists());
    let unique = |name| unique_branch(&lab.git, &project, &branch(name)).unwrap().to_string();
    assert_eq!(unique("provost/t1"), "provost/t1-3");
    assert_eq!(unique("provost/dir"), "provost/dir-2");
    assert_eq!(unique("provost/t2"), "provost/t2");
    worktree_add(&lab.git, &project, &path, &branch(&unique("provost/t1")), "HEAD").unwrap();
}

#[test]
fn a_worktree_on_another_branch_is_not_taken() {
    let lab = GitTestEnv::new();
    let worktree = lab.worktree();
    lab.user(&worktree.path, &["checkout", "-q", "-b", "elsewhere"]);
    let again = worktree_add(&lab.git, &lab.project(), &worktree.path, &worktree.branch, "HEAD");
    assert!(
        matches!(again, Err(Error::OnOtherBranch { ref on, .. }) if on == "refs/heads/elsewhere"),
        "{again:?}"
    );
}

#[test]
fn paths_inside_repository_are_refused() {
    let lab = GitTestEnv::new();
    let worktree: Worktree = lab.worktree();
    symlink(lab.top(), lab.path("way-in")).unwrap();
    let inside = [
        lab.top().join("w"),
        lab.top().join(".git/w"),
        lab.path("way-in/w"),
        worktree.path.join("w"),
    ];
    for path in inside.iter().map(|path| path.as_path()).chain(["relative/w".as_ref()]) {
        let made = worktree_add(&lab.git, &lab.project(), path, &branch("provost/in"), "HEAD");
        assert!(matches!(made, Err(Error::BadPath { .. })), "{path:?}: {made:?}");
    }
}

#[test]
fn without_commits_there_is_no_worktree() {
    let lab = GitTestEnv::empty();
    let made = worktree_add(&lab.git, &lab.project(), &lab.path("w"), &branch("provost/a"), "HEAD");
    let error = made.unwrap_err();
    assert!(matches!(error, Error::Project(provost_git::project::Error::NoCommits(_))));
    assert!(error.hint().unwrap().contains("first commit"));
}
