//! Commits a checkout's files without losing or moving work.
//!
//! In Provost's own worktree, the commit is added on top of HEAD. If the agent has left its branch,
//! a keep ref also points to the commit, and the branch is advanced to the commit if no work is
//! lost by doing so. In a user's own checkout, while a merge or a similar operation is in progress,
//! and if HEAD names a ref that is not the agent's to move, the commit is made beside HEAD: only a
//! keep ref is created, and HEAD, its branch, index and files do not change.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use provost_sys::agent_file;
use serde::Serialize;

use crate::command::{self, Git, GitExit, STDERR_LINES};
use crate::escape::{last_lines, printable, printable_line};
use crate::index::Staging;
use crate::inspect::{GitHead, head_of_repo};
use crate::keep_refs::{self, keep_commit};
use crate::names::{KeepRef, Oid, RefName, RepoPath};
use crate::operation::{OngoingOperation, ongoing_operation};
use crate::project::Project;
use crate::registry;
use crate::repo::{Repo, answer_oid};
use crate::worktree::{MAX_POINTER, Worktree, WorktreeReplacement};

/// The number of attempts to make if HEAD moves in the meantime.
const MAX_TRIES: usize = 3;

/// A commit message.
#[derive(Debug, Clone, Default)]
pub struct CommitMessage {
    pub text: String,
    /// Trailers, which are lines of the form `Key: value` at the end of the message.
    pub trailers: Vec<(String, String)>,
}

/// A commit of a checkout's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckoutSnapshot {
    pub commit: Oid,
    pub tree: Oid,
    /// The first parent of `commit`.
    pub parent: Option<Oid>,
    /// Whether there were changes to commit. Without changes, `commit` is HEAD.
    pub changed: bool,
    pub place: SnapshotLocation,
    /// The ref that keeps the commit if the worktree's own branch does not contain it.
    pub strayed: Option<KeepRef>,
    /// Content of the checkout that is not in the commit: repositories that are not submodules, and
    /// submodules with uncommitted changes.
    pub left_out: Vec<RepoPath>,
    /// The reason why the worktree's index does not match the commit yet. The commit itself is
    /// complete.
    pub stale_index: Option<String>,
}

/// The place where a snapshot's commit was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SnapshotLocation {
    /// The commit is on top of the worktree's own branch.
    Branch,
    /// The commit is on another branch, to which the agent has switched.
    OtherBranch { name: RefName, kept: KeepRef },
    /// The commit is on a detached HEAD.
    Detached { kept: KeepRef },
    /// The commit is beside HEAD, and only the keep ref points to it.
    Beside { kept: KeepRef, ongoing: Option<OngoingOperation> },
}

/// The reason why a snapshot could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot commit the worktree's files: its HEAD moved {MAX_TRIES} times in the meantime")]
    Moving,
    #[error("cannot commit the worktree's files: {0}")]
    Replaced(WorktreeReplacement),
    #[error(transparent)]
    Keep(#[from] keep_refs::Error),
    #[error("cannot write the trailer {key:?}: only letters, digits and `-` are allowed")]
    BadTrailer { key: String },
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Commits all files in Provost's own worktree except ignored ones.
pub fn snapshot_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &CommitMessage,
    keep: &KeepRef,
) -> Result<CheckoutSnapshot, Error> {
    // A symbolic link would lead to other files, which must not be committed. A missing or
    // different `.git` does no harm, because the correct git directory is known from the project.
    if let Some(by @ WorktreeReplacement::Top) = worktree.replaced()? {
        return Err(Error::Replaced(by));
    }
    let repo = worktree.repo(git)?;
    let message = message.render()?;
    for _ in 0..MAX_TRIES {
        if let Some(operation) = ongoing_operation(&repo)? {
            let beside = BesideSnapshot { repo: &repo, ongoing: Some(operation), reveal: true };
            let taken = beside.snapshot(&message, keep)?;
            let strayed = keep_if_strayed(git, worktree, &taken.place, &taken.commit)?;
            return Ok(CheckoutSnapshot { strayed, ..taken });
        }
        let head = head_of_repo(&repo)?;
        if !may_move(git, worktree, &head)? {
            let beside = BesideSnapshot { repo: &repo, ongoing: None, reveal: true };
            let taken = beside.snapshot(&message, keep)?;
            let strayed = keep_if_strayed(git, worktree, &taken.place, &taken.commit)?;
            return Ok(CheckoutSnapshot { strayed, ..taken });
        }
        let staged = StagedTree::new(&repo, head.commit(), true)?;
        let Some(taken) = commit_on_head(&repo, &head, &staged, &message)? else { continue };
        let place = location_of(&repo, worktree, &head, &taken.commit, keep)?;
        let strayed = keep_if_strayed(git, worktree, &place, &taken.commit)?;
        let stale = sync_index(&repo)?;
        return Ok(CheckoutSnapshot { strayed, ..taken.into_snapshot(staged, place, stale) });
    }
    Err(Error::Moving)
}

