//! The holder's event loop. It waits only for the command, its pipes or connection, the clients and
//! timers, so an idle holder never wakes up.
//!
//! The steps at the end are: the leader exits → its output is in the journal → `exit.json` → the
//! pipes are drained for the settle time → remaining processes are terminated → `gone.json` → the
//! holder exits. A full disk pauses these steps without losing anything, because the write is
//! retried every second.

mod phases;
mod relayed;
mod requests;
mod screen;

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::admission::Admission;
use super::clients::HolderClients;
use super::ending::{EndOrder, TermCount, TreeEnding};
use super::input::{CommandInput, InputItem};
use super::leader::CommandLeader;
use super::output::{CommandOutput, CommandStreams, StreamRead};
use super::pace::ReadPace;
use super::relay::{AttachProxy, PendingConnection};
use super::set_up::{HolderResources, RunningCommand};
use super::terminal::CommandTerminal;
use crate::clock::{mono_ms, timespec};
use crate::journal::{JournalChannel, JournalNote, JournalWriter};
use crate::launch_dir::LaunchDir;
use crate::record::EndCause;
use crate::spec::{HoldSpec, OnLimit, RelayListener, StdinMode};
use crate::wire::{HolderFaultCode, HolderNotice, HolderReply, OutputPause};
use provost_sys::process::ProcessInstance;

/// The time to wait before a write that the disk refused is retried.
const RETRY_MS: u64 = 1000;
/// The time for which a client that does not read may delay the holder's exit.
const CLIENT_FLUSH_MS: u64 = 1000;
/// The journal key of the input text in a spec.
const TEXT_KEY: &str = "spec";

/// The state of one launch.
pub(super) struct Supervisor {
    dir: LaunchDir,
    holder: ProcessInstance,
    journal: JournalWriter,
    listener: UnixListener,
    clients: HolderClients,
    /// The input to which clients write.
    input: CommandInput,
    /// The command's standard input, if it is not `input`. No client writes to it.
    stdin: CommandInput,
    /// The connection to a listening command, while it is being established.
    connecting: Option<PendingConnection>,
    /// Users' direct connections to the command, once it accepts connections.
    attach_proxy: Option<AttachProxy>,
    /// The command's terminal, if it has one.
    terminal: Option<&'static CommandTerminal>,
    /// Limits the rate at which the terminal is read.
    pace: ReadPace,
    output: CommandOutput,
    leader: CommandLeader,
    rules: SupervisionRules,
    ended_by: EndCause,
    phase: HolderPhase,
    /// The time of the next retry, if the disk refuses writes.
    retry_at: Option<u64>,
    /// The time from which orphans may be reaped again.
    reap_at: u64,
    /// The end of the journal that was last reported to the clients.
    reported_end: u64,
    /// The number of users that was last reported to the clients.
    reported_users: u32,
}

/// The parts of the spec that are needed later.
struct SupervisionRules {
    on_limit: OnLimit,
    time_limit_at: Option<u64>,
    grace_ms: u64,
    settle_ms: u64,
    journal_stdin: bool,
    /// Whether the command listens on a socket.
    is_relayed: bool,
    /// The listener through which users connect to the command.
    listener: Option<RelayListener>,
    admission: Admission,
}

enum HolderPhase {
    Running,
    /// The leader exited on its own, and its pipes are being drained.
    Settling {
        until: u64,
    },
    Ending(TreeEnding),
    /// The tree has ended, but this has not been recorded yet.
    Closing {
        leftovers: u32,
        /// Whether no process of the tree is left. Otherwise, some could not be ended or observed.
        verified: bool,
    },
    Exited(ExitCode),
}

/// An event source.
#[derive(Debug, Clone, Copy)]
enum EventSource {
    Leader,
    /// Signals that suspend or continue the leader.
    LeaderSuspension,
    Listener,
    Output(JournalChannel),
    Input,
    Stdin,
    Connecting,
    UserListener,
    UserConnection(u64),
    Client(u64),
}

impl Supervisor {
    pub(super) fn new(
        resources: HolderResources,
        spec: &HoldSpec,
        command: RunningCommand,
    ) -> Self {
        let now = mono_ms();
        let RunningCommand { mut child, streams, connecting } = command;
        let mut pipe = CommandInput::new(child.stdin.take().map(OwnedFd::from));
        if let StdinMode::Text(text) = &spec.stdin {
            pipe.queue_text(TEXT_KEY, text);
        }
        let terminal = match streams {
            CommandStreams::Terminal(terminal) => Some(terminal),
            CommandStreams::Pipes { .. } | CommandStreams::Relayed { .. } => None,
        };
        let (input, stdin) = match (&connecting, terminal) {
            (Some(_), _) => (CommandInput::for_connection(), pipe),
            (None, Some(terminal)) => (CommandInput::for_terminal(terminal), pipe),
            (None, None) => (pipe, CommandInput::new(None)),
        };
        Self {
            dir: resources.dir,
            holder: resources.holder,
            journal: resources.journal,
            listener: resources.listener,
            clients: HolderClients::new(Admission::new(spec.boundary.clone())),
            input,
            stdin,
            connecting,
            attach_proxy: None,
            terminal,
            pace: ReadPace::default(),
            output: CommandOutput::new(streams, spec.output_limit),
            leader: CommandLeader::new(&child, spec.sandbox.as_ref()),
            rules: SupervisionRules::new(spec, now),
            ended_by: EndCause::Itself,
            phase: HolderPhase::Running,
            retry_at: None,
            reap_at: now,
            reported_end: 0,
            reported_users: 0,
        }
    }

