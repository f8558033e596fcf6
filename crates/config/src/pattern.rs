//! Matches dotted paths against keys.

use crate::agent_section::has_section;
use crate::key::{ConfigKey, keys};
use crate::types::{name_fault_of, variable_name_fault};

/// Whether a path matches a pattern, and how.
#[derive(Debug)]
pub(crate) enum PathMatch {
    Key(&'static ConfigKey),
    /// The path is a prefix of one or more keys.
    Table,
    Unknown,
}

/// Finds the key or table at a path.
pub(crate) fn find(path: &[String]) -> PathMatch {
    let mut matched = PathMatch::Unknown;
    for key in keys().filter(|key| has_prefix(key, path)) {
        if key.segments().count() == path.len() {
            return PathMatch::Key(key);
        }
        matched = PathMatch::Table;
    }
    matched
}

/// Whether the path is a prefix of the key, or the whole key.
fn has_prefix(key: &ConfigKey, path: &[String]) -> bool {
    let segments: Vec<&str> = key.segments().collect();
    let general = matches!(segments.as_slice(), ["agents", "*", ..]);
    let own = general && path.get(1).is_some_and(|name| has_section(name));
    !own && path.len() <= segments.len()
        && path.iter().zip(segments).all(|(part, segment)| segment == "*" || segment == part)
}

/// Returns what is wrong with the last part of a path, if this part is a name that the user chose.
pub(crate) fn name_fault(path: &[String]) -> Option<String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["agents", name] => name_fault_of("an agent's", name),
        ["reactions", name] => name_fault_of("a reaction's", name),
        ["verifiers", name] => name_fault_of("a verifier's", name),
        ["workflows", name] => name_fault_of("a workflow's", name),
        ["loops", name] => name_fault_of("a loop's", name),
        ["loops", _, "evidence", name] => name_fault_of("evidence's", name),
        ["policies", name] => name_fault_of("a policy's", name),
        ["presets", name] => name_fault_of("a preset's", name),
        ["agents", _, "env", name] => variable_name_fault(name),
        _ => None,
    }
}

/// If the path is a key that only configured agents have, returns why it does not apply to an agent
/// that has its own section.
pub(crate) fn built_in_fault(path: &[String]) -> Option<String> {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["agents", agent, "command" | "adapter", ..] if has_section(agent) => Some(format!(
            "the agent {agent:?} is built in; set \"agents.{agent}.path\" to use a program other than the newest one found"
        )),
        _ => None,
    }
}

/// Returns the names that may come directly below a path, except for user-chosen ones.
pub(crate) fn children(path: &[String]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in
        keys().filter(|key| has_prefix(key, path)).filter_map(|key| key.segments().nth(path.len()))
    {
        if name != "*" && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns every key and table whose last name is fixed. Stars before that name are replaced by the
/// names in `path`.
pub(crate) fn candidates(path: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for key in keys() {
        let segments: Vec<&str> = key.segments().collect();
        let lengths = (1..=segments.len()).filter(|length| segments[length - 1] != "*");
        found.extend(lengths.filter_map(|length| instantiate(&segments[..length], path)));
    }
    found.dedup();
    found
}

fn instantiate(segments: &[&str], path: &[String]) -> Option<String> {
    if let ["agents", "*", ..] = segments
        && path.get(1).is_some_and(|name| has_section(name))
    {
        return None;
    }
    let parts = segments.iter().enumerate().map(|(index, segment)| match *segment {
        "*" => path.get(index).map(String::as_str),
        fixed => Some(fixed),
    });
    parts.collect::<Option<Vec<_>>>().map(|parts| parts.join("."))
}
