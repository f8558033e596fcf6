//! The reference page of all keys: Markdown generated from the table.

use crate::agent_section::short_variables;
use crate::environment::RESERVED_VARIABLES;
use crate::key::{ConfigKey, Fallback, keys, sections};
use crate::preset;
use crate::shape::ValueShape;
use crate::types::SAFE_VARIABLES;
use crate::workflow;

/// The maximum width of a line outside of tables and code blocks.
const WIDTH: usize = 100;

/// Returns the reference page. A test compares it with the published one.
pub fn reference_markdown() -> String {
    let mut parts: Vec<String> = sections().map(|(prefix, doc)| section(prefix, doc)).collect();
    parts.push(presets());
    parts.push(workflows());
    parts.push(notes());
    parts.join("\n")
}

fn section(prefix: &str, doc: &str) -> String {
    let title = prefix.replace('*', "NAME");
    let rows: String = keys().filter(|key| is_in(key, prefix)).map(row).collect();
    format!(
        "## `[{title}]`\n\n{}\n| key | takes | default | variable | meaning |\n|---|---|---|---|---|\n{rows}",
        paragraph(doc)
    )
}

/// Returns the section about presets. It only lists the keys that presets can set, because these
/// keys are described in their own sections.
fn presets() -> String {
    let names: Vec<String> = preset::settable().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    let text = [
        "Named sets of keys, for `provost run --preset NAME`; `provost presets` shows the result of each. \
         Using a preset is equivalent to passing its keys as flags; explicit flags take precedence.",
        &format!("A preset may set these keys: {names}."),
        "These presets are built in, and a file may change them key by key:",
    ];
    format!("## `[presets.NAME]`\n\n{}\n```toml{}```\n", paragraphs(&text), preset::BUILT_IN)
}

/// Returns the section about built-in workflows.
fn workflows() -> String {
    let text = "These workflows are built in, with their own verifiers, which [monitor.md](monitor.md) describes. \
                A file may change them key by key:";
    format!("## Built-in workflows\n\n{}\n```toml{}```\n", paragraph(text), workflow::BUILT_IN)
}

fn is_in(key: &ConfigKey, prefix: &str) -> bool {
    key.name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
}

fn row(key: &ConfigKey) -> String {
    let below = if key.name.starts_with("loops.") { "EVIDENCE" } else { "VARIABLE" };
    let name = key.name.replacen('*', "NAME", 1).replace('*', below);
    let variable = key.variable().map_or_else(String::new, |variable| format!("`{variable}`"));
    let cells =
        [format!("`{name}`"), takes(key), default(key), variable, key.description().to_owned()];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn takes(key: &ConfigKey) -> String {
    match amount_range(key) {
        Some(range) => format!("{}, {range}", key.takes()),
        None => key.takes(),
    }
}

fn amount_range(key: &ConfigKey) -> Option<String> {
    let shape = (key.shape)();
    let amount = if let ValueShape::OrOff(inner) = &shape { inner } else { &shape };
    let is_amount = matches!(
        amount,
        ValueShape::Duration | ValueShape::Size | ValueShape::Count | ValueShape::Tokens
    );
    is_amount
        .then(|| format!("{} to {}", shape.amount(key.limits.min), shape.amount(key.limits.max)))
}

fn default(key: &ConfigKey) -> String {
    match key.fallback {
        Fallback::Value(text) => format!("`{text}`"),
        Fallback::Unset => "unset".into(),
        Fallback::Required => "required".into(),
    }
}

fn notes() -> String {
    let code = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let short: String = short_variables()
        .map(|(key, variable)| format!("; `{key}` has the short name `{variable}`"))
        .collect();
    let variable = format!(
        "**variable**: `PROVOST_`, then the key in upper case with `_` for each dot; an empty variable \
         counts as unset. `PROVOST_STALE_SECONDS` is a second name for `session.stale_after`, in whole \
         seconds{short}."
    );
    let items = [
        "**duration**: `\"250ms\"`, `\"2s\"`, `\"5m\"`, `\"1h30m\"`, `\"1d\"`, or an integer of seconds.",
        "**size**: `\"64MiB\"`, `\"1GB\"`, or an integer of bytes; units B, KB, MB, GB, TB, KiB, MiB, GiB, TiB.",
        "**number of tokens**: `\"2M\"`, `\"500k\"`, or an integer; units k, M, G.",
        "**price**: a number such as `2` or `1.25`, with at most six decimal places.",
        "**prompt**: text with the placeholders `{{task}}`, `{{goal}}`, `{{base}}` and `{{ended}}`; \
         `{{task}}` or `{{goal}}` is required.",
        "**path**: absolute, `~/…`, or relative. In a file, it is relative to the directory of that file; \
         in a variable or a flag, it is relative to the current directory.",
        "**approval rule**: `\"command: cargo test\"` (its first words), `\"path: docs/\"` (all below it), \
         `\"network: crates.io\"` (a host; `.crates.io` for all below it).",
        "**command**: a string for `sh -c`, or an array of the program and its arguments.",
        "**hook**: a command, or `{ command = …, time_limit = …, output_limit = … }`.",
        "**off**: `false` or `\"off\"`; an empty array for a list. It hides the value of a lower layer.",
        &variable,
    ];
    let text = [
        "A flag overrides an environment variable, which overrides the project's file, which overrides the \
         user's file, which overrides the default. A list or a command replaces the whole value of a lower \
         layer. Agents, reactions, verifiers, workflows, loops and policies are merged name by name, and so \
         are an agent's variables and a loop's evidence.",
        &format!("These variables are not configuration keys: {}.", code(RESERVED_VARIABLES)),
        &format!(
            "Every child process gets these variables, if they are set: {}.",
            code(SAFE_VARIABLES)
        ),
    ];
    let items: String = items.iter().map(|item| wrap(item, "- ", "  ")).collect();
    format!("## Notation\n\n{items}\n{}", paragraphs(&text))
}

/// Joins paragraphs with empty lines.
fn paragraphs(texts: &[&str]) -> String {
    texts.iter().map(|text| paragraph(text)).collect::<Vec<_>>().join("\n")
}

fn paragraph(text: &str) -> String {
    wrap(text, "", "")
}

/// Wraps a text after the last word that fits. Code in backticks is never broken.
fn wrap(text: &str, first: &str, next: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in words(text) {
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && width > WIDTH {
            lines.push_str(&format!("{line}\n"));
            (line, is_empty) = (next.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    format!("{lines}{line}\n")
}

/// Returns the words of a text. Code in backticks belongs to one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_code = false;
    for part in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if in_code => last.push_str(&format!(" {part}")),
            _ => words.push(part.to_owned()),
        }
        in_code ^= part.matches('`').count() % 2 == 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let text = format!("{} `a b`", "word ".repeat(19));
        let wrapped = wrap(&text, "- ", "  ");
        assert_eq!(wrapped, format!("- {}\n  `a b`\n", "word ".repeat(19).trim_end()));
    }

    #[test]
    fn only_tables_and_code_are_wide() {
        let page = reference_markdown();
        let prose = page.split("```").step_by(2).flat_map(str::lines);
        let wide = prose.filter(|line| !line.starts_with('|') && line.chars().count() > WIDTH);
        assert_eq!(wide.collect::<Vec<_>>(), [""; 0]);
    }
}
