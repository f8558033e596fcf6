//! Search terms of streams and events. They are extracted and compared here, so that every ledger
//! finds the same.

use std::collections::BTreeSet;

/// Maximum number of words kept of a stream or an event.
pub const MAX_WORDS: usize = 200;
/// How much of a text is searched for words, in bytes.
pub const MAX_INDEXED_BYTES: usize = 8 * 1024;
/// The longest word; the rest of a longer one is dropped.
const MAX_WORD_BYTES: usize = 64;
/// A search term of at least this length also matches the start of a word.
const BEGINNING: usize = 3;
/// The shortest part of an id that identifies it.
const MIN_ID: usize = 4;

/// The words of texts: lower-case, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Words(Vec<String>);

/// The search terms of a stream, besides its id. A search for words also matches its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FoundBy {
    pub name: Words,
    pub words: Words,
    /// The search terms of its parts, such as the members of a team.
    pub parts: Words,
}

/// A search query: all its terms must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought(Vec<String>);

/// How to look up streams.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    Words(&'a Sought),
    Parts(&'a Sought),
    /// A whole name, or the start or end of an id. The result may contain false matches; the caller
    /// compares.
    Name(&'a str),
}

impl Words {
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Words {
        let (mut words, mut known) = (Vec::new(), BTreeSet::new());
        for text in texts {
            for word in split(clip(text, MAX_INDEXED_BYTES)) {
                if words.len() == MAX_WORDS {
                    return Words(words);
                }
                if known.insert(word.clone()) {
                    words.push(word);
                }
            }
        }
        Words(words)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The form stored in an index.
    pub(crate) fn text(&self) -> String {
        self.0.join(" ")
    }
}

impl Sought {
    /// Parses a user's query; `None` if it contains no word.
    pub fn new(text: &str) -> Option<Sought> {
        let Words(words) = Words::of([text]);
        (!words.is_empty()).then_some(Sought(words))
    }

    /// Whether all terms match these words.
    pub fn fits(&self, words: &Words) -> bool {
        self.fits_all([words])
    }

    pub(crate) fn fits_all<const N: usize>(&self, all: [&Words; N]) -> bool {
        let is_there =
            |term: &String| all.iter().any(|words| words.iter().any(|word| fits(term, word)));
        self.0.iter().all(is_there)
    }

    /// The query for the SQLite index.
    pub(crate) fn query(&self) -> String {
        let terms = self.0.iter().map(|term| {
            if term.len() >= BEGINNING { format!("\"{term}\" *") } else { format!("\"{term}\"") }
        });
        terms.collect::<Vec<_>>().join(" AND ")
    }
}

/// A name as words, and as a part of an id.
pub(crate) struct Named {
    pub(crate) words: Words,
    pub(crate) id: Option<String>,
}

impl Named {
    pub(crate) fn new(text: &str) -> Named {
        let plain = plain_id(text);
        let is_id = plain.len() >= MIN_ID && plain.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Named { words: Words::of([text]), id: is_id.then_some(plain) }
    }

    /// Whether a stream may match.
    pub(crate) fn fits(&self, key: &str, found_by: &FoundBy) -> bool {
        let named = !self.words.is_empty()
            && self.words.iter().all(|word| found_by.name.iter().any(|known| known == word));
        let plain = plain_id(key);
        let is_id = |id: &String| plain.starts_with(id.as_str()) || plain.ends_with(id.as_str());
        named || self.id.as_ref().is_some_and(is_id)
    }

    /// The query for the SQLite index; `None` if nothing can match.
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

/// The form in which an index stores a stream's key: as it is, and reversed.
pub(crate) fn ids(key: &str) -> String {
    let plain = plain_id(key);
    format!("{plain} {}", reversed(&plain))
}

fn plain_id(text: &str) -> String {
    let kept = text.chars().filter(|letter| *letter != '-');
    kept.collect::<String>().to_lowercase()
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

fn fits(term: &str, word: &str) -> bool {
    term == word || (term.len() >= BEGINNING && word.starts_with(term))
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
    fn words_are_lower_case_and_counted_once() {
        let words = Words::of(["Rate-Limits: a_b", "ÜBER limits"]);
        assert_eq!(words.text(), "rate limits a b über");
        assert_eq!(Words::of(["…!"]), Words::default());
    }

    #[test]
    fn texts_without_end_leave_so_many_words() {
        let long: String = (0..10_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(Words::of([long.as_str()]).iter().count(), MAX_WORDS);
        let one = "é".repeat(1_000);
        assert!(Words::of([one.as_str()]).text().len() <= MAX_WORD_BYTES);
    }

    #[test]
    fn all_that_is_sought_has_to_be_there_and_beginnings_count() {
        let words = Words::of(["limit how often each caller may call"]);
        let fits = |text: &str| Sought::new(text).is_some_and(|sought| sought.fits(&words));
        assert!(fits("LIM call") && fits("caller may"));
        assert!(!fits("limit nobody") && !fits("ca"), "two letters are no beginning");
        assert_eq!(Sought::new(" -- "), None);
    }

    #[test]
    fn a_query_quotes_what_was_typed() {
        let sought = Sought::new("a OR \"b\" NEAR(c) words:* limits").map(|sought| sought.query());
        let expected = r#""a" AND "or" AND "b" AND "near" * AND "c" AND "words" * AND "limits" *"#;
        assert_eq!(sought.as_deref(), Some(expected));
    }

    #[test]
    fn a_name_may_be_the_beginning_or_end_of_an_id() {
        let key = "0199aa11-0000-7000-8000-0000deadbeef";
        let meant = |text: &str| Named::new(text).fits(key, &FoundBy::default());
        assert!(meant("deadbeef") && meant("0199aa11-0000") && meant("BEEF"));
        assert!(!meant("eef") && !meant("aa11") && !meant("---"));
    }
}
