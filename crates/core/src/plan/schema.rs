//! The JSON Schemas of plans and plan reviews, for agents.

use serde_json::{Value, json};

use super::{
    graph::Plan,
    review::{PlanReview, PlanVerdict},
};

impl Plan {
    /// Returns the schema of a plan.
    pub fn schema() -> Value {
        object_schema(&[("tasks", list_schema(&task_schema()))])
    }
}

impl PlanReview {
    /// Returns the schema of a plan review.
    pub fn schema() -> Value {
        let verdicts = PlanVerdict::ALL.map(PlanVerdict::as_str);
        object_schema(&[
            ("verdict", json!({"type": "string", "enum": verdicts})),
            ("reason", text_schema()),
            ("edits", list_schema(&json!({"anyOf": edit_schemas()}))),
        ])
    }
}

fn task_schema() -> Value {
    object_schema(&[
        ("id", describe(text_schema(), "1 to 40 of a-z, 0-9 and -, unique in the plan")),
        ("title", describe(text_schema(), "one line")),
        (
            "instruction",
            describe(text_schema(), "everything that the agent of this task needs to know"),
        ),
        (
            "after",
            describe(list_schema(&text_schema()), "ids of the tasks whose work this one builds on"),
        ),
        ("criteria", describe(list_schema(&text_schema()), "what must hold when the task is done")),
        (
            "checks",
            describe(
                list_schema(&text_schema()),
                "shell commands that must succeed on the work of this task",
            ),
        ),
        (
            "scope",
            describe(
                list_schema(&text_schema()),
                "paths or patterns of the files that it will touch",
            ),
        ),
    ])
}

fn edit_schemas() -> [Value; 5] {
    let texts = || json!({"type": ["array", "null"], "items": text_schema()});
    let maybe = || json!({"type": ["string", "null"]});
    [
        edit_schema("add", &[("task", task_schema())]),
        edit_schema("remove", &[("id", text_schema())]),
        edit_schema(
            "change",
            &[
                ("id", text_schema()),
                ("title", maybe()),
                ("instruction", maybe()),
                ("criteria", texts()),
                ("checks", texts()),
                ("scope", texts()),
            ],
        ),
        edit_schema("depend", &[("id", text_schema()), ("on", text_schema())]),
        edit_schema("release", &[("id", text_schema()), ("on", text_schema())]),
    ]
}

fn edit_schema(op: &str, fields: &[(&str, Value)]) -> Value {
    let op = ("op", json!({"type": "string", "enum": [op]}));
    object_schema(&[&[op], fields].concat())
}

fn text_schema() -> Value {
    json!({"type": "string"})
}

fn describe(mut form: Value, description: &str) -> Value {
    form["description"] = Value::from(description);
    form
}

fn list_schema(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Returns the schema of an object. Every property is required, because structured output does not
/// support optional properties.
fn object_schema(properties: &[(&str, Value)]) -> Value {
    let required: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        properties.iter().map(|(name, form)| ((*name).to_owned(), form.clone())).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}
