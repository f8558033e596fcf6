//! Identifies the process at the other end of a Unix socket, and pins it when it connects.
//!
//! The kernel remembers which process called `connect`. That process may have exited since, and its
//! pid may have been reused. A peer is therefore pinned as soon as its connection is accepted, and
//! checked again before each decision:
//!
//! - by a handle to exactly that process (`SO_PEERPIDFD`, Linux 6.5), or
//! - if the kernel does not support this option, by pid and start time. A process that started
//!   after the connection was accepted is rejected, but a pid that was reused between `connect` and
//!   `accept` goes unnoticed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::process::{ProcessInstance, boot_id, ticks_since_boot};
use crate::stat::ProcStat;

/// The number of the socket option, which is the same on all architectures for which Provost is
/// built. `libc` does not define it yet. Older kernels reject the number, and the start time is
/// used instead.
const SO_PEERPIDFD: libc::c_int = 77;

/// The method by which a peer is pinned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Uses a handle to the process if the kernel provides one, and the start time otherwise.
    #[default]
    Best,
    /// Uses the start time, even if the kernel supports handles. Tests use this method to cover
    /// kernels before 6.5.
    StartTime,
}

/// The process that connected.
#[derive(Debug)]
pub struct PinnedPeer {
    identity: ProcessInstance,
    uid: u32,
    handle: Option<OwnedFd>,
}

/// The reason why a peer cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this socket belongs to user {own}, but you are user {peer}")]
    OtherUser { own: u32, peer: u32 },
    /// The kernel does not report a process, for example because it is in an outer PID namespace.
    #[error("the kernel does not identify the process that connected")]
    Unknown,
    #[error("process {0}, which opened this connection, has exited")]
    Ended(u32),
    #[error("cannot identify the process that connected: {0}")]
    Io(#[from] io::Error),
}

impl PinnedPeer {
    /// Pins the peer of a newly accepted connection. Fails if the peer belongs to another user.
    pub fn pin(socket: impl AsFd, pinning: Pinning) -> Result<PinnedPeer, Error> {
        let accepted = ticks_since_boot();
        let socket = socket.as_fd();
        let PeerCredentials { pid, uid } = credentials(socket)?;
        let own = rustix::process::geteuid().as_raw();
        if uid != own {
            return Err(Error::OtherUser { own, peer: uid });
        }
        let handle = match pinning {
            Pinning::Best => peer_handle(&socket, pid)?,
            Pinning::StartTime => None,
        };
        let stat = ProcStat::read(pid)?.ok_or(Error::Ended(pid))?;
        if handle.is_none() && stat.start_time > accepted {
            return Err(Error::Ended(pid));
        }
        let peer = PinnedPeer { identity: stat.identity(&boot_id()?), uid, handle };
        // The credentials describe the process that connected only if it is still running now.
        peer.check()?;
        Ok(peer)
    }

    /// Returns the calling process itself, so that it can be identified like a peer.
    pub fn own() -> io::Result<PinnedPeer> {
        let uid = rustix::process::geteuid().as_raw();
        Ok(PinnedPeer { identity: ProcessInstance::own()?, uid, handle: None })
    }

    /// Checks that the process that connected is still running. If it is, all data that was read
    /// from `/proc/PID` before this call describes that process.
    pub fn check(&self) -> Result<(), Error> {
        let running = match &self.handle {
            Some(handle) => !has_ended(handle)?,
            None => self.identity.is_alive()?,
        };
        if running { Ok(()) } else { Err(Error::Ended(self.identity.pid)) }
    }

    pub fn identity(&self) -> &ProcessInstance {
        &self.identity
    }

    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }
}

/// Returns the credentials of the process that called `connect` on the other end, or `listen` if
/// this end connected. The pid may have been reused since.
pub fn credentials(socket: impl AsFd) -> Result<PeerCredentials, Error> {
    let found: libc::ucred = read_option(socket.as_fd().as_raw_fd(), libc::SO_PEERCRED)?;
    let pid = u32::try_from(found.pid).ok().filter(|pid| *pid != 0).ok_or(Error::Unknown)?;
    Ok(PeerCredentials { pid, uid: found.uid })
}

