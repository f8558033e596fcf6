//! Landing: branches are fast-forwarded, and none of the user's work is lost.

use std::fs;

use provost_git::{
    FastForward, Oid, RefName, create_branch, fast_forward, has_commit,
    landing::{Error, commit_merge, files_with_conflict_markers, merge},
};

use crate::test_env::{GitTestEnv, branch, says, write};

/// Creates a commit beside `main` that changes one file, and returns it.
fn work(env: &GitTestEnv, file: &str, content: &str) -> Oid {
    let tree = env.path("tree");
    let path = tree.to_str().unwrap().to_owned();
    env.user(&env.top(), &["worktree", "add", "-q", "--detach", &path]);
    write(&tree.join(file), content);
    env.user(&tree, &["add", "-A"]);
    env.user(&tree, &["commit", "-qm", "work"]);
    let commit = env.user(&tree, &["rev-parse", "HEAD"]);
    env.user(&env.top(), &["worktree", "remove", "--force", &path]);
    Oid::new(commit.trim()).unwrap()
}

#[test]
fn branch_is_created_once_and_others_kept() {
    let env = GitTestEnv::new();
    let (project, done) = (env.project(), work(&env, "b.txt", "two\n"));
    for _ in 0..2 {
        create_branch(&env.git, &project, &branch("provost/done"), &done).unwrap();
    }
    assert_eq!(env.rev("provost/done"), done);
    let other = env.rev("main");
    let taken = create_branch(&env.git, &project, &branch("provost/done"), &other).unwrap_err();
    assert!(matches!(&taken, Error::BranchExists { .. }), "{taken}");
    assert_eq!(env.rev("provost/done"), done);
}

#[test]
fn checked_out_branch_is_forwarded_with_files() {
    let env = GitTestEnv::new();
    let (project, done) = (env.project(), work(&env, "b.txt", "two\n"));
    env.write("notes.txt", "mine\n");
    for _ in 0..2 {
        let came = fast_forward(&env.git, &project, &RefName::from_branch("main"), &done).unwrap();
        assert_eq!(came, FastForward::Done);
    }
    assert_eq!(fs::read_to_string(env.top().join("b.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(env.top().join("notes.txt")).unwrap(), "mine\n");
    assert!(has_commit(&env.git, &project, &RefName::from_branch("main"), &done).unwrap());
}

#[test]
fn blocking_user_changes_are_kept_and_named() {
    let env = GitTestEnv::new();
    let (project, before) = (env.project(), env.rev("main"));
    let done = work(&env, "a.txt", "two\n");
    env.write("a.txt", "mine\n");
    let refused =
        fast_forward(&env.git, &project, &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { output, .. } if output.contains("a.txt")),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(env.top().join("a.txt")).unwrap(), "mine\n");
    assert_eq!(env.rev("main"), before);

    // An untracked file blocks the update too.
    env.write("a.txt", "one\n");
    let done = work(&env, "c.txt", "two\n");
    env.write("c.txt", "mine\n");
    let refused =
        fast_forward(&env.git, &project, &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { output, .. } if output.contains("c.txt")),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(env.top().join("c.txt")).unwrap(), "mine\n");
}

#[test]
fn unchecked_branch_is_forwarded_without_files() {
    let env = GitTestEnv::new();
    let done = work(&env, "b.txt", "two\n");
    env.user(&env.top(), &["switch", "-qc", "other"]);
    let came =
        fast_forward(&env.git, &env.project(), &RefName::from_branch("main"), &done).unwrap();
    assert_eq!((came, env.rev("main")), (FastForward::Done, done));
    assert!(!env.top().join("b.txt").exists());
}

#[test]
fn diverged_branch_is_not_moved() {
    let env = GitTestEnv::new();
    let done = work(&env, "b.txt", "two\n");
    env.write("c.txt", "theirs\n");
    env.commit_all("second");
    let moved = env.rev("main");
    let came =
        fast_forward(&env.git, &env.project(), &RefName::from_branch("main"), &done).unwrap();
    assert_eq!((came, env.rev("main")), (FastForward::Diverged(moved.clone()), moved));
    let gone =
        fast_forward(&env.git, &env.project(), &RefName::from_branch("gone"), &done).unwrap_err();
    assert!(matches!(gone, Error::NoBranch(_)));
}

#[test]
fn checkout_with_ongoing_operation_is_left_alone() {
    let env = GitTestEnv::new();
    let done = work(&env, "b.txt", "two\n");
    let side = work(&env, "a.txt", "side\n");
    env.write("a.txt", "mine\n");
    env.commit_all("second");
    let done = merge(&env.git, &env.project(), &done, &env.rev("main"), &says("merge"), 1).unwrap();
    env.try_user(&env.top(), &["merge", side.as_str()]);
    let busy = fast_forward(&env.git, &env.project(), &RefName::from_branch("main"), &done.commit)
        .unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
}

#[test]
fn files_needing_a_filter_are_not_written() {
    let env = GitTestEnv::new();
    env.write(".gitattributes", "*.big filter=shout\n");
    env.commit_all("attributes");
    let done = work(&env, "x.big", "two\n");
    env.user(&env.top(), &["config", "filter.shout.smudge", "tr a-z A-Z"]);
    let refused =
        fast_forward(&env.git, &env.project(), &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Filtered { files, .. } if files.contains("x.big")),
        "{refused}"
    );
    assert!(!env.top().join("x.big").exists());
}

