//! The other end of a holder, for callers that may block: starting one, speaking with one, and looking at a
//! command's terminal through one.

pub mod viewport;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::clock::{mono_ms, timespec};
use crate::hold::{ANSWER_ALREADY, ANSWER_OK, ANSWER_TAKEN_BACK};
use crate::launch_dir::LaunchDir;
use crate::spec::HoldSpec;
use crate::wire::{Fault, MAX_REQUEST, Message, Notice, Op, Reply, Request, View};
use provost_sys::process::ProcStat;

/// The longest answer of a starting holder.
const MAX_ANSWER: usize = 64 << 10;
/// How long the answer is waited for.
const ANSWER_PATIENCE_MS: u64 = 10_000;
/// After this time it is looked whether the command has stopped its holder before it could answer.
const ANSWER_LOOK_MS: u64 = 500;

/// A holder that has taken the launch; `held.json` or `exit.json` is there.
#[derive(Debug)]
pub struct Started {
    /// The holder itself, for the caller to reap when it ends.
    pub holder: Child,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("start a holder")]
    Spawn(#[source] io::Error),
    #[error("start a launch that was started before")]
    Already,
    /// Nothing was started.
    #[error("start the command: {0}")]
    Refused(String),
    /// The command was started and is being ended again, since its start could not be recorded. The holder
    /// leaves when it could record the end.
    #[error("record the start: {reason}")]
    TakenBack { reason: String, holder: Child },
    /// Whether the command was started is to be looked up in the directory.
    #[error("hear from the holder, which ended with {0}")]
    Died(ExitStatus),
    /// Whether the command was started is to be looked up in the directory, now and later.
    #[error("hear from the holder in time")]
    Silent { holder: Child },
    #[error("speak with the holder")]
    Io(#[from] io::Error),
    #[error("understand the holder")]
    Malformed(#[from] serde_json::Error),
    #[error("speak with the holder: it closed the connection")]
    Closed,
    #[error("have the holder do this")]
    Fault(#[from] Fault),
}

/// Starts a holder over a launch directory. The command line is that of the holder's program, such as
/// `provost hold`; the directory is added to it. The spec goes through its standard input.
pub fn start(program: &[OsString], dir: &Path, spec: &HoldSpec) -> Result<Started, Error> {
    let spec = serde_json::to_vec(spec)?;
    let mut holder = spawn(program, dir).map_err(Error::Spawn)?;
    let answer = converse(&mut holder, &spec);
    match answer.as_deref() {
        Ok(ANSWER_OK) => return Ok(Started { holder }),
        Ok(text) if text.starts_with(ANSWER_TAKEN_BACK) => {
            let reason = text[ANSWER_TAKEN_BACK.len()..].to_owned();
            return Err(Error::TakenBack { reason, holder });
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return Err(Error::Silent { holder });
        }
        Ok(_) | Err(_) => {}
    }
    // It has nothing left to do but to exit.
    let status = holder.wait()?;
    Err(match answer? {
        text if text.is_empty() => Error::Died(status),
        text if text == ANSWER_ALREADY => Error::Already,
        text => Error::Refused(text),
    })
}

/// A connection to a living holder.
#[derive(Debug)]
pub struct Link {
    stream: BufReader<UnixStream>,
    next_id: u64,
    notices: VecDeque<Notice>,
    views: VecDeque<View>,
    /// The beginning of a line whose rest was not there in time.
    partial: Vec<u8>,
}

impl Link {
    /// Connects to the holder of a launch directory.
    pub fn connect(dir: &Path) -> Result<Self, Error> {
        let socket = LaunchDir::open(dir)?.connect()?;
        let stream = BufReader::new(socket);
        let (notices, views) = (VecDeque::new(), VecDeque::new());
        Ok(Self { stream, next_id: 1, notices, views, partial: Vec::new() })
    }

    /// Bounds every wait for a line; it then fails with the kind `WouldBlock`.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.stream.get_ref().set_read_timeout(Some(timeout))?)
    }

    /// Asks and waits for the answer.
    pub fn request(&mut self, op: Op) -> Result<Reply, Error> {
        let id = self.send(op)?;
        self.reply(id)
    }

    /// Asks without waiting for the answer, and gives the request's id.
    pub fn send(&mut self, op: Op) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&Request::new(id, op))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        Ok(id)
    }

    /// Waits for the answer to what was sent. Notices that come meanwhile are kept for [`Self::notice`] and
    /// views for [`Self::view`]; answers to other requests are passed over.
    pub fn reply(&mut self, id: u64) -> Result<Reply, Error> {
        loop {
            match self.message()? {
                Message::Notice(notice) => self.notices.push_back(notice),
                Message::Reply(reply) if reply.id.is_none_or(|answered| answered == id) => {
                    return settle(reply);
                }
                Message::View(view) => self.views.push_back(view),
                Message::Reply(_) => {}
            }
        }
    }

    /// Waits for the next view of the terminal; the link must be a viewport. Notices that come meanwhile are kept.
    pub fn view(&mut self) -> Result<View, Error> {
        loop {
            if let Some(view) = self.views.pop_front() {
                return Ok(view);
            }
            match self.message()? {
                Message::View(view) => self.views.push_back(view),
                Message::Notice(notice) => self.notices.push_back(notice),
                Message::Reply(_) => {}
            }
        }
    }

    /// Waits for the next notice; the link must be following.
    pub fn notice(&mut self) -> Result<Notice, Error> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Ok(notice);
            }
            if let Message::Notice(notice) = self.message()? {
                return Ok(notice);
            }
        }
    }

    /// The notices as they come, until the holder leaves.
    pub fn notices(&mut self) -> impl Iterator<Item = Result<Notice, Error>> {
        std::iter::from_fn(|| match self.notice() {
            Err(Error::Closed) => None,
            other => Some(other),
        })
    }

    fn message(&mut self) -> Result<Message, Error> {
        self.stream.by_ref().take(MAX_REQUEST as u64).read_until(b'\n', &mut self.partial)?;
        let line = std::mem::take(&mut self.partial);
        if line.last() != Some(&b'\n') {
            return Err(Error::Closed);
        }
        Ok(Message::parse(&line)?)
    }
}

