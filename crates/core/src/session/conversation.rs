//! Tracks which of an agent's conversations belongs to the session, when the user switches in the TUI.
//!
//! A process may have several: user conversations, one after the other, and hidden ones of its own, for
//! example of sub-agents. Only a [`Recorded::Moved`](super::watch::Recorded::Moved) changes which one
//! counts; signals of other conversations do not concern this session. The transcript being read stays
//! that of the previous conversation until its reader names the new one. Its signals until then are
//! late, and do not apply to the new one.

use super::{
    command::Rejected,
    event::{Event, ThreadMoved, TurnEnded},
    launch::{Launch, TurnEnd},
    state::Session,
    watch::{Record, Recorded, Said, Seen, Watch},
};
use crate::time::Moment;

/// The maximum number of previous conversations remembered, the newest.
const LEFT: usize = 64;

type Decision = Result<Vec<Event>, Rejected>;

impl Watch {
    /// Whether a signal still belongs to the previous conversation.
    pub(super) fn is_behind(&self, by: Record, what: &Recorded, thread: Option<&str>) -> bool {
        let names_it =
            matches!(what, Recorded::Named { thread: named } if Some(named.as_str()) == thread);
        self.behind && by == Record::Rollout && !names_it
    }

    /// Stores the last signal of a record.
    pub(super) fn note(&mut self, by: Record, seen: Seen) {
        self.behind &= !(by == Record::Rollout && seen.said == Said::Named);
        self.turns_on_file |= by == Record::Rollout && seen.said == Said::TurnStarted;
        self.records.insert(by, seen);
    }
}

impl Session {
    /// Whether a reported conversation id is not the session's.
    pub(super) fn is_another(&self, launch: &Launch, thread: &str) -> bool {
        launch.stream.ready && self.thread.as_deref().is_some_and(|own| own != thread)
    }

    /// Records that the user at the screen switched to another conversation. The open turn of the
    /// previous one ends, and so do its requests, unless the screen shows a request now: that one
    /// belongs to the new conversation.
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
        let settled = (!asks).then(|| self.went_on(launch)).into_iter().flatten();
        let left = launch.turn().map(|turn| {
            let (turn, end) = (Some(turn.to_owned()), TurnEnd::Interrupted);
            TurnEnded { launch: id, turn, end, usage: None, says: None, cursor }.into()
        });
        let moved = ThreadMoved { launch: id, by, from, to: thread.to_owned() };
        Ok(settled.chain(left).chain([moved.into()]).collect())
    }

    /// Switches to the other conversation. Facts about the previous one do not apply to it.
    pub(super) fn move_on(&mut self, e: &ThreadMoved, at: Moment) {
        let cursor = self.launch(e.launch).map(|launch| launch.cursor).unwrap_or_default();
        self.heard(e.launch, at, cursor);
        if e.by == Record::Hook {
            self.count_report(e.launch, e.to.len());
        }
        self.thread = Some(e.to.clone());
        (self.context, self.progress, self.compacting) = (None, None, None);
        for launch in &mut self.launches {
            // Positions refer to a file, and this is another file.
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
