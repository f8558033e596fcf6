//! Short texts that are passed on unchanged, and file paths on this machine.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::node::ValueNode;
use crate::problem::ValueFault;
use crate::shape::{TextLabel, ValueShape};
use crate::value::{ConfigValue, invalid, text};

/// Maximum length of a label.
const MAX_LABEL: usize = 200;

/// A name that only an agent interprets, such as the name of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameLabel(String);

/// Maximum length of a line.
const MAX_LINE: usize = 1000;

/// A single line of text, used as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine(String);

/// A path on this machine: absolute, below the user's home (`~/…`), or relative to the file that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(String);

impl NameLabel {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TextLine {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FilePath {
    /// Wraps a text that is already known to be a path.
    pub(crate) fn checked(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Resolves the path against the directory of its file, or against the user's home.
    pub fn resolve(&self, base: &Path, home: &Path) -> PathBuf {
        match self.0.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            Some(_) | None => base.join(&self.0),
        }
    }
}

impl ConfigValue for NameLabel {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "name", many: "names" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        let fits = (1..=MAX_LABEL).contains(&text.len())
            && !text.contains(|c: char| c.is_control() || c.is_whitespace())
            && !text.starts_with('-');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(
                node,
                format!("expected 1 to {MAX_LABEL} characters without blanks, and no \"-\" first"),
            ))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

/// A line that may be unset. It cannot be switched off, because "off" is a valid text.
impl ConfigValue for Option<TextLine> {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "line of text", many: "lines of text" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        let fits = (1..=MAX_LINE).contains(&text.len()) && !text.contains(char::is_control);
        if fits {
            Ok(Some(TextLine(text.to_owned())))
        } else {
            Err(invalid(
                node,
                format!(
                    "expected 1 to {MAX_LINE} bytes without line breaks and other control characters"
                ),
            ))
        }
    }

    fn show(&self) -> Json {
        json!(self.as_ref().map(TextLine::as_str))
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl ConfigValue for FilePath {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "path", many: "paths" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        if text.is_empty() {
            return Err(invalid(node, "the path is empty"));
        }
        if text.chars().any(char::is_control) {
            Err(invalid(node, "the path contains a control character"))
        } else {
            Ok(Self(text.to_owned()))
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_resolves_from_file_or_home() {
        let within = |text: &str| {
            let path = FilePath::read(&ValueNode::written(text)).unwrap();
            path.resolve(Path::new("/repo"), Path::new("/home/u")).display().to_string()
        };
        assert_eq!(within("skills/ours"), "/repo/skills/ours");
        assert_eq!(within("/opt/agent"), "/opt/agent");
        assert_eq!(within("~/.agent"), "/home/u/.agent");
        assert_eq!(within("~"), "/home/u");
        assert_eq!(within("~other/x"), "/repo/~other/x");
        assert!(FilePath::read(&ValueNode::written("a\0b")).is_err());
    }

    #[test]
    fn a_name_is_one_word() {
        for name in ["gpt-5.5", "org/model:tag", "xhigh"] {
            assert!(NameLabel::read(&ValueNode::written(name)).is_ok(), "{name}");
        }
        for name in ["", "a b", "-m", "a\nb", &"x".repeat(MAX_LABEL + 1)] {
            assert!(NameLabel::read(&ValueNode::written(name)).is_err(), "{name:?} was taken");
        }
    }
}
