//! Finds repositories inside a checkout that are not its submodules.
//!
//! The search walks the file system as a removal would, because git does not look into ignored
//! directories and skips a `.git` beside tracked files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::command::Error;
use crate::index::populated_submodules;
use crate::names::RepoPath;
use crate::repo::Repo;

/// Returns the repositories below the top of a checkout, each with a trailing slash. Fails if a
/// directory cannot be read.
pub(crate) fn repositories(repo: &Repo<'_>) -> Result<Vec<RepoPath>, Error> {
    let mut found = Vec::new();
    let submodules = populated_submodules(repo)?;
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let content = DirEntries::read(&repo.top().join(&directory))?;
        let is_top = directory.as_os_str().is_empty();
        if !is_top && submodules.iter().any(|path| path.as_path() == directory) {
            continue;
        }
        if !is_top && (content.dot_git || content.bare && !is_tracked(repo, &directory)?) {
            found.push(RepoPath::new(&[directory.as_os_str().as_bytes(), b"/"].concat()));
            continue;
        }
        open.extend(content.directories.into_iter().map(|name| directory.join(name)));
    }
    found.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
    Ok(found)
}

/// The entries of a directory that matter here. Symbolic links are not followed.
#[derive(Default)]
struct DirEntries {
    directories: Vec<PathBuf>,
    dot_git: bool,
    bare: bool,
}

impl DirEntries {
    fn read(path: &Path) -> Result<Self, Error> {
        let (mut content, mut head) = (Self::default(), false);
        for entry in fs::read_dir(path).map_err(Error::file(path))? {
            let entry = entry.map_err(Error::file(path))?;
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(Error::file(path))?);
            content.dot_git |= name == ".git";
            head |= name == "HEAD";
            if kind.is_dir() && name != ".git" {
                content.directories.push(name.into());
            }
        }
        let has = |name: &str| content.directories.iter().any(|path| path == Path::new(name));
        content.bare = head && has("objects") && has("refs");
        Ok(content)
    }
}

/// Whether the files of a nested repository are tracked by the outer one, as in a test fixture.
fn is_tracked(repo: &Repo<'_>, directory: &Path) -> Result<bool, Error> {
    let mut head = OsStr::new(":(top,literal)").to_owned();
    head.push(directory.join("HEAD"));
    let args = ["ls-files", "-z", "--"].map(OsStr::new).into_iter();
    Ok(!repo.read(args.chain([head.as_os_str()])).run()?.stdout.is_empty())
}
