//! People who speak with the server themselves, through a door of ours: who may pass is checked there, and what
//! they and the server say to each other is carried through unread.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::event::PollFlags;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::server::Server;
use crate::hold::admission::Admission;
use crate::hold::output::is_transient;
use crate::spec::Door;

/// Visitors at one time.
const MAX_VISITS: usize = 8;
/// Bytes carried at one time.
const CHUNK: usize = 16 << 10;
/// As often is carried on in one direction before others have their turn.
const MAX_CHUNKS: usize = 16;
/// What is said to who may not pass.
const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// The door and those who are inside.
pub(in crate::hold) struct Visits {
    listener: UnixListener,
    /// Where the door is, for its removal.
    dir: OwnedFd,
    name: OsString,
    admission: Admission,
    server: Server,
    inside: Vec<Visit>,
    next: u64,
}

/// One visitor and the connection that was made for it.
struct Visit {
    number: u64,
    person: UnixStream,
    server: UnixStream,
    /// What was read from the one and not yet taken by the other.
    to_server: Vec<u8>,
    to_person: Vec<u8>,
}

impl Visits {
    /// Opens the door.
    pub(in crate::hold) fn open(
        door: &Door,
        admission: Admission,
        server: Server,
    ) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (door.socket.parent(), door.socket.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let name = name.to_owned();
        Ok(Self { listener, dir, name, admission, server, inside: Vec::new(), next: 0 })
    }

    pub(in crate::hold) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// What to wait for, each with the visit that it belongs to.
    pub(in crate::hold) fn sockets(
        &self,
    ) -> impl Iterator<Item = (u64, BorrowedFd<'_>, PollFlags)> {
        self.inside.iter().flat_map(|visit| {
            visit.interests().into_iter().map(|(fd, flags)| (visit.number, fd, flags))
        })
    }

    /// How many are inside.
    pub(in crate::hold) fn count(&self) -> u32 {
        u32::try_from(self.inside.len()).unwrap_or(u32::MAX)
    }

    /// Lets the next one in, or tells it that it may not pass.
    pub(in crate::hold) fn accept(&mut self) -> io::Result<()> {
        let (mut person, _) = self.listener.accept()?;
        person.set_nonblocking(true)?;
        if self.inside.len() >= MAX_VISITS || self.admission.admit(&person).is_err() {
            return person.write_all(REFUSAL);
        }
        let server = self.server.connect()?;
        self.inside.push(Visit::new(self.next, person, server));
        self.next += 1;
        Ok(())
    }

    /// Carries on for one visitor, who is forgotten when it has left.
    pub(in crate::hold) fn carry(&mut self, number: u64) {
        self.inside.retain_mut(|visit| visit.number != number || visit.carry().is_ok());
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        // A socket that stays is refused by the kernel from now on.
        rustix::fs::unlinkat(&self.dir, self.name.as_bytes(), AtFlags::empty()).ok();
    }
}

impl Visit {
    fn new(number: u64, person: UnixStream, server: UnixStream) -> Self {
        let (to_server, to_person) = (Vec::new(), Vec::new());
        Self { number, person, server, to_server, to_person }
    }

    /// In each direction either something is read, or what was read waits for the other side to take it.
    fn interests(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let (mut person, mut server) = (PollFlags::empty(), PollFlags::empty());
        match self.to_server.is_empty() {
            true => person |= PollFlags::IN,
            false => server |= PollFlags::OUT,
        }
        match self.to_person.is_empty() {
            true => server |= PollFlags::IN,
            false => person |= PollFlags::OUT,
        }
        // A side that hung up would wake us without end while nothing can be done about it.
        let sides = [(self.person.as_fd(), person), (self.server.as_fd(), server)];
        sides.into_iter().filter(|(_, flags)| !flags.is_empty()).collect()
    }

    /// An error means that the visit is over. An end is read only when all that was said before is delivered.
    fn carry(&mut self) -> io::Result<()> {
        pass(&self.person, &self.server, &mut self.to_server)?;
        pass(&self.server, &self.person, &mut self.to_person)
    }
}

/// Carries on in one direction as far as it goes without waiting. An error means that a side is gone.
fn pass(mut from: &UnixStream, mut to: &UnixStream, held: &mut Vec<u8>) -> io::Result<()> {
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
            // Nothing is kept for a visitor who is silent.
            *held = Vec::new();
        }
    }
    Ok(())
}
