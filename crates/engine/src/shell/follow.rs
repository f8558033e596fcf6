//! Follows a launch: processes each line of its journal once, and reports how its process ended.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::tz::TimeZone;
use provost_agent::{ConversationOptions, Protocol, command::CommandProtocol};
use provost_core::{
    ids::LaunchId,
    lifecycle::ProcessFact,
    session::{
        self, Cursor, Launch, LaunchPhase, ProcessExit, Session, SessionCommand, StoppedBy,
        StreamSignal, WorkState,
    },
};
use provost_holder::{
    self as holder, ExitRecord, LaunchState,
    journal::{
        self, InputEnvelope, JournalChannel, JournalFrame, JournalLine, JournalNote, JournalReader,
        LineAssembler, OpenedJournal, RelayNote,
    },
    tree::{self, LaunchTraces},
    wire::{self, HolderNotice, HolderOp, OutputPause, WireBytes},
};

use provost_sys::error_chain;

use super::{
    clock::Clock,
    drop_box,
    executor::{EngineWorld, TERMINAL_SIZE},
    failpoint,
    handle::{EngineHandle, ObservationSender},
    programs::{self, AgentPaths},
    real_path,
    supervised_command::{self, NoProcessLeft, SURVIVOR_GRACE},
    watch::{InferredState, ScreenHints},
};
use crate::coalesce::{JournalSignal, SignalCoalescer};

/// How long to wait before retrying to read a launch.
const READ_RETRY_DELAY: Duration = Duration::from_millis(500);

/// How long to wait before reconnecting to a holder that seems to be exiting.
const LINK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// After this many failed connections, the holder is considered unreachable, not exiting.
const MAX_FAILED_LINKS: u32 = 50;

/// How much longer than its time windows a holder may take to report an end before it is probed.
const ENDING_GRACE: Duration = Duration::from_secs(1);

/// How long a holder may take to exit after it has reported the end of its process tree.
const HOLDER_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How many consecutive reads may fail before a launch without a holder is considered broken.
const MAX_FAILED_READS: u32 = 10;

/// Follows one launch until its entire process tree is gone.
pub(crate) struct Follower {
    launch: LaunchId,
    link: FollowerLink,
    /// The recorded identities of the launch's processes, which do not depend on its directory.
    traces: LaunchTraces,
    /// Why the launch's directory is no longer trusted, whatever it may contain later.
    broken: Option<String>,
    failed_reads: u32,
    failed_links: u32,
    /// The agent's working directory, which its relative paths are relative to.
    place: AgentPaths,
    protocol: Box<dyn Protocol>,
    /// The screen signals of the launch's terminal, if it has one.
    terminal: Option<ScreenHints>,
    /// Whether output from the launch shows that the agent is working. The spinner of an agent that
    /// reports its work on another channel does not.
    output_is_activity: bool,
    /// Whether standard error is a log separate from the protocol. A log does not show that the
    /// agent is working.
    stderr_is_log: bool,
    /// Whether the end of standard output is also the end of the stream.
    stdout_is_stream: bool,
    lines: LineAssembler,
    resume: journal::JournalCursor,
    /// Signals before this position have already been reported.
    reported: Cursor,
    /// Protocol writes that were sent to the holder on the current connection.
    sent_writes: BTreeSet<String>,
    reader: Option<JournalReader>,
    reported_exit: bool,
    /// Whether the holder reported that the leader process has exited.
    exited: bool,
    /// Whether the end has been recorded.
    reported_end: bool,
    /// How long the holder may take to end the other processes after the leader has exited.
    ending: Duration,
    reported_unknown: bool,
    /// Why only the processes can be observed, if the agent's adapter is unknown. Its output is then
    /// not interpreted, so that a build that knows the adapter can still read all of it.
    unknown_adapter: Option<String>,
    /// Whether the launch's death was rejected as implausible. In that case, a readable journal
    /// proves nothing.
    implausible: bool,
    caught_up: bool,
    disk_full: bool,
    coalescer: SignalCoalescer,
    drop_box_watch: drop_box::DropBoxWatch,
    /// When the current frame was printed.
    printed_ms: u64,
}

