//! Commits of a checkout's files, made without losing or moving anything.
//!
//! In Provost's own worktree the commit goes onto HEAD. If the agent has left its branch, a keep
//! ref holds the commit too, and the branch is advanced to it where that loses nothing. While the
//! agent is in the middle of a merge or the like, and always in a user's own checkout, the commit
//! is made beside HEAD: only a keep ref is created, and HEAD, branch, index and files stay as they
//! are.

use std::ffi::OsStr;

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

/// How often a snapshot is retried because HEAD moved meanwhile.
const MAX_TRIES: usize = 3;

/// A commit message.
#[derive(Debug, Clone, Default)]
pub struct CommitMessage {
    pub text: String,
    /// Lines `Key: value` at the end.
    pub trailers: Vec<(String, String)>,
}

/// A checkout's files as a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckoutSnapshot {
    pub commit: Oid,
    pub tree: Oid,
    /// The first parent of `commit`.
    pub parent: Option<Oid>,
    /// Whether there was anything to commit; if not, `commit` is HEAD.
    pub changed: bool,
    pub place: SnapshotLocation,
    /// The ref of the commit, if the worktree's own branch does not contain it.
    pub strayed: Option<KeepRef>,
    /// Files in the checkout that are not in the commit: repositories that are not submodules, and
    /// submodules with uncommitted changes.
    pub left_out: Vec<RepoPath>,
    /// Why the worktree's index does not show the commit yet. The commit itself is complete.
    pub stale_index: Option<String>,
}

/// Where the commit of a snapshot is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SnapshotLocation {
    /// On the worktree's own branch.
    Branch,
    /// On another branch, which the agent switched to.
    OtherBranch { name: RefName, kept: KeepRef },
    /// On a HEAD without a branch.
    Detached { kept: KeepRef },
    /// Only at the keep ref.
    Beside { kept: KeepRef, ongoing: Option<OngoingOperation> },
}

/// Why no snapshot was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("commit the worktree's files: its HEAD moved {MAX_TRIES} times meanwhile")]
    Moving,
    #[error("commit the worktree's files: {0}")]
    Replaced(WorktreeReplacement),
    #[error(transparent)]
    Keep(#[from] keep_refs::Error),
    #[error("write the trailer {key:?}: only letters, digits and `-` are allowed")]
    BadTrailer { key: String },
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Commits everything in Provost's own worktree that is not ignored.
pub fn snapshot_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &CommitMessage,
    keep: &KeepRef,
) -> Result<CheckoutSnapshot, Error> {
    // Through a link, foreign files would be committed. A missing or different `.git` does no harm:
    // the project knows the right one.
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
        let staged = StagedTree::new(&repo, head.commit(), true)?;
        let Some(taken) = commit_on_head(&repo, &head, &staged, &message)? else { continue };
        let place = location_of(&repo, worktree, &head, &taken.commit, keep)?;
        let strayed = keep_if_strayed(git, worktree, &place, &taken.commit)?;
        let stale = sync_index(&repo)?;
        return Ok(CheckoutSnapshot { strayed, ..taken.into_snapshot(staged, place, stale) });
    }
    Err(Error::Moving)
}

/// Commits everything in a user's checkout that is not ignored, beside HEAD; none of the user's
/// files or refs is touched. Files that index flags hide, as in a sparse checkout, are recorded as
/// the index has them.
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

/// A snapshot that moves nothing but a keep ref.
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

    /// Returns the commit of an earlier identical call, if it is still valid.
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

    /// Returns the commits that a merge in progress was merging, so that they are kept.
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

    /// Creates the commit, or returns an existing one with the same tree.
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

/// Commits onto HEAD; `None` if HEAD has moved.
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
    // The branch itself, not HEAD: HEAD may be switched to another one meanwhile.
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

/// Returns the ref that keeps the commit if the worktree's own branch does not contain it, after
/// trying to advance the branch to it.
fn keep_if_strayed(
    git: &Git,
    worktree: &Worktree,
    place: &SnapshotLocation,
    commit: &Oid,
) -> Result<Option<KeepRef>, Error> {
    let (kept, going_on) = match place {
        SnapshotLocation::Branch => return Ok(None),
        SnapshotLocation::OtherBranch { kept, .. } | SnapshotLocation::Detached { kept } => {
            (kept, false)
        }
        // The operation in progress may concern the branch, so the branch is not moved meanwhile.
        SnapshotLocation::Beside { kept, .. } => (kept, true),
    };
    let shared = worktree.shared(git)?;
    let branch = worktree.branch.full();
    let tip = shared.ref_commit(&branch)?;
    let shown = tip.as_ref() == Some(commit)
        || !going_on && advance(&shared, &branch, tip.as_ref(), commit)?;
    Ok((!shown).then(|| kept.clone()))
}

/// Advances a branch to the commit. Returns false if that would lose a commit of the branch, or if
/// it is checked out.
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
    let options = ["update-ref", "-m", "provost: snapshot"];
    let values = [branch, commit.as_str(), tip.map_or("", Oid::as_str)];
    // A concurrent move of the branch wins.
    let moved = shared.write(options.into_iter().chain(values)).run_unchecked()?;
    Ok(moved.exit == GitExit::Code(0))
}

/// Updates the worktree's own index to the commit. A lock left by a killed git prevents that, but
/// not the snapshot.
fn sync_index(repo: &Repo<'_>) -> Result<Option<String>, command::Error> {
    let answer = repo.write_files(["reset", "--mixed", "--quiet"]).run_unchecked()?;
    Ok((answer.exit != GitExit::Code(0)).then(|| last_lines(&answer.stderr, STDERR_LINES)))
}

impl CommitMessage {
    /// Returns the text and, as its last paragraph, the trailers. Text from an agent in either
    /// cannot pose as another trailer.
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
