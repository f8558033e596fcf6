//! Follows a launch: processes each line of its journal once, and reports how its process ended.

mod journal_frames;
mod launch_end;

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
    session::{Cursor, Launch, LaunchPhase, Session, SessionCommand, WorkState},
};
use provost_holder::{
    self as holder, LaunchState,
    journal::{self, JournalChannel, JournalReader, LineAssembler},
    tree::{self, LaunchTraces},
    wire::{HolderNotice, HolderOp, OutputPause, WireBytes},
};
use provost_sys::error_chain;

pub(crate) use self::journal_frames::was_written;
use super::{
    clock::Clock,
    drop_box,
    engine_world::EngineWorld,
    executor::TERMINAL_SIZE,
    failpoint,
    handle::{EngineHandle, ObservationSender},
    programs::AgentPaths,
    supervised_command::{self, SURVIVOR_GRACE},
    watch::ScreenHints,
};
use crate::coalesce::SignalCoalescer;

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
    /// Why the launch's directory is no longer trusted, regardless of its later content.
    broken: Option<String>,
    failed_reads: u32,
    failed_links: u32,
    /// The agent's working directory, which its relative paths are relative to.
    place: AgentPaths,
    protocol: Box<dyn Protocol>,
    /// The screen signals of the launch's terminal, if it has one.
    terminal: Option<ScreenHints>,
    /// Whether output from the launch shows that the agent is working. If the agent reports its work on another
    /// channel, its output does not count, because the output may be only a spinner.
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

/// Returns the agent's own time zone, or the machine's if the agent has none.
fn agent_time_zone(session: &Session) -> Option<TimeZone> {
    match session.spec.agent.env.get("TZ") {
        Some(name) => TimeZone::get(name).ok(),
        None => TimeZone::try_system().ok(),
    }
}

fn working_directory(session: &Session) -> PathBuf {
    match &session.worktree.state {
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
            coalescer: SignalCoalescer::new(session.spending.budget.tokens.is_some()),
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
                // The cause affects the whole machine, so this result need not be compared with other probes.
                self.report_unobserved_end("the machine was restarted", &none_left).await
            }
        }
    }

    /// Reads the directory. A failed read is repeated, unless the holder is known to be dead and the reads have failed
    /// for a long time.
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

    /// Whether the journal exists, even if it cannot be read.
    fn has_journal(&self) -> bool {
        let found = std::fs::symlink_metadata(self.link.dir.join(journal::JOURNAL_FILE));
        !matches!(found, Err(why) if why.kind() == std::io::ErrorKind::NotFound)
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

    /// Waits for the next notice. Once the leader has exited, waits only as long as the holder needs to end the other
    /// processes. A holder that takes longer but still responds is not ended, because it may have a reason, such as a
    /// full disk.
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
            // A broken connection is detected at the next notice. An older holder may refuse to mask secrets. In that
            // case, the secrets stay visible.
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
