//! Where real Codex is for tests, and a `CODEX_HOME` in which it is quiet and asks a scripted model.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::server::ModelServer;
use crate::harness::{Home, Repo};

/// A model that Codex gives a tool for each thing.
pub const MODEL: &str = "gpt-5.5";
/// The like for the oldest Codex, which has no patches for models that it does not know.
pub const OLD_MODEL: &str = "gpt-5.2-codex";
/// A model that Codex gives one tool, which runs scripts; it has the newer ways to ask and to delegate.
pub const CODE_MODE_MODEL: &str = "gpt-6.1-sol";
/// What Codex's screen offers instead of [`MODEL`], and waits until somebody has seen it.
const NEWER_MODEL: &str = "gpt-6-sol";

/// The pinned Codex, unless this run may do without: then the test is to return at once.
///
/// # Panics
/// If the run has not been told where it is.
#[track_caller]
pub fn codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_FOR_TESTS")
}

/// The oldest Codex that is supported, under the same conditions.
///
/// # Panics
/// If the run has not been told where it is.
#[track_caller]
pub fn old_codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_OLD_FOR_TESTS")
}

#[expect(clippy::disallowed_methods, reason = "the edge at which a test run names its programs")]
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

/// A `config.toml` that leads to the model at this address and to nowhere else: no update check, no
/// analytics, no plugins, no daemon, no login shell for each thread, no retries, and no offer of a newer model.
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

/// A `CODEX_HOME` with a repository to work in; both are removed at the end, and whatever still runs
/// there is killed.
///
/// Codex makes no helpers in a home below its temporary directory, so that one lies beside it.
#[derive(Debug)]
pub struct CodexHome {
    home: Home,
    repo: Repo,
}

impl CodexHome {
    /// A home that asks this server for [`MODEL`].
    pub fn new(server: &ModelServer) -> Self {
        Self::with_model(server, MODEL)
    }

    /// A home that asks this server for a model.
    pub fn with_model(server: &ModelServer, model: &str) -> Self {
        let mut home = Home::new();
        home.leave_unchecked();
        let repo = home.repo("work");
        let home = Self { home, repo };
        DirBuilder::new().mode(0o700).create(home.path()).expect("the home can be made");
        fs::write(home.path().join("config.toml"), codex_config(model, &server.url()))
            .expect("the configuration can be written");
        home
    }

    /// The `CODEX_HOME`.
    pub fn path(&self) -> PathBuf {
        self.home.root().join("codex")
    }

    /// The repository in which [`Self::command`] works.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Codex with these arguments, in the repository, with an environment of its own and no input.
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

#[expect(clippy::disallowed_methods, reason = "the edge at which a home gets its search path")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
