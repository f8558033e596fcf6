//! Rules for names, prose and idioms: odd phrases in comments, texts and documents, vague and repeated
//! type names, long lines and paragraphs.

use std::{collections::BTreeMap, fs};

use anyhow::{Result, bail};

use super::strings::string_literals;
use crate::{print::print_line, process::capture, workspace::Workspace};

/// Words that comments, texts and documents must not use, each with a better word.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("tell", "report, show or send"),
    ("told", "reported, shown or sent"),
    ("tells", "reports, shows or sends"),
    ("telling", "reporting, showing or sending"),
    ("stand", "be"),
    ("stands", "is"),
    ("stood", "was"),
    ("owed", "pending"),
    ("owes", "needs"),
    ("owing", "pending"),
    ("mending", "fixing"),
    ("whoever", "the caller, or name the role"),
    ("nobody", "no one, or none"),
    ("somebody", "a user, or name the role"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("whom", "the name of the role"),
];
/// Phrases that contain a banned word and are allowed nevertheless.
const ALLOWED_PHRASES: &[&str] = &["stand-in", "stand in", "by whom"];
/// Pairs of words that comments, texts and documents must not use, each with a better phrase.
const BANNED_PAIRS: &[(&str, &str, &str)] = &[
    ("go", "on", "continue"),
    ("going", "on", "continuing"),
    ("goes", "on", "continues"),
    ("gone", "on", "continued"),
    ("went", "on", "continued"),
    ("come", "of", "be the result of"),
    ("comes", "of", "is the result of"),
    ("came", "of", "was the result of"),
    ("comes", "to", "results in, or reaches"),
    ("came", "to", "resulted in, or reached"),
    ("says", "whether", "returns true if, or \"Whether …\""),
];
/// Words that open a clause after "What" or "Who", where a noun is clearer.
const CLAUSE_VERBS: &[&str] = &[
    "is", "was", "were", "are", "has", "had", "the", "a", "an", "comes", "came", "goes", "may",
    "it", "no", "they",
];
/// Type names that do not describe the content of the type.
const VAGUE_TYPES: &[&str] = &[
    "Told",
    "Found",
    "What",
    "Given",
    "Wanted",
    "Heard",
    "Shown",
    "Meant",
    "Around",
    "Said",
    "Seen",
    "Sought",
    "Known",
    "Held",
    "Owed",
    "Asked",
    "Taken",
    "Kept",
    "Carried",
    "Chosen",
    "Left",
    "Lost",
    "Gone",
    "Done",
    "Made",
    "Sent",
    "Then",
    "Again",
    "Others",
    "Elsewhere",
    "Place",
    "Way",
    "Words",
    "Standing",
    "Look",
    "Looked",
    "Thing",
    "Who",
    "Which",
    "Where",
    "When",
    "How",
    "Opened",
    "Ended",
    "By",
    "Of",
    "Put",
    "Set",
    "Read",
    "Places",
    "Ways",
    "Word",
    "Stand",
    "Theirs",
    "Ours",
    "Mine",
    "Whose",
    "Why",
    "Things",
    "Before",
    "After",
    "Begun",
    "Stuck",
];
/// Types whose whole name is a participle, and that may keep it.
const PARTICIPLE_TYPES: &[&str] =
    &["Connected", "Failed", "Installed", "Killed", "Resolved", "Valued"];
/// Names that several public types of a crate may have, because their module says which one it is.
const SHARED_TYPES: &[&str] = &["Error"];
/// Words with which no doc comment may start, each with a better opening.
const BANNED_OPENINGS: &[(&str, &str)] =
    &[("Gives", "Returns …"), ("Says", "Whether …, or Returns …")];
/// The maximum width of a line in a document. Tables and code blocks may be wider.
const DOCUMENT_WIDTH: usize = 100;
/// The maximum number of words in a paragraph or list item of a document.
const PARAGRAPH_WORDS: usize = 80;
/// The maximum width of a comment line in code.
const COMMENT_WIDTH: usize = 120;

/// Checks the Rust files and the documents written by hand.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let mut git = workspace.command("git");
    let list = capture(git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut problems = Vec::new();
    let mut types = PublicTypes::default();
    for name in list.split('\0').filter(|name| name.ends_with(".rs") || name.ends_with(".md")) {
        // Skip files that are deleted but not yet committed, and recordings.
        let Ok(text) = fs::read_to_string(workspace.root.join(name)) else { continue };
        if name.contains("/fixtures/") || name == "xtask/src/lint/wording.rs" {
            continue;
        }
        problems.extend(problems_in(name, &text));
        types.add(name, &text);
    }
    problems.extend(types.repeated());
    print_line(&format!("── wording: {} problems", problems.len()));
    if !problems.is_empty() {
        bail!("\n{}", problems.join("\n"));
    }
    Ok(())
}

