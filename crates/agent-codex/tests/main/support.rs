//! Helpers shared by the tests of this crate.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Timeout for an expected condition.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the pinned Codex, or None if this run has no npm.
pub(crate) fn codex() -> Option<PathBuf> {
    if is_missing("npm") {
        return None;
    }
    Some(PathBuf::from(required_variable("PROVOST_CODEX_FOR_TESTS")))
}

/// Whether the run is configured without a tool.
#[expect(clippy::disallowed_methods, reason = "the test run says what it does without")]
pub(crate) fn is_missing(tool: &str) -> bool {
    std::env::var("PROVOST_TEST_MISSING")
        .unwrap_or_default()
        .split(',')
        .any(|missing| missing == tool)
}

#[expect(clippy::disallowed_methods, reason = "the test run says where the programs are")]
fn required_variable(variable: &str) -> std::ffi::OsString {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} names no program: use `cargo xtask test`"))
}

/// Polls a condition, with a timeout.
#[expect(clippy::disallowed_methods, reason = "polls other processes, which send no events")]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
