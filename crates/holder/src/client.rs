//! A blocking client for holders: starts a holder, sends it requests, and shows a command's
//! terminal.

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
use crate::wire::{
    HolderFault, HolderMessage, HolderNotice, HolderOp, HolderReply, HolderRequest, MAX_REQUEST,
    TerminalView,
};
use provost_sys::stat::ProcStat;

/// The maximum length of a starting holder's response.
const MAX_ANSWER: usize = 64 << 10;
/// The time to wait for a starting holder's response.
const ANSWER_TIMEOUT_MS: u64 = 10_000;
/// The time to wait for a response before checking whether the command has suspended its own
/// holder.
const STOPPED_CHECK_MS: u64 = 500;

/// A holder that took the launch. The launch directory contains `held.json` or `exit.json`.
#[derive(Debug)]
pub struct StartedHolder {
    /// The holder process, which the caller must reap.
    pub holder: Child,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start a holder")]
    Spawn(#[source] io::Error),
    #[error("the launch was already started")]
    AlreadyTaken,
    /// The command was not started.
    #[error("could not start the command: {0}")]
    Refused(String),
    /// The command was started, but its start could not be recorded, so it is being terminated. The
    /// holder exits once it has recorded the command's end.
    #[error("could not record the start: {reason}")]
    StartUndone { reason: String, holder: Child },
    /// Only the directory shows whether the command was started.
    #[error("the holder exited with {0} before it responded")]
    Died(ExitStatus),
    /// Only the directory shows whether the command was started, or is about to be started.
    #[error("the holder did not respond in time")]
    AnswerTimeout { holder: Child },
    #[error("could not communicate with the holder")]
    Io(#[from] io::Error),
    #[error("could not parse the holder's message")]
    Malformed(#[from] serde_json::Error),
    #[error("the holder closed the connection")]
    Closed,
    #[error("the holder rejected the request")]
    Fault(#[from] HolderFault),
}

/// Starts a holder for a launch directory. `program` is the holder's command line, such as `provost
/// hold`; the directory is appended to it. The spec is written to the holder's standard input.
pub fn start(program: &[OsString], dir: &Path, spec: &HoldSpec) -> Result<StartedHolder, Error> {
    let spec = serde_json::to_vec(spec)?;
    let mut holder = spawn(program, dir).map_err(Error::Spawn)?;
    let answer = exchange_spec(&mut holder, &spec);
    match answer.as_deref() {
        Ok(ANSWER_OK) => return Ok(StartedHolder { holder }),
        Ok(text) if text.starts_with(ANSWER_TAKEN_BACK) => {
            let reason = text[ANSWER_TAKEN_BACK.len()..].to_owned();
            return Err(Error::StartUndone { reason, holder });
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return Err(Error::AnswerTimeout { holder });
        }
        Ok(_) | Err(_) => {}
    }
    // In all remaining cases, the holder is about to exit.
    let status = holder.wait()?;
    Err(match answer? {
        text if text.is_empty() => Error::Died(status),
        text if text == ANSWER_ALREADY => Error::AlreadyTaken,
        text => Error::Refused(text),
    })
}

/// A connection to a living holder.
#[derive(Debug)]
pub struct HolderLink {
    stream: BufReader<UnixStream>,
    next_id: u64,
    notices: VecDeque<HolderNotice>,
    views: VecDeque<TerminalView>,
    /// The start of a line that had not arrived completely before the timeout.
    partial: Vec<u8>,
}

impl HolderLink {
    /// Connects to the holder of a launch directory.
    pub fn connect(dir: &Path) -> Result<Self, Error> {
        let socket = LaunchDir::open(dir)?.connect()?;
        let stream = BufReader::new(socket);
        let (notices, views) = (VecDeque::new(), VecDeque::new());
        Ok(Self { stream, next_id: 1, notices, views, partial: Vec::new() })
    }

    /// Limits the time to wait for a line. A wait that takes longer fails with `WouldBlock`.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.stream.get_ref().set_read_timeout(Some(timeout))?)
    }

    /// Sends a request and waits for the response.
    pub fn request(&mut self, op: HolderOp) -> Result<HolderReply, Error> {
        let id = self.send(op)?;
        self.reply(id)
    }

    /// Sends a request without waiting for the response. Returns the request's id.
    pub fn send(&mut self, op: HolderOp) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&HolderRequest::new(id, op))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        Ok(id)
    }

    /// Waits for the response to a request. Keeps notices and views that arrive in the meantime for
    /// [`Self::notice`] and [`Self::view`], and drops responses to other requests.
    pub fn reply(&mut self, id: u64) -> Result<HolderReply, Error> {
        loop {
            match self.message()? {
                HolderMessage::Notice(notice) => self.notices.push_back(notice),
                HolderMessage::Reply(reply) if reply.id.is_none_or(|answered| answered == id) => {
                    return reply_result(reply);
                }
                HolderMessage::View(view) => self.views.push_back(view),
                HolderMessage::Reply(_) => {}
            }
        }
    }

    /// Waits for the next view of the terminal. The link must be a viewport. Notices that arrive in
    /// the meantime are kept.
    pub fn view(&mut self) -> Result<TerminalView, Error> {
        loop {
            if let Some(view) = self.views.pop_front() {
                return Ok(view);
            }
            match self.message()? {
                HolderMessage::View(view) => self.views.push_back(view),
                HolderMessage::Notice(notice) => self.notices.push_back(notice),
                HolderMessage::Reply(_) => {}
            }
        }
    }

    /// Waits for the next notice. The link must be subscribed to notices.
    pub fn notice(&mut self) -> Result<HolderNotice, Error> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Ok(notice);
            }
            if let HolderMessage::Notice(notice) = self.message()? {
                return Ok(notice);
            }
        }
    }

    /// Iterates over notices until the holder exits.
    pub fn notices(&mut self) -> impl Iterator<Item = Result<HolderNotice, Error>> {
        std::iter::from_fn(|| match self.notice() {
            Err(Error::Closed) => None,
            other => Some(other),
        })
    }

    fn message(&mut self) -> Result<HolderMessage, Error> {
        self.stream.by_ref().take(MAX_REQUEST as u64).read_until(b'\n', &mut self.partial)?;
        let line = std::mem::take(&mut self.partial);
        if line.last() != Some(&b'\n') {
            return Err(Error::Closed);
        }
        Ok(HolderMessage::parse(&line)?)
    }
}

