//! Submodules in Provost's checkouts come from this machine, or stay empty and are listed.

use std::fs;

use provost_git::{
    BranchFate, Pool, absent_submodules, checkout_detached, removal_risk, snapshot_worktree,
    submodules, worktree_add,
};

use crate::test_env::{GitTestEnv, branch, commit_all, keep, says, write};

#[test]
fn a_worktree_has_the_files_of_its_submodules() {
    let env = GitTestEnv::new();
    env.add_submodule();
    // The origin is removed, so nothing can be fetched from it.
    fs::remove_dir_all(env.path("origin")).unwrap();
    let worktree = env.worktree();
    assert_eq!(fs::read_to_string(worktree.path.join("sub/inner.txt")).unwrap(), "inner\n");
    assert_eq!(env.user(&worktree.path, &["status", "--porcelain"]), "");
    let status = env.user(&worktree.path, &["submodule", "status"]);
    assert!(status.trim_start().starts_with(|c: char| c.is_ascii_hexdigit()), "{status:?}");
    let removal = removal_risk(&env.git, &worktree, BranchFate::Delete).unwrap();
    assert_eq!(removal.risks, [], "nothing in it is the worktree's own");
}

#[test]
fn a_submodule_of_a_submodule_is_filled_too() {
    let env = GitTestEnv::new();
    let origin = env.add_submodule();
    let deep = env.path("deep");
    fs::create_dir(&deep).unwrap();
    env.user(&deep, &["init", "-q", "-b", "main"]);
    write(&deep.join("deep.txt"), "deep\n");
    commit_all(&env, &deep, "deep");
    env.user(&origin, &["submodule", "--quiet", "add", deep.to_str().unwrap(), "inside"]);
    commit_all(&env, &origin, "with another");
    env.user(&env.top(), &["submodule", "--quiet", "update", "--remote", "--init", "--recursive"]);
    let commit = env.commit_all("newer");
    let pool = Pool::new(&env.path("pool")).unwrap();
    for warm in [false, true] {
        let slot = checkout_detached(&env.git, &env.project(), &pool, "0", &commit, &[]).unwrap();
        assert_eq!(slot.warm, warm);
        let text = fs::read_to_string(slot.path.join("sub/inside/deep.txt")).unwrap();
        assert_eq!(text, "deep\n");
    }
}

#[test]
fn absent_submodule_stays_empty_and_is_named() {
    let env = GitTestEnv::new();
    env.add_submodule();
    assert_eq!(absent_submodules(&env.git, &env.project()).unwrap(), []);
    env.user(&env.top(), &["submodule", "--quiet", "deinit", "-f", "sub"]);
    assert_eq!(absent_submodules(&env.git, &env.project()).unwrap(), [], "its objects are here");
    fs::remove_dir_all(env.top().join(".git/modules")).unwrap();
    let absent = absent_submodules(&env.git, &env.project()).unwrap();
    let absent: Vec<String> = absent.iter().map(ToString::to_string).collect();
    assert_eq!(absent, ["sub"]);
    let worktree = env.worktree();
    assert_eq!(fs::read_dir(worktree.path.join("sub")).unwrap().count(), 0);
}

#[test]
fn absent_submodule_commit_error_has_a_hint() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let nowhere = "1234567890123456789012345678901234567890";
    let entry = format!("160000,{nowhere},sub");
    env.user(&env.top(), &["update-index", "--cacheinfo", &entry]);
    env.user(&env.top(), &["commit", "-qm", "a pointer to nothing"]);
    let why = absent_submodules(&env.git, &env.project()).unwrap_err();
    assert!(matches!(&why, submodules::Error::NoCommit { .. }), "{why:?}");
    assert!(why.hint().unwrap().contains("git submodule update"), "{why}");
    let place = env.path("trees/w1");
    let made = worktree_add(&env.git, &env.project(), &place, &branch("provost/t1"), "HEAD");
    assert!(made.unwrap_err().to_string().contains(nowhere));
}

#[test]
fn submodule_commits_are_checked_and_kept() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    write(&worktree.path.join("sub/inner.txt"), "better\n");
    commit_all(&env, &worktree.path.join("sub"), "better");
    let taken = snapshot_worktree(&env.git, &worktree, &says("moved"), &keep("s1")).unwrap();
    let pool = Pool::new(&env.path("pool")).unwrap();
    let (project, commit) = (env.project(), &taken.commit);
    let why = checkout_detached(&env.git, &project, &pool, "0", commit, &[]).unwrap_err();
    assert!(why.to_string().contains("not on this machine"), "{why}");
    let pool = pool.with_worktree(worktree.clone());
    let slot = checkout_detached(&env.git, &project, &pool, "0", commit, &[]).unwrap();
    assert_eq!(fs::read_to_string(slot.path.join("sub/inner.txt")).unwrap(), "better\n");
    let removal = removal_risk(&env.git, &worktree, BranchFate::Keep).unwrap();
    let risks: Vec<String> = removal.risks.iter().map(ToString::to_string).collect();
    assert!(risks.iter().any(|risk| risk.contains("submodule sub")), "{risks:?}");
}

#[test]
fn submodule_changes_are_listed_as_left_out() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    let left_out = || {
        let taken = snapshot_worktree(&env.git, &worktree, &says("x"), &keep("s1")).unwrap();
        taken.left_out.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(left_out().is_empty());
    write(&worktree.path.join("sub/new.txt"), "new\n");
    assert_eq!(left_out(), ["sub"]);
    commit_all(&env, &worktree.path.join("sub"), "new");
    assert!(left_out().is_empty(), "its commit is recorded");
    write(&worktree.path.join("sub/inner.txt"), "better\n");
    env.user(&worktree.path.join("sub"), &["update-index", "--assume-unchanged", "inner.txt"]);
    assert_eq!(left_out(), ["sub"]);
}

#[test]
fn half_made_submodule_is_created_again() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    // This is the state of an interrupted creation: the worktree is locked as unfinished, and the
    // submodule is incomplete.
    env.user(&env.top(), &["worktree", "unlock", worktree.path.to_str().unwrap()]);
    let path = worktree.path.to_str().unwrap();
    env.user(&env.top(), &["worktree", "lock", "--reason", "provost: being made", path]);
    fs::remove_file(worktree.path.join("sub/inner.txt")).unwrap();
    fs::remove_file(worktree.git_dir.join("modules/sub/HEAD")).unwrap();
    assert_eq!(env.worktree(), worktree);
    assert_eq!(fs::read_to_string(worktree.path.join("sub/inner.txt")).unwrap(), "inner\n");
}
