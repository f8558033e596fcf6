//! Selects which part of a large graph to show: the active tasks and the next ones. The rest is only counted.

use std::collections::BTreeSet;

use super::{TaskMark, layers};

/// A graph with at most this many tasks is always shown completely.
const ALWAYS_SHOWN: usize = 40;

/// The maximum number of tasks to show in a larger graph, unless more tasks need attention.
const MAX_SHOWN: usize = 80;

/// The part of a graph that is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisibleTasks {
    /// The indexes of the tasks to show, in order.
    pub(super) tasks: Vec<usize>,
    /// How many finished tasks are not shown.
    pub(super) done: usize,
    /// How many waiting tasks are not shown.
    pub(super) waiting: usize,
}

/// Leaves out finished tasks, then those with the longest dependency chains, until the rest is
/// small enough. Tasks that are active, have failed or need the user are never left out.
pub(super) fn fold(kinds: &[TaskMark], after: &[Vec<usize>]) -> VisibleTasks {
    let all: Vec<usize> = (0..kinds.len()).collect();
    if all.len() <= ALWAYS_SHOWN {
        return VisibleTasks { tasks: all, done: 0, waiting: 0 };
    }
    let open: Vec<usize> = all.into_iter().filter(|task| kinds[*task] != TaskMark::Done).collect();
    let done = kinds.len() - open.len();
    let layers = layers(after);
    let mut waiting: Vec<usize> =
        open.iter().copied().filter(|task| kinds[*task] == TaskMark::Waiting).collect();
    // The sort is stable, so within a layer the last tasks are left out first.
    waiting.sort_by_key(|task| layers[*task]);
    let spare = open.len().saturating_sub(MAX_SHOWN).min(waiting.len());
    let left_out: BTreeSet<usize> = waiting.split_off(waiting.len() - spare).into_iter().collect();
    let tasks = open.into_iter().filter(|task| !left_out.contains(task)).collect();
    VisibleTasks { tasks, done, waiting: left_out.len() }
}