fn problems_in(name: &str, text: &str) -> Vec<String> {
    if name.ends_with(".rs") {
        let mut problems = problems_in_code(text);
        if !name.contains("/tests/") && !name.starts_with("crates/testkit/") {
            problems.extend(problems_in_strings(text));
        }
        problems.sort();
        return located(name, problems);
    }
    let mut problems = problems_in_prose(text, is_document(name));
    if is_document(name) {
        problems.extend(long_paragraphs(text));
    }
    located(name, problems)
}

/// Adds the file's name to problems with their line numbers.
fn located(name: &str, problems: Vec<(usize, String)>) -> Vec<String> {
    problems.into_iter().map(|(line, what)| format!("{name}:{line}: {what}")).collect()
}

/// Checks the comments, type names and idioms of a Rust file.
fn problems_in_code(text: &str) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mut report = |what: String| problems.push((at + 1, what));
        if let Some(vague) = vague_type(trimmed) {
            report(format!("type {vague} has a vague name; say what it holds"));
        }
        if !trimmed.starts_with("//") {
            if let Some(what) = banned_idiom(trimmed) {
                report(what.to_owned());
            }
            continue;
        }
        if line.chars().count() > COMMENT_WIDTH {
            report(format!("comment is wider than {COMMENT_WIDTH} columns"));
        }
        if let Some((opening, better)) = banned_opening(trimmed) {
            report(format!("a doc comment starts with \"{opening}\"; write \"{better}\""));
        }
        if let Some(what) = banned_phrase(trimmed.trim_start_matches(['/', '!'])) {
            report(what);
        }
    }
    problems
}

/// Checks the errors, prompts and other texts of a Rust file.
fn problems_in_strings(text: &str) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for literal in string_literals(text) {
        // Single words are names.
        let lines = literal.text.lines().filter(|line| line.trim().contains(' '));
        problems.extend(lines.filter_map(banned_phrase).map(|what| (literal.line, what)));
    }
    problems
}

/// Checks the lines of a Markdown file outside of code blocks.
fn problems_in_prose(text: &str, is_document: bool) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let mut in_fence = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        in_fence ^= trimmed.starts_with("```");
        if in_fence {
            continue;
        }
        let is_table = trimmed.starts_with('|');
        if is_document && !is_table && line.chars().count() > DOCUMENT_WIDTH {
            problems.push((at + 1, format!("line is wider than {DOCUMENT_WIDTH} columns")));
        }
        problems.extend(banned_phrase(line).map(|what| (at + 1, what)));
    }
    problems
}

