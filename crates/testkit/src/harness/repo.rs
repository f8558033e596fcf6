//! Sample git repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A repository with one commit on `main`.
#[derive(Debug)]
pub struct TestRepo {
    path: PathBuf,
    _own: Option<TempDir>,
}

impl TestRepo {
    /// Creates a repository in its own directory, which is removed with it.
    #[expect(
        clippy::new_without_default,
        reason = "creates a repository on disk, which is not a default value"
    )]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("pv-repo-")
            .tempdir()
            .expect("a temporary directory can be created");
        let mut repo = Self::at(&dir.path().join("repo"));
        repo._own = Some(dir);
        repo
    }

    /// Creates a repository at this path, which must not exist yet.
    pub(super) fn at(path: &Path) -> Self {
        fs::create_dir_all(path).expect("the repository's directory can be created");
        let repo = Self { path: path.to_owned(), _own: None };
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.git(&["config", "user.name", "Sample Person"]);
        repo.git(&["config", "user.email", "person@example.invalid"]);
        repo.write("README.md", "# Sample\n");
        repo.commit("Initial commit");
        repo
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git in the repository and returns its trimmed stdout. Fails the test if git fails.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let output = scrubbed_git(&self.path).args(args).output().expect("git can be run");
        assert!(
            output.status.success(),
            "git {args:?} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Writes a file and creates its directories.
    pub fn write(&self, file: &str, content: &str) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().expect("a file has a directory"))
            .expect("the directory can be created");
        fs::write(path, content).expect("the file can be written");
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file))
            .unwrap_or_else(|error| panic!("cannot read {file}: {error}"))
    }

    /// Commits everything and returns the commit's id.
    #[track_caller]
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    #[track_caller]
    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Returns the tree of a revision.
    #[track_caller]
    pub fn tree(&self, revision: &str) -> String {
        self.git(&["rev-parse", &format!("{revision}^{{tree}}")])
    }

    #[track_caller]
    pub fn branches(&self) -> Vec<String> {
        self.git(&["branch", "--format=%(refname:short)"]).lines().map(str::to_owned).collect()
    }

    #[track_caller]
    pub fn is_clean(&self) -> bool {
        self.git(&["status", "--porcelain"]).is_empty()
    }

    /// Returns the registered worktrees, without the repository itself.
    #[track_caller]
    pub fn worktrees(&self) -> Vec<PathBuf> {
        worktrees(&self.path).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// Returns the worktrees that a repository has registered, without its main one.
pub(super) fn worktrees(repo: &Path) -> Result<Vec<PathBuf>, String> {
    let output = scrubbed_git(repo).args(["worktree", "list", "--porcelain"]).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cannot list the worktrees of {}: {}", repo.display(), why.trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .skip(1)
        .map(PathBuf::from)
        .collect())
}

/// Returns a git command without the user's configuration and without variables that point to another repository.
fn scrubbed_git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    let inherited = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("GIT_"));
    for name in inherited {
        git.env_remove(name);
    }
    git.current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C");
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_repository_has_one_commit_and_is_clean() {
        let repo = TestRepo::new();
        assert_eq!(repo.branches(), ["main"]);
        assert!(repo.is_clean());
        let before = repo.tree("HEAD");
        repo.write("src/a.txt", "a");
        assert!(!repo.is_clean());
        repo.commit("Add a");
        assert_ne!(repo.tree("HEAD"), before);
        assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2");
    }
}
