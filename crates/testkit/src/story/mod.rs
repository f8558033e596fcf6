//! Stories that the demo and tests play with real Codex: what the model says and does, and what is asked for.

pub mod dispatch;
pub mod shop;

/// A JSON string is a TOML string.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
