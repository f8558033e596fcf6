//! Starts the command that a spec describes.
//!
//! The process that starts a holder reads one line from the holder's standard output. The line
//! reports that the launch was taken and recorded, that it had already been taken, or the reason
//! why nothing was started. Nothing is started before the directory has been created.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, getpid, set_child_subreaper, setsid};

use super::output::CommandStreams;
use super::relay::PendingConnection;
use super::supervisor::Supervisor;
use super::terminal::CommandTerminal;
use crate::clock::{mono_ms, wall_ms};
use crate::journal::JournalWriter;
use crate::launch_dir::{LaunchDir, ReservedRecord};
use crate::record::{
    EXIT_FILE, EndCause, ExitRecord, GONE_FILE, GoneRecord, HELD_FILE, HOLDER_FILE, HeldRecord,
    HolderRecord, ProcessEnd, RECORD_VERSION,
};
use crate::spec::{self, HoldSpec, MARK, Relay, StdinMode, Tty};
use provost_sandbox::enter::ORDER_VARIABLE;
use provost_sys::error_chain;
use provost_sys::process::ProcessInstance;
use provost_sys::stat::ProcStat;

/// The exit code of a holder whose directory already existed. Such a holder has started nothing.
pub const EXIT_ALREADY: u8 = 17;
/// The size of the other fields of `held.json`: two process identities, two times, and names.
const HELD_RECORD_REST: u64 = 2048;
/// The exit code of a holder that has started nothing for another reason.
const EXIT_REFUSED: u8 = 2;

pub(crate) const ANSWER_OK: &str = "ok";
pub(crate) const ANSWER_ALREADY: &str = "already";
pub(crate) const ANSWER_TAKEN_BACK: &str = "taken back: ";

