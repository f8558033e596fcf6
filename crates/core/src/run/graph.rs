//! The tasks of a planned run: their dependencies, workers and progress.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    outcome::TreeProof,
    queue::{MergeConflict, MergeQueue},
    stage::RunStage,
};
use crate::{
    ids::{CommitId, SessionId},
    plan::{Plan, PlanTask, TaskId, continued_tasks},
    rules::rules,
    session::Usage,
    verdict::{Receipt, Snapshot},
};

/// How many times the merge queue may return a task during one run attempt.
pub const MAX_RETURNS: u32 = 3;

/// The phase of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// The task is waiting for its dependencies or for a free agent slot.
    Waiting,
    /// The worktree of the conversation to resume is being moved to the commit where the work starts.
    PreparingWorktree(WorktreeMove),
    Working {
        session: SessionId,
        stage: RunStage,
        cycle: u32,
    },
    /// The work is finished, and is waiting to be merged or being merged.
    Queued,
    Merged,
    Failed {
        detail: String,
    },
}

impl TaskPhase {
    pub fn as_str(&self) -> &'static str {
        match self {
            TaskPhase::Waiting => "waiting",
            TaskPhase::PreparingWorktree(_) => "starting",
            TaskPhase::Working { stage: RunStage::TaskReview, .. } => "review",
            TaskPhase::Working { .. } => "working",
            TaskPhase::Queued => "queued",
            TaskPhase::Merged => "merged",
            TaskPhase::Failed { .. } => "failed",
        }
    }
}

/// The move of a worktree to the commit where its conversation continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeMove {
    /// Sequence number within the run, so that late replies can be recognized.
    pub no: u32,
    pub session: SessionId,
    /// The commit to move to. None if the worktree stays where it is.
    pub to: Option<Snapshot>,
    /// Whether the move is done.
    pub done: bool,
}

/// Why the merge queue returned a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskReturn {
    /// Other tasks changed the same lines.
    Conflict(MergeConflict),
    /// Checks that used to pass fail after the merge with other tasks.
    Breaks { merge: Snapshot, failed: Vec<Receipt> },
}

impl TaskReturn {
    /// Returns the commit from which work on the task must continue.
    pub fn merge_commit(&self) -> &Snapshot {
        match self {
            TaskReturn::Conflict(conflict) => &conflict.merge,
            TaskReturn::Breaks { merge, .. } => merge,
        }
    }
}

/// The progress of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    pub phase: TaskPhase,
    /// The number of dependencies that are not merged yet.
    pub missing: u32,
    /// The session that does the work. Its reviewers are other sessions.
    pub worker: Option<SessionId>,
    /// The commit from which the work started.
    pub base: Option<Snapshot>,
    /// The newest committed work, and the proof that it passed the checks.
    pub head: Option<Snapshot>,
    pub proof: Option<TreeProof>,
    /// Why the remaining changes of a session could not be committed.
    pub commit_failure: Option<String>,
    /// Why the work was interrupted, if it will be resumed.
    pub interrupted: Option<String>,
    /// Why the queue returned the task. Cleared when the work is finished again.
    pub returned: Option<TaskReturn>,
    /// The two commits whose conflicting merge the newest work resolved.
    pub resolved_merge: Option<(CommitId, CommitId)>,
    /// Files with conflicts that the task is resolving. Other tasks that changed these files wait
    /// until this task is merged.
    #[serde(default)]
    pub resolving_files: Vec<String>,
    pub returns: u32,
    pub retries: u32,
    /// The conversation that could not be resumed, and why.
    pub handed_over: Option<(SessionId, String)>,
    /// All sessions that have worked on the task, in order.
    #[serde(default)]
    pub workers: Vec<SessionId>,
    #[serde(default)]
    pub hand_overs: Vec<(SessionId, String)>,
    /// The usage of the sessions that have ended, as far as it belongs to this task. The same conversation may also
    /// have worked on other tasks.
    #[serde(default)]
    pub usage: Usage,
}

