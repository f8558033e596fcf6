//! Determines the level at which this machine can enforce a plan.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_sys::program::{OUTPUT_LIMIT, ProgramEnd, ProgramRun};

use crate::landlock_rules::REQUIRED_ABI;
use crate::plan::SandboxLevel;

/// The command that installs bubblewrap on Debian and Ubuntu.
pub const INSTALL: &str = "apt-get install bubblewrap";

/// The name of the program.
const BUBBLEWRAP: &str = "bwrap";

/// The time in which a trial sandbox must have finished.
const LIMIT: Duration = Duration::from_secs(10);

/// Whether bubblewrap can create a sandbox here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BubblewrapProbe {
    Works {
        program: PathBuf,
        version: String,
    },
    /// No file of this name in the search path is a program.
    Missing,
    /// Bubblewrap is installed, but it cannot create a sandbox, for example because the machine
    /// permits no user namespaces.
    Fails {
        program: PathBuf,
        why: String,
    },
}

/// The facilities of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxProbe {
    pub bubblewrap: BubblewrapProbe,
    /// The version of Landlock, or `None` if the kernel has none.
    pub landlock: Option<u32>,
}

impl SandboxProbe {
    pub fn level(&self) -> SandboxLevel {
        if matches!(self.bubblewrap, BubblewrapProbe::Works { .. }) {
            SandboxLevel::Full
        } else if self.landlock.is_some_and(|abi| abi >= REQUIRED_ABI) {
            SandboxLevel::Files
        } else {
            SandboxLevel::None
        }
    }

    /// Returns the program `bwrap`, if it works.
    pub fn bubblewrap_program(&self) -> Option<&Path> {
        match &self.bubblewrap {
            BubblewrapProbe::Works { program, .. } => Some(program),
            BubblewrapProbe::Missing | BubblewrapProbe::Fails { .. } => None,
        }
    }

    /// Describes why the level is not *full*, and what to do about it. `None` if it is.
    pub fn advice(&self) -> Option<String> {
        match &self.bubblewrap {
            BubblewrapProbe::Works { .. } => None,
            BubblewrapProbe::Missing => {
                Some(format!("bubblewrap is not installed; install it with: {INSTALL}"))
            }
            BubblewrapProbe::Fails { program, why } => Some(format!(
                "{} cannot create a sandbox ({why}); allow unprivileged user namespaces",
                program.display()
            )),
        }
    }
}

/// Examines this machine. `path` is the search path, and `directory` an existing directory.
pub fn probe(path: &OsString, directory: &Path) -> io::Result<SandboxProbe> {
    let landlock = provost_sys::landlock::abi()?;
    let found = std::env::split_paths(path).map(|place| place.join(BUBBLEWRAP));
    let Some(program) = found.into_iter().find(|file| is_program(file)) else {
        return Ok(SandboxProbe { bubblewrap: BubblewrapProbe::Missing, landlock });
    };
    let bubblewrap = match try_bubblewrap(&program, path, directory)? {
        Ok(version) => BubblewrapProbe::Works { program, version },
        Err(why) => BubblewrapProbe::Fails { program, why },
    };
    Ok(SandboxProbe { bubblewrap, landlock })
}

fn is_program(file: &Path) -> bool {
    let is_executable = |found: fs::Metadata| found.permissions().mode() & 0o111 != 0;
    file.is_absolute()
        && fs::metadata(file).is_ok_and(|found| found.is_file() && is_executable(found))
}

/// Creates a sandbox with every namespace that plans use. Returns the version of bubblewrap, or the
/// reason for the failure.
fn try_bubblewrap(
    program: &Path,
    path: &OsString,
    directory: &Path,
) -> io::Result<Result<String, String>> {
    let trial = "--die-with-parent --unshare-pid --unshare-user-try --unshare-ipc --unshare-net \
                 --unshare-cgroup-try --ro-bind / / --dev /dev --proc /proc --chdir / -- /bin/sh -c :";
    let run = |args: Vec<OsString>| {
        ProgramRun {
            program: program.to_owned(),
            args,
            directory: directory.to_owned(),
            environment: vec![("PATH".into(), path.clone())],
            limit: LIMIT,
            output_limit: OUTPUT_LIMIT,
        }
        .finish()
    };
    let tried = run(trial.split_ascii_whitespace().map(OsString::from).collect())?;
    if tried.end != ProgramEnd::Code(0) {
        let text = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        let why = if text.is_empty() { format!("{:?}", tried.end) } else { text };
        return Ok(Err(why));
    }
    let version = run(vec!["--version".into()])?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    Ok(Ok(version.strip_prefix("bubblewrap ").map_or(version.clone(), str::to_owned)))
}
