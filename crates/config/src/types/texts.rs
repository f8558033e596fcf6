//! Short texts that are passed on unchanged, and paths on the machine.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::node::Node;
use crate::problem::Fault;
use crate::shape::{Shape, Wording};
use crate::value::{Value, invalid, text};

/// Maximum length of a label.
const MAX_LABEL: usize = 200;

/// A name that only an agent interprets, such as that of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(String);

/// Maximum length of a line.
const MAX_LINE: usize = 1000;

/// A text of one line, used as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(String);

/// A path on this machine: absolute, below the user's home (`~/…`), or relative to the file that
/// names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(String);

impl Label {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Line {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FilePath {
    /// Wraps a text that was checked to be a path.
    pub(crate) fn checked(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Resolves the path.
    pub fn within(&self, base: &Path, home: &Path) -> PathBuf {
        match self.0.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            Some(_) | None => base.join(&self.0),
        }
    }
}

impl Value for Label {
    fn shape() -> Shape {
        Shape::Text(Wording { one: "name", many: "names" })
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
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

/// A line that is unset unless a layer sets it. There is no off: "off" is a text like any other.
impl Value for Option<Line> {
    fn shape() -> Shape {
        Shape::Text(Wording { one: "line of text", many: "lines of text" })
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        let text = text::<Self>(node)?;
        let fits = (1..=MAX_LINE).contains(&text.len()) && !text.contains(char::is_control);
        if fits {
            Ok(Some(Line(text.to_owned())))
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
        json!(self.as_ref().map(Line::as_str))
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Value for FilePath {
    fn shape() -> Shape {
        Shape::Text(Wording { one: "path", many: "paths" })
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
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
    fn a_path_is_written_out_from_its_file_or_from_the_home() {
        let within = |text: &str| {
            let path = FilePath::read(&Node::written(text)).unwrap();
            path.within(Path::new("/repo"), Path::new("/home/u")).display().to_string()
        };
        assert_eq!(within("skills/ours"), "/repo/skills/ours");
        assert_eq!(within("/opt/codex"), "/opt/codex");
        assert_eq!(within("~/.codex"), "/home/u/.codex");
        assert_eq!(within("~"), "/home/u");
        assert_eq!(within("~other/x"), "/repo/~other/x");
        assert!(FilePath::read(&Node::written("a\0b")).is_err());
    }

    #[test]
    fn a_name_is_one_word() {
        for name in ["gpt-5.5", "org/model:tag", "xhigh"] {
            assert!(Label::read(&Node::written(name)).is_ok(), "{name}");
        }
        for name in ["", "a b", "-m", "a\nb", &"x".repeat(MAX_LABEL + 1)] {
            assert!(Label::read(&Node::written(name)).is_err(), "{name:?} was taken");
        }
    }
}
