//! Runs one program to completion, with limits on time and output.
//!
//! The program leads its own process group. The group is signalled before its leader is reaped, so
//! the group id cannot have been reused. No process in the group outlives the call. If the calling
//! process is killed, the kernel terminates the program.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::clock::now;
use crate::origin::{HELPER, MARK};
use crate::process::end_with_thread;

/// The default limit for each output stream. A program that exceeds it is killed.
pub const OUTPUT_LIMIT: usize = 64 * 1024;

/// The time for which a program runs before it is first searched for an obstacle. The time doubles
/// after each search.
const FIRST_SEARCH: Duration = Duration::from_millis(500);

/// The limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramLimits {
    pub time: Duration,
    /// The limit for standard output. A program that exceeds it is ended.
    pub stdout: usize,
    pub stderr: StderrLimit,
    /// The time between SIGTERM and SIGKILL for a program that is ended, to clean up.
    pub grace: Duration,
}

/// The limit for standard error.
#[derive(Debug, Clone, Copy)]
pub enum StderrLimit {
    /// The program is ended if it writes more.
    End(usize),
    /// The last bytes are kept.
    KeepLast(usize),
}

/// The way a command ended. `O` is an obstacle that blocked it.
#[derive(Debug, Clone)]
pub enum CommandEnd<O> {
    Exited(ExitStatus),
    TimedOut,
    TooMuchOutput,
    /// The command was ended, because something blocks it.
    Blocked(O),
}

/// The result of a command that has exited.
#[derive(Debug)]
pub struct FinishedCommand<O> {
    pub end: CommandEnd<O>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Restricts the thread that starts a command, and thereby the command.
pub type ThreadConfinement = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A command to run with limits.
pub struct LimitedCommand {
    command: Command,
    limits: ProgramLimits,
    input: Option<Vec<u8>>,
    confinement: Option<ThreadConfinement>,
}

impl LimitedCommand {
    /// Takes a command whose standard input is set. Its output is read here.
    pub fn new(mut command: Command, limits: ProgramLimits) -> Self {
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        end_with_thread(&mut command);
        Self { command, limits, input: None, confinement: None }
    }

    /// Writes these bytes to standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(bytes);
        self
    }

    /// Restricts the thread that starts the command.
    pub fn confined(mut self, confinement: Option<ThreadConfinement>) -> Self {
        self.confinement = confinement;
        self
    }

    /// Runs the command until it exits or exceeds a limit.
    pub fn run(self) -> io::Result<FinishedCommand<Infallible>> {
        self.run_until(&|| None)
    }

    /// Like [`Self::run`], but also ends the command once the search returns an obstacle. The
    /// search runs from time to time.
    pub fn run_until<O>(self, search: &dyn Fn() -> Option<O>) -> io::Result<FinishedCommand<O>> {
        self.start()?.finish(search)
    }

    /// Starts the command. An error means that it did not run.
    pub fn start(self) -> io::Result<RunningCommand> {
        let limits = self.limits;
        let (exited, on_exit) = io::pipe()?;
        let (started, on_start) = mpsc::sync_channel(1);
        let deadline = now() + limits.time;
        let watch = move || self.start_and_watch(&started, on_exit);
        let watcher = thread::Builder::new().spawn(watch)?;
        let broke = |_| io::Error::other("the thread that starts the program panicked");
        let mut child = on_start.recv().map_err(broke)??;
        let group = Pid::from_child(&child);
        let stdout = OutputPipe::new(child.stdout.take().map(OwnedFd::from));
        let stderr = OutputPipe::new(child.stderr.take().map(OwnedFd::from));
        let watcher = Some(watcher);
        Ok(RunningCommand { child, group, exited, watcher, stdout, stderr, limits, deadline })
    }
}

/// A program to run. Its environment contains only the given variables, and its standard input is
/// empty.
#[derive(Debug)]
pub struct ProgramRun {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub directory: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
    pub limit: Duration,
    /// The limit for each output stream. A program that exceeds it is killed.
    pub output_limit: usize,
}

/// The way a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    Code(i32),
    Signal(i32),
    TimedOut,
    TooMuchOutput,
}

/// The result of a program that has exited.
#[derive(Debug)]
pub struct FinishedProgram {
    pub end: ProgramEnd,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl ProgramRun {
    /// Runs the program until it exits or exceeds a limit. Afterwards, no process of its group is
    /// left.
    pub fn finish(&self) -> io::Result<FinishedProgram> {
        let limits = ProgramLimits {
            time: self.limit,
            stdout: self.output_limit,
            stderr: StderrLimit::End(self.output_limit),
            grace: Duration::ZERO,
        };
        let finished = LimitedCommand::new(self.command(), limits).run()?;
        let end = match finished.end {
            CommandEnd::Exited(status) => ProgramEnd::from(status),
            CommandEnd::TimedOut => ProgramEnd::TimedOut,
            CommandEnd::TooMuchOutput => ProgramEnd::TooMuchOutput,
            CommandEnd::Blocked(never) => match never {},
        };
        Ok(FinishedProgram { end, stdout: finished.stdout, stderr: finished.stderr })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.directory).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env(MARK, HELPER).stdin(Stdio::null());
        command
    }
}

