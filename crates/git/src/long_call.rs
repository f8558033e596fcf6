//! Long calls: git calls that write the files of a checkout, so that their duration depends on its
//! size.
//!
//! If a process exits, its child git process becomes an orphan: no process waits for it, and its
//! next line of output kills it before it has finished. Therefore a caller that may exit at any
//! time gives [`Git`](crate::Git) a runner for long calls ([`LongCalls`]). Each call then has its
//! own git directory, which no other process removes while the call runs.

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

/// The name prefix of git directories that belong to long calls, in the scratch directory. Each
/// directory is removed when its call has finished. [`sweep`] removes the directories of abandoned
/// calls.
pub const DIRECTORY_PREFIX: &str = "provost-long-";

/// The time limit of a call that writes files. On a slow disk, a large checkout takes minutes.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The time by which file-system timestamps may lag behind the clock.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Runs long git calls to completion.
pub trait LongCalls: Send + Sync {
    /// Runs a call and waits until it has finished.
    fn run(&self, call: LongCall) -> LongCallResult;

    /// Returns the interrupted calls for the same work. Empty if a later call succeeded.
    fn cut_off_calls(&self) -> Vec<CutOffCall>;
}

/// The times between which a failed call ran. The call was interrupted or ran out of disk space, so
/// it may have left locks and incomplete files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOffCall {
    pub began: SystemTime,
    /// A time by which the call had certainly exited.
    pub ended: SystemTime,
}

impl CutOffCall {
    /// Whether a file was created, and last changed, while the call ran.
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

/// A git call that another process can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongCall {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The programs that the call may execute, for [`execute`]. `None` if execution cannot be
    /// restricted.
    pub programs: Option<Vec<PathBuf>>,
}

/// The result of a long call.
#[derive(Debug)]
pub enum LongCallResult {
    Exited {
        exit: GitExit,
        /// The standard error of the call, or its last part.
        stderr: Vec<u8>,
    },
    /// The call was killed, or its exit was not observed. It may have left incomplete files.
    Interrupted(String),
    /// The call was killed because the disk was full. It may have left incomplete files. It will
    /// fail again until there is space.
    DiskFull(String),
    /// The call could not be started.
    NotStarted(String),
    /// The calling process is about to exit. The call continues to run.
    Abandoned,
}

/// Replaces this process with a program that may execute only `programs`. Returns only on failure.
pub fn execute(programs: Vec<PathBuf>, program: &OsString, args: &[OsString]) -> io::Error {
    match AllowedPrograms::new(programs).confine_thread() {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(why) => why,
    }
}

/// Removes the git directories of long calls that finished after the process that started them had
/// exited. No long call may be running.
pub fn sweep(scratch: &Path) {
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX) {
            // A directory that cannot be removed does no harm.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
