//! The daemon's door: its listener, and the name in the home by which clients find it.
//!
//! Only the owner of the ledger's lock may touch that name, so a door is opened after the lock was taken and
//! dropped before it is let go. A name that somebody took away is put back at once: the kernel tells of it.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::UnixStream as BlockingStream,
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::{
    net::{
        UnixListener,
        unix::{SocketAddr, pipe},
    },
    sync::mpsc,
};

use super::timed_stream::{AT_ONCE, Arrival, Connections, TimedStream};

/// How many bytes of the kernel's news are read at once. What they say does not matter: it is looked.
const NEWS: usize = 4 << 10;

/// How many descriptors are kept for clients. A request needs a few: its connection, its peer, the ledger.
const SPARE: usize = 16;

/// How long to wait for a descriptor when all connections are being served.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// The name under which a socket is made, before it is given its own.
const NEW: &str = ".daemon.sock.new";

/// A listener that keeps its name.
#[derive(Debug)]
pub(crate) struct Door {
    socket: PathBuf,
    listener: UnixListener,
    own: FileId,
    /// Without it (a user may watch only so many directories) a name that is taken away stays away.
    watch: Option<pipe::Receiver>,
    connections: Connections,
    arrivals: Option<mpsc::Sender<Arrival>>,
    /// Descriptors that are given up when there are no others, so that commands are answered then too.
    spare: Vec<File>,
}

/// One file, under whatever name. The number of ours is not given to another while we listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<FileId> {
        let about = fs::symlink_metadata(path)?;
        Ok(FileId { device: about.dev(), inode: about.ino() })
    }
}

impl Door {
    /// Takes the name and listens. The lock on the ledger is held, so nobody else can be serving it.
    pub(crate) fn open(socket: &Path) -> io::Result<Door> {
        let watch = socket.parent().map(watch).and_then(Result::ok);
        if BlockingStream::connect(socket).is_ok() {
            return Err(io::Error::other("something else answers on it"));
        }
        let (listener, own) = bind(socket)?;
        let connections = Connections::default();
        let mut door = Door {
            socket: socket.to_owned(),
            listener,
            own,
            watch,
            connections,
            arrivals: None,
            spare: vec![],
        };
        door.fill_spare();
        Ok(door)
    }

    /// The connections that are accepted from now on, each to be charged to its account.
    pub(crate) fn arrivals(&mut self) -> mpsc::Receiver<Arrival> {
        let (sender, receiver) = mpsc::channel(AT_ONCE);
        self.arrivals = Some(sender);
        receiver
    }

    /// Takes the spare descriptors, as far as there are any.
    fn fill_spare(&mut self) {
        while self.spare.len() < SPARE
            && let Ok(file) = File::open("/dev/null")
        {
            self.spare.push(file);
        }
    }

    /// Makes room for a connection that could not be accepted for lack of descriptors: those that have asked for nothing
    /// are closed first. Without any, it waits a moment for one that is served.
    async fn make_room(&mut self) {
        let shed = self.connections.shed();
        if self.spare.is_empty() && !shed {
            tokio::time::sleep(ACCEPT_AGAIN).await;
        }
        self.spare.clear();
        // A connection that was shed is closed by its own task.
        tokio::task::yield_now().await;
    }

    fn is_named(&self) -> bool {
        FileId::of(&self.socket).is_ok_and(|found| found == self.own)
    }

    /// Puts the name back if it is gone or stands for another socket, which nobody has the right to while we
    /// hold the lock. What is no socket stays: it is somebody's file, and `daemon status` tells of it.
    fn keep_the_name(&mut self) {
        if self.is_named() {
            return;
        }
        if let Ok((listener, own)) = bind(&self.socket) {
            (self.listener, self.own) = (listener, own);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.is_named() {
            // A stale name is taken over by the next daemon.
            drop(fs::remove_file(&self.socket));
        }
    }
}

impl axum::serve::Listener for Door {
    type Io = TimedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TimedStream, SocketAddr) {
        loop {
            if self.spare.is_empty() {
                self.fill_spare();
            }
            let Door { connections, listener, watch, .. } = &mut *self;
            let accept = async {
                connections.room().await;
                UnixListener::accept(listener).await
            };
            tokio::select! {
                accepted = accept => match accepted {
                    Ok((stream, address)) => {
                        // One too many of a process is closed at once.
                        let Some(stream) = self.connections.take(stream) else { continue };
                        if let Some((arrivals, arrival)) = self.arrivals.as_ref().zip(stream.arrival()) {
                            // Without room it is charged at its first request; without a receiver the daemon is leaving.
                            arrivals.try_send(arrival).ok();
                        }
                        return (stream, address);
                    }
                    Err(why) if is_gone(&why) => continue,
                    Err(_) => {
                        self.make_room().await;
                        continue;
                    }
                },
                () = news(watch.as_ref()) => {}
            }
            self.keep_the_name();
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether the peer went away before it was accepted.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

/// Has the kernel tell when a name in the directory goes or is given to another file. Its news are read like
/// those of a pipe.
fn watch(dir: &Path) -> io::Result<pipe::Receiver> {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, dir, WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR)?;
    pipe::Receiver::from_owned_fd_unchecked(watch)
}

/// Waits until something changed in the watched directory.
async fn news(watch: Option<&pipe::Receiver>) {
    let Some(watch) = watch else { return std::future::pending().await };
    while let Ok(()) = watch.readable().await {
        match watch.try_read(&mut [0; NEWS]) {
            Ok(1..) => return,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => break,
        }
    }
    // The kernel tells nothing any more.
    std::future::pending().await
}

/// Listens, and only then takes the name, in the place of a socket that nobody may serve any more: who finds the
/// name is answered. All through the directory, for the path may be longer than an address.
fn bind(socket: &Path) -> io::Result<(UnixListener, FileId)> {
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::Error::other("the socket has no directory"));
    };
    match fs::symlink_metadata(socket) {
        Ok(about) if !about.file_type().is_socket() => {
            return Err(io::Error::other("something that is no socket has its name"));
        }
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(_) | Err(_) => {}
    }
    let handle = File::open(dir)?;
    let short = Path::new(&format!("/proc/self/fd/{}", handle.as_raw_fd())).join(NEW);
    match fs::remove_file(&short) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        Ok(()) | Err(_) => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(&short)?;
    fs::set_permissions(&short, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let bound = (UnixListener::from_std(listener)?, FileId::of(&short)?);
    fs::rename(&short, dir.join(name))?;
    Ok(bound)
}
