//! The event loop. It waits for the command, its pipes or connection, the clients and due timers,
//! and nothing else; an idle holder does not wake up.
//!
//! The order: the leader ends → its output is in the journal → `exit.json` → the pipes are drained
//! for the settle time → remaining processes are ended → `gone.json` → the holder exits. A full
//! disk pauses this order and loses nothing: the write is retried every second.

mod phases;
mod relayed;
mod requests;
mod screen;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};

use super::admission::Admission;
use super::clients::Clients;
use super::ending::{Ending, Order, Terms};
use super::input::{Input, Item};
use super::leader::Leader;
use super::output::{Output, Read1, Streams};
use super::pace::Pace;
use super::relay::{Arriving, Visits};
use super::set_up::{Begun, Place};
use super::terminal::Terminal;
use crate::clock::{mono_ms, timespec};
use crate::journal::{Channel, Note, Writer};
use crate::launch_dir::LaunchDir;
use crate::record::EndedBy;
use crate::spec::{Door, HoldSpec, OnLimit, StdinMode};
use crate::wire::{FaultCode, Limited, Notice, Reply};
use provost_sys::process::Identity;

/// The pause before retrying after the disk refused a write.
const RETRY_MS: u64 = 1000;
/// How long a client that does not read may delay the holder's exit.
const FAREWELL_MS: u64 = 1000;
/// The journal key of the input text that a spec contains.
const TEXT_KEY: &str = "spec";

/// The state of one launch.
pub(super) struct Supervisor {
    dir: LaunchDir,
    holder: Identity,
    journal: Writer,
    listener: UnixListener,
    clients: Clients,
    /// The input that clients write to.
    input: Input,
    /// The command's standard input, if that is a different one; no client writes to it.
    stdin: Input,
    /// The pending connection to a listening command, until it is established or given up.
    arriving: Option<Arriving>,
    /// Users' direct connections to the command, once it accepts them.
    visits: Option<Visits>,
    /// The command's terminal, if it has one.
    terminal: Option<&'static Terminal>,
    /// How often the terminal is read.
    pace: Pace,
    output: Output,
    leader: Leader,
    rules: Rules,
    ended_by: EndedBy,
    phase: Phase,
    /// When to retry, while the disk refuses writes.
    retry_at: Option<u64>,
    reap_at: u64,
    /// The journal's end as last reported to the clients.
    told_end: u64,
    /// The number of users as last reported to the clients.
    told_people: u32,
}

/// The parts of the spec that are needed later.
struct Rules {
    on_limit: OnLimit,
    time_limit_at: Option<u64>,
    grace_ms: u64,
    settle_ms: u64,
    journal_stdin: bool,
    /// Whether the command listens.
    is_relayed: bool,
    /// The listener through which users connect to it.
    door: Option<Door>,
    admission: Admission,
}

enum Phase {
    Running,
    /// The leader exited by itself; its pipes are being drained.
    Settling {
        until: u64,
    },
    Ending(Ending),
    /// The tree has ended; this must still be recorded.
    Closing {
        leftovers: u32,
        verified: bool,
    },
    Left(ExitCode),
}

/// An event source.
#[derive(Debug, Clone, Copy)]
enum Source {
    Leader,
    Stops,
    Listener,
    Output(Channel),
    Input,
    Stdin,
    Arriving,
    Door,
    Visit(u64),
    Client(u64),
}

impl Supervisor {
    pub(super) fn new(place: Place, spec: &HoldSpec, begun: Begun) -> Self {
        let now = mono_ms();
        let Begun { mut child, streams, arriving } = begun;
        let mut own = Input::new(child.stdin.take().map(OwnedFd::from));
        if let StdinMode::Text(text) = &spec.stdin {
            own.give(TEXT_KEY, text);
        }
        let terminal = match streams {
            Streams::Terminal(terminal) => Some(terminal),
            Streams::Pipes { .. } | Streams::Relayed { .. } => None,
        };
        let (input, stdin) = match (&arriving, terminal) {
            (Some(_), _) => (Input::awaited(), own),
            (None, Some(terminal)) => (Input::typed_into(terminal), own),
            (None, None) => (own, Input::new(None)),
        };
        Self {
            dir: place.dir,
            holder: place.holder,
            journal: place.journal,
            listener: place.listener,
            clients: Clients::new(Admission::new(spec.boundary.clone())),
            input,
            stdin,
            arriving,
            visits: None,
            terminal,
            pace: Pace::default(),
            output: Output::new(streams, spec.output_limit),
            leader: Leader::new(&child),
            rules: Rules::new(spec, now),
            ended_by: EndedBy::Itself,
            phase: Phase::Running,
            retry_at: None,
            reap_at: now,
            told_end: 0,
            told_people: 0,
        }
    }

