//! The plan: a graph of tasks that is known to be one.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault::{Fault, told},
    order, read,
    task::{PlanTask, TaskId},
};

/// The most tasks that any plan may have.
pub const MAX_TASKS: usize = 10_000;

/// The most tasks that an agent may plan: each is a session that costs tokens.
pub const MAX_PLANNED: usize = 200;

/// The graph of a run's tasks. It has at least one task, all that is named is there, and no task waits for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Plan {
    /// Shared, for a run with its plan is copied for every decision about it.
    tasks: Arc<Vec<PlanTask>>,
    /// Where each task stands.
    #[serde(skip)]
    places: Arc<BTreeMap<TaskId, usize>>,
}

/// The reason a stored value is no plan.
#[derive(Debug, thiserror::Error)]
#[error("it is no valid plan:\n{}", told(.0))]
pub struct NoPlan(Vec<Fault>);

impl TryFrom<Value> for Plan {
    type Error = NoPlan;

    fn try_from(value: Value) -> Result<Self, NoPlan> {
        Plan::parse(&value).map_err(NoPlan)
    }
}

impl Plan {
    /// Makes a plan of tasks, or tells everything that is wrong with them.
    pub fn new(tasks: Vec<PlanTask>) -> Result<Plan, Vec<Fault>> {
        let mut faults = Vec::new();
        count(tasks.len(), MAX_TASKS, &mut faults);
        tasks.iter().for_each(|task| task.text_faults(&mut faults));
        Plan::of(tasks, faults)
    }

    /// Reads what an agent or a file says, `{"tasks": [...]}`.
    pub fn parse(value: &Value) -> Result<Plan, Vec<Fault>> {
        Plan::parse_within(value, MAX_TASKS)
    }

    /// Reads what an agent says, who may plan no more than so many tasks.
    pub fn parse_within(value: &Value, most: usize) -> Result<Plan, Vec<Fault>> {
        let mut faults = Vec::new();
        let tasks = read::tasks(value, most.min(MAX_TASKS), &mut faults);
        Plan::of(tasks, faults)
    }

    /// Refuses a plan that has grown beyond so many tasks.
    pub fn within(self, most: usize) -> Result<Plan, Fault> {
        match self.tasks.len() <= most {
            true => Ok(self),
            false => Err(Fault::TooMany { count: self.tasks.len(), most }),
        }
    }

    /// Gives the tasks in a stable order: each stands behind all that it is after, and those that could stand
    /// anywhere stand as they were given.
    pub fn tasks(&self) -> &[PlanTask] {
        &self.tasks
    }

    pub fn get(&self, id: &TaskId) -> Option<&PlanTask> {
        self.tasks.get(*self.places.get(id)?)
    }

    /// Looks at how the tasks hang together, besides the faults that are known already.
    fn of(tasks: Vec<PlanTask>, mut faults: Vec<Fault>) -> Result<Plan, Vec<Fault>> {
        faults.extend(order::link_faults(&tasks));
        match order::sorted(&tasks) {
            Ok(order) if faults.is_empty() => Ok(Plan::in_order(tasks, &order)),
            Ok(_) => Err(faults),
            Err(cycles) => {
                faults.extend(cycles);
                Err(faults)
            }
        }
    }

    fn in_order(tasks: Vec<PlanTask>, order: &[usize]) -> Plan {
        let mut tasks: Vec<Option<PlanTask>> = tasks.into_iter().map(Some).collect();
        let tasks: Vec<PlanTask> = order.iter().filter_map(|at| tasks[*at].take()).collect();
        let places = tasks.iter().enumerate().map(|(at, task)| (task.id.clone(), at)).collect();
        Plan { tasks: Arc::new(tasks), places: Arc::new(places) }
    }
}

/// Looks at how many tasks there are. None is no plan: nothing to do is not all done.
pub(super) fn count(count: usize, most: usize, faults: &mut Vec<Fault>) {
    match count {
        0 => faults.push(Fault::Empty),
        count if count > most => faults.push(Fault::TooMany { count, most }),
        _ => {}
    }
}
