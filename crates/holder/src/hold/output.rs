//! The command's output: read as it comes, into the journal, up to the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::io::{ioctl_fionbio, ioctl_fionread};

use crate::journal::{Channel, MAX_PAYLOAD, Note, Writer};

/// Both pipes of the command.
pub(super) struct Output {
    out: Option<File>,
    err: Option<File>,
    total: u64,
    limit: u64,
    reached: bool,
    buffer: Vec<u8>,
}

/// What reading a pipe led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read1 {
    /// Something, or the end.
    Progress,
    Nothing,
    /// There is more, and the limit does not allow it.
    LimitReached,
}

impl Output {
    pub(super) fn new(child: &mut Child, limit: u64) -> Self {
        Self {
            out: child.stdout.take().and_then(|pipe| nonblocking(pipe.into())),
            err: child.stderr.take().and_then(|pipe| nonblocking(pipe.into())),
            total: 0,
            limit,
            reached: false,
            buffer: vec![0; MAX_PAYLOAD],
        }
    }

    /// The pipes that are open, to be waited for unless the limit is reached.
    pub(super) fn pipes(&self) -> impl Iterator<Item = (Channel, &File)> {
        let out = self.out.iter().map(|pipe| (Channel::Stdout, pipe));
        out.chain(self.err.iter().map(|pipe| (Channel::Stderr, pipe)))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    pub(super) fn limit_reached(&self) -> bool {
        self.reached
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the limit, and says whether it was reached before and no longer is.
    pub(super) fn set_limit(&mut self, limit: u64) -> bool {
        self.limit = limit;
        let freed = self.reached && self.total < limit;
        self.reached &= !freed;
        freed
    }

    /// Reads once from a pipe. An error is the journal's: the bytes are kept there.
    pub(super) fn read(
        &mut self,
        channel: Channel,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<Read1> {
        let allowed = self.limit.saturating_sub(self.total);
        if allowed == 0 && self.waiting(channel) > 0 {
            self.reached = true;
            return Ok(Read1::LimitReached);
        }
        // At the limit with nothing waiting a read of one byte tells the end.
        self.take(channel, allowed.max(1), journal, now)
    }

    /// Reads what lies in the pipes now, beyond the limit too: the command ended, so this is no more than
    /// the pipes hold, and it would be lost otherwise. What others write meanwhile is not waited for.
    pub(super) fn drain(&mut self, journal: &mut Writer, now: u64) -> io::Result<()> {
        for channel in [Channel::Stdout, Channel::Stderr] {
            let mut left = self.waiting(channel);
            while left > 0 {
                let before = self.total;
                self.take(channel, left, journal, now)?;
                left = left.saturating_sub((self.total - before).max(1));
            }
            if self.waiting(channel) == 0 {
                self.take(channel, 1, journal, now)?;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        channel: Channel,
        at_most: u64,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<Read1> {
        let at_most = usize::try_from(at_most).unwrap_or(MAX_PAYLOAD).min(MAX_PAYLOAD);
        let pipe = if channel == Channel::Stdout { &mut self.out } else { &mut self.err };
        let Some(open) = pipe else { return Ok(Read1::Nothing) };
        match open.read(&mut self.buffer[..at_most]) {
            Ok(0) => {
                *pipe = None;
                journal.note(now, closed(channel))?;
            }
            Ok(read) => {
                self.total += read as u64;
                journal.append(channel, now, &self.buffer[..read])?;
            }
            Err(error) if is_transient(&error) => return Ok(Read1::Nothing),
            // A pipe that cannot be read gives no more.
            Err(_) => {
                *pipe = None;
                journal.note(now, closed(channel))?;
            }
        }
        Ok(Read1::Progress)
    }

    fn waiting(&self, channel: Channel) -> u64 {
        let pipe = if channel == Channel::Stdout { &self.out } else { &self.err };
        pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok()).unwrap_or(0)
    }
}

fn closed(channel: Channel) -> Note {
    if channel == Channel::Stdout { Note::StdoutClosed } else { Note::StderrClosed }
}

/// Makes our end of a pipe non-blocking; the command's end is another and stays as it is.
pub(super) fn nonblocking(pipe: OwnedFd) -> Option<File> {
    ioctl_fionbio(&pipe, true).ok()?;
    Some(pipe.into())
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
