//! Watches an external agent: its process through a pidfd, and its transcript through the file.
//!
//! Only the agent's parent process receives its exit code, so it cannot be observed here.

use std::{io, os::fd::OwnedFd, time::Duration};

use provost_agent::Adapters;
use provost_core::{
    ids::LaunchId,
    session::{LaunchPhase, Session, SessionCommand},
};
use provost_sys::{
    process::ProcessInstance,
    stat::{ProcessState, process_state},
};
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
    thread_switch::ThreadSwitches,
    transcript::{TranscriptContext, TranscriptSource, TranscriptWatcher},
};

/// How long to wait before probing a process again that could not be probed.
const PROBE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How often to check whether a process was suspended, which no descriptor reports.
const STOP_POLL: Duration = Duration::from_millis(1_500);

/// The reason reported for the end of a process that Provost did not start.
const EXIT_UNKNOWN: &str = "it was started outside Provost, so its exit status is unknown";

/// Watches one adopted launch.
pub(crate) struct ExternalAgentWatch {
    launch: LaunchId,
    process: Option<ProcessInstance>,
    record: Option<TranscriptWatcher>,
    pane: Option<PaneWatch>,
    observations: ObservationSender,
    census: Census,
    reported_unknown: bool,
    /// Why nothing but the process can be observed, if the agent's adapter is unknown.
    unknown_adapter: Option<String>,
    suspended: bool,
}

/// How the end of a process became known.
enum EndSource {
    /// The kernel reported the end, through the pidfd of exactly this process.
    Exited,
    /// A probe did not find the process.
    NotFound,
}

/// The result of probing a process.
enum ProcessProbe {
    Ended,
    Runs { stopped: bool },
}

/// The parts of the engine that a watcher needs.
pub(crate) struct WatchContext<'a> {
    pub(crate) adapters: &'a Adapters,
    pub(crate) panes: &'a PaneRegistry,
    pub(crate) moves: &'a ThreadSwitches,
    pub(crate) handle: EngineHandle,
    pub(crate) observations: ObservationSender,
    pub(crate) clock: Clock,
    pub(crate) census: Census,
}

impl ExternalAgentWatch {
    pub(crate) fn new(
        session: &Session,
        launch: LaunchId,
        context: WatchContext<'_>,
    ) -> Option<ExternalAgentWatch> {
        let WatchContext { adapters, panes, moves, handle, observations, clock, census } = context;
        let adapter = adapters.get(&session.spec.agent.interface);
        let unknown_adapter = adapter.as_ref().err().map(ToString::to_string);
        let adapter = adapter.ok();
        let adopted = session.spec.adopted.as_deref()?;
        let recorded = session.launch(launch)?;
        let LaunchPhase::Running { child, .. } = &recorded.phase else { return None };
        let process = child.as_ref().map(supervised_command::to_holder_identity);
        let source = match (&adopted.rollout, process.clone()) {
            (Some(path), writer) => Some(TranscriptSource::File(path.into(), writer)),
            // An agent may create its transcript only when it receives the first prompt.
            (None, Some(writer)) if session.spec.agent.interface.has_transcript() => {
                Some(TranscriptSource::WrittenBy(writer))
            }
            (None, _) => None,
        };
        let pane = adapter.and_then(|adapter| {
            PaneWatch::new(session, launch, adapter, panes.clone(), observations.clone(), clock)
        });
        let store = adapter.and_then(|adapter| adapter.transcripts());
        let record = store.zip(source).map(|(store, source)| {
            let observations = observations.clone();
            let context = TranscriptContext { store, moves, handle, observations, clock };
            TranscriptWatcher::new(session, launch, source, context)
        });
        Some(ExternalAgentWatch {
            launch,
            process,
            record,
            pane,
            observations,
            census,
            reported_unknown: false,
            unknown_adapter,
            suspended: recorded.watch.suspended,
        })
    }

    /// Watches until the process has exited. A transcript whose process is unknown is watched forever.
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
                self.observations.send(launch.session, ended).await;
            }
        }
    }

    async fn wait_for_end(&mut self) {
        let Some(process) = self.process.clone() else {
            // The agent's process is unknown, so the agent never counts as dead.
            if let Some(why) = self.unknown_adapter.clone() {
                self.report_unknown(why).await;
            }
            self.census.mark_alive(self.launch);
            return std::future::pending().await;
        };
        loop {
            let why = match self.watch(&process).await {
                Ok(EndSource::Exited) => return,
                Ok(EndSource::NotFound) => match self.census.confirm_death(self.launch).await {
                    Ok(()) => return,
                    Err(why) => provost_sys::error_chain(&why),
                },
                Err(why) => why.to_string(),
            };
            self.report_unknown(why).await;
            supervised_command::sleep(PROBE_RETRY_DELAY).await;
        }
    }

    /// Returns when the process has exited. Fails if the process cannot be probed.
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
        if let Some(why) = self.unknown_adapter.clone() {
            self.report_unknown(why).await;
        } else if std::mem::take(&mut self.reported_unknown) {
            self.observations.send(launch.session, SessionCommand::ProcessSeen { launch }).await;
        }
        if std::mem::replace(&mut self.suspended, stopped) != stopped {
            let suspended = SessionCommand::ProcessSuspended { launch, suspended: stopped };
            self.observations.send(launch.session, suspended).await;
        }
    }

    async fn report_unknown(&mut self, why: String) {
        if !std::mem::replace(&mut self.reported_unknown, true) {
            let launch = self.launch;
            self.observations
                .send(launch.session, SessionCommand::ProcessUnknown { launch, why })
                .await;
        }
    }
}

/// Opens a pidfd for the process. `None` if the process has exited.
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
    let state = process_state(process)?;
    let found = |state| ProcessProbe::Runs { stopped: state == ProcessState::Stopped };
    Ok(state.map_or(ProcessProbe::Ended, found))
}
