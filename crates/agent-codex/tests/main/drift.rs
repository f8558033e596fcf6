//! Compares the schema expectations with the schemas of installed versions.

use std::{fs, path::Path, process::Command};

use provost_agent_codex::protocol::{
    CodexVersion, SCHEMA_EXPECTATIONS, SchemaExpectation, SchemaLocation,
};
use serde_json::Value;

use super::live::codex;

#[test]
fn pinned_version_meets_expectations() {
    assert_eq!(missing_in("PROVOST_CODEX_FOR_TESTS"), [""; 0]);
}

#[test]
fn oldest_version_meets_expectations() {
    assert_eq!(missing_in("PROVOST_CODEX_OLD_FOR_TESTS"), [""; 0]);
}

#[test]
fn missing_expectation_is_detected() {
    let schema: Value = serde_json::from_str(
        r##"{"oneOf": [{"properties": {"method": {"enum": ["m"]}, "params": {"$ref": "#/definitions/P"}}}],
            "definitions": {"P": {"properties": {"a": {"anyOf": [{"$ref": "#/definitions/Q"}]}}},
                            "Q": {"properties": {"b": {"items": {"properties": {"c": {}}}}}}}}"##,
    )
    .unwrap();
    let params = message(&schema, "m").unwrap();
    assert!(message(&schema, "n").is_none());
    assert!(has_field(&schema, params, "a.b[].c"));
    assert!(!has_field(&schema, params, "a.b[].d"));
    assert!(!has_field(&schema, params, "a.c"));
}

/// Returns every missing expectation. Nothing is checked if Codex is not installed.
fn missing_in(variable: &str) -> Vec<String> {
    let Some(codex) = codex(variable) else { return Vec::new() };
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let out = home.path().join("schema");
    let run = |args: &[&str]| {
        let output =
            Command::new(&codex).args(args).env("CODEX_HOME", home.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = version(&run(&["--version"]));
    let out_text = out.to_str().unwrap();
    run(&["app-server", "generate-json-schema", "--experimental", "--out", out_text]);
    let due =
        SCHEMA_EXPECTATIONS.iter().filter(|need| need.since.is_none_or(|since| since <= version));
    due.flat_map(|need| missing_fields(&out, need)).collect()
}

fn version(output: &str) -> CodexVersion {
    let number = output.split_whitespace().last().unwrap();
    let parts: Vec<u32> = number.split('.').map(|part| part.parse().unwrap()).collect();
    CodexVersion(parts[0], parts[1], parts[2])
}

fn missing_fields(out: &Path, need: &SchemaExpectation) -> Vec<String> {
    let file = match need.location {
        SchemaLocation::ClientRequest => "ClientRequest.json",
        SchemaLocation::ServerRequest => "ServerRequest.json",
        SchemaLocation::ServerNotification | SchemaLocation::Item => "ServerNotification.json",
    };
    let schema: Value = serde_json::from_slice(&fs::read(out.join(file)).unwrap()).unwrap();
    let found = match need.location {
        SchemaLocation::Item => item(&schema, need.name),
        SchemaLocation::ClientRequest
        | SchemaLocation::ServerRequest
        | SchemaLocation::ServerNotification => message(&schema, need.name),
    };
    let Some(found) = found else { return vec![need.name.to_owned()] };
    let missing = need.fields.iter().filter(|field| !has_field(&schema, found, field));
    missing.map(|field| format!("{}: {field}", need.name)).collect()
}

fn message<'a>(schema: &'a Value, method: &str) -> Option<&'a Value> {
    let named = |message: &&Value| message["properties"]["method"]["enum"][0] == method;
    schema["oneOf"].as_array()?.iter().find(named).map(|message| &message["properties"]["params"])
}

fn item<'a>(schema: &'a Value, kind: &str) -> Option<&'a Value> {
    let items = schema["definitions"]["ThreadItem"]["oneOf"].as_array()?;
    items.iter().find(|item| item["properties"]["type"]["enum"][0] == kind)
}

/// Whether a schema has a field, in any of its combined schemas.
fn has_field(schema: &Value, at: &Value, field: &str) -> bool {
    let (first, rest) = field.split_once('.').map_or((field, None), |(a, b)| (a, Some(b)));
    let (name, each) = match first.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (first, false),
    };
    let inner = |found: &Value| match rest {
        None => true,
        Some(rest) => has_field(schema, found, rest),
    };
    alternatives(schema, at).iter().any(|form| {
        let Some(found) = form["properties"].get(name) else { return false };
        if each {
            alternatives(schema, found).iter().any(|list| list.get("items").is_some_and(inner))
        } else {
            inner(found)
        }
    })
}

/// Returns all alternatives of a schema.
fn alternatives<'a>(schema: &'a Value, at: &'a Value) -> Vec<&'a Value> {
    if let Some(name) = at["$ref"].as_str() {
        let named = name.rsplit('/').next().unwrap();
        return alternatives(schema, &schema["definitions"][named]);
    }
    let parts =
        ["anyOf", "allOf", "oneOf"].into_iter().filter_map(|key| at[key].as_array()).flatten();
    std::iter::once(at).chain(parts.flat_map(|part| alternatives(schema, part))).collect()
}
