//! Which of an agent's conversations is the session's, when whoever is at its screen goes on in another.
//!
//! A process may have several: those of people, one after the other, and hidden ones of its own, as of sub-agents.
//! Only a [`Recorded::Moved`](super::watch::Recorded::Moved) changes which one counts; what else another conversation
//! is heard to say is none of this session's. The file that is read is that of the conversation before until its
//! reader names the new one: what it tells until then is late, and says nothing of the new one.

use super::{
    command::Rejected,
    event::{Event, ThreadMoved, TurnEnded},
    launch::{Launch, TurnEnd},
    state::Session,
    watch::{Record, Recorded, Said, Seen, Watch},
};
use crate::time::Moment;

/// So many conversations that were left are remembered, the newest.
const LEFT: usize = 64;

type Decision = Result<Vec<Event>, Rejected>;

impl Watch {
    /// Says whether a record still tells of the conversation that was left.
    pub(super) fn is_behind(&self, by: Record, what: &Recorded, thread: Option<&str>) -> bool {
        let names_it =
            matches!(what, Recorded::Named { thread: named } if Some(named.as_str()) == thread);
        self.behind && by == Record::Rollout && !names_it
    }

    /// Keeps what a record said last.
    pub(super) fn note(&mut self, by: Record, seen: Seen) {
        self.behind &= !(by == Record::Rollout && seen.said == Said::Named);
        self.turns_on_file |= by == Record::Rollout && seen.said == Said::TurnStarted;
        self.records.insert(by, seen);
    }
}

impl Session {
    /// Says whether a name that a record tells is that of another conversation than the session's.
    pub(super) fn is_another(&self, launch: &Launch, thread: &str) -> bool {
        launch.stream.ready && self.thread.as_deref().is_some_and(|own| own != thread)
    }

    /// Takes that the person at the screen went on in another conversation. The turn that was left there ends with it, and
    /// so does what was asked in it, unless the screen asks now: that is asked in the new one.
    pub(super) fn moved(&self, launch: &Launch, by: Record, thread: &str) -> Decision {
        let Some(from) = self.thread.clone().filter(|own| own != thread) else {
            return Err(Rejected::Nothing);
        };
        let current = self.current_launch().is_some_and(|current| current.id == launch.id);
        if !current || !launch.may_live() || self.attempt().is_sealed() {
            return Err(Rejected::Nothing);
        }
        if by == Record::Hook && !launch.reports.has_room_for(thread.len()) {
            return self.refuse_report(launch);
        }
        let (id, cursor) = (launch.id, launch.cursor);
        let asks = launch.watch.shows() == Some(Said::Asks);
        let settled = self.went_on(launch).filter(|_| !asks);
        let left = launch.turn().map(|turn| {
            let (turn, end) = (Some(turn.to_owned()), TurnEnd::Interrupted);
            TurnEnded { launch: id, turn, end, usage: None, says: None, cursor }.into()
        });
        let moved = ThreadMoved { launch: id, by, from, to: thread.to_owned() };
        Ok(settled.chain(left).chain([moved.into()]).collect())
    }

    /// Goes on with the other conversation: what was known of the one before is not true of it.
    pub(super) fn move_on(&mut self, e: &ThreadMoved, at: Moment) {
        let cursor = self.launch(e.launch).map(|launch| launch.cursor).unwrap_or_default();
        self.heard(e.launch, at, cursor);
        if e.by == Record::Hook {
            self.count_report(e.launch, e.to.len());
        }
        self.thread = Some(e.to.clone());
        (self.context, self.progress, self.compacting) = (None, None, None);
        for launch in &mut self.launches {
            // Places are those of a file, and this is another one.
            launch.watch.records.remove(&Record::Rollout);
        }
        self.on_launch(e.launch, |launch| {
            let watch = &mut launch.watch;
            watch.behind = true;
            watch.left.retain(|left| *left != e.from && *left != e.to);
            watch.left.push(e.from.clone());
            let surplus = watch.left.len().saturating_sub(LEFT);
            watch.left.drain(..surplus);
        });
    }
}
