//! Lets users connect to the command's server directly, through a listener of the holder. The
//! listener checks each peer and forwards the traffic without interpreting it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use provost_sys::process::descriptor_path;
use rustix::event::PollFlags;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::server::ServerSocket;
use crate::hold::admission::Admission;
use crate::hold::output::is_transient;
use crate::spec::RelayListener;

/// The maximum number of proxied connections.
const MAX_CONNECTIONS: usize = 8;
/// The number of bytes to copy in one step.
const CHUNK: usize = 16 << 10;
/// The maximum number of chunks copied in one direction before yielding.
const MAX_CHUNKS: usize = 16;
/// The response sent to rejected peers.
const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The listener and its proxied connections.
pub(in crate::hold) struct AttachProxy {
    listener: UnixListener,
    /// The directory of the listener's socket, from which it is removed.
    dir: OwnedFd,
    name: OsString,
    admission: Admission,
    server: ServerSocket,
    connections: Vec<ProxiedConnection>,
    next: u64,
}

/// One user's connection and the server connection made for it.
struct ProxiedConnection {
    number: u64,
    user: UnixStream,
    server: UnixStream,
    /// Bytes read from the user and not yet written to the server.
    to_server: Vec<u8>,
    to_user: Vec<u8>,
}

impl AttachProxy {
    /// Opens the listener.
    pub(in crate::hold) fn open(
        door: &RelayListener,
        admission: Admission,
        server: ServerSocket,
    ) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (door.socket.parent(), door.socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let path = descriptor_path(&dir).join(name);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let name = name.to_owned();
        Ok(Self { listener, dir, name, admission, server, connections: Vec::new(), next: 0 })
    }

    pub(in crate::hold) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Returns the descriptors to poll, each with its connection's number.
    pub(in crate::hold) fn sockets(
        &self,
    ) -> impl Iterator<Item = (u64, BorrowedFd<'_>, PollFlags)> {
        self.connections.iter().flat_map(|visit| {
            visit.interests().into_iter().map(|(fd, flags)| (visit.number, fd, flags))
        })
    }

    /// Returns the number of proxied connections.
    pub(in crate::hold) fn count(&self) -> u32 {
        u32::try_from(self.connections.len()).unwrap_or(u32::MAX)
    }

    /// Accepts the next connection, or rejects it with a response.
    pub(in crate::hold) fn accept(&mut self) -> io::Result<()> {
        let (mut person, _) = self.listener.accept()?;
        person.set_nonblocking(true)?;
        if self.connections.len() >= MAX_CONNECTIONS || self.admission.admit(&person).is_err() {
            return person.write_all(REFUSAL);
        }
        let server = self.server.connect()?;
        self.connections.push(ProxiedConnection::new(self.next, person, server));
        self.next += 1;
        Ok(())
    }

    /// Copies the data of one connection, and removes the connection once a side has closed it.
    pub(in crate::hold) fn copy(&mut self, number: u64) {
        self.connections.retain_mut(|visit| visit.number != number || visit.copy().is_ok());
    }
}

impl Drop for AttachProxy {
    fn drop(&mut self) {
        // Even if the socket file remains, the kernel refuses connections to it from now on.
        rustix::fs::unlinkat(&self.dir, self.name.as_bytes(), AtFlags::empty()).ok();
    }
}

impl ProxiedConnection {
    fn new(number: u64, person: UnixStream, server: UnixStream) -> Self {
        let (to_server, to_person) = (Vec::new(), Vec::new());
        Self { number, user: person, server, to_server, to_user: to_person }
    }

    /// Returns the descriptors to poll. In each direction, either the source is polled for reading
    /// or the target for writing.
    fn interests(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let (mut person, mut server) = (PollFlags::empty(), PollFlags::empty());
        if self.to_server.is_empty() {
            person |= PollFlags::IN;
        } else {
            server |= PollFlags::OUT;
        }
        if self.to_user.is_empty() {
            server |= PollFlags::IN;
        } else {
            person |= PollFlags::OUT;
        }
        // Polling a side that hung up would wake the holder forever, although it could not do
        // anything.
        let sides = [(self.user.as_fd(), person), (self.server.as_fd(), server)];
        sides.into_iter().filter(|(_, flags)| !flags.is_empty()).collect()
    }

    /// Copies data in both directions. An error closes the connection. The end of a side is read
    /// only after its earlier data has been delivered.
    fn copy(&mut self) -> io::Result<()> {
        copy_one_way(&self.user, &self.server, &mut self.to_server)?;
        copy_one_way(&self.server, &self.user, &mut self.to_user)
    }
}

/// Copies in one direction as far as possible without blocking. An error means that one of the
/// connections is gone.
fn copy_one_way(mut from: &UnixStream, mut to: &UnixStream, held: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; CHUNK];
    for _ in 0..MAX_CHUNKS {
        if held.is_empty() {
            match from.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => held.extend_from_slice(&chunk[..read]),
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match to.write(held) {
            Ok(taken) => drop(held.drain(..taken)),
            Err(error) if is_transient(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        if held.is_empty() {
            // An idle connection does not keep its buffer.
            *held = Vec::new();
        }
    }
    Ok(())
}
