//! The pending effects of a run. Like the effects of a session, they depend only on the current state.

use serde::{Deserialize, Serialize};

use super::{
    graph::TaskGraph,
    hook::RunHookKey,
    landing::{LandingNeed, LandingState},
    queue::QueueStep,
    stage::RunStage,
    state::{Run, RunSession, SessionEnd},
};
use crate::{aggregate::EffectKey, ids::SessionId, rules::rules};

/// An effect outside the ledger. The result of the effect returns to the run as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEffect {
    /// Commit the changes that a session left uncommitted, unless they were already committed for a check.
    CommitLeftovers(SessionId),
    /// Move a worktree to the commit where a task starts.
    MoveWorktree {
        no: u32,
    },
    /// Merge the waiting tasks, up to the batch size.
    MergeBatch {
        attempt: u32,
        batch: u32,
    },
    /// Run the checks of a requested verification, or find the result if they already ran.
    Verify {
        no: u32,
    },
    /// Fast-forward the run's branch to include the first `len` links of the batch.
    Integrate {
        attempt: u32,
        batch: u32,
        len: usize,
    },
    /// Land the newest work on its target. The effect key contains the number of landing steps so
    /// far, so that each step creates a new effect.
    Land {
        attempt: u32,
        step: usize,
    },
    /// Poll the pull request until it changes.
    WatchPullRequest {
        attempt: u32,
        change: u32,
    },
    /// Find out whether the work has landed. After this effect, no work lands.
    CheckLanded {
        attempt: u32,
    },
    RunHook(RunHookKey),
    /// Write the report about a sealed outcome.
    WriteReport {
        attempt: u32,
    },
}

impl RunEffect {
    /// Returns the key that identifies the effect within its run.
    pub fn key(&self) -> EffectKey {
        match self {
            RunEffect::CommitLeftovers(session) => format!("commit-{session}"),
            RunEffect::MoveWorktree { no } => format!("move-worktree-{no}"),
            RunEffect::MergeBatch { attempt, batch } => format!("merge-{attempt}-{batch}"),
            RunEffect::Verify { no } => format!("verify-{no}"),
            RunEffect::Integrate { attempt, batch, len } => {
                format!("integrate-{attempt}-{batch}-{len}")
            }
            RunEffect::Land { attempt, step } => format!("land-{attempt}-{step}"),
            RunEffect::WatchPullRequest { attempt, change: look } => {
                format!("pull-{attempt}-{look}")
            }
            RunEffect::CheckLanded { attempt } => format!("landed-{attempt}"),
            RunEffect::RunHook(key) => format!("h{}-{}", key.no, key.event),
            RunEffect::WriteReport { attempt } => format!("summary-{attempt}"),
        }
    }

