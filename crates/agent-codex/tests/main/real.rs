//! Real Codex for this crate's tests: one-shot commands and a small client of the app-server.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::test_env::{CodexHomeEnv, TIMEOUT};

/// Returns the pinned Codex, or None if this run has no npm.
pub(crate) fn codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_FOR_TESTS")
}

/// Returns the oldest supported Codex, or `None` if this run has no npm.
pub(crate) fn old_codex() -> Option<PathBuf> {
    named("PROVOST_CODEX_OLD_FOR_TESTS")
}

#[expect(clippy::disallowed_methods, reason = "the test run says where the programs are")]
fn named(variable: &str) -> Option<PathBuf> {
    let missing = std::env::var("PROVOST_TEST_MISSING").unwrap_or_default();
    if missing.split(',').any(|tool| tool == "npm") {
        return None;
    }
    let given = std::env::var_os(variable).map(PathBuf::from);
    Some(given.unwrap_or_else(|| panic!("{variable} names no program: use `cargo xtask test`")))
}

/// Returns a command for Codex in a home, with the environment of the test user.
pub(crate) fn command(env: &CodexHomeEnv, codex: &Path, codex_home: &Path) -> Command {
    let mut command = Command::new(codex);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", env.path("home"));
    command.env("CODEX_HOME", codex_home).env("TMPDIR", env.path("tmp"));
    command.current_dir(env.path("worktree"));
    command
}

/// An app-server on its standard streams. It ends with the test.
pub(crate) struct AppServer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    requests: u64,
}

impl AppServer {
    pub(crate) fn start(env: &CodexHomeEnv, codex: &Path, codex_home: &Path) -> Self {
        Self::start_as(command(env, codex, codex_home))
    }

    /// Starts a Codex with a prepared environment.
    pub(crate) fn start_as(mut command: Command) -> Self {
        command.arg("app-server").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { input: child.stdin.take(), child, lines, requests: 0 };
        let client = json!({"name": "test", "title": "test", "version": "1"});
        server.ask(
            "initialize",
            json!({"clientInfo": client, "capabilities": {"experimentalApi": true}}),
        );
        server.send(&json!({"method": "initialized"}));
        server
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.recv_timeout(TIMEOUT).expect("the app-server answers");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }
}

impl Drop for AppServer {
    fn drop(&mut self) {
        // The server exits when its input ends.
        drop(self.input.take());
        while self.lines.recv_timeout(TIMEOUT).is_ok() {}
        self.child.kill().ok();
        self.child.wait().unwrap();
    }
}
