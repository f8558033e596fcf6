//! Creating worktrees: once, again, and after a crash at any step.

use std::fs;
use std::os::unix::fs::symlink;

use provost_git::worktree::Error;
use provost_git::{Worktree, unique_branch, worktree_add, worktree_find};

use crate::test_env::{GitTestEnv, branch, commit_all, write};

#[test]
fn worktree_is_created_on_own_branch_and_locked() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    assert_eq!(worktree.path, env.path("trees/w1"));
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(env.user(&worktree.path, &["symbolic-ref", "HEAD"]), "refs/heads/provost/t1");
    assert_eq!(env.user(&worktree.path, &["status", "--porcelain"]), "");
    let list = env.user(&env.top(), &["worktree", "list", "--porcelain"]);
    assert!(list.ends_with("locked provost"), "{list}");
    assert_eq!(env.user(&env.top(), &["symbolic-ref", "HEAD"]), "refs/heads/main");
    let found = worktree_find(&env.git, &env.project(), &worktree.path, &worktree.branch).unwrap();
    assert_eq!(found, Some(worktree));
}

#[test]
fn any_commit_can_be_the_base() {
    let env = GitTestEnv::new();
    let first = env.rev("HEAD");
    env.write("a.txt", "two\n");
    env.commit_all("second");
    let (project, path) = (env.project(), env.path("w"));
    let wrong = worktree_add(&env.git, &project, &path, &branch("provost/b"), "--force");
    assert!(matches!(wrong, Err(Error::NoSuchBase { .. })));
    let made =
        worktree_add(&env.git, &project, &path, &branch("provost/b"), first.as_str()).unwrap();
    assert_eq!(fs::read_to_string(made.path.join("a.txt")).unwrap(), "one\n");
}

#[test]
fn worktrees_can_be_created_concurrently() {
    let env = GitTestEnv::new();
    let (project, head) = (env.project(), env.rev("HEAD"));
    std::thread::scope(|scope| {
        for no in 0..16 {
            let (env, project, head) = (&env, &project, &head);
            scope.spawn(move || {
                let (path, name) = (env.path(&format!("w{no}")), format!("provost/w{no}"));
                worktree_add(&env.git, project, &path, &branch(&name), head.as_str()).unwrap();
            });
        }
    });
    let list = env.user(&env.top(), &["worktree", "list"]);
    assert_eq!(list.lines().count(), 17, "{list}");
}

#[test]
fn repeated_call_takes_existing_worktree() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "changed\n");
    let commit = commit_all(&env, &worktree.path, "work");
    write(&worktree.path.join("new.txt"), "new\n");
    env.user(&env.top(), &["worktree", "unlock", worktree.path.to_str().unwrap()]);
    assert_eq!(env.worktree(), worktree);
    assert_eq!(env.rev("provost/t1"), commit);
    assert_eq!(fs::read_to_string(worktree.path.join("new.txt")).unwrap(), "new\n");
    assert!(env.user(&env.top(), &["worktree", "list", "--porcelain"]).contains("locked provost"));
}

#[test]
fn lost_directory_is_restored_at_branch_tip() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "changed\n");
    let commit = commit_all(&env, &worktree.path, "work");
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(env.worktree().path, worktree.path);
    assert_eq!(env.rev("provost/t1"), commit);
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "changed\n");
}

#[test]
fn worktree_is_finished_after_crash_at_any_step() {
    // The states after a crash: registered only; on a branch that does not exist yet; on its new
    // branch; in the middle of the checkout.
    for steps in 1..=4 {
        let env = GitTestEnv::new();
        let path = env.path("trees/w1");
        half_make(&env, steps);
        let worktree = env.worktree();
        assert_eq!(worktree.path, path, "after step {steps}");
        assert_eq!(
            env.user(&path, &["symbolic-ref", "HEAD"]),
            "refs/heads/provost/t1",
            "after step {steps}"
        );
        assert_eq!(env.user(&path, &["status", "--porcelain"]), "", "after step {steps}");
        assert_eq!(env.rev("provost/t1"), env.rev("main"), "after step {steps}");
        let list = env.user(&env.top(), &["worktree", "list", "--porcelain"]);
        assert!(list.ends_with("locked provost"), "after step {steps}: {list}");
    }
}

