//! A run's plan as a projection, with the progress of each task.

use std::collections::BTreeMap;

use provost_api::{GraphRow, QueueRow, TaskCounts, TaskRow, UsageRow};
use provost_core::{
    ids::SessionId,
    plan::{Plan, PlanTask, TaskId},
    request::Waiting,
    run::{Graph, Phase, Return, Run, Task},
    session::{Session, Usage},
};

use crate::{card::clip, run_card};

/// State of a task whose agent waits for the user.
const NEEDS_INPUT: &str = "needs_input";

/// State of a task that was in progress when its run ended. A resume continues it.
const STOPPED: &str = "stopped";

/// Builds the plan of a run. `None` if it has no plan.
pub(crate) fn row<'s>(
    run: &Run,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<GraphRow> {
    let planned = run.planned.as_ref()?;
    let used = used_by_task(run, &look);
    let usage = |id: &TaskId| used.get(id).copied().unwrap_or_default();
    let is_over = |task: &Task| run.is_sealed() && is_under_way(&task.phase);
    // Answers no longer reach an agent once the run was stopped.
    let open = run.leg().stopped.is_none();
    let asks = |task: &Task| open && task.session().and_then(&look).is_some_and(waits_for_a_person);
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
        None => unbegun(&planned.plan),
    };
    Some(GraphRow {
        run: run.id.to_string(),
        name: run.spec.name.clone(),
        state: run_card::state(run).to_owned(),
        tasks,
        queue: run.graph.as_ref().map(queue).unwrap_or_default(),
    })
}

/// Counts the tasks of a run's plan by progress. `None` if it has no plan.
pub(crate) fn counts(run: &Run) -> Option<TaskCounts> {
    let all = run.planned.as_ref()?.plan.tasks().len();
    let Some(graph) = &run.graph else {
        return Some(TaskCounts { all, waiting: all, ..TaskCounts::default() });
    };
    let mut counts = TaskCounts { all, ..TaskCounts::default() };
    for (_, task) in graph.tasks() {
        *match &task.phase {
            Phase::Waiting => &mut counts.waiting,
            phase if run.is_sealed() && is_under_way(phase) => &mut counts.waiting,
            Phase::Bringing(_) | Phase::Working { .. } => &mut counts.working,
            Phase::Queued => &mut counts.queued,
            Phase::Merged => &mut counts.merged,
            Phase::Failed { .. } => &mut counts.failed,
        } += 1;
    }
    Some(counts)
}

fn is_under_way(phase: &Phase) -> bool {
    match phase {
        Phase::Bringing(_) | Phase::Working { .. } => true,
        Phase::Waiting | Phase::Queued | Phase::Merged | Phase::Failed { .. } => false,
    }
}

fn waits_for_a_person(session: &Session) -> bool {
    session.open_requests().any(|request| request.asked.waiting == Waiting::Blocking)
}

fn unbegun(plan: &Plan) -> Vec<TaskRow> {
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

fn task_row(plan: &PlanTask, task: &Task, usage: Usage) -> TaskRow {
    TaskRow {
        detail: detail(task),
        session: task.session().or(task.worker).map(|id| id.to_string()),
        usage: UsageRow { input: usage.input, output: usage.output },
        returns: task.returns,
        retries: task.retries,
        commit: task.head.as_ref().map(|head| head.commit.0.clone()),
        ..planned_row(plan, task.phase.word())
    }
}

fn detail(task: &Task) -> Option<String> {
    let failed = match &task.phase {
        Phase::Failed { detail } => Some(clip(detail)),
        Phase::Waiting
        | Phase::Bringing(_)
        | Phase::Working { .. }
        | Phase::Queued
        | Phase::Merged => None,
    };
    failed.or_else(|| match task.returned.as_ref()? {
        Return::Conflict(met) => Some(format!("fixes a conflict in {}", met.files.join(", "))),
        Return::Breaks { failed, .. } => {
            let names: Vec<&str> = failed.iter().map(|one| one.command.as_str()).collect();
            Some(clip(&format!("after the merge, these checks failed: {}", names.join(", "))))
        }
    })
}

/// Sums the usage of each task, including live sessions. A conversation moves from task to task, so
/// its usage for earlier tasks is subtracted.
fn used_by_task<'s>(
    run: &Run,
    look: &impl Fn(SessionId) -> Option<&'s Session>,
) -> BTreeMap<TaskId, Usage> {
    let tasks = run.graph.iter().flat_map(Graph::tasks);
    let mut used: BTreeMap<TaskId, Usage> =
        tasks.map(|(plan, task)| (plan.id.clone(), task.usage)).collect();
    for (one, id) in run.live().filter_map(|one| Some((one, one.task.as_ref()?))) {
        let (Some(session), Some(sum)) = (look(one.id), used.get_mut(id)) else { continue };
        sum.add(session.usage.since(one.counted.0));
    }
    used
}

fn queue(graph: &Graph) -> QueueRow {
    let queue = &graph.queue;
    let batch = queue.batch.iter().flat_map(|batch| batch.links.iter().skip(batch.integrated));
    QueueRow {
        waiting: queue.waiting.iter().map(ToString::to_string).collect(),
        batch: batch.map(|link| link.task.to_string()).collect(),
        batches: queue.batches,
        checks: queue.checks,
    }
}
