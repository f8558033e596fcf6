//! Rules for names and prose: phrases that readers stumble over, vague type names, long lines.

use std::fs;

use anyhow::{Result, bail};

use crate::{print::print_line, process::capture, workspace::Workspace};

/// Words that no comment or document uses, with a better one.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("told", "reported, shown or sent"),
    ("whoever", "the caller, or name the role"),
    ("nobody", "no one, or none"),
    ("somebody", "a user, or name the role"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
];
/// Pairs of words that no comment or document uses, with a better phrase.
const BANNED_PAIRS: &[(&str, &str, &str)] = &[
    ("goes", "on", "continues"),
    ("gone", "on", "continued"),
    ("went", "on", "continued"),
    ("comes", "of", "is the result of"),
    ("came", "of", "was the result of"),
    ("says", "whether", "returns true if, or \"Whether …\""),
];
/// Type names that say nothing about what the type holds.
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
];
/// The maximum width of a comment line in code.
const COMMENT_WIDTH: usize = 120;

/// Checks the Rust files and the documents written by hand.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let mut git = workspace.command("git");
    let list = capture(git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut problems = Vec::new();
    for name in list.split('\0').filter(|name| name.ends_with(".rs") || name.ends_with(".md")) {
        // Skip files that are deleted but not yet committed, and recordings.
        let Ok(text) = fs::read_to_string(workspace.root.join(name)) else { continue };
        if name.contains("/fixtures/") || name == "xtask/src/lint/wording.rs" {
            continue;
        }
        problems.extend(problems_in(name, &text));
    }
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
        } else {
            in_fence ^= trimmed.starts_with("```");
            if in_fence {
                continue;
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
    (defines && VAGUE_TYPES.contains(&name)).then_some(name)
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
    fn wide_comments_are_found() {
        assert_eq!(problems_in("a.rs", &format!("// {}", "x".repeat(COMMENT_WIDTH))).len(), 1);
    }
}