/// The source of a follower, and the channel for its observations.
pub(crate) struct FollowerLink {
    pub(crate) dir: PathBuf,
    pub(crate) world: EngineWorld,
    pub(crate) observations: ObservationSender,
    pub(crate) handle: EngineHandle,
    pub(crate) clock: Clock,
}

/// Whether the journal shows that the holder wrote a message to the agent.
pub(crate) async fn was_written(dir: &Path, key: &str) -> bool {
    let (journal, key) = (dir.join(journal::JOURNAL_FILE), key.to_owned());
    supervised_command::blocking(move || {
        let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(&journal, 0) else {
            return false;
        };
        let inputs = reader.flatten().filter(|frame| frame.channel == JournalChannel::Stdin);
        inputs
            .filter_map(|frame| {
                InputEnvelope::split(&frame.payload).map(|(envelope, _)| envelope.key)
            })
            .any(|written| wire::plain_key(&written) == key)
    })
    .await
}

/// Returns the agent's own time zone, or the machine's if the agent has none.
fn agent_time_zone(session: &Session) -> Option<TimeZone> {
    match session.spec.agent.env.get("TZ") {
        Some(name) => TimeZone::get(name).ok(),
        None => TimeZone::try_system().ok(),
    }
}

fn working_directory(session: &Session) -> PathBuf {
    match &session.work {
        WorkState::Ready { cwd, .. } => cwd.into(),
        WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => {
            PathBuf::from(&session.spec.cwd)
        }
    }
}

/// What happened while listening to a holder.
enum ListenResult {
    Notice(HolderNotice),
    /// The holder has exited or is dead.
    Disconnected,
    /// The holder is alive, but did not respond in time.
    Unresponsive,
}

/// Whether anything is left to follow.
enum FollowStep {
    Continue,
    Done,
}

impl Follower {
    pub(crate) fn new(session: &Session, launch: LaunchId, link: FollowerLink) -> Option<Follower> {
        let recorded = session.launch(launch)?;
        let from = recorded.cursor;
        // The first successful read withdraws a report from before a restart.
        let reported_unknown = recorded.process() == ProcessFact::Unknown;
        let (interface, bounds) = (&session.spec.agent.interface, &session.spec.bounds);
        let found = link.world.adapters.get(interface);
        let unknown_adapter = found.as_ref().err().map(ToString::to_string);
        let adapter = found.ok();
        let opening = ConversationOptions {
            zone: agent_time_zone(session),
            ..ConversationOptions::from_session(session)
        };
        let protocol: Box<dyn Protocol> = match adapter {
            Some(adapter) => adapter.protocol(interface, opening),
            None => Box::new(CommandProtocol),
        };
        let (rows, columns) = (TERMINAL_SIZE.rows, TERMINAL_SIZE.columns);
        let terminal = match adapter {
            Some(adapter) if interface.has_terminal() => {
                Some(ScreenHints::new(session, adapter.screen(), rows, columns))
            }
            Some(_) | None => None,
        };
        let resume = if protocol.needs_full_journal() || terminal.is_some() {
            journal::JournalCursor::default()
        } else {
            let skip = u32::try_from(from.skip).unwrap_or(0);
            journal::JournalCursor { offset: from.offset, skip }
        };
        Some(Follower {
            launch,
            traces: traces(recorded, &link.dir),
            broken: None,
            failed_reads: 0,
            failed_links: 0,
            place: AgentPaths::from_session(session, &link.world, working_directory(session)),
            link,
            protocol,
            terminal,
            output_is_activity: !interface.has_transcript(),
            stderr_is_log: interface.capabilities.stderr_is_log,
            stdout_is_stream: interface.takes_instructions(),
            lines: LineAssembler::resume(JournalChannel::Stdout, resume),
            resume,
            reported: from,
            sent_writes: BTreeSet::new(),
            reader: None,
            reported_exit: false,
            exited: recorded.has_ended(),
            reported_end: recorded.has_ended(),
            ending: Duration::from_millis(bounds.drain_ms.saturating_add(bounds.stop_grace_ms))
                .saturating_add(ENDING_GRACE),
            reported_unknown,
            unknown_adapter,
            implausible: false,
            caught_up: false,
            disk_full: recorded.disk_full.is_some(),
            coalescer: SignalCoalescer::new(session.budget.tokens.is_some()),
            drop_box_watch: drop_box::DropBoxWatch::default(),
            printed_ms: 0,
        })
    }