/// Commits all files in a user's checkout except ignored ones, beside HEAD. Changes none of the
/// user's files and refs. Files that index flags hide, as in a sparse checkout, are recorded as
/// they are in the index.
pub fn snapshot_user_checkout(
    git: &Git,
    project: &Project,
    keep: &KeepRef,
    message: &CommitMessage,
) -> Result<CheckoutSnapshot, Error> {
    let repo = project.repo(git)?;
    let ongoing = ongoing_operation(&repo)?;
    BesideSnapshot { repo: &repo, ongoing, reveal: false }.snapshot(&message.render()?, keep)
}

/// A snapshot that changes nothing but a keep ref.
struct BesideSnapshot<'a> {
    repo: &'a Repo<'a>,
    ongoing: Option<OngoingOperation>,
    reveal: bool,
}

impl BesideSnapshot<'_> {
    fn snapshot(&self, message: &str, keep: &KeepRef) -> Result<CheckoutSnapshot, Error> {
        let head = head_of_repo(self.repo)?;
        let staged = StagedTree::new(self.repo, head.commit(), self.reveal)?;
        let taken = match self.made_before(&head, &staged, keep)? {
            Some(taken) => taken,
            None => staged.commit(self.repo, head.commit(), &self.merged()?, message)?,
        };
        let kept = keep_commit(self.repo, keep, &taken.commit)?;
        let place = SnapshotLocation::Beside { kept, ongoing: self.ongoing };
        Ok(taken.into_snapshot(staged, place, None))
    }

    /// Returns the commit of an earlier identical call, if there is one and it is still valid.
    fn made_before(
        &self,
        head: &GitHead,
        staged: &StagedTree,
        keep: &KeepRef,
    ) -> Result<Option<NewCommit>, Error> {
        let Some(commit) = self.repo.ref_commit(keep.as_str())? else { return Ok(None) };
        let tree = self.repo.resolve(format!("{commit}^{{tree}}"))?;
        let parent = self.repo.resolve(format!("{commit}^1"))?;
        let same = tree.as_ref() == Some(&staged.tree) && parent.as_ref() == head.commit();
        Ok((same && staged.changed).then_some(NewCommit { commit, parent }))
    }

    /// Returns the other parents of a merge in progress, so that the snapshot keeps them.
    fn merged(&self) -> Result<Vec<Oid>, Error> {
        if self.ongoing != Some(OngoingOperation::Merge) {
            return Ok(Vec::new());
        }
        let text = agent_file::read_text(&self.repo.git_dir().join("MERGE_HEAD"), MAX_POINTER)
            .unwrap_or_default();
        Ok(text.lines().filter_map(|line| Oid::new(line).ok()).collect())
    }
}

/// The tree of a checkout's files.
struct StagedTree {
    tree: Oid,
    changed: bool,
    left_out: Vec<RepoPath>,
}

impl StagedTree {
    fn new(repo: &Repo<'_>, head: Option<&Oid>, reveal: bool) -> Result<Self, Error> {
        let staging = Staging::open(repo)?;
        if reveal {
            staging.reveal()?;
        }
        let left_out = staging.add_all()?;
        let tree = staging.write_tree()?;
        let before =
            head.map(|commit| repo.resolve(format!("{commit}^{{tree}}"))).transpose()?.flatten();
        Ok(Self { changed: before.as_ref() != Some(&tree), tree, left_out })
    }

