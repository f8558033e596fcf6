//! What the tests of this crate share.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long something that should happen is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pinned Codex, or nothing if this run does without npm.
pub(crate) fn codex() -> Option<PathBuf> {
    if is_missing("npm") {
        return None;
    }
    Some(PathBuf::from(named("PROVOST_CODEX_FOR_TESTS")))
}

/// Whether the run was told to do without a tool.
#[expect(clippy::disallowed_methods, reason = "the test run says what it does without")]
pub(crate) fn is_missing(tool: &str) -> bool {
    std::env::var("PROVOST_TEST_MISSING")
        .unwrap_or_default()
        .split(',')
        .any(|missing| missing == tool)
}

#[expect(clippy::disallowed_methods, reason = "the test run says where the programs are")]
fn named(variable: &str) -> std::ffi::OsString {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} names no program: use `cargo xtask test`"))
}

/// Looks again and again, for a bounded time.
#[expect(
    clippy::disallowed_methods,
    reason = "looks at what other processes do, which tell nobody"
)]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
