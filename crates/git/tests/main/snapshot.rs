//! Commits of an agent's uncommitted files in its worktree.

use std::fs;
use std::os::unix::fs::symlink;

use provost_git::{
    CheckoutSnapshot, OngoingOperation, SnapshotLocation, Worktree, snapshot_worktree,
};

use crate::test_env::{GitTestEnv, commit_all, keep, os, says, write};

#[test]
fn all_but_ignored_files_are_committed() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "two\n");
    write(&worktree.path.join("new/file"), "new\n");
    write(&worktree.path.join("debug.log"), "noise\n");
    let base = env.rev("main");
    let snapshot = take(&env, &worktree);
    assert!(snapshot.changed);
    assert_eq!(snapshot.place, SnapshotLocation::Branch);
    assert_eq!(snapshot.parent, Some(base.clone()));
    assert_eq!(env.rev("provost/t1"), snapshot.commit);
    assert_eq!(env.rev("provost/t1^{tree}"), snapshot.tree);
    assert_eq!(env.rev("main"), base);
    assert_eq!(files(&env, &snapshot), [".gitignore", "a.txt", "new/file"]);
    assert_eq!(env.user(&worktree.path, &["status", "--porcelain"]), "");
    let shown = env.user(&env.top(), &["log", "-1", "--format=%an <%ae> %cn%n%B", "provost/t1"]);
    assert_eq!(shown, "Provost <provost@localhost> Provost\nwork\n\nProvost-Session: s1");
    assert_eq!(fs::read_to_string(worktree.path.join("debug.log")).unwrap(), "noise\n");
}

#[test]
fn nothing_to_commit_is_head() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let unchanged = take(&env, &worktree);
    assert!(!unchanged.changed);
    assert_eq!(unchanged.commit, env.rev("main"));
    write(&worktree.path.join("a.txt"), "two\n");
    let changed = take(&env, &worktree);
    let again = take(&env, &worktree);
    assert!(changed.changed && !again.changed);
    assert_eq!(
        (again.commit, again.tree, again.parent),
        (changed.commit, changed.tree, changed.parent)
    );
}

#[test]
fn strange_names_links_and_modes_are_kept() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let names: [&[u8]; 5] = [b"-rf", b":(exclude)x", b"new\nline", b"raw-\xff", b"red\x1b[31m"];
    for name in names {
        fs::write(worktree.path.join(os(name)), "x").unwrap();
    }
    write(&env.path("secret"), "outside");
    symlink(env.path("secret"), worktree.path.join("out")).unwrap();
    symlink(env.path("home"), worktree.path.join("outdir")).unwrap();
    let snapshot = take(&env, &worktree);
    let listed = env.user(&env.top(), &["ls-tree", "-r", "--name-only", snapshot.commit.as_str()]);
    assert_eq!(listed.lines().count(), 2 + names.len() + 2, "{listed}");
    let link = env.user(&env.top(), &["ls-tree", snapshot.commit.as_str(), "out", "outdir"]);
    assert!(link.lines().all(|line| line.starts_with("120000 blob")), "{link}");
    let target = env.user(&env.top(), &["show", &format!("{}:out", snapshot.commit)]);
    assert_eq!(target, env.path("secret").to_str().unwrap());
}

#[test]
fn a_detached_head_is_committed_on_and_kept() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("a.txt"), "two\n");
    let own = commit_all(&env, &worktree.path, "agent's own");
    let clean = take(&env, &worktree);
    assert_eq!((clean.changed, &clean.commit), (false, &own));
    assert_eq!(clean.place, SnapshotLocation::Detached { kept: keep("k") });
    assert_eq!(env.rev("refs/provost/keep/k"), own);
    write(&worktree.path.join("a.txt"), "three\n");
    let dirty = take(&env, &worktree);
    assert_eq!(dirty.parent, Some(own));
    assert_eq!(dirty.place, SnapshotLocation::Detached { kept: keep("k") });
    assert_eq!(env.rev("refs/provost/keep/k"), dirty.commit);
    assert_eq!(env.user(&worktree.path, &["rev-parse", "HEAD"]), dirty.commit.as_str());
    assert_eq!((env.rev("provost/t1"), dirty.strayed), (dirty.commit, None));
}

#[test]
fn keep_ref_never_drops_another_commit() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("a.txt"), "one way\n");
    let first = take(&env, &worktree);
    assert_eq!(first.strayed, None);
    env.user(&worktree.path, &["reset", "-q", "--hard", "main"]);
    write(&worktree.path.join("a.txt"), "another way\n");
    let second = take(&env, &worktree);
    assert_eq!(second.place, SnapshotLocation::Detached { kept: keep("k-2") });
    assert_eq!(env.rev("refs/provost/keep/k"), first.commit);
    assert_eq!(env.rev("refs/provost/keep/k-2"), second.commit);
    // The branch stays at the first commit, because moving it would lose that commit.
    assert_eq!(env.rev("provost/t1"), first.commit);
    assert_eq!(second.strayed, Some(keep("k-2")));
}

