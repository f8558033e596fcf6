//! The command's own process. Its exit is first observed without reaping it. It is reaped only
//! after its group has been signalled for the last time, so that the group's id cannot be reused
//! before then.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;

use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, pidfd_open, waitid, waitpid,
};

use provost_sandbox::enter::SandboxOrder;
use provost_sandbox::status::{self, SandboxStart};

use super::output::is_transient;
use super::stops::{StopChange, StopWatch};
use crate::clock::wall_ms;
use crate::record::{EndCause, ExitRecord, ProcessEnd, RECORD_VERSION};

pub(super) struct CommandLeader {
    pub(super) pid: Pid,
    /// Whether `exit.json` has been written.
    pub(super) recorded: bool,
    /// `None` only if the kernel provides no pidfd. In that case, the exit is detected by polling.
    pidfd: Option<OwnedFd>,
    /// `None` if the watch could not be started, or has stopped.
    stops: Option<StopWatch>,
    /// Whether the leader is stopped by a signal. `None` if it never was.
    suspended: Option<bool>,
    ended: Option<LeaderEnd>,
    /// The status file of the command's sandbox, if it has one.
    sandbox: Option<PathBuf>,
}

struct LeaderEnd {
    end: ProcessEnd,
    wall_ms: u64,
    mono_ms: u64,
}

impl CommandLeader {
    pub(super) fn new(child: &Child, sandbox: Option<&SandboxOrder>) -> Self {
        let pid = Pid::from_child(child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
        let stops = StopWatch::watch(pid).ok();
        let sandbox = sandbox.map(|order| order.status.clone());
        Self { pid, recorded: false, pidfd, stops, suspended: None, ended: None, sandbox }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the time at which the exit was observed, on the monotonic clock.
    pub(super) fn ended_at(&self) -> Option<u64> {
        self.ended.as_ref().map(|ended| ended.mono_ms)
    }

    /// Returns the descriptor to poll while the leader is running.
    pub(super) fn handle(&self) -> Option<&OwnedFd> {
        if self.has_ended() { None } else { self.pidfd.as_ref() }
    }

    /// Whether the leader is running without a descriptor to poll.
    pub(super) fn is_unwatched(&self) -> bool {
        self.pidfd.is_none() && !self.has_ended()
    }

    /// Returns the descriptor to poll for stop and continue signals.
    pub(super) fn stops(&self) -> Option<BorrowedFd<'_>> {
        self.stops.as_ref().map(StopWatch::handle)
    }

    /// Returns the next observed stop or continue.
    pub(super) fn next_change(&mut self) -> Option<StopChange> {
        match self.stops.as_mut()?.take() {
            Ok(Some(change)) => return Some(change),
            Err(error) if is_transient(&error) => {}
            Ok(None) | Err(_) => self.stops = None,
        }
        None
    }

    /// Whether the leader is stopped now. `None` if it never was.
    pub(super) fn suspended(&self) -> Option<bool> {
        self.suspended
    }

    pub(super) fn set_suspended(&mut self, suspended: bool) {
        self.suspended = Some(suspended);
    }

    /// Checks whether the leader has exited.
    pub(super) fn check_ended(&mut self, now: u64) {
        if self.has_ended() {
            return;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), options) {
            self.ended =
                Some(LeaderEnd { end: end_from_status(&status), wall_ms: wall_ms(), mono_ms: now });
        }
    }

    /// Returns the record of the leader's exit, once it has exited.
    pub(super) fn record(&self, ended_by: EndCause, journal_end: u64) -> Option<ExitRecord> {
        let ended = self.ended.as_ref()?;
        let failed = (ended_by == EndCause::Itself).then(|| self.failed_sandbox(&ended.end));
        Some(ExitRecord {
            version: RECORD_VERSION,
            end: failed.flatten().unwrap_or_else(|| ended.end.clone()),
            ended_by,
            wall_ms: ended.wall_ms,
            mono_ms: ended.mono_ms,
            journal_end,
        })
    }

    /// Returns the end of a command that was not executed, because its sandbox could not be created.
    fn failed_sandbox(&self, end: &ProcessEnd) -> Option<ProcessEnd> {
        let status = self.sandbox.as_deref()?;
        let ProcessEnd::Exited { code } = end else { return None };
        let entered = matches!(status::read(status), Ok(SandboxStart::Entered));
        (!entered).then(|| ProcessEnd::NotStarted {
            error: format!(
                "the sandbox could not be created (exit code {code}); its output shows the reason"
            ),
        })
    }

    /// Reaps the process. A second call does nothing.
    pub(super) fn reap(&self) {
        waitpid(Some(self.pid), WaitOptions::NOHANG).ok();
    }
}

fn end_from_status(status: &WaitIdStatus) -> ProcessEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessEnd::Exited { code },
        (None, signal) => ProcessEnd::Signalled { signal: signal.unwrap_or_default() },
    }
}
