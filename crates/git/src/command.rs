//! Runs the git program: finds it, restricts what it may do, bounds its time and output, and
//! describes failures.
//!
//! The environment contains only the caller's `PATH` and `HOME`, plus the variables and settings
//! that prevent a repository from running its own programs. Standard input is empty unless the call
//! provides input.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use provost_sys::origin::{HELPER, MARK};
use provost_sys::program::{CommandEnd, LimitedCommand, ProgramLimits, StderrLimit};

use crate::confine::{self, AllowedPrograms};
use crate::escape::{last_lines, printable, printable_line};
use crate::guard::{self, GitSetting};
use crate::isolated_repo::StandIns;
use crate::long_call::{CutOffCall, LongCall, LongCallResult, LongCalls};
use crate::settings;
use crate::settings_cache::SettingsCache;
use crate::special_files::SpecialFileSearch;

/// The time that git has after SIGTERM to clean up (for example, its lock files) before it is
/// killed.
const GRACE: Duration = Duration::from_secs(2);

/// The maximum number of bytes kept from the end of standard error.
const STDERR_KEPT: usize = 64 * 1024;

/// The default time limit of a git call.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// The maximum size of a git call's standard output, in bytes.
pub const OUTPUT_LIMIT: usize = 64 * 1024 * 1024;

/// The default time that a call waits for a lock held by another program. Editors hold locks only
/// briefly.
pub const DEFAULT_LOCK_LIMIT: Duration = Duration::from_secs(30);

/// The number of lines that an [`Error`] quotes from the end of standard error.
pub(crate) const STDERR_LINES: usize = 12;

/// The maximum number of characters that an [`Error`] quotes from the command line.
const COMMAND_CHARS: usize = 400;

/// Locked during every call that reads or changes the worktree registrations.
static WORKTREES: Mutex<()> = Mutex::new(());

/// Returns the names of the filter drivers that the operator trusts.
type TrustedFilters = dyn Fn() -> Vec<String> + Send + Sync;

/// The git program and the minimal environment in which it runs.
#[derive(Clone)]
pub struct Git {
    program: PathBuf,
    path: OsString,
    home: PathBuf,
    scratch: PathBuf,
    time_limit: Duration,
    lock_limit: Duration,
    long_calls: Option<Arc<dyn LongCalls>>,
    settings_cache: SettingsCache,
    stand_ins: StandIns,
    /// The programs that git may execute, determined on the first call. `None` if execution cannot
    /// be restricted.
    programs: Arc<OnceLock<Option<AllowedPrograms>>>,
    trusted_filters: Arc<TrustedFilters>,
}

/// The reason why a git call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot find git in PATH={}", printable_line(.path.as_bytes()))]
    NotFound { path: OsString },
    #[error("cannot start `{command}`")]
    Start { command: String, source: io::Error },
    #[error("cannot work in {}: the directory is gone", printable_line(.path.as_os_str().as_bytes()))]
    NoDirectory { path: PathBuf },
    #[error("`{command}` failed: {exit}\n{stderr}")]
    Failed { command: String, exit: GitExit, stderr: String },
    #[error("`{command}` did not finish within {limit:?}")]
    TimedOut { command: String, limit: Duration },
    #[error(
        "`{command}` cannot read {}: it is not a regular file, so git would wait forever",
        printable_line(.path.as_os_str().as_bytes())
    )]
    SpecialFile { command: String, path: PathBuf },
    #[error("`{command}` printed more than {limit} bytes")]
    TooMuchOutput { command: String, limit: usize },
    #[error("cannot parse the output of `{command}`: {output}")]
    Unexpected { command: String, output: String },
    #[error("`{command}` was interrupted: {why}")]
    Interrupted { command: String, why: String },
    #[error("`{command}` was interrupted: {why}")]
    DiskFull { command: String, why: String },
    #[error("the daemon is stopping, but `{command}` continues to run")]
    Abandoned { command: String },
    #[error("{} is locked: another program has held this lock for {} s", printable_line(.path.as_os_str().as_bytes()), .limit.as_secs())]
    Locked { path: PathBuf, limit: Duration },
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(
        "cannot use {files}: they need the git filter {filter:?}, which is not listed under `git.filters` in your configuration"
    )]
    UntrustedFilter { filter: String, files: String },
    #[error("cannot use {}", printable_line(.path.as_os_str().as_bytes()))]
    File { path: PathBuf, source: io::Error },
}

/// The way a git process exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitExit {
    Code(i32),
    Signal(i32),
}

