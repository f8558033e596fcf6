//! Determines who owns the home's ledger. The owner is read from the lock itself, so that an unreachable daemon is not
//! mistaken for a stopped one.

use std::{fs::File, io, path::Path};

use provost_api::{ApiError, ErrorCode};
use provost_holder::ProcessInstance;
use provost_sys::process::command_line;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use crate::home::ProvostHome;

/// The process that may currently write to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerOwner {
    Unowned,
    Daemon(ProcessInstance),
    /// A command that accesses the ledger directly, or a process that is about to exit.
    Other,
}

impl LedgerOwner {
    /// Reads the lock. This is safe while a daemon is starting, because the daemon retries if this
    /// shared lock gets in its way.
    pub(crate) fn read(home: &ProvostHome) -> Result<LedgerOwner, ApiError> {
        let path = home.ledger().join("ledger.lock");
        read_lock(&path).map_err(|why| {
            let message = format!("cannot read the ledger's lock {}: {why}", path.display());
            ApiError::new(ErrorCode::Storage, message).next("provost doctor")
        })
    }

    /// Sends a signal to the daemon that owns the ledger, through a pidfd. Returns whether the daemon was running.
    pub(crate) fn signal(daemon: &ProcessInstance, signal: Signal) -> io::Result<bool> {
        let raw = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or(io::ErrorKind::InvalidInput)?;
        let process = match pidfd_open(raw, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(false),
            opened => opened?,
        };
        // The process is checked after the pidfd was opened, so that another process that reuses the pid never gets the
        // signal.
        if !daemon.is_alive()? {
            return Ok(false);
        }
        match pidfd_send_signal(&process, signal) {
            Err(Errno::SRCH) => Ok(false),
            sent => Ok(sent.map(|()| true)?),
        }
    }
}

/// Returns the error for a running daemon that does not respond on its socket.
pub(crate) fn unresponsive_error(home: &ProvostHome, daemon: &ProcessInstance) -> ApiError {
    let message = format!(
        "the daemon is running (process {}), but does not respond at {}",
        daemon.pid,
        home.socket().display()
    );
    ApiError::new(ErrorCode::Unreachable, message).next("provost daemon stop")
}

fn read_lock(path: &Path) -> io::Result<LedgerOwner> {
    let file = match File::open(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(LedgerOwner::Unowned),
        opened => opened?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            flock(&file, FlockOperation::Unlock)?;
            return Ok(LedgerOwner::Unowned);
        }
        Err(Errno::WOULDBLOCK) => {}
        Err(why) => return Err(why.into()),
    }
    let daemon = provost_sys::lock::owners_of(path)?.into_iter().find_map(daemon_process);
    Ok(daemon.map_or(LedgerOwner::Other, LedgerOwner::Daemon))
}

/// Returns the process that holds the lock, if its command line is that of a daemon. The command
/// line must suffice, because a daemon's open files cannot be inspected.
fn daemon_process(pid: u32) -> Option<ProcessInstance> {
    let process = ProcessInstance::of_pid(pid).ok().flatten()?;
    let words = command_line(pid).ok()?;
    let serves = words.windows(2).any(|pair| pair == ["daemon", "run"]);
    (serves && process.is_alive().unwrap_or(false)).then_some(process)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lock_of_another_process_is_not_a_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.lock");
        assert_eq!(read_lock(&path).unwrap(), LedgerOwner::Unowned, "there is no ledger");
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        assert_eq!(read_lock(&path).unwrap(), LedgerOwner::Unowned);
        let held = File::open(&path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(read_lock(&path).unwrap(), LedgerOwner::Other, "this test is not a daemon");
        drop(held);
        assert_eq!(read_lock(&path).unwrap(), LedgerOwner::Unowned);
    }
}
