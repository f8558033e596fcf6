//! Watches an external agent: its process by a pidfd, its transcript by its file.
//!
//! Its exit code goes to its parent process and cannot be seen here.

use std::{io, os::fd::OwnedFd, time::Duration};

use provost_core::{
    ids::LaunchId,
    session::{Command, Driver, LaunchPhase, Session},
};
use provost_holder::Identity;
use provost_watch::process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::{
    census::Census,
    clock::Clock,
    handle::{Handle, Teller},
    held,
    panes::{PaneWatch, Panes},
};
use super::{
    others::Moves,
    polled::polled,
    rollout::{RolloutWatch, Wanted},
};

/// The wait before a process that could not be probed is probed again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The interval of checks whether a process was stopped, which no descriptor reports.
const STOPPED: Duration = Duration::from_millis(1_500);

/// The reported reason for the end of a process that is not Provost's.
const UNSEEN: &str = "it was started outside Provost, so its exit status is unknown";

/// Watches one adopted launch.
pub(crate) struct Adopted {
    launch: LaunchId,
    process: Option<Identity>,
    record: Option<RolloutWatch>,
    pane: Option<PaneWatch>,
    teller: Teller,
    census: Census,
    lost_sight: bool,
    suspended: bool,
}

/// The source of a process end.
enum Seen {
    /// The kernel, by the pidfd of that very process.
    ToEnd,
    /// A probe that did not find it.
    Gone,
}

/// The result of probing a process.
enum Look {
    Ended,
    Runs { stopped: bool },
}

/// The parts of the engine that a watcher needs.
pub(crate) struct WatchContext<'a> {
    pub(crate) panes: &'a Panes,
    pub(crate) moves: &'a Moves,
    pub(crate) handle: Handle,
    pub(crate) teller: Teller,
    pub(crate) clock: Clock,
    pub(crate) census: Census,
}

impl Adopted {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        context: WatchContext<'_>,
    ) -> Option<Adopted> {
        let WatchContext { panes, moves, handle, teller, clock, census } = context;
        let adopted = session.spec.adopted.as_deref()?;
        let recorded = session.launch(launch)?;
        let LaunchPhase::Running { child, .. } = &recorded.phase else { return None };
        let process = child.as_ref().map(held::theirs);
        let writer = process.clone().map(|Identity { pid, start_time, boot_id }| {
            process::Identity { pid, start_time, boot_id }
        });
        let file = match (&adopted.rollout, writer) {
            (Some(path), writer) => Some(Wanted::File(path.into(), writer)),
            // Codex starts to write with its first prompt.
            (None, Some(writer)) if session.spec.agent.driver == Driver::CodexTerminal => {
                Some(Wanted::Written(writer))
            }
            (None, _) => None,
        };
        let pane = PaneWatch::new(session, launch, panes.clone(), teller.clone(), clock);
        let record = file.map(|wanted| {
            RolloutWatch::new(session, launch, wanted, moves, handle, teller.clone(), clock)
        });
        Some(Adopted {
            launch,
            process,
            record,
            pane,
            teller,
            census,
            lost_sight: false,
            suspended: recorded.watch.suspended,
        })
    }

    /// Watches until the process has ended. A transcript without a known process is watched for
    /// ever.
    pub(crate) async fn run(mut self) {
        let record = self.record.take();
        let record = async {
            match record {
                Some(record) => record.run().await,
                None => std::future::pending().await,
            }
        };
        let pane = self.pane.take();
        let pane = async {
            match pane {
                Some(pane) => pane.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = record => {}
            () = pane => {}
            () = self.until_it_ends() => {
                let (launch, why) = (self.launch, UNSEEN.to_owned());
                let ended = Command::ProcessUnobserved { launch, why };
                self.teller.tell(launch.session, ended).await;
            }
        }
    }

    async fn until_it_ends(&mut self) {
        let Some(process) = self.process.clone() else {
            // Its process is unknown, so it is never taken for dead.
            self.census.alive(self.launch);
            return std::future::pending().await;
        };
        loop {
            let why = match self.watch(&process).await {
                Ok(Seen::ToEnd) => return,
                Ok(Seen::Gone) => match self.census.believe(self.launch).await {
                    Ok(()) => return,
                    Err(why) => held::chain(&why),
                },
                Err(why) => why.to_string(),
            };
            self.lose_sight(why).await;
            held::pause(LOOK_AGAIN).await;
        }
    }

    /// Returns when the process has ended. It is an error if it cannot be probed.
    async fn watch(&mut self, process: &Identity) -> io::Result<Seen> {
        let Some(pidfd) = opened(process)? else { return Ok(Seen::Gone) };
        self.census.alive(self.launch);
        let pidfd = polled(pidfd)?;
        loop {
            match looked(process)? {
                Look::Ended => return Ok(Seen::ToEnd),
                Look::Runs { stopped } => self.runs(stopped).await,
            }
            tokio::select! {
                ended = pidfd.readable() => drop(ended?),
                () = held::pause(STOPPED) => {}
            }
        }
    }

    async fn runs(&mut self, stopped: bool) {
        let launch = self.launch;
        if std::mem::take(&mut self.lost_sight) {
            self.teller.tell(launch.session, Command::ProcessSeen { launch }).await;
        }
        if std::mem::replace(&mut self.suspended, stopped) != stopped {
            let suspended = Command::ProcessSuspended { launch, suspended: stopped };
            self.teller.tell(launch.session, suspended).await;
        }
    }

    async fn lose_sight(&mut self, why: String) {
        if !std::mem::replace(&mut self.lost_sight, true) {
            let launch = self.launch;
            self.teller.tell(launch.session, Command::ProcessUnknown { launch, why }).await;
        }
    }
}

/// Opens a pidfd of the process. `None` if it has ended.
fn opened(process: &Identity) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        // The pid may have been reused between the two calls.
        Ok(pidfd) => Ok(process.is_alive()?.then_some(pidfd)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

fn looked(process: &Identity) -> io::Result<Look> {
    if !process.is_alive()? {
        return Ok(Look::Ended);
    }
    let Identity { pid, start_time, boot_id } = process.clone();
    let state = process::state(&process::Identity { pid, start_time, boot_id })?;
    let found = |state| Look::Runs { stopped: state == process::State::Stopped };
    Ok(state.map_or(Look::Ended, found))
}