    /// Creates the commit, or returns HEAD if nothing changed.
    fn commit(
        &self,
        repo: &Repo<'_>,
        head: Option<&Oid>,
        merged: &[Oid],
        message: &str,
    ) -> Result<NewCommit, Error> {
        if let (false, Some(commit)) = (self.changed, head) {
            let parent = repo.resolve(format!("{commit}^1"))?;
            return Ok(NewCommit { commit: commit.clone(), parent });
        }
        let parents = head.into_iter().chain(merged).flat_map(|parent| ["-p", parent.as_str()]);
        let args = ["commit-tree", self.tree.as_str(), "-F", "-"].into_iter().chain(parents);
        let answer = repo.write(args).input(message.as_bytes().to_vec()).run()?;
        Ok(NewCommit { commit: answer_oid(&answer)?, parent: head.cloned() })
    }
}

/// A commit and its first parent.
struct NewCommit {
    commit: Oid,
    parent: Option<Oid>,
}

impl NewCommit {
    fn into_snapshot(
        self,
        staged: StagedTree,
        place: SnapshotLocation,
        stale_index: Option<String>,
    ) -> CheckoutSnapshot {
        let Self { commit, parent } = self;
        let StagedTree { tree, changed, left_out } = staged;
        let strayed = None;
        CheckoutSnapshot { commit, tree, parent, changed, place, strayed, left_out, stale_index }
    }
}

/// Commits on top of HEAD. Returns `None` if HEAD has moved.
fn commit_on_head(
    repo: &Repo<'_>,
    head: &GitHead,
    staged: &StagedTree,
    message: &str,
) -> Result<Option<NewCommit>, Error> {
    let taken = staged.commit(repo, head.commit(), &[], message)?;
    if !staged.changed {
        return Ok(Some(taken));
    }
    // The branch is updated directly instead of through HEAD, because HEAD may be switched to
    // another branch in the meantime.
    let target = head.branch().map_or(OsStr::new("HEAD"), RefName::as_os_str);
    let before = head.commit().map_or("", Oid::as_str);
    let options = ["update-ref", "--no-deref", "-m", "provost: snapshot"].map(OsStr::new);
    let values = [target, OsStr::new(taken.commit.as_str()), OsStr::new(before)];
    let moved = repo.write(options.into_iter().chain(values)).run_unchecked()?;
    match moved.exit {
        GitExit::Code(0) => Ok(Some(taken)),
        _ if head_of_repo(repo)? != *head => Ok(None),
        GitExit::Code(_) | GitExit::Signal(_) => Err(Error::Git(moved.failure())),
    }
}

/// Whether a commit may move the ref that HEAD names. The agent can write HEAD, and a commit must
/// not move a branch that is checked out elsewhere, or a ref that is not a branch.
fn may_move(git: &Git, worktree: &Worktree, head: &GitHead) -> Result<bool, Error> {
    let Some(name) = head.branch().map(RefName::as_os_str) else { return Ok(true) };
    if name == OsStr::new(&worktree.branch.full()) {
        return Ok(true);
    }
    if !name.as_bytes().starts_with(b"refs/heads/") {
        return Ok(false);
    }
    let elsewhere = |entry: &registry::WorktreeEntry| {
        entry.path != worktree.path && entry.branch.as_deref().map(OsStr::new) == Some(name)
    };
    Ok(!registry::entries(&worktree.shared(git)?)?.iter().any(elsewhere))
}

fn location_of(
    repo: &Repo<'_>,
    worktree: &Worktree,
    head: &GitHead,
    commit: &Oid,
    keep: &KeepRef,
) -> Result<SnapshotLocation, Error> {
    match head.branch() {
        Some(name) if name.as_os_str() == OsStr::new(&worktree.branch.full()) => {
            Ok(SnapshotLocation::Branch)
        }
        Some(name) => Ok(SnapshotLocation::OtherBranch {
            name: name.clone(),
            kept: keep_commit(repo, keep, commit)?,
        }),
        None => Ok(SnapshotLocation::Detached { kept: keep_commit(repo, keep, commit)? }),
    }
}

