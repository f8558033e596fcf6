//! Replaces the values that differ between test runs by fixed values of the same width, so that columns stay aligned.

use std::collections::HashMap;

use regex::{Captures, Regex};
use serde_json::Value;

/// The time that replaces every timestamp.
const EPOCH_MS: i64 = 1_700_000_000_000;
/// Numbers from here on are timestamps in milliseconds.
const MIN_TIMESTAMP_MS: i64 = 1_600_000_000_000;
/// Table headings above ages and durations.
const AGE_HEADINGS: [&str; 3] = ["SINCE", "AGE", "TOOK"];
/// JSON fields whose numbers depend on the machine or the moment.
const VOLATILE_FIELDS: [&str; 17] = [
    "pid",
    "holder_pid",
    "duration_ms",
    "elapsed_ms",
    "age_ms",
    "took_ms",
    "waited_ms",
    "uptime_ms",
    "bytes",
    "size",
    "free_bytes",
    "mtime_ms",
    "starttime",
    "inode",
    "until_ms",
    "p50",
    "p95",
];

/// Numbers the ids of one test in the order in which they appear.
pub(crate) struct Redactor {
    paths: Vec<(String, &'static str)>,
    rules: Vec<(Regex, &'static str)>,
    uuid: Regex,
    short_id: Regex,
    hash: Regex,
    ids: HashMap<String, usize>,
    hashes: HashMap<String, usize>,
}

impl Redactor {
    /// `paths` are directories of this test run and the names that replace them, the longest first.
    pub(crate) fn new(paths: Vec<(String, &'static str)>) -> Self {
        let rule = |pattern: &str, with| (Regex::new(pattern).unwrap(), with);
        Redactor {
            paths,
            rules: vec![
                rule(r"\b20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\d", "2026-01-01${1}00:00:00"),
                rule(r"\b(00:00:00)\.\d+", "$1.000"),
                rule(r"\b20\d\d-\d\d-\d\d\b", "2026-01-01"),
                rule(r"\b[012]\d:[0-5]\d:[0-5]\d(\.\d+)?\b", "00:00:00"),
                rule(r"last\s+(just\s+now|\d+s\s+ago)", "last 0s ago"),
                rule(r"\b(just\s+now|\d+s\s+ago)", "0s ago"),
                rule(r"(· |, )for \d+s\b", "${1}for 0s"),
                rule(r"time: \d+ min \d+ s", "time: 0 min 0 s"),
                rule(r"\b\d\d-\d\d 00:00:00", "01-01 00:00:00"),
                rule(r"\.unfinished-\d+", ".unfinished-0"),
                // The number's width depends on the machine's uptime, and so does the point where a line is cut.
                rule(r#""until_ms":\d+.*…"#, "\"until_ms\":0…"),
                rule(r#""until_ms":\d+"#, "\"until_ms\":0"),
                rule(r"boot tick \d+", "boot tick 0"),
                rule(r"\b(pid|process)( +)\d+", "${1}${2}0"),
                rule(r"\b1[6-9]\d{11}\b", "1700000000000"),
                rule(r"\b\d+(\.\d+)? ?ms\b", "0ms"),
                rule(concat!(r"\b", env!("CARGO_PKG_VERSION"), r"\b"), "0.0.0"),
            ],
            uuid: Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
                .unwrap(),
            short_id: Regex::new(r"\b[0-9a-f]{8}\b").unwrap(),
            hash: Regex::new(
                r"\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{12}|[0-9a-f]{10})\b",
            )
            .unwrap(),
            ids: HashMap::new(),
            hashes: HashMap::new(),
        }
    }

    /// Redacts a JSON document and formats it with one field per line.
    pub(crate) fn json(&mut self, mut value: Value) -> String {
        redact_numbers(&mut value);
        let text = serde_json::to_string_pretty(&value).unwrap();
        self.text(&text)
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.replace('\r', "");
        for (path, name) in &self.paths {
            text = text.replace(path, name);
        }
        let ids = &mut self.ids;
        let mut number = |id: &str| {
            let next = ids.len() + 1;
            *ids.entry(id.to_owned()).or_insert(next)
        };
        // The short id is the end of the long one.
        let text = self.uuid.replace_all(&text, |found: &Captures<'_>| {
            let no = number(&found[0][28..]);
            format!("00000000-0000-7000-8000-0000{no:08}")
        });
        let whole = text.clone();
        let text = self.short_id.replace_all(&text, |found: &Captures<'_>| {
            let id = &found[0];
            // A number in JSON is not an id.
            let before = &whole[..found.get(0).unwrap().start()];
            if id.starts_with("0000") || (is_number(id) && before.trim_end().ends_with("\":")) {
                return id.to_owned();
            }
            format!("{:08}", number(id))
        });
        let hashes = &mut self.hashes;
        let text = self.hash.replace_all(&text, |found: &Captures<'_>| {
            let hash = &found[0];
            if is_number(hash) {
                return hash.to_owned();
            }
            let next = hashes.len() + 1;
            // A prefix of a hash gets the same number.
            let no = *hashes.entry(hash[..10].to_owned()).or_insert(next);
            format!("{:c<width$}", format!("{no:02}"), width = hash.len())
        });
        let mut text = redact_age_columns(&text);
        for (pattern, with) in &self.rules {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn redact_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact_numbers),
        Value::Object(fields) => {
            for (name, field) in fields {
                if field.is_number() && VOLATILE_FIELDS.contains(&name.as_str()) {
                    *field = 0.into();
                }
                redact_numbers(field);
            }
        }
        Value::Number(number) if number.as_i64().is_some_and(|ms| ms > MIN_TIMESTAMP_MS) => {
            *value = EPOCH_MS.into();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces the cells below a heading such as `SINCE` until the table ends.
fn redact_age_columns(text: &str) -> String {
    let mut column = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let heading = AGE_HEADINGS.iter().find_map(|heading| {
            let is_heading = line.split_whitespace().any(|word| word == *heading);
            is_heading.then(|| line.find(heading)).flatten().map(|at| line[..at].chars().count())
        });
        if heading.is_some() {
            column = heading;
        } else if line.trim().is_empty() {
            column = None;
        } else if let Some(at) = column {
            lines.push(redact_cell(line, at));
            continue;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n")
}

fn redact_cell(line: &str, at: usize) -> String {
    let before: String = line.chars().take(at).collect();
    let rest: String = line.chars().skip(at).collect();
    let cell = rest.split(' ').next().unwrap_or_default();
    let is_age = cell == "now" || cell.starts_with(|first: char| first.is_ascii_digit());
    if !is_age || !before.ends_with(' ') {
        return line.to_owned();
    }
    let after = &rest[cell.len()..];
    let blanks = after.len() - after.trim_start().len();
    let room = cell.len() + blanks;
    format!("{before}{:<room$}{}", "0s", after.trim_start())
}

#[test]
fn ages_in_tables_keep_the_columns() {
    let table = "ID  SINCE  NOTE\na   now    well\nb   12s    done\n\n12s\n";
    assert_eq!(
        redact_age_columns(table),
        "ID  SINCE  NOTE\na   0s     well\nb   0s     done\n\n12s"
    );
}

#[test]
fn short_id_has_the_number_of_its_long_id() {
    let mut redactor = Redactor::new(Vec::new());
    let text = "01a1ed0e-e084-7642-8164-0a62b4f76ed6 e82e3c39 b4f76ed6 just now";
    assert_eq!(
        redactor.text(text),
        "00000000-0000-7000-8000-000000000001 00000002 00000001 0s ago"
    );
}
