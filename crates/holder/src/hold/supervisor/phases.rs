//! State changes that depend only on the state and the time, and not on the event that woke the
//! holder: limits, records, and the steps from the leader's exit to the end of the tree.

use std::fs;
use std::io;
use std::process::ExitCode;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::super::ending::{EndingProgress, TreeEnding};
use super::{HolderPhase, RETRY_MS, Supervisor};
use crate::clock::mono_ms;
use crate::record::{EXIT_FILE, EndCause, GONE_FILE, GoneRecord, RECORD_VERSION};
use crate::tree::living_descendants;
use crate::wire::HolderNotice;

/// The minimum time between two rounds of reaping orphaned zombies.
const REAP_MS: u64 = 1000;

impl Supervisor {
    pub(super) fn advance(&mut self) {
        let now = mono_ms();
        self.retry_disk(now);
        self.follow_relay(now);
        self.notice_end(now);
        self.enforce_time_limit(now);
        self.record_exit(now);
        while self.step(now) {}
        self.reap_orphans(now);
        self.report_growth();
        self.clients.flush();
        // At this point, the number of users can be reported, because closed connections were
        // removed.
        if self.report_users() {
            self.clients.flush();
        }
    }

    /// Retries the writes that the disk refused, if a retry is due.
    pub(super) fn retry_disk(&mut self, now: u64) {
        if self.journal.is_stuck() && self.may_write(now) {
            let failed = self.journal.retry().is_err();
            self.retry_at = failed.then_some(now + RETRY_MS);
        }
    }

    fn may_write(&self, now: u64) -> bool {
        self.retry_at.is_none_or(|retry_at| now >= retry_at)
    }

    fn notice_end(&mut self, now: u64) {
        if self.leader.is_unwatched() {
            self.leader.check_ended(now);
        }
        if self.leader.has_ended() && !self.leader.recorded {
            self.finish_connecting();
            self.stdin.abandon();
            self.refuse_all_writes();
            if let HolderPhase::Ending(ending) = &mut self.phase {
                ending.scan_soon(now);
            }
        }
    }

    fn enforce_time_limit(&mut self, now: u64) {
        let due = self.rules.time_limit_at.is_some_and(|limit| now >= limit);
        if due && !self.leader.has_ended() && matches!(self.phase, HolderPhase::Running) {
            self.end_tree(EndCause::TimeLimit, self.rules.grace_ms);
        }
    }

    /// Writes `exit.json` once the leader has exited and all its output is in the journal.
    fn record_exit(&mut self, now: u64) {
        if self.leader.recorded || !self.leader.has_ended() || !self.is_drained(now) {
            return;
        }
        let Some(record) = self.leader.record(self.ended_by, self.journal.end()) else { return };
        match self.dir.write_unsynced(EXIT_FILE, &record) {
            Err(error) if !is_removed(&error) => self.disk_refused(),
            Ok(()) | Err(_) => {
                self.retry_at = None;
                self.leader.recorded = true;
                self.report_growth();
                self.clients.notify_all(HolderNotice::Exited);
                // Waiting clients are notified before the record is synced to disk. After a power
                // loss, the new boot id proves that the command has ended, though possibly without
                // its exit code.
                self.clients.flush();
                self.dir.sync_record(EXIT_FILE).ok();
            }
        }
    }

    /// Reads the remaining output of the pipes. Returns true if all of it is on disk. If the
    /// command was ended because of its output limit, no more output is wanted.
    fn is_drained(&mut self, now: u64) -> bool {
        if self.journal.is_stuck() || !self.may_write(now) {
            return false;
        }
        if self.ended_by != EndCause::OutputLimit
            && self.output.drain(&mut self.journal, now).is_err()
        {
            self.disk_refused();
        }
        self.show();
        !self.journal.is_stuck()
    }

    /// Enters the next phase if it is due.
    fn step(&mut self, now: u64) -> bool {
        match &mut self.phase {
            HolderPhase::Running => self.begin_to_settle(),
            HolderPhase::Settling { until } => {
                let over = self.output.is_closed() || now >= *until;
                over && self.end_leftovers(now)
            }
            HolderPhase::Ending(ending) if now >= ending.due() => {
                let (stage, leftovers) = (ending.scan(now), ending.leftovers());
                self.finish_ending(stage, leftovers, now)
            }
            HolderPhase::Closing { leftovers, verified } => {
                let gone = GoneRecord {
                    version: RECORD_VERSION,
                    leftovers: *leftovers,
                    verified: *verified,
                    journal_end: self.journal.end(),
                };
                self.close(gone, now)
            }
            HolderPhase::Ending(_) | HolderPhase::Exited(_) => false,
        }
    }

    fn begin_to_settle(&mut self) -> bool {
        let Some(ended_at) = self.leader.ended_at() else { return false };
        if self.leader.recorded {
            self.phase =
                HolderPhase::Settling { until: ended_at.saturating_add(self.rules.settle_ms) };
        }
        self.leader.recorded
    }

    fn end_leftovers(&mut self, now: u64) -> bool {
        self.phase = match living_descendants(std::process::id()) {
            Ok(living) if living.is_empty() => {
                HolderPhase::Closing { leftovers: 0, verified: true }
            }
            Ok(_) | Err(_) => {
                HolderPhase::Ending(TreeEnding::begin(self.order(true, self.rules.grace_ms), now))
            }
        };
        true
    }

    /// Finishes the launch. Until the leader's exit is recorded, the launch has not ended, even if
    /// all processes are gone.
    fn finish_ending(&mut self, stage: EndingProgress, leftovers: u32, now: u64) -> bool {
        self.leader.check_ended(now);
        if !self.leader.recorded || stage == EndingProgress::Ongoing {
            return false;
        }
        self.phase = HolderPhase::Closing { leftovers, verified: stage == EndingProgress::Done };
        true
    }

    fn close(&mut self, gone: GoneRecord, now: u64) -> bool {
        if !self.is_drained(now) {
            return false;
        }
        self.leader.reap();
        let gone = GoneRecord { journal_end: self.journal.end(), ..gone };
        match self.dir.write_record(GONE_FILE, &gone) {
            Ok(()) => {
                self.clients.notify_all(HolderNotice::Gone);
                // To the process that started the holder, success means that no process of the
                // command is left.
                let verified = gone.verified;
                self.phase = HolderPhase::Exited(if verified {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                });
            }
            Err(error) if is_removed(&error) => self.phase = HolderPhase::Exited(ExitCode::FAILURE),
            Err(_) => self.disk_refused(),
        }
        false
    }

    /// Reaps zombies among the orphans that became the holder's children. Does so only when the
    /// holder is awake anyway.
    fn reap_orphans(&mut self, now: u64) {
        if now < self.reap_at {
            return;
        }
        self.reap_at = now + REAP_MS;
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let pids =
            children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        for pid in pids.filter(|pid| *pid != self.leader.pid) {
            waitpid(Some(pid), WaitOptions::NOHANG).ok();
        }
    }

    fn report_growth(&mut self) {
        let end = self.journal.end();
        if end != self.reported_end {
            self.reported_end = end;
            self.clients.notify_all(HolderNotice::Journal { end });
        }
    }
}

/// Whether the launch directory itself was removed, so that no record can be written.
fn is_removed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
