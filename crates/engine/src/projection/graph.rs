//! The projection of a run's plan, with the progress of each task.

use std::collections::BTreeMap;

use provost_api::{QueueRow, RunGraphRow, TaskCounts, TaskRow, UsageRow};
use provost_core::{
    ids::SessionId,
    plan::{Plan, PlanTask, TaskId},
    request::BlockingMode,
    run::{Run, TaskGraph, TaskPhase, TaskReturn, TaskState},
    session::{Session, Usage},
};

use crate::{projection, projection::session::clip};

/// The state of a task whose agent is waiting for the user.
const NEEDS_INPUT: &str = "needs_input";

/// The state of a task that was in progress when its run ended. Resuming the run continues the task.
const STOPPED: &str = "stopped";

/// Builds the row for the plan of a run. `None` if the run has no plan.
pub(crate) fn row<'s>(
    run: &Run,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<RunGraphRow> {
    let planned = run.planned.as_ref()?;
    let used = usage_by_task(run, &look);
    let usage = |id: &TaskId| used.get(id).copied().unwrap_or_default();
    let is_over = |task: &TaskState| run.is_sealed() && is_in_progress(&task.phase);
    // Once the run is stopped, answers no longer reach an agent.
    let open = run.attempt().stopped.is_none();
    let asks =
        |task: &TaskState| open && task.session().and_then(&look).is_some_and(waits_for_user);
    let tasks = match &run.graph {
        Some(graph) => graph
            .tasks()
            .map(|(plan, task)| {
                let row = task_row(plan, task, usage(&plan.id));
                match (is_over(task), asks(task)) {
                    (true, _) => TaskRow { state: STOPPED.to_owned(), ..row },
                    (false, true) => TaskRow { state: NEEDS_INPUT.to_owned(), ..row },
                    (false, false) => row,
                }
            })
            .collect(),
        None => unstarted_rows(&planned.plan),
    };
    Some(RunGraphRow {
        run: run.id.to_string(),
        name: run.spec.name.clone(),
        state: projection::run::state_name(run).into(),
        tasks,
        queue: run.graph.as_ref().map(queue_row).unwrap_or_default(),
    })
}

/// Counts the tasks in a run's plan by their progress. `None` if the run has no plan.
pub(crate) fn counts(run: &Run) -> Option<TaskCounts> {
    let all = run.planned.as_ref()?.plan.tasks().len();
    let Some(graph) = &run.graph else {
        return Some(TaskCounts { all, waiting: all, ..TaskCounts::default() });
    };
    let mut counts = TaskCounts { all, ..TaskCounts::default() };
    for (_, task) in graph.tasks() {
        *match &task.phase {
            TaskPhase::Waiting => &mut counts.waiting,
            phase if run.is_sealed() && is_in_progress(phase) => &mut counts.waiting,
            TaskPhase::PreparingWorktree(_) | TaskPhase::Working { .. } => &mut counts.working,
            TaskPhase::Queued => &mut counts.queued,
            TaskPhase::Merged => &mut counts.merged,
            TaskPhase::Failed { .. } => &mut counts.failed,
        } += 1;
    }
    Some(counts)
}

fn is_in_progress(phase: &TaskPhase) -> bool {
    match phase {
        TaskPhase::PreparingWorktree(_) | TaskPhase::Working { .. } => true,
        TaskPhase::Waiting | TaskPhase::Queued | TaskPhase::Merged | TaskPhase::Failed { .. } => {
            false
        }
    }
}

fn waits_for_user(session: &Session) -> bool {
    session.open_requests().any(|request| request.asked.waiting == BlockingMode::Blocking)
}

fn unstarted_rows(plan: &Plan) -> Vec<TaskRow> {
    plan.tasks().iter().map(|task| planned_row(task, "planned")).collect()
}

fn planned_row(plan: &PlanTask, state: &str) -> TaskRow {
    TaskRow {
        id: plan.id.to_string(),
        title: plan.title.clone(),
        instruction: plan.instruction.clone(),
        after: plan.after.iter().map(ToString::to_string).collect(),
        criteria: plan.criteria.clone(),
        checks: plan.checks.clone(),
        scope: plan.scope.clone(),
        state: state.to_owned(),
        detail: None,
        session: None,
        usage: UsageRow { input: 0, output: 0 },
        returns: 0,
        retries: 0,
        commit: None,
    }
}

fn task_row(plan: &PlanTask, task: &TaskState, usage: Usage) -> TaskRow {
    TaskRow {
        detail: task_detail(task),
        session: task.session().or(task.worker).map(|id| id.to_string()),
        usage: UsageRow { input: usage.input, output: usage.output },
        returns: task.returns,
        retries: task.retries,
        commit: task.head.as_ref().map(|head| head.commit.0.clone()),
        ..planned_row(plan, task.phase.as_str())
    }
}

fn task_detail(task: &TaskState) -> Option<String> {
    let failed = match &task.phase {
        TaskPhase::Failed { detail } => Some(clip(detail)),
        TaskPhase::Waiting
        | TaskPhase::PreparingWorktree(_)
        | TaskPhase::Working { .. }
        | TaskPhase::Queued
        | TaskPhase::Merged => None,
    };
    failed.or_else(|| match task.returned.as_ref()? {
        TaskReturn::Conflict(met) => Some(format!("fixes a conflict in {}", met.files.join(", "))),
        TaskReturn::Breaks { failed, .. } => {
            let names: Vec<&str> = failed.iter().map(|one| one.command.as_str()).collect();
            Some(clip(&format!("after the merge, these checks failed: {}", names.join(", "))))
        }
    })
}

/// Adds up the usage of each task, including sessions that are still running. A conversation moves
/// from task to task, so its usage for earlier tasks is subtracted.
fn usage_by_task<'s>(
    run: &Run,
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> BTreeMap<TaskId, Usage> {
    let tasks = run.graph.iter().flat_map(TaskGraph::tasks);
    let mut used: BTreeMap<TaskId, Usage> =
        tasks.map(|(plan, task)| (plan.id.clone(), task.usage)).collect();
    for (one, id) in run.live().filter_map(|one| Some((one, one.task.as_ref()?))) {
        let (Some(session), Some(sum)) = (look(one.id), used.get_mut(id)) else { continue };
        sum.add(session.spending.usage.since(one.counted.usage));
    }
    used
}

fn queue_row(graph: &TaskGraph) -> QueueRow {
    let queue = &graph.queue;
    let batch = queue.batch.iter().flat_map(|batch| batch.links.iter().skip(batch.integrated));
    QueueRow {
        waiting: queue.waiting.iter().map(ToString::to_string).collect(),
        batch: batch.map(|link| link.task.to_string()).collect(),
        batches: queue.batches,
        checks: queue.checks,
    }
}
