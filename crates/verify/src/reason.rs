//! Why something is not verified.

use std::fmt;

/// How many files are named of those that match where one should.
const NAMED_FILES: usize = 5;

/// The longest text of a file that is repeated.
const SHOWN_CHARS: usize = 80;

/// Why a verifier does not say yes. Paths are relative to the project's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The key has not the form that the verifier needs.
    Key {
        key: String,
        expected: &'static str,
    },
    /// The project's directory cannot be looked at.
    NoProject {
        why: String,
    },
    /// Nothing matches.
    NoFile {
        path: String,
    },
    SeveralFiles {
        path: String,
        found: Vec<String>,
    },
    /// The path leads out of the project, by a link.
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
    /// More than one entry may be meant.
    SeveralFields {
        path: String,
        fields: Vec<String>,
    },
    /// There is a list, a table or nothing where a text should be.
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
        /// The last that it printed, if anything. It is no part of the reason in words: two tries that fail for the
        /// same reason may print different times.
        said: String,
    },
    CommandNotRun {
        why: String,
    },
}

impl Reason {
    /// The kind of reason in one word, for programs.
    pub fn word(&self) -> &'static str {
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

    /// Gives the last that a command printed which failed.
    pub fn said(&self) -> Option<&str> {
        let Self::CommandEnded { said, .. } = self else { return None };
        Some(said.as_str()).filter(|said| !said.is_empty())
    }

    /// Says whether the work was not looked at at all: no other work would come to something else.
    pub fn is_no_answer(&self) -> bool {
        matches!(self, Self::Key { .. } | Self::CommandNotRun { .. })
    }

    /// Says whether there simply is nothing: another source may know more.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::NoFile { .. } | Self::NoField { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key, expected } => {
                write!(f, "the key {} does not fit: expected {expected}", quote(key))
            }
            Self::NoProject { why } => write!(f, "the project's directory cannot be used: {why}"),
            Self::NoFile { path } => write!(f, "there is no {}", plain(path)),
            Self::SeveralFiles { path, found } => {
                let named = list(found);
                write!(f, "{} files match {}, and one has to: {named}", found.len(), plain(path))
            }
            Self::Outside { path } => write!(f, "{} leads out of the project", plain(path)),
            Self::NotAFile { path } => write!(f, "{} is no regular file", plain(path)),
            Self::Unreadable { path, why } => write!(f, "{} cannot be read: {why}", plain(path)),
            Self::TooLarge { path, limit } => {
                write!(f, "{} is larger than {limit} bytes", plain(path))
            }
            Self::Malformed { path, why } => {
                write!(f, "{} is malformed: {}", plain(path), clip(&plain(why)))
            }
            Self::NoField { path, field } => write!(f, "{} has no {}", plain(path), plain(field)),
            Self::SeveralFields { path, fields } => {
                write!(f, "{} has several entries that may be meant: {}", plain(path), list(fields))
            }
            Self::NotText { path, field } => {
                write!(f, "{} of {} is no text", plain(field), plain(path))
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

/// Quotes a foreign text: nothing in it reaches a terminal as it is.
fn quote(text: &str) -> String {
    provost_text::escape(&format!("{:?}", clip(text)), &[])
}

/// A foreign text without deceptive characters.
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
    fn nothing_foreign_reaches_a_terminal_as_it_is() {
        let path = "a\u{1b}[2Jb".to_owned();
        let found = format!("{}\u{7}", "x".repeat(200));
        let (field, expected) = ("status".to_owned(), "\"done\"".to_owned());
        let told = Reason::Differs { path, field, expected, found }.to_string();
        assert!(!told.chars().any(char::is_control), "{told:?}");
        assert!(told.len() < 200, "{told}");
    }
}
