//! An issue, in a form common to all trackers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An issue in a tracker. A workflow's template can use all fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// The tracker's id for the issue. Provost does not interpret it.
    pub id: String,
    /// The tracker's own references, used only by templates.
    pub native_ref: Option<Map<String, Value>>,
    /// The name shown to users.
    pub identifier: String,
    pub title: String,
    pub description: Option<String>,
    /// The priority. Lower numbers are more urgent.
    pub priority: Option<i64>,
    /// The state, spelled as in the tracker.
    pub state: String,
    pub branch_name: Option<String>,
    pub url: Option<String>,
    pub assignee_id: Option<String>,
    /// The labels in lower case, without duplicates.
    pub labels: Vec<String>,
    pub blocked_by: Vec<IssueBlocker>,
    /// Whether the tracker's own rules allow work on the issue.
    pub dispatchable: bool,
    /// The creation time in RFC 3339 and UTC, so that sorting the texts sorts the issues by time.
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
}

/// Another issue that blocks this one, according to the tracker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueBlocker {
    pub id: Option<String>,
    pub identifier: Option<String>,
    pub state: Option<String>,
}

/// A set of state names, compared without regard to case and surrounding spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States(BTreeSet<String>);

impl States {
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        States(names.into_iter().map(|name| normalize_name(name.as_ref())).collect())
    }

    pub fn has(&self, state: &str) -> bool {
        self.0.contains(&normalize_name(state))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Normalizes a name for comparison.
pub fn normalize_name(name: &str) -> String {
    name.trim().to_lowercase()
}

/// Normalizes labels: trims them, converts them to lower case, and drops blank and duplicate ones.
pub fn normalize_labels<T: AsRef<str>>(given: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for label in given.into_iter().map(|label| normalize_name(label.as_ref())) {
        if !label.is_empty() && !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}

/// Parses a timestamp and returns it in canonical form, or `None` if it is invalid.
pub fn normalize_instant(text: &str) -> Option<String> {
    let instant: jiff::Timestamp = text.trim().parse().ok()?;
    Some(format!("{instant:.3}"))
}

/// Number of hexadecimal digits of the hash that keeps keys distinct. 20 digits are 80 bits.
const HASH_DIGITS: usize = 20;

/// Returns the key for the work on an issue. No two identifiers share a key: if any characters had
/// to be replaced, a hash of the original identifier is appended.
pub fn work_key(identifier: &str) -> String {
    let allowed = |one: char| one.is_ascii_alphanumeric() || matches!(one, '.' | '_' | '-');
    let replaced: String =
        identifier.chars().map(|one| if allowed(one) { one } else { '_' }).collect();
    if replaced == identifier && !identifier.is_empty() {
        replaced
    } else {
        let hash = blake3::hash(identifier.as_bytes()).to_hex();
        format!("{replaced}-{}", &hash[..HASH_DIGITS])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_identifier_is_its_own_key() {
        assert_eq!(work_key("ABC-12.x_y"), "ABC-12.x_y");
    }

    #[test]
    fn similar_identifiers_have_distinct_keys() {
        let keys: BTreeSet<String> = ["a/b", "a b", "a:b", "a_b", "", "ä"].map(work_key).into();
        assert_eq!(keys.len(), 6, "{keys:?}");
        assert_eq!(work_key("a/b"), work_key("a/b"));
    }

    #[test]
    fn labels_are_trimmed_lowered_and_kept_once() {
        assert_eq!(normalize_labels([" Bug", "bug", " ", "UI "]), ["bug", "ui"]);
    }

    #[test]
    fn instants_of_all_zones_sort_as_texts() {
        let early = normalize_instant("2026-01-01T00:30:00+01:00").unwrap();
        assert_eq!(early, "2025-12-31T23:30:00.000Z");
        assert!(early < normalize_instant("2026-01-01T00:00:00Z").unwrap());
        assert_eq!(normalize_instant("yesterday"), None);
    }

    proptest! {
        #[test]
        fn keys_are_plain_and_unique(one in ".{0,30}", other in ".{0,30}") {
            let keys = (work_key(&one), work_key(&other));
            prop_assert!(keys.0.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
            prop_assert_eq!(keys.0 == keys.1, one == other);
        }
    }
}
