//! Fixtures for runs with a plan: shorthands for task and merge-queue events.

use provost_core::{
    plan::{Plan, PlanTask, TaskId},
    run::{
        BatchLink, Event, MergeConflict, PlanningSpec, RunCommand, RunEffect, RunSpec, TaskPhase,
        TaskState,
    },
    verdict::CheckEnd,
};

pub(crate) use crate::runs::kit::TestRun;
use crate::{kit::snapshot, runs::kit::run_spec};

pub(crate) fn id(id: &str) -> TaskId {
    id.parse().expect("tests give good ids")
}

pub(crate) fn task(name: &str, after: &[&str]) -> PlanTask {
    PlanTask {
        id: id(name),
        title: format!("Title of {name}"),
        instruction: format!("Do {name}."),
        after: after.iter().map(|before| id(before)).collect(),
        criteria: Vec::new(),
        checks: Vec::new(),
        scope: Vec::new(),
    }
}

pub(crate) fn plan(tasks: &[(&str, &[&str])]) -> Plan {
    let tasks = tasks.iter().map(|(name, after)| task(name, after)).collect();
    Plan::new(tasks).expect("tests give good plans")
}

/// A run with a given plan, eight parallel agents and one check.
pub(crate) fn planned_spec(tasks: &[(&str, &[&str])]) -> RunSpec {
    let given = Some(plan(tasks));
    RunSpec {
        planning: PlanningSpec { given, parallel: 8, ..PlanningSpec::default() },
        ..run_spec()
    }
}

/// Changes the planning settings, such as parallel agents, batch size or retries.
pub(crate) fn with_planning(spec: RunSpec, change: impl FnOnce(&mut PlanningSpec)) -> RunSpec {
    let mut spec = spec;
    change(&mut spec.planning);
    spec
}

impl TestRun {
    pub(crate) fn task(&self, name: &str) -> &TaskState {
        let graph = self.run.graph.as_ref().expect("the tasks are worked on");
        graph.task(&id(name)).expect("the plan has it")
    }

    pub(crate) fn phase_name(&self, name: &str) -> &'static str {
        self.task(name).phase.as_str()
    }

    /// Focuses the session that works on a task; later calls act on it.
    pub(crate) fn focus_task(&mut self, name: &str) -> &mut Self {
        let session = self.task(name).session();
        self.focus = Some(session.unwrap_or_else(|| panic!("no session works on {name}")));
        assert!(self.run.live().any(|one| Some(one.id) == self.focus), "{name}'s session ended");
        self
    }

    /// Returns the names of the tasks in progress; sessions without a task appear by their stage.
    pub(crate) fn working_names(&self) -> Vec<String> {
        let named = self.run.live().map(|one| match &one.task {
            Some(task) => task.to_string(),
            None => one.stage.as_str().to_owned(),
        });
        let mut named: Vec<String> = named.collect();
        named.sort();
        named
    }

    /// Builds the result of the pending merge: the merged tasks, each with its tree, and the conflicting ones.
    pub(crate) fn batch_merged(&self, links: &[(&str, &str)], conflicts: &[&str]) -> RunCommand {
        let pending = self.run.effects().into_iter().find_map(|effect| {
            if let RunEffect::MergeBatch { batch, .. } = effect { Some(batch) } else { None }
        });
        let onto = self.run.base().clone();
        let links =
            links.iter().map(|(name, tree)| BatchLink { task: id(name), merge: snapshot(tree) });
        let met = conflicts.iter().map(|name| MergeConflict {
            task: id(name),
            work: self.task(name).head.as_ref().expect("it left work").commit.clone(),
            onto: onto.commit.clone(),
            merge: snapshot(&format!("both-{name}")),
            files: vec![format!("src/{name}.rs")],
        });
        let (links, conflicts) = (links.collect(), met.collect());
        RunCommand::BatchMerged {
            batch: pending.expect("a merge is pending"),
            onto,
            links,
            conflicts,
        }
    }

    pub(crate) fn merge_batch(&mut self, links: &[(&str, &str)]) -> &mut Self {
        let merged = self.batch_merged(links, &[]);
        self.apply(merged)
    }

    pub(crate) fn merge_with_conflicts(
        &mut self,
        links: &[(&str, &str)],
        conflicts: &[&str],
    ) -> &mut Self {
        let merged = self.batch_merged(links, conflicts);
        self.apply(merged)
    }

    /// Finishes the check of the merged batch with `end`.
    pub(crate) fn check_merge(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        self.finish_check(tree, &end)
    }

    pub(crate) fn integrated(&self) -> RunCommand {
        let pending = self.run.effects().into_iter().find_map(|effect| match effect {
            RunEffect::Integrate { batch, len, .. } => Some(RunCommand::Integrated { batch, len }),
            RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::Land { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::CheckLanded { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => None,
        });
        pending.expect("an integration is pending")
    }

    pub(crate) fn integrate(&mut self) -> &mut Self {
        let integrated = self.integrated();
        self.apply(integrated)
    }

    /// Merges, checks and integrates a finished task alone, with the tree of its head.
    pub(crate) fn integrate_task(&mut self, name: &str) -> &mut Self {
        let tree = self.task(name).head.as_ref().expect("it left work").tree.0.clone();
        self.merge_batch(&[(name, &tree)]);
        if self.run.pending_verification().is_some() {
            self.check_merge(&tree, CheckEnd::Exit(0));
        }
        self.integrate()
    }

    /// Returns the number of a task's pending worktree move.
    pub(crate) fn worktree_move_no(&self, name: &str) -> u32 {
        let TaskPhase::PreparingWorktree(worktree_move) = &self.task(name).phase else {
            panic!("{name} is {}", self.phase_name(name))
        };
        worktree_move.no
    }

    pub(crate) fn finish_worktree_move(&mut self, name: &str) -> &mut Self {
        let no = self.worktree_move_no(name);
        self.apply(RunCommand::WorktreeMoved { no })
    }

    /// Ends all live sessions.
    pub(crate) fn end_all(&mut self) -> &mut Self {
        let live: Vec<_> = self.run.live().map(|one| one.id).collect();
        live.into_iter().for_each(|id| {
            self.end_session(id);
        });
        self
    }

    pub(crate) fn count_events(&self, kind: &str) -> usize {
        self.log.iter().filter(|(_, event): &&(_, Event)| event.kind().0 == kind).count()
    }
}
