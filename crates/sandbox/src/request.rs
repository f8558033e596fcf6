//! Turns the directories that a command needs into a plan.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::git_dirs::GitDirs;
use crate::plan::{
    FileKind, NetworkAccess, PathAccess, PathRule, ProcessLimits, SandboxMode, SandboxPlan,
};
use crate::private_paths::{self, SERVICE_VARIABLES, UserDirs};

/// The directories that a command needs, and the user's directories that it must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRequest {
    pub mode: SandboxMode,
    pub network: NetworkAccess,
    /// The working directory.
    pub directory: PathBuf,
    /// The worktree or checkout.
    pub worktree: PathBuf,
    pub git: Option<GitDirs>,
    /// An existing directory that only this command and its successors use.
    pub temporary: PathBuf,
    /// Additional writable paths, such as the agent's home and its drop box.
    pub writable: Vec<PathBuf>,
    /// Paths that the user's configuration makes writable (`sandbox.write`). Missing ones are
    /// ignored.
    pub user_writable: Vec<PathBuf>,
    /// Paths that stay readable although they are in a hidden directory, such as the daemon's
    /// socket and the agent's program.
    pub readable: Vec<PathBuf>,
    /// Additional hidden directories, such as Provost's home.
    pub hidden: Vec<PathBuf>,
    pub user: UserDirs,
    pub limits: ProcessLimits,
}

/// The reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not examine {}", .0.display())]
    Examine(PathBuf, #[source] io::Error),
    #[error("cannot make {} writable: {why}", path.display())]
    TooBroad { path: PathBuf, why: &'static str },
}

impl SandboxRequest {
    /// Examines the paths and builds the plan. Paths are resolved, because rules apply to files
    /// rather than to names. Hidden and readable paths that do not exist are omitted.
    pub fn resolve(&self) -> Result<SandboxPlan, Error> {
        let worktree = required(&self.worktree)?;
        let temporary = required(&self.temporary)?;
        let directory = required(&self.directory)?;
        let mut plan = SandboxPlan::unrestricted(directory, temporary.clone());
        plan.limits = self.limits;
        if self.mode == SandboxMode::Off {
            return Ok(plan);
        }
        plan.mode = self.mode;
        plan.network = self.network;
        plan.removed_variables = SERVICE_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
        self.add_hidden(&mut plan)?;
        self.add_temporary(&mut plan, &temporary)?;
        self.add_readable(&mut plan)?;
        self.add_writable(&mut plan, &worktree)?;
        Ok(plan)
    }

    fn add_hidden(&self, plan: &mut SandboxPlan) -> Result<(), Error> {
        for path in self.user.hidden().iter().chain(&self.hidden) {
            if let Some(rule) = existing_rule(path, PathAccess::Hidden)? {
                plan.add_rule(rule);
            }
        }
        for path in private_paths::needed() {
            if let Some(rule) = existing_rule(path, PathAccess::Readable)? {
                plan.add_rule(rule);
            }
        }
        Ok(())
    }

    /// Replaces the shared temporary directories by the private one.
    fn add_temporary(&self, plan: &mut SandboxPlan, temporary: &Path) -> Result<(), Error> {
        for shared in private_paths::TEMPORARY.iter().map(Path::new) {
            if let Some(rule) = existing_rule(shared, PathAccess::Writable)? {
                plan.add_rule(PathRule { source: Some(temporary.to_owned()), ..rule });
            }
        }
        plan.add_rule(directory_rule(temporary, PathAccess::Writable));
        Ok(())
    }

    fn add_readable(&self, plan: &mut SandboxPlan) -> Result<(), Error> {
        let shared = self.git.iter().map(|git| &git.shared);
        for path in self.readable.iter().chain(shared) {
            if let Some(rule) = existing_rule(path, PathAccess::Readable)? {
                plan.add_rule(rule);
            }
        }
        Ok(())
    }

    fn add_writable(&self, plan: &mut SandboxPlan, worktree: &Path) -> Result<(), Error> {
        for path in &self.writable {
            let rule = existing_rule(path, PathAccess::Writable)?;
            plan.add_rule(rule.ok_or_else(|| missing(path))?);
        }
        if self.mode == SandboxMode::ReadOnly {
            plan.add_rule(directory_rule(worktree, PathAccess::Readable));
            return Ok(());
        }
        for path in &self.user_writable {
            if let Some(rule) = existing_rule(path, PathAccess::Writable)? {
                refuse_broad(&rule.path)?;
                plan.add_rule(rule);
            }
        }
        plan.add_rule(directory_rule(worktree, PathAccess::Writable));
        let Some(git) = &self.git else { return self.freeze_git_dir(plan, worktree) };
        if !git.is_linked() {
            return self.freeze_git_dir(plan, worktree);
        }
        for path in git.writable() {
            plan.add_rule(directory_rule(&required(&path)?, PathAccess::Writable));
        }
        for path in git.frozen(worktree) {
            plan.frozen.extend(unlinked(&path)?);
        }
        Ok(())
    }

    /// Makes the git directory of a checkout that is its own repository readable only.
    fn freeze_git_dir(&self, plan: &mut SandboxPlan, worktree: &Path) -> Result<(), Error> {
        let path = worktree.join(".git");
        if unlinked(&path)?.is_some() {
            plan.add_rule(PathRule {
                kind: kind_of(&path)?,
                path,
                access: PathAccess::Readable,
                source: None,
            });
        }
        Ok(())
    }
}

/// Returns a rule for a path, if the path exists.
fn existing_rule(path: &Path, access: PathAccess) -> Result<Option<PathRule>, Error> {
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(Error::Examine(path.to_owned(), error)),
    };
    let kind = kind_of(&path)?;
    Ok(Some(PathRule { path, access, kind, source: None }))
}

fn directory_rule(path: &Path, access: PathAccess) -> PathRule {
    PathRule { path: path.to_owned(), access, kind: FileKind::Directory, source: None }
}

fn required(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(|error| Error::Examine(path.to_owned(), error))
}

fn missing(path: &Path) -> Error {
    Error::Examine(path.to_owned(), io::ErrorKind::NotFound.into())
}

/// A path that cannot exist for the command is missing, too.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

fn kind_of(path: &Path) -> Result<FileKind, Error> {
    let found =
        fs::symlink_metadata(path).map_err(|error| Error::Examine(path.to_owned(), error))?;
    Ok(if found.is_dir() { FileKind::Directory } else { FileKind::File })
}

/// Returns the path if it exists and is not a symbolic link. The target of a link could be a file
/// that the command must not see.
fn unlinked(path: &Path) -> Result<Option<PathBuf>, Error> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((!found.is_symlink()).then(|| path.to_owned())),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(Error::Examine(path.to_owned(), error)),
    }
}

/// Refuses a writable path that contains programs or devices of the whole system.
fn refuse_broad(path: &Path) -> Result<(), Error> {
    let why = match path.to_str() {
        Some("/") => "it contains all files",
        Some("/proc" | "/sys" | "/dev" | "/run") => "it belongs to the system",
        _ => return Ok(()),
    };
    Err(Error::TooBroad { path: path.to_owned(), why })
}