#[test]
fn nothing_is_committed_through_a_link() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&env.path("private/secret"), "secret");
    fs::rename(&worktree.path, env.path("trees/away")).unwrap();
    symlink(env.path("private"), &worktree.path).unwrap();
    let why = snapshot_worktree(&env.git, &worktree, &says("x"), &keep("k")).unwrap_err();
    assert!(why.to_string().contains("the worktree's directory was replaced"), "{why}");
    assert_eq!(env.rev("provost/t1"), env.rev("main"));
}

#[test]
fn checked_out_branch_is_not_moved() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    env.user(&env.top(), &["checkout", "-q", "provost/t1"]);
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    assert_eq!(snapshot.strayed, Some(keep("k")));
    assert_eq!(env.rev("provost/t1"), env.rev("main"));
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), "");
}

#[test]
fn deleted_branch_is_created_again() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    env.user(&worktree.path, &["branch", "-q", "-D", "provost/t1"]);
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    assert_eq!((env.rev("provost/t1"), snapshot.strayed), (snapshot.commit, None));
}

#[test]
fn another_branch_is_committed_on_and_kept() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "-b", "agents-idea"]);
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    let SnapshotLocation::OtherBranch { name, kept } = &snapshot.place else {
        panic!("{snapshot:?}")
    };
    assert_eq!(name.to_string(), "refs/heads/agents-idea");
    assert_eq!(kept, &keep("k"));
    assert_eq!(env.rev("agents-idea"), snapshot.commit);
    assert_eq!(env.rev("refs/provost/keep/k"), snapshot.commit);
    assert_eq!((env.rev("provost/t1"), snapshot.strayed), (snapshot.commit, None));
}

#[test]
fn ref_of_others_in_head_is_not_moved() {
    for name in ["refs/heads/main", "refs/tags/v1", "refs/remotes/origin/main"] {
        let env = GitTestEnv::new();
        let worktree = env.worktree();
        env.user(&env.top(), &["update-ref", name, "main"]);
        let before = env.rev(name);
        write(&worktree.path.join("a.txt"), "two\n");
        write(&worktree.git_dir.join("HEAD"), &format!("ref: {name}\n"));
        let snapshot = take(&env, &worktree);
        assert_eq!((env.rev(name), snapshot.changed), (before, true), "{name}");
        let beside = SnapshotLocation::Beside { kept: keep("k"), ongoing: None };
        assert_eq!(snapshot.place, beside, "{name}");
        assert_eq!((env.rev("provost/t1"), snapshot.strayed), (snapshot.commit, None), "{name}");
        assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), "", "{name}");
    }
}

#[test]
fn symbolic_refs_lead_to_no_other_branch() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let before = env.rev("main");
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    for name in ["refs/heads/provost/t1", "refs/provost/keep/k"] {
        env.user(&env.top(), &["symbolic-ref", name, "refs/heads/main"]);
    }
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    assert_eq!((env.rev("main"), snapshot.changed), (before, true));
    assert_eq!(env.rev("refs/provost/keep/k"), snapshot.commit);
    assert_eq!((env.rev("provost/t1"), snapshot.strayed), (snapshot.commit, None));
}

#[test]
fn orphan_branch_gets_its_first_commit() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--orphan", "fresh"]);
    let snapshot = take(&env, &worktree);
    assert_eq!((snapshot.parent, snapshot.changed), (None, true));
    assert_eq!(env.rev("fresh"), snapshot.commit);
}

#[test]
fn ongoing_merge_is_kept_beside_and_can_continue() {
    let env = GitTestEnv::new();
    let worktree = conflict(&env);
    let (merge, _) = env.try_user(&worktree.path, &["merge", "-q", "main"]);
    assert_eq!(merge, None);
    let before = fs::read(worktree.git_dir.join("index")).unwrap();
    let head = env.rev("provost/t1");
    let snapshot = take(&env, &worktree);
    let beside =
        SnapshotLocation::Beside { kept: keep("k"), ongoing: Some(OngoingOperation::Merge) };
    assert_eq!(snapshot.place, beside);
    assert_eq!(env.rev("refs/provost/keep/k"), snapshot.commit);
    let parents = env.user(&env.top(), &["log", "-1", "--format=%P", snapshot.commit.as_str()]);
    assert_eq!(parents, format!("{head} {}", env.rev("main")));
    let text = env.user(&env.top(), &["show", &format!("{}:a.txt", snapshot.commit)]);
    assert!(text.contains("<<<<<<<"), "{text}");
    assert_eq!(env.rev("provost/t1"), head);
    assert_eq!(fs::read(worktree.git_dir.join("index")).unwrap(), before);
    assert_eq!(take(&env, &worktree).commit, snapshot.commit);
    write(&worktree.path.join("a.txt"), "resolved\n");
    env.user(&worktree.path, &["commit", "-qam", "merged"]);
    assert_eq!(take(&env, &worktree).place, SnapshotLocation::Branch);
}

