//! The command's input: writes with idempotency keys, each applied once. Writes are queued, so a
//! command that does not read never blocks the holder. The input is a pipe, a terminal, or a
//! connection to a listening command, where each write is one message.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::output::{is_transient, nonblocking};
use super::relay::RelaySender;
use super::terminal::CommandTerminal;
use crate::journal::{InputEnvelope, TYPED_KEY};
use crate::wire::{HolderFaultCode, MAX_WRITE_KEY};

/// The maximum number of bytes queued for the command.
pub(super) const MAX_QUEUE: usize = 1 << 20;
/// The maximum number of keys of finished writes to remember.
const MAX_KEYS: usize = 4096;
/// The maximum number of requests that may wait for the same write.
const MAX_WAITERS: usize = 64;

/// The write end of the command's input.
pub(super) struct CommandInput {
    sink: Option<InputSink>,
    queue: VecDeque<InputItem>,
    queued: usize,
    close_when_empty: bool,
    written: WrittenKeys,
}

/// One write. It is journalled once the pipe has accepted all of it.
pub(super) struct InputItem {
    /// `None` for keys that a user typed.
    pub(super) key: Option<String>,
    pub(super) bytes: Vec<u8>,
    pub(super) secret: bool,
    pub(super) waiters: Vec<WriteWaiter>,
    taken: usize,
    /// Whether the frame was built, if the input is sent over a connection.
    framed: bool,
}

/// The target to which input is written.
enum InputSink {
    Pipe(File),
    /// A terminal, which always stays open.
    Terminal(&'static CommandTerminal),
    /// A connection that is not established yet.
    Connecting,
    Relay(RelaySender),
}

/// A waiting request, identified by its client and id.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteWaiter {
    pub(super) client: u64,
    pub(super) request: u64,
}

/// The immediate result of a write request.
pub(super) enum WriteAdmission {
    /// The request will be answered when the write has finished.
    Queued,
    AlreadyWritten,
    Refused(HolderFaultCode, &'static str),
}

/// The result of a flush.
#[derive(Default)]
pub(super) struct FlushResult {
    pub(super) finished: Vec<InputItem>,
    /// Writes that the command can no longer read.
    pub(super) failed: Vec<InputItem>,
}

impl CommandInput {
    pub(super) fn new(pipe: Option<OwnedFd>) -> Self {
        Self::with_sink(pipe.and_then(nonblocking).map(InputSink::Pipe))
    }

    pub(super) fn for_terminal(terminal: &'static CommandTerminal) -> Self {
        Self::with_sink(Some(InputSink::Terminal(terminal)))
    }

    /// Creates an input for a connection that is not established yet.
    pub(super) fn for_connection() -> Self {
        Self::with_sink(Some(InputSink::Connecting))
    }

    fn with_sink(sink: Option<InputSink>) -> Self {
        Self {
            sink,
            queue: VecDeque::new(),
            queued: 0,
            close_when_empty: false,
            written: WrittenKeys::default(),
        }
    }

    /// Uses the given connection, which is now established.
    pub(super) fn attach(&mut self, sender: RelaySender) {
        self.sink = Some(InputSink::Relay(sender));
    }

    /// Schedules the response to a server's ping.
    pub(super) fn queue_pong(&mut self, payload: Vec<u8>) {
        if let Some(InputSink::Relay(sender)) = &mut self.sink {
            sender.queue_pong(payload);
        }
    }

    /// Queues the spec's input text, followed by the end of input. No client waits for this write.
    pub(super) fn queue_text(&mut self, key: &str, text: &str) {
        self.push(InputItem::new(Some(key.to_owned()), text.into(), false));
        self.close_when_empty = true;
    }

    pub(super) fn write(
        &mut self,
        key: String,
        bytes: Vec<u8>,
        secret: bool,
        waiter: WriteWaiter,
    ) -> WriteAdmission {
        if key.is_empty() || key.len() > MAX_WRITE_KEY {
            return WriteAdmission::Refused(
                HolderFaultCode::BadRequest,
                "the key is empty or too long",
            );
        }
        let conflict = WriteAdmission::Refused(
            HolderFaultCode::Conflict,
            "different bytes were already written under this key, so nothing was written",
        );
        if let Some(written) = self.written.get(&key) {
            return if *written == digest(&bytes) {
                WriteAdmission::AlreadyWritten
            } else {
                conflict
            };
        }
        if let Some(same) = self.queue.iter_mut().find(|item| item.key.as_ref() == Some(&key)) {
            return if same.bytes == bytes { same.wait(waiter) } else { conflict };
        }
        self.queue_item(InputItem::new(Some(key), bytes, secret), waiter)
    }

