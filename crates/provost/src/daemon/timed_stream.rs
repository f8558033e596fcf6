//! Connections with limits: a peer that reads nothing is cut off, and one process holds only so many connections.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    sync::Notify,
    time::Sleep,
};

use super::server::{Caller, Connection};

/// How long a peer may leave its answer unread before its connection is closed.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// How many connections one process may hold.
const PER_PROCESS: usize = 256;

/// How many connections there may be at all, if there are twice as many descriptors.
const AT_ONCE: usize = 4_096;

/// The connections that are open, by the process that made them.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    open: Arc<Mutex<BTreeMap<i32, usize>>>,
    /// How many there may be.
    limit: usize,
    /// Told when one is closed.
    closed: Arc<Notify>,
}

impl Default for Connections {
    fn default() -> Connections {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(descriptors / 2).unwrap_or(AT_ONCE).min(AT_ONCE);
        Connections { open: Arc::default(), limit, closed: Arc::default() }
    }
}

/// One open connection of a process, counted until it is dropped.
#[derive(Debug)]
struct Counted {
    connections: Connections,
    pid: i32,
}

impl Connections {
    /// Waits until there may be one more. Those of a launch that has too many are closed meanwhile.
    pub(crate) async fn room(&self) {
        loop {
            // Before it is looked, so that what is closed in between is not missed.
            let closed = self.closed.notified();
            if self.lock().values().sum::<usize>() < self.limit {
                return;
            }
            closed.await;
        }
    }

    /// Takes a connection, unless its process holds too many.
    pub(crate) fn take(&self, stream: UnixStream) -> Option<TimedStream> {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).unwrap_or(0);
        let mut open = self.lock();
        let own = open.get(&pid).copied().unwrap_or(0);
        if own >= PER_PROCESS {
            return None;
        }
        open.insert(pid, own + 1);
        drop(open);
        let counted = Counted { connections: self.clone(), pid };
        let peer = Connection::pin(&stream);
        let (limit, waiting) = (unread_limit(), None);
        Some(TimedStream { inner: stream, peer, limit, waiting, _counted: counted })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(feature = "failpoints"))]
fn unread_limit() -> Duration {
    UNREAD_LIMIT
}

/// Tests shorten it.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's switch")]
fn unread_limit() -> Duration {
    let set = std::env::var("PROVOST_UNREAD_MS").ok().and_then(|text| text.parse().ok());
    set.map_or(UNREAD_LIMIT, Duration::from_millis)
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        match open.get_mut(&self.pid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.pid)),
        }
        drop(open);
        self.connections.closed.notify_one();
    }
}

/// A connection that was just accepted.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) caller: Caller,
    socket: OwnedFd,
}

impl Arrival {
    /// Closes the connection.
    pub(crate) fn cut_off(self) {
        // One that the peer has closed is closed.
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).ok();
    }
}

/// A connection whose writes fail if the peer reads nothing for [`UNREAD_LIMIT`].
#[derive(Debug)]
pub(crate) struct TimedStream {
    inner: UnixStream,
    peer: Connection,
    limit: Duration,
    /// Set while a write waits for the peer.
    waiting: Option<Pin<Box<Sleep>>>,
    _counted: Counted,
}

impl TimedStream {
    /// The process at the other end.
    pub(crate) fn peer(&self) -> &Connection {
        &self.peer
    }

    /// The connection, to be charged to an account. None if it is not served anyway, or there is no descriptor left.
    pub(crate) fn arrival(&self) -> Option<Arrival> {
        let caller = self.peer.pinned()?.clone();
        let socket = self.inner.as_fd().try_clone_to_owned().ok()?;
        Some(Arrival { caller, socket })
    }

    /// Ends a write that has waited too long.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        let seconds = limit.as_secs();
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the peer has read nothing for {seconds} s"),
        )))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn unread_connection_fails_at_its_limit() {
        runtime().block_on(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let mut timed = Connections::default().take(ours).unwrap();
            timed.limit = Duration::from_millis(50);
            let error = timed.write_all(&vec![0; 4 << 20]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            drop(theirs);
        });
    }

    #[test]
    fn connections_of_one_process_are_counted() {
        runtime().block_on(async {
            let connections = Connections::default();
            let mut open = Vec::new();
            for _ in 0..PER_PROCESS {
                let (ours, theirs) = UnixStream::pair().unwrap();
                open.push((connections.take(ours).unwrap(), theirs));
            }
            let (ours, _theirs) = UnixStream::pair().unwrap();
            assert!(connections.take(ours).is_none());
            open.pop();
            let (ours, _theirs) = UnixStream::pair().unwrap();
            assert!(connections.take(ours).is_some());
            drop(open);
            let full = Connections { limit: 1, ..Connections::default() };
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let only = full.take(ours).unwrap();
            let waiting = full.clone();
            let waiting = tokio::spawn(async move { waiting.room().await });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            drop(only);
            waiting.await.unwrap();
            assert!(connections.open.lock().unwrap().is_empty());
        });
    }
}
