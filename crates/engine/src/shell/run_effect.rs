//! The effects of a run: committing, verifying, landing, its hooks and its summary.

use provost_core::{
    ids::SessionId,
    run::{LandMode, Run, RunCommand, RunEffect},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    check::{CheckJob, CheckRunner},
    effects::{EffectName, Effects},
    engine_world::EngineWorld,
    git_calls::GitCalls,
    hook::HookJob,
    landing, merge_queue, pull_request,
    pull_request::ForgeClient,
    supervised_command, worktree,
};
use crate::{run_summary, stream::Subject};

/// Carries out effects of runs.
#[derive(Clone, Copy)]
pub(crate) struct RunEffects<'a> {
    pub(crate) world: &'a EngineWorld,
    pub(crate) effects: &'a Effects,
    pub(crate) git_calls: &'a GitCalls,
    pub(crate) checks: &'a CheckRunner,
}

/// Returns the verification that an effect requests, if it runs checks.
pub(crate) fn check_job(run: &Run, effect: &RunEffect) -> Option<CheckJob> {
    let RunEffect::Verify { no } = effect else { return None };
    let verification = run.verification(*no)?;
    Some(CheckJob { owner: Subject::Run(run.id), key: effect.key(), verification })
}

impl RunEffects<'_> {
    /// Carries out an effect of a run, and returns its result.
    pub(crate) async fn carry_out(
        self,
        run: &Run,
        effect: RunEffect,
        cancel: watch::Receiver<bool>,
    ) -> RunCommand {
        let key = effect.key();
        let RunEffects { world, effects, .. } = self;
        let forge = ForgeClient { world, effects, run };
        if effect.waits_for_git() {
            self.git_calls.settled_git(Subject::Run(run.id)).await;
        }
        // Only one landing runs at a time. The check for whether the work has landed waits for
        // landings in progress.
        let lands = matches!(
            effect,
            RunEffect::Integrate { .. } | RunEffect::Land { .. } | RunEffect::CheckLanded { .. }
        );
        let _alone = if lands { Some(world.landing.lock().await) } else { None };
        let holds_up = effect.delays_shutdown(run);
        let _held_up = if holds_up { Some(world.checkouts.read().await) } else { None };
        match effect {
            RunEffect::CommitLeftovers(session) => self.commit_head(run, session).await,
            RunEffect::MoveWorktree { no } => {
                self.write_checkout(run, &key, move |git, run| {
                    merge_queue::move_worktree(git, run, no)
                })
                .await
            }
            RunEffect::MergeBatch { batch, .. } => {
                blocking_git(world.git.clone(), run, move |git, run| {
                    merge_queue::merge_batch(git, run, batch)
                })
                .await
            }
            RunEffect::Verify { no } => {
                let receipts = match check_job(run, &effect) {
                    Some(job) => Box::pin(self.checks.run(job, cancel)).await,
                    None => Vec::new(),
                };
                RunCommand::Verified { no, receipts }
            }
            RunEffect::Integrate { batch, len, .. } => {
                self.write_checkout(run, &key, move |git, run| {
                    merge_queue::integrate_batch(git, run, batch, len)
                })
                .await
            }
            RunEffect::Land { step, .. } => self.land(run, &key, step, cancel).await,
            RunEffect::WatchPullRequest { .. } => {
                pull_request::watch_pull(forge, &key, cancel).await
            }
            RunEffect::CheckLanded { attempt } => self.check_landed(run, &key, attempt).await,
            RunEffect::RunHook(hook) => {
                let permit = world.gate.permit(EffectName::new(run.id, key));
                let end = match HookJob::from_run(run, hook, &world.environment) {
                    Some(job) => job.run(permit, effects).await,
                    None => provost_core::session::HookEnd::NotStarted(
                        "it is not configured".to_owned(),
                    ),
                };
                RunCommand::HookFinished { key: hook, end }
            }
            RunEffect::WriteReport { attempt } => {
                let (git, dir, run) = (world.git.clone(), world.home.run(run.id), run.clone());
                supervised_command::blocking(move || {
                    let changes = run_summary::WorkChanges::read(&git, &run);
                    let changed = changes.first_guarded();
                    let written = run_summary::write(&dir, &run, attempt, changes);
                    RunCommand::ReportWritten { attempt, failure: written.err(), changed }
                })
                .await
            }
        }
    }

    /// Runs work that writes files in a checkout, separately from quick work.
    async fn write_checkout(
        self,
        run: &Run,
        key: &str,
        work: impl FnOnce(&Git, &Run) -> RunCommand + Send + 'static,
    ) -> RunCommand {
        let (effect, run) = (EffectName::new(run.id, key), run.clone());
        self.git_calls.write(effect, move |git| work(git, &run)).await
    }

    async fn commit_head(self, run: &Run, session: SessionId) -> RunCommand {
        let git = self.git_calls.settled_git(Subject::Run(run.id)).await;
        let run = run.clone();
        match supervised_command::blocking(move || worktree::commit_head(&git, &run, session)).await
        {
            Ok((head, caveats)) => RunCommand::CommitRecorded { session, head, caveats },
            Err(reason) => RunCommand::CommitFailed { session, reason },
        }
    }

    async fn land(
        self,
        run: &Run,
        key: &str,
        step: usize,
        cancel: watch::Receiver<bool>,
    ) -> RunCommand {
        let RunEffects { world, effects, .. } = self;
        if *cancel.borrow() {
            // The work may have landed just before the daemon that should have recorded it died.
            return self.check_landed(run, key, run.attempt().no).await;
        }
        match run.spec.land {
            LandMode::Pr => {
                pull_request::request_pull(ForgeClient { world, effects, run }, key).await
            }
            LandMode::Branch | LandMode::Merge => {
                let permit = world.gate.permit(EffectName::new(run.id, key));
                let land = move |git: &Git, run: &Run| landing::land(git, run, step, &permit);
                self.write_checkout(run, key, land).await
            }
        }
    }

    async fn check_landed(self, run: &Run, key: &str, attempt: u32) -> RunCommand {
        let RunEffects { world, effects, .. } = self;
        match run.spec.land {
            LandMode::Pr => {
                pull_request::check_requested(ForgeClient { world, effects, run }, attempt, key)
                    .await
            }
            LandMode::Branch | LandMode::Merge => {
                let git = self.git_calls.settled_git(Subject::Run(run.id)).await;
                blocking_git(git, run, move |git, run| landing::check_landed(git, run, attempt))
                    .await
            }
        }
    }
}

/// Runs work in git, separately from quick work.
async fn blocking_git(
    git: Git,
    run: &Run,
    work: impl FnOnce(&Git, &Run) -> RunCommand + Send + 'static,
) -> RunCommand {
    let run = run.clone();
    supervised_command::blocking(move || work(&git, &run)).await
}
