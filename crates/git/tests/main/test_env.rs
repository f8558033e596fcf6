//! A separate home, project and git for each test.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_git::{BranchName, CommitMessage, Git, KeepRef, Oid, Project, Worktree, worktree_add};
use tempfile::TempDir;

pub(crate) struct GitTestEnv {
    pub(crate) git: Git,
    root: TempDir,
}

impl GitTestEnv {
    /// Creates a home whose user has no name, and an empty repository.
    pub(crate) fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap();
        for name in ["home", "project", "scratch", "pool"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        let git = Git::find(&search_path(), &path.join("home"))
            .unwrap()
            .with_scratch(&path.join("scratch"));
        let env = Self { git, root };
        env.user(&env.top(), &["init", "-q", "-b", "main"]);
        env
    }

    /// Creates a home and a repository with one commit: `a.txt` and a `.gitignore` for `*.log` and
    /// `target`.
    pub(crate) fn new() -> Self {
        let env = Self::empty();
        env.write("a.txt", "one\n");
        env.write(".gitignore", "*.log\ntarget\n");
        env.commit_all("first");
        env
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn top(&self) -> PathBuf {
        self.path("project")
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        write(&self.top().join(name), content);
    }

    pub(crate) fn project(&self) -> Project {
        Project::find(&self.git, &self.top()).unwrap()
    }

    /// Runs git as a user would, and returns its output.
    pub(crate) fn user(&self, directory: &Path, args: &[&str]) -> String {
        let (output, stderr) = self.try_user(directory, args);
        output.unwrap_or_else(|| panic!("git {args:?}: {stderr}"))
    }

    pub(crate) fn try_user(&self, directory: &Path, args: &[&str]) -> (Option<String>, String) {
        let output = Command::new("git")
            .args(["-c", "user.name=User", "-c", "user.email=user@example.com"])
            .args(["-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(directory)
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.path("home"))
            .env("GIT_EDITOR", ":")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        (
            output.status.success().then_some(stdout),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    pub(crate) fn commit_all(&self, message: &str) -> Oid {
        commit_all(self, &self.top(), message)
    }

    pub(crate) fn rev(&self, name: &str) -> Oid {
        Oid::new(&self.user(&self.top(), &["rev-parse", name])).unwrap()
    }

    pub(crate) fn worktree(&self) -> Worktree {
        worktree_add(
            &self.git,
            &self.project(),
            &self.path("trees/w1"),
            &branch("provost/t1"),
            "HEAD",
        )
        .unwrap()
    }

    /// Adds a submodule `sub` to the project, with one commit.
    pub(crate) fn add_submodule(&self) -> PathBuf {
        let origin = self.path("origin");
        fs::create_dir(&origin).unwrap();
        self.user(&origin, &["init", "-q", "-b", "main"]);
        write(&origin.join("inner.txt"), "inner\n");
        commit_all(self, &origin, "inner");
        self.user(&self.top(), &["submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"]);
        self.commit_all("submodule");
        origin
    }
}

pub(crate) fn commit_all(env: &GitTestEnv, directory: &Path, message: &str) -> Oid {
    env.user(directory, &["add", "-A"]);
    env.user(directory, &["commit", "-q", "-m", message]);
    Oid::new(&env.user(directory, &["rev-parse", "HEAD"])).unwrap()
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

pub(crate) fn keep(id: &str) -> KeepRef {
    KeepRef::new(id).unwrap()
}

pub(crate) fn says(text: &str) -> CommitMessage {
    CommitMessage {
        text: text.to_owned(),
        trailers: vec![("Provost-Session".to_owned(), "s1".to_owned())],
    }
}

/// Returns the path, kind and content of all entries below a directory, for comparison.
pub(crate) fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_symlink() {
                found.push((
                    path.clone(),
                    fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
                ));
            } else if kind.is_dir() {
                open.push(path);
            } else {
                found.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[expect(clippy::disallowed_methods, reason = "tests run the git of the machine")]
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
