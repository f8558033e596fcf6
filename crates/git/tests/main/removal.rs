//! Risks that block the removal of a worktree, and the removal itself.

use std::fs;
use std::process::Command;

use provost_git::removal::{Error, RemovalResult};
use provost_git::{
    BranchFate, OngoingOperation, RemovalImpact, RemovalRisk, Worktree, WorktreeReplacement,
    removal_risk, remove_worktree, snapshot_worktree,
};

use crate::test_env::{GitTestEnv, commit_all, keep, os, says, write};

#[test]
fn clean_worktree_is_removed_and_branch_kept() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("x.log"), "ignored");
    write(&worktree.path.join("target/a"), "ignored");
    write(&worktree.path.join("target/b"), "ignored");
    let found = RemovalImpact { risks: Vec::new(), ignored_files: 2, dropped_commits: 0 };
    assert_eq!(risk(&env, &worktree), found);
    let removed = remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap();
    let done = RemovalResult { worktree: true, branch: None, ignored_files: 2, kept: None };
    assert_eq!(removed, done);
    assert!(!worktree.path.exists() && !worktree.git_dir.exists());
    assert_eq!(env.rev("provost/t1"), env.rev("main"));
    let again = remove_worktree(&env.git, &worktree, BranchFate::Delete).unwrap();
    let branch = Some(worktree.branch);
    assert_eq!(again, RemovalResult { worktree: false, branch, ignored_files: 0, kept: None });
    assert_eq!(env.try_user(&env.top(), &["rev-parse", "--verify", "provost/t1"]).0, None);
}

#[test]
fn changed_and_untracked_files_block_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "changed\n");
    fs::write(worktree.path.join(os(b"-new\n\x1b")), "x").unwrap();
    let RemovalImpact { risks, .. } = risk(&env, &worktree);
    let shown: Vec<String> = risks.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["uncommitted changes (a.txt)", "untracked files (-new\\n\\u{1b})"]);
    refused(&env, &worktree, BranchFate::Keep);
    assert_eq!(fs::read_to_string(worktree.path.join("a.txt")).unwrap(), "changed\n");
    snapshot_worktree(&env.git, &worktree, &says("work"), &keep("k")).unwrap();
    remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap();
}

#[test]
fn staged_and_hidden_changes_block_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "staged\n");
    env.user(&worktree.path, &["add", "a.txt"]);
    write(&worktree.path.join("a.txt"), "one\n");
    assert!(matches!(risk(&env, &worktree).risks[..], [RemovalRisk::UncommittedChanges { .. }]));
    env.user(&worktree.path, &["reset", "-q"]);
    assert!(risk(&env, &worktree).risks.is_empty());
    env.user(&worktree.path, &["update-index", "--assume-unchanged", "a.txt"]);
    write(&worktree.path.join("a.txt"), "hidden\n");
    assert!(matches!(risk(&env, &worktree).risks[..], [RemovalRisk::UncommittedChanges { .. }]));
}

#[test]
fn branch_is_deleted_only_if_commits_are_reachable() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "work\n");
    let tip = commit_all(&env, &worktree.path, "work");
    let only = RemovalRisk::UnreachableCommits { count: 1, tip: tip.clone() };
    let asked = removal_risk(&env.git, &worktree, BranchFate::Delete).unwrap();
    assert_eq!(asked.risks, [only]);
    assert!(risk(&env, &worktree).risks.is_empty());
    refused(&env, &worktree, BranchFate::Delete);
    assert_eq!(env.rev("provost/t1"), tip);
    // A remote branch that contains the commit is enough.
    env.user(&env.top(), &["update-ref", "refs/remotes/origin/t1", tip.as_str()]);
    let removed = remove_worktree(&env.git, &worktree, BranchFate::Delete).unwrap();
    assert_eq!(removed.branch, Some(worktree.branch));
    assert_eq!(
        env.try_user(&env.top(), &["rev-parse", "--verify", "refs/heads/provost/t1"]).0,
        None
    );
}

