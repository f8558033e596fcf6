//! Ends the process tree below this process in order: SIGTERM, grace period, SIGKILL, verification.
//! A listening command receives a second SIGTERM within the grace period. After the first SIGTERM,
//! it waits for its turns to finish, which may never happen.
//!
//! The leader is reaped last. Until then its pid, which is also the id of the group, cannot be
//! reused while the group is signalled. This process is a subreaper, so no descendant can leave the
//! tree.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::tree::{KILL_PATIENCE_MS, living_descendants, signal};
use provost_sys::stat::ProcStat;

/// The shortest and the longest pause between two scans of the tree.
const FIRST_PAUSE_MS: u64 = 5;
const LONGEST_PAUSE_MS: u64 = 100;
/// The time between the two SIGTERMs, unless the grace period is too short for it.
const SECOND_TERM_MS: u64 = 500;

/// The state of ending a process tree.
pub(super) struct TreeEnding {
    leader: Pid,
    kill_at: u64,
    /// The time at which to send the second SIGTERM, if there is one.
    second_term_at: Option<u64>,
    give_up_at: Option<u64>,
    scan_at: u64,
    pause: u64,
    terminated: BTreeSet<ProcessKey>,
    leftovers: BTreeSet<ProcessKey>,
    /// Whether every process found counts as a leftover, because the leader had already exited.
    all_left_over: bool,
}

/// The progress of an ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EndingProgress {
    Ongoing,
    /// No process is left.
    Done,
    /// A process survived SIGKILL.
    GivenUp,
}

/// The number of SIGTERMs that a command receives before SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TermCount {
    One,
    Two,
}

/// A request to end a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndOrder {
    pub(super) leader: Pid,
    pub(super) leader_ended: bool,
    pub(super) grace_ms: u64,
    pub(super) terms: TermCount,
}

type ProcessKey = (u32, u64);

impl TreeEnding {
    /// Begins by sending SIGTERM.
    pub(super) fn begin(order: EndOrder, now: u64) -> Self {
        let EndOrder { leader, leader_ended, grace_ms, terms } = order;
        let second = now.saturating_add(SECOND_TERM_MS.min(grace_ms / 2));
        let mut ending = Self {
            leader,
            kill_at: now.saturating_add(grace_ms),
            second_term_at: (terms == TermCount::Two && !leader_ended).then_some(second),
            give_up_at: None,
            scan_at: now,
            pause: FIRST_PAUSE_MS,
            terminated: BTreeSet::new(),
            leftovers: BTreeSet::new(),
            all_left_over: leader_ended,
        };
        if let (true, Ok(living)) = (leader_ended, living_descendants(std::process::id())) {
            // Count the processes before signalling them, because they may be gone afterwards.
            ending.count_leftovers(&living);
        }
        ending.terminate_group();
        ending
    }

    /// Starts over with SIGTERM. SIGKILL is sent no later than planned before.
    pub(super) fn restart(&mut self, grace_ms: u64, now: u64) {
        self.kill_at = self.kill_at.min(now.saturating_add(grace_ms));
        self.terminate_again();
        self.scan_soon(now);
    }

    /// Returns the time of the next scan.
    pub(super) fn due(&self) -> u64 {
        self.scan_at
    }

    /// Makes the next scan happen as soon as possible, because a process may have exited or
    /// appeared.
    pub(super) fn scan_soon(&mut self, now: u64) {
        (self.scan_at, self.pause) = (now, FIRST_PAUSE_MS);
    }

    pub(super) fn leftovers(&self) -> u32 {
        u32::try_from(self.leftovers.len()).unwrap_or(u32::MAX)
    }

    /// Scans the tree and signals the processes it finds. If the scan fails, processes may remain.
    pub(super) fn scan(&mut self, now: u64) -> EndingProgress {
        if self.second_term_at.take_if(|at| now >= *at).is_some() {
            self.terminate_again();
        }
        self.plan_next_scan(now);
        match living_descendants(std::process::id()) {
            Ok(living) if living.is_empty() => return EndingProgress::Done,
            Ok(living) => self.signal_all(&living, now),
            Err(_) => self.note_kill_time(now),
        }
        let over = self.give_up_at.is_some_and(|give_up_at| now >= give_up_at);
        if over { EndingProgress::GivenUp } else { EndingProgress::Ongoing }
    }

    fn plan_next_scan(&mut self, now: u64) {
        self.scan_at = now + self.pause;
        let appointments = [self.second_term_at, Some(self.kill_at)];
        for at in appointments.into_iter().flatten().filter(|at| now < *at) {
            self.scan_at = self.scan_at.min(at);
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE_MS);
    }

    fn signal_all(&mut self, living: &[ProcStat], now: u64) {
        let killing = now >= self.kill_at;
        if self.all_left_over || (killing && self.give_up_at.is_none()) {
            self.count_leftovers(living);
        }
        if killing {
            self.note_kill_time(now);
            self.kill(living);
        } else {
            self.terminate_new(living);
        }
    }

    fn count_leftovers(&mut self, living: &[ProcStat]) {
        let leader = raw(self.leader);
        self.leftovers.extend(living.iter().filter(|found| found.pid != leader).map(process));
    }

    fn note_kill_time(&mut self, now: u64) {
        if now >= self.kill_at {
            self.give_up_at.get_or_insert(now + KILL_PATIENCE_MS);
        }
    }

    fn terminate_again(&mut self) {
        self.terminated.clear();
        self.terminate_group();
    }

    /// Signals the group. Errors are ignored, because the next scan shows whether a process
    /// survived.
    fn terminate_group(&self) {
        kill_process_group(self.leader, Signal::TERM).ok();
        // A stopped process does not handle SIGTERM until it is continued.
        kill_process_group(self.leader, Signal::CONT).ok();
    }

    /// Signals individual processes that are outside the group, or that appeared after the group
    /// was signalled.
    fn terminate_new(&mut self, living: &[ProcStat]) {
        let first = self.terminated.is_empty();
        for found in living {
            let is_new = self.terminated.insert(process(found));
            let had_it = first && found.group == raw(self.leader);
            if is_new && !had_it {
                signal(found.pid, found.start_time, Signal::TERM).ok();
                signal(found.pid, found.start_time, Signal::CONT).ok();
            }
        }
    }

    fn kill(&self, living: &[ProcStat]) {
        kill_process_group(self.leader, Signal::KILL).ok();
        for found in living {
            signal(found.pid, found.start_time, Signal::KILL).ok();
        }
    }
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

fn process(stat: &ProcStat) -> ProcessKey {
    (stat.pid, stat.start_time)
}
