//! The ledger of a run, without the fields that differ between any two runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::crash_env::CrashEnv;

/// Fields with times, processes and paths, which differ between any two runs, disturbed or not. A
/// commit contains its date. `warm` shows whether a checkout existed before, as it does when the
/// next daemon starts a check that was about to start. An environment's digest depends on the
/// home's key, and only the daemon that started the check knows it. The number of leftover
/// processes in a tree is a race when all are killed together.
const VARYING: [&str; 16] = [
    "at",
    "base",
    "boot_id",
    "child",
    "commit",
    "cursor",
    "cwd",
    "duration_ms",
    "environment",
    "holder",
    "leftovers",
    "onto",
    "output",
    "spec",
    "warm",
    "work",
];

/// The events of each topic, in order.
///
/// Topics are compared separately, because concurrent events of different processes have no fixed
/// order. Hooks run in parallel with everything else. The kernel reports a process's exit and the
/// end of its output on different channels. The journal shows input to an agent interleaved with
/// the agent's output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NormalizedLedger(BTreeMap<String, Vec<String>>);

impl NormalizedLedger {
    pub(super) fn from_ledger(stage: &CrashEnv, id: &str) -> NormalizedLedger {
        let root = stage.home.root().display().to_string();
        let mut topics: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let all = stage.home.ledger_records();
        let names = id_placeholders(&all, id);
        for record in all {
            let kind = record["kind"].as_str().expect("a record has a kind");
            let data = normalize(&record["data"]);
            let actor = record["actor"].as_str().expect("a record has an actor");
            let event = format!("{kind} v{} by {actor}: {data}", record["v"]);
            if event.contains("stop.escalated") && event.contains("\"kill\"") {
                // At the end of the grace period, both the holder and the daemon request the kill,
                // in any order. The exit by signal 9 is compared instead.
                continue;
            }
            let stream = replace_ids(&record["stream"].to_string(), &names);
            let event = replace_ids(&event, &names).replace(&root, "ROOT");
            topics.entry(stream + &topic(kind, &data)).or_default().push(event);
        }
        NormalizedLedger(topics)
    }

    /// Asserts that both ledgers are equal, and shows the topics that differ.
    #[track_caller]
    pub(super) fn assert_equals(&self, expected: &NormalizedLedger, when: &str) {
        let topics: BTreeSet<&String> = self.0.keys().chain(expected.0.keys()).collect();
        for topic in topics {
            let (found, wanted) = (self.0.get(topic), expected.0.get(topic));
            assert_eq!(found, wanted, "{topic}: {when}: {found:#?} instead of {wanted:#?}");
        }
    }
}

/// Returns a placeholder for each id: a run's sessions have their own ids, and its branches contain a part of its id.
fn id_placeholders(all: &[Value], id: &str) -> Vec<(String, String)> {
    let opened = all.iter().filter(|record| record["kind"] == "run.session_opened");
    let sessions = opened.filter_map(|record| record["data"]["session"].as_str());
    let mut names: Vec<(String, String)> = sessions
        .zip(1..)
        .map(|(session, no)| (session.to_owned(), format!("SESSION{no}")))
        .collect();
    names.push((id.to_owned(), "ID".to_owned()));
    names.push((id[id.len() - 8..].to_owned(), "SHORT".to_owned()));
    names
}

fn replace_ids(text: &str, names: &[(String, String)]) -> String {
    names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
}

fn topic(kind: &str, data: &Value) -> String {
    let family = kind.split('.').next().unwrap_or_default();
    match family {
        "hook" => format!("hook {}", data["key"]),
        "run" if data["key"].is_object() => format!("hook {}", data["key"]),
        "run" if kind == "run.report_written" => "summary".to_owned(),
        "message" | "rework" | "result" => format!("message {}", data["key"]),
        "stream" | "turn" | "claim" | "progress" | "usage" | "request" | "output" => {
            "stream".to_owned()
        }
        "process" | "tree" | "launch" | "stop" => "process".to_owned(),
        _ => "work".to_owned(),
    }
}

fn normalize(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !VARYING.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), normalize(value))).collect())
        }
        Value::Array(items) => items.iter().map(normalize).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
