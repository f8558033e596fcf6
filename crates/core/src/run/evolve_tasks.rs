//! Applies events about a run's plan, its tasks and its merge queue.

use std::sync::Arc;

use super::{
    event::*,
    graph::{TaskPhase, TaskReturn, WorktreeMove},
    hook::RunHookEvent,
    stage::RunStage,
    state::{PlanProgress, Run},
};
use crate::time::Moment;

impl Run {
    #[expect(clippy::wildcard_enum_match_arm, reason = "evolve() is the exhaustive match")]
    pub(super) fn apply_plan(&mut self, at: Moment, event: &Event) {
        match event {
            Event::PlanMade(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(PlanProgress { plan, reviewed: false, approved: false });
            }
            Event::PlanInvalid(e) => self.plan_faults.push((e.session, e.faults.clone())),
            Event::PlanReviewed(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(PlanProgress { plan, reviewed: true, approved: false });
                self.add_pending_hook(RunHookEvent::Planned, at);
            }
            Event::PlanApproved(e) => {
                self.planned.iter_mut().for_each(|planned| planned.approved = true);
                self.consented.extend(e.commands.iter().cloned());
            }
            _ => unreachable!("evolve() sends only events about the plan here"),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "evolve() is the exhaustive match")]
    pub(super) fn apply_task(&mut self, event: &Event) {
        let id = match event {
            Event::WorktreeMoveRequested(WorktreeMoveRequested { task, .. })
            | Event::WorktreeMoved(WorktreeMoved { task, .. })
            | Event::HandedOver(HandedOver { task, .. })
            | Event::TaskRetried(TaskRetried { task, .. })
            | Event::TaskQueued(TaskQueued { task })
            | Event::TaskReturned(TaskReturned { task, .. })
            | Event::TaskFailed(TaskFailed { task, .. }) => task.clone(),
            _ => unreachable!("evolve() sends only events about tasks here"),
        };
        let Some(graph) = &mut self.graph else { return };
        match event {
            Event::WorktreeMoveRequested(_) => graph.worktree_moves += 1,
            Event::TaskQueued(_) => graph.queue.waiting.push(id.clone()),
            Event::TaskReturned(_) | Event::TaskFailed(_) => graph.queue.remove_task(&id),
            _ => {}
        }
        let Some(task) = graph.task_mut(&id) else { return };
        match event {
            Event::WorktreeMoveRequested(e) => {
                let (no, session, to) = (e.no, e.session, e.to.clone());
                task.phase =
                    TaskPhase::PreparingWorktree(WorktreeMove { no, session, to, done: false });
            }
            Event::WorktreeMoved(e) => {
                if let TaskPhase::PreparingWorktree(worktree_move) = &mut task.phase {
                    worktree_move.done = worktree_move.no == e.no;
                }
            }
            Event::HandedOver(e) => {
                task.hand_over(e.from, &e.reason);
                task.phase = TaskPhase::Waiting;
            }
            Event::TaskRetried(e) if e.stage == RunStage::TaskReview => task.request_new_review(),
            Event::TaskRetried(e) => {
                task.retries += 1;
                // A different agent starts over, without the earlier work.
                match task.worker {
                    Some(worker) if e.fresh => task.hand_over(worker, &e.detail),
                    Some(_) | None => task.interrupted = Some(e.detail.clone()),
                }
                task.phase = TaskPhase::Waiting;
            }
            Event::TaskQueued(_) => {
                // Work that fixed broken checks is already based on the merge.
                task.resolved_merge = match task.returned.take() {
                    Some(TaskReturn::Conflict(met)) => Some((met.work, met.onto)),
                    Some(TaskReturn::Breaks { .. }) => None,
                    None => task.resolved_merge.take(),
                };
                (task.interrupted, task.handed_over) = (None, None);
                task.phase = TaskPhase::Queued;
            }
            Event::TaskReturned(e) => {
                task.returns += 1;
                task.returned = Some((*e.why).clone());
                if let TaskReturn::Conflict(met) = &*e.why {
                    task.resolving_files = met.files.clone();
                }
                task.phase = TaskPhase::Waiting;
            }
            Event::TaskFailed(e) => {
                task.phase = TaskPhase::Failed { detail: e.detail.clone() };
                task.resolving_files = Vec::new();
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "evolve() is the exhaustive match")]
    pub(super) fn apply_queue(&mut self, event: &Event) {
        let Some(graph) = &mut self.graph else { return };
        match event {
            Event::BatchMerged(e) => {
                graph.queue.record_merge(e.onto.clone(), e.links.clone(), e.conflicts.clone());
            }
            Event::BatchVerified(e) => graph.queue.record_check_skipped(e.len),
            Event::Integrated(e) => {
                let by = graph.queue.batch.as_ref().and_then(|batch| batch.verified_by);
                let links = graph.queue.record_integration(e.len);
                let last = links.last().and_then(|link| graph.task(&link.task));
                let own = last.and_then(|task| task.proof.clone());
                links.iter().for_each(|link| graph.merge(&link.task));
                let checked = by.and_then(|by| self.requested_verification(by));
                let proof = checked.and_then(|checked| self.proof_by(checked)).or(own);
                self.set_head(&e.head, proof.filter(|proof| proof.is_for(&e.head)));
            }
            _ => unreachable!("evolve() sends only events about the queue here"),
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
