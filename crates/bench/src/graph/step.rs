//! The next step of a graph of ten thousand tasks, half of which are merged.

use anyhow::{Context, Result, ensure};
use provost_core::{
    ids::{CommitId, RunId, TreeId},
    lifecycle::State,
    plan::{Plan, PlanTask, TaskId},
    run::{
        BatchLink, BatchMerged, Event, Integrated, PlanMade, PlanReviewed, PlanningSpec, Run,
        RunAdvanceContext, RunOpened, RunSessionOpened, RunStage, RunStep, SessionEnd,
        SessionEnded, StageEntered, TaskQueued,
    },
    time::Moment,
    verdict::Snapshot,
};

use crate::{
    fill,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

const TASKS: usize = 10_000;
/// The number of dependencies of each task.
const AFTER: usize = 3;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let run = half_done()?;
    let mut steps = Sample::default();
    for _ in 0..50 {
        let (next, took) = time(|| {
            let mut draft = run.clone();
            let context = RunAdvanceContext { now: at(), other_agents: 0, session: &|_| None };
            let step = draft.advance(&context);
            if let Some(RunStep::EventAndOrder(event, _) | RunStep::Event(event)) = &step {
                draft.evolve(at(), event);
            }
            step
        });
        ensure!(
            matches!(next, Some(RunStep::EventAndOrder(..))),
            "expected a task to start next: {next:?}"
        );
        steps.add_ms(took);
    }
    let from = format!("copied, decided and folded; {}", steps.spread(" ms"));
    table.row(
        "graph: the next step of 10,000 tasks, p95",
        steps.quantile(0.95),
        " ms",
        Goal::AtMost(5.0),
        &from,
    );
    Ok(())
}

fn at() -> Moment {
    Moment { wall_ms: 1_000_000, mono_ms: 1_000 }
}

fn task_id(no: usize) -> Result<TaskId> {
    format!("t{no}").parse().context("not a task id")
}

fn plan() -> Result<Plan> {
    let task = |no: usize| -> Result<PlanTask> {
        let before = (1..=AFTER).filter_map(|back| no.checked_sub(back * 7)).map(task_id);
        Ok(PlanTask {
            id: task_id(no)?,
            title: format!("task {no}"),
            instruction: "Do what has to be done for this task and nothing besides.".to_owned(),
            after: before.collect::<Result<_>>()?,
            criteria: Vec::new(),
            checks: Vec::new(),
            scope: Vec::new(),
        })
    };
    let tasks = (0..TASKS).map(task).collect::<Result<_>>()?;
    Plan::new(tasks).map_err(|faults| anyhow::anyhow!("{faults:?}"))
}

/// Builds a run whose first half of tasks went through sessions and the merge queue.
fn half_done() -> Result<Run> {
    let id = RunId(uuid::Uuid::from_u128(1 << 64));
    let plan = plan()?;
    let planning =
        PlanningSpec { given: Some(plan.clone()), parallel: 8, ..PlanningSpec::default() };
    let spec = fill::run_spec(planning);
    let mut run = Run::open(id, at(), &RunOpened { spec: Box::new(spec) });
    let mut fold = |event: Event| run.evolve(at(), &event);
    fold(PlanMade { plan: Box::new(plan.clone()) }.into());
    fold(StageEntered { stage: RunStage::PlanReview }.into());
    fold(PlanReviewed { plan: Box::new(plan.clone()), edits: 0, reason: String::new() }.into());
    fold(StageEntered { stage: RunStage::Tasks }.into());
    let mut onto = snapshot(0);
    for (no, task) in plan.tasks().iter().enumerate().take(TASKS / 2) {
        let (session, task) = (id.session(no as u32 + 1), task.id.clone());
        fold(
            RunSessionOpened { session, stage: RunStage::Work, cycle: 1, task: Some(task.clone()) }
                .into(),
        );
        fold(SessionEnded { session, end: Box::new(end(no + 1)) }.into());
        fold(TaskQueued { task: task.clone() }.into());
        let (batch, merge) = (no as u32 + 1, snapshot(no + 1));
        let links = vec![BatchLink { task, merge: merge.clone() }];
        fold(BatchMerged { no: batch, onto, links, conflicts: Vec::new() }.into());
        fold(Integrated { batch, len: 1, head: merge.clone() }.into());
        onto = merge;
    }
    Ok(run)
}

fn snapshot(no: usize) -> Snapshot {
    Snapshot {
        commit: CommitId(format!("{no:040x}")),
        tree: TreeId(format!("{:040x}", no + (1 << 32))),
    }
}

fn end(no: usize) -> SessionEnd {
    SessionEnd {
        state: State::Succeeded,
        cause: None,
        why: None,
        gave_up: false,
        said: Some("done".to_owned()),
        result: None,
        tree: Some(snapshot(no).tree),
        head: Some(snapshot(no)),
        receipts: Vec::new(),
        caveats: Default::default(),
        usage: Default::default(),
        turns: 1,
    }
}
