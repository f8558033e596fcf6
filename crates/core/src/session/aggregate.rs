//! Sessions as an [`Aggregate`].

use super::{
    command::{SessionCommand, SessionRejection},
    effect::SessionEffect,
    event::{Event, SessionOpened},
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
    const KIND: &'static str = "session";

    type Id = SessionId;
    type Spec = SessionSpec;
    type Event = Event;
    type Command = SessionCommand;
    type Rejection = SessionRejection;
    type DecideContext<'a> = Moment;
    type AdvanceContext<'a> = Moment;
    type Step = Event;
    type Effect = SessionEffect;

    fn id(&self) -> SessionId {
        self.id
    }

    fn opening(spec: SessionSpec) -> Event {
        SessionOpened { spec: Box::new(spec) }.into()
    }

    fn open(id: SessionId, at: Moment, event: &Event) -> Option<Session> {
        let Event::SessionOpened(opened) = event else { return None };
        Some(Session::open(id, at, opened))
    }

    fn decide(
        &self,
        command: &SessionCommand,
        now: &Moment,
    ) -> Result<Vec<Event>, SessionRejection> {
        Session::decide(self, command, *now)
    }

    fn evolve(&mut self, at: Moment, event: &Event) {
        Session::evolve(self, at, event);
    }

    fn advance(&self, context: &Moment) -> Option<Event> {
        Session::advance(self, *context)
    }

    fn effects(&self) -> Vec<SessionEffect> {
        Session::effects(self)
    }

    fn effect_key(effect: &SessionEffect) -> EffectKey {
        effect.key()
    }

    fn deadline(&self) -> Option<Deadline> {
        let (at_ms, due) = Session::deadline(self)?;
        Some(Deadline { at_ms, purpose: due.as_str() })
    }

    fn is_closed(&self) -> bool {
        Session::is_closed(self)
    }

    fn set_imported(&mut self, imported: bool) {
        self.imported = imported;
    }

    fn closing_event(&self, now: Moment) -> Option<Event> {
        self.next_closing_event(now)
    }
}
