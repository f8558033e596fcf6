//! Follows one launch as the shell does: its journal in order, then its exit, then its process tree.

use provost_core::{
    ids::LaunchId,
    lifecycle::ProcessFact,
    session::{Cursor, Launch, SessionCommand, StreamSignal},
};

use crate::{
    screen::ScreenEntry,
    world::{HolderLife, SimHolder, SimJournalEntry, SimWorld},
};

/// The in-memory state of a follower. A crash loses it, and the next follower starts at the
/// committed cursor.
#[derive(Clone, Debug)]
pub(crate) struct LaunchFollower {
    launch: LaunchId,
    read: usize,
    /// The number of transcript and screen entries read so far.
    entries_read: usize,
    reported_suspended: bool,
    /// Whether the agent is external. It has no journal, and its exit code cannot be observed.
    adopted: bool,
    reported_exit: bool,
    reported_closed: bool,
    reported_limit: bool,
    reported_full: bool,
    /// The process cannot be observed before this time.
    pub(crate) blind_until: Option<u64>,
    pub(crate) done: bool,
}

impl LaunchFollower {
    /// Creates a follower that starts at the committed cursor and knows whether the process could
    /// be observed.
    pub(crate) fn new(launch: &Launch) -> LaunchFollower {
        let (records, hints) = (launch.watch.records.values(), launch.watch.hints.values());
        let looked = records.chain(hints).map(|seen| seen.place).max().unwrap_or(0);
        LaunchFollower {
            launch: launch.id,
            read: launch.cursor.offset as usize,
            entries_read: looked as usize,
            reported_suspended: launch.watch.suspended,
            adopted: launch.adopted,
            reported_exit: false,
            reported_closed: false,
            reported_limit: false,
            reported_full: launch.disk_full.is_some(),
            blind_until: (launch.may_be_running() && launch.process() == ProcessFact::Unknown)
                .then_some(0),
            done: false,
        }
    }

    pub(crate) fn launch(&self) -> LaunchId {
        self.launch
    }

    /// Whether there is an observation to report.
    pub(crate) fn has_observation(&self, world: &SimWorld) -> bool {
        self.clone().next_observation(world).is_some()
    }

    /// Returns the next observation for the owner.
    pub(crate) fn next_observation(&mut self, world: &SimWorld) -> Option<SessionCommand> {
        if self.done {
            return None;
        }
        let launch = self.launch;
        let Some(holder) = world.holders.get(&launch) else {
            return Some(self.unobserved("its directory is gone"));
        };
        if let Some(until) = self.blind_until {
            let seen = until <= world.now_ms;
            if seen {
                self.blind_until = None;
            }
            return seen.then_some(SessionCommand::ProcessSeen { launch });
        }
        if holder.unobservable.is_some() && holder.life == HolderLife::Reachable {
            // Neither a silent holder nor a missing directory proves that a process ended.
            return None;
        }
        if self.read > holder.journal.len() {
            return Some(self.report_lost_tail(holder));
        }
        let read = if self.adopted { None } else { self.read_journal(holder) };
        if let Some(command) = read.or_else(|| self.read_screen(holder)) {
            return Some(command);
        }
        match holder.life {
            HolderLife::Died => Some(self.unobserved("its holder was killed")),
            HolderLife::OtherBoot => Some(self.unobserved("the machine was started anew")),
            HolderLife::Reachable => self.watch_process(holder, world),
        }
    }

    fn read_journal(&mut self, holder: &SimHolder) -> Option<SessionCommand> {
        let entry = holder.journal.get(self.read)?;
        self.read += 1;
        let cursor = Cursor { offset: self.read as u64, skip: 0 };
        let signal = match entry {
            SimJournalEntry::Out(signal) => signal.clone(),
            SimJournalEntry::In(key) => StreamSignal::InputWritten { key: key.clone() },
            SimJournalEntry::Closed => {
                self.reported_closed = true;
                StreamSignal::Closed
            }
        };
        Some(SessionCommand::Observed { launch: self.launch, signal, cursor })
    }

    fn read_screen(&mut self, holder: &SimHolder) -> Option<SessionCommand> {
        let shown = holder.screen_entries.get(self.entries_read)?.clone();
        self.entries_read += 1;
        let (launch, place) = (self.launch, self.entries_read as u64);
        Some(match shown {
            ScreenEntry::Transcript(by, what) => {
                SessionCommand::RecordRead { launch, by, place, what }
            }
            ScreenEntry::Hint(by, what) => SessionCommand::ScreenHinted { launch, by, place, what },
        })
    }

    fn watch_process(&mut self, holder: &SimHolder, world: &SimWorld) -> Option<SessionCommand> {
        let launch = self.launch;
        if holder.suspended != self.reported_suspended && holder.exit.is_none() {
            self.reported_suspended = holder.suspended;
            return Some(SessionCommand::ProcessSuspended { launch, suspended: holder.suspended });
        }
        if self.adopted {
            return holder.exit.map(|_| self.unobserved("it is an external agent"));
        }
        if holder.at_limit && !std::mem::replace(&mut self.reported_limit, true) {
            return Some(SessionCommand::OutputAtLimit { launch });
        }
        self.reported_limit &= holder.at_limit;
        let full = holder.full_until.is_some_and(|until| until > world.now_ms);
        if full != self.reported_full {
            self.reported_full = full;
            let dir = "/home".to_owned();
            return Some(if full {
                SessionCommand::OutputDiskFull { launch, dir }
            } else {
                SessionCommand::OutputResumed { launch }
            });
        }
        let (end, by) = holder.exit?;
        if !std::mem::replace(&mut self.reported_exit, true) {
            return Some(SessionCommand::ProcessEnded { launch, end, by });
        }
        if !holder.gone {
            return None;
        }
        if !std::mem::replace(&mut self.reported_closed, true) {
            let cursor = Cursor { offset: self.read as u64, skip: 0 };
            return Some(SessionCommand::Observed { launch, signal: StreamSignal::Closed, cursor });
        }
        self.done = true;
        let leftovers = holder.script.leftovers;
        Some(SessionCommand::ProcessTreeGone { launch, leftovers, verified: leftovers == 0 })
    }

    /// Reports that the journal ends before the folded cursor, because power was lost.
    fn report_lost_tail(&mut self, holder: &SimHolder) -> SessionCommand {
        self.read = holder.journal.len();
        let cursor = Cursor { offset: self.read as u64, skip: 0 };
        SessionCommand::OutputLost { launch: self.launch, cursor }
    }

    fn unobserved(&mut self, why: &str) -> SessionCommand {
        self.done = true;
        SessionCommand::ProcessUnobserved { launch: self.launch, why: why.to_owned() }
    }
}
