//! Stories that the demo and tests play with real Codex: the model's script, the files and the goal.

pub mod dispatch;
pub mod shop;

/// Quotes a text for TOML. A JSON string is a valid TOML string.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
