//! Connects to a listening command: waits for its socket to appear, connects, and performs the
//! handshake.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use provost_sys::process::descriptor_path;
use rustix::event::PollFlags;
use rustix::fs::{AtFlags, Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::rand::{GetRandomFlags, getrandom};

use super::server::ServerSocket;
use super::upgrade::Upgrade;

/// The time that a command may take from its start until it listens and accepts the upgrade.
pub(super) const CONNECT_TIMEOUT_MS: u64 = 30_000;
/// The shortest and the longest pause between two attempts when no event signals the right moment.
const FIRST_PAUSE_MS: u64 = 5;
const LONGEST_PAUSE_MS: u64 = 100;

/// A connection that is not established yet.
pub(in crate::hold) struct PendingConnection {
    /// The socket's directory. It is kept open, so it does not matter how long its path is or
    /// whether the path changes.
    dir: OwnedFd,
    name: OsString,
    /// Reports new entries in the directory. `None` if the system did not provide a watch.
    watch: Option<OwnedFd>,
    give_up_at: u64,
    /// The time of the next attempt if no event arrives.
    try_at: Option<u64>,
    pause: u64,
    /// The last error.
    last_error: String,
    upgrading: Option<PendingUpgrade>,
}

/// A connection whose handshake is not finished.
struct PendingUpgrade {
    server: ServerSocket,
    stream: UnixStream,
    upgrade: Upgrade,
}

/// The progress of connecting.
#[derive(Debug)]
pub(in crate::hold) enum ConnectStep {
    Ongoing,
    Connected(UnixStream, ServerSocket),
    /// The connection cannot be established, for this reason.
    Failed(String),
}

impl PendingConnection {
    /// Prepares to wait for the socket. Must be called before the command is started, so that no
    /// event is missed.
    pub(in crate::hold) fn prepare(socket: &Path, now: u64) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let arriving = Self {
            watch: watch(&dir).ok(),
            dir,
            name: name.to_owned(),
            try_at: Some(now),
            give_up_at: now + CONNECT_TIMEOUT_MS,
            pause: FIRST_PAUSE_MS,
            last_error: "the socket does not exist".into(),
            upgrading: None,
        };
        arriving.address()?;
        Ok(arriving)
    }

    /// Returns the descriptor to poll, if any.
    pub(in crate::hold) fn handle(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let stream = self.upgrading.as_ref().map(|upgrading| upgrading.stream.as_fd());
        stream.or(self.watch.as_ref().map(AsFd::as_fd)).map(|fd| (fd, PollFlags::IN))
    }

    /// Returns the time of the next step, which is taken even if no event arrives.
    pub(in crate::hold) fn due(&self) -> u64 {
        self.try_at.map_or(self.give_up_at, |try_at| try_at.min(self.give_up_at))
    }

    /// Proceeds as far as possible without blocking.
    pub(in crate::hold) fn step(&mut self, now: u64) -> ConnectStep {
        self.drain_watch();
        if self.upgrading.is_none() {
            match self.connect() {
                Ok((server, stream)) => match send_upgrade(server, stream) {
                    Ok(upgrading) => (self.upgrading, self.try_at) = (Some(upgrading), None),
                    Err(error) => return untrusted_server(&error),
                },
                Err(error) => self.try_later(error, now),
            }
        }
        match self.upgrade() {
            ConnectStep::Ongoing if now >= self.give_up_at => {
                ConnectStep::Failed(self.timeout_reason())
            }
            step @ (ConnectStep::Ongoing | ConnectStep::Connected(..) | ConnectStep::Failed(_)) => {
                step
            }
        }
    }

    /// Takes the last step after the command has exited. By now, everything that it sent has
    /// arrived.
    pub(in crate::hold) fn finish(&mut self) -> ConnectStep {
        match self.upgrade() {
            ConnectStep::Ongoing => {
                ConnectStep::Failed("the command ended before the holder connected to it".into())
            }
            step @ (ConnectStep::Connected(..) | ConnectStep::Failed(_)) => step,
        }
    }

    fn upgrade(&mut self) -> ConnectStep {
        let Some(mut upgrading) = self.upgrading.take() else { return ConnectStep::Ongoing };
        match upgrading.upgrade.read(&mut upgrading.stream) {
            Ok(true) => match upgrading.server.unlink() {
                Ok(()) => ConnectStep::Connected(upgrading.stream, upgrading.server),
                Err(error) => untrusted_server(&error),
            },
            Ok(false) => {
                self.upgrading = Some(upgrading);
                ConnectStep::Ongoing
            }
            Err(error) => ConnectStep::Failed(format!("the server rejected the upgrade: {error}")),
        }
    }

    fn connect(&self) -> io::Result<(ServerSocket, UnixStream)> {
        let server = ServerSocket::find(&self.dir, &self.name)?;
        let stream = server.connect()?;
        Ok((server, stream))
    }

    fn address(&self) -> io::Result<SocketAddrUnix> {
        Ok(SocketAddrUnix::new(descriptor_path(&self.dir).join(&self.name))?)
    }

    /// Schedules the next attempt. If the socket is missing, the watch reports when it appears. If
    /// the socket or a link to it exists, no event signals that its server starts to listen, so it
    /// is polled.
    fn try_later(&mut self, error: io::Error, now: u64) {
        self.last_error = error.to_string();
        if self.watch.is_some() && !self.socket_exists() {
            self.try_at = None;
            return;
        }
        self.try_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE_MS);
    }

    fn socket_exists(&self) -> bool {
        let name = self.name.as_bytes();
        let found = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        !matches!(found, Err(Errno::NOENT))
    }

    fn timeout_reason(&self) -> String {
        let seconds = CONNECT_TIMEOUT_MS / 1000;
        match self.upgrading {
            Some(_) => format!("the server did not answer the upgrade within {seconds} s"),
            None => format!("the command did not listen within {seconds} s: {}", self.last_error),
        }
    }

    /// Empties the watch, which would otherwise report the same events again.
    fn drain_watch(&self) {
        let mut events = [0; 4096];
        while let Some(watch) = &self.watch
            && rustix::io::read(watch, &mut events).is_ok_and(|read| read > 0)
        {}
    }
}