    /// Whether the effect depends on a branch or a checkout. Such an effect must wait for git calls of an earlier
    /// daemon that are still running, because these calls may still be moving the branch.
    pub fn waits_for_git(&self) -> bool {
        match self {
            RunEffect::Land { .. } | RunEffect::CheckLanded { .. } => {
                rules().landing_waits_for_git()
            }
            RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::Integrate { .. } => true,
            // A verification itself waits for these calls before it uses a checkout.
            RunEffect::Verify { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => false,
        }
    }

    /// Whether a daemon that is shutting down must wait for the effect once it has begun, because
    /// the effect moves a branch of the repository.
    pub fn delays_shutdown(&self, run: &Run) -> bool {
        match self {
            RunEffect::Land { .. } => rules().landing_delays_shutdown(run.spec.land),
            RunEffect::MoveWorktree { .. } | RunEffect::Integrate { .. } => true,
            RunEffect::CommitLeftovers(_)
            | RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::CheckLanded { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => false,
        }
    }
}

impl Run {
    /// Returns all pending effects.
    pub fn effects(&self) -> Vec<RunEffect> {
        let mut effects: Vec<RunEffect> = Vec::new();
        if self.is_imported() {
            return effects;
        }
        if !self.is_sealed() && self.attempt().stopped.is_none() {
            effects.extend(
                self.uncommitted_sessions().map(|session| RunEffect::CommitLeftovers(session.id)),
            );
            effects.extend(self.task_effects());
            let pending = self.pending_verification();
            effects.extend(pending.map(|pending| RunEffect::Verify { no: pending.no }));
            effects.extend(self.landing_effect());
        }
        effects.extend(
            self.is_stopped_landing()
                .then_some(RunEffect::CheckLanded { attempt: self.attempt().no }),
        );
        effects.extend(self.hooks.iter().map(|hook| RunEffect::RunHook(hook.key)));
        let unwritten = self
            .attempts
            .iter()
            .filter(|attempt| attempt.sealed.is_some() && !attempt.report_written);
        effects.extend(unwritten.map(|attempt| RunEffect::WriteReport { attempt: attempt.no }));
        effects
    }

    fn task_effects(&self) -> impl Iterator<Item = RunEffect> {
        let pending_moves = self.worktree_moves().filter(|(_, worktree_move)| !worktree_move.done);
        let moves = pending_moves
            .map(|(_, worktree_move)| RunEffect::MoveWorktree { no: worktree_move.no });
        let queue = self.graph.as_ref().map(|graph| &graph.queue);
        let attempt = self.attempt().no;
        let queued = queue.and_then(|queue| match queue.next() {
            QueueStep::Merge => Some(RunEffect::MergeBatch { attempt, batch: queue.batches + 1 }),
            QueueStep::Integrate(len) => {
                Some(RunEffect::Integrate { attempt, batch: queue.batch.as_ref()?.no, len })
            }
            QueueStep::Idle | QueueStep::Prove(_) | QueueStep::Return(_) => None,
        });
        moves.chain(queued)
    }

    fn landing_effect(&self) -> Option<RunEffect> {
        let busy = self.is_live() || self.uncommitted_sessions().next().is_some();
        if self.stage != RunStage::Land || busy {
            return None;
        }
        let (attempt, step, look) =
            (self.attempt().no, self.steps.len(), self.pull_request_changes);
        match self.landing_need()? {
            LandingNeed::Session(..) | LandingNeed::Verification(..) | LandingNeed::Approval => {
                None
            }
            LandingNeed::Land => Some(RunEffect::Land { attempt, step }),
            LandingNeed::Watch => Some(RunEffect::WatchPullRequest { attempt, change: look }),
        }
    }

    /// Whether the run was stopped while its work was landing. The work may have landed anyway.
    pub(super) fn is_stopped_landing(&self) -> bool {
        let attempt = self.attempt();
        let open = !matches!(self.landing, LandingState::Done(_));
        let stopped =
            attempt.stopped.is_some() && attempt.sealed.is_none() && !attempt.landing_aborted;
        stopped && open && self.stage == RunStage::Land && !self.is_live()
    }

    /// Returns the sessions whose work is finished but not yet committed.
    pub(super) fn uncommitted_sessions(&self) -> impl Iterator<Item = &RunSession> {
        let own = if self.commit_failure.is_none() { self.current() } else { None };
        let tasks = self.graph.iter().flat_map(TaskGraph::tasks).map(|(_, task)| task);
        let known = tasks.filter(|task| task.commit_failure.is_none());
        let of_tasks = known.filter_map(|task| self.session(task.session()?));
        own.into_iter().chain(of_tasks).filter(|session| self.is_uncommitted(session))
    }

    fn is_uncommitted(&self, session: &RunSession) -> bool {
        let mode = self.spec.reviews.mode_for(session.stage);
        let edits = session.stage.permissions(mode).is_some_and(|may| may.edits);
        let uncommitted = |end: &SessionEnd| end.is_good() && end.head.is_none();
        edits && session.end.as_deref().is_some_and(uncommitted)
    }
}
