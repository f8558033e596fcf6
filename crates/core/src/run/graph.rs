//! The tasks of a run that was planned: what each waits for, who works on it, and how far it came.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    outcome::Proof,
    queue::{Conflict, Queue},
    stage::Stage,
};
use crate::{
    ids::{CommitId, SessionId},
    plan::{Plan, PlanTask, TaskId, chained},
    session::Usage,
    verdict::{Receipt, Snapshot},
};

/// How often a task may come back from the queue in one leg.
pub const MAX_RETURNS: u32 = 3;

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// For what it is after, or for room.
    Waiting,
    /// The worktree of the conversation that is gone on with is brought to where the work begins.
    Bringing(Errand),
    Working {
        session: SessionId,
        stage: Stage,
        cycle: u32,
    },
    /// Its work is done, and waits for its merge or is being merged.
    Queued,
    Merged,
    Failed {
        detail: String,
    },
}

impl Phase {
    pub fn word(&self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Bringing(_) => "starting",
            Phase::Working { stage: Stage::TaskReview, .. } => "review",
            Phase::Working { .. } => "working",
            Phase::Queued => "queued",
            Phase::Merged => "merged",
            Phase::Failed { .. } => "failed",
        }
    }
}

/// Bringing a worktree to a commit, so that its conversation can go on from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// Numbered within the run, so that a late answer is known as one.
    pub no: u32,
    pub session: SessionId,
    /// None if it is gone on with where it stands.
    pub to: Option<Snapshot>,
    /// Whether it was done.
    pub done: bool,
}

/// Why the queue gave a task back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Return {
    /// Others have changed the same lines.
    Conflict(Conflict),
    /// Merged with what others did, it fails checks that passed before it.
    Breaks { merge: Snapshot, failed: Vec<Receipt> },
}

impl Return {
    /// Gives the commit that the task has to be gone on with from.
    pub fn merge(&self) -> &Snapshot {
        match self {
            Return::Conflict(conflict) => &conflict.merge,
            Return::Breaks { merge, .. } => merge,
        }
    }
}

/// How far one task came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub phase: Phase,
    /// So many that it is after are not merged yet.
    pub missing: u32,
    /// Who does its work; others review it.
    pub worker: Option<SessionId>,
    /// Where its work began.
    pub base: Option<Snapshot>,
    /// Its newest work that was committed, and the proof that it passed.
    pub head: Option<Snapshot>,
    pub proof: Option<Proof>,
    /// Why what a session left could not be committed.
    pub headless: Option<String>,
    /// Why its work was ended before it was done, if it is to be gone on with.
    pub again: Option<String>,
    /// What the queue gave it back for, until it is done again.
    pub returned: Option<Return>,
    /// The two that were merged with conflicts, which its newest work has mended.
    pub mended: Option<(CommitId, CommitId)>,
    /// Files whose conflict goes through it until it is merged: whoever else has changed them waits for that.
    #[serde(default)]
    pub mending: Vec<String>,
    pub returns: u32,
    pub retries: u32,
    /// Whose conversation it could not go on with, and why.
    pub handed_over: Option<(SessionId, String)>,
    /// All who worked on it, and all hand-overs, as they came.
    #[serde(default)]
    pub workers: Vec<SessionId>,
    #[serde(default)]
    pub hand_overs: Vec<(SessionId, String)>,
    /// What those used for it that have ended. A conversation may have worked on others too.
    #[serde(default)]
    pub usage: Usage,
}

