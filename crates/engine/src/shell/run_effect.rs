//! What a run owes itself: committing, landing, its hooks and its report card.

use std::path::Path;

use provost_core::{
    ids::SessionId,
    run::{Command, Effect, LandMode, Run},
    verdict::Snapshot,
};
use provost_git::{BranchName, Git, Oid, Project, branch_at};
use tokio::sync::watch;

use super::{
    executor::World,
    held::{self, chain},
    hook::HookJob,
    work,
};
use crate::report_card;

/// Carries out an effect of a run, and gives what came of it.
pub(crate) async fn carry_out(
    world: &World,
    run: &Run,
    effect: Effect,
    _cancel: watch::Receiver<bool>,
) -> Command {
    let key = effect.key();
    match effect {
        Effect::TakeHead(session) => take_head(world, run, session).await,
        Effect::Land { .. } => land(world, run).await,
        Effect::RunHook(hook) => {
            let job = HookJob::of_run(run, hook, key, &world.environment);
            let end = match job {
                Some(job) => job.run(&world.home, &world.holders).await,
                None => {
                    provost_core::session::HookEnd::NotStarted("it is not configured".to_owned())
                }
            };
            Command::HookFinished { key: hook, end }
        }
        Effect::WriteCard { leg } => {
            let (git, dir, run) = (world.git.clone(), world.home.run(run.id), run.clone());
            let written = held::blocking(move || report_card::write(&git, &dir, &run, leg)).await;
            Command::CardWritten { leg, failure: written.err() }
        }
    }
}

async fn take_head(world: &World, run: &Run, session: SessionId) -> Command {
    let (git, run) = (world.git.clone(), run.clone());
    match held::blocking(move || work::take_head(&git, &run, session)).await {
        Ok((head, caveats)) => Command::HeadTaken { session, head, caveats },
        Err(reason) => Command::HeadFailed { session, reason },
    }
}

async fn land(world: &World, run: &Run) -> Command {
    let (git, run) = (world.git.clone(), run.clone());
    match held::blocking(move || landed(&git, &run)).await {
        Ok(landed) => landed,
        Err(reason) => Command::LandFailed { reason },
    }
}

fn landed(git: &Git, run: &Run) -> Result<Command, String> {
    let head = run.head.as_ref().ok_or("there is nothing to land")?;
    match run.spec.land {
        LandMode::Branch => on_a_branch(git, run, head),
        LandMode::Merge | LandMode::Pr => Err("merging is not built yet".to_owned()),
    }
}

fn on_a_branch(git: &Git, run: &Run, head: &Snapshot) -> Result<Command, String> {
    let project = Project::find(git, Path::new(&run.spec.project)).map_err(|why| chain(&why))?;
    let branch = BranchName::new(&run.spec.branch).map_err(|why| chain(&why))?;
    let commit = Oid::new(&head.commit.0).map_err(|why| chain(&why))?;
    branch_at(git, &project, &branch, &commit).map_err(|why| chain(&why))?;
    let (branch, commit) = (run.spec.branch.clone(), head.commit.0.clone());
    Ok(Command::Landed { branch, commit, merged: false })
}
