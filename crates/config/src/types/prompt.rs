//! Prompts that a project defines.

use serde_json::{Value as Json, json};

use crate::node::ValueNode;
use crate::problem::{ValueFault, quote};
use crate::shape::{TextLabel, ValueShape, one_of};
use crate::value::{ConfigValue, invalid, text};

/// The placeholders that a prompt may contain, in double braces.
pub const PLACEHOLDERS: [&str; 9] =
    ["task", "goal", "base", "ended", "files", "comments", "plan", "faults", "failed"];

/// Maximum length of a prompt.
const MAX_PROMPT: usize = 64 << 10;

/// A prompt whose placeholders, in double braces, are all known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt(String);

impl Prompt {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ConfigValue for Prompt {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "prompt", many: "prompts" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        if text.trim().is_empty() || text.len() > MAX_PROMPT {
            return Err(invalid(node, format!("expected 1 to {MAX_PROMPT} bytes of text")));
        }
        if let Some(unknown) = names(text).find(|name| !PLACEHOLDERS.contains(name)) {
            let expected = one_of(&PLACEHOLDERS);
            return Err(invalid(
                node,
                format!("unknown placeholder {}, expected {expected}", quote(unknown)),
            ));
        }
        // Without at least one of these placeholders, the agent would not know its task.
        if names(text).any(|name| matches!(name, "task" | "goal")) {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(node, "it contains neither {{task}} nor {{goal}}"))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

/// Returns the names found in double braces.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("{{").skip(1);
    parts.filter_map(|part| part.split_once("}}").map(|(name, _)| name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_placeholders_are_validated() {
        let read = |text: &str| Prompt::read(&ValueNode::written(text));
        assert!(read("Do {{ task }} since {{base}}, {not} a {{placeholder").is_ok());
        for bad in ["", "Do it.", "{{task}} {{tsak}}", "{{task}} {{}}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
