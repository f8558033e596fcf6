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

use crate::command::{self, Exit, Git, STDERR_LINES};
use crate::escape::{last_lines, printable, printable_line};
use crate::index::Staging;
use crate::inspect::{Head, head_of};
use crate::keep::{self, keep_commit};
use crate::names::{KeepRef, Oid, RefName, RepoPath};
use crate::ongoing::{Ongoing, ongoing};
use crate::project::Project;
use crate::registry;
use crate::repo::{Repo, answer_oid};
use crate::worktree::{MAX_POINTER, Replaced, Worktree};

/// How often a snapshot is retried because HEAD moved meanwhile.
const MAX_TRIES: usize = 3;

/// A commit message.
#[derive(Debug, Clone, Default)]
pub struct Message {
    pub text: String,
    /// Lines `Key: value` at the end.
    pub trailers: Vec<(String, String)>,
}

/// A checkout's files as a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub commit: Oid,
    pub tree: Oid,
    /// The first parent of `commit`.
    pub parent: Option<Oid>,
    /// Whether there was anything to commit; if not, `commit` is HEAD.
    pub changed: bool,
    pub place: Place,
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
pub enum Place {
    /// On the worktree's own branch.
    Branch,
    /// On another branch, which the agent switched to.
    OtherBranch { name: RefName, kept: KeepRef },
    /// On a HEAD without a branch.
    Detached { kept: KeepRef },
    /// Only at the keep ref.
    Beside { kept: KeepRef, ongoing: Option<Ongoing> },
}

/// Why no snapshot was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("commit the worktree's files: its HEAD moved {MAX_TRIES} times meanwhile")]
    Moving,
    #[error("commit the worktree's files: {0}")]
    Replaced(Replaced),
    #[error(transparent)]
    Keep(#[from] keep::Error),
    #[error("write the trailer {key:?}: only letters, digits and `-` are allowed")]
    BadTrailer { key: String },
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Commits everything in Provost's own worktree that is not ignored.
pub fn snapshot_worktree(
    git: &Git,
    worktree: &Worktree,
    message: &Message,
    keep: &KeepRef,
) -> Result<Snapshot, Error> {
    // Through a link, foreign files would be committed. A missing or different `.git` does no harm:
    // the project knows the right one.
    if let Some(by @ Replaced::Top) = worktree.replaced()? {
        return Err(Error::Replaced(by));
    }
    let repo = worktree.repo(git)?;
    let message = message.render()?;
    for _ in 0..MAX_TRIES {
        if let Some(operation) = ongoing(&repo)? {
            let beside = Beside { repo: &repo, ongoing: Some(operation), reveal: true };
            let taken = beside.snapshot(&message, keep)?;
            let strayed = strayed(git, worktree, &taken.place, &taken.commit)?;
            return Ok(Snapshot { strayed, ..taken });
        }
        let head = head_of(&repo)?;
        let staged = Staged::new(&repo, head.commit(), true)?;
        let Some(taken) = commit_on_head(&repo, &head, &staged, &message)? else { continue };
        let place = place_of(&repo, worktree, &head, &taken.commit, keep)?;
        let strayed = strayed(git, worktree, &place, &taken.commit)?;
        let stale = sync_index(&repo)?;
        return Ok(Snapshot { strayed, ..taken.into_snapshot(staged, place, stale) });
    }
    Err(Error::Moving)
}

/// Commits everything in a user's checkout that is not ignored, beside HEAD; none of the user's
/// files or refs is touched. Files that index flags hide, as in a sparse checkout, are recorded as
/// the index has them.
pub fn snapshot_loose(
    git: &Git,
    project: &Project,
    keep: &KeepRef,
    message: &Message,
) -> Result<Snapshot, Error> {
    let repo = project.repo(git)?;
    let ongoing = ongoing(&repo)?;
    Beside { repo: &repo, ongoing, reveal: false }.snapshot(&message.render()?, keep)
}

/// A snapshot that moves nothing but a keep ref.
struct Beside<'a> {
    repo: &'a Repo<'a>,
    ongoing: Option<Ongoing>,
    reveal: bool,
}

impl Beside<'_> {
    fn snapshot(&self, message: &str, keep: &KeepRef) -> Result<Snapshot, Error> {
        let head = head_of(self.repo)?;
        let staged = Staged::new(self.repo, head.commit(), self.reveal)?;
        let taken = match self.made_before(&head, &staged, keep)? {
            Some(taken) => taken,
            None => staged.commit(self.repo, head.commit(), &self.merged()?, message)?,
        };
        let kept = keep_commit(self.repo, keep, &taken.commit)?;
        let place = Place::Beside { kept, ongoing: self.ongoing };
        Ok(taken.into_snapshot(staged, place, None))
    }

    /// Returns the commit of an earlier identical call, if it is still valid.
    fn made_before(
        &self,
        head: &Head,
        staged: &Staged,
        keep: &KeepRef,
    ) -> Result<Option<Taken>, Error> {
        let Some(commit) = self.repo.ref_commit(keep.as_str())? else { return Ok(None) };
        let tree = self.repo.resolve(format!("{commit}^{{tree}}"))?;
        let parent = self.repo.resolve(format!("{commit}^1"))?;
        let same = tree.as_ref() == Some(&staged.tree) && parent.as_ref() == head.commit();
        Ok((same && staged.changed).then_some(Taken { commit, parent }))
    }

    /// Returns the commits that a merge in progress was merging, so that they are kept.
    fn merged(&self) -> Result<Vec<Oid>, Error> {
        if self.ongoing != Some(Ongoing::Merge) {
            return Ok(Vec::new());
        }
        let text = agent_file::read_text(&self.repo.git_dir().join("MERGE_HEAD"), MAX_POINTER)
            .unwrap_or_default();
        Ok(text.lines().filter_map(|line| Oid::new(line).ok()).collect())
    }
}

