//! Waits for a file descriptor.

use std::{io, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers an object for polling that keeps its one descriptor for its whole life.
#[expect(
    deprecated,
    reason = "the alternative is unsafe code; the object here never changes its descriptor"
)]
pub(crate) fn poll_fd<T: AsRawFd>(with_descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(with_descriptor, Interest::READABLE)
}
