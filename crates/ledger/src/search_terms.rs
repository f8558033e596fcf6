//! Search terms of streams and events. All ledgers use this module to extract and compare terms, so
//! that they all find the same results.

use std::collections::BTreeSet;

/// Maximum number of words to keep per stream or event.
pub const MAX_WORDS: usize = 200;
/// Maximum number of bytes at the start of a text to index.
pub const MAX_INDEXED_BYTES: usize = 8 * 1024;
/// The maximum length of a word. The rest of a longer word is dropped.
const MAX_WORD_BYTES: usize = 64;
/// A search term of at least this length also matches the start of a word.
const MIN_PREFIX: usize = 3;
/// The minimum length of a part of an id that can be used to find it.
const MIN_ID: usize = 4;
/// The length of an id's short form, which consists of the last digits. Lists show the short form,
/// and users type its start.
pub const SHORT_ID: usize = 8;

/// The distinct words of some texts, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TermSet(Vec<String>);

/// The search terms of a stream, apart from its id. A search for words also matches the stream's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SearchTerms {
    pub name: TermSet,
    pub words: TermSet,
    /// The search terms of the stream's parts, such as the members of a team.
    pub parts: TermSet,
}

/// A search query. All of its terms must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermQuery(Vec<String>);

/// The search criterion by which streams are looked up.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    Words(&'a TermQuery),
    Parts(&'a TermQuery),
    /// A complete name, the start or end of an id, or the start of an id's short form. The result
    /// may contain false matches, so the caller must compare.
    Name(&'a str),
}

impl TermSet {
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> TermSet {
        let (mut words, mut known) = (Vec::new(), BTreeSet::new());
        for text in texts {
            for word in split(clip(text, MAX_INDEXED_BYTES)) {
                if words.len() == MAX_WORDS {
                    return TermSet(words);
                }
                if known.insert(word.clone()) {
                    words.push(word);
                }
            }
        }
        TermSet(words)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the form that is stored in an index.
    pub(crate) fn text(&self) -> String {
        self.0.join(" ")
    }
}

impl TermQuery {
    /// Parses a user's query. `None` if it contains no words.
    pub fn new(text: &str) -> Option<TermQuery> {
        let TermSet(words) = TermSet::from_texts([text]);
        (!words.is_empty()).then_some(TermQuery(words))
    }

    /// Whether all terms match these words.
    pub fn matches(&self, words: &TermSet) -> bool {
        self.matches_any_of([words])
    }

    pub(crate) fn matches_any_of<const N: usize>(&self, all: [&TermSet; N]) -> bool {
        let is_there = |term: &String| {
            all.iter().any(|words| words.iter().any(|word| term_matches(term, word)))
        };
        self.0.iter().all(is_there)
    }

    /// Returns the query for the SQLite index.
    pub(crate) fn query(&self) -> String {
        let terms = self.0.iter().map(|term| {
            if term.len() >= MIN_PREFIX { format!("\"{term}\" *") } else { format!("\"{term}\"") }
        });
        terms.collect::<Vec<_>>().join(" AND ")
    }
}

/// A name, both as words and as part of an id.
pub(crate) struct NameQuery {
    pub(crate) words: TermSet,
    pub(crate) id: Option<String>,
}

impl NameQuery {
    pub(crate) fn new(text: &str) -> NameQuery {
        let plain = plain_id(text);
        let is_id = plain.len() >= MIN_ID && plain.bytes().all(|byte| byte.is_ascii_alphanumeric());
        NameQuery { words: TermSet::from_texts([text]), id: is_id.then_some(plain) }
    }

    /// Whether a stream may match.
    pub(crate) fn matches(&self, key: &str, found_by: &SearchTerms) -> bool {
        let named = !self.words.is_empty()
            && self.words.iter().all(|word| found_by.name.iter().any(|known| known == word));
        let plain = plain_id(key);
        let is_id = |id: &String| {
            let id = id.as_str();
            plain.starts_with(id) || plain.ends_with(id) || short_id(&plain).starts_with(id)
        };
        named || self.id.as_ref().is_some_and(is_id)
    }

    /// Returns the query for the SQLite index. `None` if nothing can match.
    pub(crate) fn query(&self) -> Option<String> {
        let words: Vec<String> = self.words.iter().map(|word| format!("\"{word}\"")).collect();
        let by_words = (!words.is_empty()).then(|| format!("name : ({})", words.join(" AND ")));
        let by_id =
            self.id.as_ref().map(|id| format!("ids : (\"{id}\" * OR \"{}\" *)", reversed(id)));
        match (by_words, by_id) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one),
            (Some(words), Some(id)) => Some(format!("({words} OR {id})")),
        }
    }
}

/// Returns the text under which an index stores a stream's key: the key itself, its reverse, and
/// its short form.
pub(crate) fn id_index_text(key: &str) -> String {
    let plain = plain_id(key);
    format!("{plain} {} {}", reversed(&plain), short_id(&plain))
}

/// Returns the last digits of an id.
fn short_id(plain: &str) -> &str {
    let start = plain.len().saturating_sub(SHORT_ID);
    plain.get(start..).unwrap_or(plain)
}

fn plain_id(text: &str) -> String {
    let kept = text.chars().filter(|letter| *letter != '-');
    kept.collect::<String>().to_lowercase()
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

fn term_matches(term: &str, word: &str) -> bool {
    term == word || (term.len() >= MIN_PREFIX && word.starts_with(term))
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(|word| clip(&word.to_lowercase(), MAX_WORD_BYTES).to_owned())
}

fn clip(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_unique() {
        let words = TermSet::from_texts(["Rate-Limits: a_b", "ÜBER limits"]);
        assert_eq!(words.text(), "rate limits a b über");
        assert_eq!(TermSet::from_texts(["…!"]), TermSet::default());
    }

    #[test]
    fn word_count_is_limited() {
        let long: String = (0..10_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(TermSet::from_texts([long.as_str()]).iter().count(), MAX_WORDS);
        let one = "é".repeat(1_000);
        assert!(TermSet::from_texts([one.as_str()]).text().len() <= MAX_WORD_BYTES);
    }

    #[test]
    fn all_terms_must_match_and_prefixes_count() {
        let words = TermSet::from_texts(["limit how often each caller may call"]);
        let fits = |text: &str| TermQuery::new(text).is_some_and(|sought| sought.matches(&words));
        assert!(fits("LIM call") && fits("caller may"));
        assert!(!fits("limit nobody") && !fits("ca"), "two letters are too short for a prefix");
        assert_eq!(TermQuery::new(" -- "), None);
    }

    #[test]
    fn query_quotes_user_input() {
        let sought =
            TermQuery::new("a OR \"b\" NEAR(c) words:* limits").map(|sought| sought.query());
        let expected = r#""a" AND "or" AND "b" AND "near" * AND "c" AND "words" * AND "limits" *"#;
        assert_eq!(sought.as_deref(), Some(expected));
    }

    #[test]
    fn name_may_be_start_or_end_of_an_id() {
        let key = "0199aa11-0000-7000-8000-0000deadbeef";
        let finds = |text: &str| NameQuery::new(text).matches(key, &SearchTerms::default());
        assert!(finds("deadbeef") && finds("0199aa11-0000") && finds("BEEF"));
        assert!(!finds("eef") && !finds("aa11") && !finds("---"));
    }
}
