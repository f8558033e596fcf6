//! Property tests of the merge queue: random batches with random culprits, driven by the run's own commands.
//!
//! Only git and the checks are simulated: a tree is the set of task results in it, and a check fails
//! for every tree that contains a bad one.

use std::collections::BTreeSet;

use proptest::prelude::*;
use provost_core::{
    ids::{CommitId, RunId, SessionId, TreeId},
    lifecycle::{self, State},
    plan::Plan,
    run::{
        BatchLink, Event, MergeConflict, PlanMade, PlanReviewed, PlanningSpec, QueueEvent, Run,
        RunAdvanceContext, RunCommand, RunEffect, RunOpened, RunSpec, RunStage, RunStep,
        SessionEnd, SessionEnded, SessionOrder,
    },
    session::Usage,
    time::Moment,
    verdict::{CheckEnd, Snapshot},
};

use super::kit::task;
use crate::{kit::receipt, runs::kit::run_spec};

/// How agents respond to tasks that the queue returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentsOnReturn {
    Fix,
    GiveUp,
}

/// A run of independent tasks, some of them bad or conflicting.
struct QueueSim {
    run: Run,
    bad: BTreeSet<usize>,
    /// Tasks that conflict with anything merged before them.
    conflicting: BTreeSet<usize>,
    agents: AgentsOnReturn,
    /// Sessions of agents that are still working.
    working: Vec<SessionId>,
}

const NOW: Moment = Moment { wall_ms: 1_000, mono_ms: 1_000 };

impl QueueSim {
    /// Starts with all tasks done and queued for merging.
    fn begin(
        count: usize,
        batch: u32,
        bad: &[usize],
        conflicting: &[usize],
        agents: AgentsOnReturn,
    ) -> QueueSim {
        let tasks = (0..count).map(|no| task(&format!("t{no}"), &[])).collect();
        let plan = Plan::new(tasks).expect("it is there");
        let parallel = u32::try_from(count).expect("it is there");
        let planning =
            PlanningSpec { given: Some(plan.clone()), parallel, batch, ..PlanningSpec::default() };
        let spec = RunSpec { planning, hooks: Default::default(), ..run_spec() };
        let opened = RunOpened { spec: Box::new(spec) };
        let run = Run::open(RunId(uuid::Uuid::from_u128(0x100)), NOW, &opened);
        let (bad, conflicting) =
            (bad.iter().copied().collect(), conflicting.iter().copied().collect());
        let mut play = QueueSim { run, bad, conflicting, agents, working: Vec::new() };
        let (plan, edits, reason) = (Box::new(plan), 0, String::new());
        play.fold(PlanMade { plan: plan.clone() }.into());
        play.fold(provost_core::run::StageEntered { stage: RunStage::PlanReview }.into());
        play.fold(PlanReviewed { plan, edits, reason }.into());
        play.advance();
        play.end_work();
        play
    }

    fn fold(&mut self, event: Event) {
        if let Event::Queue(QueueEvent::Integrated(integrated)) = &event {
            let works = works_in_tree(&integrated.head.tree);
            assert!(works.iter().all(|work| !self.is_bad(work)), "the branch is broken: {works:?}");
            let before = self.run.head.as_ref().map(|head| self::works_in_tree(&head.tree));
            assert!(before.unwrap_or_default().is_subset(&works), "the branch goes backward");
        }
        self.run.evolve(NOW, &event);
    }

    /// Advances the run until it is idle. Agents end in `end_work`.
    fn advance(&mut self) {
        while let Some(step) =
            self.run.advance(&RunAdvanceContext { now: NOW, other_agents: 0, session: &|_| None })
        {
            match step {
                RunStep::Event(event)
                | RunStep::EventAndOrder(event, SessionOrder::Command(..)) => self.fold(event),
                RunStep::EventAndOrder(event, SessionOrder::Open(id, _)) => {
                    self.fold(event);
                    self.working.push(id);
                }
                RunStep::Command(..) => panic!("there is no session to command"),
            }
        }
    }

    fn apply(&mut self, command: &RunCommand) {
        let events = self.run.decide(command).unwrap_or_else(|why| panic!("{command:?}: {why}"));
        events.into_iter().for_each(|event| self.fold(event));
        self.advance();
    }

