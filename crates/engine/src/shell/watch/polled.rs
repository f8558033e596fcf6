//! Waiting for a descriptor of the kernel.

use std::{io, os::fd::AsRawFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Has something watched that keeps its one descriptor for its whole life.
#[expect(
    deprecated,
    reason = "the other way is unsafe code; what is given here never changes its descriptor"
)]
pub(crate) fn polled<T: AsRawFd>(with_descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(with_descriptor, Interest::READABLE)
}
