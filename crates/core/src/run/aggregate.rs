//! Runs as an [`Aggregate`].

use super::{
    advance::{RunAdvanceContext, RunStep},
    decide::{RunCommand, RunRejection},
    effect::RunEffect,
    event::{Event, RunChange, RunOpened},
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
    aggregate_members!(Run "run", RunId, Run(RunChange::RunOpened(RunSpec)), RunEffect);

    type Command = RunCommand;
    type Rejection = RunRejection;
    type DecideContext<'a> = ();
    type AdvanceContext<'a> = RunAdvanceContext<'a>;
    type Step = RunStep;

    fn decide(&self, command: &RunCommand, _context: &()) -> Result<Vec<Event>, RunRejection> {
        Run::decide(self, command)
    }

    fn advance(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        Run::advance(self, context)
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn set_imported(&mut self, imported: bool) {
        self.imported = imported;
    }

    fn closing_event(&self, now: Moment) -> Option<Event> {
        self.skip_next_effect(now)
    }
}