#[test]
fn detached_commits_block_removal_until_kept() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("a.txt"), "one\n\n");
    commit_all(&env, &worktree.path, "one");
    write(&worktree.path.join("a.txt"), "two\n\n");
    let tip = commit_all(&env, &worktree.path, "two");
    // The worktree's own ref is deleted with it, so it does not count.
    env.user(&worktree.path, &["update-ref", "refs/worktree/mine", tip.as_str()]);
    assert_eq!(risk(&env, &worktree).risks, [RemovalRisk::UnreachableCommits { count: 2, tip }]);
    refused(&env, &worktree, BranchFate::Keep);
    snapshot_worktree(&env.git, &worktree, &says("work"), &keep("k")).unwrap();
    assert!(risk(&env, &worktree).risks.is_empty());
}

#[test]
fn lost_directory_still_protects_head_commits() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    write(&worktree.path.join("a.txt"), "two\n");
    let tip = commit_all(&env, &worktree.path, "two");
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(
        risk(&env, &worktree).risks,
        [RemovalRisk::UnreachableCommits { count: 1, tip: tip.clone() }]
    );
    env.user(&env.top(), &["tag", "kept", tip.as_str()]);
    assert!(remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap().worktree);
    assert!(!worktree.git_dir.exists());
}

#[test]
fn stashes_of_its_branch_block_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.write("a.txt", "the user's\n");
    env.user(&env.top(), &["stash", "-q"]);
    assert!(risk(&env, &worktree).risks.is_empty());
    for text in ["one more\n", "two more\n"] {
        write(&worktree.path.join("a.txt"), text);
        env.user(&worktree.path, &["stash", "push", "-q", "-m", "later"]);
    }
    assert_eq!(risk(&env, &worktree).risks, [RemovalRisk::Stashes { count: 2 }]);
}

#[test]
fn ongoing_operation_blocks_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "theirs\n");
    commit_all(&env, &worktree.path, "theirs");
    env.write("a.txt", "ours\n");
    env.commit_all("ours");
    env.try_user(&worktree.path, &["merge", "main"]);
    let risks = risk(&env, &worktree).risks;
    assert_eq!(risks[0], RemovalRisk::Ongoing { operation: OngoingOperation::Merge });
    refused(&env, &worktree, BranchFate::Keep);
    assert!(worktree.git_dir.join("MERGE_HEAD").exists());
}

#[test]
fn foreign_lock_blocks_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let path = worktree.path.to_str().unwrap();
    env.user(&env.top(), &["worktree", "unlock", path]);
    env.user(&env.top(), &["worktree", "lock", "--reason", "mine", path]);
    assert_eq!(
        risk(&env, &worktree).risks,
        [RemovalRisk::LockedByOther { reason: "mine".to_owned() }]
    );
    refused(&env, &worktree, BranchFate::Keep);
    env.user(&env.top(), &["worktree", "unlock", path]);
    assert!(risk(&env, &worktree).risks.is_empty());
}

#[test]
fn submodule_with_own_work_blocks_removal() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    env.user(&worktree.path, &["submodule", "--quiet", "update", "--init"]);
    let inner = worktree.path.join("sub");
    assert!(risk(&env, &worktree).risks.is_empty());
    write(&inner.join("inner.txt"), "changed\n");
    let why = |risks: Vec<RemovalRisk>| match &risks[..] {
        [RemovalRisk::Submodule { path, why }] if path.to_string() == "sub" => why.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(why(risk(&env, &worktree).risks), "uncommitted changes (inner.txt)");
    refused(&env, &worktree, BranchFate::Keep);
    env.user(&inner, &["checkout", "-q", "-b", "mine"]);
    commit_all(&env, &inner, "mine");
    env.user(&inner, &["checkout", "-q", "origin/main"]);
    assert_eq!(why(risk(&env, &worktree).risks), "1 commits on no remote");
    env.user(&inner, &["push", "-q", "origin", "mine"]);
    env.user(&inner, &["fetch", "-q"]);
    assert!(remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap().worktree);
    assert!(!worktree.path.exists());
}

