//! The commands in the documents can be parsed by the real command line.

use std::{fs, path::Path};

use super::hints::is_valid_hint;

/// Generated documents, whose commands come from the program itself.
const GENERATED: &[&str] = &["cli.md", "configuration.md", "words.md"];

/// Returns the commands in the code blocks of a document. In a block with prompts, the other lines
/// are output.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    blocks.flat_map(commands_of_block).collect()
}

fn commands_of_block(block: &str) -> Vec<String> {
    let lines: Vec<&str> = block.lines().skip(1).collect();
    let typed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let lines = if typed.is_empty() { lines } else { typed };
    lines.into_iter().filter(|line| line.starts_with("provost ")).map(as_typed).collect()
}

/// Removes the comment or the explanation beside a command, and the brackets around optional parts.
fn as_typed(line: &str) -> String {
    // Two spaces separate a command from its explanation, and sometimes from aligned options.
    let mut parts = line.split("  ").filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default().to_owned();
    let is_argument = |part: &&str| part.trim_start().starts_with('-');
    let command = parts.take_while(is_argument).fold(first, |all, part| format!("{all} {part}"));
    let words = command.split(' ').map(|word| match word.strip_prefix('[') {
        Some(optional) => optional.split(['|', ']']).next().unwrap_or_default(),
        None => word,
    });
    words.collect::<Vec<_>>().join(" ").replace('"', "'").trim_end_matches(']').to_owned()
}

#[test]
fn commands_in_the_documents_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for dir in ["docs", "docs/guides"] {
        let entries = fs::read_dir(root.join(dir)).unwrap().flatten().map(|entry| entry.path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    let mut seen = 0;
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if GENERATED.contains(&name.as_str()) {
            continue;
        }
        for command in commands(&fs::read_to_string(&file).unwrap()) {
            seen += 1;
            if !is_valid_hint(&command) {
                wrong.push(format!("{name}: {command}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} commands found");
}

#[test]
fn explanations_and_brackets_are_removed() {
    assert_eq!(as_typed("provost ls [--runs]        list runs"), "provost ls --runs");
    assert_eq!(as_typed("provost graph R [--all|--toml]  the graph"), "provost graph R --all");
    assert_eq!(
        as_typed("provost resolve ID --as failed  --because \"x y\""),
        "provost resolve ID --as failed --because 'x y'"
    );
    assert_eq!(as_typed("provost team ls   # all teams"), "provost team ls");
}