#[test]
fn ongoing_rebase_is_kept_beside_and_can_continue() {
    let env = GitTestEnv::new();
    let worktree = conflict(&env);
    let (rebase, _) = env.try_user(&worktree.path, &["rebase", "-q", "main"]);
    assert_eq!(rebase, None);
    let snapshot = take(&env, &worktree);
    assert!(
        matches!(
            snapshot.place,
            SnapshotLocation::Beside { ongoing: Some(OngoingOperation::Rebase), .. }
        ),
        "{snapshot:?}"
    );
    write(&worktree.path.join("a.txt"), "resolved\n");
    env.user(&worktree.path, &["add", "a.txt"]);
    env.user(&worktree.path, &["rebase", "--continue"]);
    assert_eq!(take(&env, &worktree).place, SnapshotLocation::Branch);
}

#[test]
fn index_flags_hide_nothing() {
    let env = GitTestEnv::new();
    env.write("b.txt", "one\n");
    env.commit_all("second");
    let worktree = env.worktree();
    env.user(&worktree.path, &["update-index", "--assume-unchanged", "a.txt"]);
    env.user(&worktree.path, &["update-index", "--skip-worktree", "b.txt"]);
    write(&worktree.path.join("a.txt"), "hidden change\n");
    write(&worktree.path.join("b.txt"), "hidden change\n");
    let snapshot = take(&env, &worktree);
    for name in ["a.txt", "b.txt"] {
        let text = env.user(&env.top(), &["show", &format!("{}:{name}", snapshot.commit)]);
        assert_eq!(text, "hidden change", "{name}");
    }
}

#[test]
fn embedded_repository_is_left_out_and_named() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    for name in ["no-commits", "with\ncommit"] {
        fs::create_dir(worktree.path.join(name)).unwrap();
        env.user(&worktree.path.join(name), &["init", "-q"]);
        write(&worktree.path.join(name).join("file"), "x");
    }
    commit_all(&env, &worktree.path.join("with\ncommit"), "inner");
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    let left_out: Vec<String> = snapshot.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(left_out, ["no-commits/", "with\\ncommit/"]);
    assert_eq!(files(&env, &snapshot), [".gitignore", "a.txt"]);
}

#[test]
fn moved_submodule_is_recorded_at_new_commit() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    env.user(&worktree.path, &["submodule", "--quiet", "update", "--init"]);
    let inner = worktree.path.join("sub");
    write(&inner.join("inner.txt"), "moved\n");
    let moved = commit_all(&env, &inner, "moved");
    let snapshot = take(&env, &worktree);
    assert!(snapshot.changed);
    let link = env.user(&env.top(), &["ls-tree", snapshot.commit.as_str(), "sub"]);
    assert_eq!(link, format!("160000 commit {moved}\tsub"));
}

#[test]
fn deleted_git_file_does_not_use_outer_repository() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    // The parent directory of the worktree is a repository too, as a home may be.
    env.user(&env.path("trees"), &["init", "-q", "-b", "above"]);
    fs::remove_file(worktree.path.join(".git")).unwrap();
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    assert_eq!(env.rev("provost/t1"), snapshot.commit);
    assert_eq!(env.try_user(&env.path("trees"), &["rev-parse", "--verify", "HEAD"]).0, None);
}

#[test]
fn stale_lock_does_not_prevent_a_snapshot() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.git_dir.join("index.lock"), "");
    write(&worktree.path.join("a.txt"), "two\n");
    let snapshot = take(&env, &worktree);
    assert!(snapshot.stale_index.as_ref().unwrap().contains("index.lock"), "{snapshot:?}");
    assert_eq!(env.rev("provost/t1"), snapshot.commit);
    fs::remove_file(worktree.git_dir.join("index.lock")).unwrap();
    let again = take(&env, &worktree);
    assert_eq!((again.changed, again.stale_index), (false, None));
    assert_eq!(env.user(&worktree.path, &["status", "--porcelain"]), "");
}

#[test]
fn no_temporary_index_is_left_behind() {
    let env = GitTestEnv::new();
    take(&env, &env.worktree());
    let left = fs::read_dir(env.path("scratch")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        left.filter(|name| !name.to_string_lossy().starts_with("provost-git-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn temporary_git_directories_are_removed_on_drop() {
    let env = GitTestEnv::new();
    let git = env.git.clone().with_scratch(&env.path("pool"));
    snapshot_worktree(&git, &env.worktree(), &says("work"), &keep("k")).unwrap();
    assert_eq!(fs::read_dir(env.path("pool")).unwrap().count(), 1);
    drop(git);
    assert_eq!(fs::read_dir(env.path("pool")).unwrap().count(), 0);
}

fn take(env: &GitTestEnv, worktree: &Worktree) -> CheckoutSnapshot {
    snapshot_worktree(&env.git, worktree, &says("work"), &keep("k")).unwrap()
}

fn files(env: &GitTestEnv, snapshot: &CheckoutSnapshot) -> Vec<String> {
    let listed = env.user(&env.top(), &["ls-tree", "-r", "--name-only", snapshot.commit.as_str()]);
    listed.lines().map(str::to_owned).collect()
}

/// A worktree whose branch changes `a.txt` differently than `main` does.
fn conflict(env: &GitTestEnv) -> Worktree {
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "theirs\n");
    commit_all(env, &worktree.path, "on the branch");
    env.write("a.txt", "ours\n");
    env.commit_all("on main");
    worktree
}
