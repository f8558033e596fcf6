//! The daemon's listener, and the socket path in the home through which clients find it.
//!
//! Only the owner of the ledger's lock may change that path. Therefore the listener is opened after
//! the lock is taken, and dropped before the lock is released. If the path is removed, inotify
//! reports this, and the socket is created again.

use std::{
    fs::{self, File},
    io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixStream as BlockingStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use provost_sys::process::descriptor_path;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::{
    net::{
        UnixListener,
        unix::{SocketAddr, pipe},
    },
    sync::mpsc,
};

use super::timed_stream::{AcceptedConnection, Connections, MAX_CONNECTIONS, TimedStream};

/// The buffer size for inotify events, in bytes. The content of the events is ignored, because every event triggers a
/// check.
const INOTIFY_BUFFER: usize = 4 << 10;

/// The number of file descriptors reserved for clients. A request needs several descriptors: for the connection, the
/// peer and the ledger.
const RESERVED_FDS: usize = 16;

/// How long to wait for a free file descriptor while all connections are busy.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);

/// The temporary name of a new socket, before it is renamed.
const TEMPORARY_NAME: &str = ".daemon.sock.new";

/// A listener that restores its socket path if necessary.
#[derive(Debug)]
pub(crate) struct DaemonListener {
    socket: PathBuf,
    listener: UnixListener,
    file_id: SocketFileId,
    /// `None` if the user's inotify limit is reached. In that case a removed path is not restored.
    watch: Option<pipe::Receiver>,
    connections: Connections,
    arrivals: Option<mpsc::Sender<AcceptedConnection>>,
    /// Reserved file descriptors. They are released when the process has no free ones left, so that
    /// commands still get replies.
    reserved: Vec<File>,
}

/// The identity of a file, independent of its name. The kernel does not reuse the inode while this
/// process is listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SocketFileId {
    device: u64,
    inode: u64,
}

impl SocketFileId {
    fn from_path(path: &Path) -> io::Result<SocketFileId> {
        let about = fs::symlink_metadata(path)?;
        Ok(SocketFileId { device: about.dev(), inode: about.ino() })
    }
}

impl DaemonListener {
    /// Binds the socket path and listens. The caller holds the ledger's lock, so no other daemon is serving the path.
    pub(crate) fn open(socket: &Path) -> io::Result<DaemonListener> {
        let watch = socket.parent().map(watch_dir).and_then(Result::ok);
        if BlockingStream::connect(socket).is_ok() {
            return Err(io::Error::other("another process answers on the socket"));
        }
        let (listener, own) = bind(socket)?;
        let connections = Connections::default();
        let mut door = DaemonListener {
            socket: socket.to_owned(),
            listener,
            file_id: own,
            watch,
            connections,
            arrivals: None,
            reserved: vec![],
        };
        door.fill_spare();
        Ok(door)
    }

    /// Returns the connections accepted from now on, so that the caller can charge each of them to an account.
    pub(crate) fn arrivals(&mut self) -> mpsc::Receiver<AcceptedConnection> {
        let (sender, receiver) = mpsc::channel(MAX_CONNECTIONS);
        self.arrivals = Some(sender);
        receiver
    }

    /// Opens as many reserved descriptors as possible.
    fn fill_spare(&mut self) {
        while self.reserved.len() < RESERVED_FDS
            && let Ok(file) = File::open("/dev/null")
        {
            self.reserved.push(file);
        }
    }

    /// Frees a file descriptor for a connection that could not be accepted. First closes
    /// connections that have no request. If there are none, waits briefly for a busy connection to
    /// end.
    async fn free_descriptor(&mut self) {
        let shed = self.connections.close_oldest_idle();
        if self.reserved.is_empty() && !shed {
            tokio::time::sleep(ACCEPT_RETRY).await;
        }
        self.reserved.clear();
        // The closed connection is dropped by its own task.
        tokio::task::yield_now().await;
    }

    fn owns_path(&self) -> bool {
        SocketFileId::from_path(&self.socket).is_ok_and(|found| found == self.file_id)
    }

    /// Restores the socket path if it is missing or belongs to another socket, because no other
    /// socket is valid while this process holds the lock. A file that is not a socket belongs to
    /// the user and is kept; `daemon status` reports it.
    fn restore_path(&mut self) {
        if self.owns_path() {
            return;
        }
        if let Ok((listener, own)) = bind(&self.socket) {
            (self.listener, self.file_id) = (listener, own);
        }
    }
}

impl Drop for DaemonListener {
    fn drop(&mut self) {
        if self.owns_path() {
            // If this fails, the next daemon replaces the stale path.
            drop(fs::remove_file(&self.socket));
        }
    }
}

impl axum::serve::Listener for DaemonListener {
    type Io = TimedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TimedStream, SocketAddr) {
        loop {
            if self.reserved.is_empty() {
                self.fill_spare();
            }
            let DaemonListener { connections, listener, watch, .. } = &mut *self;
            let accept = async {
                connections.wait_for_slot().await;
                UnixListener::accept(listener).await
            };
            tokio::select! {
                accepted = accept => match accepted {
                    Ok((stream, address)) => {
                        // A connection that exceeds the limit of its process is closed immediately.
                        let Some(stream) = self.connections.accept(stream) else { continue };
                        if let Some((arrivals, arrival)) = self.arrivals.as_ref().zip(stream.to_accepted()) {
                            // If the channel is full, the connection is charged when it sends its
                            // first request. If the channel is closed, the daemon is stopping.
                            arrivals.try_send(arrival).ok();
                        }
                        return (stream, address);
                    }
                    Err(why) if is_disconnected(&why) => continue,
                    Err(_) => {
                        self.free_descriptor().await;
                        continue;
                    }
                },
                () = wait_for_change(watch.as_ref()) => {}
            }
            self.restore_path();
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether the peer disconnected before its connection was accepted.
fn is_disconnected(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

/// Watches a directory with inotify for removed and renamed files. The events are read like data from a pipe.
fn watch_dir(dir: &Path) -> io::Result<pipe::Receiver> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, dir, WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR)?;
    pipe::Receiver::from_owned_fd_unchecked(watch)
}

/// Waits until something changes in the watched directory.
async fn wait_for_change(watch: Option<&pipe::Receiver>) {
    let Some(watch) = watch else { return std::future::pending().await };
    while let Ok(()) = watch.readable().await {
        match watch.try_read(&mut [0; INOTIFY_BUFFER]) {
            Ok(1..) => return,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
        }
    }
    // inotify will not report any more events.
    std::future::pending().await
}

/// Listens on a temporary path and renames it over any stale socket, so that every client that
/// finds the path gets a reply. Works relative to the directory, because the full path may be too
/// long for a socket address.
fn bind(socket: &Path) -> io::Result<(UnixListener, SocketFileId)> {
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::Error::other("the socket's path has no parent directory"));
    };
    match fs::symlink_metadata(socket) {
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::other("the path exists and is not a socket"));
        }
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(_) | Err(_) => {}
    }
    let handle = File::open(dir)?;
    let short = descriptor_path(&handle).join(TEMPORARY_NAME);
    match fs::remove_file(&short) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(()) | Err(_) => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(&short)?;
    fs::set_permissions(&short, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let bound = (UnixListener::from_std(listener)?, SocketFileId::from_path(&short)?);
    fs::rename(&short, dir.join(name))?;
    Ok(bound)
}
