//! Parsing and storing plans, and the schema given to agents.

use provost_core::plan::{MAX_TASKS, Plan};
use serde_json::{Value, json};

use super::kit::{diamond, id, ids, plan, task, task_json};

#[test]
fn lists_default_to_empty() {
    let read = Plan::parse(&json!({"tasks": [{"id": "a", "title": "t", "instruction": "i"}]}));
    assert_eq!(read, Plan::parse(&json!({"tasks": [task_json("a")]})));
    assert_eq!(ids(&read.unwrap()), ["a"]);
}

#[test]
fn tasks_are_ordered_by_dependency_then_as_given() {
    let given =
        plan(&[("late", &["last"]), ("x", &[]), ("last", &["first"]), ("first", &[]), ("y", &[])]);
    assert_eq!(ids(&given), ["x", "first", "last", "late", "y"]);
    assert_eq!(given.get(&id("late")).unwrap().after, [id("last")]);
    assert_eq!(given.get(&id("none")), None);
}

#[test]
fn stored_plan_is_revalidated_on_read() {
    let stored = serde_json::to_value(diamond()).unwrap();
    assert_eq!(serde_json::from_value::<Plan>(stored.clone()).unwrap(), diamond());
    let mut spoilt = stored;
    spoilt["tasks"][0]["after"] = json!(["d"]);
    assert!(serde_json::from_value::<Plan>(spoilt).unwrap_err().to_string().contains("a -> d"));
}

/// Large plans overflow no stack and are processed quickly.
#[test]
fn ten_thousand_task_graphs_are_accepted() {
    let name = |no: usize| format!("t{no}");
    let chain =
        (0..MAX_TASKS).map(|no| (name(no), (no > 0).then(|| name(no - 1)).into_iter().collect()));
    let web = (0..MAX_TASKS).map(|no| {
        let before = [1, 2, 3].into_iter().filter_map(|back| no.checked_sub(back)).map(name);
        (name(no), before.collect())
    });
    let all: [Vec<(String, Vec<String>)>; 2] = [chain.collect(), web.collect()];
    for tasks in all {
        let tasks = tasks
            .iter()
            .rev()
            .map(|(name, after)| task(name, &after.iter().map(String::as_str).collect::<Vec<_>>()));
        let plan = Plan::new(tasks.collect()).unwrap();
        let expected: Vec<String> = (0..MAX_TASKS).map(name).collect();
        assert_eq!(ids(&plan), expected);
    }
}

/// Structured output accepts only schemas in which every property is required.
#[test]
fn plan_schema_is_strict_and_complete() {
    let schema = Plan::schema();
    assert_strict(&schema);
    let task = &schema["properties"]["tasks"]["items"]["properties"];
    let known: Vec<&String> = task.as_object().unwrap().keys().collect();
    let parsed = task_json("a");
    let read: Vec<&String> = parsed.as_object().unwrap().keys().collect();
    assert_eq!(known, read);
}

pub(super) fn assert_strict(schema: &Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(properties) = fields.get("properties") {
                let named: Vec<_> =
                    properties.as_object().expect("they have names").keys().cloned().collect();
                let mut required: Vec<_> =
                    fields["required"].as_array().expect("it is a list").clone();
                required.sort_by_key(ToString::to_string);
                assert_eq!(json!(named), json!(required));
                assert_eq!(fields["additionalProperties"], json!(false));
            }
            fields.values().for_each(assert_strict);
        }
        Value::Array(forms) => forms.iter().for_each(assert_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
