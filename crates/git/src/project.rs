//! The user's repository: its location and state.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::command::{self, Git, GitExit};
use crate::escape::printable_line;
use crate::inspect;
use crate::names::Oid;
use crate::repo::{Repo, RepoLocation};

/// The arguments of every query. They ask whether the directory is in a checkout with files, and
/// set options for the paths that follow.
const KIND: [&str; 4] =
    ["rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--path-format=absolute"];
const TOP: &str = "--show-toplevel";
const GIT_DIR: &str = "--absolute-git-dir";
const COMMON_DIR: &str = "--git-common-dir";

/// A non-bare git repository, found from a directory inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The top of the checkout that contains the directory.
    pub top: PathBuf,
    /// The git directory of that checkout.
    pub git_dir: PathBuf,
    /// The git directory shared by all worktrees of the repository.
    pub common_dir: PathBuf,
}

/// The reason why a directory is not a usable project.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no git repository at {}", printable_line(.0.as_os_str().as_bytes()))]
    NotARepository(PathBuf),
    #[error("cannot work in {}: it is a bare repository, without files", printable_line(.0.as_os_str().as_bytes()))]
    Bare(PathBuf),
    #[error("cannot work in {}: it is inside a git directory", printable_line(.0.as_os_str().as_bytes()))]
    InsideGitDir(PathBuf),
    #[error("cannot trust {}: the repository belongs to another user", printable_line(.0.as_os_str().as_bytes()))]
    ForeignOwner(PathBuf),
    #[error("cannot read the directory {}", printable_line(.path.as_os_str().as_bytes()))]
    NoDirectory { path: PathBuf, source: std::io::Error },
    #[error("the repository {} has no commit yet", printable_line(.0.as_os_str().as_bytes()))]
    NoCommits(PathBuf),
    #[error(transparent)]
    Git(#[from] command::Error),
}

impl Project {
    /// Finds the project that contains a directory.
    pub fn find(git: &Git, cwd: &Path) -> Result<Self, Error> {
        let [top, git_dir, common_dir] = locate(git, &canonical(cwd)?)?;
        Ok(Self { top, git_dir, common_dir })
    }

    /// Finds only the top of the checkout that contains a directory.
    pub fn top_of(git: &Git, cwd: &Path) -> Result<PathBuf, Error> {
        rev_parse(git, &canonical(cwd)?, &[TOP]).map(|top| path(&top))
    }

    /// Whether the checkout is a linked worktree of another one.
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Returns the checked-out commit, or an error if none exists yet.
    pub fn commit(&self, git: &Git) -> Result<Oid, Error> {
        let head = inspect::read_head(git, self)?;
        head.commit().cloned().ok_or_else(|| Error::NoCommits(self.top.clone()))
    }

    /// Opens the checkout itself.
    pub(crate) fn repo<'a>(&self, git: &'a Git) -> Result<Repo<'a>, command::Error> {
        Repo::open(
            git,
            RepoLocation { git_dir: &self.git_dir, common_dir: &self.common_dir, top: &self.top },
        )
    }

    /// Opens the part of the repository that all worktrees share, without access to a checkout.
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
            Self::NotARepository(_) => {
                Some("change to a repository, or create one with `git init` and a first commit")
            }
            Self::Bare(_) => Some("create a checkout with `git worktree add`, and start there"),
            Self::InsideGitDir(_) => Some("change to the directory that contains the files"),
            Self::ForeignOwner(_) => {
                Some("if you trust the owner: `git config --global --add safe.directory DIRECTORY`")
            }
            Self::NoDirectory { .. } => Some("check that the directory exists and can be read"),
            Self::NoCommits(_) => {
                Some("create a first commit with `git commit --allow-empty -m first`")
            }
            Self::Git(_) => None,
        }
    }
}

fn canonical(cwd: &Path) -> Result<PathBuf, Error> {
    std::fs::canonicalize(cwd).map_err(|source| Error::NoDirectory { path: cwd.to_owned(), source })
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Queries all paths in one call. If a path contains a line feed, there are more lines than paths,
/// and each path is queried separately.
fn locate(git: &Git, cwd: &Path) -> Result<[PathBuf; 3], Error> {
    let printed = rev_parse(git, cwd, &[TOP, GIT_DIR, COMMON_DIR])?;
    let lines: Vec<&[u8]> = printed.split(|byte| *byte == b'\n').collect();
    if let [top, git_dir, common_dir] = lines[..] {
        return Ok([path(top), path(git_dir), path(common_dir)]);
    }
    let alone = |what| rev_parse(git, cwd, &[what]).map(|printed| path(&printed));
    Ok([alone(TOP)?, alone(GIT_DIR)?, alone(COMMON_DIR)?])
}

/// Queries git before the repository's location is known, so that git discovers it. Returns the
/// output without the final line feed.
fn rev_parse(git: &Git, cwd: &Path, what: &[&str]) -> Result<Vec<u8>, Error> {
    let args = KIND.iter().chain(what).map(OsStr::new);
    let answer = git.call(cwd).args(args).variable("GIT_OPTIONAL_LOCKS", "0").run_unchecked()?;
    // In a bare repository, git first prints that the repository is bare and then fails on the
    // paths.
    let printed = answer.stdout.as_slice();
    if printed.starts_with(b"true\nfalse\n") {
        return Err(Error::Bare(cwd.to_owned()));
    }
    if printed.starts_with(b"false\nfalse\n") || printed.starts_with(b"true\ntrue\n") {
        return Err(Error::InsideGitDir(cwd.to_owned()));
    }
    if answer.exit == GitExit::Code(0) {
        let paths = printed.strip_prefix(b"false\ntrue\n").and_then(|t| t.strip_suffix(b"\n"));
        return paths.map(<[u8]>::to_vec).ok_or_else(|| answer.unexpected().into());
    }
    if answer.stderr_contains("dubious ownership") {
        return Err(Error::ForeignOwner(cwd.to_owned()));
    }
    if answer.stderr_contains("not a git repository") {
        return Err(Error::NotARepository(cwd.to_owned()));
    }
    Err(answer.failure().into())
}
