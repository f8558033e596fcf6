//! The effects of runs and teams. Until no shortage prevents an effect, it is tried again without a
//! record in the ledger.

use provost_core::{
    run::{Run, RunEffect},
    session::EffectKey,
    team::Team,
};
use tokio::sync::watch;

use super::{
    super::{
        check::CheckJob,
        handle::Observation,
        run_effect::{self, RunEffects},
        shortage::ShortageReport,
        team_effect,
    },
    EffectContext, EffectOrder, EffectStart, ExecutableAggregate,
};
use crate::stream::Subject;

impl ExecutableAggregate for Run {
    fn order(start: EffectStart<Run>) -> EffectOrder {
        EffectOrder::Run(start)
    }

    fn check_job(&self, effect: &RunEffect) -> Option<CheckJob> {
        run_effect::check_job(self, effect)
    }

    async fn carry_out(
        context: EffectContext,
        start: EffectStart<Run>,
        mut cancel: watch::Receiver<bool>,
    ) {
        let EffectStart { aggregate: run, effect, .. } = start;
        let carrier = RunEffects {
            world: &context.world,
            effects: &context.effects,
            git_calls: &context.git_calls,
            checks: &context.checks,
        };
        let is_wanted = cancel.clone();
        let attempt = || carrier.carry_out(&run, effect.clone(), is_wanted.clone());
        let result = context.retry_while_short(run.id, effect.key(), &mut cancel, attempt).await;
        if let Some(command) = result {
            context.observations.observe(Observation::Run(run.id, command)).await;
        }
    }
}

impl ExecutableAggregate for Team {
    fn order(start: EffectStart<Team>) -> EffectOrder {
        EffectOrder::Team(start)
    }

    async fn carry_out(
        context: EffectContext,
        start: EffectStart<Team>,
        mut cancel: watch::Receiver<bool>,
    ) {
        let EffectStart { aggregate: team, effect, session: worker } = start;
        let git = context.git_calls.settled_git(Subject::Team(team.id)).await;
        let is_wanted = cancel.clone();
        let attempt = || {
            let (checks, wanted) = (&context.checks, is_wanted.clone());
            Box::pin(team_effect::run_effect(
                &git,
                checks,
                &team,
                worker.clone(),
                effect.clone(),
                wanted,
            ))
        };
        let result = context.retry_while_short(team.id, effect.key(), &mut cancel, attempt).await;
        if let Some(command) = result {
            context.observations.observe(Observation::Team(team.id, command)).await;
        }
    }
}

impl EffectContext {
    /// Tries an effect until no shortage prevents it, and returns its result. Returns `None` if the
    /// effect was cancelled while it waited.
    async fn retry_while_short<C: ShortageReport, F: Future<Output = C>>(
        &self,
        subject: impl Into<Subject>,
        key: EffectKey,
        cancel: &mut watch::Receiver<bool>,
        mut attempt: impl FnMut() -> F,
    ) -> Option<C> {
        let mut wait = self.world.waits.begin(subject.into(), key);
        loop {
            let result = attempt().await;
            let Some(shortage) = result.shortage() else { return Some(result) };
            if !wait.pause(self.refine_shortage(shortage), cancel).await {
                return None;
            }
        }
    }
}
