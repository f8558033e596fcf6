//! The helper program through which a command enters its sandbox.
//!
//! The helper replaces itself by the command in two stages:
//!
//! 1. The *outer* stage ignores the signals that end a command, and executes bubblewrap. Otherwise
//!    such a signal to the process group would end bubblewrap, and thus everything in the PID
//!    namespace, before the command can react to it.
//! 2. The *inner* stage runs inside of the sandbox. It restores the signals, sets the limits on
//!    processes, and executes the command.
//!
//! At the level *files*, there is only one stage, which restricts itself and executes the command.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_sys::signals;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, getuid, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use serde::{Deserialize, Serialize};

use crate::bubblewrap;
use crate::landlock_rules;
use crate::plan::{SandboxLevel, SandboxMode, SandboxPlan};
use crate::status;

/// The environment variable from which the outer stage reads its [`SandboxOrder`] as JSON. The
/// command does not inherit it.
pub const ORDER_VARIABLE: &str = "PROVOST_SANDBOX_ORDER";

/// The argument that selects the inner stage.
const INNER: &str = "--inside";

/// The instructions for the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxOrder {
    pub level: SandboxLevel,
    pub plan: SandboxPlan,
    /// The program `bwrap`, which the level *full* needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bubblewrap: Option<PathBuf>,
    /// The helper program and its arguments. They must be readable in the sandbox.
    pub helper: Vec<PathBuf>,
    /// The file from which [`status::read`] returns whether the command was started.
    pub status: PathBuf,
}

impl SandboxOrder {
    /// Returns the command that starts the helper. Its environment must contain
    /// [`ORDER_VARIABLE`] with the value of [`Self::to_variable`].
    pub fn helper_command(&self, argv: &[String]) -> Result<Command, Error> {
        let (program, args) = self.helper.split_first().ok_or(Error::Order(None))?;
        let mut command = Command::new(program);
        command.args(args).args(argv);
        Ok(command)
    }

    pub fn to_variable(&self) -> Result<String, Error> {
        serde_json::to_string(self).map_err(|why| Error::Order(Some(why)))
    }
}

