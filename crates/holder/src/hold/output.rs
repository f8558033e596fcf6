//! The command's output, which is read as it arrives and written to the journal, up to the limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{ioctl_fionbio, ioctl_fionread};

use super::masks::SecretMask;
use super::relay::RelayReceiver;
use super::terminal::CommandTerminal;
use crate::journal::{JournalChannel, JournalNote, JournalWriter, MAX_PAYLOAD, RelayNote};

/// More bytes than the kernel buffers for a terminal's output.
const TERMINAL_BUFFER: u64 = 64 << 10;

/// Both output streams of the command.
pub(super) struct CommandOutput {
    out: Option<OutputStream>,
    err: Option<OutputStream>,
    total: u64,
    limit: u64,
    reached: bool,
    buffer: Vec<u8>,
    secret_mask: SecretMask,
    /// A ping from the command's server that has not been answered yet.
    ping: Option<Vec<u8>>,
    /// Terminal output that has not been sent to the viewports yet.
    unseen: Option<Vec<u8>>,
}

/// A source of output.
enum OutputStream {
    Pipe(File),
    Terminal(&'static CommandTerminal),
    /// A connection that is not established yet.
    Connecting,
    Relay {
        receiver: RelayReceiver,
        text: Vec<u8>,
    },
}

/// The descriptors of a command's streams.
pub(super) enum CommandStreams {
    Pipes {
        out: Option<OwnedFd>,
        err: Option<OwnedFd>,
    },
    /// The command communicates through a connection, and both of its output streams go into one
    /// pipe.
    Relayed {
        both: OwnedFd,
    },
    Terminal(&'static CommandTerminal),
}

/// The result of reading a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamRead {
    /// The number of bytes read. 0 means the end of the stream.
    Progress(u64),
    Nothing,
    /// The command has printed more output than the limit allows.
    LimitReached,
}

impl CommandOutput {
    pub(super) fn new(streams: CommandStreams, limit: u64) -> Self {
        let shown = matches!(streams, CommandStreams::Terminal(_)).then(Vec::new);
        let pipe = |pipe: Option<OwnedFd>| pipe.and_then(nonblocking).map(OutputStream::Pipe);
        let (out, err) = match streams {
            CommandStreams::Pipes { out, err } => (pipe(out), pipe(err)),
            CommandStreams::Relayed { both } => (Some(OutputStream::Connecting), pipe(Some(both))),
            CommandStreams::Terminal(terminal) => (Some(OutputStream::Terminal(terminal)), None),
        };
        let buffer = vec![0; MAX_PAYLOAD];
        Self {
            out,
            err,
            total: 0,
            limit,
            reached: false,
            buffer,
            secret_mask: SecretMask::default(),
            ping: None,
            unseen: shown,
        }
    }

    /// Starts masking the given forms of secrets. Returns true if all forms were accepted.
    pub(super) fn mask(&mut self, forms: impl Iterator<Item = Vec<u8>>) -> bool {
        let mut all = true;
        for form in forms {
            all &= self.secret_mask.add(form);
        }
        all
    }

    /// Whether any form is masked.
    pub(super) fn has_masks(&self) -> bool {
        !self.secret_mask.is_empty()
    }

