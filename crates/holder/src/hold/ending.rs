//! Ends the process tree below this process in order: TERM, grace, KILL, verification. A listening
//! command gets a second TERM within the grace: after the first it waits for its turns to end,
//! which may never happen.
//!
//! The leader is reaped last. Until then its pid, which is also the group's id, cannot be reused
//! while we signal it. This process is a subreaper, so no descendant can leave the tree.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::tree::{KILL_PATIENCE_MS, living_descendants, signal};
use provost_sys::process::ProcStat;

/// The first and the longest pause between two scans of the tree.
const FIRST_PAUSE_MS: u64 = 5;
const LONGEST_PAUSE_MS: u64 = 100;
/// The time between the two TERMs, unless the grace is too short for it.
const SECOND_TERM_MS: u64 = 500;

/// The end of a tree in progress.
pub(super) struct TreeEnding {
    leader: Pid,
    kill_at: u64,
    /// When to send the second TERM, if one is planned.
    second_term_at: Option<u64>,
    give_up_at: Option<u64>,
    scan_at: u64,
    pause: u64,
    terminated: BTreeSet<ProcessKey>,
    leftovers: BTreeSet<ProcessKey>,
    /// Whether every process found counts as a leftover, because the leader had already ended.
    all_left_over: bool,
}

/// The progress of an ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EndingProgress {
    Ongoing,
    /// No process is left.
    Done,
    /// A process survived KILL.
    GivenUp,
}

/// How many TERMs a command gets before KILL.
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
    /// Starts by sending TERM.
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
            // Counted before the signal, after which the processes may be gone.
            ending.count_leftovers(&living);
        }
        ending.terminate_group();
        ending
    }

    /// Starts again with TERM. KILL is sent no later than planned before.
    pub(super) fn restart(&mut self, grace_ms: u64, now: u64) {
        self.kill_at = self.kill_at.min(now.saturating_add(grace_ms));
        self.terminate_again();
        self.scan_soon(now);
    }

    /// When to scan next.
    pub(super) fn due(&self) -> u64 {
        self.scan_at
    }

    /// Scans earlier, because something happened.
    pub(super) fn scan_soon(&mut self, now: u64) {
        (self.scan_at, self.pause) = (now, FIRST_PAUSE_MS);
    }

    pub(super) fn leftovers(&self) -> u32 {
        u32::try_from(self.leftovers.len()).unwrap_or(u32::MAX)
    }

    /// Scans the tree and signals the processes found. If the scan fails, processes may be left.
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

    /// Errors are ignored: a signal that failed or hit no process shows in the next scan.
    fn terminate_group(&self) {
        kill_process_group(self.leader, Signal::TERM).ok();
        // A stopped process does not handle TERM until it is continued.
        kill_process_group(self.leader, Signal::CONT).ok();
    }

    /// Signals processes one by one that are outside the group or appeared after its signal.
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