/// Finds the paragraphs and list items of a Markdown file that are too long.
fn long_paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    let (mut in_fence, mut start, mut words) = (false, 1, 0);
    // The empty line at the end closes the last paragraph.
    for (at, line) in text.lines().chain([""]).enumerate() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```");
        in_fence ^= is_fence;
        let is_prose = !in_fence && !is_fence && !trimmed.starts_with(['|', '#']);
        if !is_prose || trimmed.is_empty() || is_list_item(trimmed) {
            if words > PARAGRAPH_WORDS {
                let what =
                    format!("paragraph has {words} words, more than {PARAGRAPH_WORDS}; split it");
                problems.push((start, what));
            }
            (start, words) = (at + 1, 0);
        }
        if is_prose {
            words += trimmed.split_whitespace().count();
        }
    }
    problems
}

fn is_list_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (rest != line && rest.starts_with(". "))
}

/// Describes an unusual idiom on a line of code, if the line contains one.
fn banned_idiom(line: &str) -> Option<&'static str> {
    if line.contains(".filter(|_|") {
        return Some("`.filter(|_| …)` hides a condition; use `then_some`, let-else or a loop");
    }
    if line.starts_with("true =>") {
        return Some("`match` on a bool; use `if` and `else`");
    }
    packs_arguments(line).then_some("a tuple packs two values; use a struct")
}

/// Whether a line declares a parameter or field that is a tuple of types, such as `key: (A, u32),`.
fn packs_arguments(line: &str) -> bool {
    let Some((name, rest)) = line.split_once(": (") else { return false };
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || "_(), ".contains(letter));
    let first = rest.trim_start_matches(['&', '(']).trim_start_matches("mut ");
    let Some((types, end)) = rest.rsplit_once(')') else { return false };
    is_name
        && first.starts_with(|letter: char| letter.is_ascii_uppercase())
        && types.contains(", ")
        && !types.contains(['<', '{', '=', '.', '"', ':'])
        && (end.is_empty() || end.starts_with([',', ')']))
}

/// Returns the name of a type that is defined on this line, if it is a vague one.
fn vague_type(line: &str) -> Option<&str> {
    let mut words = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    words.find(|word| ["struct", "enum", "trait", "type", "union"].contains(word))?;
    let defines = line.starts_with("pub")
        || ["struct ", "enum ", "trait ", "type "].iter().any(|word| line.starts_with(word));
    let name = words.next()?;
    let is_vague =
        VAGUE_TYPES.contains(&name) || (is_participle(name) && !PARTICIPLE_TYPES.contains(&name));
    (defines && is_vague).then_some(name)
}

/// Whether a name is a single word such as `Resolved`.
fn is_participle(name: &str) -> bool {
    name.ends_with("ed") && name.chars().filter(char::is_ascii_uppercase).count() == 1
}

/// Whether a file is a document for users or contributors.
fn is_document(name: &str) -> bool {
    name.starts_with("docs/") || !name.contains('/')
}

fn banned_opening(comment: &str) -> Option<(&'static str, &'static str)> {
    let text = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"))?;
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if words.next() == Some("up") {
        return None;
    }
    BANNED_OPENINGS.iter().copied().find(|(banned, _)| *banned == first)
}

/// The places where each crate defines a public type of a name.
#[derive(Default)]
struct PublicTypes {
    places: BTreeMap<(String, String), Vec<String>>,
}

impl PublicTypes {
    fn add(&mut self, file: &str, text: &str) {
        let Some((package, _)) = file.split_once("/src/") else { return };
        for (at, line) in text.lines().enumerate() {
            let mut words = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            let is_type = words.next() == Some("pub")
                && matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union"));
            if !is_type {
                continue;
            }
            let Some(name) = words.next() else { continue };
            let key = (package.to_owned(), name.to_owned());
            self.places.entry(key).or_default().push(format!("{file}:{}", at + 1));
        }
    }

    fn repeated(&self) -> Vec<String> {
        let several = self.places.iter().filter(|((_, name), places)| {
            places.len() > 1 && !SHARED_TYPES.contains(&name.as_str())
        });
        several
            .map(|((_, name), places)| {
                format!("{}: the crate has another public type {name}", places.join(", "))
            })
            .collect()
    }
}

/// Describes the first banned phrase of a line. Names in backticks, braces and quotations are ignored.
fn banned_phrase(line: &str) -> Option<String> {
    let mut prose = line.to_owned();
    for quote in ['`', '"'] {
        prose = prose.split(quote).step_by(2).collect::<Vec<_>>().join(" x ");
    }
    let outside_braces = prose.split('{').map(|part| part.rsplit('}').next().unwrap_or_default());
    let prose = outside_braces.collect::<Vec<_>>().join(" x ");
    let sentences: Vec<&str> = prose.split_inclusive(['.', '?', '!', ';', ':', '(']).collect();
    if let Some(opening) = sentences.iter().copied().find_map(noun_clause) {
        return Some(format!("a clause starts with \"{opening}\"; name the noun"));
    }
    let lower_case = prose.to_lowercase();
    let allowed = ALLOWED_PHRASES.iter();
    let rest = allowed.fold(lower_case, |rest, phrase| rest.replace(phrase, "x"));
    let words: Vec<&str> = rest
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let word = BANNED_WORDS.iter().find(|(banned, _)| words.contains(banned));
    if let Some((banned, better)) = word {
        return Some(format!("\"{banned}\" reads oddly; write {better}"));
    }
    let has_pair = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    let pair = BANNED_PAIRS.iter().find(|(first, second, _)| has_pair(first, second));
    if let Some((first, second, better)) = pair {
        return Some(format!("\"{first} {second}\" reads oddly; write {better}"));
    }
    sentences.iter().find_map(|sentence| {
        let words: Vec<&str> = sentence.split_whitespace().collect();
        (0..words.len()).find_map(|at| banned_quantity(&words, at))
    })
}

/// Returns the first two words of a sentence such as "What was sent is lost."
fn noun_clause(sentence: &str) -> Option<String> {
    let mut words = sentence.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    let is_clause = ["What", "Who", "Whose"].contains(&first) && CLAUSE_VERBS.contains(&second);
    (is_clause && !sentence.trim_end().ends_with('?')).then(|| format!("{first} {second}"))
}

