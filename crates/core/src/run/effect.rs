//! The pending effects of a run. Level-triggered, like those of a session.

use serde::{Deserialize, Serialize};

use super::{
    graph::Graph,
    hook::RunHookKey,
    landing::{Ahead, Landing},
    queue::QueueStep,
    spec::LandMode,
    stage::Stage,
    state::{Run, RunSession, SessionEnd},
};
use crate::{ids::SessionId, session::EffectKey};

/// An effect on the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Commit what a session left behind, if no check had it committed.
    TakeHead(SessionId),
    /// Move a worktree to the commit where a task begins.
    Bring {
        no: u32,
    },
    /// Merge the waiting tasks, up to the batch size.
    MergeBatch {
        leg: u32,
        batch: u32,
    },
    /// Fast-forward the run's branch over the first `len` links of the batch.
    Integrate {
        leg: u32,
        batch: u32,
        len: usize,
    },
    /// Land the newest work at its target. Keyed by the number of steps so far: each step makes a
    /// new effect.
    Land {
        leg: u32,
        step: usize,
    },
    /// Query the pull request until it changes.
    WatchPull {
        leg: u32,
        look: u32,
    },
    /// Find out whether the work had landed. Nothing more may land.
    LookLanded {
        leg: u32,
    },
    RunHook(RunHookKey),
    /// Write the report of a sealed outcome.
    WriteCard {
        leg: u32,
    },
}

impl Effect {
    /// Returns the effect's key within its run.
    pub fn key(&self) -> EffectKey {
        match self {
            Effect::TakeHead(session) => format!("head-{session}"),
            Effect::Bring { no } => format!("bring-{no}"),
            Effect::MergeBatch { leg, batch } => format!("merge-{leg}-{batch}"),
            Effect::Integrate { leg, batch, len } => format!("integrate-{leg}-{batch}-{len}"),
            Effect::Land { leg, step } => format!("land-{leg}-{step}"),
            Effect::WatchPull { leg, look } => format!("pull-{leg}-{look}"),
            Effect::LookLanded { leg } => format!("landed-{leg}"),
            Effect::RunHook(key) => format!("h{}-{}", key.no, key.event),
            Effect::WriteCard { leg } => format!("card-{leg}"),
        }
    }

    /// Whether the effect depends on a branch or a checkout. It waits for git calls that outlived
    /// an earlier daemon, because they may be moving that branch.
    pub fn waits_for_git(&self) -> bool {
        match self {
            Effect::Land { .. } | Effect::LookLanded { .. } => !bug!(OutlivedGitIgnored),
            Effect::TakeHead(_) | Effect::Bring { .. } | Effect::Integrate { .. } => true,
            Effect::MergeBatch { .. }
            | Effect::WatchPull { .. }
            | Effect::RunHook(_)
            | Effect::WriteCard { .. } => false,
        }
    }

    /// Whether a stopping daemon waits for the effect once it has begun, because it moves a branch
    /// of this repository.
    pub fn holds_up_a_stop(&self, run: &Run) -> bool {
        match self {
            Effect::Land { .. } => run.spec.land != LandMode::Pr && !bug!(LeftWhileLanding),
            Effect::Bring { .. } | Effect::Integrate { .. } => true,
            Effect::TakeHead(_)
            | Effect::MergeBatch { .. }
            | Effect::WatchPull { .. }
            | Effect::LookLanded { .. }
            | Effect::RunHook(_)
            | Effect::WriteCard { .. } => false,
        }
    }
}

impl Run {
    /// Returns all pending effects.
    pub fn effects(&self) -> Vec<Effect> {
        let mut owed: Vec<Effect> = Vec::new();
        if self.is_foreign() {
            return owed;
        }
        if !self.is_sealed() && self.leg().stopped.is_none() {
            owed.extend(self.headless_sessions().map(|session| Effect::TakeHead(session.id)));
            owed.extend(self.task_effects());
            owed.extend(self.landing_effect());
        }
        owed.extend(self.is_stopped_landing().then_some(Effect::LookLanded { leg: self.leg().no }));
        owed.extend(self.hooks.iter().map(|hook| Effect::RunHook(hook.key)));
        let unwritten = self.legs.iter().filter(|leg| leg.sealed.is_some() && !leg.card);
        owed.extend(unwritten.map(|leg| Effect::WriteCard { leg: leg.no }));
        owed
    }

    fn task_effects(&self) -> impl Iterator<Item = Effect> {
        let errands = self.errands().filter(|(_, errand)| !errand.done);
        let brought = errands.map(|(_, errand)| Effect::Bring { no: errand.no });
        let queue = self.graph.as_ref().map(|graph| &graph.queue);
        let leg = self.leg().no;
        let queued = queue.and_then(|queue| match queue.next() {
            QueueStep::Merge => Some(Effect::MergeBatch { leg, batch: queue.batches + 1 }),
            QueueStep::Integrate(len) => {
                Some(Effect::Integrate { leg, batch: queue.batch.as_ref()?.no, len })
            }
            QueueStep::Rest | QueueStep::Prove(_) | QueueStep::Return(_) => None,
        });
        brought.chain(queued)
    }

    fn landing_effect(&self) -> Option<Effect> {
        let busy = self.is_live() || self.headless_sessions().next().is_some();
        if self.stage != Stage::Land || busy {
            return None;
        }
        let (leg, step, look) = (self.leg().no, self.steps.len(), self.looks);
        match self.ahead()? {
            Ahead::Session(..) | Ahead::Approval => None,
            Ahead::Land => Some(Effect::Land { leg, step }),
            Ahead::Watch => Some(Effect::WatchPull { leg, look }),
        }
    }

    /// Whether the run was stopped while landing, so that it may have landed.
    pub(super) fn is_stopped_landing(&self) -> bool {
        let leg = self.leg();
        let open = !matches!(self.landing, Landing::Done(_));
        let stopped = leg.stopped.is_some() && leg.sealed.is_none() && !leg.landing_over;
        stopped && open && self.stage == Stage::Land && !self.is_live()
    }

    /// Returns the sessions whose work is done but not committed yet.
    pub(super) fn headless_sessions(&self) -> impl Iterator<Item = &RunSession> {
        // A session that only checks a merge leaves nothing, even if the operator accepts it.
        let own = self.current().filter(|one| one.stage != Stage::Tasks);
        let own = if self.headless.is_none() { own } else { None };
        let tasks = self.graph.iter().flat_map(Graph::tasks).map(|(_, task)| task);
        let known = tasks.filter(|task| task.headless.is_none());
        let of_tasks = known.filter_map(|task| self.session(task.session()?));
        own.into_iter().chain(of_tasks).filter(|session| self.is_headless(session))
    }

    fn is_headless(&self, session: &RunSession) -> bool {
        let mode = self.spec.reviews.of(session.stage);
        let edits = session.stage.permissions(mode).is_some_and(|may| may.edits);
        let uncommitted = |end: &SessionEnd| end.is_good() && end.head.is_none();
        edits && session.end.as_deref().is_some_and(uncommitted)
    }
}
