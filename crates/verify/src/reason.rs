//! The reasons why work is not verified.

use std::fmt;

/// Maximum number of matching files to list in a message.
const NAMED_FILES: usize = 5;

/// Maximum number of characters of a file's text to quote in a message.
const SHOWN_CHARS: usize = 80;

/// The reason why a verifier failed. Paths are relative to the project's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnverifiedReason {
    /// The key does not have the required form.
    Key {
        key: String,
        expected: &'static str,
    },
    /// The project's directory cannot be read.
    NoProject {
        why: String,
    },
    /// No file matches.
    NoFile {
        path: String,
    },
    SeveralFiles {
        path: String,
        found: Vec<String>,
    },
    /// A link points outside the project.
    Outside {
        path: String,
    },
    NotAFile {
        path: String,
    },
    Unreadable {
        path: String,
        why: String,
    },
    TooLarge {
        path: String,
        limit: u64,
    },
    Malformed {
        path: String,
        why: String,
    },
    NoField {
        path: String,
        field: String,
    },
    /// More than one entry matches.
    SeveralFields {
        path: String,
        fields: Vec<String>,
    },
    /// The value is a list, a table or null instead of text.
    NotText {
        path: String,
        field: String,
    },
    Differs {
        path: String,
        field: String,
        expected: String,
        found: String,
    },
    NoLine {
        path: String,
        pattern: String,
    },
    CommandEnded {
        how: String,
        /// The last part of the command's output. It is not part of the displayed reason, because
        /// two attempts that fail for the same reason may print different output, such as times.
        output: String,
    },
    CommandNotRun {
        why: String,
    },
}

impl UnverifiedReason {
    /// Returns the kind of the reason, for use by programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Key { .. } => "key",
            Self::NoProject { .. } => "no_project",
            Self::NoFile { .. } => "no_file",
            Self::SeveralFiles { .. } => "several_files",
            Self::Outside { .. } => "outside_of_project",
            Self::NotAFile { .. } => "not_a_file",
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too_large",
            Self::Malformed { .. } => "malformed",
            Self::NoField { .. } => "no_field",
            Self::SeveralFields { .. } => "several_fields",
            Self::NotText { .. } => "not_a_text",
            Self::Differs { .. } => "differs",
            Self::NoLine { .. } => "no_line",
            Self::CommandEnded { .. } => "command_failed",
            Self::CommandNotRun { .. } => "command_not_run",
        }
    }

    /// Returns the last part of a failed command's output.
    pub fn output(&self) -> Option<&str> {
        let Self::CommandEnded { output, .. } = self else { return None };
        Some(output.as_str()).filter(|output| !output.is_empty())
    }

    /// Whether the work could not be examined at all. The result then does not depend on the work.
    pub fn is_unexamined(&self) -> bool {
        matches!(self, Self::Key { .. } | Self::CommandNotRun { .. })
    }

    /// Whether the status is merely absent, so another file may still contain it.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::NoFile { .. } | Self::NoField { .. })
    }
}

impl fmt::Display for UnverifiedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key, expected } => {
                write!(f, "invalid key {}: expected {expected}", quote(key))
            }
            Self::NoProject { why } => write!(f, "the project's directory cannot be used: {why}"),
            Self::NoFile { path } => write!(f, "there is no {}", plain(path)),
            Self::SeveralFiles { path, found } => {
                let named = list(found);
                write!(f, "{} files match {}, expected one: {named}", found.len(), plain(path))
            }
            Self::Outside { path } => write!(f, "{} leads out of the project", plain(path)),
            Self::NotAFile { path } => write!(f, "{} is not a regular file", plain(path)),
            Self::Unreadable { path, why } => write!(f, "{} cannot be read: {why}", plain(path)),
            Self::TooLarge { path, limit } => {
                write!(f, "{} is larger than {limit} bytes", plain(path))
            }
            Self::Malformed { path, why } => {
                write!(f, "{} is malformed: {}", plain(path), clip(&plain(why)))
            }
            Self::NoField { path, field } => write!(f, "{} has no {}", plain(path), plain(field)),
            Self::SeveralFields { path, fields } => {
                write!(f, "{} has several matching entries: {}", plain(path), list(fields))
            }
            Self::NotText { path, field } => {
                write!(f, "{} of {} is not a string", plain(field), plain(path))
            }
            Self::Differs { path, field, expected, found } => write!(
                f,
                "{} of {} is {}, expected {expected}",
                plain(field),
                plain(path),
                quote(found)
            ),
            Self::NoLine { path, pattern } => {
                write!(f, "no line of {} matches {}", plain(path), quote(pattern))
            }
            Self::CommandEnded { how, .. } => write!(f, "the command {how}"),
            Self::CommandNotRun { why } => write!(f, "the command could not be run: {why}"),
        }
    }
}

/// Quotes untrusted text, so that it reaches a terminal only in escaped form.
fn quote(text: &str) -> String {
    provost_text::escape(&format!("{:?}", clip(text)), &[])
}

/// Replaces deceptive characters in untrusted text.
fn plain(text: &str) -> String {
    text.chars().map(|c| if provost_text::is_deceptive(c) { '\u{fffd}' } else { c }).collect()
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED_FILES).map(|name| plain(name)).collect();
    let more = if names.len() > NAMED_FILES { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deceptive_character_is_escaped() {
        for letter in provost_text::deceptive() {
            for shown in [quote(&letter.to_string()), plain(&letter.to_string())] {
                assert!(!shown.chars().any(provost_text::is_deceptive), "{shown:?}");
            }
        }
    }

    #[test]
    fn foreign_text_in_reasons_is_escaped() {
        let path = "a\u{1b}[2Jb".to_owned();
        let found = format!("{}\u{7}", "x".repeat(200));
        let (field, expected) = ("status".to_owned(), "\"done\"".to_owned());
        let reason = UnverifiedReason::Differs { path, field, expected, found }.to_string();
        assert!(!reason.chars().any(char::is_control), "{reason:?}");
        assert!(reason.len() < 200, "{reason}");
    }
}
