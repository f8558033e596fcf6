//! The command's input: keyed writes, each once, queued so that a command that does not read never
//! blocks the holder.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use super::output::{is_transient, nonblocking};
use crate::journal::Envelope;
use crate::spec::MAX_KEY;
use crate::wire::FaultCode;

/// Bytes that may wait for the command to read them.
pub(super) const MAX_QUEUE: usize = 1 << 20;
/// Keys of finished writes that are remembered.
const MAX_KEYS: usize = 4096;
/// Requests that may wait for one and the same write.
const MAX_WAITERS: usize = 64;

/// The write end of the command's standard input.
pub(super) struct Input {
    pipe: Option<File>,
    queue: VecDeque<Item>,
    queued: usize,
    close_when_empty: bool,
    written: Keys,
}

/// One write. It is journalled when the pipe has taken all of it.
pub(super) struct Item {
    pub(super) key: String,
    pub(super) bytes: Vec<u8>,
    pub(super) secret: bool,
    pub(super) waiters: Vec<Waiter>,
    taken: usize,
}

/// Who asked: a client and the id of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) client: u64,
    pub(super) request: u64,
}

/// What became of a request to write at once.
pub(super) enum Accepted {
    /// It is answered when the write is finished.
    Queued,
    Already,
    Refused(FaultCode, &'static str),
}

/// What flushing led to.
#[derive(Default)]
pub(super) struct Flushed {
    pub(super) finished: Vec<Item>,
    /// Writes that the command can no longer read.
    pub(super) failed: Vec<Item>,
}

impl Input {
    pub(super) fn new(pipe: Option<OwnedFd>) -> Self {
        Self {
            pipe: pipe.and_then(nonblocking),
            queue: VecDeque::new(),
            queued: 0,
            close_when_empty: false,
            written: Keys::default(),
        }
    }

    /// Queues the text of the spec, which no client waits for, and the end after it.
    pub(super) fn give(&mut self, key: &str, text: &str) {
        self.push(Item::new(key.to_owned(), text.into(), false));
        self.close_when_empty = true;
    }

    pub(super) fn write(
        &mut self,
        key: String,
        bytes: Vec<u8>,
        secret: bool,
        waiter: Waiter,
    ) -> Accepted {
        if key.is_empty() || key.len() > MAX_KEY {
            return Accepted::Refused(FaultCode::BadRequest, "the key is empty or too long");
        }
        if self.written.contains(&key) {
            return Accepted::Already;
        }
        if let Some(same) = self.queue.iter_mut().find(|item| item.key == key) {
            return same.wait(waiter);
        }
        if self.pipe.is_none() || self.close_when_empty {
            return Accepted::Refused(FaultCode::StdinClosed, "the command's input is closed");
        }
        if self.queued + bytes.len() > MAX_QUEUE {
            return Accepted::Refused(
                FaultCode::Busy,
                "too much input waits for the command to read it",
            );
        }
        let mut item = Item::new(key, bytes, secret);
        item.waiters.push(waiter);
        self.push(item);
        Accepted::Queued
    }

    pub(super) fn close(&mut self) {
        self.close_when_empty = true;
        self.close_if_done();
    }

    /// The pipe to wait for, if something is queued for it.
    pub(super) fn wants_to_write(&self) -> Option<&File> {
        if self.queue.is_empty() { None } else { self.pipe.as_ref() }
    }

    /// Writes the first item as far as the pipe takes it. One at a time, so that the caller journals it
    /// before the next byte goes out.
    pub(super) fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed::default();
        let (Some(item), Some(pipe)) = (self.queue.front_mut(), &mut self.pipe) else {
            return flushed;
        };
        match item.write_to(pipe) {
            Step::Finished => flushed.finished.extend(self.pop()),
            Step::Blocked => {}
            Step::Broken => {
                self.pipe = None;
                self.queued = 0;
                flushed.failed.extend(self.queue.drain(..));
            }
        }
        self.close_if_done();
        flushed
    }

    /// Gives up what is queued: the command ended.
    pub(super) fn abandon(&mut self) -> Vec<Item> {
        self.pipe = None;
        self.queued = 0;
        self.queue.drain(..).collect()
    }