    /// Runs the check that the queue requests.
    fn verify(&self, no: u32) -> RunCommand {
        let tree = self.run.verification(no).expect("it was requested").snapshot.tree;
        let broken = works_in_tree(&tree).iter().any(|work| self.is_bad(work));
        let end = CheckEnd::Exit(i32::from(broken));
        RunCommand::Verified { no, receipts: vec![receipt(&tree.0, "check", end)] }
    }

    /// Ends all agents: with their work, with a fix, or by giving up.
    fn end_work(&mut self) {
        for id in std::mem::take(&mut self.working) {
            let session = self.run.sessions.iter().find(|one| one.id == id).expect("it is there");
            let name = session.task.clone().expect("it is there");
            let task =
                self.run.graph.as_ref().expect("it is there").task(&name).expect("it is there");
            let mut tree =
                task.base.as_ref().map(|base| works_in_tree(&base.tree)).unwrap_or_default();
            let repairs = u32::from(task.returned.is_some());
            tree.retain(|(no, _)| format!("t{no}") != name.as_str());
            tree.insert((name.as_str()[1..].parse().expect("it is there"), repairs));
            let gives_up = repairs > 0 && self.agents == AgentsOnReturn::GiveUp;
            let end = if gives_up {
                SessionEnd {
                    cause: Some(lifecycle::Cause::SelfReported),
                    ..ended(State::Failed, None)
                }
            } else {
                ended(State::Completed, Some(commit(&tree)))
            };
            self.fold(SessionEnded { session: id, end: Box::new(end) }.into());
        }
        self.advance();
    }

    fn is_bad(&self, (no, repairs): &(usize, u32)) -> bool {
        *repairs == 0 && self.bad.contains(no)
    }

    /// Merges like the shell does: a task that conflicts with an earlier one of its batch waits for the next batch.
    fn merge(&self, batch: u32) -> RunCommand {
        let graph = self.run.graph.as_ref().expect("it is there");
        let onto = self.run.base().clone();
        let (mut tip, mut links, mut conflicts) =
            (works_in_tree(&onto.tree), Vec::new(), Vec::new());
        for id in &graph.queue.waiting {
            if links.len() == self.run.spec.planning.batch as usize {
                break;
            }
            let head = graph.task(id).expect("it is there").head.clone().expect("it is there");
            let (no, work) = (
                id.as_str()[1..].parse::<usize>().expect("it is there"),
                works_in_tree(&head.tree),
            );
            let conflicts_here = self.conflicting.contains(&no) && work.contains(&(no, 0));
            let both: BTreeSet<_> = tip.union(&work).copied().collect();
            if !conflicts_here || tip.is_empty() {
                tip = both;
                links.push(BatchLink { task: id.clone(), merge: commit(&tip) });
            } else if links.is_empty() {
                conflicts.push(MergeConflict {
                    task: id.clone(),
                    work: head.commit,
                    onto: onto.commit.clone(),
                    merge: commit(&both),
                    files: vec!["a.rs".to_owned()],
                });
            }
        }
        RunCommand::BatchMerged { batch, onto, links, conflicts }
    }

    /// Runs the queue to the end and returns the number of checks.
    fn run_to_end(&mut self) -> u32 {
        for _ in 0..10_000 {
            let pending = self.run.effects().into_iter().next();
            match pending {
                Some(RunEffect::MergeBatch { batch, .. }) => self.apply(&self.merge(batch)),
                Some(RunEffect::Verify { no }) => self.apply(&self.verify(no)),
                Some(RunEffect::Integrate { batch, len, .. }) => {
                    self.apply(&RunCommand::Integrated { batch, len });
                }
                Some(RunEffect::MoveWorktree { no }) => {
                    let reason = "it is not played".to_owned();
                    self.apply(&RunCommand::WorktreeMoveFailed { no, reason });
                }
                _ if !self.working.is_empty() => self.end_work(),
                _ => return self.run.graph.as_ref().expect("it is there").queue.checks,
            }
        }
        panic!("the queue does not terminate")
    }

