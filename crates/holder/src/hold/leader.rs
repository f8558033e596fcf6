//! The command's own process. Its end is seen without reaping it: it is reaped when its group has been
//! signalled for the last time, so that the group's id stays its own.

use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, pidfd_open, waitid, waitpid,
};

use crate::clock::wall_ms;
use crate::record::{End, EndedBy, ExitRecord, RECORD_VERSION};

pub(super) struct Leader {
    pub(super) pid: Pid,
    /// Whether `exit.json` is written.
    pub(super) recorded: bool,
    /// Absent only if the kernel gave none; the end is then looked for now and then.
    pidfd: Option<OwnedFd>,
    ended: Option<Ended>,
}

struct Ended {
    end: End,
    wall_ms: u64,
    mono_ms: u64,
}

impl Leader {
    pub(super) fn new(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        Self { pid, recorded: false, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(), ended: None }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// When the end was seen, on the monotonic clock.
    pub(super) fn ended_at(&self) -> Option<u64> {
        self.ended.as_ref().map(|ended| ended.mono_ms)
    }

    /// What to wait for, as long as it runs.
    pub(super) fn handle(&self) -> Option<&OwnedFd> {
        if self.has_ended() { None } else { self.pidfd.as_ref() }
    }

    /// Whether it runs and there is nothing to wait for.
    pub(super) fn is_unwatched(&self) -> bool {
        self.pidfd.is_none() && !self.has_ended()
    }

    /// Looks whether it ended.
    pub(super) fn look(&mut self, now: u64) {
        if self.has_ended() {
            return;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), options) {
            self.ended = Some(Ended { end: end_of(&status), wall_ms: wall_ms(), mono_ms: now });
        }
    }

    /// The record of its end, once there is one.
    pub(super) fn record(&self, ended_by: EndedBy, journal_end: u64) -> Option<ExitRecord> {
        let ended = self.ended.as_ref()?;
        Some(ExitRecord {
            version: RECORD_VERSION,
            end: ended.end.clone(),
            ended_by,
            wall_ms: ended.wall_ms,
            mono_ms: ended.mono_ms,
            journal_end,
        })
    }

    /// Lets the kernel forget it. A second time does nothing.
    pub(super) fn reap(&self) {
        waitpid(Some(self.pid), WaitOptions::NOHANG).ok();
    }
}

fn end_of(status: &WaitIdStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited { code },
        (None, signal) => End::Signalled { signal: signal.unwrap_or_default() },
    }
}
