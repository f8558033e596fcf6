//! The real Codex for tests, and a quiet `CODEX_HOME` that uses a scripted model.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::server::ModelServer;
use crate::harness::{TestHome, TestRepo};

/// A model for which Codex offers one tool per purpose.
pub const MODEL: &str = "gpt-5.5";
/// A model with one tool per purpose for the oldest Codex, which offers no patch tool to models
/// that it does not know.
pub const OLD_MODEL: &str = "gpt-5.2-codex";
/// A model for which Codex offers one tool that runs scripts. It has the newer tools for questions
/// and for delegation.
pub const CODE_MODE_MODEL: &str = "gpt-6.1-sol";
/// The model that Codex's screen suggests instead of [`MODEL`], in a notice that waits for confirmation.
const NEWER_MODEL: &str = "gpt-6-sol";

/// Returns the pinned Codex, or `None` if this run may do without it; the test must then return
/// immediately.
///
/// # Panics
/// If the run's environment does not name it.
#[track_caller]
pub fn codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_FOR_TESTS")
}

/// Returns the oldest supported Codex, or `None` if this run may do without it; the test must then
/// return immediately.
///
/// # Panics
/// If the run's environment does not name it.
#[track_caller]
pub fn old_codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_OLD_FOR_TESTS")
}

#[expect(clippy::disallowed_methods, reason = "the test run's environment names its programs")]
#[track_caller]
fn named(variable: &str) -> Option<PathBuf> {
    let missing = std::env::var("PROVOST_TEST_MISSING").unwrap_or_default();
    if missing.split(',').any(|tool| tool == "npm") {
        return None;
    }
    let program = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    assert!(
        program.is_some(),
        "{variable} names no program: run the tests with `cargo xtask test`"
    );
    program
}

/// Returns a `config.toml` that uses only the model at this address: no update check, no analytics, no plugins, no
/// daemon, no login shell per thread, no retries, and no notice about a newer model.
pub fn codex_config(model: &str, url: &str) -> String {
    format!(
        r#"model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
allow_login_shell = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[otel]
metrics_exporter = "none"

[features]
plugins = false
shell_snapshot = false
daemon_auto_start = false
unbounded_connection_retries = false

[notice.model_migrations]
"{MODEL}" = "{NEWER_MODEL}"
"#
    )
}

/// A `CODEX_HOME` with a repository. Both are removed when this value is dropped, and processes
/// that still run in them are killed.
///
/// Codex installs no helpers in a home below its temporary directory, so the home is created beside
/// it.
#[derive(Debug)]
pub struct CodexHome {
    home: TestHome,
    repo: TestRepo,
}

impl CodexHome {
    /// Creates a home that uses [`MODEL`] on this server.
    pub fn new(server: &ModelServer) -> Self {
        Self::with_model(server, MODEL)
    }

    /// Creates a home that uses a model on this server.
    pub fn with_model(server: &ModelServer, model: &str) -> Self {
        let mut home = TestHome::new();
        home.leave_unchecked();
        let repo = home.repo("work");
        let home = Self { home, repo };
        DirBuilder::new().mode(0o700).create(home.path()).expect("the home can be created");
        fs::write(home.path().join("config.toml"), codex_config(model, &server.url()))
            .expect("the configuration can be written");
        home
    }

    /// Returns the path of the `CODEX_HOME`.
    pub fn path(&self) -> PathBuf {
        self.home.root().join("codex")
    }

    /// Returns the repository in which [`Self::command`] works.
    pub fn repo(&self) -> &TestRepo {
        &self.repo
    }

    /// Returns a Codex command in the repository, with its own environment and no input.
    pub fn command(&self, codex: &Path, args: &[&str]) -> Command {
        let root = self.home.root();
        let mut command = Command::new(codex);
        command.args(args).current_dir(self.repo.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", search_path()).env("LANG", "C.UTF-8").env("TZ", "UTC");
        command.env("CODEX_HOME", self.path()).env("HOME", root.join("user"));
        command.env("TMPDIR", root.join("tmp"));
        command
    }
}

#[expect(clippy::disallowed_methods, reason = "the home inherits the test's search path")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
