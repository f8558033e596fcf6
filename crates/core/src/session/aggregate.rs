//! Sessions as an [`Aggregate`].

use super::{
    command::{SessionCommand, SessionRejection},
    effect::SessionEffect,
    event::{Event, SessionChange, SessionOpened},
    spec::SessionSpec,
    state::Session,
};
use crate::{
    aggregate::{Aggregate, Deadline, EffectKey},
    ids::SessionId,
    time::Moment,
};

stored_event!(Event);

impl Aggregate for Session {
    aggregate_members!(Session "session", SessionId, Session(SessionChange::SessionOpened(SessionSpec)), SessionEffect);

    type Command = SessionCommand;
    type Rejection = SessionRejection;
    type DecideContext<'a> = Moment;
    type AdvanceContext<'a> = Moment;
    type Step = Event;

    fn decide(
        &self,
        command: &SessionCommand,
        now: &Moment,
    ) -> Result<Vec<Event>, SessionRejection> {
        Session::decide(self, command, *now)
    }

    fn advance(&self, context: &Moment) -> Option<Event> {
        Session::advance(self, *context)
    }

    fn deadline(&self) -> Option<Deadline> {
        let (at_ms, due) = Session::deadline(self)?;
        Some(Deadline { at_ms, purpose: due.as_str() })
    }

    fn set_imported(&mut self, imported: bool) {
        self.origin.imported = imported;
    }

    fn closing_event(&self, now: Moment) -> Option<Event> {
        self.next_closing_event(now)
    }
}
