//! Strict parsing of plans from agents and files: unknown fields are faults, and all faults are
//! returned at once.

use serde_json::{Map, Value};

use super::{
    fault::{FaultLocation, PlanFault, clipped},
    graph, task,
    task::{PlanTask, TaskId},
};

const PLAN_FIELDS: &str = "tasks";
const TASK_FIELDS: &str = "id, title, instruction, after, criteria, checks and scope";

/// Parses the tasks of a plan. A task with a readable id is returned even if it has other faults;
/// otherwise, tasks that depend on it would be reported as having an unknown dependency.
pub(super) fn parse_tasks(
    value: &Value,
    most: usize,
    faults: &mut Vec<PlanFault>,
) -> Vec<PlanTask> {
    let Some(fields) = object_fields(value, &FaultLocation::Plan, faults) else {
        return Vec::new();
    };
    reject_unknown_fields(fields, &["tasks"], PLAN_FIELDS, &FaultLocation::Plan, faults);
    let expected = "a list of tasks";
    match fields.get("tasks") {
        Some(Value::Array(tasks)) => {
            graph::check_task_count(tasks.len(), most, faults);
            let numbered = tasks.iter().enumerate();
            numbered
                .filter_map(|(at, task)| read_task(FaultLocation::Numbered(at + 1), task, faults))
                .collect()
        }
        Some(other) => {
            let found = type_name(other);
            faults.push(PlanFault::WrongType {
                place: FaultLocation::Plan,
                field: "tasks",
                found,
                expected,
            });
            Vec::new()
        }
        None => {
            faults.push(PlanFault::Missing {
                place: FaultLocation::Plan,
                field: "tasks",
                expected,
            });
            Vec::new()
        }
    }
}

/// Parses a task. Faults identify the task by its id if the id is readable, and by its position otherwise.
pub(super) fn read_task(
    unnamed: FaultLocation,
    value: &Value,
    faults: &mut Vec<PlanFault>,
) -> Option<PlanTask> {
    let fields = object_fields(value, &unnamed, faults)?;
    let id = required_text(fields, "id", &unnamed, faults)
        .and_then(|id| parse_id(id, "id", &unnamed, faults));
    let place = id.clone().map_or(unnamed, FaultLocation::Task);
    let known = ["id", "title", "instruction", "after", "criteria", "checks", "scope"];
    reject_unknown_fields(fields, &known, TASK_FIELDS, &place, faults);
    let title = required_text(fields, "title", &place, faults).unwrap_or_default();
    let instruction = required_text(fields, "instruction", &place, faults).unwrap_or_default();
    let after = text_list(fields, "after", "ids of tasks", &place, faults);
    let after = after.into_iter().filter_map(|on| parse_id(on, "after", &place, faults)).collect();
    let mut entries = |field| text_entries(fields, field, &place, faults);
    let (criteria, checks, scope) = (entries("criteria"), entries("checks"), entries("scope"));
    // A missing field has already been reported, so check only fields that are present.
    if fields.get("title").is_some_and(Value::is_string) {
        task::check_title(&place, title, faults);
    }
    if fields.get("instruction").is_some_and(Value::is_string) {
        task::check_instruction(&place, instruction, faults);
    }
    let (title, instruction) = (title.to_owned(), instruction.to_owned());
    Some(PlanTask { id: id?, title, instruction, after, criteria, checks, scope })
}

/// Returns the fields of a JSON object, or records a fault if the value is not an object.
pub(super) fn object_fields<'a>(
    value: &'a Value,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) -> Option<&'a Map<String, Value>> {
    let fields = value.as_object();
    if fields.is_none() {
        faults.push(PlanFault::NoObject { place: place.clone(), found: type_name(value) });
    }
    fields
}

/// Reports unknown fields as faults, so that a plan cannot set any state.
pub(super) fn reject_unknown_fields(
    fields: &Map<String, Value>,
    known: &[&str],
    expected: &'static str,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) {
    let foreign = fields.keys().filter(|field| !known.contains(&field.as_str()));
    faults.extend(foreign.map(|field| PlanFault::ForeignField {
        place: place.clone(),
        field: clipped(field),
        expected,
    }));
}

/// Returns the text of a required field, or records a fault.
pub(super) fn required_text<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) -> Option<&'a str> {
    let (place, expected) = (place.clone(), "a text");
    match fields.get(field) {
        Some(Value::String(text)) => return Some(text),
        Some(other) => {
            faults.push(PlanFault::WrongType { place, field, found: type_name(other), expected });
        }
        None => faults.push(PlanFault::Missing { place, field, expected }),
    }
    None
}

fn parse_id(
    text: &str,
    field: &'static str,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) -> Option<TaskId> {
    match text.parse() {
        Ok(id) => Some(id),
        Err(why) => {
            faults.push(PlanFault::BadId { place: place.clone(), field, why });
            None
        }
    }
}

fn text_entries(
    fields: &Map<String, Value>,
    field: &'static str,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) -> Vec<String> {
    let texts = text_list(fields, field, "a list of texts", place, faults);
    task::check_count(place, field, texts.len(), faults);
    texts.iter().for_each(|text| task::check_entry(place, field, text, faults));
    texts.into_iter().map(str::to_owned).collect()
}

/// Returns a list of texts, which is empty if the field is missing.
fn text_list<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
    expected: &'static str,
    place: &FaultLocation,
    faults: &mut Vec<PlanFault>,
) -> Vec<&'a str> {
    let mut wrong = |found| {
        faults.push(PlanFault::WrongType { place: place.clone(), field, found, expected });
    };
    match fields.get(field) {
        None => Vec::new(),
        Some(Value::Array(entries)) => {
            let strange = entries.iter().find(|entry| !entry.is_string());
            strange.into_iter().for_each(|entry| wrong(list_with(entry)));
            entries.iter().filter_map(Value::as_str).collect()
        }
        Some(other) => {
            wrong(type_name(other));
            Vec::new()
        }
    }
}

/// Returns the name of a JSON value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn list_with(entry: &Value) -> &'static str {
    match entry {
        Value::Null => "a list with null in it",
        Value::Bool(_) => "a list with a boolean in it",
        Value::Number(_) => "a list with a number in it",
        Value::String(_) => "a list with a text in it",
        Value::Array(_) => "a list with a list in it",
        Value::Object(_) => "a list with an object in it",
    }
}