/// Sends the upgrade request. The socket's path must remain until the response: an agent may
/// change the mode of the path after it has started to listen, and exit if the path is gone.
fn send_upgrade(server: ServerSocket, mut stream: UnixStream) -> io::Result<PendingUpgrade> {
    server.require_single_name()?;
    let upgrade = Upgrade::new(random()?);
    // A new socket accepts the whole request in one write.
    stream.write_all(upgrade.request().as_bytes())?;
    Ok(PendingUpgrade { server, stream, upgrade })
}

fn untrusted_server(error: &io::Error) -> ConnectStep {
    ConnectStep::Failed(format!("the server's socket cannot be trusted: {error}"))
}

/// Returns random bytes. Keys and masks protect nothing here, but the protocol requires them.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        read if read == N => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn watch(dir: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let watch = inotify::init(flags)?;
    let news = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, descriptor_path(dir), news)?;
    Ok(watch)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    use std::path::PathBuf;

    use super::*;

    fn arriving() -> (tempfile::TempDir, PathBuf, PendingConnection) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s.sock");
        let arriving = PendingConnection::prepare(&socket, 1000).unwrap();
        (dir, socket, arriving)
    }

    fn failed(step: ConnectStep) -> String {
        let ConnectStep::Failed(why) = step else { panic!("{step:?}") };
        why
    }

    #[test]
    fn missing_socket_waits_until_timeout() {
        let (_dir, _, mut arriving) = arriving();
        assert!(matches!(arriving.step(1000), ConnectStep::Ongoing));
        assert_eq!(arriving.due(), 31_000);
        let why = failed(arriving.step(31_000));
        assert!(why.starts_with("the command did not listen within 30 s: No such file"), "{why}");
    }

    #[test]
    fn without_a_watch_retries_back_off() {
        let (_dir, _, mut arriving) = arriving();
        arriving.watch = None;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            arriving.step(1000);
            pauses.push(arriving.due() - 1000);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
    }

    #[test]
    fn socket_without_listener_is_retried() {
        let (_dir, socket, mut arriving) = arriving();
        drop(UnixListener::bind(&socket).unwrap());
        assert!(matches!(arriving.step(1000), ConnectStep::Ongoing));
        assert_eq!(arriving.due(), 1005);
        std::fs::remove_file(&socket).unwrap();
        std::os::unix::fs::symlink("nowhere", &socket).unwrap();
        assert!(matches!(arriving.step(1005), ConnectStep::Ongoing));
        assert_eq!(arriving.due(), 1015, "the target of a dangling link may appear soon");
    }

    #[test]
    fn unanswered_upgrade_times_out() {
        let (_dir, socket, mut arriving) = arriving();
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(matches!(arriving.step(1000), ConnectStep::Ongoing));
        assert_eq!(arriving.due(), 31_000);
        let mut start = [0; 16];
        listener.accept().unwrap().0.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"GET / HTTP/1.1\r\n");
        let why = failed(arriving.step(31_000));
        assert!(why.starts_with("the server rejected the upgrade"), "it closed: {why}");
        let (_dir, socket, mut arriving) = self::arriving();
        let _listener = UnixListener::bind(&socket).unwrap();
        arriving.step(1000);
        let why = failed(arriving.step(31_000));
        assert_eq!(why, "the server did not answer the upgrade within 30 s");
    }

    #[test]
    fn too_long_socket_name_is_refused_before_start() {
        let dir = tempfile::tempdir().unwrap();
        assert!(PendingConnection::prepare(&dir.path().join("x".repeat(100)), 0).is_err());
        assert!(PendingConnection::prepare(&dir.path().join("none/s.sock"), 0).is_err());
        assert!(PendingConnection::prepare(&dir.path().join("x".repeat(80)), 0).is_ok());
    }
}