impl LaunchDir {
    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.socket_path())
    }
}

fn reply_result(reply: HolderReply) -> Result<HolderReply, Error> {
    match reply.error {
        Some(fault) => Err(fault.into()),
        None => Ok(reply),
    }
}

/// Starts the holder process with an empty environment. It needs no variables, and the caller's
/// launch mark must not reach it.
fn spawn(program: &[OsString], dir: &Path) -> io::Result<Child> {
    let (name, args) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(args).arg(dir).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Sends the spec and reads the response, which is one line. The holder then closes its output.
fn exchange_spec(holder: &mut Child, spec: &[u8]) -> io::Result<String> {
    let mut input = holder.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = holder.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    match input.write_all(spec) {
        // The holder's output will explain why it stopped reading.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    drop(input);
    let answer = read_with_timeout(output, holder.id(), mono_ms() + ANSWER_TIMEOUT_MS)?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Reads to the end of the stream. Fails with `TimedOut` if that takes too long or the writing
/// process is suspended.
fn read_with_timeout(mut from: impl Read + AsFd, pid: u32, until: u64) -> io::Result<Vec<u8>> {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    let stopped = || matches!(ProcStat::read(pid), Ok(Some(stat)) if stat.is_stopped());
    while all.len() < MAX_ANSWER {
        let look = timespec(STOPPED_CHECK_MS);
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
