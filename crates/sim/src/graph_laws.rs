//! The laws (invariants) of a run's tasks and merge queue, written independently of the rules that uphold them.

use std::collections::BTreeSet;

use provost_core::{
    ids::{SessionId, TreeId},
    plan::TaskId,
    run::{
        Event, Integrated, LandStep, QueueEvent, Run, RunStage, StageEvent, TaskEvent, TaskGraph,
        TaskPhase, TreeProof, VerificationDone, VerificationEvent, VerificationRequested,
        VerificationSubject,
    },
    verdict::CheckEnd,
};

use crate::session_laws::BrokenLaw;

/// The part of a graph's history that is needed to judge its current state.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphWatch {
    merged: BTreeSet<TaskId>,
    worktree_moves: BTreeSet<u32>,
    batches: BTreeSet<u32>,
}

macro_rules! law {
    ($holds:expr, $($words:tt)+) => {
        if !$holds { return Err(format!($($words)+)); }
    };
}

impl GraphWatch {
    /// Checks one event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the laws are about these events only")]
    pub(crate) fn event(
        &mut self,
        before: &Run,
        event: &Event,
        after: &Run,
    ) -> Result<(), BrokenLaw> {
        parallelism_is_bounded(after)?;
        worktrees_are_exclusive(after)?;
        head_is_stable(before, event, after)?;
        match event {
            Event::Stage(StageEvent::RunSessionOpened(e)) => {
                e.task.iter().try_for_each(|task| starts_after_dependencies(before, task))
            }
            Event::Task(TaskEvent::WorktreeMoveRequested(e)) => {
                law!(self.worktree_moves.insert(e.no), "worktree move {} is requested twice", e.no);
                starts_after_dependencies(before, &e.task)
            }
            Event::Queue(QueueEvent::BatchMerged(e)) => {
                law!(self.batches.insert(e.no), "batch {} is merged twice", e.no);
                Ok(())
            }
            Event::Verification(VerificationEvent::VerificationRequested(e)) => {
                verification_is_due(before, e)
            }
            Event::Verification(VerificationEvent::VerificationDone(e)) => {
                verification_was_pending(before, e)
            }
            Event::Queue(QueueEvent::Integrated(e)) => {
                is_verified(before, e)?;
                self.merges_once(before, after)
            }
            _ => self.merges_nothing(after),
        }
    }

    fn merges_once(&mut self, before: &Run, after: &Run) -> Result<(), BrokenLaw> {
        let (was, is) = (merged(before), merged(after));
        law!(was == self.merged, "a merged task is no longer merged");
        law!(was.is_subset(&is) && was.len() < is.len(), "the branch advanced without a task");
        self.merged = is;
        Ok(())
    }

    fn merges_nothing(&self, after: &Run) -> Result<(), BrokenLaw> {
        law!(merged(after) == self.merged, "tasks are merged that are not on the branch");
        Ok(())
    }
}

fn merged(run: &Run) -> BTreeSet<TaskId> {
    let tasks = run.graph.iter().flat_map(TaskGraph::tasks);
    let merged = tasks.filter(|(_, task)| task.phase == TaskPhase::Merged);
    merged.map(|(plan, _)| plan.id.clone()).collect()
}

/// Returns the sessions that are being resumed.
fn resumed_sessions(run: &Run) -> impl Iterator<Item = SessionId> {
    run.graph.iter().flat_map(TaskGraph::tasks).filter_map(|(_, task)| match &task.phase {
        TaskPhase::PreparingWorktree(worktree_move) => Some(worktree_move.session),
        TaskPhase::Waiting
        | TaskPhase::Working { .. }
        | TaskPhase::Queued
        | TaskPhase::Merged
        | TaskPhase::Failed { .. } => None,
    })
}

/// Outside the task stage, at most one session works for a run. In the task stage, the number of agents is limited.
/// Merged work is checked without a session, one merge at a time.
fn parallelism_is_bounded(after: &Run) -> Result<(), BrokenLaw> {
    let living = after.sessions.iter().filter(|one| one.end.is_none()).count();
    law!(after.stage == RunStage::Tasks || living <= 1, "{living} sessions of a run live at once");
    let no_agents = after.sessions.iter().any(|one| one.stage == RunStage::Tasks);
    law!(!no_agents, "a session without an agent was opened");
    let attempt = after.attempt().no;
    let checked = after.verifications.iter().filter(|one| one.attempt == attempt);
    let checked = checked.filter(|one| one.receipts.is_none()).count();
    law!(checked <= 1, "{checked} merges are checked at once");
    let agents = living + resumed_sessions(after).count();
    let planning = &after.spec.planning;
    let most = planning.parallel.min(planning.machine_parallel).max(1) as usize;
    law!(agents <= most, "{agents} agents work, but the limit is {most}");
    Ok(())
}

fn worktrees_are_exclusive(after: &Run) -> Result<(), BrokenLaw> {
    let mut busy = BTreeSet::new();
    let living = after.sessions.iter().filter(|one| one.end.is_none()).map(|one| one.id);
    for id in living.chain(resumed_sessions(after)) {
        let place = after.worktree(id);
        law!(place.is_some(), "a session of a run has no worktree");
        law!(busy.insert(place), "two sessions work in the worktree of {id}");
    }
    let tasks = after.graph.iter().flat_map(TaskGraph::tasks);
    let mut whose = BTreeSet::new();
    for session in tasks.filter_map(|(_, task)| task.session()) {
        law!(whose.insert(session), "{session} works for two tasks");
    }
    Ok(())
}