/// The peer's credentials as recorded by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    pub pid: u32,
    pub uid: u32,
}

/// Returns a handle to the process that connected, or `None` if the kernel does not support it.
fn peer_handle(socket: &impl AsFd, pid: u32) -> Result<Option<OwnedFd>, Error> {
    let raw: libc::c_int = match read_option(socket.as_fd().as_raw_fd(), SO_PEERPIDFD) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => return Ok(None),
        // Kernels before 6.16 provide no handle to a process that was already reaped.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(Error::Ended(pid)),
        raw => raw?,
    };
    #[expect(
        unsafe_code,
        reason = "rustix has no SO_PEERPIDFD; the kernel made this descriptor for us"
    )]
    // SAFETY: the option's value is a new descriptor that nothing else owns.
    let handle = unsafe { OwnedFd::from_raw_fd(raw) };
    Ok(Some(handle))
}

/// Types of option values that are plain data, so that any bytes are a valid value.
trait PlainData: Copy {}
impl PlainData for libc::c_int {}
impl PlainData for libc::ucred {}

/// Reads a socket option. rustix supports neither `SO_PEERPIDFD` nor credentials without a pid.
fn read_option<T: PlainData>(socket: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let size = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    let mut written = size;
    #[expect(unsafe_code, reason = "rustix has no way to read this option")]
    // SAFETY: the kernel writes at most `written` bytes, which is the size of `value`.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            std::ptr::from_mut(&mut written),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if written != size {
        return Err(io::Error::other("the kernel returned a socket option of another size"));
    }
    #[expect(unsafe_code, reason = "the value was written by the kernel")]
    // SAFETY: all bytes are initialized, and any bytes make a valid `T`.
    Ok(unsafe { value.assume_init() })
}

/// Whether the process of a handle has exited. A zombie counts as exited.
fn has_ended(handle: &OwnedFd) -> io::Result<bool> {
    let mut entry = [PollFd::new(handle, PollFlags::IN)];
    loop {
        match poll(&mut entry, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Child, Command, Stdio};

    use super::*;

    const PINNINGS: [Pinning; 2] = [Pinning::Best, Pinning::StartTime];

    /// A process that connected, and this end of the connection.
    struct Connected {
        process: Child,
        socket: UnixStream,
    }

    /// Starts a perl process that connects, reports this, and waits for a line.
    fn connected() -> Connected {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let script = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) or die; syswrite(STDOUT, 'x'); sysread(STDIN, $_, 1)";
        let mut process = Command::new("perl")
            .args(["-e", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        Connected { process, socket: listener.accept().unwrap().0 }
    }

    impl Connected {
        fn end(&mut self) {
            self.process.stdin.take().unwrap().write_all(b"x").unwrap();
            self.process.wait().unwrap();
        }
    }

    #[test]
    fn peer_is_the_connected_process_until_exit() {
        for pinning in PINNINGS {
            let mut connected = connected();
            let peer = PinnedPeer::pin(&connected.socket, pinning).unwrap();
            assert_eq!(peer.pid(), connected.process.id());
            assert_eq!(peer.handle.is_some(), pinning == Pinning::Best && has_handles());
            peer.check().unwrap();
            connected.end();
            assert!(matches!(peer.check(), Err(Error::Ended(_))), "{pinning:?}");
            assert!(
                matches!(PinnedPeer::pin(&connected.socket, pinning), Err(Error::Ended(_))),
                "{pinning:?}"
            );
        }
    }

    #[test]
    fn peer_whose_pid_was_reused_is_refused() {
        // If there is no handle, the start time decides. In this test, the peer has this process's
        // pid, but an earlier start time.
        let own = ProcessInstance::own().unwrap();
        let before = ProcessInstance { start_time: own.start_time - 1, ..own };
        let peer = PinnedPeer { identity: before, uid: 0, handle: None };
        assert!(matches!(peer.check(), Err(Error::Ended(_))));
    }

    fn has_handles() -> bool {
        let (one, _other) = UnixStream::pair().unwrap();
        peer_handle(&one, 0).unwrap().is_some()
    }
}
