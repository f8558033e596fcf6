//! A user with a home in a temporary directory, and programs that simulate Codex.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_agent_codex::locate::SearchEnvironment;
use provost_agent_codex::{SessionHome, home};
use tempfile::TempDir;

/// Timeout for an expected condition.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The directories of one test.
pub(crate) struct CodexHomeEnv {
    pub(crate) dir: TempDir,
}

impl CodexHomeEnv {
    pub(crate) fn new() -> Self {
        let env = Self { dir: tempfile::tempdir().unwrap() };
        for name in ["home/.codex", "tmp", "bin", "worktree/.git", "scratch"] {
            fs::create_dir_all(env.path(name)).unwrap();
        }
        env
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn link(&self, name: &str, target: &Path) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Writes a shell script that is started in place of Codex.
    pub(crate) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.write(name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn fake_codex(&self, name: &str, version: &str) -> PathBuf {
        self.script(name, &format!("echo 'codex-cli {version}'"))
    }

    pub(crate) fn skill(&self, directory: &str, name: &str) {
        let text = format!("---\nname: {name}\ndescription: what {name} does\n---\nbody\n");
        self.write(&format!("{directory}/SKILL.md"), &text);
    }

    /// Returns a session whose user has the home `home` and the Codex home `home/.codex`.
    pub(crate) fn session(&self, name: &str) -> SessionHome {
        SessionHome {
            dir: self.path(name),
            codex_home: Some(self.path("home/.codex")),
            user_home: self.path("home"),
            trust: home::RepositoryTrust::Trusted,
            root: self.path("worktree"),
            worktree: self.path("worktree"),
            skill_roots: Vec::new(),
            tools: None,
            settings: toml::Table::new(),
        }
    }

    /// Returns the search path: the given directories of the test, then the machine's.
    pub(crate) fn search_path(&self, directories: &[&str]) -> String {
        let own = directories.iter().map(|name| self.path(name).display().to_string());
        let machine = ["/usr/bin", "/bin"].map(str::to_owned);
        own.chain(machine).collect::<Vec<_>>().join(":")
    }
}

pub(crate) fn search_environment<'a>(path: &'a str, home: &'a Path) -> SearchEnvironment<'a> {
    SearchEnvironment { path: path.as_ref(), home, version_cache: None }
}

/// Returns all properties that could show a change of a tree: kinds, contents, modes and times.
pub(crate) fn snapshot_tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    add_to(&mut picture, root);
    picture
}

fn add_to(picture: &mut BTreeMap<PathBuf, String>, path: &Path) {
    let seen = path.symlink_metadata().unwrap();
    let times = format!("{:o} {}.{}", seen.mode(), seen.mtime(), seen.mtime_nsec());
    let content = if seen.is_symlink() {
        format!("-> {}", fs::read_link(path).unwrap().display())
    } else if seen.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
    } else {
        String::new()
    };
    picture.insert(path.to_owned(), format!("{times} {content}"));
    if seen.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add_to(picture, &entry.unwrap().path());
        }
    }
}

/// Polls a condition, with a timeout.
#[expect(clippy::disallowed_methods, reason = "polls the kernel's tables, which send no events")]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
