//! Reads what agents and files say, strictly: what is not in the form is a fault, and all faults are told at once.

use serde_json::{Map, Value};

use super::{
    fault::{Fault, Place, clipped},
    graph, task,
    task::{PlanTask, TaskId},
};

const PLAN_FIELDS: &str = "tasks";
const TASK_FIELDS: &str = "id, title, instruction, after, criteria, checks and scope";

/// Reads the tasks of a plan. Those whose id can be read are given even if something else is wrong with
/// them, so that nothing is said to be missing that is only at fault.
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

/// Reads a task. Its id is a better name of it than the place where it was found.
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
    // Absent texts are told already, so only those that are there are looked at.
    if fields.get("title").is_some_and(Value::is_string) {
        task::title(&place, title, faults);
    }
    if fields.get("instruction").is_some_and(Value::is_string) {
        task::instruction(&place, instruction, faults);
    }
    let (title, instruction) = (title.to_owned(), instruction.to_owned());
    Some(PlanTask { id: id?, title, instruction, after, criteria, checks, scope })
}

/// Takes an object for its fields.
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

/// Refuses every field that is not in the form: nobody sets a state by the way.
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

/// Takes a text that has to be there.
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

/// Takes a list of texts; one that is not there is empty.
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

/// Says what a value is.
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