    /// Queues typed keys. They have no idempotency key, so repeating the request types them again.
    pub(super) fn type_in(
        &mut self,
        bytes: Vec<u8>,
        secret: bool,
        waiter: WriteWaiter,
    ) -> WriteAdmission {
        self.queue_item(InputItem::new(None, bytes, secret), waiter)
    }

    fn queue_item(&mut self, mut item: InputItem, waiter: WriteWaiter) -> WriteAdmission {
        let sink = if self.close_when_empty { None } else { self.sink.as_ref() };
        let Some(sink) = sink else {
            return WriteAdmission::Refused(
                HolderFaultCode::StdinClosed,
                "the command's input is closed",
            );
        };
        if !sink.accepts(&item.bytes) {
            return WriteAdmission::Refused(
                HolderFaultCode::BadRequest,
                "a message to the command must be text",
            );
        }
        if self.queued + item.bytes.len() > MAX_QUEUE {
            return WriteAdmission::Refused(
                HolderFaultCode::Busy,
                "too much unread input; try again when the command has read some",
            );
        }
        item.waiters.push(waiter);
        self.push(item);
        WriteAdmission::Queued
    }

    /// Accepts no more writes, and closes a pipe once the queue is written. A connection stays open
    /// so that the command's remaining output is not lost. A terminal stays open too, because its
    /// end of input is just another key.
    pub(super) fn close(&mut self) {
        self.close_when_empty = true;
        self.close_if_done();
    }

    /// Returns the descriptor to poll for writing, if input is queued.
    pub(super) fn wants_to_write(&self) -> Option<BorrowedFd<'_>> {
        match self.sink.as_ref()? {
            InputSink::Pipe(pipe) => (!self.queue.is_empty()).then(|| pipe.as_fd()),
            InputSink::Terminal(terminal) => (!self.queue.is_empty()).then(|| terminal.as_fd()),
            InputSink::Relay(sender) => {
                (!self.queue.is_empty() || sender.is_unsent()).then(|| sender.as_fd())
            }
            InputSink::Connecting => None,
        }
    }

    /// Writes as much of the first item as the sink accepts. Handles one item per call, so that the
    /// caller can journal it before the next item is written.
    pub(super) fn flush(&mut self) -> FlushResult {
        let mut flushed = FlushResult::default();
        let Some(sink) = &mut self.sink else { return flushed };
        match sink.write(self.queue.front_mut()) {
            Ok(()) => flushed.finished.extend(self.pop()),
            Err(error) if is_transient(&error) => {}
            Err(_) => flushed.failed = self.abandon(),
        }
        self.close_if_done();
        flushed
    }

    /// Drops the queue, because the command has exited or has stopped reading.
    pub(super) fn abandon(&mut self) -> Vec<InputItem> {
        if let Some(InputSink::Relay(mut sender)) = self.sink.take() {
            sender.send_close();
        }
        self.queued = 0;
        self.queue.drain(..).collect()
    }

    fn push(&mut self, item: InputItem) {
        self.queued += item.bytes.len();
        self.queue.push_back(item);
    }

    fn pop(&mut self) -> Option<InputItem> {
        let item = self.queue.pop_front()?;
        self.queued -= item.bytes.len();
        if let Some(key) = &item.key {
            self.written.insert(key.clone(), digest(&item.bytes));
        }
        Some(item)
    }

    fn close_if_done(&mut self) {
        if self.close_when_empty && self.queue.is_empty() {
            self.sink.take_if(|sink| matches!(sink, InputSink::Pipe(_)));
        }
    }
}

