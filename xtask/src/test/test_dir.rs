//! The directory for the homes and temporary files of tests, and a check for leftovers in it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::print::print_line;

/// A directory for one test run, or for the part of it that runs as another user.
pub(super) struct TestDir {
    pub(super) path: PathBuf,
}

impl TestDir {
    /// Creates a new directory with a short name, outside this repository, because some tests need
    /// a directory outside any repository.
    pub(super) fn new() -> Result<Self> {
        let all = std::env::temp_dir().join("provost-tests");
        remove_stale(&all);
        let room = Self::at(all.join(std::process::id().to_string()))?;
        for dir in [&all, &room.path] {
            // The directory for tests that run as another user is below this one.
            set_mode(dir, 0o755)?;
        }
        Ok(room)
    }

    /// Creates the test directory at this path.
    pub(super) fn at(path: PathBuf) -> Result<Self> {
        let room = Self { path };
        fs::create_dir_all(room.temporary())
            .with_context(|| format!("cannot make {}", room.path.display()))?;
        Ok(room)
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Returns leftovers of tests that passed: homes, processes, sockets, worktrees, panics, temporary files.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut found = provost_testkit::leftovers_under(&self.path);
        found.extend(provost_testkit::leftovers(&self.temporary()));
        match fs::read_dir(self.temporary()) {
            Ok(files) => found.extend(
                files
                    .flatten()
                    .map(|file| format!("temporary file left behind: {}", file.path().display())),
            ),
            Err(error) => found.push(format!("cannot list temporary files: {error}")),
        }
        found.sort();
        found.dedup();
        found
    }

    pub(super) fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.path)
            .with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Removes the directories of earlier runs that were kept because of leftovers.
fn remove_stale(all: &Path) {
    for room in fs::read_dir(all).into_iter().flatten().flatten() {
        let living = Path::new("/proc").join(room.file_name()).exists();
        if !living && fs::remove_dir_all(room.path()).is_err() {
            print_line(&format!("   cannot remove {}", room.path().display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn leftovers_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let room = TestDir::at(dir.path().to_owned()).unwrap();
        assert_eq!(room.leftovers(), Vec::<String>::new());

        fs::create_dir_all(dir.path().join("pv-abc/home/log")).unwrap();
        fs::write(dir.path().join("pv-abc/home/log/daemon.log"), "thread 'x' panicked at y\n")
            .unwrap();
        fs::write(room.temporary().join("forgotten"), "").unwrap();
        let mut sleeper = Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        let found = room.leftovers().join("\n");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        for expected in
            ["home left behind", "panicked at y", "temporary file", "process left running"]
        {
            assert!(found.contains(expected), "{expected} is not in:\n{found}");
        }
    }
}
