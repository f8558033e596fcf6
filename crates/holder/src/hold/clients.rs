//! The connections to the holder's socket. None of them can block it: sockets are non-blocking, buffers
//! are bounded, and a client that does not read is not read from.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFlags;
use serde::Serialize;

use super::admission::{Admission, Admitted};
use super::output::is_transient;
use crate::wire::{Data, FaultCode, Limited, MAX_REQUEST, Notice, Reply, Request, View};

/// Connections at one time.
const MAX_CLIENTS: usize = 16;
/// A client with more than this to read is not read from.
const MAX_UNREAD: usize = 256 << 10;
/// A viewport with more than this to read misses what comes meanwhile.
const MAX_UNSEEN: usize = 128 << 10;
/// Bytes read from a client at one time.
const CHUNK: usize = 64 << 10;

/// All connections.
pub(super) struct Clients {
    admission: Admission,
    connected: Vec<Client>,
    next: u64,
}

/// One connection.
struct Client {
    number: u64,
    stream: UnixStream,
    peer: Admitted,
    received: Vec<u8>,
    unsent: Vec<u8>,
    owed: Option<Owed>,
    /// How many bytes of the terminal it has missed, if it is a viewport.
    missed: Option<u64>,
    /// Whether a person is before it, if it is a viewport.
    attended: bool,
    dropped: bool,
}

/// The notices that a following client has not been sent yet.
#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    journal: Option<u64>,
    limited: Option<Limited>,
    people: Option<u32>,
    suspended: Option<bool>,
    exited: bool,
    gone: bool,
}

/// A line of a client: a request, or the answer to what is none.
pub(super) struct Received {
    pub(super) client: u64,
    pub(super) request: Result<Request, Reply>,
}

impl Clients {
    pub(super) fn new(admission: Admission) -> Self {
        Self { admission, connected: Vec::new(), next: 0 }
    }

    /// Takes the next connection, unless there are too many or the peer may not connect.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        match self.admit(&stream) {
            Ok(peer) => self.connected.push(Client::new(self.next, stream, peer)),
            Err(refusal) => {
                let mut line = serde_json::to_vec(&refusal)?;
                line.push(b'\n');
                // A peer that takes no answer is refused all the same.
                stream.write_all(&line).ok();
            }
        }
        self.next += 1;
        Ok(())
    }

    /// The sockets to wait for, each with what it is waited for.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u64, &UnixStream, PollFlags)> {
        self.connected.iter().map(|client| (client.number, &client.stream, client.interest()))
    }

    /// Reads from a client what it has sent.
    pub(super) fn receive(&mut self, number: u64) -> Vec<Received> {
        let Some(client) = self.find(number) else { return Vec::new() };
        client.flush();
        if client.interest().contains(PollFlags::IN) { client.receive() } else { Vec::new() }
    }

    pub(super) fn reply(&mut self, number: u64, reply: &Reply) {
        if let Some(client) = self.find(number) {
            client.queue(reply);
        }
    }

    /// From now on this client is sent notices.
    pub(super) fn follow(&mut self, number: u64) {
        if let Some(client) = self.find(number) {
            client.owed.get_or_insert_default();
        }
    }

    /// From now on this client is a viewport.
    pub(super) fn view(&mut self, number: u64) {
        if let Some(client) = self.find(number) {
            client.missed.get_or_insert_default();
        }
    }

    pub(super) fn is_viewport(&mut self, number: u64) -> bool {
        self.find(number).is_some_and(|client| client.missed.is_some())
    }

    /// Whether a person is before this client, from now on.
    pub(super) fn attend(&mut self, number: u64, attended: bool) {
        if let Some(client) = self.find(number) {
            client.attended = attended;
        }
    }

    /// How many viewports there are that a person is before.
    pub(super) fn attended(&self) -> u32 {
        let attended = self.viewports().filter(|client| client.attended);
        u32::try_from(attended.count()).unwrap_or(u32::MAX)
    }

    /// Sends the viewports what came on the terminal.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if self.viewports().next().is_none() {
            return;
        }
        let view = View::Output { data: Data(bytes.to_vec()) };
        let Ok(mut line) = serde_json::to_vec(&view) else { return };
        line.push(b'\n');
        self.connected.iter_mut().for_each(|client| client.show(&line, bytes.len()));
    }

    /// Owes a notice to one client, if it follows.
    pub(super) fn tell(&mut self, number: u64, notice: Notice) {
        if let Some(client) = self.find(number) {
            client.owe(notice);
        }
    }

    /// Owes a notice to all who follow.
    pub(super) fn tell_all(&mut self, notice: Notice) {
        self.connected.iter_mut().for_each(|client| client.owe(notice));
    }

    /// Sends what the sockets take and forgets the clients that left.
    pub(super) fn flush(&mut self) {
        self.connected.iter_mut().for_each(Client::flush);
        self.connected.retain(|client| !client.dropped);
    }

    /// Whether a client has not been sent everything yet.
    pub(super) fn is_unsent(&self) -> bool {
        self.connected.iter().any(|client| !client.unsent.is_empty())
    }

    fn viewports(&self) -> impl Iterator<Item = &Client> {
        self.connected.iter().filter(|client| client.missed.is_some())
    }

    fn find(&mut self, number: u64) -> Option<&mut Client> {
        self.connected.iter_mut().find(|client| client.number == number)
    }

    fn admit(&self, stream: &UnixStream) -> Result<Admitted, Reply> {
        if self.connected.len() >= MAX_CLIENTS {
            return Err(Reply::refused(None, FaultCode::Busy, "too many connections"));
        }
        let refused = |why: String| Reply::refused(None, FaultCode::Forbidden, why);
        self.admission.admit(stream).map_err(refused)
    }
}

