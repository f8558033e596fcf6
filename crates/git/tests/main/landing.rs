//! Landing: branches are fast-forwarded, and none of the user's work is lost.

use std::fs;

use provost_git::{
    Forward, Oid, RefName, branch_at, forward, has_commit,
    landing::{Error, merge, unite, unmended},
};

use crate::lab::{Lab, branch, says, write};

/// Creates a commit beside `main` that changes one file, and returns it.
fn work(lab: &Lab, file: &str, content: &str) -> Oid {
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
fn a_branch_is_made_once_and_anothers_is_left_alone() {
    let lab = Lab::new();
    let (project, done) = (lab.project(), work(&lab, "b.txt", "two\n"));
    for _ in 0..2 {
        branch_at(&lab.git, &project, &branch("provost/done"), &done).unwrap();
    }
    assert_eq!(lab.rev("provost/done"), done);
    let other = lab.rev("main");
    let taken = branch_at(&lab.git, &project, &branch("provost/done"), &other).unwrap_err();
    assert!(matches!(&taken, Error::Taken { .. }), "{taken}");
    assert_eq!(lab.rev("provost/done"), done);
}

#[test]
fn a_branch_that_is_checked_out_goes_forward_with_its_files() {
    let lab = Lab::new();
    let (project, done) = (lab.project(), work(&lab, "b.txt", "two\n"));
    lab.write("notes.txt", "mine\n");
    for _ in 0..2 {
        let came = forward(&lab.git, &project, &RefName::of_branch("main"), &done).unwrap();
        assert_eq!(came, Forward::Done);
    }
    assert_eq!(fs::read_to_string(lab.top().join("b.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(lab.top().join("notes.txt")).unwrap(), "mine\n");
    assert!(has_commit(&lab.git, &project, &RefName::of_branch("main"), &done).unwrap());
}

#[test]
fn changes_of_the_user_that_are_in_the_way_are_kept_and_named() {
    let lab = Lab::new();
    let (project, before) = (lab.project(), lab.rev("main"));
    let done = work(&lab, "a.txt", "two\n");
    lab.write("a.txt", "mine\n");
    let refused = forward(&lab.git, &project, &RefName::of_branch("main"), &done).unwrap_err();
    assert!(matches!(&refused, Error::Refused { said, .. } if said.contains("a.txt")), "{refused}");
    assert_eq!(fs::read_to_string(lab.top().join("a.txt")).unwrap(), "mine\n");
    assert_eq!(lab.rev("main"), before);

    // An untracked file blocks it as well.
    lab.write("a.txt", "one\n");
    let done = work(&lab, "c.txt", "two\n");
    lab.write("c.txt", "mine\n");
    let refused = forward(&lab.git, &project, &RefName::of_branch("main"), &done).unwrap_err();
    assert!(matches!(&refused, Error::Refused { said, .. } if said.contains("c.txt")), "{refused}");
    assert_eq!(fs::read_to_string(lab.top().join("c.txt")).unwrap(), "mine\n");
}

#[test]
fn a_branch_that_is_not_checked_out_goes_forward_without_files() {
    let lab = Lab::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.user(&lab.top(), &["switch", "-qc", "other"]);
    let came = forward(&lab.git, &lab.project(), &RefName::of_branch("main"), &done).unwrap();
    assert_eq!((came, lab.rev("main")), (Forward::Done, done));
    assert!(!lab.top().join("b.txt").exists());
}

#[test]
fn a_branch_that_has_gone_elsewhere_stays_where_it_is() {
    let lab = Lab::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.write("c.txt", "theirs\n");
    lab.commit_all("second");
    let moved = lab.rev("main");
    let came = forward(&lab.git, &lab.project(), &RefName::of_branch("main"), &done).unwrap();
    assert_eq!((came, lab.rev("main")), (Forward::Elsewhere(moved.clone()), moved));
    let gone = forward(&lab.git, &lab.project(), &RefName::of_branch("gone"), &done).unwrap_err();
    assert!(matches!(gone, Error::NoBranch(_)));
}

#[test]
fn a_checkout_in_the_middle_of_something_is_left_alone() {
    let lab = Lab::new();
    let done = work(&lab, "b.txt", "two\n");
    let side = work(&lab, "a.txt", "side\n");
    lab.write("a.txt", "mine\n");
    lab.commit_all("second");
    let done = merge(&lab.git, &lab.project(), &done, &lab.rev("main"), &says("merge"), 1).unwrap();
    lab.try_user(&lab.top(), &["merge", side.as_str()]);
    let busy =
        forward(&lab.git, &lab.project(), &RefName::of_branch("main"), &done.commit).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
}

#[test]
fn files_that_a_filter_would_write_are_not_written_without_it() {
    let lab = Lab::new();
    lab.write(".gitattributes", "*.big filter=shout\n");
    lab.commit_all("attributes");
    let done = work(&lab, "x.big", "two\n");
    lab.user(&lab.top(), &["config", "filter.shout.smudge", "tr a-z A-Z"]);
    let refused =
        forward(&lab.git, &lab.project(), &RefName::of_branch("main"), &done).unwrap_err();
    assert!(
        matches!(&refused, Error::Filtered { files, .. } if files.contains("x.big")),
        "{refused}"
    );
    assert!(!lab.top().join("x.big").exists());
}

#[test]
fn two_lines_of_work_become_one_commit_and_the_same_one_again() {
    let lab = Lab::new();
    let done = work(&lab, "b.txt", "two\n");
    lab.write("c.txt", "theirs\n");
    lab.commit_all("second");
    let (project, onto) = (lab.project(), lab.rev("main"));
    let merged = merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged, merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap());
    assert!(merged.conflicts.is_empty());
    let came = forward(&lab.git, &project, &RefName::of_branch("main"), &merged.commit).unwrap();
    assert_eq!(came, Forward::Done);
    assert_eq!(fs::read_to_string(lab.top().join("b.txt")).unwrap(), "two\n");
}

#[test]
fn a_conflict_is_in_the_tree_with_both_sides_and_can_be_united_without_them() {
    let lab = Lab::new();
    let done = work(&lab, "a.txt", "ours\n");
    lab.write("a.txt", "theirs\n");
    lab.commit_all("second");
    let (project, onto) = (lab.project(), lab.rev("main"));
    let merged = merge(&lab.git, &project, &done, &onto, &says("merge"), 1_000).unwrap();
    assert_eq!(merged.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
    let text = lab.user(&lab.top(), &["show", &format!("{}:a.txt", merged.commit)]);
    assert!(text.contains("ours") && text.contains("theirs") && text.contains("======="), "{text}");

    let mended = lab.user(&lab.top(), &["rev-parse", &format!("{done}^{{tree}}")]);
    let mended = Oid::new(mended.trim()).unwrap();
    let united =
        unite(&lab.git, &project, &mended, &[&done, &onto], &says("merge"), 1_000).unwrap();
    let came = forward(&lab.git, &project, &RefName::of_branch("main"), &united).unwrap();
    assert_eq!(came, Forward::Done);
    let log = lab.user(&lab.top(), &["log", "--format=%H"]);
    assert!(!log.contains(merged.commit.as_str()), "the commit with the markers is in no history");
}

#[test]
fn a_conflict_stands_until_the_lines_around_its_sides_are_gone() {
    let lab = Lab::new();
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
        let files = unmended(&lab.git, &project, &left, &right, tree).unwrap();
        files.iter().map(ToString::to_string).collect()
    };
    assert_eq!(stand(&merged.tree), ["a.txt", "b*.txt"]);
    // One conflict is resolved, and lines that only look like markers are text.
    lab.user(&lab.top(), &["checkout", "-q", "--detach", merged.commit.as_str()]);
    lab.write("b*.txt", "<<<<<<< ours\nleft and right\n>>>>>>> theirs\n");
    lab.commit_all("half");
    assert_eq!(stand(&lab.rev("HEAD^{tree}")), ["a.txt"]);
    fs::remove_file(lab.top().join("a.txt")).unwrap();
    lab.commit_all("whole");
    assert_eq!(stand(&lab.rev("HEAD^{tree}")), Vec::<String>::new());
}
