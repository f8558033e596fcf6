//! The program's JSON output matches docs/schemas, field by field.

use std::{fs, path::Path};

use serde_json::Value;

use provost_testkit::env::{TALKER, TestEnv};

#[test]
fn results_match_their_schemas() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker(
        "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n[[step]]\nwrite = { path = \"a\", content = \"a\" }\n[[step]]\nemit = { type = \"progress\", done = 1, total = 2 }\n[[step]]\nemit = { type = \"fact\", fact = \"pr\", value = \"7\" }\n[[step]]\nemit = { type = \"request\", id = \"q\", kind = \"question\", blocking = true, title = \"?\", questions = [ { id = \"k\", options = [ { label = \"x\" } ] } ] }\n[[step]]\nhang = true\n",
        "session.stop_grace = \"100ms\"",
    );
    let asks =
        stage.spawn_in(repo.path(), &["--agent", TALKER, "--worktree", "--check", "true", "go"]);
    stage.wait(&asks, "needs_input");
    let ended =
        stage.spawn_in(repo.path(), &["--check", "true", "--allow-empty-diff", "--", "true"]);
    stage.wait_sealed(&ended);
    let report =
        stage.home.provost(&["report", "failed", "--session", &ended, "--json"]).ok().json();
    assert_conforms("report-reply", &report);
    for id in [&asks, &ended] {
        let row = stage.home.provost(&["ls", "--json"]).ok().json()["sessions"].clone();
        row.as_array().unwrap().iter().for_each(|row| assert_conforms("session", row));
        assert_conforms(
            "why",
            &without_next(stage.home.provost(&["status", id, "--why", "--json"]).ok().json()),
        );
        stage.events(id).iter().for_each(|event| assert_conforms("event", event));
    }
    let arguments = ["run", "--json", "--detach", "--agent", TALKER, "--no-triage"];
    let arguments = [&arguments[..], &["--review-task", "off", "--check", "true", "go"]].concat();
    let run = stage.home.provost_in(repo.path(), &arguments).ok().json()["id"].clone();
    let run = run.as_str().unwrap();
    stage.home.wait_state(run, |row| row["requests"][0].is_object());
    stage.home.provost(&["cancel", run]).ok();
    stage.home.wait_state(run, |row| row["sealed"] == true);
    let listed = stage.home.provost(&["ls", "--json"]).ok().json();
    assert_conforms("run", &listed["runs"][0]);
    assert_conforms(
        "daemon-info",
        &without_next(stage.home.provost(&["daemon", "status", "--json"]).ok().json()),
    );
    assert_conforms(
        "error",
        &stage.home.provost(&["status", "nobody", "--json"]).assert_code(3).json(),
    );
}

/// Removes `next`, because every result may suggest next commands, and the schema does not include
/// them.
pub(crate) fn without_next(mut value: Value) -> Value {
    value.as_object_mut().unwrap().remove("next");
    value
}

#[track_caller]
pub(crate) fn assert_conforms(name: &str, value: &Value) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schemas/{name}.json"));
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    check_value(&schema, &schema, value, name, &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}\nin {value:#}");
}

/// Checks the features that Provost's schemas use: types, enum values, required fields, and that
/// every field is documented.
fn check_value(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(pointer) = schema["$ref"].as_str() {
        let target = root.pointer(pointer.trim_start_matches('#')).unwrap();
        return check_value(root, target, value, at, wrong);
    }
    if let Some(choices) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let fits = |choice: &Value| {
            let mut found = Vec::new();
            check_value(root, choice, value, at, &mut found);
            found.is_empty()
        };
        if !choices.iter().any(fits) {
            wrong.push(format!("{at} fits none of {} choices: {value}", choices.len()));
        }
        return;
    }
    if !is_of_type(&schema["type"], value) || !is_in_enum(schema, value) {
        wrong.push(format!("{at} is {value}, not as in {schema}"));
    }
    check_fields(root, schema, value, at, wrong);
    for (no, item) in value.as_array().into_iter().flatten().enumerate() {
        check_value(root, &schema["items"], item, &format!("{at}[{no}]"), wrong);
    }
}

fn check_fields(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let (Some(fields), Some(declared)) = (value.as_object(), schema["properties"].as_object())
    else {
        return;
    };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|name| !fields.contains_key(*name));
    wrong.extend(missing.map(|name| format!("{at}.{name} is missing")));
    for (name, field) in fields {
        match declared.get(name) {
            Some(schema) => check_value(root, schema, field, &format!("{at}.{name}"), wrong),
            None => wrong.push(format!("{at}.{name} is not documented")),
        }
    }
}

/// Whether a value has one of these types. A schema without a type accepts every value.
fn is_of_type(types: &Value, value: &Value) -> bool {
    let several = types.as_array().map(Vec::as_slice).unwrap_or(std::slice::from_ref(types));
    let named = |word: &Value| word.as_str().is_some_and(|word| json_types(value).contains(&word));
    types.is_null() || several.iter().any(named)
}

fn is_in_enum(schema: &Value, value: &Value) -> bool {
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    constant && schema["enum"].as_array().is_none_or(|words| words.contains(value))
}

fn json_types(value: &Value) -> &'static [&'static str] {
    match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_f64() => &["number"],
        Value::Number(_) => &["integer", "number"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    }
}
