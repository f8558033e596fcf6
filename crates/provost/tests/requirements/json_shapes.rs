//! The JSON shapes of results and errors, as programs see them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use provost_testkit::env::{HANGS, TestEnv};

/// Replaces every leaf by its type, so that only the stable shape remains.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => Value::Array(items.first().map(shape).into_iter().collect()),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.clone(), shape(value)))
                    .collect::<Map<_, _>>(),
            )
        }
    }
}

#[test]
fn result_shapes_are_stable() {
    let stage = TestEnv::new();
    let spawned =
        stage.home.provost(&["spawn", "--json", "--name", "shape", "--", "true"]).ok().json();
    insta::assert_json_snapshot!("spawn", shape(&spawned));
    let id = spawned["id"].as_str().unwrap();
    stage.home.wait_state(id, |row| row["sealed"] == true && row["activity"] == "exited");
    insta::assert_json_snapshot!("status", shape(&stage.status(id)));
    insta::assert_json_snapshot!(
        "status_why",
        shape(&stage.home.provost(&["status", id, "--why", "--json"]).ok().json())
    );
    insta::assert_json_snapshot!("ls", shape(&stage.home.provost(&["ls", "--json"]).ok().json()));
    insta::assert_json_snapshot!(
        "events",
        shape(&stage.home.provost(&["events", id, "--limit", "1", "--json"]).ok().json())
    );
    insta::assert_json_snapshot!(
        "daemon_status",
        shape(&stage.home.provost(&["daemon", "status", "--json"]).ok().json())
    );
    insta::assert_json_snapshot!(
        "report",
        shape(&stage.home.provost(&["report", "completed", "--session", id, "--json"]).ok().json())
    );
    insta::assert_json_snapshot!("gc", shape(&stage.home.provost(&["gc", "--json"]).ok().json()));
    insta::assert_json_snapshot!(
        "ledger_verify",
        shape(&stage.home.provost(&["ledger", "verify", "--json"]).ok().json())
    );
}

#[test]
fn error_is_one_object_with_code_message_next() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&id);
    let wrong: [(&[&str], i32, &str); 5] = [
        (&["status", "nobody"], 3, "not_found"),
        (&["send", &id, "hello"], 4, "refused"),
        (&["ls", "--state", "x"], 2, "bad_request"),
        (&["limit", &id, "--output", "1KiB"], 2, "bad_request"),
        (&["report", "completed", "--session", "nobody"], 3, "not_found"),
    ];
    for (arguments, exit, code) in wrong {
        let output = stage.home.provost(&[arguments, &["--json"]].concat());
        let value = output.assert_code(exit).json();
        assert_eq!(value["error"]["code"], code, "{arguments:?}");
        let next = value["error"]["next"].as_array().unwrap();
        assert!(!next.is_empty(), "{arguments:?} says nothing about what to do next: {value}");
        assert_eq!(shape(&value)["error"].as_object().unwrap().len(), 3, "{value}");
        assert_eq!(value["ok"], false);
        let people = stage.home.provost(arguments);
        assert!(people.assert_code(exit).stdout.is_empty() && !people.stderr.is_empty());
    }
}

#[test]
fn unstartable_daemon_is_named_in_the_error() {
    let stage = TestEnv::new();
    std::fs::write(stage.home.path().join("ledger"), "in the way").unwrap();
    let value = stage.home.provost(&["ls", "--json"]).assert_code(6).json();
    assert!(value["error"]["next"].is_array(), "{value}");
    assert!(value["error"]["message"].as_str().unwrap().contains("ledger"), "{value}");
}
