//! Carries out a run's pending effects for the tasks of its plan in the simulated repository.

use provost_core::{
    ids::{CommitId, SessionId},
    plan::TaskId,
    run::{BatchLink, MergeConflict, Run, RunCommand, TaskGraph, TaskPhase},
    session::{Launch, Session},
    verdict::CheckEnd,
};

use super::Sim;
use crate::{
    engine::{RunEffectKey, SessionEffectKey},
    rng::Rng,
    session_laws::BrokenLaw,
    world::snapshot,
};

impl Sim {
    /// Whether a session belongs to a run with tasks, where its number depends on timing.
    pub(super) fn belongs_to_graph(&self, session: &Session) -> bool {
        let run = session.spec.run.and_then(|of| self.engine.run(of.run));
        run.is_some_and(|run| run.graph.is_some())
    }

    pub(super) fn move_worktree(&mut self, run: &Run, no: u32) -> RunCommand {
        let Some(worktree_move) = run.worktree_move(no).cloned() else {
            return RunCommand::WorktreeMoveFailed { no, reason: "there is none".to_owned() };
        };
        if self.fails_randomly(42, run, no, 12) {
            return RunCommand::WorktreeMoveFailed {
                no,
                reason: "its worktree is gone".to_owned(),
            };
        }
        match self.world.move_worktree(worktree_move.session, worktree_move.to.as_ref()) {
            Ok(()) => RunCommand::WorktreeMoved { no },
            Err(reason) => RunCommand::WorktreeMoveFailed { no, reason },
        }
    }

    /// Merges waiting tasks, as the shell does. A task that conflicts with others in the batch is
    /// left for the next batch.
    pub(super) fn merge(&mut self, run: &Run, batch: u32) -> RunCommand {
        let failed = |reason: &str| RunCommand::QueueFailed { batch, reason: reason.to_owned() };
        if self.fails_randomly(43, run, batch, 3) {
            return failed("the index is locked");
        }
        let Some(graph) = &run.graph else { return failed("there are no tasks") };
        let onto = run.base().clone();
        let (mut tip, mut links, mut conflicts) = (onto.tree.0.clone(), Vec::new(), Vec::new());
        for id in &graph.queue.waiting {
            if links.len() == run.spec.planning.batch as usize {
                break;
            }
            let Some(work) = work_of(graph, id) else { return failed("it left no work") };
            match self.world.repo.merge(&tip, &work) {
                Ok(merged) => {
                    tip.clone_from(&merged);
                    links.push(BatchLink { task: id.clone(), merge: snapshot(&merged) });
                }
                Err(both) if links.is_empty() => conflicts.push(MergeConflict {
                    task: id.clone(),
                    work: CommitId(work),
                    onto: onto.commit.clone(),
                    merge: snapshot(&both),
                    files: vec!["a.rs".to_owned()],
                }),
                Err(_) => {}
            }
        }
        RunCommand::BatchMerged { batch, onto, links, conflicts }
    }

    /// Runs the checks of a verification one after the other, up to the first that fails. The results of checks that
    /// already ran are reused. `None` while a check is running.
    pub(super) fn verify(
        &mut self,
        key: &RunEffectKey,
        run: &Run,
        no: u32,
    ) -> Result<Option<RunCommand>, BrokenLaw> {
        let Some(wanted) = run.verification(no) else {
            return Err(format!("verification {no} is pending, but was not requested"));
        };
        let tree = wanted.snapshot.tree.0.clone();
        // A receipt for another tree, as if the work had been checked before the merge.
        let mistaken = self.fails_randomly(45, run, no, 4);
        let checked = if mistaken { &run.base().tree } else { &wanted.snapshot.tree };
        let mut receipts = Vec::new();
        for (key, command) in verification_keys(key, run, no).into_iter().zip(&wanted.checks) {
            let Some(uncertain) = self.ran(&key, &format!("{command} on {tree}"))? else {
                return Ok(None);
            };
            let end = match (uncertain, checked.0.starts_with("good")) {
                (true, _) => CheckEnd::Unfinished("power".to_owned()),
                (false, true) => CheckEnd::Exit(0),
                (false, false) => CheckEnd::Exit(1),
            };
            let passed = end == CheckEnd::Exit(0);
            receipts.push(super::receipt(command, checked, end));
            if !passed {
                break;
            }
        }
        Ok(Some(RunCommand::Verified { no, receipts }))
    }

