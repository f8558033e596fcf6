//! Fixtures for runs with a plan: shorthands for task and merge-queue events.

use provost_core::{
    plan::{Plan, PlanTask, TaskId},
    run::{Command, Conflict, Effect, Event, Link, Phase, Planning, RunSpec, Stage, Task},
    verdict::CheckEnd,
};

pub(crate) use crate::runs::kit::RunBench;
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
pub(crate) fn given(tasks: &[(&str, &[&str])]) -> RunSpec {
    let given = Some(plan(tasks));
    RunSpec { planning: Planning { given, parallel: 8, ..Planning::default() }, ..run_spec() }
}

/// Changes the planning settings, such as parallel agents, batch size or retries.
pub(crate) fn with(spec: RunSpec, change: impl FnOnce(&mut Planning)) -> RunSpec {
    let mut spec = spec;
    change(&mut spec.planning);
    spec
}

impl RunBench {
    pub(crate) fn task(&self, name: &str) -> &Task {
        let graph = self.run.graph.as_ref().expect("the tasks are worked on");
        graph.task(&id(name)).expect("the plan has it")
    }

    pub(crate) fn word(&self, name: &str) -> &'static str {
        self.task(name).phase.word()
    }

    /// Focuses the session that works on a task; later calls act on it.
    pub(crate) fn on(&mut self, name: &str) -> &mut Self {
        let session = self.task(name).session();
        self.focus = Some(session.unwrap_or_else(|| panic!("no session works on {name}")));
        assert!(self.run.live().any(|one| Some(one.id) == self.focus), "{name}'s session ended");
        self
    }

    /// Returns the names of the tasks in progress; sessions without a task appear by their stage.
    pub(crate) fn at_work(&self) -> Vec<String> {
        let named = self.run.live().map(|one| match &one.task {
            Some(task) => task.to_string(),
            None => one.stage.word().to_owned(),
        });
        let mut named: Vec<String> = named.collect();
        named.sort();
        named
    }

    /// Builds the result of the pending merge: the merged tasks, each with its tree, and the conflicting ones.
    pub(crate) fn batch_merged(&self, links: &[(&str, &str)], conflicts: &[&str]) -> Command {
        let owed = self.run.effects().into_iter().find_map(|effect| {
            if let Effect::MergeBatch { batch, .. } = effect { Some(batch) } else { None }
        });
        let onto = self.run.base().clone();
        let links = links.iter().map(|(name, tree)| Link { task: id(name), merge: snapshot(tree) });
        let met = conflicts.iter().map(|name| Conflict {
            task: id(name),
            work: self.task(name).head.as_ref().expect("it left work").commit.clone(),
            onto: onto.commit.clone(),
            merge: snapshot(&format!("both-{name}")),
            files: vec![format!("src/{name}.rs")],
        });
        let (links, conflicts) = (links.collect(), met.collect());
        Command::BatchMerged { batch: owed.expect("a merge is pending"), onto, links, conflicts }
    }

    pub(crate) fn merges(&mut self, links: &[(&str, &str)]) -> &mut Self {
        let merged = self.batch_merged(links, &[]);
        self.tell(merged)
    }

    pub(crate) fn conflicts(&mut self, links: &[(&str, &str)], conflicts: &[&str]) -> &mut Self {
        let merged = self.batch_merged(links, conflicts);
        self.tell(merged)
    }

    /// Finishes the check of the merged batch with `end`.
    pub(crate) fn merge_is(&mut self, tree: &str, end: CheckEnd) -> &mut Self {
        let checking = self.run.live().find(|one| one.stage == Stage::Tasks);
        self.focus = Some(checking.expect("what was merged is checked").id);
        self.is_checked(tree, end)
    }

    pub(crate) fn integrated(&self) -> Command {
        let owed = self.run.effects().into_iter().find_map(|effect| match effect {
            Effect::Integrate { batch, len, .. } => Some(Command::Integrated { batch, len }),
            Effect::TakeHead(_)
            | Effect::Bring { .. }
            | Effect::MergeBatch { .. }
            | Effect::Land { .. }
            | Effect::WatchPull { .. }
            | Effect::LookLanded { .. }
            | Effect::RunHook(_)
            | Effect::WriteCard { .. } => None,
        });
        owed.expect("an integration is pending")
    }

    pub(crate) fn integrates(&mut self) -> &mut Self {
        let integrated = self.integrated();
        self.tell(integrated)
    }

    /// Merges, checks and integrates a finished task alone, with the tree of its head.
    pub(crate) fn comes_in(&mut self, name: &str) -> &mut Self {
        let tree = self.task(name).head.as_ref().expect("it left work").tree.0.clone();
        self.merges(&[(name, &tree)]);
        if self.at_work().contains(&"tasks".to_owned()) {
            self.merge_is(&tree, CheckEnd::Exit(0));
        }
        self.integrates()
    }

    /// Returns the number of a task's pending worktree move.
    pub(crate) fn errand(&self, name: &str) -> u32 {
        let Phase::Bringing(errand) = &self.task(name).phase else {
            panic!("{name} is {}", self.word(name))
        };
        errand.no
    }

    pub(crate) fn brings(&mut self, name: &str) -> &mut Self {
        let no = self.errand(name);
        self.tell(Command::ErrandDone { no })
    }

    /// Ends all live sessions.
    pub(crate) fn end_all(&mut self) -> &mut Self {
        let live: Vec<_> = self.run.live().map(|one| one.id).collect();
        live.into_iter().for_each(|id| {
            self.end_session(id);
        });
        self
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|(_, event): &&(_, Event)| event.kind().0 == kind).count()
    }
}
