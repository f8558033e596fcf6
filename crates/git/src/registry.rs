//! The worktrees that a repository knows of.

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

/// One registered worktree; its directory need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) commit: Option<Oid>,
    /// The full ref of its branch, unless detached.
    pub(crate) branch: Option<String>,
    /// The reason of its lock, if it is locked.
    pub(crate) lock: Option<String>,
}

/// Makes the directory of registrations, which git does not make where a link leads to it.
pub(crate) fn make_room(shared: &Repo<'_>) -> Result<(), Error> {
    let all = shared.git_dir().join("worktrees");
    fs::create_dir_all(&all).map_err(Error::file(&all))
}

/// Lets the `.git` file of a new worktree name its git directory in the repository: git wrote the path by which it got
/// there, which leads through a directory of Provost's own.
pub(crate) fn link(worktree: &Repo<'_>) -> Result<(), Error> {
    let (file, new) = (worktree.top().join(".git"), worktree.top().join(".git.new"));
    let text = [b"gitdir: ", worktree.git_dir().as_os_str().as_bytes(), b"\n"].concat();
    let linked = fs::write(&new, text).and_then(|()| fs::rename(&new, &file));
    linked.map_err(Error::file(&file))
}

/// Returns all registered worktrees, the main one first.
pub(crate) fn entries(shared: &Repo<'_>) -> Result<Vec<Entry>, Error> {
    let answer = shared.read(["worktree", "list", "--porcelain", "-z"]).run()?;
    let mut entries: Vec<Entry> = Vec::new();
    for line in answer.items() {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            let path = PathBuf::from(OsStr::from_bytes(path));
            entries.push(Entry { path, commit: None, branch: None, lock: None });
        } else {
            entries.last_mut().ok_or_else(|| answer.unexpected())?.add(line);
        }
    }
    // Git derives the place of the main one from the directory that it took for the shared one.
    if let Some(main) = entries.first_mut() {
        main.path = main_top(shared.git_dir());
    }
    Ok(entries)
}

/// Returns the entry at a path.
pub(crate) fn entry_at(shared: &Repo<'_>, path: &Path) -> Result<Option<Entry>, Error> {
    Ok(entries(shared)?.into_iter().find(|entry| entry.path == path))
}

/// Returns the git directory that the repository keeps for a worktree.
///
/// It is looked up in the repository, not in the worktree: what lies in the
/// worktree is the agent's to write.
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

/// Forgets a worktree whose directory does not exist.
pub(crate) fn forget(shared: &Repo<'_>, path: &Path) -> Result<(), Error> {
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

/// Tells whether the text of a `gitdir` file (absolute, or relative to where
/// it lies) names the `.git` file of the worktree at `path`.
fn points_to(text: &[u8], own: &Path, path: &Path) -> bool {
    let target = own.join(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(text)));
    let Some(directory) = target.parent() else { return false };
    directory == path || directory.canonicalize().is_ok_and(|directory| directory == path)
}

impl Entry {
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