    pub(crate) async fn run(mut self) {
        failpoint::unwind("follow");
        if let Some(why) = self.unknown_adapter.clone() {
            self.report(SessionCommand::ProcessUnknown { launch: self.launch, why }).await;
        }
        self.collect_reports().await;
        loop {
            let next = self.step().await;
            self.report_caught_up().await;
            match next {
                Ok(FollowStep::Done) => return,
                Ok(FollowStep::Continue) => {}
                Err(why) => {
                    self.reported_unknown = true;
                    let why = error_chain(&why);
                    self.report(SessionCommand::ProcessUnknown { launch: self.launch, why }).await;
                    supervised_command::sleep(READ_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn step(&mut self) -> Result<FollowStep, supervised_command::Error> {
        if let Some(why) = self.broken.take() {
            return self.end_broken(&why).await;
        }
        let found = match self.read_directory().await? {
            Ok(found) => found,
            Err(why) => return self.end_broken(&why).await,
        };
        match found {
            // The launch ran before, and the directory of a recorded launch is never created or
            // filled a second time.
            LaunchState::Absent | LaunchState::Starting { .. } => {
                self.end_broken("its launch directory was removed or emptied").await
            }
            LaunchState::Ended { .. } if self.child_may_live() => {
                self.end_broken(
                    "its launch directory records an end, but its process is still running",
                )
                .await
            }
            LaunchState::Ended { held, exit, gone: None }
                if supervised_command::holder_has_exited(held.as_ref()) =>
            {
                let ended = supervised_command::end_survivors(&self.traces).await?;
                let leftovers = u32::try_from(ended.found).unwrap_or(u32::MAX);
                self.finish(&exit, leftovers, ended.verified()).await
            }
            LaunchState::Alive { .. } | LaunchState::Ended { gone: None, .. } => {
                self.link.world.census.mark_alive(self.launch);
                self.implausible = false;
                self.exited |= matches!(found, LaunchState::Ended { .. });
                self.drain().await?;
                self.report_caught_up().await;
                self.listen().await
            }
            LaunchState::Ended { exit, gone: Some(gone), .. } => {
                if self.wait_for_holder_exit().await {
                    self.finish(&exit, gone.leftovers, gone.verified).await
                } else {
                    self.end_broken("its holder kept running after it reported the end").await
                }
            }
            LaunchState::HolderDied { .. } => {
                self.drain().await?;
                let none_left =
                    supervised_command::end_all_processes(&self.traces, SURVIVOR_GRACE).await?;
                self.confirm_unobserved("its holder was killed", &none_left).await
            }
            LaunchState::OtherBoot { .. } => {
                self.drain().await?;
                let none_left =
                    supervised_command::end_all_processes(&self.traces, SURVIVOR_GRACE).await?;
                // This affects the whole machine, so it need not be compared with other probes.
                self.report_unobserved_end("the machine was restarted", &none_left).await
            }
        }
    }

    /// Reads the directory. A failed read is repeated, unless the holder is known to be dead and
    /// reads have been failing for a long time.
    async fn read_directory(
        &mut self,
    ) -> Result<Result<LaunchState, String>, supervised_command::Error> {
        match supervised_command::read_launch(&self.link.dir).await {
            Ok(found) => {
                self.failed_reads = 0;
                let lost = self.reader.is_none() && !self.has_journal();
                Ok(if lost { Err("its journal was removed".to_owned()) } else { Ok(found) })
            }
            Err(why) => {
                self.failed_reads += 1;
                let dead =
                    |holder: &holder::ProcessInstance| matches!(holder.is_alive(), Ok(false));
                let dead = self.traces.holder.as_ref().is_some_and(dead);
                if dead && self.failed_reads >= MAX_FAILED_READS {
                    Ok(Err(error_chain(&why)))
                } else {
                    Err(why)
                }
            }
        }
    }

    /// Ends a launch whose directory can no longer be trusted. As much of its journal as possible is read.
    async fn end_broken(&mut self, why: &str) -> Result<FollowStep, supervised_command::Error> {
        self.broken = Some(why.to_owned());
        if self.reported_end {
            return self.end_remaining().await;
        }
        self.end_unobserved(why).await
    }

    /// Ends a launch whose exit status cannot be determined.
    async fn end_unobserved(&mut self, why: &str) -> Result<FollowStep, supervised_command::Error> {
        let none_left = supervised_command::end_all_processes(&self.traces, SURVIVOR_GRACE).await?;
        if self.reader.is_some() {
            self.drain().await?;
        }
        self.confirm_unobserved(why, &none_left).await
    }

    /// Ends the remaining processes of a launch whose leader has exited, unless the holder ends
    /// them.
    async fn end_remaining(&mut self) -> Result<FollowStep, supervised_command::Error> {
        let ended = supervised_command::end_survivors(&self.traces).await?;
        let (leftovers, verified) =
            (u32::try_from(ended.found).unwrap_or(u32::MAX), ended.verified());
        let found = supervised_command::read_launch(&self.link.dir).await.ok();
        let found = if self.has_journal() { found } else { None };
        if let Some(LaunchState::Ended { exit, .. }) = found {
            return self.finish(&exit, leftovers, verified).await;
        }
        if !self.reported_end {
            return self.end_unobserved("its holder did not report how it ended").await;
        }
        self.close_stream().await;
        self.report(SessionCommand::ProcessTreeGone { launch: self.launch, leftovers, verified })
            .await;
        Ok(FollowStep::Done)
    }

    /// Whether the journal exists, even if it cannot be read.
    fn has_journal(&self) -> bool {
        let found = std::fs::symlink_metadata(self.link.dir.join(journal::JOURNAL_FILE));
        !matches!(found, Err(why) if why.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the launch's own process may be alive, regardless of what its directory shows.
    fn child_may_live(&self) -> bool {
        self.traces.child.as_ref().is_some_and(|child| !matches!(child.is_alive(), Ok(false)))
    }

    /// Waits until the launch's holder has exited, which happens right after it reports the end. If
    /// the holder keeps running, the report may be forged and the real holder may have been
    /// suspended.
    async fn wait_for_holder_exit(&self) -> bool {
        let Some(holder) = &self.traces.holder else { return true };
        let left = async {
            let mut wait = Duration::from_millis(1);
            while !matches!(holder.is_alive(), Ok(false)) {
                supervised_command::sleep(wait).await;
                wait = (wait * 2).min(LINK_RETRY_DELAY);
            }
        };
        tokio::time::timeout(HOLDER_EXIT_TIMEOUT, left).await.is_ok()
    }

    /// Reports everything that remains about a launch whose process tree is gone.
    async fn finish(
        &mut self,
        exit: &ExitRecord,
        leftovers: u32,
        verified: bool,
    ) -> Result<FollowStep, supervised_command::Error> {
        self.drain().await?;
        self.report_exit(exit).await;
        self.close_stream().await;
        self.report(SessionCommand::ProcessTreeGone { launch: self.launch, leftovers, verified })
            .await;
        Ok(FollowStep::Done)
    }

    /// Reports, once, that everything that happened earlier has been reported.
    async fn report_caught_up(&mut self) {
        if !std::mem::replace(&mut self.caught_up, true) {
            self.link.observations.caught_up(self.launch).await;
        }
    }

    /// Listens to a running holder until it exits.
    async fn listen(&mut self) -> Result<FollowStep, supervised_command::Error> {
        let Ok(mut link) = supervised_command::HolderConnection::follow(&self.link.dir).await
        else {
            self.failed_links = self.failed_links.saturating_add(1);
            let leaving = self.failed_links < MAX_FAILED_LINKS;
            supervised_command::sleep(if leaving { LINK_RETRY_DELAY } else { READ_RETRY_DELAY })
                .await;
            return Ok(FollowStep::Continue);
        };
        self.failed_links = 0;
        self.sent_writes.clear();
        self.mask_secrets(&mut link).await;
        self.send_pending_writes(&mut link).await;
        let mut heard = false;
        loop {
            let notice = match self.next_notice_in_time(&mut link).await {
                ListenResult::Notice(notice) => notice,
                ListenResult::Disconnected => {
                    if !heard {
                        // The holder is exiting or rejects the connection. Retry after a pause.
                        supervised_command::sleep(LINK_RETRY_DELAY).await;
                    }
                    break;
                }
                ListenResult::Unresponsive => return self.end_remaining().await,
            };
            heard = true;
            match notice {
                HolderNotice::Journal { .. } => {
                    if std::mem::take(&mut self.disk_full) {
                        self.report(SessionCommand::OutputResumed { launch: self.launch }).await;
                    }
                    self.drain().await?;
                    self.send_pending_writes(&mut link).await;
                }
                HolderNotice::Limit { limited: OutputPause::OutputLimit } => {
                    self.report(SessionCommand::OutputAtLimit { launch: self.launch }).await;
                }
                HolderNotice::Limit { limited: OutputPause::DiskFull } => {
                    self.disk_full = true;
                    let dir = self.link.world.home.root().display().to_string();
                    self.report(SessionCommand::OutputDiskFull { launch: self.launch, dir }).await;
                }
                HolderNotice::Viewers { count: people } => {
                    self.drain().await?;
                    self.report_draft().await;
                    self.report(SessionCommand::ViewersChanged { launch: self.launch, people })
                        .await;
                }
                HolderNotice::Suspended { suspended } => {
                    self.drain().await?;
                    let launch = self.launch;
                    self.report(SessionCommand::ProcessSuspended { launch, suspended }).await;
                }
                HolderNotice::Exited => self.handle_exit().await?,
                HolderNotice::Gone => break,
            }
        }
        self.link.world.holders.record_end(&link);
        Ok(FollowStep::Continue)
    }

    /// Waits for the next notice. Once the leader has exited, waits only as long as the holder
    /// needs to end the other processes. If a holder takes longer but still responds, it has a
    /// reason, such as a full disk.
    async fn next_notice_in_time(
        &mut self,
        link: &mut supervised_command::HolderConnection,
    ) -> ListenResult {
        let heard = |notice: Option<HolderNotice>| {
            notice.map_or(ListenResult::Disconnected, ListenResult::Notice)
        };
        if !self.exited {
            return heard(self.next_notice(link).await);
        }
        loop {
            if let Ok(notice) = tokio::time::timeout(self.ending, self.next_notice(link)).await {
                return heard(notice);
            }
            if let Some(holder) = &self.traces.holder {
                // If the holder cannot be woken, it will not respond.
                tree::resume_process(holder).ok();
            }
            if supervised_command::request(&self.link.dir, HolderOp::Ping).await.is_err() {
                return ListenResult::Unresponsive;
            }
        }
    }

    /// Asks the holder to mask secrets that another launch of the session received, because a
    /// resumed conversation may be printed from its beginning.
    async fn mask_secrets(&self, link: &mut supervised_command::HolderConnection) {
        let forms = self.link.world.secrets.masks(self.launch.session);
        if !forms.is_empty() {
            // A broken connection is detected at the next notice. An older holder may refuse to
            // mask, in which case the secrets stay visible.
            link.send(HolderOp::Mask { forms: forms.into_iter().map(WireBytes).collect() })
                .await
                .ok();
        }
    }

    /// Sends the pending protocol writes to the holder. The holder writes each key only once, and
    /// the journal shows what arrived. Anything else is sent again on the next connection.
    async fn send_pending_writes(&mut self, link: &mut supervised_command::HolderConnection) {
        for write in self.protocol.pending_writes() {
            if self.sent_writes.insert(write.key.clone()) {
                let key = self.link.world.write_key(self.launch, &write.key);
                let op = HolderOp::Write { key, data: WireBytes(write.line), secret: false };
                // A broken connection is detected at the next notice.
                link.send(op).await.ok();
            }
        }
    }

    /// Waits for the next notice. In the meantime, reports signals that were held back and become due.
    async fn next_notice(
        &mut self,
        link: &mut supervised_command::HolderConnection,
    ) -> Option<HolderNotice> {
        loop {
            self.read_screen().await;
            let look = self.terminal.as_ref().and_then(ScreenHints::due_ms);
            let Some(due) = self.coalescer.due_ms().into_iter().chain(look).min() else {
                return link.next_notice().await;
            };
            let now = self.link.clock.now().mono_ms;
            let wait = Duration::from_millis(due.saturating_sub(now));
            tokio::select! {
                notice = link.next_notice() => return notice,
                () = supervised_command::sleep(wait) => {
                    let due = self.coalescer.due(self.link.clock.now().mono_ms);
                    self.report_observed(due, None).await;
                }
            }
        }
    }

    async fn handle_exit(&mut self) -> Result<(), supervised_command::Error> {
        if let LaunchState::Ended { exit, .. } =
            supervised_command::read_launch(&self.link.dir).await?
            && !self.child_may_live()
        {
            self.drain().await?;
            self.report_exit(&exit).await;
            self.exited = true;
        }
        Ok(())
    }

    /// Collects reports that were written while no daemon could be reached.
    async fn collect_reports(&self) {
        drop_box::collect_reports(&self.link.world, &self.link.handle, Some(self.launch)).await;
    }

    /// Collects reports that an agent wrote from inside its sandbox. A report that precedes a line
    /// of output is recorded first, so that a claim made during a turn is known when the turn ends.
    async fn check_drop_box(&mut self) {
        let directory = self.link.world.home.agent_drop_box(self.launch.session);
        if self.drop_box_watch.changed(&directory, self.link.clock.now().wall_ms) {
            self.collect_reports().await;
        }
    }

    /// Processes all complete frames of the journal.
    async fn drain(&mut self) -> Result<(), supervised_command::Error> {
        if self.unknown_adapter.is_some() {
            return Ok(());
        }
        loop {
            let Some(reader) = self.open_journal().await? else { return Ok(()) };
            let next = reader.next().transpose();
            let next =
                next.map_err(|why| supervised_command::Error::Communicate(error_chain(&why)))?;
            self.report_seen().await;
            match next {
                Some(frame) => {
                    self.check_drop_box().await;
                    self.take_frame(&frame).await;
                }
                None => return Ok(()),
            }
        }
    }

    /// Withdraws the report that the launch could not be observed, because its journal has now been read.
    async fn report_seen(&mut self) {
        if !self.implausible && std::mem::take(&mut self.reported_unknown) {
            self.report(SessionCommand::ProcessSeen { launch: self.launch }).await;
        }
    }

    async fn open_journal(
        &mut self,
    ) -> Result<Option<&mut JournalReader>, supervised_command::Error> {
        if self.reader.is_none() {
            let path = self.link.dir.join(journal::JOURNAL_FILE);
            match JournalReader::open(&path, self.resume.offset) {
                Ok(OpenedJournal::Ready(reader)) => self.reader = Some(reader),
                Ok(OpenedJournal::Lost { end }) => self.handle_lost_journal(end).await,
                Err(why) => return Err(supervised_command::Error::Communicate(error_chain(&why))),
            }
        }
        Ok(self.reader.as_mut())
    }

    /// Handles a journal that ends before a position that was already processed, because of a power
    /// loss. The lost part is not processed again.
    async fn handle_lost_journal(&mut self, end: u64) {
        self.resume = journal::JournalCursor { offset: end, skip: 0 };
        self.lines = LineAssembler::resume(JournalChannel::Stdout, self.resume);
        let cursor = Cursor { offset: end, skip: 0 };
        self.report(SessionCommand::OutputLost { launch: self.launch, cursor }).await;
    }

    async fn take_frame(&mut self, frame: &JournalFrame) {
        self.printed_ms = self.link.clock.ours(frame.mono_ms);
        match frame.channel {
            JournalChannel::Stdout if self.terminal.is_some() => {
                self.take_terminal_output(&frame.payload).await
            }
            JournalChannel::Stdout => self.take_output(frame).await,
            JournalChannel::Stderr if self.stderr_is_log => {}
            JournalChannel::Stderr => {
                self.link.observations.note_heard(self.launch, self.printed_ms)
            }
            JournalChannel::Stdin => {
                // The protocol's own writes are not reported. Otherwise they would cause held
                // signals to be recorded, and the end of a turn would have to wait for that.
                if let Some((InputEnvelope { key, typed: false, .. }, _)) =
                    InputEnvelope::split(&frame.payload)
                {
                    let key = wire::plain_key(&key);
                    if !self.protocol.acknowledge_write(key) {
                        let signal = StreamSignal::InputWritten { key: key.to_owned() };
                        self.observe(signal, self.lines.cursor()).await;
                    }
                }
            }
            JournalChannel::Note => {
                self.handle_relay_failure(frame).await;
                let note = serde_json::from_slice::<JournalNote>(&frame.payload);
                match note {
                    Ok(JournalNote::StdoutClosed) => self.handle_stdout_closed(frame.after).await,
                    Ok(JournalNote::Resized { columns, rows }) => {
                        if let Some(hints) = &mut self.terminal {
                            hints.resize(rows, columns);
                        }
                    }
                    // Limits and stops are reported as notices, and notes from later versions are ignored.
                    Ok(
                        JournalNote::OutputLimit { .. }
                        | JournalNote::LimitRaised { .. }
                        | JournalNote::StderrClosed
                        | JournalNote::Suspended
                        | JournalNote::Continued,
                    )
                    | Err(_) => {}
                }
            }
        }
    }

    /// Handles printed output. An agent that only reports retries makes no progress.
    async fn take_output(&mut self, frame: &JournalFrame) {
        let delivered = self.lines.feed(frame);
        let mut moves = delivered.is_empty();
        for delivered in delivered {
            moves |= self.read_line(delivered.line, delivered.after).await;
        }
        if moves {
            self.link.observations.note_heard(self.launch, self.printed_ms);
        }
    }

    /// Handles terminal output.
    async fn take_terminal_output(&mut self, bytes: &[u8]) {
        if self.output_is_activity {
            self.link.observations.note_heard(self.launch, self.printed_ms);
        }
        let launch = self.launch;
        let now = self.link.clock.now().mono_ms;
        let guesses = self.terminal.as_mut().map(|hints| hints.feed(bytes, now));
        for InferredState { by, place, what } in guesses.unwrap_or_default() {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reads the terminal's screen, if that is due.
    async fn read_screen(&mut self) {
        let (launch, now) = (self.launch, self.link.clock.now().mono_ms);
        let guess = self.terminal.as_mut().and_then(|hints| hints.read_screen(now));
        if let Some(InferredState { by, place, what }) = guess {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reports the unsent text that a detaching user left at the prompt. This must precede the
    /// report that no user is attached anymore.
    async fn report_draft(&mut self) {
        let launch = self.launch;
        let guess = self.terminal.as_mut().and_then(ScreenHints::draft);
        if let Some(InferredState { by, place, what }) = guess {
            self.report(SessionCommand::ScreenHinted { launch, by, place, what }).await;
        }
    }

    /// Reports an agent that is running but that the relay cannot connect to. The agent will never
    /// work, so this is reported instead of being treated as silence.
    async fn handle_relay_failure(&mut self, frame: &JournalFrame) {
        let note = serde_json::from_slice::<RelayNote>(&frame.payload);
        if let Ok(RelayNote::RelayFailed { why }) = note {
            let after = journal::JournalCursor { offset: frame.after, skip: 0 };
            self.observe(StreamSignal::Unreachable { reason: why }, after).await;
        }
    }

    /// Reports that an agent closed the stream of its protocol. A plain command may redirect its
    /// output and continue, so for a plain command, only the process counts.
    async fn handle_stdout_closed(&mut self, after: u64) {
        if self.stdout_is_stream {
            self.observe(StreamSignal::Closed, journal::JournalCursor { offset: after, skip: 0 })
                .await;
        }
    }

    /// Parses a line, and returns whether it shows that the agent made progress.
    async fn read_line(&mut self, line: JournalLine, after: journal::JournalCursor) -> bool {
        self.protocol.set_clock(self.link.clock.wall_of(self.printed_ms));
        let signal = match line {
            JournalLine::Whole(bytes) => self.protocol.read(&bytes),
            JournalLine::Oversized { len } => Some(StreamSignal::Oversized { bytes: len }),
        };
        let moves = !matches!(signal, Some(StreamSignal::Retrying { .. }));
        if let Some(signal) = signal {
            self.observe(signal, after).await;
        }
        moves
    }

    /// Closes the stream, after parsing a last line without a newline.
    async fn close_stream(&mut self) {
        if let Some(last) = self.lines.finish() {
            self.read_line(last.line, last.after).await;
        }
        self.observe(StreamSignal::Closed, self.lines.cursor()).await;
    }

    async fn report_exit(&mut self, exit: &ExitRecord) {
        if std::mem::replace(&mut self.reported_exit, true) {
            return;
        }
        self.reported_end = true;
        self.collect_reports().await;
        let by = match exit.ended_by {
            holder::EndCause::Itself => StoppedBy::Itself,
            holder::EndCause::Stop
            | holder::EndCause::TimeLimit
            | holder::EndCause::OutputLimit
            | holder::EndCause::HolderFault => StoppedBy::Provost,
        };
        let launch = self.launch;
        let command = match &exit.end {
            holder::ProcessEnd::Exited { code } => {
                SessionCommand::ProcessEnded { launch, end: ProcessExit::Exit(*code), by }
            }
            holder::ProcessEnd::Signalled { signal } => {
                SessionCommand::ProcessEnded { launch, end: ProcessExit::Signal(*signal), by }
            }
            holder::ProcessEnd::NotStarted { error } => {
                SessionCommand::ProcessUnobserved { launch, why: error.clone() }
            }
        };
        self.report(command).await;
    }

    /// Reports an unobserved end, unless too many launches look dead at once. If a process was
    /// found and ended, its end is certain.
    async fn confirm_unobserved(
        &mut self,
        why: &str,
        none_left: &NoProcessLeft,
    ) -> Result<FollowStep, supervised_command::Error> {
        if !none_left.found_processes() {
            let believed = self.link.world.census.confirm_death(self.launch).await;
            self.implausible = believed.is_err();
            believed?;
        }
        self.report_unobserved_end(why, none_left).await
    }

    /// Reports an unobserved end. The unnamed parameter proves that no process is left.
    async fn report_unobserved_end(
        &mut self,
        why: &str,
        _: &NoProcessLeft,
    ) -> Result<FollowStep, supervised_command::Error> {
        let launch = self.launch;
        self.report(SessionCommand::ProcessUnobserved { launch, why: why.to_owned() }).await;
        Ok(FollowStep::Done)
    }

    async fn observe(&mut self, signal: StreamSignal, after: journal::JournalCursor) {
        let cursor = Cursor { offset: after.offset, skip: u64::from(after.skip) };
        if cursor <= self.reported
            && !matches!(signal, StreamSignal::Closed | StreamSignal::InputWritten { .. })
        {
            return;
        }
        let signal = real_path::with_real_paths(signal, &self.place.cwd).await;
        let signal = programs::with_lookup(signal, &self.place).await;
        let released = self.coalescer.take(signal, cursor, self.printed_ms);
        self.report_observed(released, None).await;
    }

    async fn report(&mut self, command: session::SessionCommand) {
        let before = self.coalescer.flush();
        self.report_observed(before, Some(command)).await;
    }

    /// Reports signals together with the command that follows from them.
    async fn report_observed(&self, observed: Vec<JournalSignal>, then: Option<SessionCommand>) {
        let launch = self.launch;
        let observed = observed.into_iter();
        let commands: Vec<SessionCommand> = observed
            .map(|(signal, cursor)| SessionCommand::Observed { launch, signal, cursor })
            .chain(then)
            .collect();
        if !commands.is_empty() {
            self.link.observations.send_all(launch.session, commands).await;
        }
    }
}

/// Returns the recorded identities of a launch's processes.
pub(crate) fn traces(launch: &Launch, dir: &Path) -> LaunchTraces {
    let child = match &launch.phase {
        LaunchPhase::Running { child, .. } => child.as_ref(),
        LaunchPhase::Pending
        | LaunchPhase::Ended { .. }
        | LaunchPhase::Unobserved { .. }
        | LaunchPhase::Failed { .. } => None,
    };
    supervised_command::traces(dir, launch.holder.as_ref(), child)
}