    /// Supervises the command to its end.
    pub(super) fn run(mut self) -> ExitCode {
        loop {
            let ready = self.wait();
            for source in ready {
                self.serve(source);
            }
            self.advance();
            if let Phase::Left(code) = self.phase {
                self.say_farewell();
                return code;
            }
        }
    }

    /// Starts ending the tree, or speeds up an ending in progress.
    pub(super) fn end_tree(&mut self, by: EndedBy, grace_ms: u64) {
        let now = mono_ms();
        self.leader.look(now);
        match &mut self.phase {
            Phase::Running | Phase::Settling { .. } => {
                let ended = self.leader.has_ended();
                if !ended {
                    self.ended_by = by;
                }
                self.phase = Phase::Ending(Ending::begin(self.order(ended, grace_ms), now));
            }
            Phase::Ending(ending) => ending.again(grace_ms, now),
            Phase::Closing { .. } | Phase::Left(_) => {}
        }
    }

    fn order(&self, leader_ended: bool, grace_ms: u64) -> Order {
        let terms = if self.rules.is_relayed { Terms::Two } else { Terms::One };
        Order { leader: self.leader.pid, leader_ended, grace_ms, terms }
    }
}

/// Waiting.
impl Supervisor {
    /// Waits until a source is ready or a timer is due. An interrupted wait returns no sources.
    fn wait(&self) -> Vec<Source> {
        let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) =
            self.interests().into_iter().unzip();
        let timeout = self.due().map(|due| timespec(due.saturating_sub(mono_ms())));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        sources
            .into_iter()
            .zip(ready)
            .filter_map(|(source, ready)| ready.then_some(source))
            .collect()
    }

    fn interests(&self) -> Vec<(Source, PollFd<'_>)> {
        let mut all = vec![(Source::Listener, watch(&self.listener, PollFlags::IN))];
        all.extend(self.leader.handle().map(|pidfd| (Source::Leader, watch(pidfd, PollFlags::IN))));
        // A full disk pauses both directions, so that nothing is read that cannot be stored.
        if !self.journal.is_stuck() {
            let stops = self.leader.stops();
            all.extend(
                stops.map(|fd| (Source::Stops, PollFd::from_borrowed_fd(fd, PollFlags::IN))),
            );
            for (source, input) in [(Source::Input, &self.input), (Source::Stdin, &self.stdin)] {
                let fd = input.wants_to_write();
                all.extend(fd.map(|fd| (source, PollFd::from_borrowed_fd(fd, PollFlags::OUT))));
            }
            if !self.output.limit_reached() && self.pace.rests_until(mono_ms()).is_none() {
                let streams = self.output.streams();
                all.extend(streams.map(|(channel, fd)| {
                    (Source::Output(channel), PollFd::from_borrowed_fd(fd, PollFlags::IN))
                }));
            }
        }
        let arriving = self.arriving.as_ref().and_then(Arriving::handle);
        all.extend(
            arriving.map(|(fd, flags)| (Source::Arriving, PollFd::from_borrowed_fd(fd, flags))),
        );
        if let Some(visits) = &self.visits {
            all.push((Source::Door, watch(visits.listener(), PollFlags::IN)));
            all.extend(visits.sockets().map(|(number, fd, flags)| {
                (Source::Visit(number), PollFd::from_borrowed_fd(fd, flags))
            }));
        }
        let sockets = self.clients.sockets();
        all.extend(
            sockets.map(|(number, socket, flags)| (Source::Client(number), watch(socket, flags))),
        );
        all
    }

    /// The earliest timer. Without one the wait is unbounded.
    fn due(&self) -> Option<u64> {
        let phase = match &self.phase {
            Phase::Running if self.leader.has_ended() => None,
            Phase::Running => self.rules.time_limit_at,
            Phase::Settling { until } => Some(*until),
            Phase::Ending(ending) => Some(ending.due()),
            Phase::Closing { .. } | Phase::Left(_) => None,
        };
        let blind = self.leader.is_unwatched().then(|| mono_ms() + RETRY_MS);
        let arriving = self.arriving.as_ref().map(Arriving::due);
        let rests = self.pace.rests_until(mono_ms());
        [phase, self.retry_at, blind, arriving, rests].into_iter().flatten().min()
    }

    /// Lets the clients read their pending messages one last time.
    fn say_farewell(&mut self) {
        let until = mono_ms() + FAREWELL_MS;
        self.clients.flush();
        while self.clients.is_unsent() && mono_ms() < until {
            let mut fds: Vec<PollFd<'_>> = self
                .clients
                .sockets()
                .map(|(_, socket, _)| watch(socket, PollFlags::OUT))
                .collect();
            let left = timespec(until.saturating_sub(mono_ms()));
            poll(&mut fds, Some(&left)).ok();
            self.clients.flush();
        }
        // If the socket file remains, the kernel refuses connections to it from now on.
        self.dir.remove_socket().ok();
    }
}

