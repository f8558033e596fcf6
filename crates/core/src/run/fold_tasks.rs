//! Folds events about a run's plan, its tasks and its merge queue.

use std::sync::Arc;

use super::{
    event::*,
    graph::{Errand, Phase, Return},
    hook::RunHookEvent,
    outcome::Proof,
    queue::Found,
    stage::Stage,
    state::{Planned, Run, SessionEnd},
};
use crate::{ids::SessionId, time::Moment, verdict::CheckEnd};

impl Run {
    #[expect(clippy::wildcard_enum_match_arm, reason = "evolve() is the exhaustive match")]
    pub(super) fn apply_plan(&mut self, at: Moment, event: &Event) {
        match event {
            Event::PlanMade(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(Planned { plan, reviewed: false, approved: false });
            }
            Event::PlanFaulty(e) => self.plan_faults.push((e.session, e.faults.clone())),
            Event::PlanReviewed(e) => {
                let plan = Arc::new((*e.plan).clone());
                self.planned = Some(Planned { plan, reviewed: true, approved: false });
                self.owe_hook(RunHookEvent::Planned, at);
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
            Event::ErrandOwed(ErrandOwed { task, .. })
            | Event::ErrandDone(ErrandDone { task, .. })
            | Event::HandedOver(HandedOver { task, .. })
            | Event::TaskRetried(TaskRetried { task, .. })
            | Event::TaskQueued(TaskQueued { task })
            | Event::TaskReturned(TaskReturned { task, .. })
            | Event::TaskFailed(TaskFailed { task, .. }) => task.clone(),
            _ => unreachable!("evolve() sends only events about tasks here"),
        };
        let Some(graph) = &mut self.graph else { return };
        match event {
            Event::ErrandOwed(_) => graph.errands += 1,
            Event::TaskQueued(_) => graph.queue.waiting.push(id.clone()),
            Event::TaskReturned(_) | Event::TaskFailed(_) => graph.queue.returned(&id),
            _ => {}
        }
        let Some(task) = graph.task_mut(&id) else { return };
        match event {
            Event::ErrandOwed(e) => {
                let (no, session, to) = (e.no, e.session, e.to.clone());
                task.phase = Phase::Bringing(Errand { no, session, to, done: false });
            }
            Event::ErrandDone(e) => {
                if let Phase::Bringing(errand) = &mut task.phase {
                    errand.done = errand.no == e.no;
                }
            }
            Event::HandedOver(e) => {
                task.hand_over(e.from, &e.reason);
                task.phase = Phase::Waiting;
            }
            Event::TaskRetried(e) if e.stage == Stage::TaskReview => task.review_anew(),
            Event::TaskRetried(e) => {
                task.retries += 1;
                // Another agent begins without the earlier work.
                match task.worker {
                    Some(worker) if e.fresh => task.hand_over(worker, &e.detail),
                    Some(_) | None => task.again = Some(e.detail.clone()),
                }
                task.phase = Phase::Waiting;
            }
            Event::TaskQueued(_) => {
                // A fix of broken checks already descends from the merge itself.
                task.mended = match task.returned.take() {
                    Some(Return::Conflict(met)) => Some((met.work, met.onto)),
                    Some(Return::Breaks { .. }) => None,
                    None => task.mended.take(),
                };
                (task.again, task.handed_over) = (None, None);
                task.phase = Phase::Queued;
            }
            Event::TaskReturned(e) => {
                task.returns += 1;
                task.returned = Some((*e.why).clone());
                if let Return::Conflict(met) = &*e.why {
                    task.mending = met.files.clone();
                }
                task.phase = Phase::Waiting;
            }
            Event::TaskFailed(e) => {
                task.phase = Phase::Failed { detail: e.detail.clone() };
                task.mending = Vec::new();
            }
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "evolve() is the exhaustive match")]
    pub(super) fn apply_queue(&mut self, event: &Event) {
        let Some(graph) = &mut self.graph else { return };
        match event {
            Event::BatchMerged(e) => {
                graph.queue.merged(e.onto.clone(), e.links.clone(), e.conflicts.clone());
            }
            Event::PrefixProved(e) => graph.queue.needless(e.len),
            Event::Integrated(e) => {
                let by = graph.queue.batch.as_ref().and_then(|batch| batch.proved_by);
                let links = graph.queue.integrated(e.len);
                let last = links.last().and_then(|link| graph.task(&link.task));
                let own = last.and_then(|task| task.proof.clone());
                links.iter().for_each(|link| graph.merge(&link.task));
                let checked = by.and_then(|by| self.session(by)).and_then(|one| one.end.as_deref());
                let proof = checked.and_then(Proof::of).or(own);
                self.take_head(&e.head, proof.filter(|proof| proof.is_for(&e.head)));
            }
            _ => unreachable!("evolve() sends only events about the queue here"),
        }
    }

    /// Records a session for a task, or one that checks a merged batch.
    pub(super) fn begin_task(&mut self, e: &SessionOwed) {
        let base = self.base().clone();
        let Some(graph) = &mut self.graph else { return };
        let Some(id) = &e.task else {
            graph.queue.checks += u32::from(e.stage == Stage::Tasks);
            return;
        };
        let Some(task) = graph.task_mut(id) else { return };
        if e.stage == Stage::Work {
            let begun = match &task.phase {
                Phase::Bringing(errand) => errand.to.clone(),
                Phase::Waiting
                | Phase::Working { .. }
                | Phase::Queued
                | Phase::Merged
                | Phase::Failed { .. } => {
                    Some(task.returned.as_ref().map_or(base, |why| why.merge().clone()))
                }
            };
            task.base = begun.or(task.base.take());
            (task.worker, task.headless) = (Some(e.session), None);
            if task.workers.last() != Some(&e.session) {
                task.workers.push(e.session);
            }
        }
        task.phase = Phase::Working { session: e.session, stage: e.stage, cycle: e.cycle };
    }

    /// Records the result of a session that checked a merged batch.
    pub(super) fn end_check(&mut self, session: SessionId, end: &SessionEnd) {
        let Some(graph) = &mut self.graph else { return };
        let merged = graph.queue.to_prove().map(|link| &link.merge.tree);
        // A result about another tree proves nothing about the merged one.
        let other = end.head.as_ref().is_some_and(|head| Some(&head.tree) != merged);
        let found = if other {
            Found::Nothing
        } else if end.is_good() {
            Found::Good
        } else if end.receipts.iter().any(|one| refutes(&one.end)) {
            Found::Bad
        } else {
            Found::Nothing
        };
        graph.queue.checked(session, found);
    }
}

/// Whether a check ran to completion and failed.
fn refutes(end: &CheckEnd) -> bool {
    match end {
        CheckEnd::Exit(0) | CheckEnd::Unfinished(_) => false,
        CheckEnd::Exit(_) | CheckEnd::Signal(_) | CheckEnd::TimeLimit | CheckEnd::OutputLimit => {
            true
        }
    }
}
