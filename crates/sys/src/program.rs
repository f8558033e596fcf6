//! Runs one program to completion, with limits on time and output.
//!
//! The program leads its own process group. The group is signalled before its leader is reaped, so
//! the group id cannot have been reused. No process in the group outlives the call. The environment
//! contains only the variables that the caller passes, and standard input is empty.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::origin::{HELPER, MARK};

/// The default limit for each output stream. A program that exceeds it is killed.
pub const OUTPUT_LIMIT: usize = 64 * 1024;

/// A program to run.
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
        let deadline = now() + self.limit;
        let mut running = RunningProgram::start(&mut self.command(), self.output_limit)?;
        let stop = running.collect(deadline);
        let status = running.end()?;
        let end = match stop? {
            OutputEnd::Exited => ProgramEnd::from(status),
            OutputEnd::Deadline => ProgramEnd::TimedOut,
            OutputEnd::Full => ProgramEnd::TooMuchOutput,
        };
        Ok(FinishedProgram { end, stdout: running.stdout.bytes, stderr: running.stderr.bytes })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.directory).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env(MARK, HELPER);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
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
enum OutputEnd {
    Exited,
    Deadline,
    Full,
}

struct RunningProgram {
    child: Child,
    group: Pid,
    /// A pipe that is closed after the child has exited but before it is reaped.
    exited: PipeReader,
    watcher: Option<JoinHandle<()>>,
    stdout: ProgramStream,
    stderr: ProgramStream,
    output_limit: usize,
}

impl RunningProgram {
    fn start(command: &mut Command, output_limit: usize) -> io::Result<Self> {
        let (exited, on_exit) = io::pipe()?;
        let mut child = command.spawn()?;
        let group = Pid::from_child(&child);
        let stdout = ProgramStream::new(child.stdout.take().map(OwnedFd::from));
        let stderr = ProgramStream::new(child.stderr.take().map(OwnedFd::from));
        let mut running =
            Self { child, group, exited, watcher: None, stdout, stderr, output_limit };
        match thread::Builder::new().spawn(move || watch_exit(group, on_exit)) {
            Ok(watcher) => running.watcher = Some(watcher),
            Err(error) => {
                running.end()?;
                return Err(error);
            }
        }
        Ok(running)
    }

    fn collect(&mut self, deadline: Instant) -> io::Result<OutputEnd> {
        loop {
            let left = deadline.saturating_duration_since(now());
            let ready = self.poll(left)?;
            if !ready.any() && left.is_zero() {
                return Ok(OutputEnd::Deadline);
            }
            self.take(ready)?;
            if self.is_full() {
                return Ok(OutputEnd::Full);
            }
            if ready.exited {
                return self.drain();
            }
        }
    }

    /// Reads the output that was written before the exit. Does not wait for the end of the pipe,
    /// because a descendant that left the group may keep it open.
    fn drain(&mut self) -> io::Result<OutputEnd> {
        self.kill();
        loop {
            let ready = self.poll(Duration::ZERO)?;
            if !ready.stdout && !ready.stderr {
                return Ok(OutputEnd::Exited);
            }
            self.take(ready)?;
            if self.is_full() {
                return Ok(OutputEnd::Full);
            }
        }
    }

    fn is_full(&self) -> bool {
        [&self.stdout, &self.stderr].iter().any(|stream| stream.bytes.len() > self.output_limit)
    }

    fn take(&mut self, ready: ReadySet) -> io::Result<()> {
        if ready.stdout {
            self.stdout.read()?;
        }
        if ready.stderr {
            self.stderr.read()?;
        }
        Ok(())
    }

    fn poll(&self, timeout: Duration) -> io::Result<ReadySet> {
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
        Ok(ReadySet { exited, stdout, stderr })
    }

    /// Kills the group and reaps the leader.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        if let Some(watcher) = self.watcher.take() {
            watcher.join().map_err(|_| io::Error::other("the waiting thread panicked"))?;
        }
        self.child.wait()
    }

    fn kill(&self) {
        // The call fails only if no process of the group is left.
        kill_process_group(self.group, Signal::KILL).ok();
    }
}

#[derive(Clone, Copy)]
struct ReadySet {
    exited: bool,
    stdout: bool,
    stderr: bool,
}

impl ReadySet {
    fn any(self) -> bool {
        self.exited || self.stdout || self.stderr
    }
}

/// One of the program's output streams.
struct ProgramStream {
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl ProgramStream {
    fn new(pipe: Option<OwnedFd>) -> Self {
        Self { pipe: pipe.map(File::from), bytes: Vec::new() }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; 8 * 1024];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
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

#[expect(clippy::disallowed_methods, reason = "measures the time limit of a program")]
fn now() -> Instant {
    Instant::now()
}
