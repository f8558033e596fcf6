//! Watches the pane of one adopted launch: what its screen shows, and whether it can be typed into.

use std::{io, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};

use provost_agent::Adapter;
use provost_core::{
    ids::LaunchId,
    session::{PaneState, Session, SessionCommand},
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, oneshot},
};

use super::{
    super::{
        clock::Clock,
        handle::ObservationSender,
        supervised_command,
        watch::{InferredState, ScreenHints, poll_fd},
    },
    hub::PaneRegistry,
    pace::{PaneReadPace, READ_DELAY_MS},
    pane_target::{PaneContent, PaneRead, PaneTarget},
};

/// How often to read a pane that cannot be typed into, or whose writes the kernel does not report.
const READ_INTERVAL_MS: u64 = 2_000;

pub(crate) struct PaneWatch {
    launch: LaunchId,
    place: PaneTarget,
    hints: ScreenHints,
    panes: PaneRegistry,
    bell: Arc<Notify>,
    observations: ObservationSender,
    clock: Clock,
    reported: Option<PaneState>,
    /// The terminal that the agent writes to, known once the pane was first read.
    terminal: Option<PathBuf>,
    pace: PaneReadPace,
    /// When the pane must be read even if nothing is written.
    read_at_ms: Option<u64>,
}

impl PaneWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        adapter: &Arc<dyn Adapter>,
        panes: PaneRegistry,
        observations: ObservationSender,
        clock: Clock,
    ) -> Option<PaneWatch> {
        let place = PaneTarget::from_session(session, adapter)?;
        let watch = &session.launch(launch)?.watch;
        // Start at a position that no earlier daemon reported.
        let shown = watch.hints.values().map(|seen| seen.place).max().unwrap_or(0);
        Some(PaneWatch {
            launch,
            place,
            hints: ScreenHints::after(session, adapter.screen(), shown),
            bell: panes.bell(launch),
            panes,
            observations,
            clock,
            reported: watch.pane,
            terminal: None,
            pace: PaneReadPace::default(),
            read_at_ms: Some(0),
        })
    }

    /// Watches the pane for as long as the future is polled.
    pub(crate) async fn run(mut self) {
        let mut server = self.place.server_pid().and_then(|pid| open_pidfd(pid).ok());
        let mut write = None;
        loop {
            let now = self.clock.now().mono_ms;
            self.pace.advance(now);
            let due = self.pace.is_due(now) || self.read_at_ms.is_some_and(|due| due <= now);
            if due || self.pace.wants_to_listen(now) {
                // Start to listen before reading, so that no write after the read is missed.
                write = self.listen();
                self.pace.record_listening(now);
            }
            if due {
                let unheard = self.terminal.is_none();
                if matches!(self.read_pane().await, PaneRead::Gone) {
                    return std::future::pending().await;
                }
                if unheard && self.terminal.is_some() {
                    // Something may have been written between the first read and the start of listening.
                    self.schedule_read();
                } else if write.is_none() {
                    self.read_at_ms.get_or_insert(now + READ_INTERVAL_MS);
                }
                continue;
            }
            let (wait, bell) = (self.wait_until_due(now), self.bell.clone());
            tokio::select! {
                () = wait_for_write(&mut write) => {
                    write = None;
                    self.pace.record_write(self.clock.now().mono_ms);
                }
                () = bell.notified() => self.schedule_read(),
                () = wait_for_exit(server.as_ref()) => {
                    server = None;
                    self.schedule_read();
                }
                () = wait => {}
            }
        }
    }

    fn listen(&self) -> Option<oneshot::Receiver<()>> {
        self.panes.next_write(self.terminal.as_deref()?)
    }

    /// Waits until the next action is due.
    fn wait_until_due(&self, now_ms: u64) -> impl Future<Output = ()> + use<> {
        let due = self.pace.next_ms().into_iter().chain(self.read_at_ms).min();
        let left = due.map(|due| due.saturating_sub(now_ms));
        async move {
            match left {
                Some(left) => supervised_command::sleep(Duration::from_millis(left)).await,
                None => std::future::pending().await,
            }
        }
    }

    fn schedule_read(&mut self) {
        let soon = self.clock.now().mono_ms + READ_DELAY_MS;
        self.read_at_ms = Some(self.read_at_ms.map_or(soon, |due| due.min(soon)));
    }

    /// Reads the pane itself, and schedules the next read.
    async fn read_pane(&mut self) -> PaneRead {
        let place = self.place.clone();
        let looked = supervised_command::blocking(move || place.look()).await;
        let now = self.clock.now().mono_ms;
        self.read_at_ms = None;
        let mut news = false;
        let sight = match &looked {
            PaneRead::Present(found) => {
                self.terminal = Some(found.pane.tty.clone());
                news |= self.take_content(found, now).await;
                found.sight
            }
            PaneRead::Unavailable | PaneRead::Gone => PaneState::Gone,
        };
        if sight != PaneState::Open {
            self.read_at_ms.get_or_insert(now + READ_INTERVAL_MS);
        }
        if self.reported.replace(sight) != Some(sight) {
            news = true;
            let launch = self.launch;
            self.observations
                .send(launch.session, SessionCommand::PaneSeen { launch, sight })
                .await;
        }
        self.pace.record_read(now, news);
        looked
    }

    /// Processes the content of the pane, and returns whether it is new. A frame counts only once
    /// it has been seen twice.
    async fn take_content(&mut self, found: &PaneContent, now: u64) -> bool {
        let titled = self.hints.title(&found.pane.title, found.reading.as_ref());
        let framed = found.reading.clone().and_then(|reading| self.hints.frame(reading));
        if found.reading.as_ref().is_some_and(|reading| !self.hints.agrees(reading)) {
            self.read_at_ms = Some(now + READ_DELAY_MS);
        }
        let news = titled.is_some() || framed.is_some();
        for guess in titled.into_iter().chain(framed) {
            self.report_inferred(guess).await;
        }
        news
    }

    async fn report_inferred(&self, InferredState { by, place, what }: InferredState) {
        let launch = self.launch;
        self.observations
            .send(launch.session, SessionCommand::ScreenHinted { launch, by, place, what })
            .await;
    }
}

/// Waits until something is written to the terminal.
async fn wait_for_write(write: &mut Option<oneshot::Receiver<()>>) {
    match write {
        // A dropped sender is also a reason to read the pane.
        Some(write) => write.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// Waits until a process has exited.
async fn wait_for_exit(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        // A process that cannot be waited for is probed instead.
        Some(process) => drop(process.readable().await),
        None => std::future::pending().await,
    }
}

fn open_pidfd(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    poll_fd(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}
