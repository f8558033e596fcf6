//! Connections with limits. A peer that does not read its response is disconnected, the number of
//! connections per process is limited, and when file descriptors run out, connections that have not
//! sent a request are closed first.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
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
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::server::{ApiCaller, PeerConnection};

/// How long a peer may leave its response unread before its connection is closed.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// The maximum number of connections per process.
const MAX_PER_PROCESS: usize = 256;

/// The maximum number of connections. If half of the process's file descriptor limit is less than this number, that
/// half is the limit.
pub(crate) const MAX_CONNECTIONS: usize = 4_096;

/// How long a peer may take to send its first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of connections that have not sent a request is limited to the file descriptor limit
/// divided by this, but at least [`MIN_SILENT`] and at most [`MAX_SILENT`].
const SILENT_DIVISOR: u64 = 16;
const MIN_SILENT: usize = 8;
const MAX_SILENT: usize = 512;

/// The open connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    open: Arc<Mutex<OpenConnections>>,
    /// The maximum number of connections.
    limit: usize,
    /// Notified when a connection is closed.
    closed: Arc<Notify>,
}

impl Default for Connections {
    fn default() -> Connections {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit =
            usize::try_from(descriptors / 2).unwrap_or(MAX_CONNECTIONS).min(MAX_CONNECTIONS);
        Connections { open: Arc::default(), limit, closed: Arc::default() }
    }
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// The number of connections from each process.
    by_process: BTreeMap<i32, usize>,
    /// Connections that have not sent a request, oldest first.
    silent: VecDeque<Weak<ConnectionGate>>,
}

/// Whether a connection has sent a request, and whether it must be closed.
#[derive(Debug, Default)]
pub(crate) struct ConnectionGate {
    requested: AtomicBool,
    closed: CancellationToken,
}

impl ConnectionGate {
    /// Records that a complete request has arrived. From then on, the server does not close the
    /// connection on its own initiative.
    pub(crate) fn mark_requested(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    fn has_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

impl OpenConnections {
    /// Removes connections that are closed or have sent a request.
    fn prune(&mut self) {
        self.silent.retain(|gate| gate.upgrade().is_some_and(|gate| !gate.has_requested()));
    }

    fn close_oldest(&mut self) -> bool {
        let oldest = self.silent.pop_front().and_then(|gate| gate.upgrade());
        if let Some(gate) = &oldest {
            gate.closed.cancel();
        }
        oldest.is_some()
    }
}

/// An open connection from a process, which is counted until it is dropped.
#[derive(Debug)]
struct ConnectionSlot {
    connections: Connections,
    pid: i32,
}

impl Connections {
    /// Waits until another connection is allowed. In the meantime, connections of a launch that
    /// exceeds its limit are closed.
    pub(crate) async fn wait_for_slot(&self) {
        loop {
            // Register for the notification before the check, so that no connection closed in between is missed.
            let closed = self.closed.notified();
            if self.lock().by_process.values().sum::<usize>() < self.limit {
                return;
            }
            closed.await;
        }
    }

    /// Accepts a connection, unless its process already has too many.
    pub(crate) fn accept(&self, stream: UnixStream) -> Option<TimedStream> {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).unwrap_or(0);
        let mut open = self.lock();
        let own = open.by_process.get(&pid).copied().unwrap_or(0);
        if own >= MAX_PER_PROCESS {
            return None;
        }
        open.by_process.insert(pid, own + 1);
        let gate = Arc::new(ConnectionGate::default());
        open.prune();
        open.silent.push_back(Arc::downgrade(&gate));
        while open.silent.len() > max_silent() && open.close_oldest() {}
        drop(open);
        let counted = ConnectionSlot { connections: self.clone(), pid };
        Some(TimedStream {
            peer: PeerConnection::pin(&stream, Arc::clone(&gate)),
            inner: stream,
            limit: unread_limit(),
            waiting: None,
            closed: Box::pin(gate.closed.clone().cancelled_owned()),
            late: Box::pin(tokio::time::sleep(FIRST_REQUEST_TIMEOUT)),
            gate,
            _counted: counted,
        })
    }

    /// Closes the oldest connection that has not sent a request. Returns whether there was one.
    pub(crate) fn close_oldest_idle(&self) -> bool {
        let mut open = self.lock();
        open.prune();
        open.close_oldest()
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(not(feature = "failpoints"))]
fn unread_limit() -> Duration {
    UNREAD_LIMIT
}

/// Returns [`UNREAD_LIMIT`], or a shorter time in tests.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's switch")]
fn unread_limit() -> Duration {
    let set = std::env::var("PROVOST_UNREAD_MS").ok().and_then(|text| text.parse().ok());
    set.map_or(UNREAD_LIMIT, Duration::from_millis)
}

/// The maximum number of open connections that have not sent a request.
fn max_silent() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / SILENT_DIVISOR).unwrap_or(MAX_SILENT).clamp(MIN_SILENT, MAX_SILENT)
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        match open.by_process.get_mut(&self.pid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.by_process.remove(&self.pid)),
        }
        drop(open);
        self.connections.closed.notify_one();
    }
}

