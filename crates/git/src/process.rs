//! Runs one process to completion, with limits on time and output.
//!
//! The process leads its own group. The group is signalled before its leader is reaped, so its id
//! cannot have been reused. No process that git started in its group outlives the call. If the
//! calling process is killed, the kernel terminates git.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use provost_sys::process::end_with_thread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::confine::AllowedPrograms;
use crate::special_files::SpecialFileSearch;

/// The time that a process has after SIGTERM to clean up (for example, its lock files) before it is
/// killed.
const GRACE: Duration = Duration::from_secs(2);

/// The time for which a call runs before its files are searched for a file that blocks git. The
/// time doubles after each search.
const FIRST_SEARCH: Duration = Duration::from_millis(500);

/// The maximum number of bytes kept from the end of standard error.
const STDERR_KEPT: usize = 64 * 1024;

/// The resource limits of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    pub(crate) time: Duration,
    pub(crate) stdout: usize,
}

/// The way a process ended.
#[derive(Debug, Clone)]
pub(crate) enum RunEnd {
    Exited(ExitStatus),
    TimedOut,
    /// The process was ended because this file, which is a pipe or a device, blocks it.
    Blocked(PathBuf),
    TooMuchOutput,
}

/// The result of a process that has exited.
#[derive(Debug)]
pub(crate) struct FinishedProcess {
    pub(crate) end: RunEnd,
    pub(crate) stdout: Vec<u8>,
    /// The last part of the process's standard error.
    pub(crate) stderr: Vec<u8>,
}

/// Runs the command until it exits, exceeds a limit or blocks. Afterwards, no process of its group
/// is left. If `programs` is given, the command can execute only those programs.
pub(crate) fn run(
    mut command: Command,
    limits: ProcessLimits,
    programs: Option<AllowedPrograms>,
    search: &SpecialFileSearch,
) -> io::Result<FinishedProcess> {
    let (exited, on_exit) = io::pipe()?;
    let started = now();
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_thread(&mut command);
    let mut running = RunningProcess::start(ProcessStart { command, programs, on_exit }, exited)?;
    let stop = running.collect(started, limits, search);
    let status = running.finish(!matches!(stop, Ok(CollectEnd::Exited)))?;
    let end = match stop? {
        CollectEnd::Exited => RunEnd::Exited(status),
        CollectEnd::Deadline => RunEnd::TimedOut,
        CollectEnd::Full => RunEnd::TooMuchOutput,
        CollectEnd::Blocked(path) => RunEnd::Blocked(path),
    };
    Ok(FinishedProcess { end, stdout: running.stdout.bytes, stderr: running.stderr.bytes })
}

/// The reason why collecting output stopped.
enum CollectEnd {
    Exited,
    Deadline,
    Full,
    Blocked(PathBuf),
}

struct RunningProcess {
    child: Child,
    group: Pid,
    /// A pipe that is closed after the child has exited but before it is reaped.
    exited: PipeReader,
    watcher: Option<JoinHandle<()>>,
    stdout: OutputPipe,
    stderr: OutputPipe,
}

impl RunningProcess {
    fn start(start: ProcessStart, exited: PipeReader) -> io::Result<Self> {
        let (started, on_start) = mpsc::sync_channel(1);
        let watcher = thread::Builder::new().spawn(move || start.run(&started))?;
        let broke = |_| io::Error::other("the thread that starts git panicked");
        let mut child = on_start.recv().map_err(broke)??;
        let group = Pid::from_child(&child);
        let stdout = OutputPipe::new(child.stdout.take().map(OwnedFd::from));
        let stderr = OutputPipe::new(child.stderr.take().map(OwnedFd::from));
        Ok(Self { child, group, exited, watcher: Some(watcher), stdout, stderr })
    }

    fn collect(
        &mut self,
        started: Instant,
        limits: ProcessLimits,
        search: &SpecialFileSearch,
    ) -> io::Result<CollectEnd> {
        let (deadline, limit) = (started + limits.time, limits.stdout);
        let mut pause = FIRST_SEARCH;
        let mut search_at = started + pause;
        loop {
            let wake_at = deadline.min(search_at);
            let ready = self.poll(wake_at.saturating_duration_since(now()))?;
            if !ready.any() && now() >= deadline {
                return Ok(CollectEnd::Deadline);
            }
            if !ready.any() && now() >= search_at {
                if let Some(path) = search.find() {
                    return Ok(CollectEnd::Blocked(path));
                }
                pause *= 2;
                search_at = now() + pause;
            }
            self.take(ready)?;
            if self.stdout.bytes.len() > limit {
                return Ok(CollectEnd::Full);
            }
            if ready.exited {
                return self.drain(limit);
            }
        }
    }

    /// Reads the output that the process wrote before it exited. Does not wait for the end of the
    /// pipe, because a descendant that left the group may hold it open.
    fn drain(&mut self, limit: usize) -> io::Result<CollectEnd> {
        self.signal(Signal::KILL);
        loop {
            let ready = self.poll(Duration::ZERO)?;
            if !ready.stdout && !ready.stderr {
                return Ok(CollectEnd::Exited);
            }
            self.take(ready)?;
            if self.stdout.bytes.len() > limit {
                return Ok(CollectEnd::Full);
            }
        }
    }

    fn take(&mut self, ready: ReadyStreams) -> io::Result<()> {
        if ready.stdout {
            self.stdout.read()?;
        }
        if ready.stderr {
            self.stderr.read()?;
            self.stderr.keep_last(STDERR_KEPT);
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

    /// Terminates the group if `end_it` is set, then reaps the leader.
    fn finish(&mut self, end_it: bool) -> io::Result<ExitStatus> {
        if end_it {
            self.signal(Signal::TERM);
            wait_for(&mut [PollFd::new(&self.exited, PollFlags::IN)], GRACE)?;
        }
        self.signal(Signal::KILL);
        if let Some(watcher) = self.watcher.take() {
            watcher
                .join()
                .map_err(|_| io::Error::other("the thread that waits for git panicked"))?;
        }
        self.child.wait()
    }

    fn signal(&self, signal: Signal) {
        // The call fails only if every process has already exited.
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

/// One of the process's output streams.
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

/// A process to start in a separate thread, because a limit on programs applies to the thread and
/// its children. The thread lives as long as the process, and the process ends if the thread ends.
struct ProcessStart {
    command: Command,
    programs: Option<AllowedPrograms>,
    on_exit: PipeWriter,
}

impl ProcessStart {
    /// Starts the process, sends it to the caller and waits until it exits.
    fn run(mut self, started: &SyncSender<io::Result<Child>>) {
        let confined = self.programs.as_ref().map_or(Ok(()), AllowedPrograms::confine_thread);
        let child = confined.and_then(|()| self.command.spawn());
        let pid = child.as_ref().ok().map(Pid::from_child);
        // Only the child may keep the command's pipes open.
        drop(self.command);
        if started.send(child).is_ok()
            && let Some(pid) = pid
        {
            watch_exit(pid, self.on_exit);
        }
    }
}

/// Holds the pipe open until the process has exited, without reaping it.
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

#[expect(clippy::disallowed_methods, reason = "the time limit of a process is measured here")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
