//! Reads the files that need trust from a checkout. A file is not read if another user owns it or
//! can write to it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    OwnershipError, TrustContent, UnsafeProject, check_owner,
    content::{AGENT_FILES, CODEX, CONFIG, WORKFLOW},
    owned::{self, check},
};

/// The maximum size of a file that needs trust, in bytes.
pub const MAX_FILE: u64 = 256 << 10;

/// Limits on the files in `CODEX`: their number, total size and depth.
pub const MAX_FILES: usize = 500;
pub const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 8;

/// The reason why content cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Unowned(OwnershipError),
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} contains more than {MAX_FILES} files or {MAX_BYTES} bytes, or is more than {MAX_DEPTH} directories deep", .path.display())]
    TooMany { path: PathBuf },
}

impl Error {
    /// Returns a command that fixes the problem, if there is one.
    pub fn fix(&self) -> Option<String> {
        match self {
            Error::Unowned(why) => Some(why.fix()),
            Error::Unreadable { .. } | Error::TooMany { .. } => None,
        }
    }

    /// Returns the affected file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Error::Unowned(
                OwnershipError::OtherUser { path, .. }
                | OwnershipError::Writable { path, .. }
                | OwnershipError::Link { path }
                | OwnershipError::NotAFile { path },
            )
            | Error::Unreadable { path, .. }
            | Error::TooMany { path } => path,
        }
    }
}

impl From<UnsafeProject> for Error {
    fn from(why: UnsafeProject) -> Self {
        match why {
            UnsafeProject::Unowned(why) => Error::Unowned(why),
            UnsafeProject::Unreadable { path, source } => Error::Unreadable { path, source },
        }
    }
}

/// A project's files. They are read only once, so the content that is checked is the content that is used.
#[derive(Debug, Clone, Default)]
pub struct ProjectSnapshot {
    pub content: TrustContent,
    /// The text of `provost.toml`, if there is one.
    pub config: Option<Vec<u8>>,
}

/// Reads a project's configuration, and the content that needs trust for work in one of the
/// project's directories. This content consists of the files at the top, and the agents' files in
/// each directory from the top down to the working directory. Without such files, the content is
/// empty regardless of the project's owner, because there is nothing to trust.
pub fn snapshot(top: &Path, cwd: &Path) -> Result<ProjectSnapshot, Error> {
    let mut files = Vec::new();
    for name in [CONFIG, WORKFLOW] {
        if let Some(bytes) = read_file(&top.join(name))? {
            files.push((name.to_owned(), bytes));
        }
    }
    let mut above = Vec::new();
    for directory in directories(top, cwd) {
        let found = agent_files(&directory)?;
        above.push(directory.path);
        if !found.is_empty() {
            for path in &above[1..] {
                check_directory(path)?;
            }
        }
        files.extend(found);
    }
    if !files.is_empty() {
        check_owner(top)?;
    }
    let config = files.iter().find(|(name, _)| name == CONFIG).map(|(_, bytes)| bytes.clone());
    Ok(ProjectSnapshot { content: TrustContent::from_files(files), config })
}

/// A directory on the way from a project's top to the working directory.
pub(crate) struct AgentDirectory {
    pub(crate) path: PathBuf,
    /// The directory's path relative to the top with a trailing `/`, or an empty text for the top
    /// itself.
    prefix: String,
}

/// Returns the directories from the top down to the working directory.
pub(crate) fn directories(top: &Path, cwd: &Path) -> Vec<AgentDirectory> {
    let mut all = vec![AgentDirectory { path: top.to_owned(), prefix: String::new() }];
    let (mut path, mut prefix) = (top.to_owned(), String::new());
    for name in cwd.strip_prefix(top).into_iter().flat_map(Path::components) {
        path.push(name);
        prefix.push_str(&format!("{}/", name.as_os_str().to_string_lossy()));
        all.push(AgentDirectory { path: path.clone(), prefix: prefix.clone() });
    }
    all
}