    fn merged(&self) -> BTreeSet<usize> {
        let tasks = self.run.graph.as_ref().expect("it is there").tasks();
        let merged = tasks.filter(|(_, task)| task.phase.as_str() == "merged");
        merged.map(|(plan, _)| plan.id.as_str()[1..].parse().expect("it is there")).collect()
    }
}

/// Returns the task results in a tree: the task number, and 1 if it was fixed.
fn works_in_tree(tree: &TreeId) -> BTreeSet<(usize, u32)> {
    let work = |word: &str| {
        let (no, repairs) = word.split_once('.')?;
        Some((no.parse().ok()?, repairs.parse().ok()?))
    };
    tree.0.split(' ').filter_map(work).collect()
}

fn commit(works: &BTreeSet<(usize, u32)>) -> Snapshot {
    let words: Vec<String> = works.iter().map(|(no, repairs)| format!("{no}.{repairs}")).collect();
    let tree = words.join(" ");
    Snapshot { commit: CommitId(format!("commit of {tree}")), tree: TreeId(tree) }
}

fn ended(state: State, head: Option<Snapshot>) -> SessionEnd {
    SessionEnd {
        state,
        cause: None,
        why: None,
        gave_up: false,
        said: None,
        result: None,
        tree: head.as_ref().map(|head| head.tree.clone()),
        head,
        receipts: Vec::new(),
        caveats: Default::default(),
        usage: Usage::default(),
        turns: 0,
    }
}

/// Returns the maximum number of checks for `count` tasks in batches of this size, `bad` of them bad.
fn max_checks(count: usize, batch: u32, bad: usize) -> u32 {
    let halvings = f64::from(batch).log2();
    count.div_ceil(batch as usize) as u32 + (2.0 * bad as f64 * (halvings + 1.0)).floor() as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_batches_merge_exactly_the_good_tasks(
        count in 1usize..40,
        batch in 1u32..17,
        drawn in proptest::collection::vec(0usize..40, 0..8),
        met in proptest::collection::vec(0usize..40, 0..5),
        gives_up in any::<bool>(),
    ) {
        let bad: BTreeSet<usize> = drawn.into_iter().filter(|no| *no < count).collect();
        let met: BTreeSet<usize> = met.into_iter().filter(|no| *no < count && !bad.contains(no)).collect();
        let agents = if gives_up { AgentsOnReturn::GiveUp } else { AgentsOnReturn::Fix };
        let (culprits, conflicts) = (Vec::from_iter(bad.clone()), Vec::from_iter(met.clone()));
        let mut play = QueueSim::begin(count, batch, &culprits, &conflicts, agents);
        let checks = play.run_to_end();
        let merged = play.merged();
        for no in 0..count {
            // The first conflicting task has nothing to conflict with.
            let given_up = gives_up && (bad.contains(&no) || (met.contains(&no) && !merged.contains(&no)));
            prop_assert_eq!(merged.contains(&no), !given_up, "task {}", no);
        }
        prop_assert_eq!(play.run.stage == RunStage::Tasks, merged.len() < count);
        // A fixed task is queued again, possibly in a batch of its own.
        let again = if gives_up { 0 } else { (bad.len() + met.len()) as u32 };
        let most = max_checks(count, batch, bad.len()) + again;
        prop_assert!(checks <= most, "{} checks, {} are enough", checks, most);
    }
}

#[test]
fn hundred_branches_need_few_checks() {
    let bad = [3, 4, 17, 29, 41, 42, 43, 66, 81, 99];
    let conflicting = [8, 22, 50, 51, 77];
    for batch in [1, 2, 4, 5, 8, 16, 32, 100] {
        for agents in [AgentsOnReturn::Fix, AgentsOnReturn::GiveUp] {
            let mut play = QueueSim::begin(100, batch, &bad, &conflicting, agents);
            let (checks, most) = (play.run_to_end(), max_checks(100, batch, bad.len()));
            assert!(checks <= most, "{checks} checks with batches of {batch}, {most} are enough");
            let merged = if agents == AgentsOnReturn::Fix { 100 } else { 85 };
            assert_eq!(play.merged().len(), merged, "batches of {batch}");
        }
    }
}
