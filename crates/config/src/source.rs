//! The source of a value.

use std::fmt;

use serde::Serialize;

use crate::problem::escape;

/// The layer that a value comes from, lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum ValueSource {
    /// A built-in value, or an option that no layer set.
    Default,
    /// The user's own file.
    User(SourceSpan),
    /// The file in the repository.
    Project(SourceSpan),
    /// An environment variable.
    Environment { variable: String },
    /// A preset selected on the command line, and where the preset's value was set.
    Preset { preset: String, set: Box<ValueSource> },
    /// The command line.
    Flag { flag: String },
}

/// A position in a file. Lines and columns start at one, and columns are counted in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSpan {
    /// The file's name, as the caller passed it.
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl SourceSpan {
    /// Converts a byte offset in a file's text into a position.
    pub(crate) fn at(file: &str, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", escape(&self.file), self.line, self.column)
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(place) => write!(f, "user ({place})"),
            Self::Project(place) => write!(f, "project ({place})"),
            Self::Environment { variable } => write!(f, "environment ({})", escape(variable)),
            Self::Preset { preset, set } => write!(f, "preset {}, {set}", escape(preset)),
            Self::Flag { flag } => write!(f, "flag ({})", escape(flag)),
        }
    }
}
