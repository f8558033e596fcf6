//! What a run owes to the outside world itself. Level-triggered, as a session's effects are.

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

/// Something to be done to the outside world. Its result comes back as a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Commit what a session left that no check had committed.
    TakeHead(SessionId),
    /// Bring a worktree to where a task begins.
    Bring {
        no: u32,
    },
    /// Merge the tasks that wait, as many as a batch takes.
    MergeBatch {
        leg: u32,
        batch: u32,
    },
    /// Bring the run's branch forward over so many links of the batch.
    Integrate {
        leg: u32,
        batch: u32,
        len: usize,
    },
    /// Bring the newest work to where it was asked for. Told with the steps so far: it is another after each.
    Land {
        leg: u32,
        step: usize,
    },
    /// Look at the pull request until something about it is new.
    WatchPull {
        leg: u32,
        look: u32,
    },
    /// Nothing more may land: say whether something had.
    LookLanded {
        leg: u32,
    },
    RunHook(RunHookKey),
    /// Write the report card of a sealed outcome.
    WriteCard {
        leg: u32,
    },
}

impl Effect {
    /// Gives the effect's key within its run.
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

    /// Whether the effect depends on a branch or a checkout. It waits for git calls that outlived an earlier daemon: they
    /// may be moving that very branch.
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

    /// Whether a daemon that is to leave waits for the effect once it has begun: it moves a branch of this repository.
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
    /// Gives all that is owed now.
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

    /// Says whether the run was stopped on its way to land, and may have landed all the same.
    pub(super) fn is_stopped_landing(&self) -> bool {
        let leg = self.leg();
        let open = !matches!(self.landing, Landing::Done(_));
        let stopped = leg.stopped.is_some() && leg.sealed.is_none() && !leg.landing_over;
        stopped && open && self.stage == Stage::Land && !self.is_live()
    }

    /// Gives the sessions whose work is done and was not committed yet.
    pub(super) fn headless_sessions(&self) -> impl Iterator<Item = &RunSession> {
        // Who only checks what was merged leaves nothing, also if a person accepts it.
        let own = self.current().filter(|one| one.stage != Stage::Tasks);
        let own = own.filter(|_| self.headless.is_none());
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