impl From<ExitStatus> for ProgramEnd {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap_or_default()),
        }
    }
}

/// The reason why collecting output stopped.
enum CollectEnd<O> {
    Exited,
    Deadline,
    Full,
    Blocked(O),
}

/// A command that has started. Wait for it with [`Self::finish`].
pub struct RunningCommand {
    child: Child,
    group: Pid,
    /// A pipe that is closed after the child has exited but before it is reaped.
    exited: PipeReader,
    watcher: Option<JoinHandle<()>>,
    stdout: OutputPipe,
    stderr: OutputPipe,
    limits: ProgramLimits,
    deadline: Instant,
}

impl RunningCommand {
    /// Waits until the command exits, exceeds a limit, or the search returns an obstacle.
    /// Afterwards, no process of its group is left.
    pub fn finish<O>(mut self, search: &dyn Fn() -> Option<O>) -> io::Result<FinishedCommand<O>> {
        let stop = self.collect(search);
        let grace =
            if matches!(stop, Ok(CollectEnd::Exited)) { Duration::ZERO } else { self.limits.grace };
        let status = self.end(grace)?;
        let end = match stop? {
            CollectEnd::Exited => CommandEnd::Exited(status),
            CollectEnd::Deadline => CommandEnd::TimedOut,
            CollectEnd::Full => CommandEnd::TooMuchOutput,
            CollectEnd::Blocked(obstacle) => CommandEnd::Blocked(obstacle),
        };
        Ok(FinishedCommand { end, stdout: self.stdout.bytes, stderr: self.stderr.bytes })
    }

    fn collect<O>(&mut self, search: &dyn Fn() -> Option<O>) -> io::Result<CollectEnd<O>> {
        let mut pause = FIRST_SEARCH;
        let mut search_at = now() + pause;
        loop {
            let wake_at = self.deadline.min(search_at);
            let ready = self.poll(wake_at.saturating_duration_since(now()))?;
            if !ready.any() && now() >= self.deadline {
                return Ok(CollectEnd::Deadline);
            }
            if !ready.any() && now() >= search_at {
                if let Some(obstacle) = search() {
                    return Ok(CollectEnd::Blocked(obstacle));
                }
                pause *= 2;
                search_at = now() + pause;
            }
            self.take(ready)?;
            if self.is_full() {
                return Ok(CollectEnd::Full);
            }
            if ready.exited {
                return self.drain();
            }
        }
    }

    /// Reads the output that was written before the exit. Does not wait for the end of the pipe,
    /// because a descendant that left the group may keep it open.
    fn drain<O>(&mut self) -> io::Result<CollectEnd<O>> {
        self.signal(Signal::KILL);
        loop {
            let ready = self.poll(Duration::ZERO)?;
            if !ready.stdout && !ready.stderr {
                return Ok(CollectEnd::Exited);
            }
            self.take(ready)?;
            if self.is_full() {
                return Ok(CollectEnd::Full);
            }
        }
    }

    fn is_full(&self) -> bool {
        let limit = match self.limits.stderr {
            StderrLimit::End(limit) => limit,
            StderrLimit::KeepLast(_) => usize::MAX,
        };
        self.stdout.bytes.len() > self.limits.stdout || self.stderr.bytes.len() > limit
    }

    fn take(&mut self, ready: ReadyStreams) -> io::Result<()> {
        if ready.stdout {
            self.stdout.read()?;
        }
        if ready.stderr {
            self.stderr.read()?;
            if let StderrLimit::KeepLast(count) = self.limits.stderr {
                self.stderr.keep_last(count);
            }
        }
        Ok(())
    }

    fn poll(&self, timeout: Duration) -> io::Result<ReadyStreams> {
        let none = PollFlags::empty();
        let mut fds = vec![PollFd::new(&self.exited, PollFlags::IN)];
        let open = [&self.stdout, &self.stderr].map(|stream| stream.pipe.as_ref());
        for pipe in open.iter().flatten() {
            fds.push(PollFd::new(*pipe, PollFlags::IN));
        }
        wait_for(&mut fds, timeout)?;
        let mut ready = fds.iter().map(|fd| fd.revents() != none);
        let exited = ready.next().unwrap_or(false);
        let [stdout, stderr] = open.map(|pipe| pipe.is_some() && ready.next().unwrap_or(false));
        Ok(ReadyStreams { exited, stdout, stderr })
    }

