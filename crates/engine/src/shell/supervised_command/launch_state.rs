//! The state of a launch, as its directory and the process table show it.

use std::{path::Path, time::Duration};

use provost_core::{session, shortage::Shortage};
use provost_holder::{
    HeldRecord, LaunchState, ProcessEnd, inspect,
    tree::{self, LaunchTraces},
};
use provost_sys::error_chain;

use super::{
    super::start_record::StartRecord, EXIT_POLLS, Error, SHORTAGE_POLL, START_POLL, START_POLLS,
    STARTING_LIMIT_MS, SURVIVOR_GRACE, WAKE_AFTER_POLLS, blocking, communication_error, sleep,
};

/// Proof that no process of a launch is alive, because the process table was searched. Without this
/// proof, no end may be reported.
#[derive(Debug)]
pub(crate) struct NoProcessLeft {
    pub(super) ended: usize,
}

impl NoProcessLeft {
    /// Whether any process besides a holder was ended.
    pub(crate) fn found_processes(&self) -> bool {
        self.ended > 0
    }
}

/// Reads a launch directory without blocking the runtime.
pub(crate) async fn read_launch(dir: &Path) -> Result<LaunchState, Error> {
    let path = dir.to_owned();
    let found = blocking(move || inspect(&path)).await;
    found.map_err(|source| Error::Read { path: dir.to_owned(), source })
}

/// Reads a started launch until its holder reports the result, but only for a limited time. If the
/// launch is still starting after that, or could not be read the whole time, it will not report on
/// its own.
pub(crate) async fn wait_until_started(dir: &Path) -> Result<LaunchState, Error> {
    let mut looks = 0;
    loop {
        let found = read_launch(dir).await;
        let age_ms = match &found {
            Ok(LaunchState::Starting { age_ms, holder: None }) => *age_ms,
            Ok(LaunchState::Starting { holder: Some(holder), .. }) => {
                if looks >= WAKE_AFTER_POLLS {
                    // A holder that cannot be woken is eventually considered stuck.
                    tree::resume_process(holder).ok();
                }
                0
            }
            // During a shortage, the state of the launch is unknown.
            Err(why) if Shortage::from_text(&error_chain(why)).is_some() => {
                sleep(SHORTAGE_POLL).await;
                continue;
            }
            Err(_) => 0,
            Ok(_) => return found,
        };
        if looks >= START_POLLS || age_ms > STARTING_LIMIT_MS {
            return found;
        }
        looks += 1;
        sleep(START_POLL).await;
    }
}

/// Describes what is wrong with a holder that has been starting for too long.
pub(crate) fn describe_stuck_start(taken: bool) -> String {
    let why = if taken {
        "its holder stopped answering while it started"
    } else {
        "its holder never appeared"
    };
    why.to_owned()
}

/// Returns the traces of a launch that was recorded as running.
pub(crate) fn traces(
    dir: &Path,
    holder: Option<&session::ProcessIdentity>,
    child: Option<&session::ProcessIdentity>,
) -> LaunchTraces {
    LaunchTraces {
        holder: holder.map(to_holder_identity),
        child: child.map(to_holder_identity),
        ..LaunchTraces::with_mark(&launch_mark(dir))
    }
}

/// Converts a recorded process identity to the holder's type.
pub(crate) fn to_holder_identity(
    found: &session::ProcessIdentity,
) -> provost_holder::ProcessInstance {
    provost_holder::ProcessInstance {
        pid: found.pid.unsigned_abs(),
        start_time: found.start_time,
        boot_id: found.boot_id.clone(),
    }
}

/// Ends the remaining processes of a launch whose holder is dead, and returns the result.
pub(crate) async fn end_survivors(traces: &LaunchTraces) -> Result<tree::TreeEndResult, Error> {
    let traces = traces.clone();
    blocking(move || tree::end_all(&traces, SURVIVOR_GRACE)).await.map_err(communication_error)
}

/// Whether the holder died after it recorded the end of the command, so that nothing ends the rest
/// of the process tree. A holder that cannot be probed counts as alive.
pub(crate) fn holder_has_exited(held: Option<&HeldRecord>) -> bool {
    held.is_some_and(|held| matches!(held.holder.is_alive(), Ok(false)))
}

/// Rejects the record of a command that Provost did not start. A holder never records the end of a
/// command without its start.
pub(super) fn verify_record(found: &LaunchState, start: &StartRecord) -> Result<(), String> {
    let held = match found {
        LaunchState::Ended { held: None, exit, .. } => {
            return match exit.end {
                ProcessEnd::NotStarted { .. } => Ok(()),
                ProcessEnd::Exited { .. } | ProcessEnd::Signalled { .. } => {
                    Err("its record shows an end but no start, so it does not count".to_owned())
                }
            };
        }
        LaunchState::Alive { held } | LaunchState::Ended { held: Some(held), .. } => held,
        LaunchState::Absent
        | LaunchState::Starting { .. }
        | LaunchState::HolderDied { .. }
        | LaunchState::OtherBoot { .. } => return Ok(()),
    };
    if start.matches(held) {
        return Ok(());
    }
    Err("its record belongs to another command, so it does not count".to_owned())
}

/// Waits until a holder that recorded the end of its process tree has exited. Returns whether it has.
pub(super) async fn wait_for_holder_exit(held: Option<&HeldRecord>) -> bool {
    let Some(HeldRecord { holder, .. }) = held else { return true };
    for _ in 0..EXIT_POLLS {
        let rebooted = provost_sys::process::boot_id().is_ok_and(|boot| boot != holder.boot_id);
        if rebooted || matches!(holder.is_alive(), Ok(false)) {
            return true;
        }
        sleep(START_POLL).await;
    }
    false
}

/// Returns a launch's mark, which is its key and also the name of its directory.
pub(crate) fn launch_mark(dir: &Path) -> String {
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Ends all remaining processes of a launch. Fails if some of them are still running.
pub(crate) async fn end_all_processes(
    traces: &LaunchTraces,
    grace: Duration,
) -> Result<NoProcessLeft, Error> {
    let traces = traces.clone();
    let ended =
        blocking(move || tree::end_all(&traces, grace)).await.map_err(communication_error)?;
    if ended.verified() {
        Ok(NoProcessLeft { ended: ended.found })
    } else {
        Err(Error::Survivors(ended.remaining.len()))
    }
}

/// Whether a holder recorded the start of its command. If there is an end without a start, the
/// start was withdrawn.
pub(super) fn has_start_record(found: &LaunchState) -> bool {
    match found {
        LaunchState::Alive { .. } => true,
        LaunchState::Ended { held, .. }
        | LaunchState::HolderDied { held, .. }
        | LaunchState::OtherBoot { held, .. } => held.is_some(),
        LaunchState::Absent | LaunchState::Starting { .. } => false,
    }
}
