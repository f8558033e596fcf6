//! The plan as part of the summary: the result of each task, its agents, and what the merge queue did.

use provost_core::{
    plan::PlanTask,
    run::{Run, TaskGraph, TaskPhase, TaskState},
};

use super::{count_noun, page::PagePart};

/// Renders the plan of a run. Empty if the run has no plan.
pub(super) fn plan_parts(run: &Run) -> Vec<PagePart> {
    let Some(planned) = &run.planned else { return Vec::new() };
    match &run.graph {
        Some(graph) => {
            let tasks = graph.tasks().map(|(plan, task)| task_line(plan, task)).collect();
            vec![PagePart::Text(plan_summary(graph)), PagePart::List(tasks)]
        }
        None => {
            let tasks = planned.plan.tasks();
            let count = count_noun(tasks.len(), "task");
            let begun = PagePart::Text(format!("{count}, none of them started."));
            vec![begun, PagePart::List(tasks.iter().map(task_title).collect())]
        }
    }
}

/// Describes how many tasks were merged, in how many batches and checks.
fn plan_summary(graph: &TaskGraph) -> String {
    let merged = graph.tasks().filter(|(_, task)| task.phase == TaskPhase::Merged).count();
    let tasks = count_noun(graph.plan().tasks().len(), "task");
    let batches = match graph.queue.batches {
        1 => "1 batch".to_owned(),
        many => format!("{many} batches"),
    };
    let checks = count_noun(usize::try_from(graph.queue.checks).unwrap_or(usize::MAX), "check");
    format!("{tasks}, {merged} merged, in {batches} with {checks} of merged trees.")
}

fn task_title(plan: &PlanTask) -> String {
    let after: Vec<String> = plan.after.iter().map(ToString::to_string).collect();
    let after =
        if after.is_empty() { String::new() } else { format!(" (after {})", after.join(", ")) };
    format!("{}: {}{after}", plan.id, plan.title)
}

fn task_line(plan: &PlanTask, task: &TaskState) -> String {
    let workers: Vec<String> = task.workers.iter().map(|id| id.short()).collect();
    let by = (!workers.is_empty()).then(|| format!("by {}", workers.join(", then ")));
    let tokens = task.usage.total();
    let handed = task
        .hand_overs
        .iter()
        .map(|(from, why)| format!("taken over from {}: {why}", from.short()));
    let parts = [
        Some(task_result(task)),
        by,
        (tokens > 0).then(|| format!("{tokens} tokens")),
        times_text(task.returns, "returned by the queue"),
        times_text(task.retries, "retried"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(handed).collect();
    format!("{}; {}", task_title(plan), parts.join("; "))
}

/// Describes the result of a task. Only merged tasks are part of the work.
fn task_result(task: &TaskState) -> String {
    match &task.phase {
        TaskPhase::Merged => "merged".to_owned(),
        TaskPhase::Failed { detail } => format!("not merged: failed, {detail}"),
        TaskPhase::Queued => "not merged: done, not checked with the others yet".to_owned(),
        TaskPhase::Working { .. } | TaskPhase::PreparingWorktree(_) => {
            "not merged: in progress".to_owned()
        }
        TaskPhase::Waiting if task.workers.is_empty() => "not merged: not started".to_owned(),
        TaskPhase::Waiting => "not merged: to be continued".to_owned(),
    }
}

fn times_text(times: u32, what: &str) -> Option<String> {
    match times {
        0 => None,
        1 => Some(format!("{what} once")),
        times => Some(format!("{what} {times} times")),
    }
}
