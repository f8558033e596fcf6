//! Files that block git: pipes and devices in place of files that git reads.
//!
//! Git opens a file without checking its type, and blocks on a pipe until a process writes to the
//! pipe. An agent can put a pipe in its worktree at any time, so a check before each call would
//! come too early or cost too much. Instead, a call that takes unusually long is checked while it
//! runs.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;

use crate::worktree::MAX_POINTER;

/// Files that git reads in every directory of a checkout.
const READ_EVERYWHERE: [&str; 4] = [".git", ".gitattributes", ".gitignore", ".gitmodules"];

/// The directories in a git directory from which git reads files. The first one is the git
/// directory itself. Git reads `info` only in Provost's own directory.
const READ_DIRECTORIES: [&str; 3] = ["", "objects/info", "objects/pack"];

/// Directories of a git directory that git reads recursively.
const READ_TREES: [&str; 3] = ["logs", "refs", "reftable"];

/// The maximum number of directories to search, which keeps a search short.
const MAX_DIRECTORIES: usize = 200_000;

/// The places where a git call reads files.
#[derive(Debug, Clone)]
pub(crate) struct SpecialFileSearch {
    /// The directory in which git runs: the top of a checkout, or a directory below it.
    pub(crate) directory: PathBuf,
    /// The git directories that were passed to git. If there are none, git discovers its git
    /// directory.
    pub(crate) git_dirs: Vec<PathBuf>,
}

impl SpecialFileSearch {
    /// Returns a pipe or a device that blocks git.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        let mut rest = MAX_DIRECTORIES;
        let given = if self.git_dirs.is_empty() {
            self.directory.ancestors().find_map(discover).into_iter().collect()
        } else {
            self.git_dirs.clone()
        };
        given.iter().find_map(|git_dir| find_in_git_dir(git_dir, &mut rest)).or_else(|| {
            let blocks = |path: &Path, name: &OsStr| {
                READ_EVERYWHERE.iter().any(|read| name == *read) && is_special(path)
            };
            find_below(&self.directory, &blocks, &mut rest)
        })
    }
}

/// Returns the git directory of a checkout with this top, as git finds it.
fn discover(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = agent_file::read(&git, MAX_POINTER).ok()?;
    let text = text.strip_prefix(b"gitdir: ")?;
    Some(top.join(OsStr::from_bytes(text.trim_ascii_end())))
}

fn find_in_git_dir(git_dir: &Path, rest: &mut usize) -> Option<PathBuf> {
    let any = |path: &Path, _: &OsStr| is_special(path);
    let worktrees = entries(&git_dir.join("worktrees"));
    let flat = READ_DIRECTORIES.iter().map(|name| git_dir.join(name));
    let special =
        |directory: PathBuf| entries(&directory).into_iter().find(|path| is_special(path));
    flat.chain(worktrees)
        .find_map(special)
        .or_else(|| READ_TREES.iter().find_map(|name| find_below(&git_dir.join(name), &any, rest)))
}

/// Searches a directory and its subdirectories. Skips git directories and does not follow links.
fn find_below(
    top: &Path,
    blocks: &dyn Fn(&Path, &OsStr) -> bool,
    rest: &mut usize,
) -> Option<PathBuf> {
    let mut open = VecDeque::from([top.to_owned()]);
    while let Some(directory) = open.pop_front() {
        *rest = rest.checked_sub(1)?;
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && name != ".git" {
                open.push_back(path);
            } else if !is_dir && blocks(&path, &name) {
                return Some(path);
            }
        }
    }
    None
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Whether reading the file may block forever. A socket cannot be opened, so it does not block.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let kind = found.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_pipe(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    }

    #[test]
    fn pipes_that_git_reads_are_found() {
        for name in [
            ".gitignore",
            "a/b/.gitattributes",
            ".gitmodules",
            ".git/HEAD",
            ".git/index",
            ".git/packed-refs",
            ".git/refs/heads/a/b",
            ".git/objects/info/alternates",
            ".git/objects/pack/x.idx",
            ".git/worktrees/w/HEAD",
        ] {
            let top = tempfile::tempdir().unwrap();
            let git_dir = top.path().join(".git");
            fs::create_dir_all(&git_dir).unwrap();
            let given = SpecialFileSearch {
                directory: top.path().to_owned(),
                git_dirs: vec![git_dir.clone()],
            };
            assert_eq!(given.find(), None);
            make_pipe(&top.path().join(name));
            assert_eq!(given.find(), Some(top.path().join(name)), "{name}");
            let directory = top.path().to_owned();
            let discovered = SpecialFileSearch { directory, git_dirs: Vec::new() };
            assert_eq!(discovered.find(), Some(top.path().join(name)), "{name}");
        }
    }

    #[test]
    fn other_pipes_do_not_count() {
        let top = tempfile::tempdir().unwrap();
        make_pipe(&top.path().join("pipe"));
        make_pipe(&top.path().join("sub/.git/HEAD"));
        make_pipe(&top.path().join(".git/info/exclude"));
        std::os::unix::net::UnixListener::bind(top.path().join(".gitignore")).unwrap();
        std::os::unix::fs::symlink(top.path(), top.path().join("loop")).unwrap();
        let search = SpecialFileSearch { directory: top.path().to_owned(), git_dirs: Vec::new() };
        assert_eq!(search.find(), None);
    }
}
