//! The connections to the holder's socket. None of them can block the holder: sockets are
//! non-blocking, buffers are bounded, and the holder stops reading from a client that does not read
//! its responses.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFlags;
use serde::Serialize;

use super::admission::{Admission, AdmittedPeer};
use super::output::is_transient;
use crate::wire::{
    HolderFaultCode, HolderNotice, HolderReply, HolderRequest, MAX_REQUEST, OutputPause,
    TerminalView, WireBytes,
};

/// The maximum number of connections.
const MAX_CLIENTS: usize = 16;
/// The holder stops reading from a client that has more unsent bytes than this.
const MAX_UNREAD: usize = 256 << 10;
/// New output is not sent to a viewport that has more unsent bytes than this.
const MAX_UNSEEN: usize = 128 << 10;
/// The number of bytes to read from a client in one call.
const CHUNK: usize = 64 << 10;

/// All connections to the holder's socket.
pub(super) struct HolderClients {
    admission: Admission,
    connected: Vec<HolderClient>,
    next: u64,
}

/// One connection.
struct HolderClient {
    number: u64,
    stream: UnixStream,
    peer: AdmittedPeer,
    received: Vec<u8>,
    unsent: Vec<u8>,
    pending: Option<PendingNotices>,
    /// The number of terminal bytes that the client missed, if it is a viewport.
    missed: Option<u64>,
    /// Whether a user is watching the client. Meaningful only for a viewport.
    attended: bool,
    dropped: bool,
}

/// The notices not yet sent to a subscribed client.
#[derive(Debug, Clone, Copy, Default)]
struct PendingNotices {
    journal: Option<u64>,
    limited: Option<OutputPause>,
    people: Option<u32>,
    suspended: Option<bool>,
    exited: bool,
    gone: bool,
}

/// A line from a client: a request, or the response to send if the line is invalid.
pub(super) struct ReceivedLine {
    pub(super) client: u64,
    pub(super) request: Result<HolderRequest, HolderReply>,
}

impl HolderClients {
    pub(super) fn new(admission: Admission) -> Self {
        Self { admission, connected: Vec::new(), next: 0 }
    }