impl Git {
    /// Finds `git` in the directories of `path`, a `PATH` value. Skips relative directories,
    /// because their meaning would depend on the current repository.
    pub fn find(path: &OsStr, home: &Path) -> Result<Self, Error> {
        let candidates = std::env::split_paths(path).filter(|dir| dir.is_absolute());
        let found = candidates.map(|dir| dir.join("git")).find(|file| is_executable(file));
        let program = found.ok_or_else(|| Error::NotFound { path: path.to_owned() })?;
        Ok(Self::new(&program, path, home))
    }

    /// Uses the given program, with this `PATH` and `HOME`.
    pub fn new(program: &Path, path: &OsStr, home: &Path) -> Self {
        Self {
            program: program.to_owned(),
            path: path.to_owned(),
            home: home.to_owned(),
            scratch: std::env::temp_dir(),
            time_limit: DEFAULT_TIME_LIMIT,
            lock_limit: DEFAULT_LOCK_LIMIT,
            long_calls: None,
            settings_cache: SettingsCache::default(),
            stand_ins: StandIns::default(),
            programs: Arc::default(),
            trusted_filters: Arc::new(Vec::new),
        }
    }

    /// Sets the time limit of every call.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the time to wait for a lock held by another program.
    #[must_use]
    pub fn with_lock_limit(mut self, limit: Duration) -> Self {
        self.lock_limit = limit;
        self
    }

    /// Runs calls that write a checkout's files through `calls`, so that they outlive the calling
    /// process.
    #[must_use]
    pub fn with_long_calls(mut self, calls: Arc<dyn LongCalls>) -> Self {
        self.long_calls = Some(calls);
        self
    }

    /// Creates temporary indexes and Provost's own git directories in this directory.
    #[must_use]
    pub fn with_scratch(mut self, directory: &Path) -> Self {
        self.scratch = directory.to_owned();
        self.stand_ins = StandIns::default();
        self
    }

    /// Enables the filter drivers that the operator trusts. `trusted` is called whenever a
    /// repository has filters. The filter commands come only from the user's own git configuration.
    #[must_use]
    pub fn with_filters(
        mut self,
        trusted: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.trusted_filters = Arc::new(trusted);
        self
    }

    pub(crate) fn trusted_filters(&self) -> BTreeSet<OsString> {
        (self.trusted_filters)().into_iter().map(OsString::from).collect()
    }

    pub(crate) fn stand_ins(&self) -> &StandIns {
        &self.stand_ins
    }

    /// Returns the programs that git may execute, which are git's own. `None` if execution cannot
    /// be restricted.
    fn programs(&self) -> Option<&AllowedPrograms> {
        self.programs.get_or_init(|| self.find_programs()).as_ref()
    }

    fn find_programs(&self) -> Option<AllowedPrograms> {
        if !confine::is_binary(&self.program) {
            return None;
        }
        let mut command = Command::new(&self.program);
        command.arg("--exec-path").current_dir("/").env_clear().stdin(Stdio::null());
        let finished = LimitedCommand::new(command, self.limits()).run().ok()?;
        let path = finished.stdout.strip_suffix(b"\n")?;
        AllowedPrograms::for_git(&self.program, Path::new(OsStr::from_bytes(path)))
    }

    fn limits(&self) -> ProgramLimits {
        ProgramLimits {
            time: self.time_limit,
            stdout: OUTPUT_LIMIT,
            stderr: StderrLimit::KeepLast(STDERR_KEPT),
            grace: GRACE,
        }
    }

    pub(crate) fn long_calls(&self) -> Option<&dyn LongCalls> {
        self.long_calls.as_deref()
    }

    pub(crate) fn cut_off_calls(&self) -> Vec<CutOffCall> {
        self.long_calls().map(LongCalls::cut_off_calls).unwrap_or_default()
    }

