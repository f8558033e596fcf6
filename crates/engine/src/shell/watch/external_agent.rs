//! Watches an external agent: its process by a pidfd, its transcript by its file.
//!
//! Its exit code goes to its parent process and cannot be seen here.

use std::{io, os::fd::OwnedFd, time::Duration};

use provost_core::{
    ids::LaunchId,
    session::{Driver, LaunchPhase, Session, SessionCommand},
};
use provost_holder::ProcessInstance;
use provost_watch::process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::{
    census::Census,
    clock::Clock,
    handle::{EngineHandle, ObservationSender},
    panes::{PaneRegistry, PaneWatch},
    supervised_command,
};
use super::{
    poll_fd::poll_fd,
    rollout::{RolloutSource, RolloutWatch},
    thread_switch::ThreadSwitches,
};

/// The wait before a process that could not be probed is probed again.
const PROBE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The interval of checks whether a process was stopped, which no descriptor reports.
const STOP_POLL: Duration = Duration::from_millis(1_500);

/// The reported reason for the end of a process that is not Provost's.
const EXIT_UNKNOWN: &str = "it was started outside Provost, so its exit status is unknown";

/// Watches one adopted launch.
pub(crate) struct ExternalAgentWatch {
    launch: LaunchId,
    process: Option<ProcessInstance>,
    record: Option<RolloutWatch>,
    pane: Option<PaneWatch>,
    teller: ObservationSender,
    census: Census,
    reported_unknown: bool,
    suspended: bool,
}

/// The source of a process end.
enum EndSource {
    /// The kernel, by the pidfd of that very process.
    Exited,
    /// A probe that did not find it.
    NotFound,
}

/// The result of probing a process.
enum ProcessProbe {
    Ended,
    Runs { stopped: bool },
}

/// The parts of the engine that a watcher needs.
pub(crate) struct WatchContext<'a> {
    pub(crate) panes: &'a PaneRegistry,
    pub(crate) moves: &'a ThreadSwitches,
    pub(crate) handle: EngineHandle,
    pub(crate) teller: ObservationSender,
    pub(crate) clock: Clock,
    pub(crate) census: Census,
}

impl ExternalAgentWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        context: WatchContext<'_>,
    ) -> Option<ExternalAgentWatch> {
        let WatchContext { panes, moves, handle, teller, clock, census } = context;
        let adopted = session.spec.adopted.as_deref()?;
        let recorded = session.launch(launch)?;
        let LaunchPhase::Running { child, .. } = &recorded.phase else { return None };
        let process = child.as_ref().map(supervised_command::to_holder_identity);
        let writer = process.clone().map(|ProcessInstance { pid, start_time, boot_id }| {
            process::PidIdentity { pid, start_time, boot_id }
        });
        let file = match (&adopted.rollout, writer) {
            (Some(path), writer) => Some(RolloutSource::File(path.into(), writer)),
            // Codex starts to write with its first prompt.
            (None, Some(writer)) if session.spec.agent.driver == Driver::CodexTerminal => {
                Some(RolloutSource::WrittenBy(writer))
            }
            (None, _) => None,
        };
        let pane = PaneWatch::new(session, launch, panes.clone(), teller.clone(), clock);
        let record = file.map(|wanted| {
            RolloutWatch::new(session, launch, wanted, moves, handle, teller.clone(), clock)
        });
        Some(ExternalAgentWatch {
            launch,
            process,
            record,
            pane,
            teller,
            census,
            reported_unknown: false,
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
            () = self.wait_for_end() => {
                let (launch, why) = (self.launch, EXIT_UNKNOWN.to_owned());
                let ended = SessionCommand::ProcessUnobserved { launch, why };
                self.teller.send(launch.session, ended).await;
            }
        }
    }

    async fn wait_for_end(&mut self) {
        let Some(process) = self.process.clone() else {
            // Its process is unknown, so it is never taken for dead.
            self.census.mark_alive(self.launch);
            return std::future::pending().await;
        };
        loop {
            let why = match self.watch(&process).await {
                Ok(EndSource::Exited) => return,
                Ok(EndSource::NotFound) => match self.census.confirm_death(self.launch).await {
                    Ok(()) => return,
                    Err(why) => supervised_command::error_chain(&why),
                },
                Err(why) => why.to_string(),
            };
            self.report_unknown(why).await;
            supervised_command::sleep(PROBE_RETRY_DELAY).await;
        }
    }

    /// Returns when the process has ended. It is an error if it cannot be probed.
    async fn watch(&mut self, process: &ProcessInstance) -> io::Result<EndSource> {
        let Some(pidfd) = open_pidfd(process)? else { return Ok(EndSource::NotFound) };
        self.census.mark_alive(self.launch);
        let pidfd = poll_fd(pidfd)?;
        loop {
            match probe_process(process)? {
                ProcessProbe::Ended => return Ok(EndSource::Exited),
                ProcessProbe::Runs { stopped } => self.report_running(stopped).await,
            }
            tokio::select! {
                ended = pidfd.readable() => drop(ended?),
                () = supervised_command::sleep(STOP_POLL) => {}
            }
        }
    }

    async fn report_running(&mut self, stopped: bool) {
        let launch = self.launch;
        if std::mem::take(&mut self.reported_unknown) {
            self.teller.send(launch.session, SessionCommand::ProcessSeen { launch }).await;
        }
        if std::mem::replace(&mut self.suspended, stopped) != stopped {
            let suspended = SessionCommand::ProcessSuspended { launch, suspended: stopped };
            self.teller.send(launch.session, suspended).await;
        }
    }

    async fn report_unknown(&mut self, why: String) {
        if !std::mem::replace(&mut self.reported_unknown, true) {
            let launch = self.launch;
            self.teller.send(launch.session, SessionCommand::ProcessUnknown { launch, why }).await;
        }
    }
}

/// Opens a pidfd of the process. `None` if it has ended.
fn open_pidfd(process: &ProcessInstance) -> io::Result<Option<OwnedFd>> {
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

fn probe_process(process: &ProcessInstance) -> io::Result<ProcessProbe> {
    if !process.is_alive()? {
        return Ok(ProcessProbe::Ended);
    }
    let ProcessInstance { pid, start_time, boot_id } = process.clone();
    let state = process::process_state(&process::PidIdentity { pid, start_time, boot_id })?;
    let found = |state| ProcessProbe::Runs { stopped: state == process::ProcessState::Stopped };
    Ok(state.map_or(ProcessProbe::Ended, found))
}
