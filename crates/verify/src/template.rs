//! The texts in a verifier, with the placeholders `{key}`, `{epic}` and `{story}`.

use crate::{key::WorkKey, reason::UnverifiedReason};

/// The required form of a key if its epic or story is used.
pub const STORY_KEY: &str = "a story such as 1-2, 1.2 or 1-2-login";

/// The names of the placeholders.
const NAMES: [&str; 3] = ["key", "epic", "story"];

/// A valid text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTemplate(String);

/// The treatment of braces that do not enclose a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BraceMode {
    /// Such braces are an error.
    Strict,
    /// Such braces are part of the text, as in a regular expression.
    Free,
}

impl KeyTemplate {
    /// Validates the braces in a text.
    pub(crate) fn new(text: &str, braces: BraceMode) -> Result<Self, String> {
        if braces == BraceMode::Strict {
            check_placeholders(text)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// Replaces the placeholders, passing each inserted part through `escape`.
    pub(crate) fn fill(
        &self,
        key: &WorkKey,
        escape: fn(&str) -> String,
    ) -> Result<String, UnverifiedReason> {
        let mut filled = self.0.clone();
        for name in NAMES {
            let gap = format!("{{{name}}}");
            if filled.contains(&gap) {
                filled = filled.replace(&gap, &escape(part(key, name)?));
            }
        }
        Ok(filled)
    }
}

fn part<'k>(key: &'k WorkKey, name: &str) -> Result<&'k str, UnverifiedReason> {
    let numbers = key.numbers();
    let found = match name {
        "epic" => numbers.map(|numbers| numbers.epic),
        "story" => numbers.map(|numbers| numbers.story),
        _ => Some(key.as_str()),
    };
    found.ok_or_else(|| UnverifiedReason::Key { key: key.as_str().to_owned(), expected: STORY_KEY })
}

fn check_placeholders(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let after = &rest[at..];
        let known = NAMES.iter().find_map(|name| after.strip_prefix(&format!("{{{name}}}")));
        rest = known.ok_or_else(|| {
            format!("{text:?} has an unknown placeholder; expected {{key}}, {{epic}} or {{story}}")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, key: &str) -> Result<String, UnverifiedReason> {
        let template = KeyTemplate::new(text, BraceMode::Strict).unwrap();
        template.fill(&WorkKey::parse(key).unwrap(), str::to_owned)
    }

    #[test]
    fn placeholders_are_filled() {
        assert_eq!(fill("{epic}-{story}/{key}.md", "1-2-x").unwrap(), "1-2/1-2-x.md");
        assert_eq!(fill("plain", "x").unwrap(), "plain");
        assert!(matches!(fill("{epic}", "PAY-7"), Err(UnverifiedReason::Key { .. })));
    }

    #[test]
    fn unknown_placeholder_is_an_error() {
        for bad in ["{keys}", "{}", "a{", "}", "{{key}}", "{Key}"] {
            assert!(KeyTemplate::new(bad, BraceMode::Strict).is_err(), "{bad}");
        }
        assert!(KeyTemplate::new("x{2,3}", BraceMode::Free).is_ok());
    }
}
