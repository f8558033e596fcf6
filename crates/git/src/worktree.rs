//! Provost's own worktrees: one per session, each on its own branch.
//!
//! Creating a worktree takes several steps, and the machine may crash between any two of them.
//! Therefore the worktree is locked from the first step on, with a reason that marks it as
//! unfinished. The reason changes only when the worktree is complete. An unfinished worktree
//! contains no work, so it is completed or created again. Any other directory is never overwritten.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;
use serde::Serialize;

use crate::command::{self, Git, GitExit};
use crate::escape::printable_line;
use crate::filters;
use crate::names::{BranchName, Oid, RefName};
use crate::project::{self, Project};
use crate::registry::{self, WorktreeEntry};
use crate::repo::{Repo, RepoLocation};
use crate::submodules::{self, SubmoduleSource};

/// The lock reason of a finished worktree.
pub const LOCK_REASON: &str = "provost";

/// The lock reason of an unfinished worktree.
const MAKING: &str = "provost: being made";

/// The lock reason that git itself writes while it registers a worktree.
const REGISTERING: &str = "initializing";

/// The maximum number of names that [`unique_branch`] tries.
const MAX_SUFFIX: usize = 1000;

/// A worktree that Provost created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    /// The branch on which the worktree was created. The agent may have switched to another one.
    pub branch: BranchName,
    /// The worktree's own git directory.
    pub git_dir: PathBuf,
    /// The git directory that the worktree shares with its project.
    pub common_dir: PathBuf,
}

/// The thing that replaced a worktree's directory or its `.git` file since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeReplacement {
    /// The directory is now a symbolic link or a file, whose content does not belong to the
    /// worktree.
    Top,
    /// The worktree's `.git` is gone.
    NoGit,
    /// The worktree's `.git` is a directory or a symbolic link, or points to another repository.
    OtherGit,
}

