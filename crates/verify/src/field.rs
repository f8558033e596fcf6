//! Reads a field from a YAML, JSON or TOML file, or from the front matter of a Markdown file.

use std::path::Path;

use serde_json::Value;

use crate::{project::ProjectText, reason::UnverifiedReason};

/// The format of a file, determined by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    Yaml,
    Json,
    Toml,
    FrontMatter,
}

impl FileFormat {
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "md" | "markdown" | "mdx" => Some(Self::FrontMatter),
            _ => None,
        }
    }

    /// Parses the whole file. Duplicate keys are an error in every format.
    pub fn parse(self, read: &ProjectText) -> Result<Value, UnverifiedReason> {
        let text = read.text.strip_prefix('\u{feff}').unwrap_or(&read.text);
        let parsed = match self {
            Self::Yaml => yaml(text),
            Self::Json => json(text),
            Self::Toml => toml::from_str(text).map_err(|why: toml::de::Error| why.message().into()),
            Self::FrontMatter => front_matter(text),
        };
        parsed.map_err(|why| UnverifiedReason::Malformed { path: read.path.clone(), why })
    }
}

/// Finds a nested value by its path.
pub(crate) fn find<'v>(
    value: &'v Value,
    segments: &[String],
    path: &str,
) -> Result<&'v Value, UnverifiedReason> {
    segments.iter().try_fold(value, |at, segment| at.get(segment)).ok_or_else(|| {
        UnverifiedReason::NoField { path: path.to_owned(), field: segments.join(".") }
    })
}

/// Returns a scalar value as text, or `None` for lists, tables and null.
pub fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub fn yaml(text: &str) -> Result<Value, String> {
    // The default messages of the YAML library are written for programmers and mention options of
    // the library.
    let describe = |why: serde_saphyr::Error| {
        why.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter)
    };
    serde_saphyr::from_str(text).map_err(describe)
}

/// Parses JSON. Duplicate keys are rejected, because parsers disagree on their meaning.
fn json(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    // JSON is also valid YAML, and the YAML parser rejects duplicate keys.
    yaml(text).map(|_| value)
}

fn front_matter(text: &str) -> Result<Value, String> {
    yaml(front_matter_text(text)?.ok_or("the file has no front matter between lines of ---")?)
}

/// Returns the text between the fences at the start of the file, if it has front matter.
pub fn front_matter_text(text: &str) -> Result<Option<&str>, String> {
    match provost_text::split_front_matter(text) {
        Ok(parts) => Ok(parts.front),
        Err(_) => Err("the file starts with --- but has no closing ---".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(name: &str, text: &str, field: &str) -> Result<Option<String>, &'static str> {
        let read = ProjectText { path: name.to_owned(), text: text.to_owned() };
        let format = FileFormat::from_path(Path::new(name)).unwrap();
        let segments: Vec<String> = field.split('.').map(str::to_owned).collect();
        let found =
            format.parse(&read).and_then(|value| find(&value, &segments, name).map(text_of));
        found.map_err(|why| why.as_str())
    }

    #[test]
    fn a_field_is_found_in_each_format() {
        let done = Ok(Some("done".to_owned()));
        assert_eq!(get("a.yaml", "x:\n  y: done # so\n", "x.y"), done);
        assert_eq!(get("a.json", r#"{"x": {"y": "done"}}"#, "x.y"), done);
        assert_eq!(get("a.toml", "[x]\ny = \"done\"", "x.y"), done);
        assert_eq!(get("a.md", "---\nx: {y: done}\n---\nx: no", "x.y"), done);
        assert_eq!(get("a.yaml", "x: 3", "x"), Ok(Some("3".to_owned())));
        assert_eq!(get("a.yaml", "x: true", "x"), Ok(Some("true".to_owned())));
    }

    #[test]
    fn non_scalar_value_has_no_text() {
        for text in ["x:", "x: []", "x: {}", "x: null"] {
            assert_eq!(get("a.yaml", text, "x"), Ok(None), "{text}");
        }
        assert_eq!(get("a.yaml", "x: 1", "y"), Err("no_field"));
        assert_eq!(get("a.yaml", "[1]", "0"), Err("no_field"));
    }

    #[test]
    fn yaml_errors_address_the_user() {
        for (text, what) in [("x: a\nx: b", "x"), ("x: [1", "line 1")] {
            let why = yaml(text).unwrap_err();
            assert!(why.contains(what) && why.contains("line"), "{why}");
            assert!(!why.contains("Options") && !why.contains("Policy"), "{why}");
        }
    }

    #[test]
    fn broken_file_is_an_error() {
        for (name, text) in [
            ("a.yaml", "x: [1"),
            ("a.yaml", "x: done\nx: open"),
            ("a.yaml", "x: done\n---\nx: open"),
            ("a.json", "{\"x\": \"done\""),
            ("a.json", r#"{"x": "open", "x": "done"}"#),
            ("a.toml", "x = done"),
            ("a.md", "x: done"),
            ("a.md", "---\nx: done\n"),
        ] {
            assert_eq!(get(name, text, "x"), Err("malformed"), "{text:?}");
        }
    }
}
