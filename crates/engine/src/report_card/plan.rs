//! The plan on the report card: how each task ended, who worked on it, and what the queue did.

use provost_core::{
    plan::PlanTask,
    run::{Graph, Phase, Run, Task},
};

use super::{counted, page::Part};

/// Tells the plan of a run; nothing if it has none.
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
            let begun = Part::Text(format!("{count}, of which none was begun."));
            vec![begun, Part::List(tasks.iter().map(named).collect())]
        }
    }
}

/// Says how much of the plan is merged, and what that took.
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
    let after = match after.is_empty() {
        true => String::new(),
        false => format!(" (after {})", after.join(", ")),
    };
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
        often(task.returns, "given back by the queue"),
        often(task.retries, "begun again"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(handed).collect();
    format!("{}; {}", named(plan), parts.join("; "))
}

/// Says what became of a task: only what is merged is a part of the work.
fn ending(task: &Task) -> String {
    match &task.phase {
        Phase::Merged => "merged".to_owned(),
        Phase::Failed { detail } => format!("not merged: failed, {detail}"),
        Phase::Queued => "not merged: done, and not checked with the others yet".to_owned(),
        Phase::Working { .. } | Phase::Bringing(_) => "not merged: under way".to_owned(),
        Phase::Waiting if task.workers.is_empty() => "not merged: not begun".to_owned(),
        Phase::Waiting => "not merged: to be gone on with".to_owned(),
    }
}

fn often(times: u32, what: &str) -> Option<String> {
    match times {
        0 => None,
        1 => Some(format!("{what} once")),
        times => Some(format!("{what} {times} times")),
    }
}