    /// Returns the terminal output since the last call.
    pub(super) fn take_unseen(&mut self) -> Vec<u8> {
        self.unseen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Uses the given connection, which is now established.
    pub(super) fn attach(
        &mut self,
        receiver: RelayReceiver,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<()> {
        self.out = Some(OutputStream::Relay { receiver, text: Vec::new() });
        journal.relay_note(now, &RelayNote::RelayOpen)
    }

    /// Records that the connection failed or was closed.
    pub(super) fn hang_up(
        &mut self,
        note: &RelayNote,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<()> {
        self.out = None;
        self.flush_held_back(JournalChannel::Stdout, journal, now).ok();
        // The journal preserves the order of entries, so the earlier entries are on disk if the
        // last one is.
        journal.relay_note(now, note).ok();
        journal.note(now, JournalNote::StdoutClosed)
    }

    /// Returns the open streams to poll, or none if the limit is reached.
    pub(super) fn streams(&self) -> impl Iterator<Item = (JournalChannel, BorrowedFd<'_>)> {
        let out =
            self.out.iter().filter_map(OutputStream::handle).map(|fd| (JournalChannel::Stdout, fd));
        let err =
            self.err.iter().filter_map(OutputStream::handle).map(|fd| (JournalChannel::Stderr, fd));
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

    /// Reads once from a stream. An error means that the journal could not be written, but the
    /// bytes are kept.
    pub(super) fn read(
        &mut self,
        channel: JournalChannel,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<StreamRead> {
        let allowed = self.limit.saturating_sub(self.total);
        if allowed == 0 && self.waiting(channel) > 0 {
            self.reached = true;
            return Ok(StreamRead::LimitReached);
        }
        // Once the limit is reached, no byte is available here, so a read of one byte only detects
        // the end of the stream.
        self.take(channel, allowed.max(1), journal, now)
    }

    /// Reads everything that the streams contain now, even beyond the limit. The command has
    /// exited, so the amount is bounded, and unread output would be lost. Does not wait for later
    /// writes by other processes.
    pub(super) fn drain(&mut self, journal: &mut JournalWriter, now: u64) -> io::Result<()> {
        for channel in [JournalChannel::Stdout, JournalChannel::Stderr] {
            let mut left = self.max_waiting(channel);
            while left > 0 {
                let read = match self.take(channel, left, journal, now)? {
                    StreamRead::Progress(0) | StreamRead::Nothing | StreamRead::LimitReached => {
                        break;
                    }
                    StreamRead::Progress(read) => read,
                };
                left = left.saturating_sub(read);
            }
            if self.waiting(channel) == 0 {
                self.take(channel, 1, journal, now)?;
            }
            self.flush_held_back(channel, journal, now)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        channel: JournalChannel,
        at_most: u64,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<StreamRead> {
        let stream = if channel == JournalChannel::Stdout { &mut self.out } else { &mut self.err };
        let Some(open) = stream else { return Ok(StreamRead::Nothing) };
        let at_most = usize::try_from(at_most).unwrap_or(MAX_PAYLOAD).min(open.max_read());
        match open.read(&mut self.buffer[..at_most]) {
            Ok(0) => self.end(channel, "the server ended the connection".into(), journal, now)?,
            Ok(read) => {
                self.journal_read(channel, read, journal, now)?;
                return Ok(StreamRead::Progress(read as u64));
            }
            Err(error) if is_transient(&error) => return Ok(StreamRead::Nothing),
            // A stream that cannot be read has ended. A terminal reports an error if its other end
            // is closed.
            Err(error) => {
                self.end(channel, format!("the connection broke: {error}"), journal, now)?
            }
        }
        Ok(StreamRead::Progress(0))
    }

    /// Writes the bytes that were read to the journal.
    fn journal_read(
        &mut self,
        channel: JournalChannel,
        read: usize,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<()> {
        let bytes = &self.buffer[..read];
        let relay = if channel == JournalChannel::Stdout { self.out.as_mut() } else { None };
        let Some(OutputStream::Relay { receiver, text }) = relay else {
            self.total += read as u64;
            let masked = self.secret_mask.take(channel, bytes);
            if let Some(shown) = &mut self.unseen {
                shown.extend_from_slice(&masked);
            }
            return append(channel, &masked, journal, now);
        };
        text.clear();
        let heard = receiver.decode(bytes, text);
        self.total += text.len() as u64;
        self.ping = heard.ping.or(self.ping.take());
        // The journal keeps refused bytes in their order, so the last result covers all of them.
        let mut kept = Ok(());
        if !text.is_empty() {
            kept = append(channel, &self.secret_mask.take(channel, text), journal, now);
        }
        if let Some(len) = heard.binary {
            kept = journal.relay_note(now, &RelayNote::RelayBinary { len });
        }
        match heard.closed {
            Some(why) => self.hang_up(&RelayNote::RelayClosed { why }, journal, now),
            None => kept,
        }
    }

    fn end(
        &mut self,
        channel: JournalChannel,
        why: String,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<()> {
        // The journal preserves the order, so the next result covers this one too.
        self.flush_held_back(channel, journal, now).ok();
        if channel == JournalChannel::Stderr {
            self.err = None;
            return journal.note(now, JournalNote::StderrClosed);
        }
        match self.out.take() {
            Some(OutputStream::Relay { .. }) => {
                self.hang_up(&RelayNote::RelayClosed { why }, journal, now)
            }
            Some(OutputStream::Pipe(_) | OutputStream::Terminal(_) | OutputStream::Connecting)
            | None => journal.note(now, JournalNote::StdoutClosed),
        }
    }

    /// Writes the bytes held back for a stream that has ended or is no longer read.
    fn flush_held_back(
        &mut self,
        channel: JournalChannel,
        journal: &mut JournalWriter,
        now: u64,
    ) -> io::Result<()> {
        let masked = self.secret_mask.finish(channel);
        if let Some(shown) = &mut self.unseen {
            shown.extend_from_slice(&masked);
        }
        append(channel, &masked, journal, now)
    }

    /// Returns the maximum number of bytes that a stream may contain. A terminal reports only the
    /// bytes that are ready to be read, not the bytes that are queued behind them.
    fn max_waiting(&self, channel: JournalChannel) -> u64 {
        match (&self.out, channel) {
            (Some(OutputStream::Terminal(_)), JournalChannel::Stdout) => TERMINAL_BUFFER,
            _ => self.waiting(channel),
        }
    }

    fn waiting(&self, channel: JournalChannel) -> u64 {
        let stream = if channel == JournalChannel::Stdout { &self.out } else { &self.err };
        let handle = stream.as_ref().and_then(OutputStream::handle);
        handle.and_then(|fd| ioctl_fionread(fd).ok()).unwrap_or(0)
    }
}

impl OutputStream {
    fn handle(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pipe(pipe) => Some(pipe.as_fd()),
            Self::Terminal(terminal) => Some(terminal.as_fd()),
            Self::Relay { receiver, .. } => Some(receiver.as_fd()),
            Self::Connecting => None,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(buffer),
            Self::Terminal(terminal) => terminal.read(buffer),
            Self::Relay { receiver, .. } => receiver.read(buffer),
            Self::Connecting => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns the maximum number of bytes to read in one call, so that they fit into one journal
    /// frame. The end of a message adds a byte to its line. For earlier messages, the removal of
    /// their headers compensates for these bytes.
    fn max_read(&self) -> usize {
        match self {
            Self::Pipe(_) | Self::Terminal(_) | Self::Connecting => MAX_PAYLOAD,
            Self::Relay { .. } => MAX_PAYLOAD - 1,
        }
    }
}

/// Appends bytes to the journal, in several frames if necessary: together with bytes that were held
/// back, a read can be longer than a frame. The result of the last frame applies to all of them.
fn append(
    channel: JournalChannel,
    bytes: &[u8],
    journal: &mut JournalWriter,
    now: u64,
) -> io::Result<()> {
    let mut kept = Ok(());
    for chunk in bytes.chunks(MAX_PAYLOAD) {
        kept = journal.append(channel, now, chunk);
    }
    kept
}

/// Makes the holder's end of a pipe non-blocking. The command's end is a separate descriptor and
/// keeps its mode.
pub(super) fn nonblocking(pipe: OwnedFd) -> Option<File> {
    ioctl_fionbio(&pipe, true).ok()?;
    Some(pipe.into())
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