    /// Accepts the next connection. Rejects it if there are too many or the peer may not connect.
    pub(super) fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        match self.admit(&stream) {
            Ok(peer) => self.connected.push(HolderClient::new(self.next, stream, peer)),
            Err(refusal) => {
                let mut line = serde_json::to_vec(&refusal)?;
                line.push(b'\n');
                // It does not matter whether the rejected peer reads the response.
                stream.write_all(&line).ok();
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Returns the sockets to poll, each with its poll flags.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (u64, &UnixStream, PollFlags)> {
        self.connected.iter().map(|client| (client.number, &client.stream, client.interest()))
    }

    /// Reads the pending requests of a client.
    pub(super) fn receive(&mut self, number: u64) -> Vec<ReceivedLine> {
        let Some(client) = self.find(number) else { return Vec::new() };
        client.flush();
        if client.interest().contains(PollFlags::IN) { client.receive() } else { Vec::new() }
    }

    pub(super) fn reply(&mut self, number: u64, reply: &HolderReply) {
        if let Some(client) = self.find(number) {
            client.queue(reply);
        }
    }

    /// Starts sending notices to this client.
    pub(super) fn follow(&mut self, number: u64) {
        if let Some(client) = self.find(number) {
            client.pending.get_or_insert_default();
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

    /// Records whether a user is watching this viewport.
    pub(super) fn attend(&mut self, number: u64, attended: bool) {
        if let Some(client) = self.find(number) {
            client.attended = attended;
        }
    }

    /// Returns the number of viewports that a user is watching.
    pub(super) fn attended(&self) -> u32 {
        let attended = self.viewports().filter(|client| client.attended);
        u32::try_from(attended.count()).unwrap_or(u32::MAX)
    }

    /// Sends terminal output to the viewports.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if self.viewports().next().is_none() {
            return;
        }
        let view = TerminalView::Output { data: WireBytes(bytes.to_vec()) };
        let Ok(mut line) = serde_json::to_vec(&view) else { return };
        line.push(b'\n');
        self.connected.iter_mut().for_each(|client| client.show(&line, bytes.len()));
    }

    /// Schedules a notice for one client, if it is subscribed to notices.
    pub(super) fn notify(&mut self, number: u64, notice: HolderNotice) {
        if let Some(client) = self.find(number) {
            client.schedule(notice);
        }
    }

    /// Schedules a notice for every subscribed client.
    pub(super) fn notify_all(&mut self, notice: HolderNotice) {
        self.connected.iter_mut().for_each(|client| client.schedule(notice));
    }

    /// Sends as much as the sockets accept, and removes clients that have disconnected.
    pub(super) fn flush(&mut self) {
        self.connected.iter_mut().for_each(HolderClient::flush);
        self.connected.retain(|client| !client.dropped);
    }

    /// Whether there are unsent bytes for any client.
    pub(super) fn is_unsent(&self) -> bool {
        self.connected.iter().any(|client| !client.unsent.is_empty())
    }

    fn viewports(&self) -> impl Iterator<Item = &HolderClient> {
        self.connected.iter().filter(|client| client.missed.is_some())
    }

    fn find(&mut self, number: u64) -> Option<&mut HolderClient> {
        self.connected.iter_mut().find(|client| client.number == number)
    }

    fn admit(&self, stream: &UnixStream) -> Result<AdmittedPeer, HolderReply> {
        if self.connected.len() >= MAX_CLIENTS {
            return Err(HolderReply::refused(None, HolderFaultCode::Busy, "too many connections"));
        }
        let refused = |why: String| HolderReply::refused(None, HolderFaultCode::Forbidden, why);
        self.admission.admit(stream).map_err(refused)
    }
}

impl HolderClient {
    fn new(number: u64, stream: UnixStream, peer: AdmittedPeer) -> Self {
        Self {
            number,
            stream,
            peer,
            received: Vec::new(),
            unsent: Vec::new(),
            pending: None,
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

    fn receive(&mut self) -> Vec<ReceivedLine> {
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

    /// Removes the complete lines from the received bytes and parses them. There is no line ending
    /// before `searched`.
    fn requests(&mut self, searched: usize) -> Vec<ReceivedLine> {
        let newline = self.received[searched..].iter().rposition(|byte| *byte == b'\n');
        let Some(last) = newline.map(|at| searched + at) else {
            self.dropped = self.received.len() > MAX_REQUEST;
            return Vec::new();
        };
        let rest = self.received.split_off(last + 1);
        let lines = std::mem::replace(&mut self.received, rest);
        let client = self.number;
        let lines = lines[..last].split(|byte| *byte == b'\n');
        let allowed =
            |line| HolderRequest::parse(line).and_then(|request| self.peer.allow(request));
        lines.map(|line| ReceivedLine { client, request: allowed(line) }).collect()
    }

    /// Schedules a notice. Several reports of journal growth are merged until the client has read
    /// what was sent before.
    fn schedule(&mut self, notice: HolderNotice) {
        let Some(pending) = &mut self.pending else { return };
        match notice {
            HolderNotice::Journal { end } => pending.journal = Some(end),
            HolderNotice::Limit { limited } => pending.limited = Some(limited),
            HolderNotice::Viewers { count: people } => pending.people = Some(people),
            HolderNotice::Suspended { suspended } => pending.suspended = Some(suspended),
            HolderNotice::Exited => pending.exited = true,
            HolderNotice::Gone => pending.gone = true,
        }
    }

    /// Sends terminal output, unless too much is still unread. After a gap, the client receives no
    /// more output until the gap has been reported to it.
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
            self.queue_pending();
            self.send();
        }
    }

    fn queue_missed(&mut self) {
        let missed = self.missed.as_mut().map(std::mem::take);
        if let Some(bytes @ 1..) = missed {
            self.queue(&TerminalView::Skipped { bytes });
        }
    }

    /// Moves the pending notices to the send buffer.
    fn queue_pending(&mut self) {
        let Some(pending) = self.pending.as_mut().map(std::mem::take) else { return };
        let journal = pending.journal.map(|end| HolderNotice::Journal { end });
        let limit = pending.limited.map(|limited| HolderNotice::Limit { limited });
        let visits = pending.people.map(|people| HolderNotice::Viewers { count: people });
        let suspended = pending.suspended.map(|suspended| HolderNotice::Suspended { suspended });
        let exited = pending.exited.then_some(HolderNotice::Exited);
        let gone = pending.gone.then_some(HolderNotice::Gone);
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