/// A connection that was just accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) caller: ApiCaller,
    socket: OwnedFd,
}

impl AcceptedConnection {
    /// Closes the connection.
    pub(crate) fn close(self) {
        // Ignore the error, because the peer may have closed the connection already.
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).ok();
    }
}

/// A connection whose writes fail if the peer does not read anything for [`UNREAD_LIMIT`].
#[derive(Debug)]
pub(crate) struct TimedStream {
    inner: UnixStream,
    peer: PeerConnection,
    limit: Duration,
    /// Set while a write is waiting for the peer.
    waiting: Option<Pin<Box<Sleep>>>,
    gate: Arc<ConnectionGate>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Expires if the first request does not arrive in time.
    late: Pin<Box<Sleep>>,
    _counted: ConnectionSlot,
}

impl TimedStream {
    /// Returns the process at the other end of the connection.
    pub(crate) fn peer(&self) -> &PeerConnection {
        &self.peer
    }

    /// Returns a handle for charging the connection to an account. `None` if the connection will be
    /// rejected, or if no file descriptor is left.
    pub(crate) fn to_accepted(&self) -> Option<AcceptedConnection> {
        let caller = self.peer.pinned_caller()?.clone();
        let socket = self.inner.as_fd().try_clone_to_owned().ok()?;
        Some(AcceptedConnection { caller, socket })
    }

    /// Whether to close this connection, because it has not sent a request.
    fn must_close(&mut self, context: &mut Context<'_>) -> bool {
        !self.gate.has_requested()
            && (self.closed.as_mut().poll(context).is_ready()
                || self.late.as_mut().poll(context).is_ready())
    }

    /// Makes a write fail if it has waited too long.
    fn enforce_write_limit<T>(
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
        if self.must_close(context) {
            // To the server, this looks as if the peer had closed the connection.
            return Poll::Ready(Ok(()));
        }
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
        self.enforce_write_limit(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.enforce_write_limit(context, written)
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
            let mut timed = Connections::default().accept(ours).unwrap();
            timed.limit = Duration::from_millis(50);
            let error = timed.write_all(&vec![0; 4 << 20]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            drop(theirs);
        });
    }

    #[test]
    fn silent_connection_can_be_shed() {
        use tokio::io::AsyncReadExt;
        runtime().block_on(async {
            let connections = Connections::default();
            let (ours, _asking) = UnixStream::pair().unwrap();
            let asked = connections.accept(ours).unwrap();
            asked.gate.mark_requested();
            let (ours, _silent) = UnixStream::pair().unwrap();
            let mut silent = connections.accept(ours).unwrap();
            assert!(connections.close_oldest_idle());
            assert_eq!(silent.read(&mut [0; 8]).await.unwrap(), 0);
            assert!(!connections.close_oldest_idle(), "the other connection has sent a request");
            drop(asked);
        });
    }

    #[test]
    fn connections_of_one_process_are_counted() {
        runtime().block_on(async {
            let connections = Connections::default();
            let mut open = Vec::new();
            for _ in 0..MAX_PER_PROCESS {
                let (ours, theirs) = UnixStream::pair().unwrap();
                open.push((connections.accept(ours).unwrap(), theirs));
            }
            let (ours, _theirs) = UnixStream::pair().unwrap();
            assert!(connections.accept(ours).is_none());
            open.pop();
            let (ours, _theirs) = UnixStream::pair().unwrap();
            assert!(connections.accept(ours).is_some());
            drop(open);
            let full = Connections { limit: 1, ..Connections::default() };
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let only = full.accept(ours).unwrap();
            let waiting = full.clone();
            let mut waits = tokio::task::JoinSet::new();
            waits.spawn(async move { waiting.wait_for_slot().await });
            tokio::task::yield_now().await;
            assert!(waits.try_join_next().is_none());
            drop(only);
            waits.join_next().await.unwrap().unwrap();
            assert!(connections.lock().by_process.is_empty());
        });
    }
}
