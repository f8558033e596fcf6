//! The worktrees registered in a repository.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;

use crate::command::Error;
use crate::names::Oid;
use crate::repo::Repo;
use crate::worktree::MAX_POINTER;

/// A registered worktree. Its directory may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorktreeEntry {
    pub(crate) path: PathBuf,
    pub(crate) commit: Option<Oid>,
    /// The full ref of its branch, unless HEAD is detached.
    pub(crate) branch: Option<String>,
    /// The reason given for its lock, if it is locked.
    pub(crate) lock: Option<String>,
}

/// Creates the directory for worktree registrations, because git does not create it behind a
/// symbolic link.
pub(crate) fn create_registry_dir(shared: &Repo<'_>) -> Result<(), Error> {
    let all = shared.git_dir().join("worktrees");
    fs::create_dir_all(&all).map_err(Error::file(&all))
}

/// Makes the `.git` file of a new worktree point to its git directory in the repository. Git has
/// written the path that it used itself, and that path leads through one of Provost's own
/// directories.
pub(crate) fn rewrite_git_file(worktree: &Repo<'_>) -> Result<(), Error> {
    let (file, new) = (worktree.top().join(".git"), worktree.top().join(".git.new"));
    let text = [b"gitdir: ", worktree.git_dir().as_os_str().as_bytes(), b"\n"].concat();
    let linked = fs::write(&new, text).and_then(|()| fs::rename(&new, &file));
    linked.map_err(Error::file(&file))
}

/// Returns all registered worktrees, the main one first.
pub(crate) fn entries(shared: &Repo<'_>) -> Result<Vec<WorktreeEntry>, Error> {
    let answer = shared.read(["worktree", "list", "--porcelain", "-z"]).run()?;
    let mut entries: Vec<WorktreeEntry> = Vec::new();
    for line in answer.items() {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            let path = PathBuf::from(OsStr::from_bytes(path));
            entries.push(WorktreeEntry { path, commit: None, branch: None, lock: None });
        } else {
            entries.last_mut().ok_or_else(|| answer.unexpected())?.add(line);
        }
    }
    // Git derives the location of the main worktree from the shared directory that it was given.
    // That directory is Provost's own, so the location is corrected here.
    if let Some(main) = entries.first_mut() {
        main.path = main_top(shared.git_dir());
    }
    Ok(entries)
}

/// Returns the entry for a path, if there is one.
pub(crate) fn entry_at(shared: &Repo<'_>, path: &Path) -> Result<Option<WorktreeEntry>, Error> {
    Ok(entries(shared)?.into_iter().find(|entry| entry.path == path))
}

/// Returns the git directory that the repository keeps for a worktree.
///
/// The directory is looked up in the repository, not in the worktree, because an agent can write
/// all files in the worktree.
pub(crate) fn git_dir_of(shared: &Repo<'_>, path: &Path) -> Result<Option<PathBuf>, Error> {
    let all = shared.git_dir().join("worktrees");
    let listed = match fs::read_dir(&all) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(&all)(error)),
    };
    for item in listed {
        let own = item.map_err(Error::file(&all))?.path();
        if agent_file::read(&own.join("gitdir"), MAX_POINTER)
            .is_ok_and(|text| points_to(&text, &own, path))
        {
            return Ok(Some(own));
        }
    }
    Ok(None)
}

/// Unregisters a worktree whose directory does not exist.
pub(crate) fn unregister(shared: &Repo<'_>, path: &Path) -> Result<(), Error> {
    let args = ["worktree", "remove", "--force", "--force", "--"].map(OsStr::new);
    shared.write(args.into_iter().chain([path.as_os_str()])).run()?;
    Ok(())
}

/// Returns the top of the main worktree as git derives it from the shared git directory.
fn main_top(shared: &Path) -> PathBuf {
    match shared.parent() {
        Some(top) if shared.file_name() == Some(OsStr::new(".git")) => top.to_owned(),
        _ => shared.to_owned(),
    }
}

/// Whether the content of a `gitdir` file (absolute, or relative to its location) points to the
/// `.git` file of the worktree at `path`.
fn points_to(text: &[u8], own: &Path, path: &Path) -> bool {
    let target = own.join(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(text)));
    let Some(directory) = target.parent() else { return false };
    directory == path || directory.canonicalize().is_ok_and(|directory| directory == path)
}

impl WorktreeEntry {
    fn add(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("HEAD", commit) => self.commit = Oid::new(commit).ok().filter(|oid| !is_null(oid)),
            ("branch", name) => self.branch = Some(name.to_owned()),
            ("locked", reason) => self.lock = Some(reason.to_owned()),
            // Attributes that newer versions of git may add.
            _ => {}
        }
    }
}

fn is_null(oid: &Oid) -> bool {
    oid.as_str().bytes().all(|digit| digit == b'0')
}
