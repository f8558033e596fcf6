//! Tests the sandbox of a Codex installation by running `true` in it.
//!
//! A Codex with a broken sandbox does not report the problem: its turns complete, and only the
//! model sees that every command failed. Therefore the sandbox is tested beforehand.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::locate::{CodexProgram, SearchEnvironment, environment};
use crate::text::displayable;
use provost_sys::program::{FinishedProgram, OUTPUT_LIMIT, ProgramEnd, ProgramRun};

/// The timeout for running `true` in the sandbox.
pub const SANDBOX_LIMIT: Duration = Duration::from_secs(20);

/// The kind of sandbox, which older versions require as an argument.
const OLD_KIND: &str = if cfg!(target_os = "macos") { "macos" } else { "linux" };

/// Whether commands can run in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preflight {
    Works,
    Broken(BrokenSandbox),
}

/// A sandbox in which commands do not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenSandbox {
    pub reason: SandboxFault,
    /// The error output of Codex.
    pub output: String,
}

/// The reason why commands do not run in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxFault {
    NoBubblewrap,
    UserNamespacesForbidden,
    NamespaceLimit,
    NoLandlock,
    TimedOut,
    Unknown,
}

/// Tests the sandbox with a new `CODEX_HOME` and a new directory for temporary files. Both are
/// created below `scratch` and removed again.
pub fn preflight(
    codex: &CodexProgram,
    search: &SearchEnvironment<'_>,
    scratch: &Path,
) -> io::Result<Preflight> {
    let room = tempfile::Builder::new().prefix("preflight-").tempdir_in(scratch)?;
    // The directories are siblings, because Codex does not create its helpers below the directory
    // for temporary files.
    let (home, temporary) = (room.path().join("home"), room.path().join("tmp"));
    fs::create_dir(&home)?;
    fs::create_dir(&temporary)?;
    let mut variables = environment(search, &codex.program, &home);
    variables.push(("TMPDIR".into(), temporary.into()));
    let attempt = |args: &[&str]| {
        let run = ProgramRun {
            program: codex.program.clone(),
            args: args.iter().map(OsString::from).collect(),
            directory: home.clone(),
            environment: variables.clone(),
            limit: SANDBOX_LIMIT,
            output_limit: OUTPUT_LIMIT,
        };
        run.finish()
    };
    let first = attempt(&["sandbox", "--", "true"])?;
    if !needs_sandbox_kind(&first) {
        return Ok(evaluate(&first));
    }
    attempt(&["sandbox", OLD_KIND, "--", "true"]).map(|second| evaluate(&second))
}

impl SandboxFault {
    /// Returns advice for the user.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NoBubblewrap => {
                "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`), or \
                 install Codex by npm, which brings its own"
            }
            Self::UserNamespacesForbidden => {
                "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, in a container \
                 `--security-opt seccomp=unconfined`"
            }
            Self::NamespaceLimit => {
                "raise `sysctl user.max_user_namespaces`, or leave the outer sandbox or container"
            }
            Self::NoLandlock => "use a kernel with Landlock (5.13 or newer), or a newer Codex",
            Self::TimedOut => "run `codex sandbox -- true`, which should end at once",
            Self::Unknown => "run `codex sandbox -- true` and `codex doctor` to see the error",
        }
    }
}

/// Whether this version requires the kind of sandbox as an argument. Such a version mistakes `true`
/// for an unknown kind of sandbox and reports a usage error.
fn needs_sandbox_kind(finished: &FinishedProgram) -> bool {
    let complaint = String::from_utf8_lossy(&finished.stderr);
    finished.end == ProgramEnd::Code(2) && complaint.contains("unrecognized subcommand")
}

fn evaluate(finished: &FinishedProgram) -> Preflight {
    match finished.end {
        ProgramEnd::Code(0) => Preflight::Works,
        ProgramEnd::TimedOut => broken(SandboxFault::TimedOut, finished),
        ProgramEnd::Code(_) | ProgramEnd::Signal(_) | ProgramEnd::TooMuchOutput => {
            broken(parse_reason(&String::from_utf8_lossy(&finished.stderr)), finished)
        }
    }
}

fn broken(reason: SandboxFault, finished: &FinishedProgram) -> Preflight {
    Preflight::Broken(BrokenSandbox { reason, output: displayable(&finished.stderr) })
}

fn parse_reason(stderr: &str) -> SandboxFault {
    let says = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if says(&["bubblewrap is unavailable"]) {
        SandboxFault::NoBubblewrap
    } else if says(&["max_*_namespaces exceeded"]) {
        SandboxFault::NamespaceLimit
    } else if says(&[
        "No permissions to create a new namespace",
        "No permissions to create new namespace",
        "Creating new namespace failed",
        "setting up uid map",
        "Operation not permitted",
    ]) {
        SandboxFault::UserNamespacesForbidden
    } else if says(&["Landlock", "landlock"]) {
        SandboxFault::NoLandlock
    } else {
        SandboxFault::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are from Codex 0.166.0.
    #[test]
    fn sandbox_errors_are_classified() {
        let seen = [
            (
                "bubblewrap is unavailable: no system bwrap was found on PATH",
                SandboxFault::NoBubblewrap,
            ),
            (
                "bwrap: No permissions to create a new namespace, likely because the kernel does \
                 not allow non-privileged user namespaces.",
                SandboxFault::UserNamespacesForbidden,
            ),
            (
                "bwrap: Creating new namespace failed: nesting depth or \
                 /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
                SandboxFault::NamespaceLimit,
            ),
            ("error: Sandbox(LandlockRestrict)", SandboxFault::NoLandlock),
            ("something else", SandboxFault::Unknown),
        ];
        for (text, reason) in seen {
            assert_eq!(parse_reason(text), reason, "{text}");
        }
    }
}