#[test]
fn embedded_repository_blocks_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    fs::create_dir(worktree.path.join("inner")).unwrap();
    env.user(&worktree.path.join("inner"), &["init", "-q"]);
    write(&worktree.path.join("inner/file"), "x");
    assert!(matches!(risk(&env, &worktree).risks[..], [RemovalRisk::EmbeddedRepositories { .. }]));
    snapshot_worktree(&env.git, &worktree, &says("work"), &keep("k")).unwrap();
    refused(&env, &worktree, BranchFate::Keep);
    assert!(worktree.path.join("inner/file").exists());
}

#[test]
fn repository_in_ignored_directory_blocks_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let inner = worktree.path.join("target/deep/inner");
    write(&inner.join("file"), "x");
    env.user(&inner, &["init", "-q"]);
    let commit = commit_all(&env, &inner, "only here");
    assert_eq!(shown(&env, &worktree), ["repositories inside the worktree (target/deep/inner/)"]);
    refused(&env, &worktree, BranchFate::Keep);
    assert_eq!(env.user(&inner, &["rev-parse", "HEAD"]), commit.as_str());
}

#[test]
fn bare_repository_in_ignored_dir_blocks_removal() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("target/x"), "x");
    env.user(&worktree.path.join("target"), &["init", "-q", "--bare", "store"]);
    assert_eq!(shown(&env, &worktree), ["repositories inside the worktree (target/store/)"]);
    refused(&env, &worktree, BranchFate::Keep);
}

#[test]
fn repository_around_tracked_files_blocks_removal() {
    let env = GitTestEnv::new();
    env.write("src/lib.rs", "// mine\n");
    env.commit_all("source");
    let worktree = env.worktree();
    env.user(&worktree.path.join("src"), &["init", "-q"]);
    commit_all(&env, &worktree.path.join("src"), "only here");
    assert_eq!(shown(&env, &worktree), ["repositories inside the worktree (src/)"]);
    refused(&env, &worktree, BranchFate::Keep);
}

#[test]
fn dropped_commits_are_kept_by_a_ref() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    let commit = |text: &str| {
        write(&worktree.path.join("a.txt"), text);
        commit_all(&env, &worktree.path, text)
    };
    let first = commit("reset");
    env.user(&worktree.path, &["reset", "-q", "--hard", "HEAD~1"]);
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    let (below, second) = (commit("below"), commit("detached"));
    env.user(&worktree.path, &["checkout", "-q", "provost/t1"]);
    let found = RemovalImpact { risks: Vec::new(), ignored_files: 0, dropped_commits: 3 };
    assert_eq!(risk(&env, &worktree), found);
    let kept = remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap().kept.unwrap();
    assert_eq!(kept.as_str(), "refs/provost/keep/provost-t1-dropped");
    assert!(!worktree.path.exists() && !worktree.git_dir.exists());
    for lost in [first, below, second] {
        let ask = ["merge-base", "--is-ancestor", lost.as_str(), kept.as_str()];
        env.user(&env.top(), &ask);
    }
    assert_eq!(env.user(&env.top(), &["show", &format!("{kept}^1:a.txt")]).lines().count(), 1);
}

