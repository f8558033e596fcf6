//! The server's socket, which is found by its path, then unlinked and kept as a descriptor.
//!
//! The server accepts every client that connects, but no other process can connect to a socket
//! without a name.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use provost_sys::{peer, process};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;

const OTHER_NAME: &str = "the socket has another name";

/// A socket to which the holder connects through a descriptor, independent of its name.
#[derive(Debug)]
pub(in crate::hold) struct ServerSocket {
    handle: OwnedFd,
}

impl ServerSocket {
    /// Opens the entry with this name. Follows a symbolic link, because an agent may create one
    /// if the path is long.
    pub(super) fn find(dir: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self { handle: rustix::fs::openat(dir, name.as_bytes(), flags, Mode::empty())? })
    }

    /// Connects without blocking. The server must run as the same user and be a process of the
    /// holder's command, because the command could link to any other server of the user.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(self.path())?)?;
        let server = peer::credentials(&socket).map_err(io::Error::other)?;
        if server.uid != geteuid().as_raw() {
            return Err(io::Error::other("the server belongs to another user"));
        }
        let own = std::process::id();
        if !process::family(server.pid)?.iter().any(|stat| stat.pid == own) {
            return Err(io::Error::other("the server is not a process of the command"));
        }
        Ok(socket.into())
    }

    /// Fails if the socket has more than one name, because the other names would remain after one
    /// is removed.
    pub(super) fn require_single_name(&self) -> io::Result<()> {
        match rustix::fs::fstat(&self.handle)?.st_nlink {
            0 | 1 => Ok(()),
            _ => Err(io::Error::other(OTHER_NAME)),
        }
    }

    /// Removes the socket's name. Fails if the socket has another name, through which other
    /// processes could connect. They cannot use the holder's descriptor, because a holder is hidden
    /// from the user's other processes.
    pub(super) fn unlink(&self) -> io::Result<()> {
        self.remove_name(&fs::read_link(self.path())?)?;
        match rustix::fs::fstat(&self.handle)?.st_nlink {
            0 => Ok(()),
            _ => Err(io::Error::other(OTHER_NAME)),
        }
    }

    /// Removes the name if it still refers to this socket.
    fn remove_name(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the socket has no name in the file system"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::open(parent, flags, Mode::empty())?;
        let (there, own) = (
            rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?,
            rustix::fs::fstat(&self.handle)?,
        );
        if (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino) {
            return Err(io::Error::other("the socket's path now belongs to another file"));
        }
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
    }

    fn path(&self) -> PathBuf {
        process::descriptor_path(&self.handle)
    }
}
