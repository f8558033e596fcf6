//! Teams as an [`Aggregate`].

use super::{
    advance::{TeamAdvanceContext, TeamStep},
    command::{TeamCommand, TeamRejection},
    effect::TeamEffect,
    event::{Event, PhaseChanged, TeamOpened},
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

/// What a team's decision reads in addition to the team itself.
#[derive(Clone, Copy)]
pub struct TeamDecideContext<'a> {
    /// Who gave the command.
    pub actor: &'a TeamActor,
    pub team: TeamAdvanceContext<'a>,
}

stored_event!(Event);

impl Aggregate for Team {
    const KIND: &'static str = "team";

    type Id = TeamId;
    type Spec = TeamSpec;
    type Event = Event;
    type Command = TeamCommand;
    type Rejection = TeamRejection;
    type DecideContext<'a> = TeamDecideContext<'a>;
    type AdvanceContext<'a> = TeamAdvanceContext<'a>;
    type Step = TeamStep;
    type Effect = TeamEffect;

    fn id(&self) -> TeamId {
        self.id
    }

    fn opening(spec: TeamSpec) -> Event {
        TeamOpened { spec: Box::new(spec) }.into()
    }

    fn open(id: TeamId, at: Moment, event: &Event) -> Option<Team> {
        let Event::TeamOpened(opened) = event else { return None };
        Some(Team::open(id, at, opened))
    }

    fn decide(
        &self,
        command: &TeamCommand,
        context: &TeamDecideContext<'_>,
    ) -> Result<Vec<Event>, TeamRejection> {
        Team::decide(self, context.actor, command, &context.team)
    }

    fn evolve(&mut self, at: Moment, event: &Event) {
        Team::evolve(self, at, event);
    }

    fn advance(&self, context: &TeamAdvanceContext<'_>) -> Option<TeamStep> {
        Team::advance(self, context)
    }

    fn effects(&self) -> Vec<TeamEffect> {
        Team::effects(self)
    }

    fn effect_key(effect: &TeamEffect) -> EffectKey {
        effect.key()
    }

    fn deadline(&self) -> Option<Deadline> {
        let at_ms = Team::deadline(self)?;
        Some(Deadline { at_ms, purpose: "messages" })
    }

    fn is_closed(&self) -> bool {
        Team::is_closed(self)
    }

    /// An imported team is closed when it is imported, and never taken over.
    fn set_imported(&mut self, _imported: bool) {}

    fn closing_event(&self, _now: Moment) -> Option<Event> {
        let open = !self.phase.is_over();
        let because = IMPORTED_REASON.to_owned();
        open.then(|| PhaseChanged { phase: TeamPhase::Cancelled { because } }.into())
    }
}
