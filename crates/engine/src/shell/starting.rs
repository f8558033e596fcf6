//! Launches that are being started, and why one was not.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::{
    ids::LaunchId,
    session::{self, Command, Effect, Session},
    shortage::Shortage,
};
use provost_holder::{End, ExitRecord};

use super::held::{self, NoneLeft, chain};

/// The interval between checks whether a start is over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The launches that are being started, so that a stop does not overtake a start.
#[derive(Clone, Debug, Default)]
pub(super) struct Starting(Arc<Mutex<BTreeSet<LaunchId>>>);

pub(super) struct Start {
    starting: Starting,
    launch: LaunchId,
}

impl Starting {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<LaunchId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, launch: LaunchId) -> Start {
        self.lock().insert(launch);
        Start { starting: self.clone(), launch }
    }

    /// Waits until no start of the launch is in progress.
    pub(super) async fn wait_for(&self, launch: LaunchId) {
        while self.lock().contains(&launch) {
            held::pause(LOOK_AGAIN).await;
        }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.starting.lock().remove(&self.launch);
    }
}

/// Why a launch was not started.
pub(super) struct NotLaunched {
    pub(super) reason: String,
    pub(super) shortage: Option<Shortage>,
    /// Whether something may have been started.
    pub(super) begun: bool,
}

impl From<String> for NotLaunched {
    fn from(reason: String) -> NotLaunched {
        NotLaunched { shortage: Shortage::from_text(&reason), reason, begun: true }
    }
}

/// Shortages are detected before anything is started.
impl From<Shortage> for NotLaunched {
    fn from(shortage: Shortage) -> NotLaunched {
        let reason = shortage.detail.clone();
        NotLaunched { reason, shortage: Some(shortage), begun: false }
    }
}

impl From<held::Error> for NotLaunched {
    fn from(why: held::Error) -> NotLaunched {
        chain(&why).into()
    }
}

/// Reports that an effect waits for a resource.
pub(super) fn short(session: &Session, effect: &Effect, shortage: Shortage) -> Command {
    let effect = effect.key();
    Command::EffectShort { tries: session.tries_of(&effect), effect, shortage }
}

/// Checks whether an external agent is alive. One that has ended meanwhile is not adopted.
pub(super) async fn adopt(launch: LaunchId, adopted: &session::Adopted) -> Command {
    let Some(process) = adopted.process.clone() else {
        return Command::LaunchAdopted { launch, child: None };
    };
    let known = held::theirs(&process);
    match held::blocking(move || known.is_alive()).await {
        Ok(true) => Command::LaunchAdopted { launch, child: Some(process) },
        Ok(false) => {
            let reason = format!("process {} has ended before it was watched", process.pid);
            Command::LaunchFailed { launch, reason }
        }
        // It is watched from now on, and probed until it is seen.
        Err(_) => Command::LaunchAdopted { launch, child: Some(process) },
    }
}

/// Reports the result of a launch that is gone completely and was never recorded as running.
pub(super) fn not_launched(launch: LaunchId, reason: String, none_left: &NoneLeft) -> Command {
    if none_left.ran() {
        Command::ProcessUnobserved { launch, why: reason }
    } else {
        Command::LaunchFailed { launch, reason }
    }
}

/// Describes why a command was not started.
pub(super) fn not_started(exit: &ExitRecord) -> String {
    match &exit.end {
        End::NotStarted { error } => error.clone(),
        End::Exited { .. } | End::Signalled { .. } => exit.to_string(),
    }
}