impl InputSink {
    /// Whether the given bytes can be written. A message must be text, but pipes and terminals
    /// accept any bytes.
    fn accepts(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Pipe(_) | Self::Terminal(_) => true,
            Self::Connecting | Self::Relay(_) => std::str::from_utf8(bytes).is_ok(),
        }
    }

    /// Writes the whole item, or fails with `WouldBlock`.
    fn write(&mut self, item: Option<&mut InputItem>) -> io::Result<()> {
        match (self, item) {
            (Self::Pipe(pipe), Some(item)) => item.write_with(|bytes| pipe.write(bytes)),
            (Self::Terminal(end), Some(item)) => item.write_with(|bytes| end.write(bytes)),
            (Self::Pipe(_) | Self::Terminal(_), None) => Ok(()),
            (Self::Relay(sender), Some(item)) => item.send_to(sender),
            (Self::Relay(sender), None) => sender.flush(),
            (Self::Connecting, _) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl InputItem {
    fn new(key: Option<String>, bytes: Vec<u8>, secret: bool) -> Self {
        Self { key, bytes, secret, waiters: Vec::new(), taken: 0, framed: false }
    }

    pub(super) fn envelope(&self, keep: bool) -> InputEnvelope {
        InputEnvelope {
            key: self.key.clone().unwrap_or_else(|| TYPED_KEY.to_owned()),
            len: self.bytes.len() as u64,
            secret: self.secret,
            kept: keep && !self.secret,
            typed: self.key.is_none(),
        }
    }

    fn wait(&mut self, waiter: WriteWaiter) -> WriteAdmission {
        if self.waiters.len() >= MAX_WAITERS {
            return WriteAdmission::Refused(
                HolderFaultCode::Busy,
                "too many requests are waiting for this write",
            );
        }
        self.waiters.push(waiter);
        WriteAdmission::Queued
    }

    fn write_with(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while self.taken < self.bytes.len() {
            self.taken += write(&self.bytes[self.taken..])?;
        }
        Ok(())
    }

    /// Sends the line as one message, without its line ending.
    fn send_to(&mut self, sender: &mut RelaySender) -> io::Result<()> {
        sender.flush()?;
        if !self.framed {
            self.framed = true;
            sender.begin(self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes))?;
            sender.flush()?;
        }
        Ok(())
    }
}

/// Hashes written bytes, which may be secret and are therefore not kept.
fn digest(bytes: &[u8]) -> blake3::Hash {
    blake3::hash(bytes)
}

/// The most recent keys, each with the digest of the bytes written under it.
#[derive(Default)]
struct WrittenKeys {
    known: BTreeMap<String, blake3::Hash>,
    order: VecDeque<String>,
}

impl WrittenKeys {
    fn get(&self, key: &str) -> Option<&blake3::Hash> {
        self.known.get(key)
    }

    fn insert(&mut self, key: String, digest: blake3::Hash) {
        if self.order.len() == MAX_KEYS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(key.clone(), digest);
        self.order.push_back(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> (CommandInput, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (CommandInput::new(Some(writer)), reader)
    }

    fn write(input: &mut CommandInput, key: &str, bytes: &[u8]) -> WriteAdmission {
        input.write(key.into(), bytes.to_vec(), false, WriteWaiter { client: 1, request: 1 })
    }

    #[test]
    fn oldest_key_is_forgotten_at_the_limit() {
        let (mut input, _reader) = input();
        for at in 0..MAX_KEYS {
            assert!(matches!(write(&mut input, &at.to_string(), b""), WriteAdmission::Queued));
            assert_eq!(input.flush().finished.len(), 1);
        }
        assert!(matches!(write(&mut input, "0", b""), WriteAdmission::AlreadyWritten));
        write(&mut input, "one more", b"");
        input.flush();
        assert!(matches!(write(&mut input, "1", b""), WriteAdmission::AlreadyWritten));
        assert!(matches!(write(&mut input, "0", b""), WriteAdmission::Queued));
    }

    #[test]
    fn full_queue_refuses_and_lost_reader_fails_writes() {
        let (mut input, reader) = input();
        assert!(matches!(write(&mut input, "a", &vec![0; MAX_QUEUE]), WriteAdmission::Queued));
        assert!(matches!(
            write(&mut input, "b", b"x"),
            WriteAdmission::Refused(HolderFaultCode::Busy, _)
        ));
        assert!(input.flush().finished.is_empty(), "a pipe does not take a mebibyte");
        assert!(
            matches!(write(&mut input, "a", &vec![0; MAX_QUEUE]), WriteAdmission::Queued),
            "it waits for the same write"
        );
        assert!(matches!(
            write(&mut input, "a", b"x"),
            WriteAdmission::Refused(HolderFaultCode::Conflict, _)
        ));
        drop(reader);
        let failed = input.flush().failed;
        assert_eq!(failed[0].waiters.len(), 2);
        assert!(matches!(
            write(&mut input, "a", b""),
            WriteAdmission::Refused(HolderFaultCode::StdinClosed, _)
        ));
    }

    #[test]
    fn key_reused_with_other_bytes_is_a_conflict() {
        let (mut input, _reader) = input();
        write(&mut input, "a", b"x");
        assert_eq!(input.flush().finished.len(), 1);
        assert!(matches!(write(&mut input, "a", b"x"), WriteAdmission::AlreadyWritten));
        assert!(matches!(
            write(&mut input, "a", b"y"),
            WriteAdmission::Refused(HolderFaultCode::Conflict, _)
        ));
    }

    #[test]
    fn close_waits_for_queued_writes() {
        let (mut input, _reader) = input();
        write(&mut input, "a", b"x");
        input.close();
        assert!(matches!(
            write(&mut input, "b", b"x"),
            WriteAdmission::Refused(HolderFaultCode::StdinClosed, _)
        ));
        assert!(input.sink.is_some());
        assert_eq!(input.flush().finished.len(), 1);
        assert!(input.sink.is_none());
    }
}
