//! Teams as an [`Aggregate`].

use super::{
    advance::{TeamAdvanceContext, TeamStep},
    command::{TeamCommand, TeamRejection},
    effect::TeamEffect,
    event::{Event, PhaseChanged, TeamChange, TeamOpened},
    member::TeamActor,
    spec::TeamSpec,
    state::{Team, TeamPhase},
};
use crate::{
    aggregate::{Aggregate, Deadline, EffectKey},
    ids::TeamId,
    session::IMPORTED_REASON,
    time::Moment,
};

/// The data that a team's decision reads in addition to the team itself.
#[derive(Clone, Copy)]
pub struct TeamDecideContext<'a> {
    /// Who gave the command.
    pub actor: &'a TeamActor,
    pub team: TeamAdvanceContext<'a>,
}

stored_event!(Event);

impl Aggregate for Team {
    aggregate_members!(Team "team", TeamId, Team(TeamChange::TeamOpened(TeamSpec)), TeamEffect);

    type Command = TeamCommand;
    type Rejection = TeamRejection;
    type DecideContext<'a> = TeamDecideContext<'a>;
    type AdvanceContext<'a> = TeamAdvanceContext<'a>;
    type Step = TeamStep;

    fn decide(
        &self,
        command: &TeamCommand,
        context: &TeamDecideContext<'_>,
    ) -> Result<Vec<Event>, TeamRejection> {
        Team::decide(self, context.actor, command, &context.team)
    }

    fn advance(&self, context: &TeamAdvanceContext<'_>) -> Option<TeamStep> {
        Team::advance(self, context)
    }

    fn deadline(&self) -> Option<Deadline> {
        let at_ms = Team::deadline(self)?;
        Some(Deadline { at_ms, purpose: "messages" })
    }

    /// An imported team is closed when it is imported, and never taken over.
    fn set_imported(&mut self, _imported: bool) {}

    fn closing_event(&self, _now: Moment) -> Option<Event> {
        let open = !self.phase.is_over();
        let because = IMPORTED_REASON.to_owned();
        open.then(|| PhaseChanged { phase: TeamPhase::Cancelled { because } }.into())
    }
}
