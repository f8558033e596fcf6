//! Finds the project that contains a directory, without running git.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use provost_sys::agent_file;

use crate::{
    OwnershipError,
    owned::{self, check},
};

/// The maximum number of bytes to read from git's own small files.
const MAX_GIT_FILE: u64 = 8 << 10;

/// The reason why none of a project's files take effect.
#[derive(Debug, thiserror::Error)]
pub enum UnsafeProject {
    #[error("{0}")]
    Unowned(OwnershipError),
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// Finds the top of the checkout that contains a directory, regardless of its owner. A directory
/// called `.git` counts only if git would accept it as a repository, which means that it contains
/// `objects`, `refs`, and a `HEAD` that refers to a ref or a commit.
pub fn find_top(cwd: &Path) -> Option<PathBuf> {
    let top = cwd.ancestors().find(|dir| is_repository(&dir.join(".git")))?;
    Some(top.to_owned())
}

/// Checks that a project's top and its `.git` belong to the user and that no one else can write to them.
pub fn check_owner(top: &Path) -> Result<(), UnsafeProject> {
    for path in [top.to_owned(), top.join(".git")] {
        match check(&path) {
            Ok(Some(Ok(_)) | None) => {}
            Ok(Some(Err(why))) => return Err(UnsafeProject::Unowned(why)),
            Err(source) => return Err(UnsafeProject::Unreadable { path, source }),
        }
    }
    Ok(())
}

/// Returns the top of the repository's main checkout if this checkout is a linked worktree. Both
/// checkouts must refer to each other, so that a directory cannot pretend to be a worktree of
/// another repository.
pub fn main_top(top: &Path) -> Option<PathBuf> {
    let link = top.join(".git");
    let git_dir = link_target(&link)?;
    let back = read_text(&git_dir.join("gitdir"))?;
    let back = fs::canonicalize(git_dir.join(back.trim_end())).ok()?;
    if back != fs::canonicalize(&link).ok()? {
        return None;
    }
    let common = read_text(&git_dir.join("commondir"))?;
    let common = fs::canonicalize(git_dir.join(common.trim_end())).ok()?;
    let main = common.parent()?.to_owned();
    let is_main = common.file_name()? == ".git" && check_owner(&main).is_ok();
    is_main.then_some(main)
}

fn is_repository(git: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(git) else { return false };
    if found.is_file() {
        return link_target(git).is_some();
    }
    // Git also accepts a symbolic link to a git directory.
    let head = read_head(&git.join("HEAD"));
    head.is_some_and(|head| is_head(&head))
        && git.join("objects").is_dir()
        && git.join("refs").is_dir()
}

/// Whether a text is a valid `HEAD`.
fn is_head(text: &str) -> bool {
    let text = text.trim_end();
    let id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    id || text.strip_prefix("ref:").is_some_and(|name| name.trim_start().starts_with("refs/"))
}

/// Returns the git directory that a `.git` file specifies.
fn link_target(link: &Path) -> Option<PathBuf> {
    let text = read_head(link)?;
    let named = text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r']);
    let dir = link.parent()?;
    (!named.is_empty()).then(|| dir.join(named))
}

/// Reads the start of a small file, regardless of its owner. Does not block if the path turns out
/// to be a pipe.
fn read_head(path: &Path) -> Option<String> {
    String::from_utf8(agent_file::read_start(path, MAX_GIT_FILE).ok()?).ok()
}

fn read_text(path: &Path) -> Option<String> {
    let bytes = owned::read(path, MAX_GIT_FILE).ok()??.ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(dir: &Path) {
        for name in [".git/objects", ".git/refs"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn project_is_found_from_a_subdirectory() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let found = || find_top(&below).filter(|top| top.starts_with(dir.path()));
        fs::create_dir(dir.path().join(".git")).unwrap();
        assert_eq!(found(), None, "an empty directory is not a repository");
        fs::write(dir.path().join(".git/HEAD"), "").unwrap();
        assert_eq!(found(), None, "an empty HEAD makes none either");
        repository(dir.path());
        assert_eq!(found().as_deref(), Some(dir.path()));
        fs::write(dir.path().join("a/.git"), "gitdir: /x\n").unwrap();
        assert_eq!(found(), Some(dir.path().join("a")), "a worktree has a file");
    }

    #[test]
    fn worktree_belongs_to_repository_that_lists_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (main, linked) = (root.join("main"), root.join("linked"));
        fs::create_dir_all(&linked).unwrap();
        repository(&main);
        let git_dir = main.join(".git/worktrees/linked");
        fs::create_dir_all(&git_dir).unwrap();
        fs::write(git_dir.join("commondir"), "../..\n").unwrap();
        fs::write(linked.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
        assert_eq!(main_top(&linked), None, "the repository does not know it");
        fs::write(git_dir.join("gitdir"), format!("{}\n", linked.join(".git").display())).unwrap();
        assert_eq!(main_top(&linked), Some(main.clone()));
        assert_eq!(main_top(&main), None);
        let other = root.join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(linked.join(".git"), other.join(".git")).unwrap();
        assert_eq!(main_top(&other), None, "it names another directory");
    }
}
