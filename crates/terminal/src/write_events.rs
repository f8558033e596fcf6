//! Detects writes to a terminal that another program reads. The kernel reports a write to the
//! terminal's file, so nothing has to be read, attached or changed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// A kernel queue that watches any number of terminals. Its descriptor can be polled.
#[derive(Debug)]
pub struct WriteQueue {
    inotify: OwnedFd,
}

/// Identifies a terminal in the queue until a write to it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteTicket(i32);

impl WriteQueue {
    pub fn new() -> io::Result<Self> {
        Ok(Self { inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? })
    }

    /// Requests a report of the next write to a terminal. Only one write is reported, because a
    /// spinner would otherwise wake the daemon dozens of times a second. A repeated request for the
    /// same terminal returns the same ticket.
    pub fn watch_next_write(&self, terminal: &Path) -> io::Result<WriteTicket> {
        let flags = WatchFlags::MODIFY | WatchFlags::ONESHOT;
        Ok(WriteTicket(inotify::add_watch(&self.inotify, terminal, flags)?))
    }

    /// Returns the tickets of terminals that were written to or closed. If the queue is empty,
    /// returns the kernel's `EAGAIN` error.
    pub fn take_tickets(&self) -> io::Result<Vec<WriteTicket>> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut space);
        let mut found = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => found.push(WriteTicket(event.wd())),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !found.is_empty() => {
                    found.dedup();
                    return Ok(found);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsRawFd for WriteQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }
}

impl AsFd for WriteQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
