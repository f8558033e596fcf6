//! Problems in a configuration, each with its position and the expected value.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::source::ValueSource;

/// Maximum number of problems listed in one error, so that a malicious file cannot flood a terminal.
pub const MAX_PROBLEMS: usize = 50;

/// Maximum number of characters of untrusted text to quote in a message.
const MAX_QUOTED: usize = 60;

/// An unusable configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(problems, *left_out))]
pub struct Error {
    /// The first [`MAX_PROBLEMS`] problems, from the lowest layer up and from top to bottom in each file.
    pub problems: Vec<Problem>,
    /// The number of problems that are not listed.
    pub left_out: usize,
}

/// One problem. Its `Display` output is a complete message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The affected key, if there is one.
    pub key: Option<String>,
    pub source: ValueSource,
    /// The expected value, the value found, or a suggestion.
    pub detail: String,
}

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    Syntax,
    UnknownKey,
    BadName,
    WrongType,
    Invalid,
    OutOfRange,
    Repeated,
    Missing,
}

/// A problem with a value whose key and file are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueFault {
    pub(crate) kind: ProblemKind,
    pub(crate) span: Range<usize>,
    /// The path below the value's key, for example the field of a hook.
    pub(crate) below: Option<String>,
    pub(crate) detail: String,
}

impl Error {
    /// Returns an error if there are any problems, otherwise `Ok`.
    pub(crate) fn from_problems(mut problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        let left_out = problems.len().saturating_sub(MAX_PROBLEMS);
        problems.truncate(MAX_PROBLEMS);
        Err(Self { problems, left_out })
    }
}

impl ValueFault {
    pub(crate) fn new(kind: ProblemKind, span: &Range<usize>, detail: impl Into<String>) -> Self {
        Self { kind, span: span.clone(), below: None, detail: detail.into() }
    }

    /// Adds the key and the source of the value to the problem.
    pub(crate) fn into_problem(self, key: &str, source: ValueSource) -> Problem {
        let key = self.below.map_or_else(|| key.to_owned(), |below| format!("{key}.{below}"));
        Problem { kind: self.kind, key: Some(key), source, detail: self.detail }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.headline())?;
        // The user typed the flag, and does not need to know the key that it sets.
        if let (ValueSource::Flag { flag }, true) = (&self.source, self.kind.is_about_value()) {
            return write!(f, " {}; {}", escape(flag), self.detail);
        }
        if let Some(key) = &self.key {
            write!(f, " {}", quote(key))?;
        }
        match &self.source {
            ValueSource::Default => f.write_str(" in the defaults")?,
            ValueSource::User(place) | ValueSource::Project(place) => write!(f, " at {place}")?,
            ValueSource::Environment { variable } => write!(f, " in {}", escape(variable))?,
            ValueSource::Preset { preset, .. } => write!(f, " in the preset {}", escape(preset))?,
            ValueSource::Flag { flag } => write!(f, " in {}", escape(flag))?,
        }
        write!(f, "; {}", self.detail)
    }
}

impl ProblemKind {
    fn headline(self) -> &'static str {
        match self {
            Self::Syntax => "invalid TOML",
            Self::UnknownKey => "unknown key",
            Self::BadName => "bad name",
            Self::WrongType => "wrong type for",
            Self::Invalid => "invalid value for",
            Self::OutOfRange => "value out of range for",
            Self::Repeated => "repeated key",
            Self::Missing => "missing key",
        }
    }

    /// Whether the key is right and only its value is wrong.
    fn is_about_value(self) -> bool {
        matches!(self, Self::WrongType | Self::Invalid | Self::OutOfRange)
    }
}

/// Quotes untrusted text for a message, escaped and truncated.
pub(crate) fn quote(text: &str) -> String {
    let quoted = match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    };
    escape(&quoted)
}

/// Escapes untrusted text, so that it can be printed without quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => safe.extend(character.escape_default()),
            character if provost_text::is_deceptive(character) => {
                safe.extend(character.escape_unicode());
            }
            character => safe.push(character),
        }
    }
    safe
}

fn render(problems: &[Problem], left_out: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    if left_out > 0 {
        lines.push(format!("and {left_out} more problems"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deceptive_character_is_escaped() {
        for letter in provost_text::deceptive() {
            for shown in [quote(&format!("a{letter}")), escape(&format!("a{letter}"))] {
                assert!(!shown.chars().any(provost_text::is_deceptive), "{shown:?}");
            }
        }
    }

    #[test]
    fn foreign_text_is_escaped() {
        assert_eq!(quote("a\u{1b}[2Jb"), r#""a\u{1b}[2Jb""#);
        assert_eq!(escape("a\u{1b}[2J\nb\u{202e}"), r"a\u{1b}[2J\nb\u{202e}");
        assert_eq!(quote(&"x".repeat(1000)).chars().count(), MAX_QUOTED + 3);
    }

    #[test]
    fn excess_problems_are_counted() {
        let problem = ValueFault::new(ProblemKind::Invalid, &(0..0), "no")
            .into_problem("k", ValueSource::Default);
        assert_eq!(Error::from_problems(Vec::new()), Ok(()));
        let exactly = Error::from_problems(vec![problem.clone(); MAX_PROBLEMS]).unwrap_err();
        assert_eq!((exactly.problems.len(), exactly.left_out), (MAX_PROBLEMS, 0));
        let more = Error::from_problems(vec![problem; MAX_PROBLEMS + 2]).unwrap_err();
        assert_eq!((more.problems.len(), more.left_out), (MAX_PROBLEMS, 2));
        assert!(more.to_string().ends_with("and 2 more problems"));
    }
}
