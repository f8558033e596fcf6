//! The connections to the holder's socket. None of them can block the holder: sockets are
//! non-blocking, buffers are bounded, and a client that does not read its answers is not read from.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFlags;
use serde::Serialize;

use super::admission::{Admission, Admitted};
use super::output::is_transient;
use crate::wire::{Data, FaultCode, Limited, MAX_REQUEST, Notice, Reply, Request, View};

/// Maximum number of connections.
const MAX_CLIENTS: usize = 16;
/// A client with more unsent bytes than this is not read from.
const MAX_UNREAD: usize = 256 << 10;
/// A viewport with more unsent bytes than this skips new output.
const MAX_UNSEEN: usize = 128 << 10;
/// Bytes read from a client in one call.
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
    /// Terminal bytes that it has missed, if it is a viewport.
    missed: Option<u64>,
    /// Whether a user is watching it, if it is a viewport.
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

/// A line from a client: a request, or the answer to an invalid one.
pub(super) struct Received {
    pub(super) client: u64,
    pub(super) request: Result<Request, Reply>,
}

impl Clients {
    pub(super) fn new(admission: Admission) -> Self {
        Self { admission, connected: Vec::new(), next: 0 }
    }

    /// Accepts the next connection, unless there are too many or the peer may not connect.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        match self.admit(&stream) {
            Ok(peer) => self.connected.push(Client::new(self.next, stream, peer)),
            Err(refusal) => {
                let mut line = serde_json::to_vec(&refusal)?;
                line.push(b'\n');
                // A peer that does not read the answer is rejected all the same.
                stream.write_all(&line).ok();
            }
        }
        self.next += 1;
        Ok(())
    }

    /// The sockets to poll, each with its flags.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u64, &UnixStream, PollFlags)> {
        self.connected.iter().map(|client| (client.number, &client.stream, client.interest()))
    }

    /// Reads the pending requests of a client.
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

    /// Starts sending notices to this client.
    pub(super) fn follow(&mut self, number: u64) {
        if let Some(client) = self.find(number) {
            client.owed.get_or_insert_default();
        }
    }

    /// Makes this client a viewport.
    pub(super) fn view(&mut self, number: u64) {
        if let Some(client) = self.find(number) {
            client.missed.get_or_insert_default();
        }
    }

    pub(super) fn is_viewport(&mut self, number: u64) -> bool {
        self.find(number).is_some_and(|client| client.missed.is_some())
    }

    /// Sets whether a user is watching this viewport.
    pub(super) fn attend(&mut self, number: u64, attended: bool) {
        if let Some(client) = self.find(number) {
            client.attended = attended;
        }
    }

    /// The number of viewports that a user is watching.
    pub(super) fn attended(&self) -> u32 {
        let attended = self.viewports().filter(|client| client.attended);
        u32::try_from(attended.count()).unwrap_or(u32::MAX)
    }

    /// Sends terminal output to the viewports.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if self.viewports().next().is_none() {
            return;
        }
        let view = View::Output { data: Data(bytes.to_vec()) };
        let Ok(mut line) = serde_json::to_vec(&view) else { return };
        line.push(b'\n');
        self.connected.iter_mut().for_each(|client| client.show(&line, bytes.len()));
    }

    /// Schedules a notice for one client, if it follows.
    pub(super) fn tell(&mut self, number: u64, notice: Notice) {
        if let Some(client) = self.find(number) {
            client.owe(notice);
        }
    }

    /// Schedules a notice for every following client.
    pub(super) fn tell_all(&mut self, notice: Notice) {
        self.connected.iter_mut().for_each(|client| client.owe(notice));
    }

    /// Sends as much as the sockets take, and removes the clients that disconnected.
    pub(super) fn flush(&mut self) {
        self.connected.iter_mut().for_each(Client::flush);
        self.connected.retain(|client| !client.dropped);
    }

    /// Whether a client still has unsent bytes.
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

    /// Takes the complete lines out of the received bytes; none of them ends before `searched`.
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

    /// Journal growth is reported only after the client has read everything sent before.
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

    /// Sends terminal output, unless too much is unread. After a gap, the client gets nothing more
    /// until the gap is reported to it.
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

    /// Queues the pending notices.
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