/// Handling ready sources.
impl Supervisor {
    fn serve(&mut self, source: Source) {
        match source {
            Source::Leader => self.leader.look(mono_ms()),
            Source::Stops => self.see_stops(),
            // The peer may already have closed the connection, so errors are ignored.
            Source::Listener => drop(self.clients.accept(&self.listener)),
            Source::Output(channel) => self.read_output(channel),
            Source::Input => self.write_input(),
            Source::Stdin => self.write_stdin(),
            Source::Arriving => self.arrive(),
            Source::Door => self.let_in(),
            Source::Visit(number) => self.carry(number),
            Source::Client(number) => {
                for received in self.clients.receive(number) {
                    self.answer(received);
                }
            }
        }
    }

    fn read_output(&mut self, channel: Channel) {
        if self.journal.is_stuck() || self.output.limit_reached() {
            return;
        }
        match self.output.read(channel, &mut self.journal, mono_ms()) {
            Ok(Read1::Progress(read)) if self.terminal.is_some() => self.keep_pace(read),
            Ok(Read1::Progress(_) | Read1::Nothing) => {}
            Ok(Read1::LimitReached) => self.reach_limit(),
            Err(_) => self.disk_refused(),
        }
        self.show();
    }

    fn reach_limit(&mut self) {
        let note = Note::OutputLimit { limit: self.output.limit() };
        if self.journal.note(mono_ms(), note).is_err() {
            self.disk_refused();
        }
        self.clients.tell_all(Notice::Limit { limited: Limited::OutputLimit });
        if self.rules.on_limit == OnLimit::End {
            self.end_tree(EndedBy::OutputLimit, self.rules.grace_ms);
        }
    }

    fn write_input(&mut self) {
        self.write_to(|supervisor| &mut supervisor.input);
    }

    fn write_stdin(&mut self) {
        self.write_to(|supervisor| &mut supervisor.stdin);
    }

    fn write_to(&mut self, input: fn(&mut Self) -> &mut Input) {
        while !self.journal.is_stuck() && input(self).wants_to_write().is_some() {
            let flushed = input(self).flush();
            if flushed.finished.is_empty() && flushed.failed.is_empty() {
                return;
            }
            for item in &flushed.finished {
                self.journal_input(item);
            }
            self.refuse_writes(flushed.failed);
        }
    }

    fn journal_input(&mut self, item: &Item) {
        // A secret that is typed arrives key by key, so no single write contains it.
        let may_be_secret = item.key.is_none() && self.output.has_masks();
        let envelope = item.envelope(self.rules.journal_stdin && !may_be_secret);
        if self.journal.input(mono_ms(), &envelope, &item.bytes).is_err() {
            self.disk_refused();
        }
        for waiter in &item.waiters {
            self.clients.reply(waiter.client, &Reply::done(waiter.request));
        }
    }

    fn refuse_writes(&mut self, items: Vec<Item>) {
        for waiter in items.into_iter().flat_map(|item| item.waiters) {
            let text = "the command closed its input before reading this";
            self.clients.reply(
                waiter.client,
                &Reply::refused(Some(waiter.request), FaultCode::StdinClosed, text),
            );
        }
    }

    fn disk_refused(&mut self) {
        if self.retry_at.is_none() {
            self.clients.tell_all(Notice::Limit { limited: Limited::DiskFull });
        }
        self.retry_at = Some(mono_ms() + RETRY_MS);
    }
}

impl Rules {
    fn new(spec: &HoldSpec, now: u64) -> Self {
        Self {
            on_limit: spec.on_limit,
            time_limit_at: spec.time_limit_ms.map(|limit| now.saturating_add(limit)),
            grace_ms: spec.grace_ms,
            settle_ms: spec.settle_ms,
            journal_stdin: spec.journal_stdin,
            is_relayed: spec.relay.is_some(),
            door: spec.relay.as_ref().and_then(|relay| relay.door.clone()),
            admission: Admission::new(spec.boundary.clone()),
        }
    }
}

fn watch(fd: &impl AsFd, flags: PollFlags) -> PollFd<'_> {
    PollFd::new(fd, flags)
}