    /// Whether an interrupted call may have left this file behind. Returns false if the file does
    /// not exist.
    pub(crate) fn can_have_left(&self, file: &Path) -> Result<bool, Error> {
        let calls = self.cut_off_calls();
        let found = match file.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(Error::file(file))?,
        };
        for call in calls {
            if call.can_have_left(&found).map_err(Error::file(file))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn lock_limit(&self) -> Duration {
        self.lock_limit
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn settings_cache(&self) -> &SettingsCache {
        &self.settings_cache
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Prepares a call in a directory.
    pub(crate) fn call(&self, directory: &Path) -> GitCall<'_> {
        GitCall {
            git: self,
            directory: directory.to_owned(),
            args: Vec::new(),
            variables: Vec::new(),
            settings: Vec::new(),
            input: None,
            runs_filters: false,
        }
    }
}

impl fmt::Debug for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Git").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A git call that has not been run yet.
#[derive(Debug, Clone)]
pub(crate) struct GitCall<'a> {
    git: &'a Git,
    directory: PathBuf,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    settings: Vec<GitSetting>,
    input: Option<Vec<u8>>,
    runs_filters: bool,
}

/// The output and exit status of a git call.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) command: String,
    pub(crate) exit: GitExit,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl GitCall<'_> {
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn settings(mut self, settings: &[GitSetting]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    /// Makes git ignore the user's and the system's configuration files.
    pub(crate) fn without_user_settings(self) -> Self {
        self.variable("GIT_CONFIG_GLOBAL", "/dev/null").variable("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// Enables the given filter drivers, which the operator trusts. It is not known which programs
    /// a filter command runs, so this call may execute any program.
    pub(crate) fn filters(mut self, filters: &[GitSetting]) -> Self {
        self.runs_filters |= !filters.is_empty();
        self.settings(filters)
    }

    /// Returns the error for a process that could not be started. The system reports the same error
    /// for a missing directory and a missing program, so this function distinguishes the two.
    fn not_started(&self, command: String, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::NotFound && !self.directory.is_dir() {
            return Error::NoDirectory { path: self.directory.clone() };
        }
        Error::Start { command, source }
    }

    /// Runs git. A nonzero exit code is not treated as an error.
    pub(crate) fn run_unchecked(self) -> Result<GitOutput, Error> {
        let command = self.line();
        // Git reads every worktree registration, and fails while another call is creating one.
        let _alone = self
            .touches_worktrees()
            .then(|| WORKTREES.lock().unwrap_or_else(PoisonError::into_inner));
        let limits = self.git.limits();
        let programs = if self.runs_filters { None } else { self.git.programs().cloned() };
        let search = self.special_file_search();
        let limited = |prepared| {
            LimitedCommand::new(prepared, limits).confined(programs.map(AllowedPrograms::confine))
        };
        let finished = self
            .prepare()
            .and_then(|prepared| limited(prepared).run_until(&|| search.find()))
            .map_err(|source| self.not_started(command.clone(), source))?;
        match finished.end {
            CommandEnd::TimedOut => Err(Error::TimedOut { command, limit: limits.time }),
            CommandEnd::Blocked(path) => Err(Error::SpecialFile { command, path }),
            CommandEnd::TooMuchOutput => {
                Err(Error::TooMuchOutput { command, limit: limits.stdout })
            }
            CommandEnd::Exited(status) => Ok(GitOutput {
                command,
                exit: GitExit::from(status),
                stdout: finished.stdout,
                stderr: finished.stderr,
            }),
        }
    }

    /// Runs git as a long call. If an argument is not UTF-8, runs it as a normal call instead.
    pub(crate) fn run_long(self, calls: &dyn LongCalls) -> Result<GitOutput, Error> {
        let command = self.line();
        let Some(call) = self.prepare().ok().and_then(|prepared| self.as_long_call(&prepared))
        else {
            return self.run_unchecked();
        };
        // Search for blocking files now, because nothing monitors a call that outlives this
        // process.
        if let Some(path) = self.special_file_search().find() {
            return Err(Error::SpecialFile { command, path });
        }
        match calls.run(call) {
            LongCallResult::Exited { exit, stderr } => {
                Ok(GitOutput { command, exit, stdout: Vec::new(), stderr })
            }
            LongCallResult::Interrupted(why) => Err(Error::Interrupted { command, why }),
            LongCallResult::DiskFull(why) => Err(Error::DiskFull { command, why }),
            LongCallResult::NotStarted(why) => {
                Err(self.not_started(command, io::Error::other(why)))
            }
            LongCallResult::Abandoned => Err(Error::Abandoned { command }),
        }
    }

    fn as_long_call(&self, prepared: &Command) -> Option<LongCall> {
        let text = |text: &OsStr| text.to_str().map(str::to_owned);
        let words = std::iter::once(prepared.get_program()).chain(prepared.get_args());
        let variables = prepared.get_envs().filter(|(name, _)| *name != MARK);
        let pair = |(name, value): (&OsStr, Option<&OsStr>)| Some((text(name)?, text(value?)?));
        let programs = if self.runs_filters { None } else { self.git.programs() };
        Some(LongCall {
            argv: words.map(text).collect::<Option<_>>()?,
            env: variables.map(pair).collect::<Option<_>>()?,
            cwd: self.directory.clone(),
            programs: programs.map(|programs| programs.paths().to_vec()),
        })
    }

    /// Runs git and expects exit code 0.
    pub(crate) fn run(self) -> Result<GitOutput, Error> {
        let answer = self.run_unchecked()?;
        if answer.exit == GitExit::Code(0) { Ok(answer) } else { Err(answer.failure()) }
    }

    /// Returns the directories from which git reads files in this call. The git directory that the
    /// worktrees share is the one that contains the objects.
    fn special_file_search(&self) -> SpecialFileSearch {
        let given = |name: &str| {
            let found = self.variables.iter().rev().find(|(variable, _)| variable == name);
            found.map(|(_, value)| PathBuf::from(value))
        };
        let shared =
            given("GIT_OBJECT_DIRECTORY").and_then(|objects| Some(objects.parent()?.into()));
        let git_dirs = [given("GIT_DIR"), shared].into_iter().flatten().collect();
        SpecialFileSearch { directory: self.directory.clone(), git_dirs }
    }

    fn touches_worktrees(&self) -> bool {
        self.args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "worktree")
    }

    fn prepare(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.git.program);
        command.args(&self.args).current_dir(&self.directory).env_clear();
        command.env("PATH", &self.git.path).env("HOME", &self.git.home);
        command.envs(guard::VARIABLES.iter().copied());
        let fixed = guard::SETTINGS.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
        let own = self.settings.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()));
        command.envs(guard::as_variables(own.chain(fixed)));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Programs that git runs must not be mistaken for the operator. Their mark is set last, so
        // that no other variable overrides it.
        command.env(MARK, HELPER);
        command.stdin(self.stdin()?);
        Ok(command)
    }

    /// Returns the input as an unnamed file. With a pipe, both processes could block.
    fn stdin(&self) -> io::Result<Stdio> {
        let Some(bytes) = &self.input else { return Ok(Stdio::null()) };
        let mut file = tempfile::tempfile_in(&self.git.scratch)?;
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(Stdio::from(file))
    }

    fn line(&self) -> String {
        let args = self.args.iter().map(|arg| printable_line(arg.as_bytes()));
        let words: Vec<String> = std::iter::once("git".to_owned()).chain(args).collect();
        let line = words.join(" ");
        if line.chars().count() <= COMMAND_CHARS {
            return line;
        }
        line.chars().take(COMMAND_CHARS).chain(std::iter::once('…')).collect()
    }
}