/// The tree of a checkout's files.
struct Staged {
    tree: Oid,
    changed: bool,
    left_out: Vec<RepoPath>,
}

impl Staged {
    fn new(repo: &Repo<'_>, head: Option<&Oid>, reveal: bool) -> Result<Self, Error> {
        let staging = Staging::of(repo)?;
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
    ) -> Result<Taken, Error> {
        if let (false, Some(commit)) = (self.changed, head) {
            let parent = repo.resolve(format!("{commit}^1"))?;
            return Ok(Taken { commit: commit.clone(), parent });
        }
        let parents = head.into_iter().chain(merged).flat_map(|parent| ["-p", parent.as_str()]);
        let args = ["commit-tree", self.tree.as_str(), "-F", "-"].into_iter().chain(parents);
        let answer = repo.write(args).input(message.as_bytes().to_vec()).run()?;
        Ok(Taken { commit: answer_oid(&answer)?, parent: head.cloned() })
    }
}

/// A commit and its first parent.
struct Taken {
    commit: Oid,
    parent: Option<Oid>,
}

impl Taken {
    fn into_snapshot(self, staged: Staged, place: Place, stale_index: Option<String>) -> Snapshot {
        let Self { commit, parent } = self;
        let Staged { tree, changed, left_out } = staged;
        let strayed = None;
        Snapshot { commit, tree, parent, changed, place, strayed, left_out, stale_index }
    }
}

/// Commits onto HEAD; `None` if HEAD has moved.
fn commit_on_head(
    repo: &Repo<'_>,
    head: &Head,
    staged: &Staged,
    message: &str,
) -> Result<Option<Taken>, Error> {
    let taken = staged.commit(repo, head.commit(), &[], message)?;
    if !staged.changed {
        return Ok(Some(taken));
    }
    // The branch itself, not HEAD: HEAD may be switched to another one meanwhile.
    let target = head.branch().map_or(OsStr::new("HEAD"), RefName::as_os_str);
    let before = head.commit().map_or("", Oid::as_str);
    let options = ["update-ref", "--no-deref", "-m", "provost: snapshot"].map(OsStr::new);
    let values = [target, OsStr::new(taken.commit.as_str()), OsStr::new(before)];
    let moved = repo.write(options.into_iter().chain(values)).ask()?;
    match moved.exit {
        Exit::Code(0) => Ok(Some(taken)),
        _ if head_of(repo)? != *head => Ok(None),
        Exit::Code(_) | Exit::Signal(_) => Err(Error::Git(moved.failure())),
    }
}

fn place_of(
    repo: &Repo<'_>,
    worktree: &Worktree,
    head: &Head,
    commit: &Oid,
    keep: &KeepRef,
) -> Result<Place, Error> {
    match head.branch() {
        Some(name) if name.as_os_str() == OsStr::new(&worktree.branch.full()) => Ok(Place::Branch),
        Some(name) => {
            Ok(Place::OtherBranch { name: name.clone(), kept: keep_commit(repo, keep, commit)? })
        }
        None => Ok(Place::Detached { kept: keep_commit(repo, keep, commit)? }),
    }
}

/// Returns the ref that keeps the commit if the worktree's own branch does not contain it, after
/// trying to advance the branch to it.
fn strayed(
    git: &Git,
    worktree: &Worktree,
    place: &Place,
    commit: &Oid,
) -> Result<Option<KeepRef>, Error> {
    let (kept, going_on) = match place {
        Place::Branch => return Ok(None),
        Place::OtherBranch { kept, .. } | Place::Detached { kept } => (kept, false),
        // The operation in progress may concern the branch, so the branch is not moved meanwhile.
        Place::Beside { kept, .. } => (kept, true),
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
    let behind = tip.map_or(Ok(true), |tip| keep::contains(shared, commit, tip))?;
    let on_it = |entry: &registry::Entry| entry.branch.as_deref() == Some(branch);
    if !behind || registry::entries(shared)?.iter().any(on_it) {
        return Ok(false);
    }
    let options = ["update-ref", "-m", "provost: snapshot"];
    let values = [branch, commit.as_str(), tip.map_or("", Oid::as_str)];
    // A concurrent move of the branch wins.
    let moved = shared.write(options.into_iter().chain(values)).ask()?;
    Ok(moved.exit == Exit::Code(0))
}

/// Updates the worktree's own index to the commit. A lock left by a killed git prevents that, but
/// not the snapshot.
fn sync_index(repo: &Repo<'_>) -> Result<Option<String>, command::Error> {
    let answer = repo.write_files(["reset", "--mixed", "--quiet"]).ask()?;
    Ok((answer.exit != Exit::Code(0)).then(|| last_lines(&answer.stderr, STDERR_LINES)))
}

impl Message {
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

    fn message(text: &str, trailers: &[(&str, &str)]) -> Message {
        let trailers = trailers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Message { text: text.to_owned(), trailers: trailers.collect() }
    }

    #[test]
    fn trailers_are_a_paragraph_of_their_own() {
        let text = message("fix it\n\nForged: yes\n", &[("Provost-Session", "s1\nForged: too")])
            .render()
            .unwrap();
        assert_eq!(text, "fix it\n\nForged: yes\n\nProvost-Session: s1\\nForged: too\n");
    }

    #[test]
    fn a_trailer_key_is_a_plain_word() {
        assert!(matches!(message("x", &[("a b", "c")]).render(), Err(Error::BadTrailer { .. })));
        assert!(matches!(message("x", &[("", "c")]).render(), Err(Error::BadTrailer { .. })));
    }
}
