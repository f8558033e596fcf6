//! Describes the content that needs trust, and what it does.

use provost_api::{ApiError, ErrorCode};
use provost_trust::{ContentChange, ContentEntry, TrustContent, agent_directory};

use super::{TrustSubject, last_trusted};
use crate::{
    environment::Environment,
    ui::{clip, escape_block, escape_line},
};

/// How many entries to list in an error.
const MAX_LISTED: usize = 5;

/// The maximum length of a value in an error.
const MAX_VALUE_WIDTH: usize = 80;

/// Lists everything that needs trust. Compared with the last decision, entries marked `+` are new,
/// entries marked `~` have changed, and entries marked `-` were removed.
pub(crate) fn describe(subject: &TrustSubject, before: &TrustContent) -> Vec<String> {
    let changes = subject.content.changes(before);
    let mark = |file: &str, entry: &ContentEntry| {
        let is = |change: &ContentChange| match change {
            ContentChange::Added { file: of, entry: new } => {
                (of == file && new == entry).then_some('+')
            }
            ContentChange::Changed { file: of, after, .. } => {
                (of == file && after == entry).then_some('~')
            }
            ContentChange::Removed { .. } => None,
        };
        changes.iter().find_map(is).unwrap_or(' ')
    };
    let mut lines = Vec::new();
    for part in &subject.content.parts {
        lines.push(escape_line(&part.file));
        for entry in &part.entries {
            lines.extend(entry_lines(mark(&part.file, entry), &part.file, entry));
        }
    }
    for change in &changes {
        if let ContentChange::Removed { file, entry } = change {
            lines.push(match &entry.key {
                Some(key) => format!("  - {} of {}", escape_line(key), escape_line(file)),
                None if agent_directory(file).is_some() => {
                    format!("  - {} (removed)", escape_line(file))
                }
                None => format!("  - the text of {}, which could not be parsed", escape_line(file)),
            });
        }
    }
    for (commit, part) in subject.committed_parts() {
        let file = escape_line(&part.file);
        lines.push(format!("{file} of commit {commit}, from which worktrees start"));
        for entry in &part.entries {
            lines.extend(entry_lines('+', &part.file, entry));
        }
    }
    lines
}

fn entry_lines(mark: char, file: &str, entry: &ContentEntry) -> Vec<String> {
    let meaning = describe_effect(file, entry.key.as_deref());
    match &entry.key {
        Some(key) => {
            vec![format!(
                "  {mark} {} = {}    # {meaning}",
                escape_line(key),
                escape_line(&entry.value)
            )]
        }
        None => {
            let text = escape_block(&entry.value);
            let head = format!("  {mark} the whole file    # {meaning}");
            std::iter::once(head).chain(text.lines().map(|line| format!("    | {line}"))).collect()
        }
    }
}

/// Describes what an entry does.
pub(crate) fn describe_effect(file: &str, key: Option<&str>) -> &'static str {
    let Some(key) = key else {
        let directory = agent_directory(file).unwrap_or_default();
        let name = file[directory.len()..].trim_start_matches('/');
        return match name {
            ".mcp.json" => "agents start the servers in this file",
            _ if name.starts_with(".codex/") => {
                "Codex reads servers, hooks, rules and settings from this file"
            }
            _ if name.starts_with(".claude/") => {
                "Claude reads hooks, permissions and variables from this file"
            }
            _ => "the file cannot be parsed, so all of it needs trust",
        };
    };
    let key = key
        .strip_prefix("presets.")
        .and_then(|rest| rest.split_once('.'))
        .map_or(key, |(_, set)| set);
    if let Some(Some(effect)) = provost_config::trust_effect(key) {
        return effect;
    }
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        // A section of WORKFLOW.md.
        ["codex", ..] => "decides what Codex may do without asking",
        ["agents", _, "command" | "adapter"] => "the program to run as an agent",
        ["agents", _, "env" | "pass_env", ..] | ["environment", ..] => {
            "environment variables of programs"
        }
        ["hooks", "after_create"] | ["worktree", "setup"] => "runs in every new worktree",
        ["hooks", ..] => "runs when this event occurs",
        ["verify", "checks"] | ["loops", _, "evidence", ..] => "runs to check work",
        ["verify", "keep"] => "decides which files remain for the next check",
        ["worktree", "copy"] => "copies ignored files, such as secrets, to where agents work",
        ["worktree", "enabled"] => "decides whether agents work in your checkout",
        ["workflows", ..] => "decides which verifier runs, and which agents are recommended",
        ["run", "machine_parallel"] => "decides how many agents work at the same time",
        ["verify", "protected"] => "decides which file changes need your approval",
        ["verifiers", ..] => "decides whether work counts as verified",
        ["approvals", ..] => "decides what agents may do without asking",
        ["reactions", ..] | ["policies", ..] => "acts on sessions automatically",
        ["run", "land"] => "decides where finished work goes",
        ["skills", ..] => "directories with skills for agents",
        ["budget", ..] | ["loops", _, "tokens"] => "decides how many tokens agents may use",
        _ => "widens what runs may do",
    }
}

/// Returns the error for starting something in an untrusted project.
pub(super) fn untrusted_error(environment: &Environment, subject: &TrustSubject) -> ApiError {
    let before = last_trusted(environment, subject);
    let changes = subject.content.changes(&before);
    let mut news: Vec<String> = changes.iter().map(describe_change).collect();
    if subject.content.is_empty() && subject.committed.is_some() {
        news.clear();
    }
    news.extend(subject.committed_parts().map(|(commit, part)| {
        let meaning = describe_effect(&part.file, None);
        format!(
            "{} of commit {commit}, from which the work starts ({meaning})",
            escape_line(&part.file)
        )
    }));
    let more = news.len().saturating_sub(MAX_LISTED);
    let mut named = news[..news.len().min(MAX_LISTED)].join("; ");
    if more > 0 {
        named.push_str(&format!("; and {more} more"));
    }
    let path = subject.path.display();
    let why = if before.is_empty() { "is not trusted" } else { "changed since you trusted it" };
    let message = format!("{} {why}: {named}", escape_line(&path.to_string()));
    let next = format!("provost trust {}", subject.argument());
    ApiError::new(ErrorCode::Refused, message).next(next)
}

fn describe_change(change: &ContentChange) -> String {
    let describe = |file: &str, entry: &ContentEntry| {
        let meaning = describe_effect(file, entry.key.as_deref());
        match &entry.key {
            Some(key) => {
                let value = clip(&escape_line(&entry.value), MAX_VALUE_WIDTH);
                format!("{} sets {} = {value} ({meaning})", escape_line(file), escape_line(key))
            }
            None => format!("{} ({meaning})", escape_line(file)),
        }
    };
    match change {
        ContentChange::Added { file, entry }
        | ContentChange::Changed { file, after: entry, .. } => describe(file, entry),
        ContentChange::Removed { file, entry } => match &entry.key {
            Some(key) => format!("{} no longer has {}", escape_line(file), escape_line(key)),
            None if agent_directory(file).is_some() => {
                format!("{} was removed", escape_line(file))
            }
            // The file may still exist: the whole file is an entry only while it cannot be parsed.
            None => {
                format!("{} no longer has the text that could not be parsed", escape_line(file))
            }
        },
    }
}
