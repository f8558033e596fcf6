//! A session that belongs to another home: its record was copied, its processes and what it owes were not.

use super::{
    command::Command,
    event::*,
    hook::{HookEnd, HookOwed},
    launch::Launch,
    state::Session,
};
use crate::time::Moment;

/// What is said of everything that only the other home can know.
pub const ELSEWHERE: &str = "it was imported from another home, where it may go on";

/// What may still be done with a foreign session: it is taken over, or what it left is removed.
pub(super) fn is_for_foreign(command: &Command) -> bool {
    matches!(
        command,
        Command::TakeOver | Command::Tick | Command::WorkRemoved | Command::StoreRemoved
    )
}

impl Session {
    /// Whether it was imported from another home and not taken over. Nothing of it runs here, whatever its record says:
    /// the record names the programs.
    pub fn is_foreign(&self) -> bool {
        self.imported && !self.taken_over
    }

    /// Gives the events after which nothing is owed, running or expected here any more.
    ///
    /// Nothing is said about the work: an attempt that was open is cancelled in this record, a launch that may live is
    /// unobserved, and a hook that was owed may have run.
    pub fn close_elsewhere(&self, now: Moment) -> Vec<Event> {
        let mut session = self.clone();
        let mut events = Vec::new();
        while let Some(event) = session.let_go(now) {
            session.evolve(now, &event);
            events.push(event);
        }
        events
    }

    fn let_go(&self, now: Moment) -> Option<Event> {
        let sealed = self.attempt().is_sealed();
        let undecided = !sealed && !self.attempt().is_decided();
        undecided
            .then(|| AttemptCancelled { because: ELSEWHERE.to_owned() }.into())
            .or_else(|| self.launches.iter().find_map(leave))
            .or_else(|| self.hooks.first().map(|hook| forgo(hook, now)))
            .or_else(|| (!sealed).then(|| self.seal(now).into()))
            .or_else(|| self.advance(now))
    }
}

/// Nobody here looks after a launch of another home, and nobody here saw its end.
fn leave(launch: &Launch) -> Option<Event> {
    let (id, cursor) = (launch.id, launch.cursor);
    let listening = launch.is_followed() && launch.stream.closed.is_none();
    match (launch.may_live(), listening, launch.is_gone()) {
        (true, _, _) => Some(ProcessUnobserved { launch: id, why: ELSEWHERE.to_owned() }.into()),
        (false, true, _) => Some(StreamClosed { launch: id, cursor }.into()),
        (false, false, false) => {
            Some(TreeGone { launch: id, leftovers: 0, verified: false }.into())
        }
        (false, false, true) => None,
    }
}

fn forgo(hook: &HookOwed, now: Moment) -> Event {
    HookFinished { key: hook.key, end: forgone(hook.at, now) }.into()
}

/// What was owed before may have run; what the closing itself brings about did not.
pub(crate) fn forgone(owed: Moment, now: Moment) -> HookEnd {
    match owed == now {
        true => HookEnd::NotStarted(ELSEWHERE.to_owned()),
        false => HookEnd::Uncertain(ELSEWHERE.to_owned()),
    }
}
