//! Reads the name and description of a skill from the beginning of its file.
//!
//! This is not a YAML parser. It finds the fields that Codex requires, and leaves the rest to
//! Codex, whose own listing is decisive ([`super::confirm`]).

use std::path::Path;

use provost_sys::agent_file;

use super::{SKILL_FILE, SkipReason};
use crate::text::displayable;

/// The maximum number of bytes to read from a skill's file.
const READ_LIMIT: u64 = 64 * 1024;

/// The maximum length of a name in Codex, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The front matter of a skill.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) name: Option<String>,
    pub(super) description: String,
}

/// Reads the front matter of the skill in this directory.
pub(super) fn read(directory: &Path) -> Result<FrontMatter, SkipReason> {
    let bytes = agent_file::read_start(&directory.join(SKILL_FILE), READ_LIMIT)
        .map_err(|why| SkipReason::Unreadable { why: unreadable(&why) })?;
    parse(text_of(&bytes)?)
}

/// Describes the reason why the file cannot be read. The text does not contain the path, because
/// the caller adds it.
fn unreadable(why: &agent_file::Error) -> String {
    match why {
        agent_file::Error::Io { source, .. } => source.to_string(),
        agent_file::Error::NotRegular(_)
        | agent_file::Error::TooLong { .. }
        | agent_file::Error::Outside(_) => "the file is not a regular file".to_owned(),
    }
}

/// Returns the text, without a character that was cut off at the limit.
fn text_of(bytes: &[u8]) -> Result<&str, SkipReason> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) if error.error_len().is_none() => {
            Ok(std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default())
        }
        Err(_) => Err(SkipReason::Unreadable { why: "the file is not UTF-8".into() }),
    }
}

fn parse(text: &str) -> Result<FrontMatter, SkipReason> {
    let front = provost_text::split_front_matter(text).ok().and_then(|parts| parts.front);
    let front = front.ok_or_else(|| broken("it is not enclosed in lines of ---"))?;
    let lines: Vec<&str> = front.lines().collect();
    let name = value(&lines, "name").filter(|name| !name.is_empty());
    if name.as_ref().is_some_and(|name| name.starts_with(['[', '{'])) {
        return Err(broken("the name is not a string"));
    }
    if name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
        return Err(broken(&format!("the name is longer than {MAX_NAME_CHARS} characters")));
    }
    let description = value(&lines, "description").unwrap_or_default();
    if description.is_empty() {
        return Err(broken("the description is missing"));
    }
    let printable = |text: String| displayable(text.as_bytes());
    Ok(FrontMatter { name: name.map(printable), description: printable(description) })
}

fn broken(why: &str) -> SkipReason {
    SkipReason::BrokenFrontMatter { why: why.into() }
}

/// Returns the value of a top-level key, which is on the same line or on indented lines below it.
fn value(lines: &[&str], key: &str) -> Option<String> {
    let at = lines.iter().position(|line| value_on(line, key).is_some())?;
    let first = value_on(lines[at], key)?.trim();
    let below = lines[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t']));
    let below = below.map(|line| line.trim());
    let is_block = first.starts_with(['|', '>']);
    let words: Vec<&str> = (!is_block).then_some(first).into_iter().chain(below).collect();
    Some(unquoted(words.join(" ").trim()).to_owned())
}

fn value_on<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.trim_start().strip_prefix(':')
}

fn unquoted(text: &str) -> &str {
    let stripped = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote).and_then(|text| text.strip_suffix(*quote)));
    stripped.unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(text: &str) -> Result<(Option<String>, String), String> {
        match parse(text) {
            Ok(front) => Ok((front.name, front.description)),
            Err(SkipReason::BrokenFrontMatter { why }) => Err(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn name_and_description_forms_are_read() {
        let both = |name: &str, description: &str| Ok((Some(name.into()), description.into()));
        assert_eq!(front("---\nname: a\ndescription: b c\n---\nbody"), both("a", "b c"));
        assert_eq!(front("---\r\nname: a\r\ndescription: b\r\n---\r\n"), both("a", "b"));
        assert_eq!(front("---\nname: \"a\"\ndescription: 'use: it'\n---"), both("a", "use: it"));
        assert_eq!(front("---\nname: a\ndescription: |\n  b\n  c\n---"), both("a", "b c"));
        assert_eq!(
            front("---\nx:\n  name: no\nname: a\ndescription: b\n  c\n---"),
            both("a", "b c")
        );
        assert_eq!(front("---\ndescription: b\n---"), Ok((None, "b".into())));
    }

    #[test]
    fn invalid_front_matter_is_reported() {
        let why = |text: &str| front(text).unwrap_err();
        assert_eq!(why("text"), "it is not enclosed in lines of ---");
        assert_eq!(why("---\nname: a\n"), "it is not enclosed in lines of ---");
        assert_eq!(why("---\nname: a\n---"), "the description is missing");
        assert_eq!(why("---\nname: a\ndescription: \"\"\n---"), "the description is missing");
        assert_eq!(why("---\nname: [a\ndescription: b\n---"), "the name is not a string");
        let long = format!("---\nname: {}\ndescription: b\n---", "n".repeat(65));
        assert_eq!(why(&long), "the name is longer than 64 characters");
    }

    #[test]
    fn cut_character_is_ignored() {
        assert_eq!(text_of(b"ab\xc3"), Ok("ab"));
        assert!(text_of(b"a\xe9b").is_err());
    }
}
