//! The plan on the report card: the result of each task, its agents, and the work of the merge
//! queue.

use provost_core::{
    plan::PlanTask,
    run::{Graph, Phase, Run, Task},
};

use super::{counted, page::Part};

/// Renders the plan of a run. Empty if it has no plan.
pub(super) fn planned(run: &Run) -> Vec<Part> {
    let Some(planned) = &run.planned else { return Vec::new() };
    match &run.graph {
        Some(graph) => {
            let tasks = graph.tasks().map(|(plan, task)| worked_on(plan, task)).collect();
            vec![Part::Text(figures(graph)), Part::List(tasks)]
        }
        None => {
            let tasks = planned.plan.tasks();
            let count = counted(tasks.len(), "task");
            let begun = Part::Text(format!("{count}, none of them started."));
            vec![begun, Part::List(tasks.iter().map(named).collect())]
        }
    }
}

/// Renders the number of merged tasks, batches and checks.
fn figures(graph: &Graph) -> String {
    let merged = graph.tasks().filter(|(_, task)| task.phase == Phase::Merged).count();
    let tasks = counted(graph.plan().tasks().len(), "task");
    let batches = match graph.queue.batches {
        1 => "1 batch".to_owned(),
        many => format!("{many} batches"),
    };
    let checks = counted(usize::try_from(graph.queue.checks).unwrap_or(usize::MAX), "check");
    format!("{tasks}, {merged} merged, in {batches} with {checks} of merged trees.")
}

fn named(plan: &PlanTask) -> String {
    let after: Vec<String> = plan.after.iter().map(ToString::to_string).collect();
    let after =
        if after.is_empty() { String::new() } else { format!(" (after {})", after.join(", ")) };
    format!("{}: {}{after}", plan.id, plan.title)
}

fn worked_on(plan: &PlanTask, task: &Task) -> String {
    let workers: Vec<String> = task.workers.iter().map(|id| id.short()).collect();
    let by = (!workers.is_empty()).then(|| format!("by {}", workers.join(", then ")));
    let tokens = task.usage.total();
    let handed = task
        .hand_overs
        .iter()
        .map(|(from, why)| format!("taken over from {}: {why}", from.short()));
    let parts = [
        Some(ending(task)),
        by,
        (tokens > 0).then(|| format!("{tokens} tokens")),
        often(task.returns, "returned by the queue"),
        often(task.retries, "retried"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(handed).collect();
    format!("{}; {}", named(plan), parts.join("; "))
}

/// Describes the result of a task. Only merged tasks are a part of the work.
fn ending(task: &Task) -> String {
    match &task.phase {
        Phase::Merged => "merged".to_owned(),
        Phase::Failed { detail } => format!("not merged: failed, {detail}"),
        Phase::Queued => "not merged: done, not checked with the others yet".to_owned(),
        Phase::Working { .. } | Phase::Bringing(_) => "not merged: in progress".to_owned(),
        Phase::Waiting if task.workers.is_empty() => "not merged: not started".to_owned(),
        Phase::Waiting => "not merged: to be continued".to_owned(),
    }
}

fn often(times: u32, what: &str) -> Option<String> {
    match times {
        0 => None,
        1 => Some(format!("{what} once")),
        times => Some(format!("{what} {times} times")),
    }
}
