//! The JSON Schemas of plans and plan reviews, for agents.

use serde_json::{Value, json};

use super::{
    graph::Plan,
    review::{PlanReview, PlanVerdict},
};

impl Plan {
    /// Returns the schema of a plan.
    pub fn schema() -> Value {
        object(&[("tasks", list(&task()))])
    }
}

impl PlanReview {
    /// Returns the schema of a plan review.
    pub fn schema() -> Value {
        let verdicts = PlanVerdict::ALL.map(PlanVerdict::word);
        object(&[
            ("verdict", json!({"type": "string", "enum": verdicts})),
            ("reason", text()),
            ("edits", list(&json!({"anyOf": edits()}))),
        ])
    }
}

fn task() -> Value {
    object(&[
        ("id", told(text(), "1 to 40 of a-z, 0-9 and -, unique in the plan")),
        ("title", told(text(), "one line")),
        ("instruction", told(text(), "everything that the agent of this task needs to know")),
        ("after", told(list(&text()), "ids of the tasks whose work this one builds on")),
        ("criteria", told(list(&text()), "what must hold at its end")),
        ("checks", told(list(&text()), "shell commands that must succeed on its work")),
        ("scope", told(list(&text()), "paths or patterns of the files that it will touch")),
    ])
}

fn edits() -> [Value; 5] {
    let texts = || json!({"type": ["array", "null"], "items": text()});
    let maybe = || json!({"type": ["string", "null"]});
    [
        edit("add", &[("task", task())]),
        edit("remove", &[("id", text())]),
        edit(
            "change",
            &[
                ("id", text()),
                ("title", maybe()),
                ("instruction", maybe()),
                ("criteria", texts()),
                ("checks", texts()),
                ("scope", texts()),
            ],
        ),
        edit("depend", &[("id", text()), ("on", text())]),
        edit("release", &[("id", text()), ("on", text())]),
    ]
}

fn edit(op: &str, fields: &[(&str, Value)]) -> Value {
    let op = ("op", json!({"type": "string", "enum": [op]}));
    object(&[&[op], fields].concat())
}

fn text() -> Value {
    json!({"type": "string"})
}

fn told(mut form: Value, description: &str) -> Value {
    form["description"] = Value::from(description);
    form
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Returns an object schema. Every property is required, because structured output accepts nothing
/// else.
fn object(properties: &[(&str, Value)]) -> Value {
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
