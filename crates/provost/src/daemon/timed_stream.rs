//! Connections with limits: a peer that reads nothing is cut off, and one process holds only so many connections.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    time::Sleep,
};

/// How long a peer may leave its answer unread before its connection is closed.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// How many connections one process may hold.
const PER_PROCESS: usize = 256;

/// How many connections there may be at all.
const AT_ONCE: usize = 4_096;

/// The connections that are open, by the process that made them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    open: Arc<Mutex<BTreeMap<i32, usize>>>,
}

/// One open connection of a process, counted until it is dropped.
#[derive(Debug)]
struct Counted {
    connections: Connections,
    pid: i32,
}

impl Connections {
    /// Takes a connection, unless its process or all of them together hold too many.
    pub(crate) fn take(&self, stream: UnixStream) -> Option<TimedStream> {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).unwrap_or(0);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, all) = (open.get(&pid).copied().unwrap_or(0), open.values().sum::<usize>());
        if own >= PER_PROCESS || all >= AT_ONCE {
            return None;
        }
        open.insert(pid, own + 1);
        let counted = Counted { connections: self.clone(), pid };
        Some(TimedStream { inner: stream, limit: UNREAD_LIMIT, waiting: None, _counted: counted })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.pid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.pid)),
        }
    }
}

/// A connection whose writes fail if the peer reads nothing for [`UNREAD_LIMIT`].
#[derive(Debug)]
pub(crate) struct TimedStream {
    inner: UnixStream,
    limit: Duration,
    /// Set while a write waits for the peer.
    waiting: Option<Pin<Box<Sleep>>>,
    _counted: Counted,
}

impl TimedStream {
    /// The connection itself, to ask who is at its other end.
    pub(crate) fn get_ref(&self) -> &UnixStream {
        &self.inner
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
            assert!(connections.open.lock().unwrap().is_empty());
        });
    }
}
