//! The configuration as a table: key, value, source, and hidden or added values.

use provost_config::Entry;
use serde_json::Value;

use super::{
    Fit, Paint, Screen, Table, Tone,
    text::{clean, clip},
};

/// The maximum width of a value.
const VALUE_WIDTH: usize = 60;

/// Shows every key with its value and source. Parts of a sum and hidden values follow, dimmed.
pub(crate) fn config_table(paint: Paint, screen: Screen, entries: &[Entry]) -> Vec<String> {
    let mut table = Table::new(&[("KEY", Fit::Whole), ("VALUE", Fit::Start), ("SOURCE", Fit::End)]);
    for entry in entries {
        let source = match entry.added.len() {
            0 => entry.source.to_string(),
            layers => format!("{layers} layers"),
        };
        let tone = if source == "default" { Tone::Dim } else { Tone::Plain };
        table.row([
            (Tone::Bold, clean(&entry.key)),
            (Tone::Plain, value(&entry.value)),
            (tone, clean(&source)),
        ]);
        let parts = entry.added.iter().map(|part| ("part", part));
        let below = parts.chain(entry.shadowed.iter().map(|hidden| ("hidden", hidden)));
        let untrusted = entry.untrusted.iter().map(|value| ("not trusted yet", value));
        let below = below.chain(untrusted);
        for (word, other) in below {
            table.row([
                (Tone::Dim, String::new()),
                (Tone::Dim, value(&other.value)),
                (Tone::Dim, clean(&format!("{word}: {}", other.source))),
            ]);
        }
    }
    table.lines(paint, screen)
}

fn value(value: &Value) -> String {
    let text = match value {
        Value::Null => "unset".to_owned(),
        Value::Bool(false) => "off".to_owned(),
        Value::Bool(true) => "on".to_owned(),
        other @ (Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    clip(&clean(&text), VALUE_WIDTH)
}
