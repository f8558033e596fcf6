//! What a run owes itself: committing, landing, its hooks and its report card.

use provost_core::{
    ids::SessionId,
    run::{Command, Effect, LandMode, Run},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    effects::Effects, executor::World, held, hook::HookJob, landing, pull, pull::Forge, queue, work,
};
use crate::report_card;

/// Carries out an effect of a run, and gives what came of it.
pub(crate) async fn carry_out(
    world: &World,
    effects: &Effects,
    run: &Run,
    effect: Effect,
    cancel: watch::Receiver<bool>,
) -> Command {
    let key = effect.key();
    let forge = Forge { world, effects, run };
    match effect {
        Effect::TakeHead(session) => take_head(world, run, session).await,
        Effect::Bring { no } => {
            blocking(world, run, move |git, run| queue::bring(git, run, no)).await
        }
        Effect::MergeBatch { batch, .. } => {
            blocking(world, run, move |git, run| queue::merge(git, run, batch)).await
        }
        Effect::Integrate { batch, len, .. } => {
            let _alone = world.landing.lock().await;
            blocking(world, run, move |git, run| queue::integrate(git, run, batch, len)).await
        }
        Effect::Land { step, .. } => land(forge, &key, step, cancel).await,
        Effect::WatchPull { .. } => pull::watch(forge, &key, cancel).await,
        Effect::LookLanded { leg } => look_landed(forge, &key, leg).await,
        Effect::RunHook(hook) => {
            let job = HookJob::of_run(run, hook, key, &world.environment);
            let end = match job {
                Some(job) => job.run(effects).await,
                None => {
                    provost_core::session::HookEnd::NotStarted("it is not configured".to_owned())
                }
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

/// Does something in git, apart from what has to be quick.
async fn blocking(
    world: &World,
    run: &Run,
    work: impl FnOnce(&Git, &Run) -> Command + Send + 'static,
) -> Command {
    let (git, run) = (world.git.clone(), run.clone());
    held::blocking(move || work(&git, &run)).await
}

async fn take_head(world: &World, run: &Run, session: SessionId) -> Command {
    let (git, run) = (world.git.clone(), run.clone());
    match held::blocking(move || work::take_head(&git, &run, session)).await {
        Ok((head, caveats)) => Command::HeadTaken { session, head, caveats },
        Err(reason) => Command::HeadFailed { session, reason },
    }
}

/// One landing at a time: what says whether something has landed comes after all that was landing.
async fn land(forge: Forge<'_>, key: &str, step: usize, cancel: watch::Receiver<bool>) -> Command {
    let Forge { world, run, .. } = forge;
    let _alone = world.landing.lock().await;
    if *cancel.borrow() {
        // It may have landed before the daemon that was to tell so died.
        return landed_already(forge, key, run.leg().no).await;
    }
    match run.spec.land {
        LandMode::Pr => pull::request(forge, key).await,
        LandMode::Branch | LandMode::Merge => {
            let (git, run) = (world.git.clone(), run.clone());
            held::blocking(move || landing::land(&git, &run, step)).await
        }
    }
}

async fn look_landed(forge: Forge<'_>, key: &str, leg: u32) -> Command {
    let _alone = forge.world.landing.lock().await;
    landed_already(forge, key, leg).await
}

async fn landed_already(forge: Forge<'_>, key: &str, leg: u32) -> Command {
    let Forge { world, run, .. } = forge;
    match run.spec.land {
        LandMode::Pr => pull::look(forge, leg, key).await,
        LandMode::Branch | LandMode::Merge => {
            let (git, run) = (world.git.clone(), run.clone());
            held::blocking(move || landing::look(&git, &run, leg)).await
        }
    }
}
