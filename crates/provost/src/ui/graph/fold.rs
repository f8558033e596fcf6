//! What of a large graph is shown: what is worked on and comes next, and the rest as numbers.

use std::collections::BTreeSet;

use super::{Kind, layers};

/// So many tasks are shown whatever they are.
const ALWAYS: usize = 40;

/// So many are shown of a larger graph, if no more of them need a look.
const AT_MOST: usize = 80;

/// What is shown of a graph.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The numbers of the tasks, in their order.
    pub(super) tasks: Vec<usize>,
    /// How many are done and left out.
    pub(super) done: usize,
    /// How many wait for others that wait, and are left out.
    pub(super) waiting: usize,
}

/// Leaves out what is done, then what waits longest, until the rest can be looked at.
/// What is worked on, asks or failed is never left out.
pub(super) fn folded(kinds: &[Kind], after: &[Vec<usize>]) -> Shown {
    let all: Vec<usize> = (0..kinds.len()).collect();
    if all.len() <= ALWAYS {
        return Shown { tasks: all, done: 0, waiting: 0 };
    }
    let open: Vec<usize> = all.into_iter().filter(|task| kinds[*task] != Kind::Done).collect();
    let done = kinds.len() - open.len();
    let layers = layers(after);
    let mut waiting: Vec<usize> =
        open.iter().copied().filter(|task| kinds[*task] == Kind::Waiting).collect();
    // The sort is stable: of one layer the last go first.
    waiting.sort_by_key(|task| layers[*task]);
    let spare = open.len().saturating_sub(AT_MOST).min(waiting.len());
    let left_out: BTreeSet<usize> = waiting.split_off(waiting.len() - spare).into_iter().collect();
    let tasks = open.into_iter().filter(|task| !left_out.contains(task)).collect();
    Shown { tasks, done, waiting: left_out.len() }
}