impl Task {
    fn new(missing: usize) -> Task {
        Task {
            phase: Phase::Waiting,
            missing: u32::try_from(missing).unwrap_or(u32::MAX),
            worker: None,
            base: None,
            head: None,
            proof: None,
            headless: None,
            again: None,
            returned: None,
            mended: None,
            mending: Vec::new(),
            returns: 0,
            retries: 0,
            handed_over: None,
            workers: Vec::new(),
            hand_overs: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// A new commit voids an old proof.
    pub(super) fn take_head(&mut self, head: &Snapshot, proof: Option<Proof>) {
        let stands = self.proof.take().filter(|proof| proof.is_for(head));
        self.proof = proof.or(stands);
        self.head = Some(head.clone());
    }

    /// Says whether something is done for the task, or waits to be.
    pub(super) fn is_under_way(&self) -> bool {
        match &self.phase {
            Phase::Bringing(_) | Phase::Working { .. } | Phase::Queued => true,
            Phase::Waiting | Phase::Merged | Phase::Failed { .. } => false,
        }
    }

    /// Another is to take the task over, and begins it.
    pub(super) fn hand_over(&mut self, from: SessionId, why: &str) {
        (self.handed_over, self.again) = (Some((from, why.to_owned())), None);
        self.hand_overs.push((from, why.to_owned()));
    }

    /// Lets another review what was done.
    pub(super) fn review_anew(&mut self) {
        (self.retries, self.headless) = (self.retries + 1, None);
        if let Some(session) = self.worker {
            self.phase = Phase::Working { session, stage: Stage::Work, cycle: 1 };
        }
    }

    /// Gives the session that works for the task now.
    pub fn session(&self) -> Option<SessionId> {
        match &self.phase {
            Phase::Working { session, .. } => Some(*session),
            Phase::Waiting
            | Phase::Bringing(_)
            | Phase::Queued
            | Phase::Merged
            | Phase::Failed { .. } => None,
        }
    }
}

/// The tasks of a run, and the queue that merges their work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    plan: Arc<Plan>,
    /// In the plan's order. Shared, for a graph is copied for every decision about its run.
    tasks: Vec<Arc<Task>>,
    places: Arc<BTreeMap<TaskId, usize>>,
    /// Those that are after each.
    followers: Arc<Vec<Vec<usize>>>,
    /// Whose conversation each goes on with.
    chained: Arc<BTreeMap<TaskId, TaskId>>,
    pub queue: Queue,
    pub(super) errands: u32,
}

impl Graph {
    pub(super) fn new(plan: Arc<Plan>) -> Graph {
        let ids = plan.tasks().iter().enumerate().map(|(at, task)| (task.id.clone(), at));
        let places: BTreeMap<TaskId, usize> = ids.collect();
        let mut followers = vec![Vec::new(); plan.tasks().len()];
        for (at, task) in plan.tasks().iter().enumerate() {
            for before in task.after.iter().filter_map(|id| places.get(id)) {
                followers[*before].push(at);
            }
        }
        Graph {
            tasks: plan.tasks().iter().map(|task| Arc::new(Task::new(task.after.len()))).collect(),
            chained: Arc::new(chained(&plan)),
            places: Arc::new(places),
            followers: Arc::new(followers),
            plan,
            queue: Queue::default(),
            errands: 0,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Gives each task with how far it came, in the plan's order.
    pub fn tasks(&self) -> impl Iterator<Item = (&PlanTask, &Task)> {
        self.plan.tasks().iter().zip(self.tasks.iter().map(Arc::as_ref))
    }

    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.places.get(id).map(|at| self.tasks[*at].as_ref())
    }

    pub(super) fn task_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.places.get(id).map(|at| Arc::make_mut(&mut self.tasks[*at]))
    }

    /// Gives the tasks that may begin: nothing that they are after is missing.
    pub fn ready(&self) -> impl Iterator<Item = (&PlanTask, &Task)> {
        let free = |task: &Task| task.missing == 0 || bug!(TaskBegunTooEarly);
        self.tasks().filter(move |(_, task)| task.phase == Phase::Waiting && free(task))
    }

    /// Gives the task whose conversation this one goes on with.
    pub fn goes_on_with(&self, id: &TaskId) -> Option<&TaskId> {
        self.chained.get(id)
    }

    /// Says whether all tasks are merged. A plan has at least one.
    pub fn is_done(&self) -> bool {
        self.tasks.iter().all(|task| task.phase == Phase::Merged)
    }

    /// Says whether one of these files is in a conflict that another task mends.
    pub(super) fn is_mended_by_another(&self, id: &TaskId, files: &[String]) -> bool {
        let mends = |task: &Task| task.mending.iter().any(|file| files.contains(file));
        self.tasks().any(|(plan, task)| plan.id != *id && mends(task))
    }

    pub(super) fn merge(&mut self, id: &TaskId) {
        let Some(at) = self.places.get(id).copied() else { return };
        if self.tasks[at].phase == Phase::Merged {
            return;
        }
        let task = Arc::make_mut(&mut self.tasks[at]);
        (task.phase, task.returned, task.mending) = (Phase::Merged, None, Vec::new());
        for follower in &self.followers[at] {
            let missing = &mut Arc::make_mut(&mut self.tasks[*follower]).missing;
            *missing = missing.saturating_sub(1);
        }
    }

    /// Begins anew what was under way or failed when the run was ended; what is merged stays merged.
    pub(super) fn restart(&mut self, ended: &str) {
        self.queue.restart();
        for task in self.tasks.iter_mut().map(Arc::make_mut) {
            (task.returns, task.retries, task.headless) = (0, 0, None);
            task.phase = match (std::mem::replace(&mut task.phase, Phase::Waiting), task.worker) {
                (Phase::Waiting | Phase::Bringing(_), _) | (Phase::Failed { .. }, None) => {
                    Phase::Waiting
                }
                // The work is done: its review begins anew.
                (Phase::Working { stage: Stage::TaskReview, .. }, Some(session)) => {
                    Phase::Working { session, stage: Stage::Work, cycle: 1 }
                }
                (Phase::Working { .. } | Phase::Failed { .. }, _) => {
                    task.again = Some(ended.to_owned());
                    Phase::Waiting
                }
                (Phase::Queued, _) => Phase::Queued,
                (Phase::Merged, _) => Phase::Merged,
            };
        }
    }
}
