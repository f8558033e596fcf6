//! Removes a worktree unless work would be lost.
//!
//! Removal cannot be forced: a user who wants to discard work can use git. Before the removal, a
//! ref is created to keep commits to which only the worktree's own reflog refers.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::Serialize;

use crate::command::{self, Git};
use crate::escape::printable_line;
use crate::index::{Staging, populated_submodules};
use crate::keep_refs;
use crate::names::{BranchName, KeepRef, Oid, RepoPath};
use crate::nested_repos;
use crate::operation::{OngoingOperation, ongoing_operation};
use crate::registry::{self, WorktreeEntry};
use crate::repo::Repo;
use crate::submodules::MAX_DEPTH;
use crate::unreachable::UnreachableCommits;
use crate::worktree::{LOCK_REASON, Worktree, WorktreeReplacement};

/// The maximum number of paths that a risk lists. The others are only counted.
pub const MAX_NAMED: usize = 20;

/// Whether the worktree's branch is kept or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchFate {
    Keep,
    /// Delete the branch with the worktree, if its commits are reachable from another ref.
    Delete,
}

/// The consequences of removing a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RemovalImpact {
    /// All work that would be lost. The worktree may be removed if the list is empty.
    pub risks: Vec<RemovalRisk>,
    /// Ignored files that are deleted with the worktree. A directory that is ignored as a whole
    /// counts as one.
    pub ignored_files: usize,
    /// The number of commits to which only the worktree's own reflog refers. A ref will keep these
    /// commits.
    pub dropped_commits: u64,
}

/// Work that a removal could lose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RemovalRisk {
    /// Tracked files with uncommitted changes.
    UncommittedChanges { paths: NamedPaths },
    /// Untracked files that are not ignored.
    UntrackedFiles { paths: NamedPaths },
    /// Repositories inside the worktree that are not submodules.
    EmbeddedRepositories { paths: NamedPaths },
    /// Commits that are not reachable from any other ref.
    UnreachableCommits { count: u64, tip: Oid },
    /// Stash entries that were made on the worktree's branch.
    Stashes { count: usize },
    /// An unfinished operation.
    Ongoing { operation: OngoingOperation },
    /// A lock set by another program.
    LockedByOther { reason: String },
    /// A submodule with changes or unpublished commits.
    Submodule { path: RepoPath, why: String },
    /// Another file or directory is now at the worktree's path. Git would not remove it, and its
    /// content is unknown.
    Replaced { by: WorktreeReplacement },
    /// Another worktree has checked out the branch that would be deleted.
    BranchInUse { by: PathBuf },
}

/// The number of paths, and the first few of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NamedPaths {
    pub named: Vec<RepoPath>,
    pub count: usize,
}

/// The result of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovalResult {
    /// Whether the worktree was removed. False if it was already gone.
    pub worktree: bool,
    /// The branch that was deleted.
    pub branch: Option<BranchName>,
    /// Ignored files that were deleted with the worktree.
    pub ignored_files: usize,
    /// The ref that now keeps the commits to which only the worktree's reflog referred.
    pub kept: Option<KeepRef>,
}