/// The reason why no worktree was created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create the branch {branch}: it already exists")]
    BranchTaken { branch: BranchName },
    #[error("cannot create a branch: all names like {branch} are taken")]
    NoFreeBranch { branch: BranchName },
    #[error("cannot create a worktree at {}: {why}", show(.path))]
    BadPath { path: PathBuf, why: &'static str },
    #[error("cannot create a worktree at {}: the path is occupied", show(.path))]
    Occupied { path: PathBuf },
    #[error("cannot use the worktree at {}: it is on {on}", show(.path))]
    OnOtherBranch { path: PathBuf, on: String },
    #[error("the base {base} is not a commit of this repository")]
    NoSuchBase { base: String },
    #[error(transparent)]
    Submodules(#[from] submodules::Error),
    #[error(transparent)]
    Project(#[from] project::Error),
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Creates a worktree on a new branch at `base`, or returns the existing one. Repeating the call
/// after a crash at any point returns the same worktree.
pub fn worktree_add(
    git: &Git,
    project: &Project,
    path: &Path,
    branch: &BranchName,
    base: &str,
) -> Result<Worktree, Error> {
    let shared = project.shared(git)?;
    let base = resolve_base(project, &shared, base)?;
    let known = registry::entries(&shared)?;
    let path = settle_path(project, &known, path)?;
    let site = WorktreeSite { git, project, shared, known, path, branch, base };
    match site.examine()? {
        ExistingWorktree::Nothing => site.make(BranchUse::New),
        ExistingWorktree::Shell { on_branch } => {
            site.clear_shell()?;
            site.make(if on_branch { BranchUse::Own } else { BranchUse::New })
        }
        ExistingWorktree::Unfinished => site.complete(BranchUse::New),
        ExistingWorktree::Finished => site.take(),
    }
}

/// Returns the worktree at a path if it is registered in the project. Does not create one.
pub fn worktree_find(
    git: &Git,
    project: &Project,
    path: &Path,
    branch: &BranchName,
) -> Result<Option<Worktree>, Error> {
    let shared = project.shared(git)?;
    let path = resolve_parent(path).unwrap_or_else(|_| path.to_owned());
    let git_dir = registry::git_dir_of(&shared, &path)?;
    let (branch, common_dir) = (branch.clone(), project.common_dir.clone());
    Ok(git_dir.map(|git_dir| Worktree { path, branch, git_dir, common_dir }))
}

/// Returns the wanted name if no existing branch conflicts with it, or else the first free name
/// with the suffix `-2`, `-3`, ….
pub fn unique_branch(
    git: &Git,
    project: &Project,
    wanted: &BranchName,
) -> Result<BranchName, Error> {
    let answer = project
        .shared(git)?
        .read(["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"])
        .run()?;
    let listed = String::from_utf8_lossy(&answer.stdout).into_owned();
    let taken: Vec<&str> = listed.lines().collect();
    let numbered = (2..=MAX_SUFFIX).map(|count| format!("{wanted}-{count}"));
    std::iter::once(wanted.to_string())
        .chain(numbered)
        .find(|name| !taken.iter().any(|other| collide(name, other)))
        .and_then(|name| BranchName::new(&name).ok())
        .ok_or_else(|| Error::NoFreeBranch { branch: wanted.clone() })
}

/// The maximum size of a file that contains the path of a git directory.
pub(crate) const MAX_POINTER: u64 = 64 << 10;

impl Worktree {
    /// Returns the thing that replaced the worktree, if it was replaced. The worktree's path must
    /// exist.
    pub(crate) fn replaced(&self) -> Result<Option<WorktreeReplacement>, command::Error> {
        let about = fs::symlink_metadata(&self.path).map_err(command::Error::file(&self.path))?;
        if !about.is_dir() {
            return Ok(Some(WorktreeReplacement::Top));
        }
        let file = self.path.join(".git");
        match fs::symlink_metadata(&file) {
            Ok(about) if about.is_file() => {}
            Ok(_) => return Ok(Some(WorktreeReplacement::OtherGit)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(WorktreeReplacement::NoGit));
            }
            Err(error) => return Err(command::Error::file(&file)(error)),
        }
        let text = match agent_file::read(&file, MAX_POINTER) {
            Ok(text) => text,
            // The file was replaced in the meantime.
            Err(agent_file::Error::Io { source, .. }) => {
                return Err(command::Error::file(&file)(source));
            }
            Err(_) => return Ok(Some(WorktreeReplacement::OtherGit)),
        };
        Ok((!self.is_named_by(&text)).then_some(WorktreeReplacement::OtherGit))
    }

    /// Whether the content of a `.git` file (absolute, or relative to its location) points to the
    /// worktree's git directory in the project.
    fn is_named_by(&self, text: &[u8]) -> bool {
        let named = text.strip_prefix(b"gitdir: ").map(|path| path.trim_ascii_end());
        let named = named.map(|path| self.path.join(OsStr::from_bytes(path)));
        let same = |named: PathBuf| named.canonicalize().ok() == self.git_dir.canonicalize().ok();
        named.is_some_and(|named| named.is_dir() && same(named))
    }

    /// Returns the checked-out commit and its tree.
    pub fn checked_out(&self, git: &Git) -> Result<(Oid, Oid), command::Error> {
        let answer = self.repo(git)?.read(["rev-parse", "HEAD^{commit}", "HEAD^{tree}"]).run()?;
        let oid = |line: &[u8]| std::str::from_utf8(line).ok().and_then(|text| Oid::new(text).ok());
        let mut lines = answer.stdout.split(|byte| *byte == b'\n').map(oid);
        let both = lines.next().flatten().zip(lines.next().flatten());
        both.ok_or_else(|| answer.unexpected())
    }

    /// Opens the worktree through its git directory in the project.
    pub(crate) fn repo<'a>(&self, git: &'a Git) -> Result<Repo<'a>, command::Error> {
        Repo::open(
            git,
            RepoLocation { git_dir: &self.git_dir, common_dir: &self.common_dir, top: &self.path },
        )
    }

    /// Opens the part of the repository that the worktree shares with the project.
    pub(crate) fn shared<'a>(&self, git: &'a Git) -> Result<Repo<'a>, command::Error> {
        Repo::open(
            git,
            RepoLocation {
                git_dir: &self.common_dir,
                common_dir: &self.common_dir,
                top: &self.common_dir,
            },
        )
    }
}

