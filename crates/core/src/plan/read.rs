//! Parses plans from agents and files strictly: unknown fields are faults, and all faults are
//! returned at once.

use serde_json::{Map, Value};

use super::{
    fault::{Fault, Place, clipped},
    graph, task,
    task::{PlanTask, TaskId},
};

const PLAN_FIELDS: &str = "tasks";
const TASK_FIELDS: &str = "id, title, instruction, after, criteria, checks and scope";

/// Parses the tasks of a plan. A task with a readable id is returned even if it has other faults,
/// so that it is not reported as missing.
pub(super) fn tasks(value: &Value, most: usize, faults: &mut Vec<Fault>) -> Vec<PlanTask> {
    let Some(fields) = object(value, &Place::Plan, faults) else { return Vec::new() };
    only(fields, &["tasks"], PLAN_FIELDS, &Place::Plan, faults);
    let expected = "a list of tasks";
    match fields.get("tasks") {
        Some(Value::Array(tasks)) => {
            graph::count(tasks.len(), most, faults);
            let numbered = tasks.iter().enumerate();
            numbered
                .filter_map(|(at, task)| read_task(Place::Numbered(at + 1), task, faults))
                .collect()
        }
        Some(other) => {
            let found = kind(other);
            faults.push(Fault::WrongType { place: Place::Plan, field: "tasks", found, expected });
            Vec::new()
        }
        None => {
            faults.push(Fault::Missing { place: Place::Plan, field: "tasks", expected });
            Vec::new()
        }
    }
}

/// Parses a task. Its id names it better than its position does.
pub(super) fn read_task(
    unnamed: Place,
    value: &Value,
    faults: &mut Vec<Fault>,
) -> Option<PlanTask> {
    let fields = object(value, &unnamed, faults)?;
    let id = text(fields, "id", &unnamed, faults).and_then(|id| named(id, "id", &unnamed, faults));
    let place = id.clone().map_or(unnamed, Place::Task);
    let known = ["id", "title", "instruction", "after", "criteria", "checks", "scope"];
    only(fields, &known, TASK_FIELDS, &place, faults);
    let title = text(fields, "title", &place, faults).unwrap_or_default();
    let instruction = text(fields, "instruction", &place, faults).unwrap_or_default();
    let after = list(fields, "after", "ids of tasks", &place, faults);
    let after = after.into_iter().filter_map(|on| named(on, "after", &place, faults)).collect();
    let mut entries = |field| entries(fields, field, &place, faults);
    let (criteria, checks, scope) = (entries("criteria"), entries("checks"), entries("scope"));
    // Missing texts are reported already, so only present ones are checked.
    if fields.get("title").is_some_and(Value::is_string) {
        task::title(&place, title, faults);
    }
    if fields.get("instruction").is_some_and(Value::is_string) {
        task::instruction(&place, instruction, faults);
    }
    let (title, instruction) = (title.to_owned(), instruction.to_owned());
    Some(PlanTask { id: id?, title, instruction, after, criteria, checks, scope })
}

/// Returns the fields of an object.
pub(super) fn object<'a>(
    value: &'a Value,
    place: &Place,
    faults: &mut Vec<Fault>,
) -> Option<&'a Map<String, Value>> {
    let fields = value.as_object();
    if fields.is_none() {
        faults.push(Fault::NoObject { place: place.clone(), found: kind(value) });
    }
    fields
}

/// Refuses unknown fields, so that a plan cannot set any state.
pub(super) fn only(
    fields: &Map<String, Value>,
    known: &[&str],
    expected: &'static str,
    place: &Place,
    faults: &mut Vec<Fault>,
) {
    let foreign = fields.keys().filter(|field| !known.contains(&field.as_str()));
    faults.extend(foreign.map(|field| Fault::ForeignField {
        place: place.clone(),
        field: clipped(field),
        expected,
    }));
}

/// Returns a required text.
pub(super) fn text<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
    place: &Place,
    faults: &mut Vec<Fault>,
) -> Option<&'a str> {
    let (place, expected) = (place.clone(), "a text");
    match fields.get(field) {
        Some(Value::String(text)) => return Some(text),
        Some(other) => {
            faults.push(Fault::WrongType { place, field, found: kind(other), expected });
        }
        None => faults.push(Fault::Missing { place, field, expected }),
    }
    None
}

fn named(
    text: &str,
    field: &'static str,
    place: &Place,
    faults: &mut Vec<Fault>,
) -> Option<TaskId> {
    match text.parse() {
        Ok(id) => Some(id),
        Err(why) => {
            faults.push(Fault::BadId { place: place.clone(), field, why });
            None
        }
    }
}

fn entries(
    fields: &Map<String, Value>,
    field: &'static str,
    place: &Place,
    faults: &mut Vec<Fault>,
) -> Vec<String> {
    let texts = list(fields, field, "a list of texts", place, faults);
    task::count(place, field, texts.len(), faults);
    texts.iter().for_each(|text| task::entry(place, field, text, faults));
    texts.into_iter().map(str::to_owned).collect()
}

/// Returns a list of texts; empty if it is missing.
fn list<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
    expected: &'static str,
    place: &Place,
    faults: &mut Vec<Fault>,
) -> Vec<&'a str> {
    let mut wrong = |found| {
        faults.push(Fault::WrongType { place: place.clone(), field, found, expected });
    };
    match fields.get(field) {
        None => Vec::new(),
        Some(Value::Array(entries)) => {
            let strange = entries.iter().find(|entry| !entry.is_string());
            strange.into_iter().for_each(|entry| wrong(among(entry)));
            entries.iter().filter_map(Value::as_str).collect()
        }
        Some(other) => {
            wrong(kind(other));
            Vec::new()
        }
    }
}

/// Returns the name of a value's type.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn among(entry: &Value) -> &'static str {
    match entry {
        Value::Null => "a list with null in it",
        Value::Bool(_) => "a list with a boolean in it",
        Value::Number(_) => "a list with a number in it",
        Value::String(_) => "a list with a text in it",
        Value::Array(_) => "a list with a list in it",
        Value::Object(_) => "a list with an object in it",
    }
}
