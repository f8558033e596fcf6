//! Runs as an [`Aggregate`].

use super::{
    advance::{RunAdvanceContext, RunStep},
    decide::{RunCommand, RunRejection},
    effect::RunEffect,
    event::{Event, RunOpened},
    spec::RunSpec,
    state::Run,
};
use crate::{
    aggregate::{Aggregate, Deadline, EffectKey},
    ids::RunId,
    time::Moment,
};

stored_event!(Event);

impl Aggregate for Run {
    const KIND: &'static str = "run";

    type Id = RunId;
    type Spec = RunSpec;
    type Event = Event;
    type Command = RunCommand;
    type Rejection = RunRejection;
    type DecideContext<'a> = ();
    type AdvanceContext<'a> = RunAdvanceContext<'a>;
    type Step = RunStep;
    type Effect = RunEffect;

    fn id(&self) -> RunId {
        self.id
    }

    fn opening(spec: RunSpec) -> Event {
        RunOpened { spec: Box::new(spec) }.into()
    }

    fn open(id: RunId, at: Moment, event: &Event) -> Option<Run> {
        let Event::RunOpened(opened) = event else { return None };
        Some(Run::open(id, at, opened))
    }

    fn decide(&self, command: &RunCommand, _context: &()) -> Result<Vec<Event>, RunRejection> {
        Run::decide(self, command)
    }

    fn evolve(&mut self, at: Moment, event: &Event) {
        Run::evolve(self, at, event);
    }

    fn advance(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        Run::advance(self, context)
    }

    fn effects(&self) -> Vec<RunEffect> {
        Run::effects(self)
    }

    fn effect_key(effect: &RunEffect) -> EffectKey {
        effect.key()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn is_closed(&self) -> bool {
        Run::is_closed(self)
    }

    fn set_imported(&mut self, imported: bool) {
        self.imported = imported;
    }

    fn closing_event(&self, now: Moment) -> Option<Event> {
        self.skip_next_effect(now)
    }
}