    /// Ends the group, with SIGTERM first if there is a grace, and reaps the leader.
    fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        if !grace.is_zero() {
            self.signal(Signal::TERM);
            wait_for(&mut [PollFd::new(&self.exited, PollFlags::IN)], grace)?;
        }
        self.signal(Signal::KILL);
        if let Some(watcher) = self.watcher.take() {
            let panicked = |_| io::Error::other("the thread that waits for the program panicked");
            watcher.join().map_err(panicked)?;
        }
        self.child.wait()
    }

    fn signal(&self, signal: Signal) {
        // The call fails only if no process of the group is left.
        kill_process_group(self.group, signal).ok();
    }
}

#[derive(Clone, Copy)]
struct ReadyStreams {
    exited: bool,
    stdout: bool,
    stderr: bool,
}

impl ReadyStreams {
    fn any(self) -> bool {
        self.exited || self.stdout || self.stderr
    }
}

/// One of the program's output streams.
struct OutputPipe {
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl OutputPipe {
    fn new(pipe: Option<OwnedFd>) -> Self {
        Self { pipe: pipe.map(File::from), bytes: Vec::new() }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; 64 * 1024];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn keep_last(&mut self, count: usize) {
        let surplus = self.bytes.len().saturating_sub(count);
        self.bytes.drain(..surplus);
    }
}

impl LimitedCommand {
    /// Starts the program, sends it to the caller, writes its input and waits until it exits. Runs
    /// in a thread of its own, because a confinement applies to the thread. The thread lives as
    /// long as the program, and the program ends if the thread ends.
    fn start_and_watch(mut self, started: &SyncSender<io::Result<Child>>, on_exit: PipeWriter) {
        let confined = self.confinement.take().map_or(Ok(()), |confine| confine());
        let mut child = confined.and_then(|()| self.command.spawn());
        let pid = child.as_ref().ok().map(Pid::from_child);
        let stdin = child.as_mut().ok().and_then(|child| child.stdin.take());
        // Only the child may keep the command's pipes open.
        drop(self.command);
        if started.send(child).is_err() {
            return;
        }
        if let (Some(mut stdin), Some(input)) = (stdin, self.input) {
            // A program that reads only part of its input, or is killed, decides how it ends.
            stdin.write_all(&input).ok();
        }
        if let Some(pid) = pid {
            watch_exit(pid, on_exit);
        }
    }
}

/// Keeps the pipe open until the process has exited, without reaping it.
fn watch_exit(pid: Pid, on_exit: PipeWriter) {
    let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), exited), Err(Errno::INTR)) {}
    drop(on_exit);
}

fn wait_for(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProgramLimits = ProgramLimits {
        time: Duration::from_secs(60),
        stdout: 8,
        stderr: StderrLimit::KeepLast(4),
        grace: Duration::ZERO,
    };

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null());
        command
    }

    #[test]
    fn input_reaches_program_and_end_of_stderr_is_kept() {
        let command = LimitedCommand::new(shell("cat; echo abcdef >&2"), LIMITS);
        let finished = command.input(b"1234".to_vec()).run().unwrap();
        assert!(matches!(finished.end, CommandEnd::Exited(status) if status.success()));
        assert_eq!(
            (finished.stdout.as_slice(), finished.stderr.as_slice()),
            (&b"1234"[..], &b"def\n"[..])
        );
    }

    #[test]
    fn unread_input_does_not_block() {
        let input = vec![b'x'; 4 << 20];
        let finished = LimitedCommand::new(shell("exit 3"), LIMITS).input(input).run().unwrap();
        assert!(matches!(finished.end, CommandEnd::Exited(status) if status.code() == Some(3)));
    }

    #[test]
    fn excess_output_ends_program() {
        let finished = LimitedCommand::new(shell("echo 123456789; sleep 60"), LIMITS).run();
        assert!(matches!(finished.unwrap().end, CommandEnd::TooMuchOutput));
    }

    #[test]
    fn obstacle_ends_program() {
        let command = LimitedCommand::new(shell("sleep 60"), LIMITS);
        let finished = command.run_until(&|| Some("obstacle")).unwrap();
        assert!(matches!(finished.end, CommandEnd::Blocked("obstacle")));
    }

    #[test]
    fn failed_confinement_is_an_error() {
        let refuse: ThreadConfinement = Box::new(|| Err(io::Error::other("refused")));
        let command = LimitedCommand::new(shell("true"), LIMITS).confined(Some(refuse));
        assert_eq!(command.run().unwrap_err().to_string(), "refused");
    }
}
