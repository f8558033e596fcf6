//! Texts of verifiers with the placeholders `{key}`, `{epic}` and `{story}`.

use crate::{key::Key, reason::Reason};

/// The required form of a key whose epic or story is used.
pub(crate) const STORY_KEY: &str = "a story such as 1-2, 1.2 or 1-2-login";

/// The placeholders.
const NAMES: [&str; 3] = ["key", "epic", "story"];

/// A well-formed text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(String);

/// The meaning of braces around another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Braces {
    /// An error.
    Strict,
    /// Part of the text, as in a pattern.
    Free,
}

impl Template {
    /// Checks the braces of a text.
    pub(crate) fn new(text: &str, braces: Braces) -> Result<Self, String> {
        if braces == Braces::Strict {
            only_known(text)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// Replaces the placeholders; every part passes through `escape`.
    pub(crate) fn fill(&self, key: &Key, escape: fn(&str) -> String) -> Result<String, Reason> {
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

fn part<'k>(key: &'k Key, name: &str) -> Result<&'k str, Reason> {
    let numbers = key.numbers();
    let found = match name {
        "epic" => numbers.map(|numbers| numbers.epic),
        "story" => numbers.map(|numbers| numbers.story),
        _ => Some(key.as_str()),
    };
    found.ok_or_else(|| Reason::Key { key: key.as_str().to_owned(), expected: STORY_KEY })
}

fn only_known(text: &str) -> Result<(), String> {
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

    fn fill(text: &str, key: &str) -> Result<String, Reason> {
        let template = Template::new(text, Braces::Strict).unwrap();
        template.fill(&Key::parse(key).unwrap(), str::to_owned)
    }

    #[test]
    fn gaps_are_filled() {
        assert_eq!(fill("{epic}-{story}/{key}.md", "1-2-x").unwrap(), "1-2/1-2-x.md");
        assert_eq!(fill("plain", "x").unwrap(), "plain");
        assert!(matches!(fill("{epic}", "PAY-7"), Err(Reason::Key { .. })));
    }

    #[test]
    fn other_braces_are_a_mistake() {
        for bad in ["{keys}", "{}", "a{", "}", "{{key}}", "{Key}"] {
            assert!(Template::new(bad, Braces::Strict).is_err(), "{bad}");
        }
        assert!(Template::new("x{2,3}", Braces::Free).is_ok());
    }
}