/// While tasks are worked on, the run's head is the tip of its branch.
fn head_is_stable(before: &Run, event: &Event, after: &Run) -> Result<(), BrokenLaw> {
    let moves = matches!(event, Event::Queue(QueueEvent::Integrated(_)));
    let stable = before.head == after.head || before.stage != RunStage::Tasks || moves;
    law!(stable, "{} moved the head of a run with tasks", event.kind().0);
    Ok(())
}

/// A task starts only when its dependencies are merged and it is not merged itself.
fn starts_after_dependencies(before: &Run, id: &TaskId) -> Result<(), BrokenLaw> {
    let Some(graph) = &before.graph else { return Err(format!("{id} belongs to no plan")) };
    let Some(plan) = graph.plan().get(id) else { return Err(format!("{id} is not planned")) };
    let merged = merged(before);
    let missing = plan.after.iter().find(|before| !merged.contains(before));
    law!(missing.is_none(), "{id} starts, but {missing:?} is not merged");
    law!(!merged.contains(id), "{id} starts, but is merged already");
    Ok(())
}

/// Whether every check of some verification passed on exactly this tree.
fn passed_as_a_merge(run: &Run, tree: &TreeId) -> bool {
    run.verifications.iter().any(|one| {
        let receipts = one.receipts.as_deref().unwrap_or_default();
        let green = |check: &String| {
            receipts.iter().any(|receipt| {
                receipt.command == *check
                    && receipt.tree == *tree
                    && receipt.end == CheckEnd::Exit(0)
            })
        };
        one.snapshot.tree == *tree && !one.checks.is_empty() && one.checks.iter().all(green)
    })
}

/// A verification is requested once under its number, by a run that continues, and for the newest merge.
fn verification_is_due(before: &Run, e: &VerificationRequested) -> Result<(), BrokenLaw> {
    law!(
        !before.is_sealed() && before.attempt().stopped.is_none(),
        "a stopped run requests verification {}",
        e.no
    );
    law!(!e.checks.is_empty(), "verification {} has nothing to check", e.no);
    let used = before.verifications.iter().any(|one| one.no == e.no);
    law!(!used, "the number {} of a verification was used before", e.no);
    let merge = match e.subject {
        VerificationSubject::Batch { batch, len } => {
            let current = before.graph.as_ref().and_then(|graph| graph.queue.batch.as_ref());
            let current = current.filter(|current| current.no == batch);
            current.and_then(|current| current.links.get(len.checked_sub(1)?)).map(|l| &l.merge)
        }
        VerificationSubject::Landing { step } => match before.steps.get(step as usize - 1) {
            Some(LandStep::Merge { merge, .. }) => Some(merge),
            Some(LandStep::Answer { .. }) | None => None,
        },
    };
    law!(merge == Some(&e.snapshot), "verification {} is of another tree than the merge", e.no);
    Ok(())
}

/// A result is recorded once, for the pending verification of the current attempt.
fn verification_was_pending(before: &Run, e: &VerificationDone) -> Result<(), BrokenLaw> {
    let last = before.verifications.last();
    let pending = last.is_some_and(|last| {
        last.no == e.no && last.receipts.is_none() && last.attempt == before.attempt().no
    });
    law!(pending, "a result for verification {} is recorded, which was not pending", e.no);
    Ok(())
}

/// The branch advances to a tree that passed all checks, or that needs no checks.
fn is_verified(before: &Run, e: &Integrated) -> Result<(), BrokenLaw> {
    let Some(graph) = &before.graph else { return Err("no tasks are merged".to_owned()) };
    let batch = graph.queue.batch.as_ref().filter(|batch| batch.no == e.batch);
    let links = batch.and_then(|batch| batch.links.get(..e.len)).unwrap_or_default();
    let last = links.last();
    law!(
        last.is_some_and(|link| link.merge == e.head),
        "the branch advances to a tree that is not a merge"
    );
    let there = |id: &TaskId| links.iter().any(|link| link.task == *id);
    let tasks =
        graph.tasks().filter(|(plan, task)| task.phase == TaskPhase::Merged || there(&plan.id));
    // A check that only agents wrote proves nothing.
    let named_by_agents = before.agent_checks();
    let of_plan = tasks.flat_map(|(plan, _)| &plan.checks);
    let checks = of_plan.filter(|check| !named_by_agents.contains(check)).count();
    let ends = before.sessions.iter().filter_map(|one| Some((one.stage, one.end.as_ref()?)));
    let mut ends = ends.filter(|(stage, _)| matches!(stage, RunStage::Work | RunStage::TaskReview));
    let by_session =
        ends.any(|(_, end)| TreeProof::from_end(end).is_some_and(|proof| proof.is_for(&e.head)));
    law!(
        checks + before.spec.checks.len() == 0
            || by_session
            || passed_as_a_merge(before, &e.head.tree),
        "the branch advances to {}, which was not verified",
        e.head.tree.0
    );
    Ok(())
}