fn half_make(env: &GitTestEnv, steps: usize) {
    let path = env.path("trees/w1");
    let reason = ["--lock", "--reason", "provost: being made"];
    let add = ["worktree", "add", "-q", "--no-checkout", "--detach"];
    env.user(&env.top(), &[&add[..], &reason, &[path.to_str().unwrap()]].concat());
    if steps > 1 {
        env.user(&path, &["symbolic-ref", "HEAD", "refs/heads/provost/t1"]);
    }
    if steps > 2 {
        env.user(&path, &["update-ref", "refs/heads/provost/t1", "main"]);
    }
    if steps > 3 {
        write(&path.join("a.txt"), "o");
        for lock in ["index.lock", "HEAD.lock", "ORIG_HEAD.lock"] {
            write(&env.top().join(".git/worktrees/w1").join(lock), "");
        }
    }
}

#[test]
fn unfinished_registration_is_created_again() {
    let env = GitTestEnv::new();
    let path = env.path("trees/w1");
    env.user(
        &env.top(),
        &["worktree", "add", "-q", "--no-checkout", "--detach", path.to_str().unwrap()],
    );
    write(&env.top().join(".git/worktrees/w1/locked"), "initializing");
    let worktree = env.worktree();
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "one\n");
}

#[test]
fn empty_directory_is_used_and_full_one_refused() {
    let env = GitTestEnv::new();
    let (empty, full, link) = (env.path("empty"), env.path("full"), env.path("link"));
    fs::create_dir(&empty).unwrap();
    write(&full.join("precious"), "mine");
    symlink(&empty, &link).unwrap();
    let add = |path, name| worktree_add(&env.git, &env.project(), path, &branch(name), "HEAD");
    assert!(matches!(add(&full, "provost/a"), Err(Error::Occupied { .. })));
    assert_eq!(fs::read_to_string(full.join("precious")).unwrap(), "mine");
    assert!(matches!(add(&link, "provost/a"), Err(Error::Occupied { .. })));
    assert_eq!(env.try_user(&env.top(), &["rev-parse", "--verify", "provost/a"]).0, None);
    assert_eq!(add(&empty, "provost/a").unwrap().path, empty);
}

#[test]
fn work_without_an_index_is_never_reset() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "precious\n");
    fs::remove_file(worktree.git_dir.join("index")).unwrap();
    env.worktree();
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "precious\n");
}

#[test]
fn taken_branch_is_an_error_and_free_one_found() {
    let env = GitTestEnv::new();
    env.user(&env.top(), &["branch", "provost/t1"]);
    env.user(&env.top(), &["branch", "provost/t1-2"]);
    env.user(&env.top(), &["branch", "provost/dir/leaf"]);
    let (project, path) = (env.project(), env.path("trees/w1"));
    let error = worktree_add(&env.git, &project, &path, &branch("provost/t1"), "HEAD").unwrap_err();
    assert!(matches!(&error, Error::BranchTaken { branch } if branch.as_str() == "provost/t1"));
    assert!(error.hint().is_some());
    assert!(!path.exists());
    let unique = |name| unique_branch(&env.git, &project, &branch(name)).unwrap().to_string();
    assert_eq!(unique("provost/t1"), "provost/t1-3");
    assert_eq!(unique("provost/dir"), "provost/dir-2");
    assert_eq!(unique("provost/t2"), "provost/t2");
    worktree_add(&env.git, &project, &path, &branch(&unique("provost/t1")), "HEAD").unwrap();
}

#[test]
fn a_worktree_on_another_branch_is_not_taken() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "-b", "elsewhere"]);
    let again = worktree_add(&env.git, &env.project(), &worktree.path, &worktree.branch, "HEAD");
    assert!(
        matches!(again, Err(Error::OnOtherBranch { ref on, .. }) if on == "refs/heads/elsewhere"),
        "{again:?}"
    );
}

#[test]
fn paths_inside_repository_are_refused() {
    let env = GitTestEnv::new();
    let worktree: Worktree = env.worktree();
    symlink(env.top(), env.path("way-in")).unwrap();
    let inside = [
        env.top().join("w"),
        env.top().join(".git/w"),
        env.path("way-in/w"),
        worktree.path.join("w"),
    ];
    for path in inside.iter().map(|path| path.as_path()).chain(["relative/w".as_ref()]) {
        let made = worktree_add(&env.git, &env.project(), path, &branch("provost/in"), "HEAD");
        assert!(matches!(made, Err(Error::BadPath { .. })), "{path:?}: {made:?}");
    }
}

#[test]
fn without_commits_there_is_no_worktree() {
    let env = GitTestEnv::empty();
    let made = worktree_add(&env.git, &env.project(), &env.path("w"), &branch("provost/a"), "HEAD");
    let error = made.unwrap_err();
    assert!(matches!(error, Error::Project(provost_git::project::Error::NoCommits(_))));
    assert!(error.hint().unwrap().contains("first commit"));
}