/// The reason why a worktree was not removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot remove the worktree at {} without loss: {}", printable_line(.path.as_os_str().as_bytes()), join(&.removal.risks))]
    WouldLose { path: PathBuf, removal: RemovalImpact },
    #[error(transparent)]
    Keep(#[from] keep_refs::Error),
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Returns the consequences of removing the worktree now, including the work that would be lost.
pub fn removal_risk(
    git: &Git,
    worktree: &Worktree,
    fate: BranchFate,
) -> Result<RemovalImpact, Error> {
    let shared = worktree.shared(git)?;
    let Some(entry) = registry::entry_at(&shared, &worktree.path)? else {
        let risks = RefSurvey { shared: &shared, worktree, fate }.branch_risks(None)?;
        return Ok(RemovalImpact { risks, ..RemovalImpact::default() });
    };
    let survey = RefSurvey { shared: &shared, worktree, fate };
    let mut removal = RemovalImpact::default();
    removal.risks.extend(foreign_lock(&entry));
    if worktree.path.symlink_metadata().is_ok() {
        match worktree.replaced()? {
            Some(by) => removal.risks.push(RemovalRisk::Replaced { by }),
            None => removal.add_checkout_risks(&worktree.repo(git)?)?,
        }
    }
    removal.risks.extend(survey.branch_risks(Some(&entry))?);
    removal.risks.extend(survey.stashes()?);
    removal.dropped_commits = UnreachableCommits::find(git, &shared, worktree, fate)?.count;
    Ok(removal)
}

impl RemovalImpact {
    fn add_checkout_risks(&mut self, repo: &Repo<'_>) -> Result<(), Error> {
        self.risks.extend(checkout_risks(repo)?);
        self.risks.extend(submodule_risks(repo, MAX_DEPTH)?);
        self.ignored_files = count_ignored(repo)?;
        Ok(())
    }
}

/// Removes the worktree, and its branch if requested, unless work would be lost. A worktree that is
/// already gone is not an error.
pub fn remove_worktree(
    git: &Git,
    worktree: &Worktree,
    fate: BranchFate,
) -> Result<RemovalResult, Error> {
    let shared = worktree.shared(git)?;
    let tip = shared.ref_commit(&worktree.branch.full())?;
    let removal = removal_risk(git, worktree, fate)?;
    if !removal.risks.is_empty() {
        return Err(Error::WouldLose { path: worktree.path.clone(), removal });
    }
    let entry = registry::entry_at(&shared, &worktree.path)?;
    let mut kept = None;
    if entry.is_some() {
        kept = UnreachableCommits::find(git, &shared, worktree, fate)?.keep(&shared, worktree)?;
        remove_registered(git, &shared, worktree)?;
    }
    let branch = match (fate, tip) {
        (BranchFate::Delete, Some(tip)) => Some(delete_branch(&shared, &worktree.branch, &tip)?),
        (BranchFate::Delete, None) | (BranchFate::Keep, _) => None,
    };
    let ignored_files = removal.ignored_files;
    Ok(RemovalResult { worktree: entry.is_some(), branch, ignored_files, kept })
}

/// Finds risks in the refs, which all worktrees share.
struct RefSurvey<'a> {
    shared: &'a Repo<'a>,
    worktree: &'a Worktree,
    fate: BranchFate,
}