/// Takes the launch directory, runs the spec's command until it has ended, and writes the records.
pub fn hold(dir: &Path, spec: impl Read) -> ExitCode {
    // Hide the process first, because the spec contains the agent's environment, including tokens.
    if let Err(error) = provost_sys::process::hide_from_user() {
        answer_starter(&format!("cannot hide the holder from other processes: {error}"));
        return ExitCode::from(EXIT_REFUSED);
    }
    match launch(dir, spec) {
        Ok(LaunchOutcome::Running(supervisor)) => {
            answer_starter(ANSWER_OK);
            supervisor.run()
        }
        Ok(LaunchOutcome::NotStarted) => {
            answer_starter(ANSWER_OK);
            ExitCode::SUCCESS
        }
        Ok(LaunchOutcome::TakenBack { supervisor, error }) => {
            answer_starter(&format!("{ANSWER_TAKEN_BACK}{error}"));
            supervisor.run()
        }
        Err(Error::Already) => {
            answer_starter(ANSWER_ALREADY);
            ExitCode::from(EXIT_ALREADY)
        }
        Err(error) => {
            answer_starter(&with_sources(&error));
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

/// The resources that must be ready before the command starts.
pub(super) struct HolderResources {
    pub(super) dir: LaunchDir,
    pub(super) holder: ProcessInstance,
    pub(super) journal: JournalWriter,
    pub(super) listener: UnixListener,
    /// The record of the running command. Its space is reserved before the command starts, because
    /// a full disk must not undo a start.
    held: ReservedRecord,
}

/// A running command.
pub(super) struct RunningCommand {
    pub(super) child: Child,
    pub(super) streams: CommandStreams,
    /// The connection that is being established, if the command listens.
    pub(super) connecting: Option<PendingConnection>,
}

enum LaunchOutcome {
    Running(Box<Supervisor>),
    NotStarted,
    /// The command is running, but its start could not be recorded, so it is terminated again.
    TakenBack {
        supervisor: Box<Supervisor>,
        error: io::Error,
    },
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Spec(#[from] spec::Error),
    #[error("another holder already runs this launch")]
    Already,
    #[error("could not create the directory {0:?}")]
    Create(PathBuf, #[source] io::Error),
    #[error("could not prepare the directory {0:?}")]
    Prepare(PathBuf, #[source] io::Error),
    #[error("could not record that the command did not start")]
    Record(#[source] io::Error),
}

fn launch(dir: &Path, spec: impl Read) -> Result<LaunchOutcome, Error> {
    let spec = HoldSpec::read(spec)?;
    let dir = path::absolute(dir).map_err(|error| Error::Create(dir.to_owned(), error))?;
    let place = take_launch(&dir, &spec)?;
    match start(&spec) {
        Ok(begun) => Ok(supervise(place, &spec, begun)),
        Err(error) => match record_not_started(&place.dir, error) {
            Ok(()) => Ok(LaunchOutcome::NotStarted),
            Err(error) => {
                place.dir.remove(&dir).ok();
                Err(Error::Record(error))
            }
        },
    }
}

fn take_launch(path: &Path, spec: &HoldSpec) -> Result<HolderResources, Error> {
    let dir = match LaunchDir::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Error::Already),
        other => other.map_err(|error| Error::Create(path.to_owned(), error))?,
    };
    match prepare(&dir, path, spec) {
        Ok(prepared) => {
            let PreparedDir { holder, journal, listener, held } = prepared;
            Ok(HolderResources { dir, holder, journal, listener, held })
        }
        Err(error) => {
            // If the removal fails too, the directory looks as if the holder had died before it
            // started the command.
            dir.remove(path).ok();
            Err(Error::Prepare(path.to_owned(), error))
        }
    }
}

/// The contents of a directory in which a command can start.
struct PreparedDir {
    holder: ProcessInstance,
    journal: JournalWriter,
    listener: UnixListener,
    held: ReservedRecord,
}

fn prepare(dir: &LaunchDir, path: &Path, spec: &HoldSpec) -> io::Result<PreparedDir> {
    refuse_ignored_sigchld()?;
    own_session()?;
    set_child_subreaper(Some(getpid()))?;
    // The holder must not keep the file system of a worktree busy.
    std::env::set_current_dir("/")?;
    let holder = ProcessInstance::own()?;
    let taken =
        HolderRecord { version: RECORD_VERSION, key: spec.key.clone(), holder: holder.clone() };
    dir.write_record(HOLDER_FILE, &taken)?;
    LaunchDir::sync_name(path)?;
    let journal = JournalWriter::new(dir.create_journal()?);
    let listener = UnixListener::bind(dir.socket_path())?;
    fs::set_permissions(dir.socket_path(), Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let held = dir.reserve_record(HELD_FILE, held_record_size(spec)?)?;
    Ok(PreparedDir { holder, journal, listener, held })
}

/// Returns an upper limit for the size of the record of a running command.
fn held_record_size(spec: &HoldSpec) -> io::Result<u64> {
    let known = serde_json::to_vec(&(&spec.key, &spec.argv, &spec.cwd))?.len() as u64;
    Ok(known + HELD_RECORD_REST)
}

/// Leaves the session of the process that started the holder, because a hangup of its terminal
/// would end the holder too.
fn own_session() -> io::Result<()> {
    let Err(error) = setsid() else { return Ok(()) };
    let pid = std::process::id();
    // `getsid` cannot be used: it returns 0 for a session outside the PID namespace, which rustix
    // treats as impossible.
    match ProcStat::read(pid)? {
        Some(stat) if stat.session == pid => Ok(()),
        Some(_) | None => Err(error.into()),
    }
}

/// Fails if SIGCHLD is ignored, because the kernel then discards exit statuses. This setting is
/// inherited.
fn refuse_ignored_sigchld() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & (1 << (Signal::CHILD.as_raw() - 1)) != 0 {
        return Err(io::Error::other("SIGCHLD is ignored, so exit statuses would be lost"));
    }
    Ok(())
}

/// Starts the command. The error is the reason, as text for the user.
fn start(spec: &HoldSpec) -> Result<RunningCommand, String> {
    let (program, args) = spec.argv.split_first().ok_or("the command is empty")?;
    match fs::metadata(&spec.cwd) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(format!("the working directory {:?} is not a directory", spec.cwd)),
        Err(error) => return Err(format!("the working directory {:?}: {error}", spec.cwd)),
    }
    let arriving = prepare_connection(spec)?;
    let stdin = if spec.stdin == StdinMode::Null { Stdio::null() } else { Stdio::piped() };
    let mut command = Command::new(program);
    command.args(args);
    let mut order = None;
    if let Some(sandbox) = &spec.sandbox {
        let failed = |why| format!("cannot enter the sandbox: {}", error_chain(&why));
        command = sandbox.helper_command(&spec.argv).map_err(failed)?;
        order = Some(sandbox.to_variable().map_err(failed)?);
    }
    command.env_clear().envs(spec.env.iter().cloned()).env(MARK, &spec.key);
    command.envs(order.map(|order| (ORDER_VARIABLE, order)));
    command.current_dir(&spec.cwd).process_group(0);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawned = match (&arriving, spec.tty) {
        (Some(_), _) => spawn_relayed(command),
        (None, Some(size)) => spawn_in_terminal(command, size),
        (None, None) => spawn(command),
    };
    let failed = |error| format!("cannot run {program:?} in {:?}: {error}", spec.cwd);
    let (child, streams) = spawned.map_err(failed)?;
    Ok(RunningCommand { child, streams, connecting: arriving })
}

fn prepare_connection(spec: &HoldSpec) -> Result<Option<PendingConnection>, String> {
    let Some(Relay { socket, .. }) = &spec.relay else { return Ok(None) };
    let failed = |error| format!("cannot wait for the socket {socket:?}: {error}");
    PendingConnection::prepare(socket, mono_ms()).map(Some).map_err(failed)
}

fn spawn(mut command: Command) -> io::Result<(Child, CommandStreams)> {
    let mut child = command.spawn()?;
    let out = child.stdout.take().map(OwnedFd::from);
    let err = child.stderr.take().map(OwnedFd::from);
    Ok((child, CommandStreams::Pipes { out, err }))
}

/// Starts the command with one pipe for both output streams, which preserves their order. The
/// holder's copies of the write end are dropped with the `Command`.
fn spawn_relayed(mut command: Command) -> io::Result<(Child, CommandStreams)> {
    let (both, write) = io::pipe()?;
    command.stdout(write.try_clone()?).stderr(write);
    Ok((command.spawn()?, CommandStreams::Relayed { both: both.into() }))
}

/// Starts the command in a terminal. The holder's copies of the command's end are dropped with the
/// `Command`, so that the terminal closes when all other copies do.
fn spawn_in_terminal(mut command: Command, size: Tty) -> io::Result<(Child, CommandStreams)> {
    let (terminal, end) = CommandTerminal::open(size)?;
    command.stdin(end.try_clone()?).stdout(end.try_clone()?).stderr(end);
    let child = command.spawn()?;
    // A command that has already exited does not need to be in the foreground.
    terminal.set_foreground(Pid::from_child(&child)).ok();
    Ok((child, CommandStreams::Terminal(terminal)))
}

fn record_not_started(dir: &LaunchDir, error: String) -> io::Result<()> {
    let end = ProcessEnd::NotStarted { error };
    let exit = ExitRecord {
        version: RECORD_VERSION,
        end,
        ended_by: EndCause::Itself,
        wall_ms: wall_ms(),
        mono_ms: mono_ms(),
        journal_end: 0,
    };
    // The socket is of no use without a command.
    dir.remove_socket()?;
    dir.write_record(EXIT_FILE, &exit)?;
    dir.write_record(
        GONE_FILE,
        &GoneRecord { version: RECORD_VERSION, leftovers: 0, verified: true, journal_end: 0 },
    )
}

fn supervise(place: HolderResources, spec: &HoldSpec, begun: RunningCommand) -> LaunchOutcome {
    let recorded = held_record(&place.holder, spec, &begun.child)
        .and_then(|held| place.dir.write_reserved(&place.held, &held));
    match (recorded, Supervisor::new(place, spec, begun)) {
        (Ok(()), supervisor) => LaunchOutcome::Running(Box::new(supervisor)),
        (Err(error), mut supervisor) => {
            supervisor.end_tree(EndCause::HolderFault, 0);
            LaunchOutcome::TakenBack { supervisor: Box::new(supervisor), error }
        }
    }
}

/// Builds the record of a running command. The child must still be in the process table, because
/// only this process can reap it.
fn held_record(holder: &ProcessInstance, spec: &HoldSpec, child: &Child) -> io::Result<HeldRecord> {
    let child = ProcessInstance::of_pid(child.id())?
        .ok_or_else(|| io::Error::other("/proc does not show the command"))?;
    Ok(HeldRecord {
        version: RECORD_VERSION,
        key: spec.key.clone(),
        holder: holder.clone(),
        child,
        argv: spec.argv.clone(),
        cwd: spec.cwd.clone(),
        started_wall_ms: wall_ms(),
        started_mono_ms: mono_ms(),
    })
}

/// Prints the response line and closes the standard streams. Errors are ignored, because a
/// running command must survive a starter that no longer reads and a system without `/dev/null`.
fn answer_starter(line: &str) {
    let line = format!("{}\n", line.replace('\n', " "));
    rustix::io::write(rustix::stdio::stdout(), line.as_bytes()).ok();
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        rustix::stdio::dup2_stdin(&null).ok();
        rustix::stdio::dup2_stdout(&null).ok();
    }
}

fn with_sources(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
