//! Shorthands for plans.

use provost_core::plan::{Plan, PlanFault, PlanTask, TaskId};
use serde_json::{Value, json};

pub(super) fn id(text: &str) -> TaskId {
    text.parse().expect("it is an id")
}

/// A task with a name, dependencies and placeholder texts.
pub(super) fn task(name: &str, after: &[&str]) -> PlanTask {
    PlanTask {
        id: id(name),
        title: format!("Title of {name}"),
        instruction: format!("Do {name}."),
        after: after.iter().map(|on| id(on)).collect(),
        criteria: vec!["it holds".to_owned()],
        checks: vec!["make test".to_owned()],
        scope: vec!["src/**".to_owned()],
    }
}

pub(super) fn plan(tasks: &[(&str, &[&str])]) -> Plan {
    Plan::new(tasks.iter().map(|(name, after)| task(name, after)).collect()).expect("it is a plan")
}

pub(super) fn diamond() -> Plan {
    plan(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])])
}

pub(super) fn ids(plan: &Plan) -> Vec<&str> {
    plan.tasks().iter().map(|task| task.id.as_str()).collect()
}

/// The JSON of a valid task, for tests that break it.
pub(super) fn task_json(name: &str) -> Value {
    json!({"id": name, "title": "t", "instruction": "i", "after": [], "criteria": [], "checks": [], "scope": []})
}

/// Returns the fault messages of a plan with these tasks.
pub(super) fn describe_faults(tasks: &[Value]) -> Vec<String> {
    faults(&json!({"tasks": tasks})).iter().map(ToString::to_string).collect()
}

pub(super) fn faults(value: &Value) -> Vec<PlanFault> {
    Plan::parse(value).expect_err("the plan is refused")
}
