//! A Markdown file with YAML front matter.

use provost_text::{UnclosedFrontMatter, split_front_matter};
use serde_json::{Map, Value};

use super::Error;

/// The two parts of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkdownParts {
    /// The front matter, which is empty if the file has none.
    pub front: Map<String, Value>,
    /// The rest of the text, trimmed.
    pub body: String,
}

/// Splits a text into front matter and body. A text that does not start with a fence consists only
/// of a body.
pub fn split(text: &str) -> Result<MarkdownParts, Error> {
    let parts = split_front_matter(text).map_err(|UnclosedFrontMatter| {
        Error::Parse("the file starts with --- but has no closing ---".to_owned())
    })?;
    let front = parts.front.map_or(Ok(Map::new()), map)?;
    Ok(MarkdownParts { front, body: parts.body.trim().to_owned() })
}

fn map(yaml: &str) -> Result<Map<String, Value>, Error> {
    if yaml.trim().is_empty() {
        return Ok(Map::new());
    }
    // The default messages of the YAML library are written for programmers and mention options of
    // the library.
    let describe = |why: serde_saphyr::Error| {
        why.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter)
    };
    let parsed: Value = serde_saphyr::from_str(yaml).map_err(|why| Error::Parse(describe(why)))?;
    match parsed {
        Value::Object(map) => Ok(map),
        // The front matter is empty or contains only comments.
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(Error::NotAMap("a single value"))
        }
        Value::Array(_) => Err(Error::NotAMap("a list")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_and_body_are_split() {
        let parts = split("---\na: 1\nb: [x, 'y']\n---\n\n# Do\n---\nit\n").unwrap();
        assert_eq!(Value::Object(parts.front), json!({"a": 1, "b": ["x", "y"]}));
        assert_eq!(parts.body, "# Do\n---\nit");
    }

    #[test]
    fn text_without_front_matter_is_body() {
        let parts = split(" Do it.\n--- \n").unwrap();
        assert_eq!((parts.front.len(), parts.body.as_str()), (0, "Do it.\n---"));
        assert_eq!(split("---\n# nothing\n---\nDo").unwrap().front.len(), 0);
    }

    #[test]
    fn non_map_and_bad_yaml_errors_differ() {
        let class = |text: &str| split(text).unwrap_err().class();
        assert_eq!(class("---\n- a\n---\n"), "workflow_front_matter_not_a_map");
        assert_eq!(class("---\njust words\n---\n"), "workflow_front_matter_not_a_map");
        assert_eq!(class("---\na: [1\n---\n"), "workflow_parse_error");
        assert_eq!(class("---\na: 1\na: 2\n---\n"), "workflow_parse_error");
        assert_eq!(class("---\na: 1\n"), "workflow_parse_error");
    }

    #[test]
    fn exponential_yaml_is_refused() {
        let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            yaml.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
        }
        assert_eq!(
            split(&format!("---\n{yaml}---\n")).unwrap_err().class(),
            "workflow_parse_error"
        );
    }
}