/// Reads the files that agents in a directory read, with paths relative to the top.
fn agent_files(directory: &AgentDirectory) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    for name in AGENT_FILES {
        if let Some((parent, _)) = name.split_once('/') {
            check_directory(&directory.path.join(parent))?;
        }
        if let Some(bytes) = read_file(&directory.path.join(name))? {
            files.push((format!("{}{name}", directory.prefix), bytes));
        }
    }
    files.extend(codex_files(directory)?);
    Ok(files)
}

/// Reads the content of a workflow file that needs trust.
pub fn read_workflow(path: &Path) -> Result<TrustContent, Error> {
    let bytes = read_file(path)?.unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(TrustContent::from_workflow(&name, &bytes))
}

/// Reads every file below a directory's `.codex`, with paths relative to the top.
pub(crate) fn codex_files(directory: &AgentDirectory) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let (mut files, mut total) = (Vec::new(), 0);
    let codex = directory.path.join(CODEX);
    let mut directories = vec![(codex.clone(), format!("{}{CODEX}", directory.prefix), 0)];
    while let Some((path, name, depth)) = directories.pop() {
        if !check_directory(&path)? {
            continue;
        }
        let unreadable = |source| Error::Unreadable { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let below = format!("{name}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(unreadable)?.is_dir() {
                directories.push((entry.path(), below, depth + 1));
            } else if let Some(bytes) = read_file(&entry.path())? {
                total += bytes.len();
                files.push((below, bytes));
            }
            if files.len() > MAX_FILES || total > MAX_BYTES || depth >= MAX_DEPTH {
                return Err(Error::TooMany { path: codex });
            }
        }
    }
    Ok(files)
}

/// Whether a directory exists. Fails if the directory does not belong to the user.
fn check_directory(path: &Path) -> Result<bool, Error> {
    match check(path) {
        Ok(Some(Ok(found))) => Ok(found.is_dir()),
        Ok(Some(Err(why))) => Err(Error::Unowned(why)),
        Ok(None) => Ok(false),
        Err(source) => Err(Error::Unreadable { path: path.to_owned(), source }),
    }
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match owned::read(path, MAX_FILE) {
        Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
        Ok(Some(Err(why))) => Err(Error::Unowned(why)),
        Ok(None) => Ok(None),
        Err(source) => Err(Error::Unreadable { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn read(top: &Path, cwd: &Path) -> Result<TrustContent, Error> {
        snapshot(top, cwd).map(|snapshot| snapshot.content)
    }

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".git")).unwrap();
        for path in [dir.path().to_owned(), dir.path().join(".git")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir
    }

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    #[test]
    fn every_file_of_codex_is_part_of_the_content() {
        let dir = project();
        assert!(read(dir.path(), dir.path()).unwrap().is_empty());
        write(dir.path(), ".codex/config.toml", "");
        write(dir.path(), ".codex/rules/a.rules", "x");
        write(dir.path(), ".claude/settings.json", "{}");
        let files: Vec<String> =
            read(dir.path(), dir.path()).unwrap().parts.into_iter().map(|part| part.file).collect();
        assert_eq!(files, [".claude/settings.json", ".codex/config.toml", ".codex/rules/a.rules"]);
    }

    #[test]
    fn directories_down_to_the_working_directory_count() {
        let dir = project();
        write(dir.path(), "a/.mcp.json", "{}");
        write(dir.path(), "a/b/.codex/config.toml", "");
        let (top, cwd) = (dir.path(), dir.path().join("a/b"));
        assert!(read(top, top).unwrap().is_empty());
        let parts = read(top, &cwd).unwrap().parts;
        let files: Vec<&str> = parts.iter().map(|part| part.file.as_str()).collect();
        assert_eq!(files, ["a/.mcp.json", "a/b/.codex/config.toml"]);
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read(top, &cwd).is_err(), "others could replace the file");
    }

    #[test]
    fn file_writable_by_others_is_an_error() {
        let dir = project();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read(dir.path(), dir.path()).unwrap().is_empty(), "there is nothing to trust");
        write(dir.path(), ".mcp.json", "{}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read(dir.path(), dir.path()).is_err());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        read(dir.path(), dir.path()).unwrap();
        symlink("/etc", dir.path().join(".codex")).unwrap();
        assert!(matches!(
            read(dir.path(), dir.path()),
            Err(Error::Unowned(OwnershipError::Link { .. }))
        ));
    }
}
