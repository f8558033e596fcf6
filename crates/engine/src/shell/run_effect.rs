//! The effects of a run: committing, landing, its hooks and its report card.

use provost_core::{
    ids::SessionId,
    run::{Command, Effect, LandMode, Run},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    effects::{EffectName, Effects},
    executor::World,
    git_calls::GitCalls,
    held,
    hook::HookJob,
    landing, pull,
    pull::Forge,
    queue, work,
};
use crate::{report_card, stream::Subject};

/// Carries out effects of runs.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'a> {
    pub(crate) world: &'a World,
    pub(crate) effects: &'a Effects,
    pub(crate) git_calls: &'a GitCalls,
}

impl Carrier<'_> {
    /// Carries out an effect of a run, and returns its result.
    pub(crate) async fn carry_out(
        self,
        run: &Run,
        effect: Effect,
        cancel: watch::Receiver<bool>,
    ) -> Command {
        let key = effect.key();
        let Carrier { world, effects, .. } = self;
        let forge = Forge { world, effects, run };
        if effect.waits_for_git() {
            self.git_calls.settled(Subject::Run(run.id)).await;
        }
        // One landing at a time: the check whether something has landed comes after all landings in
        // progress.
        let lands = matches!(
            effect,
            Effect::Integrate { .. } | Effect::Land { .. } | Effect::LookLanded { .. }
        );
        let _alone = if lands { Some(world.landing.lock().await) } else { None };
        let holds_up = effect.holds_up_a_stop(run);
        let _held_up = if holds_up { Some(world.checkouts.read().await) } else { None };
        match effect {
            Effect::TakeHead(session) => self.take_head(run, session).await,
            Effect::Bring { no } => {
                self.write(run, &key, move |git, run| queue::bring(git, run, no)).await
            }
            Effect::MergeBatch { batch, .. } => {
                blocking(world.git.clone(), run, move |git, run| queue::merge(git, run, batch))
                    .await
            }
            Effect::Integrate { batch, len, .. } => {
                self.write(run, &key, move |git, run| queue::integrate(git, run, batch, len)).await
            }
            Effect::Land { step, .. } => self.land(run, &key, step, cancel).await,
            Effect::WatchPull { .. } => pull::watch(forge, &key, cancel).await,
            Effect::LookLanded { leg } => self.landed_already(run, &key, leg).await,
            Effect::RunHook(hook) => {
                let job = HookJob::of_run(run, hook, key, &world.environment);
                let end = match job {
                    Some(job) => job.run(effects).await,
                    None => provost_core::session::HookEnd::NotStarted(
                        "it is not configured".to_owned(),
                    ),
                };
                Command::HookFinished { key: hook, end }
            }
            Effect::WriteCard { leg } => {
                let (git, dir, run) = (world.git.clone(), world.home.run(run.id), run.clone());
                held::blocking(move || {
                    let changes = report_card::Changes::of(&git, &run);
                    let changed = changes.first_held();
                    let written = report_card::write(&dir, &run, leg, changes);
                    Command::CardWritten { leg, failure: written.err(), changed }
                })
                .await
            }
        }
    }

    /// Does work that writes files of a checkout, apart from quick work.
    async fn write(
        self,
        run: &Run,
        key: &str,
        work: impl FnOnce(&Git, &Run) -> Command + Send + 'static,
    ) -> Command {
        let (effect, run) = (EffectName::of_run(run.id, key), run.clone());
        self.git_calls.write(effect, move |git| work(git, &run)).await
    }

    async fn take_head(self, run: &Run, session: SessionId) -> Command {
        let git = self.git_calls.settled(Subject::Run(run.id)).await;
        let run = run.clone();
        match held::blocking(move || work::take_head(&git, &run, session)).await {
            Ok((head, caveats)) => Command::HeadTaken { session, head, caveats },
            Err(reason) => Command::HeadFailed { session, reason },
        }
    }

    async fn land(
        self,
        run: &Run,
        key: &str,
        step: usize,
        cancel: watch::Receiver<bool>,
    ) -> Command {
        let Carrier { world, effects, .. } = self;
        if *cancel.borrow() {
            // It may have landed before the daemon that was to record it died.
            return self.landed_already(run, key, run.leg().no).await;
        }
        match run.spec.land {
            LandMode::Pr => pull::request(Forge { world, effects, run }, key).await,
            LandMode::Branch | LandMode::Merge => {
                self.write(run, key, move |git, run| landing::land(git, run, step)).await
            }
        }
    }

    async fn landed_already(self, run: &Run, key: &str, leg: u32) -> Command {
        let Carrier { world, effects, .. } = self;
        match run.spec.land {
            LandMode::Pr => pull::look(Forge { world, effects, run }, leg, key).await,
            LandMode::Branch | LandMode::Merge => {
                let git = self.git_calls.settled(Subject::Run(run.id)).await;
                blocking(git, run, move |git, run| landing::look(git, run, leg)).await
            }
        }
    }
}

/// Does work in git, apart from quick work.
async fn blocking(
    git: Git,
    run: &Run,
    work: impl FnOnce(&Git, &Run) -> Command + Send + 'static,
) -> Command {
    let run = run.clone();
    held::blocking(move || work(&git, &run)).await
}
