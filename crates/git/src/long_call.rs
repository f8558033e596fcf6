//! Long calls: those that write the files of a checkout, whose duration depends on its size.
//!
//! If a process exits, its plain child becomes an orphan: nothing waits for it, and its next line
//! of output kills it in the middle of its work. So a caller that may exit at any time gives
//! [`Git`](crate::Git) a runner for these calls ([`LongCalls`]). Each call then has its own git
//! directory, which no other process removes while it runs.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::command::GitExit;
use crate::confine::AllowedPrograms;

/// The name prefix of git directories that belong to long calls, in the scratch directory. They are
/// removed when their call has ended; [`sweep`] removes those of abandoned calls.
pub const DIRECTORY_PREFIX: &str = "provost-long-";

/// The time limit of a call that writes files: a large checkout on a slow disk takes minutes.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

/// How far the clock of file systems may be behind.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Runs long calls of git, each to its end.
pub trait LongCalls: Send + Sync {
    /// Runs a call and waits for its end.
    fn run(&self, call: LongCall) -> LongCallResult;

    /// Returns the calls for the same work that were cut off, and after which none succeeded.
    fn cut_off_calls(&self) -> Vec<CutOffCall>;
}

/// When a call ran that was cut off or ran out of room. It may have left locks, and files half written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOffCall {
    pub began: SystemTime,
    /// When it had ended for certain.
    pub ended: SystemTime,
}

impl CutOffCall {
    /// Whether a file was made, and last changed, while the call ran.
    pub(crate) fn can_have_left(&self, file: &Metadata) -> io::Result<bool> {
        let made = file.created().or_else(|_| file.modified())?;
        let since_epoch = Duration::new(
            u64::try_from(file.ctime()).unwrap_or_default(),
            u32::try_from(file.ctime_nsec()).unwrap_or_default(),
        );
        let changed = SystemTime::UNIX_EPOCH + since_epoch;
        Ok(made + CLOCK_TICK >= self.began && changed <= self.ended)
    }
}

/// A git call, ready to be run elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongCall {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The programs that may be executed, for [`execute`]. None if they cannot be limited.
    pub programs: Option<Vec<PathBuf>>,
}

/// The result of a long call.
#[derive(Debug)]
pub enum LongCallResult {
    Exited {
        exit: GitExit,
        /// Its standard error, or the end of it.
        stderr: Vec<u8>,
    },
    /// It was killed, or its end was not observed: it may have left files half written.
    Interrupted(String),
    /// It was killed because the disk was full: it may have left files half written. Until there is
    /// space the same call ends the same way.
    DiskFull(String),
    /// It could not be started.
    NotStarted(String),
    /// The calling process is about to exit. The call continues.
    Abandoned,
}

/// Replaces this process by a program that may execute nothing but `programs`. Returns only if that
/// fails.
pub fn execute(programs: Vec<PathBuf>, program: &OsString, args: &[OsString]) -> io::Error {
    match AllowedPrograms::new(programs).confine_thread() {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(why) => why,
    }
}

/// Removes the git directories of long calls that ended after the process that started them. No
/// long call may be running.
pub fn sweep(scratch: &Path) {
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX) {
            // A directory that cannot be removed does no harm.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