impl RefSurvey<'_> {
    fn branch_risks(&self, entry: Option<&WorktreeEntry>) -> Result<Vec<RemovalRisk>, Error> {
        let mut tips: Vec<Oid> = entry.and_then(|entry| entry.commit.clone()).into_iter().collect();
        let mut risks = Vec::new();
        if self.fate == BranchFate::Delete {
            tips.extend(self.shared.ref_commit(&self.worktree.branch.full())?);
            risks.extend(self.branch_in_use()?);
        }
        risks.extend(self.unreachable(&tips)?);
        Ok(risks)
    }

    /// Counts the commits that are reachable only from the worktree, or from its branch if the
    /// branch is deleted too. Runs outside the worktree, so that the worktree's own refs do not
    /// count.
    fn unreachable(&self, tips: &[Oid]) -> Result<Option<RemovalRisk>, Error> {
        let Some(tip) = tips.first() else { return Ok(None) };
        let exclude = format!("--exclude={}", self.worktree.branch.full());
        let mut args = vec!["rev-list", "--count"];
        args.extend(tips.iter().map(Oid::as_str));
        args.push("--not");
        if self.fate == BranchFate::Delete {
            args.push(&exclude);
        }
        args.push("--glob=refs/*");
        let answer = self.shared.read(args).run()?;
        let count = answer.line().to_str().and_then(|text| text.parse().ok());
        let count: u64 = count.ok_or_else(|| answer.unexpected())?;
        Ok((count > 0).then(|| RemovalRisk::UnreachableCommits { count, tip: tip.clone() }))
    }

    fn branch_in_use(&self) -> Result<Option<RemovalRisk>, Error> {
        let full = self.worktree.branch.full();
        let user = registry::entries(self.shared)?.into_iter().find(|entry| {
            entry.branch.as_deref() == Some(&full) && entry.path != self.worktree.path
        });
        Ok(user.map(|entry| RemovalRisk::BranchInUse { by: entry.path }))
    }

    /// Counts stash entries by the message that `git stash` writes, `WIP on BRANCH: …` or `On
    /// BRANCH: …`. Ignores entries of other branches.
    fn stashes(&self) -> Result<Option<RemovalRisk>, Error> {
        if self.shared.ref_commit("refs/stash")?.is_none() {
            return Ok(None);
        }
        let answer =
            self.shared.read(["log", "-z", "-g", "--format=%gs", "refs/stash", "--"]).run()?;
        let made =
            [format!("WIP on {}:", self.worktree.branch), format!("On {}:", self.worktree.branch)];
        let ours = |item: &&[u8]| made.iter().any(|start| item.starts_with(start.as_bytes()));
        let count = answer.items().filter(ours).count();
        Ok((count > 0).then_some(RemovalRisk::Stashes { count }))
    }
}

fn foreign_lock(entry: &WorktreeEntry) -> Option<RemovalRisk> {
    let reason = entry.lock.as_ref().filter(|reason| !reason.starts_with(LOCK_REASON))?;
    Some(RemovalRisk::LockedByOther { reason: printable_line(reason.as_bytes()) })
}

/// Finds the risks in the files of one checkout.
fn checkout_risks(repo: &Repo<'_>) -> Result<Vec<RemovalRisk>, Error> {
    let mut risks: Vec<RemovalRisk> = ongoing_operation(repo)?
        .map(|operation| RemovalRisk::Ongoing { operation })
        .into_iter()
        .collect();
    let staging = Staging::open(repo)?;
    staging.reveal()?;
    let answer = staging.status()?;
    let (mut changed, mut untracked) = (NamedPaths::default(), NamedPaths::default());
    for item in answer.items() {
        let [state @ .., b' ', _] = &item[..item.len().min(4)] else {
            return Err(answer.unexpected().into());
        };
        let path = &item[3..];
        match (state, path.ends_with(b"/")) {
            // Embedded repositories are handled below.
            (b"??", true) => {}
            (b"??", false) => untracked.add(path),
            _ => changed.add(path),
        }
    }
    risks.extend(changed.non_empty().map(|paths| RemovalRisk::UncommittedChanges { paths }));
    risks.extend(untracked.non_empty().map(|paths| RemovalRisk::UntrackedFiles { paths }));
    let mut embedded = NamedPaths::default();
    nested_repos::repositories(repo)?.iter().for_each(|path| embedded.add(path.as_bytes()));
    risks.extend(embedded.non_empty().map(|paths| RemovalRisk::EmbeddedRepositories { paths }));
    Ok(risks)
}

/// Inspects each populated submodule as a separate repository, because its git directory is deleted
/// with the worktree. A submodule nested deeper than [`MAX_DEPTH`] is a risk.
fn submodule_risks(repo: &Repo<'_>, depth: usize) -> Result<Vec<RemovalRisk>, Error> {
    let mut risks = Vec::new();
    for path in populated_submodules(repo)? {
        let why = match Repo::open_at(repo.git(), &repo.top().join(path.as_path()))? {
            Some(inner) if depth > 0 => reasons_to_keep(&inner, depth)?,
            Some(_) => vec!["is nested too deeply to be inspected".to_owned()],
            None => vec!["is broken".to_owned()],
        };
        if !why.is_empty() {
            risks.push(RemovalRisk::Submodule { path, why: why.join(", ") });
        }
    }
    Ok(risks)
}