impl Error {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BranchTaken { .. } => {
                Some("choose another name, or delete the branch if its work has landed")
            }
            Self::NoFreeBranch { .. } => Some("delete old branches with `provost gc`"),
            Self::BadPath { .. } => Some("choose an absolute path outside of the repository"),
            Self::Occupied { .. } => Some("move the existing files elsewhere"),
            Self::OnOtherBranch { .. } => {
                Some("inspect the worktree with `git -C PATH status` and switch it back")
            }
            Self::NoSuchBase { .. } => Some("use a commit, a branch or a tag of this repository"),
            Self::Submodules(error) => error.hint(),
            Self::Project(error) => error.hint(),
            Self::Git(error) => error.hint(),
        }
    }
}

impl fmt::Display for WorktreeReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Top => "the worktree's directory was replaced",
            Self::NoGit => "the worktree's .git is gone (`git worktree repair` restores it)",
            Self::OtherGit => {
                "the worktree's .git was replaced (move it away, then `git \
                worktree repair`)"
            }
        })
    }
}

/// The location of the worktree to create, and its current state.
struct WorktreeSite<'a> {
    git: &'a Git,
    project: &'a Project,
    shared: Repo<'a>,
    /// The worktrees that were registered when the location was examined.
    known: Vec<WorktreeEntry>,
    path: PathBuf,
    branch: &'a BranchName,
    base: Oid,
}

/// The worktree that already exists at the location.
enum ExistingWorktree {
    Nothing,
    /// A registration, with at most an empty directory.
    Shell {
        on_branch: bool,
    },
    /// A worktree whose creation was interrupted.
    Unfinished,
    /// A finished worktree on the requested branch.
    Finished,
}

/// Whether an existing branch may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchUse {
    New,
    /// A new branch, whose name was found to be free.
    Free,
    Own,
}

impl<'a> WorktreeSite<'a> {
    fn examine(&self) -> Result<ExistingWorktree, Error> {
        let content = DirContent::read(&self.path).map_err(command::Error::file(&self.path))?;
        let entry = self.known.iter().find(|entry| entry.path == self.path);
        match (entry, content) {
            (None, DirContent::Absent | DirContent::Empty) => Ok(ExistingWorktree::Nothing),
            (None, DirContent::GitFileOnly | DirContent::Other) => {
                Err(Error::Occupied { path: self.path.clone() })
            }
            (Some(entry), DirContent::Absent | DirContent::Empty) => {
                Ok(ExistingWorktree::Shell { on_branch: entry.branch == Some(self.branch.full()) })
            }
            (Some(entry), DirContent::GitFileOnly | DirContent::Other) => {
                self.examine_registered(entry, content)
            }
        }
    }

    fn examine_registered(
        &self,
        entry: &WorktreeEntry,
        content: DirContent,
    ) -> Result<ExistingWorktree, Error> {
        match entry.lock.as_deref() {
            Some(REGISTERING) if content == DirContent::GitFileOnly => {
                Ok(ExistingWorktree::Shell { on_branch: false })
            }
            Some(MAKING) => Ok(ExistingWorktree::Unfinished),
            _ if entry.branch == Some(self.branch.full()) => Ok(ExistingWorktree::Finished),
            _ => Err(Error::OnOtherBranch { path: self.path.clone(), on: describe(entry) }),
        }
    }

    /// Removes a registration and a directory that contains at most a `.git` file.
    fn clear_shell(&self) -> Result<(), Error> {
        remove_if_there(fs::remove_file(self.path.join(".git")))
            .map_err(command::Error::file(&self.path))?;
        remove_if_there(fs::remove_dir(&self.path)).map_err(command::Error::file(&self.path))?;
        Ok(registry::unregister(&self.shared, &self.path)?)
    }