    /// Fast-forwards the branch. The branch must never move back, and must never move to a tree on which checks fail.
    pub(super) fn integrate(
        &mut self,
        run: &Run,
        batch: u32,
        len: usize,
    ) -> Result<RunCommand, BrokenLaw> {
        if self.fails_randomly(44, run, batch, 3) {
            return Ok(RunCommand::QueueFailed { batch, reason: "no space left".to_owned() });
        }
        let on_its_way = run.graph.as_ref().and_then(|graph| graph.queue.batch.as_ref());
        let link = on_its_way.and_then(|batch| batch.links.get(len.checked_sub(1)?));
        let Some(tree) = link.map(|link| link.merge.tree.0.clone()) else {
            return Err("the branch has no target to advance to".to_owned());
        };
        if !tree.starts_with("good") && is_checked(run, len) {
            return Err(format!("the branch advances to {tree}, on which the checks fail"));
        }
        match self.world.repo.branches.get(&run.spec.branch) {
            Some(branch) if self.world.repo.includes(branch, &tree) => {}
            Some(branch) if !self.world.repo.includes(&tree, branch) => {
                return Err(format!(
                    "the branch advances from {branch} to {tree}, which does not include it"
                ));
            }
            Some(_) | None => {
                self.world.repo.branches.insert(run.spec.branch.clone(), tree);
            }
        }
        Ok(RunCommand::Integrated { batch, len })
    }

    fn fails_randomly(&self, what: u64, run: &Run, no: u32, share: u64) -> bool {
        let names = [what, u64::from(no), u64::from(run.attempt().no)];
        let mut rng = Rng::from_names(self.seed, &names);
        !self.faults.calm && rng.percent(share)
    }

    /// A worktree is moved only after every process of its agent has exited.
    pub(super) fn worktree_is_free(&self, session: SessionId) -> Result<(), BrokenLaw> {
        let launch = self.engine.shadow(session).and_then(|session| session.launches.last());
        if launch.is_none_or(Launch::is_gone) {
            Ok(())
        } else {
            Err(format!("the worktree of {session} is moved while its agent is running"))
        }
    }

    /// When all tasks are done, the work of each is part of the run's head.
    pub(super) fn all_work_is_merged(&self, run: &Run) -> Result<(), BrokenLaw> {
        let Some(graph) = &run.graph else { return Ok(()) };
        let head = run.head.as_ref().and_then(|head| self.world.repo.works(&head.tree.0));
        for (plan, task) in graph.tasks() {
            let name = plan.id.as_str();
            let left = task.head.as_ref().and_then(|head| self.world.repo.works(&head.tree.0));
            let left = left.is_some_and(|works| works.contains(name));
            if left && !head.is_some_and(|works| works.contains(name)) {
                return Err(format!("the work of {name} is not in the head of the run"));
            }
            if task.phase != TaskPhase::Merged {
                return Err(format!(
                    "{name} is {}, but the run has finished its tasks",
                    task.phase.as_str()
                ));
            }
        }
        Ok(())
    }
}

fn work_of(graph: &TaskGraph, id: &TaskId) -> Option<String> {
    Some(graph.task(id)?.head.as_ref()?.tree.0.clone())
}

/// Returns the keys under which the checks of a verification run.
pub(super) fn verification_keys(
    (id, key): &RunEffectKey,
    run: &Run,
    no: u32,
) -> Vec<SessionEffectKey> {
    let count = run.verification(no).map_or(0, |wanted| wanted.checks.len());
    let key = |at: usize| if at == 0 { key.clone() } else { format!("{key}-{}", at + 1) };
    (0..count).map(|at| (SessionId(id.0), key(at))).collect()
}

/// Whether checks have to pass before `len` links are integrated.
fn is_checked(run: &Run, len: usize) -> bool {
    let Some(graph) = &run.graph else { return false };
    let links = graph.queue.batch.iter().flat_map(|batch| batch.links.iter().take(len));
    let new: Vec<&TaskId> = links.map(|link| &link.task).collect();
    let there = graph
        .tasks()
        .filter(|(plan, task)| task.phase == TaskPhase::Merged || new.contains(&&plan.id));
    let checks = there.map(|(plan, _)| plan.checks.len()).sum::<usize>() + run.spec.checks.len();
    checks > 0
}
