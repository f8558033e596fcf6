//! A home, a directory and the program in them.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// An empty home and working directory for one test.
pub(crate) struct CliEnv {
    dir: TempDir,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CliOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CliEnv {
    pub(crate) fn new() -> Self {
        let world = CliEnv { dir: tempfile::tempdir().unwrap() };
        for dir in ["user/.config/provost", "work"] {
            fs::create_dir_all(world.path(dir)).unwrap();
        }
        world
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// The home directory, which does not exist yet.
    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn write(&self, below: &str, text: &str) {
        fs::write(self.path(below), text).unwrap();
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let status = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.org",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(arguments)
            .current_dir(self.path("work"))
            .env("HOME", self.path("user"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CliOutput {
        self.run_with(arguments, &[])
    }

    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> CliOutput {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provost"));
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("PROVOST_HOME", self.home()).env("HOME", self.path("user"));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").envs(variables.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        CliOutput {
            code: status.code().unwrap(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Asserts that nothing was started and nothing was recorded.
    pub(crate) fn assert_untouched(&self) {
        let left = |path: &Path| fs::read_dir(path).map(|entries| entries.count()).unwrap_or(0);
        assert_eq!(left(&self.home()), 0, "the home was used");
    }
}

impl CliOutput {
    /// Returns the single JSON object on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Checks the shape of an error and returns its message.
    pub(crate) fn json_error(&self, code: &str) -> String {
        let value = self.json();
        assert_eq!(value["ok"], false, "{self:?}");
        assert_eq!(value["error"]["code"], code, "{self:?}");
        assert!(value["error"]["next"].is_array(), "{self:?}");
        value["error"]["message"].as_str().unwrap().to_owned()
    }
}