    fn make(&self, branch: BranchUse) -> Result<Worktree, Error> {
        self.check_branch(branch)?;
        filters::refuse_tree(&self.shared, &self.base)?;
        registry::create_registry_dir(&self.shared)?;
        let options = [
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "--detach",
            "--lock",
            "--reason",
            MAKING,
            "--",
        ];
        let place = [self.path.as_os_str(), OsStr::new(self.base.as_str())];
        self.shared
            .write(options.map(OsStr::new).into_iter().chain(place))
            .run()
            .map_err(Error::Git)?;
        self.complete(if branch == BranchUse::New { BranchUse::Free } else { branch })
    }

    /// Completes a worktree that is already registered.
    fn complete(&self, branch: BranchUse) -> Result<Worktree, Error> {
        let worktree = self.worktree()?;
        let repo = self.configure(&worktree)?;
        // Any locks in the worktree were left by an interrupted call. No other process uses the new
        // worktree yet.
        repo.remove_locks()?;
        if let Err(error) = self.attach(&repo, branch) {
            // No files have been checked out yet, so no work is lost.
            registry::unregister(&self.shared, &self.path)?;
            return Err(error);
        }
        repo.reset_hard()?;
        submodules::fill(&repo, &SubmoduleSource::of_project(self.project))?;
        lock(&worktree)?;
        Ok(worktree)
    }

    /// Opens a newly registered worktree and copies the main worktree's sparse-checkout settings to
    /// it.
    fn configure(&self, worktree: &Worktree) -> Result<Repo<'a>, Error> {
        let repo = worktree.repo(self.git)?;
        registry::rewrite_git_file(&repo)?;
        let file = worktree.git_dir.join("config.worktree");
        let sparse = &self.shared.configured().sparse;
        if sparse.is_empty() || file.exists() {
            return Ok(repo);
        }
        for (key, value) in sparse {
            let args = [OsStr::new("config"), OsStr::new("--file"), file.as_os_str(), key, value];
            repo.write(args).run()?;
        }
        Ok(worktree.repo(self.git)?)
    }

    /// Attaches HEAD to the branch, creating the branch if it is new.
    fn attach(&self, repo: &Repo<'_>, branch: BranchUse) -> Result<(), Error> {
        let (full, free) = (self.branch.full(), branch == BranchUse::Free);
        if free || repo.head_ref()? != Some(RefName::new(OsStr::new(&full))) {
            self.check_branch(branch)?;
            repo.write(["symbolic-ref", "HEAD", &full]).run().map_err(Error::Git)?;
        }
        if !free && repo.ref_commit(&full)?.is_some() {
            return Ok(());
        }
        // The empty old value makes the call fail if the branch was created in the meantime.
        let created = repo.write(["update-ref", &full, self.base.as_str(), ""]).run_unchecked()?;
        match created.exit {
            GitExit::Code(0) => Ok(()),
            _ if created.stderr_contains("reference already exists") => Err(self.branch_taken()),
            GitExit::Code(_) | GitExit::Signal(_) => Err(created.failure().into()),
        }
    }

    /// Takes over a finished worktree, and locks it if it is not locked.
    fn take(&self) -> Result<Worktree, Error> {
        let entry = self.known.iter().find(|entry| entry.path == self.path);
        let worktree = self.worktree()?;
        if entry.is_some_and(|entry| entry.lock.is_none()) {
            lock(&worktree)?;
        }
        Ok(worktree)
    }

    fn check_branch(&self, branch: BranchUse) -> Result<(), Error> {
        let full = self.branch.full();
        let elsewhere = |entry: &WorktreeEntry| {
            entry.branch.as_deref() == Some(full.as_str()) && entry.path != self.path
        };
        if branch == BranchUse::New && self.shared.ref_commit(&full)?.is_some() {
            return Err(self.branch_taken());
        }
        if self.known.iter().any(elsewhere) {
            return Err(self.branch_taken());
        }
        Ok(())
    }

    fn branch_taken(&self) -> Error {
        Error::BranchTaken { branch: self.branch.clone() }
    }

    fn worktree(&self) -> Result<Worktree, Error> {
        let found = worktree_find(self.git, self.project, &self.path, self.branch)?;
        found.ok_or_else(|| Error::Occupied { path: self.path.clone() })
    }
}

