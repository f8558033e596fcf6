//! Landing: branches are fast-forwarded, and none of the user's work is lost.

use std::fs;

use provost_git::{
    FastForward, Oid, RefName, create_branch, fast_forward, has_commit,
    landing::{Error, commit_merge, files_with_conflict_markers, merge},
};

use crate::test_env::{GitTestEnv, branch, says, write};

/// Creates a commit beside `main` that changes one file, and returns it.
fn work(lab: &GitTestEnv, file: &str, content: &str) -> Oid {
    let tree = lab.path("tree");
    let path = tree.to_str().unwrap().to_owned();
    lab.user(&lab.top(), &["worktree", "add", "-q", "--detach", &path]);
    write(&tree.join(file), content);
    lab.user(&tree, &["add", "-A"]);
    lab.user(&tree, &["commit", "-qm", "work"]);
    let commit = lab.user(&tree, &["rev-parse", "HEAD"]);
    lab.user(&lab.top(), &["worktree", "remove", "--force", &path]);
    Oid::new(commit.trim()).unwrap()
}

#[test]
fn branch_is_created_once_and_others_kept() {
    let lab = GitTestEnv::new();
    let (project, done) = (lab.project(), work(&lab, "b.txt", "two\n"));
    for _ in 0..2 {
        create_branch(&lab.git, &project, &branch("provost/done"), &done).unwrap();
    }
    assert_eq!(lab.rev("provost/done"), done);
    let other = lab.rev("main");
    let taken = create_branch(&lab.git, &project, &branch("provost/done"), &other).unwrap_err();
    assert!(matches!(&taken, Error::BranchExists { .. }), "{taken}");
    assert_eq!(lab.rev("provost/done"), done);
}

#[test]
fn checked_out_branch_is_forwarded_with_files() {
    let lab = GitTestEnv::new();
    let (project, done) = (lab.project(), work(&lab, "b.txt", "two\n"));
    lab.write("notes.txt", "mine\n");
    for _ in 0..2 {
        let came = fast_forward(&lab.git, &project, &RefName::from_branch("main"), &done).unwrap();
        assert_eq!(came, FastForward::Done);
    }
    assert_eq!(fs::read_to_string(lab.top().join("b.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(lab.top().join("notes.txt")).unwrap(), "mine\n");
    assert!(has_commit(&lab.git, &project, &RefName::from_branch("main"), &done).unwrap());
}

#[test]
fn blocking_user_changes_are_kept_and_named() {
    let lab = GitTestEnv::new();
    let (project, before) = (lab.project(), lab.rev("main"));
    let done = work(&lab, "a.txt", "two\n");
    lab.write("a.txt", "mine\n");
    let refused =
        fast_forward(&lab.git, &project, &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { output, .. } if output.contains("a.txt")),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(lab.top().join("a.txt")).unwrap(), "mine\n");
    assert_eq!(lab.rev("main"), before);

    // An untracked file blocks the update too.
    lab.write("a.txt", "one\n");
    let done = work(&lab, "c.txt", "two\n");
    lab.write("c.txt", "mine\n");
    let refused =
        fast_forward(&lab.git, &project, &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { output, .. } if output.contains("c.txt")),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(lab.top().join("c.txt")).unwrap(), "mine\n");
}

#[test]
fn unchecked_branch_is_forwarded_without_files() {
    let lab = GitTestEnv::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.user(&lab.top(), &["switch", "-qc", "other"]);
    let came =
        fast_forward(&lab.git, &lab.project(), &RefName::from_branch("main"), &done).unwrap();
    assert_eq!((came, lab.rev("main")), (FastForward::Done, done));
    assert!(!lab.top().join("b.txt").exists());
}

#[test]
fn diverged_branch_is_not_moved() {
    let lab = GitTestEnv::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.write("c.txt", "theirs\n");
    lab.commit_all("second");
    let moved = lab.rev("main");
    let came =
        fast_forward(&lab.git, &lab.project(), &RefName::from_branch("main"), &done).unwrap();
    assert_eq!((came, lab.rev("main")), (FastForward::Diverged(moved.clone()), moved));
    let gone =
        fast_forward(&lab.git, &lab.project(), &RefName::from_branch("gone"), &done).unwrap_err();
    assert!(matches!(gone, Error::NoBranch(_)));
}

#[test]
fn checkout_with_ongoing_operation_is_left_alone() {
    let lab = GitTestEnv::new();
    let done = work(&lab, "b.txt", "two\n");
    let side = work(&lab, "a.txt", "side\n");
    lab.write("a.txt", "mine\n");
    lab.commit_all("second");
    let done = merge(&lab.git, &lab.project(), &done, &lab.rev("main"), &says("merge"), 1).unwrap();
    lab.try_user(&lab.top(), &["merge", side.as_str()]);
    let busy = fast_forward(&lab.git, &lab.project(), &RefName::from_branch("main"), &done.commit)
        .unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
}

#[test]
fn files_needing_a_filter_are_not_written() {
    let lab = GitTestEnv::new();
    lab.write(".gitattributes", "*.big filter=shout\n");
    lab.commit_all("attributes");
    let done = work(&lab, "x.big", "two\n");
    lab.user(&lab.top(), &["config", "filter.shout.smudge", "tr a-z A-Z"]);
    let refused =
        fast_forward(&lab.git, &lab.project(), &RefName::from_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Filtered { files, .. } if files.contains("x.big")),
        "{refused}"
    );
    assert!(!lab.top().join("x.big").exists());
}