/// The reason why a command could not be started in its sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the helper has no instructions, or invalid ones")]
    Order(#[source] Option<serde_json::Error>),
    #[error("the command is empty")]
    NoCommand,
    #[error("no sandbox is available on this machine")]
    NoLevel,
    #[error("could not open the status file {}", .0.display())]
    Status(PathBuf, #[source] io::Error),
    #[error("could not set a limit, a signal or a capability")]
    Limit(#[source] io::Error),
    #[error(transparent)]
    Files(#[from] landlock_rules::Error),
    #[error("could not restrict the scope of the command")]
    Scope(#[source] landlock::RulesetError),
    #[error("cannot run {program:?}")]
    Execute { program: OsString, source: io::Error },
}

impl Error {
    /// Returns the exit code of the helper, as a shell would choose it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Execute { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Execute { .. } => 126,
            Self::Order(_)
            | Self::NoCommand
            | Self::NoLevel
            | Self::Status(..)
            | Self::Limit(_)
            | Self::Files(_)
            | Self::Scope(_) => 125,
        }
    }
}

/// Replaces this process by the command. `order` is the value of [`ORDER_VARIABLE`], and `args` are
/// the arguments of the helper. Returns only if that failed.
pub fn enter(order: Option<&OsStr>, args: &[OsString]) -> Error {
    let result = match args.split_first() {
        Some((first, rest)) if first == INNER => enter_inner(rest),
        _ => enter_outer(order, args),
    };
    match result {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

enum Never {}

fn enter_outer(order: Option<&OsStr>, command: &[OsString]) -> Result<Never, Error> {
    let text = order.and_then(OsStr::to_str).ok_or(Error::Order(None))?;
    let order: SandboxOrder = serde_json::from_str(text).map_err(|why| Error::Order(Some(why)))?;
    if command.is_empty() {
        return Err(Error::NoCommand);
    }
    let status =
        open_status(&order.status).map_err(|why| Error::Status(order.status.clone(), why))?;
    limit(Resource::Nofile, order.plan.limits.open_files)?;
    match order.level {
        SandboxLevel::Full => enter_bubblewrap(&order, &status, command),
        SandboxLevel::Files => enter_landlock(&order, status, command),
        SandboxLevel::None => Err(Error::NoLevel),
    }
}

fn enter_bubblewrap(
    order: &SandboxOrder,
    status: &OwnedFd,
    command: &[OsString],
) -> Result<Never, Error> {
    let program = order.bubblewrap.as_deref().ok_or(Error::NoLevel)?;
    // Bubblewrap closes its own copy when it starts the command.
    fcntl_setfd(status, FdFlags::empty())
        .map_err(|why| Error::Status(order.status.clone(), why.into()))?;
    let mut bwrap = Command::new(program);
    bwrap.arg("--json-status-fd").arg(status.as_raw_fd().to_string());
    bwrap.args(bubblewrap::arguments(&order.plan));
    bwrap.args(&order.helper).arg(INNER).arg(inner_settings(&order.plan)).args(command);
    bwrap.env_remove(ORDER_VARIABLE);
    signals::ignore_terminating().map_err(Error::Limit)?;
    Err(execute(bwrap, program.as_os_str()))
}

/// Returns the argument of the inner stage: the limit on processes, or `-` without restrictions.
fn inner_settings(plan: &SandboxPlan) -> String {
    match plan.mode {
        SandboxMode::Off => "-".to_owned(),
        SandboxMode::ReadOnly | SandboxMode::Workspace => plan.limits.processes.to_string(),
    }
}

fn enter_inner(args: &[OsString]) -> Result<Never, Error> {
    let (settings, command) = args.split_first().ok_or(Error::NoCommand)?;
    let (program, args) = command.split_first().ok_or(Error::NoCommand)?;
    if let Some(processes) = settings.to_str().and_then(|text| text.parse().ok()) {
        landlock_rules::restrict_scope().map_err(Error::Scope)?;
        // The kernel counts the processes of a user namespace separately.
        limit(Resource::Nproc, processes)?;
    }
    signals::restore_terminating().map_err(Error::Limit)?;
    let mut command = Command::new(program);
    command.args(args);
    Err(execute(command, program))
}

fn enter_landlock(
    order: &SandboxOrder,
    status: OwnedFd,
    command: &[OsString],
) -> Result<Never, Error> {
    let (program, args) = command.split_first().ok_or(Error::NoCommand)?;
    let plan = &order.plan;
    let mut command = Command::new(program);
    command.args(args).current_dir(&plan.directory).env_remove(ORDER_VARIABLE);
    if plan.mode != SandboxMode::Off {
        for name in &plan.removed_variables {
            command.env_remove(name);
        }
        command.env("TMPDIR", plan.temporary_at(SandboxLevel::Files));
        limit(Resource::Nproc, own_processes()?.saturating_add(plan.limits.processes))?;
    }
    if plan.mode != SandboxMode::Off {
        drop_capabilities()?;
    }
    // There is no PID namespace, so only the command itself ends with its holder.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|why| Error::Limit(why.into()))?;
    landlock_rules::restrict_thread(plan)?;
    let mut status = std::fs::File::from(status);
    status
        .write_all(status::entered_line().as_bytes())
        .map_err(|why| Error::Status(order.status.clone(), why))?;
    Err(execute(command, program))
}

fn execute(mut command: Command, program: &OsStr) -> Error {
    let source = command.exec();
    Error::Execute { program: program.to_owned(), source }
}

fn open_status(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?)
}

/// Lowers a limit, so that it cannot be raised again.
fn limit(resource: Resource, most: u64) -> Result<(), Error> {
    let before = getrlimit(resource);
    let most = before.maximum.map_or(most, |maximum| maximum.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(resource, limit).map_err(|why| Error::Limit(why.into()))
}

/// Prevents a command of root from having capabilities, with which it could read the memory and the
/// environment of processes outside of the sandbox. Other users have none.
fn drop_capabilities() -> Result<(), Error> {
    if !getuid().is_root() {
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // An older kernel does not know the capability.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(Error::Limit(error.into())),
        }
    }
    Ok(())
}

/// Returns the number of the user's processes and threads, which the kernel counts together outside
/// of a user namespace.
fn own_processes() -> Result<u64, Error> {
    let uid = getuid().as_raw();
    let all = provost_sys::stat::ProcStat::all().map_err(Error::Limit)?;
    let mut threads = 0;
    for stat in all.values() {
        if provost_sys::process::real_uid(stat.pid).map_err(Error::Limit)? == Some(uid) {
            threads += u64::from(stat.threads);
        }
    }
    Ok(threads)
}