/// Describes "is no X", "so many" or "so long as" at a word of a line.
fn banned_quantity(words: &[&str], at: usize) -> Option<String> {
    let word = |offset: usize| words.get(at + offset).copied().unwrap_or_default();
    let before = at.checked_sub(1).map_or("", |before| words[before]);
    match (word(0), word(1), word(2)) {
        ("is" | "are" | "was" | "were", "no" | "none", after)
            if !before.eq_ignore_ascii_case("there") && !["longer", "more"].contains(&after) =>
        {
            Some(format!("\"{} {}\" reads oddly; write is not a …", word(0), word(1)))
        }
        ("so", "many" | "much", after) if !["that", "as"].contains(&after) => {
            Some(format!("\"so {}\" reads oddly; write the number", word(1)))
        }
        ("so", "long", "as") => Some("\"so long as\" reads oddly; write as long as".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_phrases_are_found_in_comments_and_documents() {
        assert_eq!(problems_in("a.rs", "// It is told.").len(), 1);
        assert_eq!(problems_in("a.md", "The work goes on.").len(), 1);
        assert_eq!(problems_in("a.rs", "let told = 1;"), Vec::<String>::new());
        assert_eq!(problems_in("a.rs", "// The event `usage.told`."), Vec::<String>::new());
        assert_eq!(problems_in("a.md", "```\nnobody\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn vague_type_names_are_found() {
        assert_eq!(problems_in("a.rs", "pub struct Told {").len(), 1);
        assert_eq!(problems_in("a.rs", "enum Place {").len(), 1);
        assert_eq!(problems_in("a.rs", "struct PlaceOfWork;"), Vec::<String>::new());
    }

    #[test]
    fn participles_are_vague_type_names() {
        assert_eq!(problems_in("a.rs", "pub(crate) enum Dispatched {").len(), 1);
        assert_eq!(problems_in("a.rs", "struct DispatchedTask;"), Vec::<String>::new());
    }

    #[test]
    fn wide_lines_of_documents_are_found() {
        let wide = "x".repeat(DOCUMENT_WIDTH + 1);
        assert_eq!(problems_in("docs/a.md", &wide).len(), 1);
        assert_eq!(problems_in("README.md", &wide).len(), 1);
        for allowed in [format!("| {wide} |"), format!("```\n{wide}\n```")] {
            assert_eq!(problems_in("docs/a.md", &allowed), Vec::<String>::new());
        }
    }

    #[test]
    fn long_paragraphs_of_documents_are_found() {
        let sentence = "Five words are in it.\n";
        assert_eq!(problems_in("docs/a.md", &sentence.repeat(17)).len(), 1);
        assert_eq!(problems_in("docs/a.md", &sentence.repeat(16)), Vec::<String>::new());
        let items = format!("- {sentence}").repeat(17);
        assert_eq!(problems_in("docs/a.md", &items), Vec::<String>::new());
        assert_eq!(problems_in("crates/a/README.md", &sentence.repeat(17)), Vec::<String>::new());
    }

    #[test]
    fn banned_phrases_are_found_in_texts() {
        assert_eq!(problems_in("a.rs", "let a = \"it is no file\";").len(), 1);
        assert_eq!(problems_in("a.rs", "let a = \"nobody\";"), Vec::<String>::new());
        assert_eq!(problems_in("a.rs", "f(\"there is no file\")"), Vec::<String>::new());
        assert_eq!(problems_in("a/tests/a.rs", "f(\"it is no file\")"), Vec::<String>::new());
    }

    #[test]
    fn clauses_and_quantities_are_found() {
        for odd in
            ["What was sent is lost.", "so many lines", "so long as it runs", "It is none of them."]
        {
            assert_eq!(problems_in("a.md", odd).len(), 1, "{odd}");
        }
        for plain in ["What is a run?", "so many that it fails", "there are none", "is no longer"] {
            assert_eq!(problems_in("a.md", plain), Vec::<String>::new(), "{plain}");
        }
    }

    #[test]
    fn odd_idioms_are_found() {
        for odd in ["found.filter(|_| open)", "    true => 1,", "    key: (Subject, EffectKey),"] {
            assert_eq!(problems_in("a.rs", odd).len(), 1, "{odd}");
        }
        for plain in ["found.filter(|one| open)", "at: (u32, u32),", "x: f(A, B),"] {
            assert_eq!(problems_in("a.rs", plain), Vec::<String>::new(), "{plain}");
        }
    }

    #[test]
    fn doc_comments_have_plain_openings() {
        assert_eq!(problems_in("a.rs", "/// Gives the newest one.").len(), 1);
        assert_eq!(problems_in("a.rs", "/// Gives up a lease."), Vec::<String>::new());
    }

    #[test]
    fn repeated_public_types_of_a_crate_are_found() {
        let mut types = PublicTypes::default();
        types.add("crates/a/src/x.rs", "pub struct Row;\npub enum Error {}\nstruct Own;\n");
        types.add("crates/a/src/y.rs", "pub struct Row;\npub enum Error {}\nstruct Own;\n");
        types.add("crates/b/src/x.rs", "pub struct Row;\n");
        assert_eq!(types.repeated().len(), 1, "{:?}", types.repeated());
    }

    #[test]
    fn wide_comments_are_found() {
        assert_eq!(problems_in("a.rs", &format!("// {}", "x".repeat(COMMENT_WIDTH))).len(), 1);
    }
}