#[test]
fn merge_is_reproducible() {
    let lab = GitTestEnv::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.write("c.txt", "theirs\n");
    lab.commit_all("second");
    let (project, onto) = (lab.project(), lab.rev("main"));
    let merged = merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged, merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap());
    assert!(merged.conflicts.is_empty());
    let came =
        fast_forward(&lab.git, &project, &RefName::from_branch("main"), &merged.commit).unwrap();
    assert_eq!(came, FastForward::Done);
    assert_eq!(fs::read_to_string(lab.top().join("b.txt")).unwrap(), "two\n");
}

#[test]
fn conflict_tree_has_both_sides_and_can_be_fixed() {
    let lab = GitTestEnv::new();
    let done = work(&lab, "a.txt", "ours\n");
    lab.write("a.txt", "theirs\n");
    lab.commit_all("second");
    let (project, onto) = (lab.project(), lab.rev("main"));
    let merged = merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
    let text = lab.user(&lab.top(), &["show", &format!("{}:a.txt", merged.commit)]);
    assert!(text.contains("ours") && text.contains("theirs") && text.contains("======="), "{text}");

    let resolved = lab.user(&lab.top(), &["rev-parse", &format!("{done}^{{tree}}")]);
    let resolved = Oid::new(resolved.trim()).unwrap();
    let united =
        commit_merge(&lab.git, &project, &resolved, &[&done, &onto], &says("merge"), 1_000)
            .unwrap();
    let came = fast_forward(&lab.git, &project, &RefName::from_branch("main"), &united).unwrap();
    assert_eq!(came, FastForward::Done);
    let log = lab.user(&lab.top(), &["log", "--format=%H"]);
    assert!(!log.contains(merged.commit.as_str()), "the commit with the markers is in no history");
}

#[test]
fn conflict_remains_until_markers_are_gone() {
    let lab = GitTestEnv::new();
    lab.write(".gitattributes", "a.txt conflict-marker-size=12\n");
    lab.write("b*.txt", "one\n");
    lab.commit_all("two files");
    let project = lab.project();
    let [left, right] = ["left", "right"].map(|side| {
        let mine = work(&lab, "a.txt", &format!("{side}\n"));
        lab.user(&lab.top(), &["checkout", "-q", "--detach", mine.as_str()]);
        lab.write("b*.txt", &format!("{side}\n"));
        lab.commit_all("both");
        let both = lab.rev("HEAD");
        lab.user(&lab.top(), &["checkout", "-q", "main"]);
        both
    });
    let merged = merge(&lab.git, &project, &left, &right, &says("both"), 0).unwrap();
    let stand = |tree: &Oid| -> Vec<String> {
        let files = files_with_conflict_markers(&lab.git, &project, &left, &right, tree).unwrap();
        files.iter().map(ToString::to_string).collect()
    };
    assert_eq!(stand(&merged.tree), ["a.txt", "b*.txt"]);
    // One conflict is resolved. Lines that only look like markers are text.
    lab.user(&lab.top(), &["checkout", "-q", "--detach", merged.commit.as_str()]);
    lab.write("b*.txt", "<<<<<<< ours\nleft and right\n>>>>>>> theirs\n");
    lab.commit_all("half");
    assert_eq!(stand(&lab.rev("HEAD^{tree}")), ["a.txt"]);
    fs::remove_file(lab.top().join("a.txt")).unwrap();
    lab.commit_all("whole");
    assert_eq!(stand(&lab.rev("HEAD^{tree}")), Vec::<String>::new());
}