    /// Supervises the command until its tree has ended.
    pub(super) fn run(mut self) -> ExitCode {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    // The command can no longer be observed. The daemon treats this like a killed
                    // holder.
                    drop(writeln!(io::stderr(), "cannot wait for the command: {error}"));
                    return ExitCode::FAILURE;
                }
            };
            for source in ready {
                self.serve(source);
            }
            self.advance();
            if let HolderPhase::Exited(code) = self.phase {
                self.flush_clients();
                return code;
            }
        }
    }

    /// Begins to end the tree, or speeds up an ending in progress.
    pub(super) fn end_tree(&mut self, by: EndCause, grace_ms: u64) {
        let now = mono_ms();
        self.leader.check_ended(now);
        match &mut self.phase {
            HolderPhase::Running | HolderPhase::Settling { .. } => {
                let ended = self.leader.has_ended();
                if !ended {
                    self.ended_by = by;
                }
                self.phase =
                    HolderPhase::Ending(TreeEnding::begin(self.order(ended, grace_ms), now));
            }
            HolderPhase::Ending(ending) => ending.restart(grace_ms, now),
            HolderPhase::Closing { .. } | HolderPhase::Exited(_) => {}
        }
    }

    fn order(&self, leader_ended: bool, grace_ms: u64) -> EndOrder {
        let terms = if self.rules.is_relayed { TermCount::Two } else { TermCount::One };
        EndOrder { leader: self.leader.pid, leader_ended, grace_ms, terms }
    }
}