fn reasons_to_keep(repo: &Repo<'_>, depth: usize) -> Result<Vec<String>, Error> {
    let mut risks = checkout_risks(repo)?;
    risks.extend(submodule_risks(repo, depth - 1)?);
    let mut reasons: Vec<String> = risks.iter().map(RemovalRisk::to_string).collect();
    let mut args = vec!["rev-list", "--count", "--glob=refs/*", "--reflog"];
    args.extend(repo.resolve("HEAD^{commit}")?.is_some().then_some("HEAD"));
    args.extend(["--not", "--remotes"]);
    let unpushed = repo.read(args).run()?;
    if unpushed.line() != OsStr::new("0") {
        reasons
            .push(format!("{} commits on no remote", printable_line(unpushed.line().as_bytes())));
    }
    Ok(reasons)
}

fn count_ignored(repo: &Repo<'_>) -> Result<usize, Error> {
    let args = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    Ok(repo.read(args).run()?.items().count())
}

/// Removes the files, then the registration. Git itself would refuse to remove the worktree,
/// because it compares the `.git` file with the git directory that it was given, which is Provost's
/// own. If the function is interrupted between the two steps, the worktree remains registered and
/// locked.
fn remove_registered(git: &Git, shared: &Repo<'_>, worktree: &Worktree) -> Result<(), Error> {
    if worktree.path.symlink_metadata().is_ok() {
        // An agent may have written files since the first check.
        let risks = checkout_risks(&worktree.repo(git)?)?;
        if !risks.is_empty() {
            let removal = RemovalImpact { risks, ..RemovalImpact::default() };
            return Err(Error::WouldLose { path: worktree.path.clone(), removal });
        }
    }
    match fs::remove_dir_all(&worktree.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(command::Error::file(&worktree.path)(error).into())
        }
        Ok(()) | Err(_) => Ok(registry::unregister(shared, &worktree.path)?),
    }
}

/// Deletes the branch, unless it has moved since the deletion was found to be safe.
fn delete_branch(shared: &Repo<'_>, branch: &BranchName, tip: &Oid) -> Result<BranchName, Error> {
    shared.write(["update-ref", "-d", &branch.full(), tip.as_str()]).run()?;
    Ok(branch.clone())
}

impl NamedPaths {
    fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(RepoPath::new(path));
        }
    }

    fn non_empty(self) -> Option<Self> {
        (self.count > 0).then_some(self)
    }
}

impl fmt::Display for NamedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.named.iter().map(RepoPath::to_string).collect();
        f.write_str(&named.join(", "))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for RemovalRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UncommittedChanges { paths } => write!(f, "uncommitted changes ({paths})"),
            Self::UntrackedFiles { paths } => write!(f, "untracked files ({paths})"),
            Self::EmbeddedRepositories { paths } => {
                write!(f, "repositories inside the worktree ({paths})")
            }
            Self::UnreachableCommits { count, tip } => {
                write!(f, "{count} commits that no other ref reaches (up to {tip})")
            }
            Self::Stashes { count } => write!(f, "{count} stash entries of the branch"),
            Self::Ongoing { operation } => write!(f, "a {operation} in progress"),
            Self::LockedByOther { reason } => {
                write!(f, "a lock that Provost did not set ({reason})")
            }
            Self::Submodule { path, why } => write!(f, "the submodule {path}: {why}"),
            Self::Replaced { by } => by.fmt(f),
            Self::BranchInUse { by } => {
                write!(f, "the branch is in use at {}", printable_line(by.as_os_str().as_bytes()))
            }
        }
    }
}

fn join(risks: &[RemovalRisk]) -> String {
    risks.iter().map(RemovalRisk::to_string).collect::<Vec<_>>().join("; ")
}
