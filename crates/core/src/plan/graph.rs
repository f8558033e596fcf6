//! The plan: a validated graph of tasks.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault::{PlanFault, format_faults},
    order, parse,
    task::{PlanTask, TaskId},
};

/// Maximum number of tasks in any plan.
pub const MAX_TASKS: usize = 10_000;

/// Maximum number of tasks in a plan written by an agent. The limit is low because each task is a
/// session that costs tokens.
pub const MAX_PLANNED: usize = 200;

/// The graph of a run's tasks. It contains at least one task and no cycles, and all dependencies exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Plan {
    /// The tasks, which are behind an `Arc` because a run and its plan are cloned for every
    /// decision about the run.
    tasks: Arc<Vec<PlanTask>>,
    /// The position of each task.
    #[serde(skip)]
    places: Arc<BTreeMap<TaskId, usize>>,
}

/// The faults of a stored plan that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("invalid plan:\n{}", format_faults(.0))]
pub struct InvalidPlan(Vec<PlanFault>);

impl TryFrom<Value> for Plan {
    type Error = InvalidPlan;

    fn try_from(value: Value) -> Result<Self, InvalidPlan> {
        Plan::parse(&value).map_err(InvalidPlan)
    }
}

impl Plan {
    /// Builds a plan from tasks, or returns all of its faults.
    pub fn new(tasks: Vec<PlanTask>) -> Result<Plan, Vec<PlanFault>> {
        let mut faults = Vec::new();
        check_task_count(tasks.len(), MAX_TASKS, &mut faults);
        tasks.iter().for_each(|task| task.text_faults(&mut faults));
        Plan::validate(tasks, faults)
    }

    /// Parses a plan of the form `{"tasks": [...]}` from an agent or a file.
    pub fn parse(value: &Value) -> Result<Plan, Vec<PlanFault>> {
        Plan::parse_within(value, MAX_TASKS)
    }

    /// Parses a plan with at most `most` tasks.
    pub fn parse_within(value: &Value, most: usize) -> Result<Plan, Vec<PlanFault>> {
        let mut faults = Vec::new();
        let tasks = parse::parse_tasks(value, most.min(MAX_TASKS), &mut faults);
        Plan::validate(tasks, faults)
    }

    /// Rejects a plan with more than `most` tasks.
    pub fn limit_tasks(self, most: usize) -> Result<Plan, PlanFault> {
        if self.tasks.len() <= most {
            Ok(self)
        } else {
            Err(PlanFault::TooMany { count: self.tasks.len(), most })
        }
    }

    /// Returns the tasks in a stable topological order: each task comes after its dependencies, and
    /// tasks otherwise keep the order in which they were given.
    pub fn tasks(&self) -> &[PlanTask] {
        &self.tasks
    }

    pub fn get(&self, id: &TaskId) -> Option<&PlanTask> {
        self.tasks.get(*self.places.get(id)?)
    }

    /// Validates the dependencies between the tasks. `faults` contains the faults found so far.
    fn validate(tasks: Vec<PlanTask>, mut faults: Vec<PlanFault>) -> Result<Plan, Vec<PlanFault>> {
        faults.extend(order::link_faults(&tasks));
        match order::topological_order(&tasks) {
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

/// Checks the number of tasks. An empty plan is invalid, because it would immediately count as done.
pub(super) fn check_task_count(count: usize, most: usize, faults: &mut Vec<PlanFault>) {
    match count {
        0 => faults.push(PlanFault::Empty),
        count if count > most => faults.push(PlanFault::TooMany { count, most }),
        _ => {}
    }
}
