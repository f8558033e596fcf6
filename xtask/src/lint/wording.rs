//! Rules for names and prose: odd phrases, vague and repeated type names, and long lines.

use std::{collections::BTreeMap, fs};

use anyhow::{Result, bail};

use crate::{print::print_line, process::capture, workspace::Workspace};

/// Words that comments and documents must not use, each with a better one.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("told", "reported, shown or sent"),
    ("tells", "reports, shows or sends"),
    ("telling", "reporting, showing or sending"),
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
];
/// Pairs of words that comments and documents must not use, each with a better phrase.
const BANNED_PAIRS: &[(&str, &str, &str)] = &[
    ("go", "on", "continue"),
    ("going", "on", "continuing"),
    ("goes", "on", "continues"),
    ("gone", "on", "continued"),
    ("went", "on", "continued"),
    ("comes", "of", "is the result of"),
    ("came", "of", "was the result of"),
    ("says", "whether", "returns true if, or \"Whether …\""),
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
/// Words that no doc comment starts with, with a better opening.
const BANNED_OPENINGS: &[(&str, &str)] =
    &[("Gives", "Returns …"), ("Says", "Whether …, or Returns …")];
/// The maximum width of a line in a document. Tables and code blocks may be wider.
const DOCUMENT_WIDTH: usize = 100;
/// Documents that the program writes.
const GENERATED: &[&str] = &["docs/cli.md", "docs/configuration.md", "docs/words.md"];
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
    let is_code = name.ends_with(".rs");
    let mut problems = Vec::new();
    let mut in_fence = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mut report = |what: String| problems.push(format!("{name}:{}: {what}", at + 1));
        if is_code {
            if let Some(vague) = vague_type(trimmed) {
                report(format!("type {vague} has a vague name; say what it holds"));
            }
            if !trimmed.starts_with("//") {
                continue;
            }
            if line.chars().count() > COMMENT_WIDTH {
                report(format!("comment is wider than {COMMENT_WIDTH} columns"));
            }
            if let Some((opening, better)) = banned_opening(trimmed) {
                report(format!("a doc comment starts with \"{opening}\"; write \"{better}\""));
            }
        } else {
            in_fence ^= trimmed.starts_with("```");
            if in_fence {
                continue;
            }
            let is_table = trimmed.starts_with('|');
            if is_document(name) && !is_table && line.chars().count() > DOCUMENT_WIDTH {
                report(format!("line is wider than {DOCUMENT_WIDTH} columns"));
            }
        }
        if let Some(what) = banned_phrase(line) {
            report(what);
        }
    }
    problems
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

/// Whether a file is a document written by hand, for users or contributors.
fn is_document(name: &str) -> bool {
    let has_place = name.starts_with("docs/") || !name.contains('/');
    has_place && !GENERATED.contains(&name)
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

/// Describes the first banned phrase of a line. Names in backticks and quotations are ignored.
fn banned_phrase(line: &str) -> Option<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let prose: String = prose.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let prose = prose.to_lowercase();
    let words: Vec<&str> = prose
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let word = BANNED_WORDS.iter().find(|(banned, _)| words.contains(banned));
    if let Some((banned, better)) = word {
        return Some(format!("\"{banned}\" reads oddly; write {better}"));
    }
    let has_pair = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    let (first, second, better) =
        BANNED_PAIRS.iter().find(|(first, second, _)| has_pair(first, second))?;
    Some(format!("\"{first} {second}\" reads oddly; write {better}"))
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
        assert_eq!(problems_in("docs/cli.md", &wide), Vec::<String>::new());
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
