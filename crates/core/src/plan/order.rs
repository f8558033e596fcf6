//! Dependencies between tasks: their order, their cycles, and which task continues the conversation of another task.
//!
//! All functions take time linear in the number of tasks and dependencies, and none is recursive,
//! because a chain of ten thousand tasks is a valid plan.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use super::{
    fault::PlanFault,
    graph::Plan,
    task::{PlanTask, TaskId},
};

/// Maps each task to the task whose conversation it continues, if any. If several tasks have the same single
/// dependency, only the first of these tasks continues the conversation of the dependency.
pub fn continued_tasks(plan: &Plan) -> BTreeMap<TaskId, TaskId> {
    let mut taken = BTreeSet::new();
    let chain = plan.tasks().iter().filter_map(|task| match task.after.as_slice() {
        [only] if taken.insert(only) => Some((task.id.clone(), only.clone())),
        _ => None,
    });
    chain.collect()
}

/// Returns a fault for each duplicate id, and for each unknown or repeated dependency.
pub(super) fn link_faults(tasks: &[PlanTask]) -> Vec<PlanFault> {
    let mut counts: BTreeMap<&TaskId, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(&task.id).or_default() += 1;
    }
    let twice = counts.iter().filter(|(_, count)| **count > 1);
    let mut faults: Vec<PlanFault> = twice
        .map(|(id, count)| PlanFault::Duplicate { id: (*id).clone(), count: *count })
        .collect();
    for task in tasks {
        let mut named = BTreeSet::new();
        for on in &task.after {
            let (id, on) = (task.id.clone(), on.clone());
            if !named.insert(on.clone()) {
                faults.push(PlanFault::RepeatedDependency { task: id, on });
            } else if !counts.contains_key(&on) {
                faults.push(PlanFault::UnknownDependency { task: id, on });
            }
        }
    }
    faults
}

/// Returns the positions of the tasks in topological order, or the cycles that make such an order
/// impossible. Skips repeated and unknown dependencies, because [`link_faults`] reports them.
pub(super) fn topological_order(tasks: &[PlanTask]) -> Result<Vec<usize>, Vec<PlanFault>> {
    let links = DependencyLinks::from_tasks(tasks);
    let mut waits: Vec<usize> = links.before.iter().map(Vec::len).collect();
    let free = (0..tasks.len()).filter(|at| waits[*at] == 0).map(Reverse);
    let mut free: BinaryHeap<Reverse<usize>> = free.collect();
    let mut order = Vec::with_capacity(tasks.len());
    while let Some(Reverse(at)) = free.pop() {
        order.push(at);
        for behind in &links.behind[at] {
            waits[*behind] -= 1;
            if waits[*behind] == 0 {
                free.push(Reverse(*behind));
            }
        }
    }
    if order.len() == tasks.len() { Ok(order) } else { Err(find_cycles(tasks, &links, &waits)) }
}

/// The dependencies by position, in both directions.
struct DependencyLinks {
    before: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
}

impl DependencyLinks {
    fn from_tasks(tasks: &[PlanTask]) -> DependencyLinks {
        let places: BTreeMap<&TaskId, usize> =
            tasks.iter().enumerate().rev().map(|(at, task)| (&task.id, at)).collect();
        let mut links = DependencyLinks {
            before: vec![Vec::new(); tasks.len()],
            behind: vec![Vec::new(); tasks.len()],
        };
        for (at, task) in tasks.iter().enumerate() {
            let known: BTreeSet<usize> =
                task.after.iter().filter_map(|on| places.get(on).copied()).collect();
            known.iter().for_each(|on| links.behind[*on].push(at));
            links.before[at].extend(known);
        }
        links
    }
}

/// Returns the cycles among the tasks that could not be ordered. Each of these tasks depends on
/// another such task, so following the dependencies always leads to a cycle or to a task that was
/// already visited.
fn find_cycles(tasks: &[PlanTask], links: &DependencyLinks, waits: &[usize]) -> Vec<PlanFault> {
    let mut walks = vec![0; tasks.len()];
    let mut found = Vec::new();
    for start in (0..tasks.len()).filter(|at| waits[*at] > 0) {
        let walk = start + 1;
        let mut path = Vec::new();
        let mut at = start;
        while walks[at] == 0 {
            walks[at] = walk;
            path.push(at);
            let next = links.before[at].iter().find(|on| waits[**on] > 0);
            at = *next.expect("a waiting task waits for another waiting task");
        }
        if walks[at] == walk {
            let round = path.into_iter().skip_while(|place| *place != at).chain([at]);
            let path = round.map(|place| tasks[place].id.clone()).collect();
            found.push(PlanFault::Cycle { path });
        }
    }
    found
}
