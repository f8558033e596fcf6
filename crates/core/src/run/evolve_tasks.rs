//! Applies events about a run's plan, its tasks and its merge queue.

use std::sync::Arc;

use super::{
    event::*,
    graph::{TaskPhase, TaskReturn, TaskState, WorktreeMove},
    hook::RunHookEvent,
    stage::RunStage,
    state::{PlanProgress, Run},
};
use crate::time::Moment;

impl Run {
    /// Applies an event about the plan.
    pub(super) fn apply_plan(&mut self, at: Moment, event: &PlanEvent) {
        match event {
            PlanEvent::PlanMade(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(PlanProgress { plan, reviewed: false, approved: false });
            }
            PlanEvent::PlanInvalid(e) => self.plan_faults.push((e.session, e.faults.clone())),
            PlanEvent::PlanReviewed(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(PlanProgress { plan, reviewed: true, approved: false });
                self.add_pending_hook(RunHookEvent::Planned, at);
            }
            PlanEvent::PlanApproved(e) => {
                self.planned.iter_mut().for_each(|planned| planned.approved = true);
                self.consented.extend(e.commands.iter().cloned());
            }
        }
    }

    /// Applies an event about a task of the plan.
    pub(super) fn apply_task(&mut self, event: &TaskEvent) {
        let id = match event {
            TaskEvent::WorktreeMoveRequested(WorktreeMoveRequested { task, .. })
            | TaskEvent::WorktreeMoved(WorktreeMoved { task, .. })
            | TaskEvent::HandedOver(HandedOver { task, .. })
            | TaskEvent::TaskRetried(TaskRetried { task, .. })
            | TaskEvent::TaskQueued(TaskQueued { task })
            | TaskEvent::TaskReturned(TaskReturned { task, .. })
            | TaskEvent::TaskFailed(TaskFailed { task, .. }) => task,
        };
        let Some(graph) = &mut self.graph else { return };
        match event {
            TaskEvent::WorktreeMoveRequested(_) => graph.worktree_moves += 1,
            TaskEvent::TaskQueued(_) => graph.queue.waiting.push(id.clone()),
            TaskEvent::TaskReturned(_) | TaskEvent::TaskFailed(_) => graph.queue.remove_task(id),
            TaskEvent::WorktreeMoved(_) | TaskEvent::HandedOver(_) | TaskEvent::TaskRetried(_) => {}
        }
        if let Some(task) = graph.task_mut(id) {
            task.apply(event);
        }
    }

    /// Applies an event about the merge queue.
    pub(super) fn apply_queue(&mut self, event: &QueueEvent) {
        let Some(graph) = &mut self.graph else { return };
        match event {
            QueueEvent::BatchMerged(e) => {
                graph.queue.record_merge(e.onto.clone(), e.links.clone(), e.conflicts.clone());
            }
            QueueEvent::BatchVerified(e) => graph.queue.record_check_skipped(e.len),
            QueueEvent::Integrated(e) => {
                let by = graph.queue.batch.as_ref().and_then(|batch| batch.verified_by);
                let links = graph.queue.record_integration(e.len);
                let last = links.last().and_then(|link| graph.task(&link.task));
                let own = last.and_then(|task| task.proof.clone());
                links.iter().for_each(|link| graph.merge(&link.task));
                let checked = by.and_then(|by| self.requested_verification(by));
                let proof = checked.and_then(|checked| self.proof_by(checked)).or(own);
                self.set_head(&e.head, proof.filter(|proof| proof.is_for(&e.head)));
            }
        }
    }

    /// Records a session that works on a task.
    pub(super) fn add_task_session(&mut self, e: &RunSessionOpened) {
        let base = self.base().clone();
        let (Some(graph), Some(id)) = (&mut self.graph, &e.task) else { return };
        let Some(task) = graph.task_mut(id) else { return };
        if e.stage == RunStage::Work {
            let begun = match &task.phase {
                TaskPhase::PreparingWorktree(worktree_move) => worktree_move.to.clone(),
                TaskPhase::Waiting
                | TaskPhase::Working { .. }
                | TaskPhase::Queued
                | TaskPhase::Merged
                | TaskPhase::Failed { .. } => {
                    Some(task.returned.as_ref().map_or(base, |why| why.merge_commit().clone()))
                }
            };
            task.base = begun.or(task.base.take());
            (task.worker, task.commit_failure) = (Some(e.session), None);
            if task.workers.last() != Some(&e.session) {
                task.workers.push(e.session);
            }
        }
        task.phase = TaskPhase::Working { session: e.session, stage: e.stage, cycle: e.cycle };
    }
}

impl TaskState {
    fn apply(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::WorktreeMoveRequested(e) => {
                let (no, session, to) = (e.no, e.session, e.to.clone());
                self.phase =
                    TaskPhase::PreparingWorktree(WorktreeMove { no, session, to, done: false });
            }
            TaskEvent::WorktreeMoved(e) => {
                if let TaskPhase::PreparingWorktree(worktree_move) = &mut self.phase {
                    worktree_move.done = worktree_move.no == e.no;
                }
            }
            TaskEvent::HandedOver(e) => {
                self.hand_over(e.from, &e.reason);
                self.phase = TaskPhase::Waiting;
            }
            TaskEvent::TaskRetried(e) if e.stage == RunStage::TaskReview => {
                self.request_new_review()
            }
            TaskEvent::TaskRetried(e) => {
                self.retries += 1;
                // A different agent starts over, without the earlier work.
                match self.worker {
                    Some(worker) if e.fresh => self.hand_over(worker, &e.detail),
                    Some(_) | None => self.interrupted = Some(e.detail.clone()),
                }
                self.phase = TaskPhase::Waiting;
            }
            TaskEvent::TaskQueued(_) => {
                // Work that fixed broken checks is already based on the merge.
                self.resolved_merge = match self.returned.take() {
                    Some(TaskReturn::Conflict(met)) => Some((met.work, met.onto)),
                    Some(TaskReturn::Breaks { .. }) => None,
                    None => self.resolved_merge.take(),
                };
                (self.interrupted, self.handed_over) = (None, None);
                self.phase = TaskPhase::Queued;
            }
            TaskEvent::TaskReturned(e) => {
                self.returns += 1;
                self.returned = Some((*e.why).clone());
                if let TaskReturn::Conflict(met) = &*e.why {
                    self.resolving_files = met.files.clone();
                }
                self.phase = TaskPhase::Waiting;
            }
            TaskEvent::TaskFailed(e) => {
                self.phase = TaskPhase::Failed { detail: e.detail.clone() };
                self.resolving_files = Vec::new();
            }
        }
    }
}