#[test]
fn merge_is_reproducible() {
    let env = GitTestEnv::new();
    let done = work(&env, "b.txt", "two\n");
    env.write("c.txt", "theirs\n");
    env.commit_all("second");
    let (project, onto) = (env.project(), env.rev("main"));
    let merged = merge(&env.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged, merge(&env.git, &project, &done, &onto, &says("merge"), 1_000).unwrap());
    assert!(merged.conflicts.is_empty());
    let came =
        fast_forward(&env.git, &project, &RefName::from_branch("main"), &merged.commit).unwrap();
    assert_eq!(came, FastForward::Done);
    assert_eq!(fs::read_to_string(env.top().join("b.txt")).unwrap(), "two\n");
}

#[test]
fn conflict_tree_has_both_sides_and_can_be_fixed() {
    let env = GitTestEnv::new();
    let done = work(&env, "a.txt", "ours\n");
    env.write("a.txt", "theirs\n");
    env.commit_all("second");
    let (project, onto) = (env.project(), env.rev("main"));
    let merged = merge(&env.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
    let text = env.user(&env.top(), &["show", &format!("{}:a.txt", merged.commit)]);
    assert!(text.contains("ours") && text.contains("theirs") && text.contains("======="), "{text}");

    let resolved = env.user(&env.top(), &["rev-parse", &format!("{done}^{{tree}}")]);
    let resolved = Oid::new(resolved.trim()).unwrap();
    let united =
        commit_merge(&env.git, &project, &resolved, &[&done, &onto], &says("merge"), 1_000)
            .unwrap();
    let came = fast_forward(&env.git, &project, &RefName::from_branch("main"), &united).unwrap();
    assert_eq!(came, FastForward::Done);
    let log = env.user(&env.top(), &["log", "--format=%H"]);
    assert!(!log.contains(merged.commit.as_str()), "the commit with the markers is in no history");
}

#[test]
fn conflict_remains_until_markers_are_gone() {
    let env = GitTestEnv::new();
    env.write(".gitattributes", "a.txt conflict-marker-size=12\n");
    env.write("b*.txt", "one\n");
    env.commit_all("two files");
    let project = env.project();
    let [left, right] = ["left", "right"].map(|side| {
        let mine = work(&env, "a.txt", &format!("{side}\n"));
        env.user(&env.top(), &["checkout", "-q", "--detach", mine.as_str()]);
        env.write("b*.txt", &format!("{side}\n"));
        env.commit_all("both");
        let both = env.rev("HEAD");
        env.user(&env.top(), &["checkout", "-q", "main"]);
        both
    });
    let merged = merge(&env.git, &project, &left, &right, &says("both"), 0).unwrap();
    let stand = |tree: &Oid| -> Vec<String> {
        let files = files_with_conflict_markers(&env.git, &project, &left, &right, tree).unwrap();
        files.iter().map(ToString::to_string).collect()
    };
    assert_eq!(stand(&merged.tree), ["a.txt", "b*.txt"]);
    // One conflict is resolved. Lines that only look like markers are text.
    env.user(&env.top(), &["checkout", "-q", "--detach", merged.commit.as_str()]);
    env.write("b*.txt", "<<<<<<< ours\nleft and right\n>>>>>>> theirs\n");
    env.commit_all("half");
    assert_eq!(stand(&env.rev("HEAD^{tree}")), ["a.txt"]);
    fs::remove_file(env.top().join("a.txt")).unwrap();
    env.commit_all("whole");
    assert_eq!(stand(&env.rev("HEAD^{tree}")), Vec::<String>::new());
}
