//! The command's output: read as it arrives and written to the journal, up to the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{ioctl_fionbio, ioctl_fionread};

use super::masks::Veil;
use super::relay::Receiver;
use super::terminal::Terminal;
use crate::journal::{Channel, MAX_PAYLOAD, Note, RelayNote, Writer};

/// More than the kernel buffers of a terminal's output.
const TERMINAL_HOLDS: u64 = 64 << 10;

/// Both streams of the command.
pub(super) struct Output {
    out: Option<Stream>,
    err: Option<Stream>,
    total: u64,
    limit: u64,
    reached: bool,
    buffer: Vec<u8>,
    veil: Veil,
    /// A ping from the command's server that is not answered yet.
    ping: Option<Vec<u8>>,
    /// Terminal output that the viewports have not been sent yet.
    shown: Option<Vec<u8>>,
}

/// A source of output.
enum Stream {
    Pipe(File),
    Terminal(&'static Terminal),
    /// A connection that is not established yet.
    Awaited,
    Relay {
        receiver: Receiver,
        text: Vec<u8>,
    },
}

/// The descriptors of a command's streams.
pub(super) enum Streams {
    Pipes {
        out: Option<OwnedFd>,
        err: Option<OwnedFd>,
    },
    /// The command talks through a connection, and both its streams go into one pipe.
    Relayed {
        both: OwnedFd,
    },
    Terminal(&'static Terminal),
}

/// The result of reading a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read1 {
    /// The number of bytes read; 0 means the end.
    Progress(u64),
    Nothing,
    /// There is more output than the limit allows.
    LimitReached,
}

impl Output {
    pub(super) fn new(streams: Streams, limit: u64) -> Self {
        let shown = matches!(streams, Streams::Terminal(_)).then(Vec::new);
        let pipe = |pipe: Option<OwnedFd>| pipe.and_then(nonblocking).map(Stream::Pipe);
        let (out, err) = match streams {
            Streams::Pipes { out, err } => (pipe(out), pipe(err)),
            Streams::Relayed { both } => (Some(Stream::Awaited), pipe(Some(both))),
            Streams::Terminal(terminal) => (Some(Stream::Terminal(terminal)), None),
        };
        let buffer = vec![0; MAX_PAYLOAD];
        Self {
            out,
            err,
            total: 0,
            limit,
            reached: false,
            buffer,
            veil: Veil::default(),
            ping: None,
            shown,
        }
    }

    /// Starts masking these forms. Returns whether all were accepted.
    pub(super) fn mask(&mut self, forms: impl Iterator<Item = Vec<u8>>) -> bool {
        let mut all = true;
        for form in forms {
            all &= self.veil.add(form);
        }
        all
    }

    /// Whether any form is masked.
    pub(super) fn has_masks(&self) -> bool {
        !self.veil.is_empty()
    }