/// Tries to advance the worktree's own branch to the commit. Returns the ref that keeps the commit
/// if the branch does not contain it afterwards.
fn keep_if_strayed(
    git: &Git,
    worktree: &Worktree,
    place: &SnapshotLocation,
    commit: &Oid,
) -> Result<Option<KeepRef>, Error> {
    let (kept, in_progress) = match place {
        SnapshotLocation::Branch => return Ok(None),
        SnapshotLocation::OtherBranch { kept, .. } | SnapshotLocation::Detached { kept } => {
            (kept, false)
        }
        // An operation in progress may still change the branch, so it is not moved then.
        SnapshotLocation::Beside { kept, ongoing } => (kept, ongoing.is_some()),
    };
    let shared = worktree.shared(git)?;
    let branch = worktree.branch.full();
    let tip = shared.ref_commit(&branch)?;
    let shown = tip.as_ref() == Some(commit)
        || !in_progress && advance(&shared, &branch, tip.as_ref(), commit)?;
    Ok((!shown).then(|| kept.clone()))
}

/// Advances a branch to the commit. Returns false if that would lose a commit of the branch, or if
/// the branch is checked out.
fn advance(
    shared: &Repo<'_>,
    branch: &str,
    tip: Option<&Oid>,
    commit: &Oid,
) -> Result<bool, Error> {
    let behind = tip.map_or(Ok(true), |tip| keep_refs::contains(shared, commit, tip))?;
    let on_it = |entry: &registry::WorktreeEntry| entry.branch.as_deref() == Some(branch);
    if !behind || registry::entries(shared)?.iter().any(on_it) {
        return Ok(false);
    }
    let options = ["update-ref", "--no-deref", "-m", "provost: snapshot"];
    let values = [branch, commit.as_str(), tip.map_or("", Oid::as_str)];
    // If the branch moves concurrently, that move takes precedence.
    let moved = shared.write(options.into_iter().chain(values)).run_unchecked()?;
    Ok(moved.exit == GitExit::Code(0))
}

/// Updates the worktree's own index to the commit. If a git process was killed and has left a lock,
/// only this update fails. The snapshot itself is complete. Returns the error output in this case.
fn sync_index(repo: &Repo<'_>) -> Result<Option<String>, command::Error> {
    let answer = repo.write_files(["reset", "--mixed", "--quiet"]).run_unchecked()?;
    Ok((answer.exit != GitExit::Code(0)).then(|| last_lines(&answer.stderr, STDERR_LINES)))
}

impl CommitMessage {
    /// Returns the text with the trailers as its last paragraph. Text from an agent cannot be
    /// mistaken for another trailer.
    pub(crate) fn render(&self) -> Result<String, Error> {
        let mut message = printable(self.text.trim().as_bytes());
        message.push('\n');
        if !self.trailers.is_empty() {
            message.push('\n');
        }
        for (key, value) in &self.trailers {
            let plain =
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !plain {
                return Err(Error::BadTrailer { key: printable_line(key.as_bytes()) });
            }
            message.push_str(&format!("{key}: {}\n", printable_line(value.trim().as_bytes())));
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, trailers: &[(&str, &str)]) -> CommitMessage {
        let trailers = trailers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        CommitMessage { text: text.to_owned(), trailers: trailers.collect() }
    }

    #[test]
    fn trailers_are_a_separate_paragraph() {
        let text = message("fix it\n\nForged: yes\n", &[("Provost-Session", "s1\nForged: too")])
            .render()
            .unwrap();
        assert_eq!(text, "fix it\n\nForged: yes\n\nProvost-Session: s1\\nForged: too\n");
    }

    #[test]
    fn trailer_key_must_be_a_plain_word() {
        assert!(matches!(message("x", &[("a b", "c")]).render(), Err(Error::BadTrailer { .. })));
        assert!(matches!(message("x", &[("", "c")]).render(), Err(Error::BadTrailer { .. })));
    }
}
