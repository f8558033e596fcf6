//! The reference page of all keys: Markdown generated from the table.

use crate::environment::RESERVED_VARIABLES;
use crate::key::{ConfigKey, Fallback, keys};
use crate::preset;
use crate::shape::ValueShape;
use crate::table::SECTIONS;
use crate::types::SAFE_VARIABLES;
use crate::workflow;

/// Returns the reference page. A test compares it with the published one.
pub fn reference_markdown() -> String {
    let sections = SECTIONS.iter().map(|(prefix, doc)| section(prefix, doc));
    let mut parts: Vec<String> = sections.collect();
    parts.push(presets());
    parts.push(workflows());
    parts.push(notes());
    parts.join("\n")
}

fn section(prefix: &str, doc: &str) -> String {
    let title = prefix.replace('*', "NAME");
    let rows: String = keys().filter(|key| is_in(key, prefix)).map(row).collect();
    format!(
        "## `[{title}]`\n\n{}\n\n| key | takes | default | variable | meaning |\n|---|---|---|---|---|\n{rows}",
        doc.trim()
    )
}

/// Returns the section about presets. It only lists the keys that presets can set, because these
/// keys are described in their own sections.
fn presets() -> String {
    let names = preset::PRESET_KEYS.map(|name| format!("`{name}`")).join(", ");
    format!(
        "## `[presets.NAME]`\n\nNamed sets of keys, for `provost run --preset NAME`; `provost presets` shows the result of each. \
         Using a preset is equivalent to passing its keys as flags; explicit flags take precedence. A preset may set {names}. The following presets \
         are built in, and a file may override their keys one by one:\n\n```toml{}```\n",
        preset::BUILT_IN
    )
}

/// Returns the section about built-in workflows.
fn workflows() -> String {
    format!(
        "## Built-in workflows\n\nThe following workflows are built in, and so are their verifiers, which [monitor.md](monitor.md) \
         describes. A file may override their keys one by one:\n\n```toml{}```\n",
        workflow::BUILT_IN
    )
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
    format!(
        "## Notation\n\n\
         - **duration**: `\"250ms\"`, `\"2s\"`, `\"5m\"`, `\"1h30m\"`, `\"1d\"`, or an integer of seconds.\n\
         - **size**: `\"64MiB\"`, `\"1GB\"`, or an integer of bytes; units B, KB, MB, GB, TB, KiB, MiB, GiB, TiB.\n\
         - **number of tokens**: `\"2M\"`, `\"500k\"`, or an integer; units k, M, G.\n\
         - **price**: a number such as `2` or `1.25`, with at most six decimal places.\n\
         - **prompt**: a text with the placeholders `{{{{task}}}}`, `{{{{goal}}}}`, `{{{{base}}}}` and `{{{{ended}}}}`; \
         `{{{{task}}}}` or `{{{{goal}}}}` is required.\n\
         - **path**: absolute, `~/…`, or relative to the file that names it; in a variable or a flag, to the current directory.\n\
         - **approval rule**: `\"command: cargo test\"` (its first words), `\"path: docs/\"` (all below it), \
           `\"network: crates.io\"` (a host; `.crates.io` for all below it).\n\
         - **command**: a string for `sh -c`, or an array of the program and its arguments.\n\
         - **hook**: a command, or `{{ command = …, time_limit = …, output_limit = … }}`.\n\
         - **off**: `false` or `\"off\"`; an empty array for a list. Off hides what a lower layer set.\n\
         - **variable**: `PROVOST_`, then the key in upper case with `_` for each dot; an empty one counts as unset. \
           `PROVOST_STALE_SECONDS` is a second name for `session.stale_after`, in whole seconds; `agents.codex.path` \
           has the short name `PROVOST_CODEX`.\n\n\
         Precedence: flag, environment, project, user, default. Lists and commands replace those of a lower layer; \
         agents, reactions, verifiers, workflows, loops and policies are merged name by name, and so are the variables of agents and the evidence of loops.\n\n\
         These variables are not configuration keys: {}.\n\n\
         Variables that every child process gets, if they are set: {}.\n",
        code(RESERVED_VARIABLES),
        code(SAFE_VARIABLES)
    )
}