    fn push(&mut self, item: Item) {
        self.queued += item.bytes.len();
        self.queue.push_back(item);
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.queue.pop_front()?;
        self.queued -= item.bytes.len();
        self.written.insert(item.key.clone());
        Some(item)
    }

    fn close_if_done(&mut self) {
        if self.close_when_empty && self.queue.is_empty() {
            self.pipe = None;
        }
    }
}

enum Step {
    Finished,
    Blocked,
    Broken,
}

impl Item {
    fn new(key: String, bytes: Vec<u8>, secret: bool) -> Self {
        Self { key, bytes, secret, waiters: Vec::new(), taken: 0 }
    }

    pub(super) fn envelope(&self, keep: bool) -> Envelope {
        let kept = keep && !self.secret;
        Envelope { key: self.key.clone(), len: self.bytes.len() as u64, secret: self.secret, kept }
    }

    fn wait(&mut self, waiter: Waiter) -> Accepted {
        if self.waiters.len() >= MAX_WAITERS {
            return Accepted::Refused(FaultCode::Busy, "too many requests wait for this write");
        }
        self.waiters.push(waiter);
        Accepted::Queued
    }

    fn write_to(&mut self, pipe: &mut File) -> Step {
        while self.taken < self.bytes.len() {
            match pipe.write(&self.bytes[self.taken..]) {
                Ok(taken) => self.taken += taken,
                Err(error) if is_transient(&error) => return Step::Blocked,
                Err(_) => return Step::Broken,
            }
        }
        Step::Finished
    }
}

/// The most recent keys.
#[derive(Default)]
struct Keys {
    known: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Keys {
    fn contains(&self, key: &str) -> bool {
        self.known.contains(key)
    }

    fn insert(&mut self, key: String) {
        if self.order.len() == MAX_KEYS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(key.clone());
        self.order.push_back(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> (Input, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        (Input::new(Some(writer)), reader)
    }

    fn write(input: &mut Input, key: &str, bytes: &[u8]) -> Accepted {
        input.write(key.into(), bytes.to_vec(), false, Waiter { client: 1, request: 1 })
    }

    #[test]
    fn the_oldest_key_is_forgotten_at_the_bound_and_not_before() {
        let (mut input, _reader) = input();
        for at in 0..MAX_KEYS {
            assert!(matches!(write(&mut input, &at.to_string(), b""), Accepted::Queued));
            assert_eq!(input.flush().finished.len(), 1);
        }
        assert!(matches!(write(&mut input, "0", b""), Accepted::Already));
        write(&mut input, "one more", b"");
        input.flush();
        assert!(matches!(write(&mut input, "1", b""), Accepted::Already));
        assert!(matches!(write(&mut input, "0", b""), Accepted::Queued));
    }

    #[test]
    fn the_queue_is_bounded_and_a_reader_that_left_fails_the_rest() {
        let (mut input, reader) = input();
        assert!(matches!(write(&mut input, "a", &vec![0; MAX_QUEUE]), Accepted::Queued));
        assert!(matches!(write(&mut input, "b", b"x"), Accepted::Refused(FaultCode::Busy, _)));
        assert!(input.flush().finished.is_empty(), "a pipe does not take a mebibyte");
        assert!(
            matches!(write(&mut input, "a", b""), Accepted::Queued),
            "it waits for the same write"
        );
        drop(reader);
        let failed = input.flush().failed;
        assert_eq!(failed[0].waiters.len(), 2);
        assert!(matches!(
            write(&mut input, "a", b""),
            Accepted::Refused(FaultCode::StdinClosed, _)
        ));
    }

    #[test]
    fn closing_waits_for_what_was_queued() {
        let (mut input, _reader) = input();
        write(&mut input, "a", b"x");
        input.close();
        assert!(matches!(
            write(&mut input, "b", b"x"),
            Accepted::Refused(FaultCode::StdinClosed, _)
        ));
        assert!(input.pipe.is_some());
        assert_eq!(input.flush().finished.len(), 1);
        assert!(input.pipe.is_none());
    }
}