impl GitOutput {
    pub(crate) fn failure(self) -> Error {
        let stderr = last_lines(&self.stderr, STDERR_LINES);
        Error::Failed { command: self.command, exit: self.exit, stderr }
    }

    pub(crate) fn unexpected(&self) -> Error {
        let shown = &self.stdout[..self.stdout.len().min(COMMAND_CHARS)];
        Error::Unexpected { command: self.command.clone(), output: printable(shown) }
    }

    /// Returns the output without its final line feed.
    pub(crate) fn line(&self) -> &OsStr {
        OsStr::from_bytes(self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout))
    }

    /// Returns the NUL-terminated items of the output.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout.split(|byte| *byte == 0).filter(|item| !item.is_empty())
    }

    pub(crate) fn stderr_contains(&self, phrase: &str) -> bool {
        String::from_utf8_lossy(&self.stderr).contains(phrase)
    }
}

impl Error {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UntrustedFilter { .. } => Some(
                "to trust the filter, add its name to `filters` below `[git]` in your own \
                 provost.toml; its command comes from `git config --global`",
            ),
            Self::SpecialFile { .. } => Some("remove the file, then resume"),
            Self::Locked { .. } => Some(
                "close the editor or git that uses the repository (if there is none, remove the \
                 file), then resume",
            ),
            Self::NotFound { .. }
            | Self::Start { .. }
            | Self::NoDirectory { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::TooMuchOutput { .. }
            | Self::Unexpected { .. }
            | Self::Interrupted { .. }
            | Self::DiskFull { .. }
            | Self::Abandoned { .. }
            | Self::Settings(_)
            | Self::File { .. } => None,
        }
    }

    /// Whether the same call may succeed later, because the cause of its failure is outside the
    /// call.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Start { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::DiskFull { .. }
            | Self::Locked { .. }
            | Self::File { .. } => true,
            Self::NotFound { .. }
            | Self::NoDirectory { .. }
            | Self::SpecialFile { .. }
            | Self::TooMuchOutput { .. }
            | Self::Unexpected { .. }
            | Self::Abandoned { .. }
            | Self::Settings(_)
            | Self::UntrustedFilter { .. } => false,
        }
    }

    /// Returns a function that wraps a file-system error with this path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}

impl From<ExitStatus> for GitExit {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for GitExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
