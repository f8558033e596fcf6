//! The pending effects of a run. Like the effects of a session, they depend only on the current state.

use serde::{Deserialize, Serialize};

use super::{
    graph::TaskGraph,
    hook::RunHookKey,
    landing::{LandingNeed, LandingState},
    queue::QueueStep,
    spec::LandMode,
    stage::RunStage,
    state::{Run, RunSession, SessionEnd},
};
use crate::{ids::SessionId, session::EffectKey};

/// An effect outside the ledger. Its result is returned as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEffect {
    /// Commit the changes that a session left uncommitted, unless a check already committed them.
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
    /// Find out whether the work has landed. Nothing may land after this.
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
            RunEffect::CommitLeftovers(session) => format!("head-{session}"),
            RunEffect::MoveWorktree { no } => format!("bring-{no}"),
            RunEffect::MergeBatch { attempt: leg, batch } => format!("merge-{leg}-{batch}"),
            RunEffect::Integrate { attempt: leg, batch, len } => {
                format!("integrate-{leg}-{batch}-{len}")
            }
            RunEffect::Land { attempt: leg, step } => format!("land-{leg}-{step}"),
            RunEffect::WatchPullRequest { attempt: leg, change: look } => {
                format!("pull-{leg}-{look}")
            }
            RunEffect::CheckLanded { attempt: leg } => format!("landed-{leg}"),
            RunEffect::RunHook(key) => format!("h{}-{}", key.no, key.event),
            RunEffect::WriteReport { attempt: leg } => format!("card-{leg}"),
        }
    }

    /// Whether the effect depends on a branch or a checkout. Such an effect must wait for git calls
    /// that are left over from an earlier daemon, because they may still be moving the branch.
    pub fn waits_for_git(&self) -> bool {
        match self {
            RunEffect::Land { .. } | RunEffect::CheckLanded { .. } => !bug!(OutlivedGitIgnored),
            RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::Integrate { .. } => true,
            RunEffect::MergeBatch { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => false,
        }
    }

    /// Whether a daemon that is stopping must wait for the effect once it has begun, because it
    /// moves a branch of the repository.
    pub fn delays_shutdown(&self, run: &Run) -> bool {
        match self {
            RunEffect::Land { .. } => run.spec.land != LandMode::Pr && !bug!(LeftWhileLanding),
            RunEffect::MoveWorktree { .. } | RunEffect::Integrate { .. } => true,
            RunEffect::CommitLeftovers(_)
            | RunEffect::MergeBatch { .. }
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
        let mut owed: Vec<RunEffect> = Vec::new();
        if self.is_imported() {
            return owed;
        }
        if !self.is_sealed() && self.attempt().stopped.is_none() {
            owed.extend(
                self.uncommitted_sessions().map(|session| RunEffect::CommitLeftovers(session.id)),
            );
            owed.extend(self.task_effects());
            owed.extend(self.landing_effect());
        }
        owed.extend(
            self.is_stopped_landing()
                .then_some(RunEffect::CheckLanded { attempt: self.attempt().no }),
        );
        owed.extend(self.hooks.iter().map(|hook| RunEffect::RunHook(hook.key)));
        let unwritten =
            self.attempts.iter().filter(|leg| leg.sealed.is_some() && !leg.report_written);
        owed.extend(unwritten.map(|leg| RunEffect::WriteReport { attempt: leg.no }));
        owed
    }

    fn task_effects(&self) -> impl Iterator<Item = RunEffect> {
        let errands = self.worktree_moves().filter(|(_, errand)| !errand.done);
        let brought = errands.map(|(_, errand)| RunEffect::MoveWorktree { no: errand.no });
        let queue = self.graph.as_ref().map(|graph| &graph.queue);
        let leg = self.attempt().no;
        let queued = queue.and_then(|queue| match queue.next() {
            QueueStep::Merge => {
                Some(RunEffect::MergeBatch { attempt: leg, batch: queue.batches + 1 })
            }
            QueueStep::Integrate(len) => {
                Some(RunEffect::Integrate { attempt: leg, batch: queue.batch.as_ref()?.no, len })
            }
            QueueStep::Idle | QueueStep::Prove(_) | QueueStep::Return(_) => None,
        });
        brought.chain(queued)
    }

    fn landing_effect(&self) -> Option<RunEffect> {
        let busy = self.is_live() || self.uncommitted_sessions().next().is_some();
        if self.stage != RunStage::Land || busy {
            return None;
        }
        let (leg, step, look) = (self.attempt().no, self.steps.len(), self.pull_request_changes);
        match self.landing_need()? {
            LandingNeed::Session(..) | LandingNeed::Approval => None,
            LandingNeed::Land => Some(RunEffect::Land { attempt: leg, step }),
            LandingNeed::Watch => Some(RunEffect::WatchPullRequest { attempt: leg, change: look }),
        }
    }

    /// Whether the run was stopped while its work was landing, so that the work might have landed.
    pub(super) fn is_stopped_landing(&self) -> bool {
        let leg = self.attempt();
        let open = !matches!(self.landing, LandingState::Done(_));
        let stopped = leg.stopped.is_some() && leg.sealed.is_none() && !leg.landing_aborted;
        stopped && open && self.stage == RunStage::Land && !self.is_live()
    }

    /// Returns the sessions whose work is finished but not yet committed.
    pub(super) fn uncommitted_sessions(&self) -> impl Iterator<Item = &RunSession> {
        // A session that only checks a merge leaves no changes behind, even if the operator accepts
        // its result.
        let own = self.current().filter(|one| one.stage != RunStage::Tasks);
        let own = if self.commit_failure.is_none() { own } else { None };
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
