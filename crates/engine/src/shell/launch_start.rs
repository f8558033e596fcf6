//! Tracks launches that are being started, and describes why a launch was not started.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::{
    ids::LaunchId,
    session::{self, Session, SessionCommand, SessionEffect},
    shortage::Shortage,
};
use provost_holder::{ExitRecord, ProcessEnd};

use provost_sys::error_chain;

use super::supervised_command::{self, NoProcessLeft};

/// How often to check whether a start is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The launches that are being started, so that a stop does not overtake a start.
#[derive(Clone, Debug, Default)]
pub(super) struct StartingLaunches(Arc<Mutex<BTreeSet<LaunchId>>>);

pub(super) struct StartGuard {
    starting: StartingLaunches,
    launch: LaunchId,
}

impl StartingLaunches {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<LaunchId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, launch: LaunchId) -> StartGuard {
        self.lock().insert(launch);
        StartGuard { starting: self.clone(), launch }
    }

    /// Waits until no start of the launch is in progress.
    pub(super) async fn wait_for(&self, launch: LaunchId) {
        while self.lock().contains(&launch) {
            supervised_command::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        self.starting.lock().remove(&self.launch);
    }
}

/// Why a launch was not started.
pub(super) struct LaunchError {
    pub(super) reason: String,
    pub(super) shortage: Option<Shortage>,
    /// Whether a process may have been started.
    pub(super) may_have_started: bool,
}

impl From<String> for LaunchError {
    fn from(reason: String) -> LaunchError {
        LaunchError { shortage: Shortage::from_text(&reason), reason, may_have_started: true }
    }
}

/// Shortages are detected before anything is started, so no process can have been started.
impl From<Shortage> for LaunchError {
    fn from(shortage: Shortage) -> LaunchError {
        let reason = shortage.detail.clone();
        LaunchError { reason, shortage: Some(shortage), may_have_started: false }
    }
}

impl From<supervised_command::Error> for LaunchError {
    fn from(why: supervised_command::Error) -> LaunchError {
        error_chain(&why).into()
    }
}

/// Reports that an effect is waiting for a resource.
pub(super) fn effect_short(
    session: &Session,
    effect: &SessionEffect,
    shortage: Shortage,
) -> SessionCommand {
    let effect = effect.key();
    SessionCommand::EffectShortage { tries: session.tries_of(&effect), effect, shortage }
}

/// Checks whether an external agent is still alive. If it has exited in the meantime, it is not adopted.
pub(super) async fn adopt_launch(
    launch: LaunchId,
    adopted: &session::ExternalAgent,
) -> SessionCommand {
    let Some(process) = adopted.process.clone() else {
        return SessionCommand::LaunchAdopted { launch, child: None };
    };
    let known = supervised_command::to_holder_identity(&process);
    match supervised_command::blocking(move || known.is_alive()).await {
        Ok(true) => SessionCommand::LaunchAdopted { launch, child: Some(process) },
        Ok(false) => {
            let reason = format!("process {} has ended before it was watched", process.pid);
            SessionCommand::LaunchFailed { launch, reason }
        }
        // Watch the agent from now on, and probe it until it can be observed.
        Err(_) => SessionCommand::LaunchAdopted { launch, child: Some(process) },
    }
}

/// Reports the result of a launch that was never recorded as running and whose processes are all gone.
pub(super) fn failed_launch_command(
    launch: LaunchId,
    reason: String,
    none_left: &NoProcessLeft,
) -> SessionCommand {
    if none_left.found_processes() {
        SessionCommand::ProcessUnobserved { launch, why: reason }
    } else {
        SessionCommand::LaunchFailed { launch, reason }
    }
}

/// Describes why a command was not started.
pub(super) fn describe_not_started(exit: &ExitRecord) -> String {
    match &exit.end {
        ProcessEnd::NotStarted { error } => error.clone(),
        ProcessEnd::Exited { .. } | ProcessEnd::Signalled { .. } => exit.to_string(),
    }
}
