//! The key of a work item, which is safe to use in paths, fields and commands.

/// Maximum length of a key.
const MAX_KEY: usize = 128;

/// A key such as `1-2-login`, `1.2` or `PAY-7`. It consists of letters, digits, `.`, `_` and `-`,
/// starts with a letter or a digit, and does not contain `..`. It is therefore always a single
/// name, never an option, a pattern or a path to another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkKey(String);

/// The error for an invalid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected 1 to {MAX_KEY} letters, digits, \".\", \"_\" or \"-\", a letter or digit first and no \"..\", as in 1-2-login"
)]
pub struct KeyFault;

/// The parts of a BMAD key such as `1.2`, `1-2` or `1-2-login`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoryNumbers<'k> {
    pub epic: &'k str,
    pub story: &'k str,
    /// The part after the numbers, such as `login`.
    pub slug: Option<&'k str>,
}

impl WorkKey {
    /// Parses a key.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=MAX_KEY).contains(&text.len())
            && text.bytes().all(plain)
            && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && !text.contains("..");
        if fits { Ok(Self(text.to_owned())) } else { Err(KeyFault) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the epic and story numbers, if the key contains them.
    pub fn numbers(&self) -> Option<StoryNumbers<'_>> {
        let (epic, rest) = self.0.split_once(['.', '-'])?;
        let dashed = self.0.as_bytes().get(epic.len()) == Some(&b'-');
        let (story, slug) = match rest.split_once('-') {
            Some((story, slug)) if dashed => (story, Some(slug)),
            Some(_) => return None,
            None => (rest, None),
        };
        let named = slug.is_none_or(|slug| !slug.is_empty());
        (is_number(epic) && is_number(story) && named).then_some(StoryNumbers { epic, story, slug })
    }

    /// Returns the number of the epic, from a story's key or from a key such as `3` or `epic-3`.
    pub fn epic(&self) -> Option<&str> {
        let alone = self.0.strip_prefix("epic-").unwrap_or(&self.0);
        if is_number(alone) { Some(alone) } else { self.numbers().map(|numbers| numbers.epic) }
    }
}

fn is_number(text: &str) -> bool {
    (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Option<(String, String, Option<String>)> {
        let key = WorkKey::parse(text).unwrap();
        let found = key.numbers()?;
        Some((found.epic.into(), found.story.into(), found.slug.map(str::to_owned)))
    }

    #[test]
    fn key_is_a_single_plain_name() {
        for good in ["1-2", "1.2", "1-2-login", "PAY-7", "a_b", "7"] {
            assert!(WorkKey::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(MAX_KEY + 1);
        for bad in [
            "", "-x", ".x", "a/b", "a..b", "..", "a b", "a*", "a;b", "$a", "{a}", "a\n", "é", &long,
        ] {
            assert_eq!(WorkKey::parse(bad), Err(KeyFault), "{bad:?} was taken");
        }
    }

    #[test]
    fn the_numbers_of_a_story_are_found() {
        let some = |epic: &str, story: &str, slug: Option<&str>| {
            Some((epic.to_owned(), story.to_owned(), slug.map(str::to_owned)))
        };
        assert_eq!(numbers("1.2"), some("1", "2", None));
        assert_eq!(numbers("1-2"), some("1", "2", None));
        assert_eq!(numbers("10-20-log-in"), some("10", "20", Some("log-in")));
        for none in ["1", "1.2-x", "1.2.3", "1-x", "PAY-7", "1-2-", "1-2a", "1234567-1"] {
            assert_eq!(numbers(none), None, "{none}");
        }
    }

    #[test]
    fn epic_number_is_found() {
        let epic = |text: &str| WorkKey::parse(text).unwrap().epic().map(str::to_owned);
        assert_eq!(epic("3").as_deref(), Some("3"));
        assert_eq!(epic("epic-3").as_deref(), Some("3"));
        assert_eq!(epic("3-1-x").as_deref(), Some("3"));
        assert_eq!(epic("epic-x"), None);
    }
}