    /// The terminal output since the last call.
    pub(super) fn take_shown(&mut self) -> Vec<u8> {
        self.shown.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets the connection once it is established.
    pub(super) fn attach(
        &mut self,
        receiver: Receiver,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<()> {
        self.out = Some(Stream::Relay { receiver, text: Vec::new() });
        journal.relay_note(now, &RelayNote::RelayOpen)
    }

    /// Records that the connection failed or is over.
    pub(super) fn hang_up(
        &mut self,
        note: &RelayNote,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<()> {
        self.out = None;
        self.unveil(Channel::Stdout, journal, now).ok();
        // The journal keeps the order: if the last entry is on disk, so are the earlier ones.
        journal.relay_note(now, note).ok();
        journal.note(now, Note::StdoutClosed)
    }

    /// The open streams to poll, unless the limit is reached.
    pub(super) fn streams(&self) -> impl Iterator<Item = (Channel, BorrowedFd<'_>)> {
        let out = self.out.iter().filter_map(Stream::handle).map(|fd| (Channel::Stdout, fd));
        let err = self.err.iter().filter_map(Stream::handle).map(|fd| (Channel::Stderr, fd));
        out.chain(err)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.out.is_none() && self.err.is_none()
    }

    pub(super) fn is_stdout_closed(&self) -> bool {
        self.out.is_none()
    }

    pub(super) fn take_ping(&mut self) -> Option<Vec<u8>> {
        self.ping.take()
    }

    pub(super) fn limit_reached(&self) -> bool {
        self.reached
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the limit. Returns true if it was reached before and no longer is.
    pub(super) fn set_limit(&mut self, limit: u64) -> bool {
        self.limit = limit;
        let freed = self.reached && self.total < limit;
        self.reached &= !freed;
        freed
    }

    /// Reads once from a stream. An error comes from the journal, which still keeps the bytes.
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
        // At the limit with nothing waiting, reading one byte detects the end.
        self.take(channel, allowed.max(1), journal, now)
    }

    /// Reads everything that the streams hold now, even beyond the limit: the command has ended, so
    /// the amount is bounded, and it would be lost otherwise. Later writes of other processes are
    /// not waited for.
    pub(super) fn drain(&mut self, journal: &mut Writer, now: u64) -> io::Result<()> {
        for channel in [Channel::Stdout, Channel::Stderr] {
            let mut left = self.most_waiting(channel);
            while left > 0 {
                let read = match self.take(channel, left, journal, now)? {
                    Read1::Progress(0) | Read1::Nothing | Read1::LimitReached => break,
                    Read1::Progress(read) => read,
                };
                left = left.saturating_sub(read);
            }
            if self.waiting(channel) == 0 {
                self.take(channel, 1, journal, now)?;
            }
            self.unveil(channel, journal, now)?;
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
        let stream = if channel == Channel::Stdout { &mut self.out } else { &mut self.err };
        let Some(open) = stream else { return Ok(Read1::Nothing) };
        let at_most = usize::try_from(at_most).unwrap_or(MAX_PAYLOAD).min(open.most());
        match open.read(&mut self.buffer[..at_most]) {
            Ok(0) => self.end(channel, "the server ended the connection".into(), journal, now)?,
            Ok(read) => {
                self.keep(channel, read, journal, now)?;
                return Ok(Read1::Progress(read as u64));
            }
            Err(error) if is_transient(&error) => return Ok(Read1::Nothing),
            // A stream that cannot be read has ended. A terminal whose other end is closed reports
            // this as an error.
            Err(error) => {
                self.end(channel, format!("the connection broke: {error}"), journal, now)?
            }
        }
        Ok(Read1::Progress(0))
    }

    /// Writes the bytes read to the journal.
    fn keep(
        &mut self,
        channel: Channel,
        read: usize,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<()> {
        let bytes = &self.buffer[..read];
        let relay = if channel == Channel::Stdout { self.out.as_mut() } else { None };
        let Some(Stream::Relay { receiver, text }) = relay else {
            self.total += read as u64;
            let told = self.veil.take(channel, bytes);
            if let Some(shown) = &mut self.shown {
                shown.extend_from_slice(&told);
            }
            return append(channel, &told, journal, now);
        };
        text.clear();
        let heard = receiver.decode(bytes, text);
        self.total += text.len() as u64;
        self.ping = heard.ping.or(self.ping.take());
        // The journal keeps refused bytes in order, so the last result covers all of them.
        let mut kept = Ok(());
        if !text.is_empty() {
            kept = append(channel, &self.veil.take(channel, text), journal, now);
        }
        if let Some(len) = heard.binary {
            kept = journal.relay_note(now, &RelayNote::RelayBinary { len });
        }
        match heard.over {
            Some(why) => self.hang_up(&RelayNote::RelayClosed { why }, journal, now),
            None => kept,
        }
    }

    fn end(
        &mut self,
        channel: Channel,
        why: String,
        journal: &mut Writer,
        now: u64,
    ) -> io::Result<()> {
        // The journal keeps the order: the next result covers this one too.
        self.unveil(channel, journal, now).ok();
        if channel == Channel::Stderr {
            self.err = None;
            return journal.note(now, Note::StderrClosed);
        }
        match self.out.take() {
            Some(Stream::Relay { .. }) => {
                self.hang_up(&RelayNote::RelayClosed { why }, journal, now)
            }
            Some(Stream::Pipe(_) | Stream::Terminal(_) | Stream::Awaited) | None => {
                journal.note(now, Note::StdoutClosed)
            }
        }
    }

    /// Writes the bytes held back of a stream that has ended or is no longer read.
    fn unveil(&mut self, channel: Channel, journal: &mut Writer, now: u64) -> io::Result<()> {
        let told = self.veil.finish(channel);
        if let Some(shown) = &mut self.shown {
            shown.extend_from_slice(&told);
        }
        append(channel, &told, journal, now)
    }

    /// The most bytes a stream may hold. A terminal reports only the bytes ready to read, not those
    /// queued behind them.
    fn most_waiting(&self, channel: Channel) -> u64 {
        match (&self.out, channel) {
            (Some(Stream::Terminal(_)), Channel::Stdout) => TERMINAL_HOLDS,
            _ => self.waiting(channel),
        }
    }

    fn waiting(&self, channel: Channel) -> u64 {
        let stream = if channel == Channel::Stdout { &self.out } else { &self.err };
        let handle = stream.as_ref().and_then(Stream::handle);
        handle.and_then(|fd| ioctl_fionread(fd).ok()).unwrap_or(0)
    }
}

impl Stream {
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pipe(pipe) => Some(pipe.as_fd()),
            Self::Terminal(terminal) => Some(terminal.as_fd()),
            Self::Relay { receiver, .. } => Some(receiver.as_fd()),
            Self::Awaited => None,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(buffer),
            Self::Terminal(terminal) => terminal.read(buffer),
            Self::Relay { receiver, .. } => receiver.read(buffer),
            Self::Awaited => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The most bytes to read in one call so that they fit into one journal frame. The end of a
    /// message adds a byte to its line; for earlier messages the removed headers make up for it.
    fn most(&self) -> usize {
        match self {
            Self::Pipe(_) | Self::Terminal(_) | Self::Awaited => MAX_PAYLOAD,
            Self::Relay { .. } => MAX_PAYLOAD - 1,
        }
    }
}

/// Held-back bytes can make a read longer than a frame. The journal's last result covers all
/// frames.
fn append(channel: Channel, bytes: &[u8], journal: &mut Writer, now: u64) -> io::Result<()> {
    let mut kept = Ok(());
    for chunk in bytes.chunks(MAX_PAYLOAD) {
        kept = journal.append(channel, now, chunk);
    }
    kept
}

/// Makes our end of a pipe non-blocking; the command's end is a separate descriptor and keeps its
/// mode.
pub(super) fn nonblocking(pipe: OwnedFd) -> Option<File> {
    ioctl_fionbio(&pipe, true).ok()?;
    Some(pipe.into())
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