impl Client {
    fn new(number: u64, stream: UnixStream, peer: Admitted) -> Self {
        Self {
            number,
            stream,
            peer,
            received: Vec::new(),
            unsent: Vec::new(),
            owed: None,
            missed: None,
            attended: true,
            dropped: false,
        }
    }

    fn interest(&self) -> PollFlags {
        match self.unsent.len() {
            0 => PollFlags::IN,
            unread if unread > MAX_UNREAD => PollFlags::OUT,
            _ => PollFlags::IN | PollFlags::OUT,
        }
    }

    fn receive(&mut self) -> Vec<Received> {
        let start = self.received.len();
        self.received.resize(start + CHUNK, 0);
        let read = self.stream.read(&mut self.received[start..]);
        self.received.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(1..) => self.requests(start),
            Err(error) if is_transient(&error) => Vec::new(),
            Ok(0) | Err(_) => {
                self.dropped = true;
                Vec::new()
            }
        }
    }

    /// Takes the whole lines out of what was received; none ends before `searched`.
    fn requests(&mut self, searched: usize) -> Vec<Received> {
        let newline = self.received[searched..].iter().rposition(|byte| *byte == b'\n');
        let Some(last) = newline.map(|at| searched + at) else {
            self.dropped = self.received.len() > MAX_REQUEST;
            return Vec::new();
        };
        let rest = self.received.split_off(last + 1);
        let lines = std::mem::replace(&mut self.received, rest);
        let client = self.number;
        let lines = lines[..last].split(|byte| *byte == b'\n');
        let allowed = |line| Request::parse(line).and_then(|request| self.peer.allow(request));
        lines.map(|line| Received { client, request: allowed(line) }).collect()
    }

    /// Journal growth is told only when the client has read what it was sent before.
    fn owe(&mut self, notice: Notice) {
        let Some(owed) = &mut self.owed else { return };
        match notice {
            Notice::Journal { end } => owed.journal = Some(end),
            Notice::Limit { limited } => owed.limited = Some(limited),
            Notice::Visits { people } => owed.people = Some(people),
            Notice::Suspended { suspended } => owed.suspended = Some(suspended),
            Notice::Exited => owed.exited = true,
            Notice::Gone => owed.gone = true,
        }
    }

    /// Sends what came on the terminal, unless there is too much that was not read yet. Having missed something it
    /// sees nothing more before it has been told so.
    fn show(&mut self, line: &[u8], len: usize) {
        match &mut self.missed {
            None => {}
            Some(0) if self.unsent.len() <= MAX_UNSEEN => self.unsent.extend_from_slice(line),
            Some(missed) => *missed += len as u64,
        }
    }

    fn flush(&mut self) {
        self.send();
        if self.unsent.is_empty() {
            self.queue_missed();
            self.queue_owed();
            self.send();
        }
    }

    fn queue_missed(&mut self) {
        let missed = self.missed.as_mut().map(std::mem::take);
        if let Some(bytes @ 1..) = missed {
            self.queue(&View::Skipped { bytes });
        }
    }

    /// Queues the notices that are owed.
    fn queue_owed(&mut self) {
        let Some(owed) = self.owed.as_mut().map(std::mem::take) else { return };
        let journal = owed.journal.map(|end| Notice::Journal { end });
        let limit = owed.limited.map(|limited| Notice::Limit { limited });
        let visits = owed.people.map(|people| Notice::Visits { people });
        let suspended = owed.suspended.map(|suspended| Notice::Suspended { suspended });
        let exited = owed.exited.then_some(Notice::Exited);
        let gone = owed.gone.then_some(Notice::Gone);
        for notice in [journal, limit, visits, suspended, exited, gone].into_iter().flatten() {
            self.queue(&notice);
        }
    }

    fn queue(&mut self, message: &impl Serialize) {
        match serde_json::to_writer(&mut self.unsent, message) {
            Ok(()) => self.unsent.push(b'\n'),
            Err(_) => self.dropped = true,
        }
    }

    fn send(&mut self) {
        while !self.unsent.is_empty() && !self.dropped {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if is_transient(&error) => return,
                Err(_) => self.dropped = true,
            }
        }
    }
}