#[test]
fn lost_directory_keeps_commits_of_its_log() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join("a.txt"), "dropped\n");
    let dropped = commit_all(&env, &worktree.path, "dropped");
    // HEAD has no commit, so git itself shows no log.
    env.user(&worktree.path, &["reset", "-q", "--hard", "HEAD~1"]);
    env.user(&worktree.path, &["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    fs::remove_dir_all(&worktree.path).unwrap();
    let kept = remove_worktree(&env.git, &worktree, BranchFate::Keep).unwrap().kept.unwrap();
    env.user(&env.top(), &["merge-base", "--is-ancestor", dropped.as_str(), kept.as_str()]);
}

#[test]
fn dropped_submodule_commits_block_removal() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let worktree = env.worktree();
    let inner = worktree.path.join("sub");
    write(&inner.join("inner.txt"), "changed\n");
    commit_all(&env, &inner, "dropped");
    env.user(&inner, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(shown(&env, &worktree), ["the submodule sub: 1 commits on no remote"]);
    refused(&env, &worktree, BranchFate::Keep);
}

#[test]
fn replacement_of_a_worktree_is_not_removed() {
    for (replace, by) in [
        ("rm .git", WorktreeReplacement::NoGit),
        ("rm .git && git init -q", WorktreeReplacement::OtherGit),
        ("mv .git ../moved && ln -s ../moved .git", WorktreeReplacement::OtherGit),
        ("echo gitdir: /nowhere > .git", WorktreeReplacement::OtherGit),
        ("mv ../w1 ../away && ln -s away ../w1", WorktreeReplacement::Top),
        ("mv ../w1 ../away && touch ../w1", WorktreeReplacement::Top),
    ] {
        let env = GitTestEnv::new();
        let worktree = env.worktree();
        let done =
            Command::new("sh").args(["-c", replace]).current_dir(&worktree.path).status().unwrap();
        assert!(done.success(), "{replace}");
        assert_eq!(risk(&env, &worktree).risks, [RemovalRisk::Replaced { by }], "{replace}");
        refused(&env, &worktree, BranchFate::Keep);
    }
}

#[test]
fn relative_git_file_is_accepted() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    write(&worktree.path.join(".git"), "gitdir: ../../project/.git/worktrees/w1\n");
    assert!(risk(&env, &worktree).risks.is_empty());
}

#[test]
fn a_branch_in_use_elsewhere_is_not_deleted() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    env.user(&worktree.path, &["checkout", "-q", "--detach"]);
    env.user(&env.top(), &["checkout", "-q", "provost/t1"]);
    let asked = removal_risk(&env.git, &worktree, BranchFate::Delete).unwrap();
    assert_eq!(asked.risks, [RemovalRisk::BranchInUse { by: env.top() }]);
}

#[test]
fn many_files_are_counted_and_first_ones_named() {
    let env = GitTestEnv::new();
    let worktree = env.worktree();
    for number in 0..50 {
        write(&worktree.path.join(format!("f{number:02}")), "x");
    }
    let Error::WouldLose { removal, .. } = refused(&env, &worktree, BranchFate::Keep) else {
        unreachable!()
    };
    let [RemovalRisk::UntrackedFiles { paths }] = &removal.risks[..] else { panic!("{removal:?}") };
    assert_eq!((paths.count, paths.named.len()), (50, 20));
    assert!(removal.risks[0].to_string().ends_with("f19 and 30 more)"));
}

fn risk(env: &GitTestEnv, worktree: &Worktree) -> RemovalImpact {
    removal_risk(&env.git, worktree, BranchFate::Keep).unwrap()
}

fn shown(env: &GitTestEnv, worktree: &Worktree) -> Vec<String> {
    risk(env, worktree).risks.iter().map(ToString::to_string).collect()
}

/// Tries to remove the worktree. Asserts that the removal is refused and changes nothing.
fn refused(env: &GitTestEnv, worktree: &Worktree, fate: BranchFate) -> Error {
    let listed = || env.user(&env.top(), &["worktree", "list", "--porcelain"]);
    let before = listed();
    let error = remove_worktree(&env.git, worktree, fate).unwrap_err();
    assert!(matches!(error, Error::WouldLose { .. }), "{error:?}");
    assert_eq!(listed(), before);
    assert!(worktree.path.exists());
    error
}
