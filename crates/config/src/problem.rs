//! The problems of a configuration, each with its position and what was expected.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::source::ValueSource;

/// Maximum number of problems in one error, so that a hostile file cannot flood a terminal.
pub const MAX_PROBLEMS: usize = 50;

/// Maximum number of characters of foreign text that a message quotes.
const MAX_QUOTED: usize = 60;

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(problems, *left_out))]
pub struct Error {
    /// At most [`MAX_PROBLEMS`], lowest layer first, each file from top to bottom.
    pub problems: Vec<Problem>,
    /// The number of further problems.
    pub left_out: usize,
}

/// One problem; its display is a complete message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The key, if there is one.
    pub key: Option<String>,
    pub source: ValueSource,
    /// What was expected, found or probably meant.
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

/// A problem inside a value, before its key and file are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueFault {
    pub(crate) kind: ProblemKind,
    pub(crate) span: Range<usize>,
    /// The path below the key that has the value, for example the field of a hook.
    pub(crate) below: Option<String>,
    pub(crate) detail: String,
}

impl Error {
    /// Returns an error if there are any problems.
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

    /// Adds the key and the source of the value.
    pub(crate) fn into_problem(self, key: &str, source: ValueSource) -> Problem {
        let key = self.below.map_or_else(|| key.to_owned(), |below| format!("{key}.{below}"));
        Problem { kind: self.kind, key: Some(key), source, detail: self.detail }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.headline())?;
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
}

/// Quotes a foreign text for a message: escaped and truncated.
pub(crate) fn quote(text: &str) -> String {
    let quoted = match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    };
    escape(&quoted)
}

/// Escapes a foreign text for printing without quotes.
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
