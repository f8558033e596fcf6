//! The JSON Schema of `provost.toml`, for editors.

use serde_json::{Map, Value as Json, json};

use crate::agent_section::agent_sections;
use crate::document::CONFIG_VERSION;
use crate::key::{ConfigKey, Fallback, keys, sections};
use crate::preset;
use crate::shape::{ValueLimits, ValueShape};
use crate::table::{EVENT_KEYS, OUTPUT, TIME};

/// Builds the schema from the table.
pub fn schema() -> Json {
    let mut root = table("Configuration of Provost.");
    for key in keys() {
        insert(&mut root, &key.segments().collect::<Vec<_>>(), key);
    }
    for key in EVENT_KEYS {
        let quoted = key.name.trim_start_matches("hooks.");
        insert(&mut root, &["hooks", quoted], key);
    }
    describe_sections(&mut root);
    root["properties"]["version"] = json!({
        "const": CONFIG_VERSION,
        "description": "The version of the file's format.",
    });
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("provost.toml");
    root
}

fn table(description: &str) -> Json {
    json!({"type": "object", "description": description, "additionalProperties": false})
}

/// Inserts the schema of a key at its path, creating tables as needed.
fn insert(at: &mut Json, path: &[&str], key: &ConfigKey) {
    match path {
        [] => {}
        [leaf] => *child(at, leaf) = key_schema(key),
        [first, rest @ ..] => {
            let below = child(at, first);
            if below.is_null() {
                *below = table("");
            }
            insert(below, rest, key);
        }
    }
}

/// Returns the schema for a name in a table. A star matches every name.
fn child<'a>(at: &'a mut Json, name: &str) -> &'a mut Json {
    if name != "*" {
        return &mut at["properties"][name];
    }
    let any = &mut at["additionalProperties"];
    if any.is_boolean() {
        *any = Json::Null;
    }
    any
}

fn describe_sections(root: &mut Json) {
    for (prefix, doc) in sections() {
        let named = prefix.strip_suffix(".*").unwrap_or(prefix).split('.');
        let section = named.fold(&mut *root, |at, name| child(at, name));
        section["description"] = json!(doc.trim());
    }
    for key in keys().filter(|key| key.fallback == Fallback::Required) {
        let segments: Vec<&str> = key.segments().collect();
        mark_required(root, &segments);
    }
    let hooks = &mut root["properties"]["hooks"]["properties"];
    hooks["session"]["description"] = json!("Hooks on sessions.");
    hooks["run"]["description"] = json!("Hooks on runs.");
    let presets = &mut root["properties"]["presets"];
    presets["description"] = json!("Named sets of keys, for `provost run --preset NAME`.");
    let preset = &mut presets["additionalProperties"];
    preset["description"] = json!("A preset.");
    for (prefix, doc) in sections().filter(|(prefix, _)| preset::sets_keys_in(prefix)) {
        let section = prefix.split('.').fold(&mut *preset, |at, name| child(at, name));
        section["description"] = json!(doc.trim());
    }
    child(preset, "agents")["description"] = json!("Keys of agents.");
    let agents = &mut root["properties"]["agents"];
    agents["additionalProperties"]["description"] = json!("An agent.");
    let own = agent_sections().iter().map(|section| section.name);
    for agent in own.chain(["*"]) {
        let env = child(child(agents, agent), "env");
        if !env.is_null() {
            env["description"] = json!("Variables of the agent's environment.");
        }
    }
    for (section, one) in [
        ("reactions", "A reaction."),
        ("verifiers", "A verifier."),
        ("workflows", "A workflow."),
        ("loops", "A loop."),
        ("policies", "A rule-based manager."),
    ] {
        child(&mut root["properties"][section], "*")["description"] = json!(one);
    }
    let looped = child(&mut root["properties"]["loops"], "*");
    child(looped, "evidence")["description"] =
        json!("The evidence that each iteration requires, by name.");
}

/// Marks a key as required in its description. The schema cannot enforce that the key is set, because another layer may
/// set the key.
fn mark_required(root: &mut Json, segments: &[&str]) {
    let mut at = root;
    for segment in segments {
        at = child(at, segment);
    }
    let text = at["description"].as_str().unwrap_or_default();
    at["description"] = json!(format!("{text} Required, in one of the files."));
}

fn key_schema(key: &ConfigKey) -> Json {
    let mut schema = shape_schema(&(key.shape)(), key.limits);
    schema["description"] = json!(key.description());
    if let Some(default) = key.default_value() {
        schema["default"] = default;
    }
    schema
}

fn shape_schema(shape: &ValueShape, limits: ValueLimits) -> Json {
    match shape {
        ValueShape::Switch => json!({"type": "boolean"}),
        ValueShape::Duration => duration(limits),
        ValueShape::Size => size(limits),
        ValueShape::Count => {
            json!({"type": "integer", "minimum": limits.min, "maximum": limits.max})
        }
        ValueShape::Tokens => tokens(limits),
        ValueShape::Price => price(),
        ValueShape::Word(words) => json!({"enum": words}),
        ValueShape::Text(_) => json!({"type": "string"}),
        ValueShape::Command => json!({"anyOf": [{"type": "string", "minLength": 1}, argv()]}),
        ValueShape::Argv => argv(),
        ValueShape::Hook => hook(),
        ValueShape::List(inner) => {
            json!({"type": "array", "items": shape_schema(inner, ValueLimits::NONE)})
        }
        ValueShape::OrOff(inner) => {
            json!({"anyOf": [shape_schema(inner, limits), {"enum": [false, "off"]}]})
        }
    }
}

fn duration(limits: ValueLimits) -> Json {
    let text = json!({"type": "string", "pattern": r"^([0-9]+|([0-9]+(d|h|m|s|ms))+)$"});
    let seconds = json!({"type": "integer", "minimum": limits.min.div_ceil(1000), "maximum": limits.max / 1000});
    json!({"anyOf": [text, seconds]})
}

fn size(limits: ValueLimits) -> Json {
    let text = json!({"type": "string", "pattern": r"^[0-9]+(B|[KMGT]i?B)?$"});
    json!({"anyOf": [text, {"type": "integer", "minimum": limits.min, "maximum": limits.max}]})
}

fn tokens(limits: ValueLimits) -> Json {
    let text = json!({"type": "string", "pattern": r"^[0-9]+[kMG]?$"});
    json!({"anyOf": [text, {"type": "integer", "minimum": limits.min, "maximum": limits.max}]})
}

fn price() -> Json {
    let text = json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,6})?$"});
    json!({"anyOf": [text, {"type": "number", "minimum": 0}]})
}

fn argv() -> Json {
    json!({"type": "array", "items": {"type": "string"}, "minItems": 1})
}

fn hook() -> Json {
    let mut fields = Map::new();
    fields.insert("command".into(), shape_schema(&ValueShape::Command, ValueLimits::NONE));
    fields.insert("time_limit".into(), duration(TIME));
    fields.insert("output_limit".into(), size(OUTPUT));
    let full = json!({
        "type": "object", "properties": fields, "required": ["command"], "additionalProperties": false,
    });
    json!({"anyOf": [shape_schema(&ValueShape::Command, ValueLimits::NONE), full]})
}
