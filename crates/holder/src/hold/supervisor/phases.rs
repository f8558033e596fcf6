//! State changes that follow from the state and the time, whatever woke the holder: limits,
//! records, and the steps from the leader's end to the tree's.

use std::fs;
use std::io;
use std::process::ExitCode;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::super::ending::{Ending, Stage};
use super::{Phase, RETRY_MS, Supervisor};
use crate::clock::mono_ms;
use crate::record::{EXIT_FILE, EndedBy, GONE_FILE, Gone, RECORD_VERSION};
use crate::tree::living_below;
use crate::wire::Notice;

/// The minimum time between two reaps of orphaned zombies.
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
        self.tell_growth();
        self.clients.flush();
        // Closed connections are known by now.
        if self.tell_visits() {
            self.clients.flush();
        }
    }

    /// Retries the refused writes when this is due.
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
            self.leader.look(now);
        }
        if self.leader.has_ended() && !self.leader.recorded {
            self.finish_arriving();
            self.stdin.abandon();
            self.refuse_all_writes();
            if let Phase::Ending(ending) = &mut self.phase {
                ending.look_soon(now);
            }
        }
    }

    fn enforce_time_limit(&mut self, now: u64) {
        let due = self.rules.time_limit_at.is_some_and(|limit| now >= limit);
        if due && !self.leader.has_ended() && matches!(self.phase, Phase::Running) {
            self.end_tree(EndedBy::TimeLimit, self.rules.grace_ms);
        }
    }

    /// Writes `exit.json` once the leader has ended and all its output is in the journal.
    fn record_exit(&mut self, now: u64) {
        if self.leader.recorded || !self.leader.has_ended() || !self.is_drained(now) {
            return;
        }
        let Some(record) = self.leader.record(self.ended_by, self.journal.end()) else { return };
        match self.dir.place_record(EXIT_FILE, &record) {
            Err(error) if !is_removed(&error) => self.disk_refused(),
            Ok(()) | Err(_) => {
                self.retry_at = None;
                self.leader.recorded = true;
                self.tell_growth();
                self.clients.tell_all(Notice::Exited);
                // Waiting clients are notified before the sync to disk. After a power loss the new
                // boot id proves the end anyway, at worst without the exit code.
                self.clients.flush();
                self.dir.sync_record(EXIT_FILE).ok();
            }
        }
    }

    /// Reads the remaining output of the pipes. Returns true if it is all on disk. After an end
    /// because of the output limit no more output is wanted.
    fn is_drained(&mut self, now: u64) -> bool {
        if self.journal.is_stuck() || !self.may_write(now) {
            return false;
        }
        if self.ended_by != EndedBy::OutputLimit
            && self.output.drain(&mut self.journal, now).is_err()
        {
            self.disk_refused();
        }
        self.show();
        !self.journal.is_stuck()
    }

    /// Enters the next phase if it is time.
    fn step(&mut self, now: u64) -> bool {
        match &mut self.phase {
            Phase::Running => self.begin_to_settle(),
            Phase::Settling { until } => {
                let over = self.output.is_closed() || now >= *until;
                over && self.end_leftovers(now)
            }
            Phase::Ending(ending) if now >= ending.due() => {
                let (stage, leftovers) = (ending.look(now), ending.leftovers());
                self.end_on(stage, leftovers, now)
            }
            Phase::Closing { leftovers, verified } => {
                let gone = Gone {
                    version: RECORD_VERSION,
                    leftovers: *leftovers,
                    verified: *verified,
                    journal_end: self.journal.end(),
                };
                self.close(gone, now)
            }
            Phase::Ending(_) | Phase::Left(_) => false,
        }
    }

    fn begin_to_settle(&mut self) -> bool {
        let Some(ended_at) = self.leader.ended_at() else { return false };
        if self.leader.recorded {
            self.phase = Phase::Settling { until: ended_at.saturating_add(self.rules.settle_ms) };
        }
        self.leader.recorded
    }

    fn end_leftovers(&mut self, now: u64) -> bool {
        self.phase = match living_below(std::process::id()) {
            Ok(living) if living.is_empty() => Phase::Closing { leftovers: 0, verified: true },
            Ok(_) | Err(_) => {
                Phase::Ending(Ending::begin(self.order(true, self.rules.grace_ms), now))
            }
        };
        true
    }

    /// Without the leader's record nothing has ended, even if all processes are gone.
    fn end_on(&mut self, stage: Stage, leftovers: u32, now: u64) -> bool {
        self.leader.look(now);
        if !self.leader.recorded || stage == Stage::Ongoing {
            return false;
        }
        self.phase = Phase::Closing { leftovers, verified: stage == Stage::Over };
        true
    }

    fn close(&mut self, gone: Gone, now: u64) -> bool {
        if !self.is_drained(now) {
            return false;
        }
        self.leader.reap();
        let gone = Gone { journal_end: self.journal.end(), ..gone };
        match self.dir.write_record(GONE_FILE, &gone) {
            Ok(()) => {
                self.clients.tell_all(Notice::Gone);
                // Our starter takes success to mean that no process of the command is left.
                let verified = gone.verified;
                self.phase =
                    Phase::Left(if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
            Err(error) if is_removed(&error) => self.phase = Phase::Left(ExitCode::FAILURE),
            Err(_) => self.disk_refused(),
        }
        false
    }

    /// Orphans below us become our children; their zombies are reaped whenever we are awake anyway.
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

    fn tell_growth(&mut self) {
        let end = self.journal.end();
        if end != self.told_end {
            self.told_end = end;
            self.clients.tell_all(Notice::Journal { end });
        }
    }
}

/// Whether the launch directory itself was removed, so that no record can be written.
fn is_removed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
