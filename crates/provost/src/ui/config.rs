//! Shows the configuration as a table of keys, values and sources, including overridden and added values.

use provost_config::ConfigEntry;
use serde_json::Value;

use super::{
    ColumnFit, Paint, Screen, Table, Tone,
    text::{clip, escape_line},
};

/// The maximum width of a value, in columns.
const VALUE_WIDTH: usize = 60;

/// Shows every key with its value and source. The parts of accumulated lists and overridden values
/// follow in dim text.
pub(crate) fn config_table(paint: Paint, screen: Screen, entries: &[ConfigEntry]) -> Vec<String> {
    let mut table = Table::new(&[
        ("KEY", ColumnFit::Whole),
        ("VALUE", ColumnFit::Start),
        ("SOURCE", ColumnFit::End),
    ]);
    for entry in entries {
        let source = match entry.added.len() {
            0 => entry.source.to_string(),
            layers => format!("{layers} layers"),
        };
        let tone = if source == "default" { Tone::Dim } else { Tone::Plain };
        table.row([
            (Tone::Bold, escape_line(&entry.key)),
            (Tone::Plain, value(&entry.value)),
            (tone, escape_line(&source)),
        ]);
        let parts = entry.added.iter().map(|part| ("part", part));
        let below = parts.chain(entry.shadowed.iter().map(|hidden| ("hidden", hidden)));
        let untrusted = entry.untrusted.iter().map(|value| ("not trusted yet", value));
        let below = below.chain(untrusted);
        for (word, other) in below {
            table.row([
                (Tone::Dim, String::new()),
                (Tone::Dim, value(&other.value)),
                (Tone::Dim, escape_line(&format!("{word}: {}", other.source))),
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
    clip(&escape_line(&text), VALUE_WIDTH)
}