/// The kind of a directory's contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirContent {
    Absent,
    Empty,
    GitFileOnly,
    Other,
}

impl DirContent {
    fn read(path: &Path) -> io::Result<Self> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            Err(error) => return Err(error),
        };
        if !meta.is_dir() {
            return Ok(Self::Other);
        }
        let mut names = fs::read_dir(path)?.take(2).collect::<io::Result<Vec<_>>>()?;
        match (names.pop(), names.pop()) {
            (None, _) => Ok(Self::Empty),
            (Some(only), None) if only.file_name() == ".git" && only.file_type()?.is_file() => {
                Ok(Self::GitFileOnly)
            }
            (Some(_), _) => Ok(Self::Other),
        }
    }
}

fn resolve_base(project: &Project, shared: &Repo<'_>, base: &str) -> Result<Oid, Error> {
    if base == "HEAD" {
        return Ok(project.commit(shared.git())?);
    }
    if let Some(found) = shared.ref_commit(base)? {
        return Ok(found);
    }
    // A repository without commits cannot have a base.
    project.commit(shared.git())?;
    Err(Error::NoSuchBase { base: printable_line(base.as_bytes()) })
}

/// Locks a worktree as git does, with a file that contains the reason. The file replaces an
/// existing lock atomically, so after a crash the worktree is either unfinished or finished.
fn lock(worktree: &Worktree) -> Result<(), Error> {
    let (file, new) = (worktree.git_dir.join("locked"), worktree.git_dir.join("locked.new"));
    let locked = fs::write(&new, format!("{LOCK_REASON}\n")).and_then(|()| fs::rename(&new, &file));
    Ok(locked.map_err(command::Error::file(&file))?)
}

/// Creates the directories above the path, and checks that none of them is in the repository once
/// symbolic links are resolved.
fn settle_path(project: &Project, known: &[WorktreeEntry], path: &Path) -> Result<PathBuf, Error> {
    let bad = |why| Error::BadPath { path: path.to_owned(), why };
    if !path.is_absolute() {
        return Err(bad("the path is not absolute"));
    }
    let parent = path.parent().ok_or_else(|| bad("the path has no parent"))?;
    fs::create_dir_all(parent).map_err(command::Error::file(parent))?;
    let path = resolve_parent(path).map_err(command::Error::file(parent))?;
    let above = |entry: &WorktreeEntry| entry.path != path && path.starts_with(&entry.path);
    if path.starts_with(&project.common_dir) || known.iter().any(above) {
        return Err(bad("the path is inside the repository"));
    }
    Ok(path)
}

/// Resolves the symbolic links above the last component of a path.
fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(no_name)?;
    Ok(parent.canonicalize()?.join(name))
}

fn remove_if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether git cannot store both branches at once: a branch is a file, and `a/b` needs a directory
/// `a`.
fn collide(one: &str, other: &str) -> bool {
    let below = |a: &str, b: &str| {
        a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

fn describe(entry: &WorktreeEntry) -> String {
    match (&entry.branch, &entry.commit) {
        (Some(branch), _) => printable_line(branch.as_bytes()),
        (None, Some(commit)) => format!("the detached commit {commit}"),
        (None, None) => "no commit".to_owned(),
    }
}

fn show(path: &Path) -> String {
    printable_line(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_collide_with_equal_and_nested_names() {
        assert!(collide("provost/a", "provost/a"));
        assert!(collide("provost/a", "provost/a/b"));
        assert!(collide("provost/a/b", "provost/a"));
        assert!(!collide("provost/a", "provost/ab"));
    }
}
