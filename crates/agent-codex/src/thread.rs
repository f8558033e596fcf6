//! The id of a Codex conversation.

use std::fmt;

/// The length limit of an id, in bytes. An id must be shorter than the limit.
const MAX_LENGTH: usize = 64;

/// The id of a thread. It consists of letters, digits and dashes, so that it can be used in file
/// names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(String);

impl ThreadId {
    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() < MAX_LENGTH;
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (fits && plain && !text.starts_with('-')).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the creation time in milliseconds since 1970, if the id contains it.
    pub fn created_at_ms(&self) -> Option<u64> {
        creation_time(&self.0)
    }

    /// Whether the thread is younger than the one with another id, judging by the first 48 bits of
    /// both. Returns false if one of the ids contains no time.
    pub(crate) fn is_younger_than(&self, other: &str) -> bool {
        match (creation_time(&self.0), creation_time(other)) {
            (Some(own), Some(other)) => other < own,
            _ => false,
        }
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the time in a version 7 UUID, in milliseconds.
fn creation_time(id: &str) -> Option<u64> {
    let is_uuid = id.len() == 36 && id.is_ascii();
    if !is_uuid || id.as_bytes()[14] != b'7' {
        return None;
    }
    u64::from_str_radix(&format!("{}{}", &id[..8], &id[9..13]), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_id_must_be_a_plain_name() {
        assert!(ThreadId::parse("01a1e07a-5d7b-7080-8099-30d3b6bc5ae3").is_some());
        for text in ["", "-a", "../x", "a*", "a b", &"a".repeat(MAX_LENGTH)] {
            assert_eq!(ThreadId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ids_without_time_are_not_compared() {
        let thread = ThreadId::parse("01a1e07d-362f-7533-9c68-7c09cd1f5b34").unwrap();
        assert!(thread.is_younger_than("01a1e07d-3548-77f0-a7fe-63c078e5bbd0"));
        assert!(!thread.is_younger_than("01a1e07d-3679-7663-9424-5cecc01e6fe3"));
        assert!(!thread.is_younger_than("00000000-3679-4663-9424-5cecc01e6fe3"));
        assert!(!thread.is_younger_than("1"));
    }
}