impl TaskState {
    fn new(missing: usize) -> TaskState {
        TaskState {
            phase: TaskPhase::Waiting,
            missing: u32::try_from(missing).unwrap_or(u32::MAX),
            worker: None,
            base: None,
            head: None,
            proof: None,
            commit_failure: None,
            interrupted: None,
            returned: None,
            resolved_merge: None,
            resolving_files: Vec::new(),
            returns: 0,
            retries: 0,
            handed_over: None,
            workers: Vec::new(),
            hand_overs: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// Sets the newest commit, and drops the proof if it was for a different tree.
    pub(super) fn set_head(&mut self, head: &Snapshot, proof: Option<TreeProof>) {
        let kept = self.proof.take().filter(|proof| proof.is_for(head));
        self.proof = proof.or(kept);
        self.head = Some(head.clone());
    }

    /// Whether the task is being worked on, or its finished work is waiting to be merged.
    pub(super) fn is_active(&self) -> bool {
        match &self.phase {
            TaskPhase::PreparingWorktree(_) | TaskPhase::Working { .. } | TaskPhase::Queued => true,
            TaskPhase::Waiting | TaskPhase::Merged | TaskPhase::Failed { .. } => false,
        }
    }

    /// Hands the task over to another session, which starts over.
    pub(super) fn hand_over(&mut self, from: SessionId, why: &str) {
        (self.handed_over, self.interrupted) = (Some((from, why.to_owned())), None);
        self.hand_overs.push((from, why.to_owned()));
    }

    /// Requests a new review of the work by another session.
    pub(super) fn request_new_review(&mut self) {
        (self.retries, self.commit_failure) = (self.retries + 1, None);
        if let Some(session) = self.worker {
            self.phase = TaskPhase::Working { session, stage: RunStage::Work, cycle: 1 };
        }
    }

    /// Returns the session that is currently working on the task.
    pub fn session(&self) -> Option<SessionId> {
        match &self.phase {
            TaskPhase::Working { session, .. } => Some(*session),
            TaskPhase::Waiting
            | TaskPhase::PreparingWorktree(_)
            | TaskPhase::Queued
            | TaskPhase::Merged
            | TaskPhase::Failed { .. } => None,
        }
    }
}

/// The tasks of a run, and the queue that merges their work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGraph {
    plan: Arc<Plan>,
    /// In the order of the plan. Each task is behind an `Arc` because the graph is cloned for every
    /// decision about its run.
    tasks: Vec<Arc<TaskState>>,
    places: Arc<BTreeMap<TaskId, usize>>,
    /// For each task, the tasks that depend on it.
    followers: Arc<Vec<Vec<usize>>>,
    /// For each task, the task whose conversation it continues.
    chained: Arc<BTreeMap<TaskId, TaskId>>,
    pub queue: MergeQueue,
    pub(super) worktree_moves: u32,
}

impl TaskGraph {
    pub(super) fn new(plan: Arc<Plan>) -> TaskGraph {
        let ids = plan.tasks().iter().enumerate().map(|(at, task)| (task.id.clone(), at));
        let places: BTreeMap<TaskId, usize> = ids.collect();
        let mut followers = vec![Vec::new(); plan.tasks().len()];
        for (at, task) in plan.tasks().iter().enumerate() {
            for before in task.after.iter().filter_map(|id| places.get(id)) {
                followers[*before].push(at);
            }
        }
        TaskGraph {
            tasks: plan
                .tasks()
                .iter()
                .map(|task| Arc::new(TaskState::new(task.after.len())))
                .collect(),
            chained: Arc::new(continued_tasks(&plan)),
            places: Arc::new(places),
            followers: Arc::new(followers),
            plan,
            queue: MergeQueue::default(),
            worktree_moves: 0,
        }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns each task with its progress, in the plan's order.
    pub fn tasks(&self) -> impl Iterator<Item = (&PlanTask, &TaskState)> {
        self.plan.tasks().iter().zip(self.tasks.iter().map(Arc::as_ref))
    }

    pub fn task(&self, id: &TaskId) -> Option<&TaskState> {
        self.places.get(id).map(|at| self.tasks[*at].as_ref())
    }

    pub(super) fn task_mut(&mut self, id: &TaskId) -> Option<&mut TaskState> {
        self.places.get(id).map(|at| Arc::make_mut(&mut self.tasks[*at]))
    }

    /// Returns the tasks that can begin because all of their dependencies are merged.
    pub fn ready(&self) -> impl Iterator<Item = (&PlanTask, &TaskState)> {
        let free = |task: &TaskState| rules().may_begin_task(task.missing);
        self.tasks().filter(move |(_, task)| task.phase == TaskPhase::Waiting && free(task))
    }

    /// Returns the task whose conversation this task continues.
    pub fn continues(&self, id: &TaskId) -> Option<&TaskId> {
        self.chained.get(id)
    }

    /// Whether all tasks are merged. A plan always has at least one task.
    pub fn is_done(&self) -> bool {
        self.tasks.iter().all(|task| task.phase == TaskPhase::Merged)
    }

    /// Whether another task is resolving a conflict in one of these files.
    pub(super) fn is_resolved_by_another(&self, id: &TaskId, files: &[String]) -> bool {
        let resolves =
            |task: &TaskState| task.resolving_files.iter().any(|file| files.contains(file));
        self.tasks().any(|(plan, task)| plan.id != *id && resolves(task))
    }

    pub(super) fn merge(&mut self, id: &TaskId) {
        let Some(at) = self.places.get(id).copied() else { return };
        if self.tasks[at].phase == TaskPhase::Merged {
            return;
        }
        let task = Arc::make_mut(&mut self.tasks[at]);
        (task.phase, task.returned, task.resolving_files) = (TaskPhase::Merged, None, Vec::new());
        for follower in &self.followers[at] {
            let missing = &mut Arc::make_mut(&mut self.tasks[*follower]).missing;
            *missing = missing.saturating_sub(1);
        }
    }

    /// Restarts the tasks that were in progress or had failed when the run ended. Merged tasks stay merged.
    pub(super) fn restart(&mut self, ended: &str) {
        self.queue.restart();
        for task in self.tasks.iter_mut().map(Arc::make_mut) {
            (task.returns, task.retries, task.commit_failure) = (0, 0, None);
            task.phase = match (std::mem::replace(&mut task.phase, TaskPhase::Waiting), task.worker)
            {
                (TaskPhase::Waiting | TaskPhase::PreparingWorktree(_), _)
                | (TaskPhase::Failed { .. }, None) => TaskPhase::Waiting,
                // The work is finished, so only the review is repeated.
                (TaskPhase::Working { stage: RunStage::TaskReview, .. }, Some(session)) => {
                    TaskPhase::Working { session, stage: RunStage::Work, cycle: 1 }
                }
                (TaskPhase::Working { .. } | TaskPhase::Failed { .. }, _) => {
                    task.interrupted = Some(ended.to_owned());
                    TaskPhase::Waiting
                }
                (TaskPhase::Queued, _) => TaskPhase::Queued,
                (TaskPhase::Merged, _) => TaskPhase::Merged,
            };
        }
    }
}