/// Waits for events.
impl Supervisor {
    /// Waits until a source is ready or a timer is due. Returns no sources if a signal interrupts
    /// the wait, or after a pause if the kernel is short of memory.
    fn wait(&self) -> io::Result<Vec<EventSource>> {
        let (sources, mut fds): (Vec<EventSource>, Vec<PollFd<'_>>) =
            self.interests().into_iter().unzip();
        let timeout = self.due().map(|due| timespec(due.saturating_sub(mono_ms())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(Errno::AGAIN | Errno::NOMEM) => {
                poll(&mut [], Some(&timespec(RETRY_MS))).ok();
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let sources = sources.into_iter().zip(ready);
        Ok(sources.filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    fn interests(&self) -> Vec<(EventSource, PollFd<'_>)> {
        let mut all = vec![(EventSource::Listener, watch(&self.listener, PollFlags::IN))];
        all.extend(
            self.leader.handle().map(|pidfd| (EventSource::Leader, watch(pidfd, PollFlags::IN))),
        );
        // A full disk pauses both directions, so that the holder reads nothing it cannot store.
        if !self.journal.is_stuck() {
            let stops = self.leader.stops();
            all.extend(stops.map(|fd| {
                (EventSource::LeaderSuspension, PollFd::from_borrowed_fd(fd, PollFlags::IN))
            }));
            for (source, input) in
                [(EventSource::Input, &self.input), (EventSource::Stdin, &self.stdin)]
            {
                let fd = input.wants_to_write();
                all.extend(fd.map(|fd| (source, PollFd::from_borrowed_fd(fd, PollFlags::OUT))));
            }
            if !self.output.limit_reached() && self.pace.paused_until(mono_ms()).is_none() {
                let streams = self.output.streams();
                all.extend(streams.map(|(channel, fd)| {
                    (EventSource::Output(channel), PollFd::from_borrowed_fd(fd, PollFlags::IN))
                }));
            }
        }
        let connecting = self.connecting.as_ref().and_then(PendingConnection::handle);
        all.extend(
            connecting
                .map(|(fd, flags)| (EventSource::Connecting, PollFd::from_borrowed_fd(fd, flags))),
        );
        if let Some(proxy) = &self.attach_proxy {
            all.push((EventSource::UserListener, watch(proxy.listener(), PollFlags::IN)));
            all.extend(proxy.sockets().map(|(number, fd, flags)| {
                (EventSource::UserConnection(number), PollFd::from_borrowed_fd(fd, flags))
            }));
        }
        let sockets = self.clients.sockets();
        all.extend(
            sockets
                .map(|(number, socket, flags)| (EventSource::Client(number), watch(socket, flags))),
        );
        all
    }

    /// Returns the time at which the earliest timer is due. Without a timer, the wait is unbounded.
    fn due(&self) -> Option<u64> {
        let phase = match &self.phase {
            HolderPhase::Running if self.leader.has_ended() => None,
            HolderPhase::Running => self.rules.time_limit_at,
            HolderPhase::Settling { until } => Some(*until),
            HolderPhase::Ending(ending) => Some(ending.due()),
            HolderPhase::Closing { .. } | HolderPhase::Exited(_) => None,
        };
        // Without a handle to the leader, its exit can be detected only by polling.
        let leader_check = self.leader.is_unwatched().then(|| mono_ms() + RETRY_MS);
        let connecting = self.connecting.as_ref().map(PendingConnection::due);
        let reading_resumes = self.pace.paused_until(mono_ms());
        let timers = [phase, self.retry_at, leader_check, connecting, reading_resumes];
        timers.into_iter().flatten().min()
    }

    /// Waits briefly so that clients can read their pending messages.
    fn flush_clients(&mut self) {
        let until = mono_ms() + CLIENT_FLUSH_MS;
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
        // Even if the socket file remains, the kernel refuses connections to it from now on.
        self.dir.remove_socket().ok();
    }
}

/// Handles event sources that are ready.
impl Supervisor {
    fn serve(&mut self, source: EventSource) {
        match source {
            EventSource::Leader => self.leader.check_ended(mono_ms()),
            EventSource::LeaderSuspension => self.handle_stops(),
            // Errors are ignored, because the peer may already have closed the connection.
            EventSource::Listener => drop(self.clients.accept(&self.listener)),
            EventSource::Output(channel) => self.read_output(channel),
            EventSource::Input => self.write_input(),
            EventSource::Stdin => self.write_stdin(),
            EventSource::Connecting => self.continue_connecting(),
            EventSource::UserListener => self.accept_user(),
            EventSource::UserConnection(number) => self.copy_user_data(number),
            EventSource::Client(number) => {
                for received in self.clients.receive(number) {
                    self.answer(received);
                }
            }
        }
    }

    fn read_output(&mut self, channel: JournalChannel) {
        if self.journal.is_stuck() || self.output.limit_reached() {
            return;
        }
        match self.output.read(channel, &mut self.journal, mono_ms()) {
            Ok(StreamRead::Progress(read)) if self.terminal.is_some() => self.keep_pace(read),
            Ok(StreamRead::Progress(_) | StreamRead::Nothing) => {}
            Ok(StreamRead::LimitReached) => self.reach_limit(),
            Err(_) => self.disk_refused(),
        }
        self.show();
    }

    fn reach_limit(&mut self) {
        let note = JournalNote::OutputLimit { limit: self.output.limit() };
        if self.journal.note(mono_ms(), note).is_err() {
            self.disk_refused();
        }
        self.clients.notify_all(HolderNotice::Limit { limited: OutputPause::OutputLimit });
        if self.rules.on_limit == OnLimit::End {
            self.end_tree(EndCause::OutputLimit, self.rules.grace_ms);
        }
    }

    fn write_input(&mut self) {
        self.write_to(|supervisor| &mut supervisor.input);
    }

    fn write_stdin(&mut self) {
        self.write_to(|supervisor| &mut supervisor.stdin);
    }

    fn write_to(&mut self, input: fn(&mut Self) -> &mut CommandInput) {
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

    fn journal_input(&mut self, item: &InputItem) {
        // A secret that a user types arrives key by key, so no single write contains it.
        let may_be_secret = item.key.is_none() && self.output.has_masks();
        let envelope = item.envelope(self.rules.journal_stdin && !may_be_secret);
        if self.journal.input(mono_ms(), &envelope, &item.bytes).is_err() {
            self.disk_refused();
        }
        for waiter in &item.waiters {
            self.clients.reply(waiter.client, &HolderReply::done(waiter.request));
        }
    }

    fn refuse_writes(&mut self, items: Vec<InputItem>) {
        for waiter in items.into_iter().flat_map(|item| item.waiters) {
            let text = "the command closed its input before reading this";
            self.clients.reply(
                waiter.client,
                &HolderReply::refused(Some(waiter.request), HolderFaultCode::StdinClosed, text),
            );
        }
    }

    fn disk_refused(&mut self) {
        if self.retry_at.is_none() {
            self.clients.notify_all(HolderNotice::Limit { limited: OutputPause::DiskFull });
        }
        self.retry_at = Some(mono_ms() + RETRY_MS);
    }
}

impl SupervisionRules {
    fn new(spec: &HoldSpec, now: u64) -> Self {
        Self {
            on_limit: spec.on_limit,
            time_limit_at: spec.time_limit_ms.map(|limit| now.saturating_add(limit)),
            grace_ms: spec.grace_ms,
            settle_ms: spec.settle_ms,
            journal_stdin: spec.journal_stdin,
            is_relayed: spec.relay.is_some(),
            listener: spec.relay.as_ref().and_then(|relay| relay.listener.clone()),
            admission: Admission::new(spec.boundary.clone()),
        }
    }
}

fn watch(fd: &impl AsFd, flags: PollFlags) -> PollFd<'_> {
    PollFd::new(fd, flags)
}