impl LaunchDir {
    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.socket_path())
    }
}

fn settle(reply: Reply) -> Result<Reply, Error> {
    match reply.error {
        Some(fault) => Err(fault.into()),
        None => Ok(reply),
    }
}

/// The holder inherits no environment: it needs none, and a launch's mark in ours must not reach it.
fn spawn(program: &[OsString], dir: &Path) -> io::Result<Child> {
    let (name, args) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(args).arg(dir).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Hands over the spec and hears the answer: one line, after which the holder closes its output.
fn converse(holder: &mut Child, spec: &[u8]) -> io::Result<String> {
    let mut input = holder.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = holder.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    match input.write_all(spec) {
        // It says on its output why it did not read on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    drop(input);
    let answer = read_in_time(output, holder.id(), mono_ms() + ANSWER_PATIENCE_MS)?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Reads to the end, and fails with the kind `TimedOut` if that does not come in time or whoever writes is
/// stopped.
fn read_in_time(mut from: impl Read + AsFd, pid: u32, until: u64) -> io::Result<Vec<u8>> {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    let stopped = || matches!(ProcStat::read(pid), Ok(Some(stat)) if stat.is_stopped());
    while all.len() < MAX_ANSWER {
        let look = timespec(ANSWER_LOOK_MS);
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&look)) {
            Ok(0) if mono_ms() >= until || stopped() => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) => continue,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match from.read(&mut part)? {
            0 => break,
            count => all.extend_from_slice(&part[..count]),
        }
    }
    Ok(all)
}
