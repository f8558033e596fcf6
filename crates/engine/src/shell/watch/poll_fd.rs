//! Waits for a file descriptor.

use std::{io, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers an object for polling. The object must keep the same descriptor for its whole lifetime.
#[expect(
    deprecated,
    reason = "the alternative is unsafe code; the object here never changes its descriptor"
)]
pub(crate) fn poll_fd<T: AsRawFd>(with_descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(with_descriptor, Interest::READABLE)
}
