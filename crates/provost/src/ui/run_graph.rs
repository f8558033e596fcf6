//! Shows the plan of a run: the progress of its tasks, their sessions, and the merge queue.

use provost_api::{QueueRow, RunGraphRow as Graph, TaskCounts, TaskRow};

use super::{GraphTaskRow, short_id, text::escape_line};

/// The maximum number of queued tasks to list.
const MAX_NAMED: usize = 8;

/// Returns the row to draw for each task.
pub(crate) fn task_rows(graph: &Graph) -> Vec<GraphTaskRow> {
    graph.tasks.iter().map(row).collect()
}

fn row(task: &TaskRow) -> GraphTaskRow {
    GraphTaskRow {
        id: task.id.clone(),
        title: task.title.clone(),
        after: task.after.clone(),
        state: task.state.clone(),
        note: note(task),
    }
}

/// Returns a note about a task: its session, detail, usage, and how often it was sent back or retried.
fn note(task: &TaskRow) -> String {
    let tokens = task.usage.input.saturating_add(task.usage.output);
    let parts = [
        task.session.as_deref().map(short_id),
        task.detail.clone(),
        (tokens > 0).then(|| format!("{tokens} tokens")),
        count_text(task.returns, "returned"),
        count_text(task.retries, "retried"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn count_text(times: u32, what: &str) -> Option<String> {
    match times {
        0 => None,
        1 => Some(what.to_owned()),
        times => Some(format!("{what} {times} times")),
    }
}

/// Returns how many tasks are merged, as in `3/5`.
pub(super) fn merged_fraction(counts: &TaskCounts) -> String {
    format!("{}/{}", counts.merged, counts.all)
}

/// Describes the progress of the tasks.
pub(super) fn describe_counts(counts: &TaskCounts) -> String {
    let parts = [
        (counts.failed, "failed"),
        (counts.working, "in progress"),
        (counts.queued, "queued"),
        (counts.waiting, "waiting"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, what)| format!(", {count} {what}"));
    format!("{} of {} merged{}", counts.merged, counts.all, parts.collect::<String>())
}

/// Describes the merge queue. Returns `None` before it is first used.
pub(super) fn describe_queue(queue: &QueueRow) -> Option<String> {
    let list = |what: &str, tasks: &[String]| {
        (!tasks.is_empty()).then(|| format!("{what} {}", name_list(tasks)))
    };
    let counted = |count: u32, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    // If a merge results in a tree that was already checked, it is not checked again.
    let so_far = (queue.batches > 0).then(|| {
        let batches = counted(queue.batches, "batch", "batches");
        match queue.checks {
            0 => format!("{batches} so far"),
            checks => format!("{batches} and {} so far", counted(checks, "check", "checks")),
        }
    });
    let parts = [list("checking", &queue.batch), list("then", &queue.waiting), so_far];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn name_list(tasks: &[String]) -> String {
    let names = tasks.iter().take(MAX_NAMED).map(|task| escape_line(task));
    let more = tasks.len().saturating_sub(MAX_NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    names.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_a12_queue_without_its_own_check_counts_none() {
        let describe =
            |batches, checks| describe_queue(&QueueRow { batches, checks, ..QueueRow::default() });
        assert_eq!(describe(1, 0).as_deref(), Some("1 batch so far"));
        assert_eq!(describe(2, 1).as_deref(), Some("2 batches and 1 check so far"));
        assert_eq!(describe(0, 0), None);
    }
}
