//! Follows one launch as the shell does: its journal in order, then its exit, then its process tree.

use provost_core::{
    ids::LaunchId,
    lifecycle::Process,
    session::{Command, Cursor, Launch, Signal},
};

use crate::{
    screen::Shown,
    world::{Entry, Holder, HolderLife, World},
};

/// The memory of a follower. It is lost in a crash; the next follower starts at the committed cursor.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    launch: LaunchId,
    read: usize,
    /// The number of transcript and screen entries read so far.
    looked: usize,
    told_suspended: bool,
    /// Whether the agent is external: it has no journal, and its exit code cannot be observed.
    adopted: bool,
    told_exit: bool,
    told_closed: bool,
    told_limit: bool,
    told_full: bool,
    /// The process cannot be observed before this time.
    pub(crate) blind_until: Option<u64>,
    pub(crate) done: bool,
}

impl Follower {
    /// Starts at the committed state: the cursor, and whether the process could be observed.
    pub(crate) fn new(launch: &Launch) -> Follower {
        let (records, hints) = (launch.watch.records.values(), launch.watch.hints.values());
        let looked = records.chain(hints).map(|seen| seen.place).max().unwrap_or(0);
        Follower {
            launch: launch.id,
            read: launch.cursor.offset as usize,
            looked: looked as usize,
            told_suspended: launch.watch.suspended,
            adopted: launch.adopted,
            told_exit: false,
            told_closed: false,
            told_limit: false,
            told_full: launch.no_room.is_some(),
            blind_until: (launch.may_live() && launch.process() == Process::Unknown).then_some(0),
            done: false,
        }
    }

    pub(crate) fn launch(&self) -> LaunchId {
        self.launch
    }

    /// Whether there is something to report.
    pub(crate) fn can_tell(&self, world: &World) -> bool {
        self.clone().next(world).is_some()
    }

    /// Returns the next observation for the owner.
    pub(crate) fn next(&mut self, world: &World) -> Option<Command> {
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
            return seen.then_some(Command::ProcessSeen { launch });
        }
        if holder.lapse.is_some() && holder.life == HolderLife::Here {
            // Neither a silent holder nor a missing directory proves that a process ended.
            return None;
        }
        if self.read > holder.journal.len() {
            return Some(self.lose(holder));
        }
        let read = if self.adopted { None } else { self.read_on(holder) };
        if let Some(command) = read.or_else(|| self.look_on(holder)) {
            return Some(command);
        }
        match holder.life {
            HolderLife::Died => Some(self.unobserved("its holder was killed")),
            HolderLife::OtherBoot => Some(self.unobserved("the machine was started anew")),
            HolderLife::Here => self.watch(holder, world),
        }
    }

    fn read_on(&mut self, holder: &Holder) -> Option<Command> {
        let entry = holder.journal.get(self.read)?;
        self.read += 1;
        let cursor = Cursor { offset: self.read as u64, skip: 0 };
        let signal = match entry {
            Entry::Out(signal) => signal.clone(),
            Entry::In(key) => Signal::InputSeen { key: key.clone() },
            Entry::Closed => {
                self.told_closed = true;
                Signal::Closed
            }
        };
        Some(Command::Observed { launch: self.launch, signal, cursor })
    }

    fn look_on(&mut self, holder: &Holder) -> Option<Command> {
        let shown = holder.shown.get(self.looked)?.clone();
        self.looked += 1;
        let (launch, place) = (self.launch, self.looked as u64);
        Some(match shown {
            Shown::Recorded(by, what) => Command::Recorded { launch, by, place, what },
            Shown::Hinted(by, what) => Command::Hinted { launch, by, place, what },
        })
    }

    fn watch(&mut self, holder: &Holder, world: &World) -> Option<Command> {
        let launch = self.launch;
        if holder.suspended != self.told_suspended && holder.exit.is_none() {
            self.told_suspended = holder.suspended;
            return Some(Command::ProcessSuspended { launch, suspended: holder.suspended });
        }
        if self.adopted {
            return holder.exit.map(|_| self.unobserved("it is an external agent"));
        }
        if holder.at_limit && !std::mem::replace(&mut self.told_limit, true) {
            return Some(Command::OutputAtLimit { launch });
        }
        self.told_limit &= holder.at_limit;
        let full = holder.full_until.is_some_and(|until| until > world.now_ms);
        if full != self.told_full {
            self.told_full = full;
            let dir = "/home".to_owned();
            return Some(if full {
                Command::OutputNoRoom { launch, dir }
            } else {
                Command::OutputFlows { launch }
            });
        }
        let (end, by) = holder.exit?;
        if !std::mem::replace(&mut self.told_exit, true) {
            return Some(Command::ProcessEnded { launch, end, by });
        }
        if !holder.gone {
            return None;
        }
        if !std::mem::replace(&mut self.told_closed, true) {
            let cursor = Cursor { offset: self.read as u64, skip: 0 };
            return Some(Command::Observed { launch, signal: Signal::Closed, cursor });
        }
        self.done = true;
        let leftovers = holder.temper.leftovers;
        Some(Command::TreeGone { launch, leftovers, verified: leftovers == 0 })
    }

    /// Reports that the journal ends before the folded cursor, because power was lost.
    fn lose(&mut self, holder: &Holder) -> Command {
        self.read = holder.journal.len();
        let cursor = Cursor { offset: self.read as u64, skip: 0 };
        Command::OutputLost { launch: self.launch, cursor }
    }

    fn unobserved(&mut self, why: &str) -> Command {
        self.done = true;
        Command::ProcessUnobserved { launch: self.launch, why: why.to_owned() }
    }
}
