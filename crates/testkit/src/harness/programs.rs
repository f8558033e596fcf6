//! The paths of the programs under test.

use std::path::{Path, PathBuf};

/// Returns the real `provost` binary: `PROVOST_BIN`, or the one built next to this test.
///
/// # Panics
/// If it does not exist.
#[expect(clippy::disallowed_methods, reason = "the test run's environment names its programs")]
pub fn provost_bin() -> PathBuf {
    named_or_beside(std::env::var_os("PROVOST_BIN").map(PathBuf::from), "provost")
}

/// Returns the scripted agent: `PROVOST_SCRIPTED_AGENT`, or the one built next to this test.
///
/// # Panics
/// If it does not exist.
#[expect(clippy::disallowed_methods, reason = "the test run's environment names its programs")]
pub fn scripted_agent_bin() -> PathBuf {
    named_or_beside(std::env::var_os("PROVOST_SCRIPTED_AGENT").map(PathBuf::from), "scripted-agent")
}

/// Returns the program that pauses another one at an exact point. It is built next to the scripted
/// agent.
///
/// # Panics
/// If it does not exist.
pub fn paused_program_bin() -> PathBuf {
    named_or_beside(Some(scripted_agent_bin().with_file_name("paused-program")), "paused-program")
}

fn named_or_beside(named: Option<PathBuf>, program: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let found = match named {
        Some(named) => named.is_file().then_some(named),
        None => beside(&this, program),
    };
    found.unwrap_or_else(|| {
        panic!(
            "the program `{program}` was not found for {}: run the tests with `cargo xtask test`",
            this.display()
        )
    })
}

/// Finds a program relative to this one. Tests are in `deps` below the programs; xtask is next to
/// them.
fn beside(this: &Path, program: &str) -> Option<PathBuf> {
    this.ancestors().skip(1).take(2).map(|dir| dir.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "run the tests with `cargo xtask test`")]
    fn missing_program_panics_with_a_hint() {
        named_or_beside(Some(PathBuf::from("/nonexistent/provost")), "provost");
    }
}
