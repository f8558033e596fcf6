//! Watches the pane of one adopted launch: its screen signals, and whether it can be typed into.

use std::{io, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};

use provost_core::{
    ids::LaunchId,
    session::{Command, PaneSight, Session},
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, oneshot},
};

use super::{
    super::{
        clock::Clock,
        handle::Teller,
        held,
        watch::{Guess, Hints, polled},
    },
    hub::Panes,
    pace::{Pace, SOON_MS},
    place::{Found, Looked, Place},
};

/// The read interval of a pane that cannot be typed into, or whose writes the kernel does not
/// report.
const LOOK_AGAIN_MS: u64 = 2_000;

pub(crate) struct PaneWatch {
    launch: LaunchId,
    place: Place,
    hints: Hints,
    panes: Panes,
    bell: Arc<Notify>,
    teller: Teller,
    clock: Clock,
    told: Option<PaneSight>,
    /// The terminal that the agent writes to, once the pane was seen.
    terminal: Option<PathBuf>,
    pace: Pace,
    /// When the pane is to be read, whatever is written there.
    look_ms: Option<u64>,
}

impl PaneWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        panes: Panes,
        teller: Teller,
        clock: Clock,
    ) -> Option<PaneWatch> {
        let place = Place::of(session)?;
        let watch = &session.launch(launch)?.watch;
        // A position in its stream that no earlier daemon reported.
        let shown = watch.hints.values().map(|seen| seen.place).max().unwrap_or(0);
        Some(PaneWatch {
            launch,
            place,
            hints: Hints::after(session, shown),
            bell: panes.bell(launch),
            panes,
            teller,
            clock,
            told: watch.pane,
            terminal: None,
            pace: Pace::default(),
            look_ms: Some(0),
        })
    }

    /// Watches as long as it is polled. A missing pane or server ends nothing else.
    pub(crate) async fn run(mut self) {
        let mut server = self.place.server_pid().and_then(|pid| opened(pid).ok());
        let mut write = None;
        loop {
            let now = self.clock.now().mono_ms;
            self.pace.pass(now);
            let due = self.pace.is_due(now) || self.look_ms.is_some_and(|due| due <= now);
            if due || self.pace.wants_to_listen(now) {
                // Listening before the read misses no write after it.
                write = self.listen();
                self.pace.listens(now);
            }
            if due {
                let unheard = self.terminal.is_none();
                if matches!(self.look().await, Looked::Never) {
                    return std::future::pending().await;
                }
                if unheard && self.terminal.is_some() {
                    // Something may have been written between the first read and the first
                    // listening.
                    self.look_soon();
                } else if write.is_none() {
                    self.look_ms.get_or_insert(now + LOOK_AGAIN_MS);
                }
                continue;
            }
            let (wait, bell) = (self.wait(now), self.bell.clone());
            tokio::select! {
                () = written(&mut write) => {
                    write = None;
                    self.pace.wrote(self.clock.now().mono_ms);
                }
                () = bell.notified() => self.look_soon(),
                () = ended(server.as_ref()) => {
                    server = None;
                    self.look_soon();
                }
                () = wait => {}
            }
        }
    }

    fn listen(&self) -> Option<oneshot::Receiver<()>> {
        self.panes.next_write(self.terminal.as_deref()?)
    }

    /// Waits until the next action is due.
    fn wait(&self, now_ms: u64) -> impl Future<Output = ()> + use<> {
        let due = self.pace.next_ms().into_iter().chain(self.look_ms).min();
        let left = due.map(|due| due.saturating_sub(now_ms));
        async move {
            match left {
                Some(left) => held::pause(Duration::from_millis(left)).await,
                None => std::future::pending().await,
            }
        }
    }

    fn look_soon(&mut self) {
        let soon = self.clock.now().mono_ms + SOON_MS;
        self.look_ms = Some(self.look_ms.map_or(soon, |due| due.min(soon)));
    }

    /// Reads the pane itself, and schedules the next read.
    async fn look(&mut self) -> Looked {
        let place = self.place.clone();
        let looked = held::blocking(move || place.look()).await;
        let now = self.clock.now().mono_ms;
        self.look_ms = None;
        let mut news = false;
        let sight = match &looked {
            Looked::There(found) => {
                self.terminal = Some(found.pane.tty.clone());
                news |= self.take(found, now).await;
                found.sight
            }
            Looked::Unseen | Looked::Never => PaneSight::Gone,
        };
        if sight != PaneSight::Open {
            self.look_ms.get_or_insert(now + LOOK_AGAIN_MS);
        }
        if self.told.replace(sight) != Some(sight) {
            news = true;
            let launch = self.launch;
            self.teller.tell(launch.session, Command::PaneSeen { launch, sight }).await;
        }
        self.pace.looked(now, news);
        looked
    }

    /// Takes the content of the pane, and returns whether it is new. A frame counts once it was
    /// seen twice.
    async fn take(&mut self, found: &Found, now: u64) -> bool {
        let titled = self.hints.title(&found.pane.title, found.reading.as_ref());
        let framed = found.reading.clone().and_then(|reading| self.hints.frame(reading));
        if found.reading.as_ref().is_some_and(|reading| !self.hints.agrees(reading)) {
            self.look_ms = Some(now + SOON_MS);
        }
        let news = titled.is_some() || framed.is_some();
        for guess in titled.into_iter().chain(framed) {
            self.guess(guess).await;
        }
        news
    }

    async fn guess(&self, Guess { by, place, what }: Guess) {
        let launch = self.launch;
        self.teller.tell(launch.session, Command::Hinted { launch, by, place, what }).await;
    }
}

/// Waits until the terminal is written to.
async fn written(write: &mut Option<oneshot::Receiver<()>>) {
    match write {
        // A dropped sender is a reason to read, too.
        Some(write) => write.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

/// Waits until a process has ended.
async fn ended(process: Option<&AsyncFd<OwnedFd>>) {
    match process {
        // A process that cannot be waited for is probed.
        Some(process) => drop(process.readable().await),
        None => std::future::pending().await,
    }
}

fn opened(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    polled(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}
