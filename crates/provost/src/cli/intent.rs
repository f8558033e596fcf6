//! Suggestions for words that are not commands but have an obvious meaning, such as `delete`.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use provost_api::ApiError;

use crate::error::usage;

/// Words that are not commands, and the commands that the user probably meant.
struct Intent {
    words: &'static [&'static str],
    commands: &'static [&'static str],
    /// A note about the suggested command, if its effect is not obvious from its name.
    note: &'static str,
}

const fn intent(
    words: &'static [&'static str],
    commands: &'static [&'static str],
    note: &'static str,
) -> Intent {
    Intent { words, commands, note }
}

/// All known words. If a word is also a command, the entry of the word is never used, so the table can contain names of
/// former and future commands.
const INTENTS: &[Intent] = &[
    intent(
        &["delete", "remove", "rm", "del", "clean", "cleanup", "prune", "purge"],
        &["provost gc"],
        ", which lists removable data",
    ),
    intent(&["abort", "quit", "end"], &["provost cancel ID"], ""),
    intent(&["terminate", "halt", "shutdown"], &["provost stop ID"], ""),
    intent(&["undo", "revert", "dismiss", "clear", "archive"], &["provost resolve ID"], ""),
    intent(&["sessions", "runs", "jobs", "tasks"], &["provost ls"], ""),
    intent(&["todo", "pending", "questions", "requests"], &["provost status"], ""),
    intent(&["cost", "usage", "tokens", "stats"], &["provost summary RUN"], ""),
    intent(&["rerun", "redo"], &["provost resume ID"], ""),
    intent(
        &["start", "create", "launch", "exec"],
        &["provost run GOAL", "provost spawn -- COMMAND"],
        "",
    ),
    intent(&["ask", "do", "fix", "build"], &["provost run GOAL"], ""),
    intent(&["show", "info", "inspect", "describe", "get", "view"], &["provost status ID"], ""),
    intent(&["why", "explain"], &["provost status ID --why"], ""),
    intent(&["top", "watch", "dashboard"], &["provost status ID --watch", "provost events -f"], ""),
    intent(&["continue", "retry", "unpause"], &["provost resume ID"], ""),
    intent(&["pause", "suspend"], &["provost interrupt ID"], ""),
    intent(
        &["message", "msg", "tell", "say", "prompt", "chat", "write"],
        &["provost send ID TEXT"],
        "",
    ),
    intent(&["reply", "respond"], &["provost answer ID TEXT"], ""),
    intent(&["accept", "allow", "yes", "confirm"], &["provost approve ID"], ""),
    intent(&["reject", "refuse", "no"], &["provost deny ID"], ""),
    intent(&["history", "timeline"], &["provost events"], ""),
    intent(&["output", "cat"], &["provost logs ID"], ""),
    intent(&["open", "connect", "enter", "screen"], &["provost attach ID"], ""),
    intent(&["join", "await", "follow"], &["provost monitor ID"], ""),
    intent(&["find", "grep"], &["provost search TEXT"], ""),
    intent(&["agents", "scan"], &["provost discover"], ""),
    intent(
        &["merge", "land", "apply", "diff", "changes", "path", "worktree", "cd", "checkout"],
        &["provost status RUN"],
        ", which shows the branch to merge",
    ),
    intent(&["check-setup", "verify", "diagnose"], &["provost doctor"], ""),
    intent(&["settings", "set", "init", "setup", "configure"], &["provost config show"], ""),
    intent(&["exit-codes"], &["provost help exit-codes"], ""),
    intent(&["version"], &["provost --version"], ""),
    intent(&["completion"], &["provost completions"], ""),
    intent(&["topics", "man", "docs"], &["provost help"], ""),
    intent(&["pair"], &["provost team start GOAL --worker codex"], ""),
    intent(&["task", "cycle"], &["provost team show"], ""),
    intent(&["inbox"], &["provost team next"], ""),
    intent(&["criteria"], &["provost team criterion ls"], ""),
    intent(&["check"], &["provost team prove"], ""),
    intent(&["loop"], &["provost team loop status"], ""),
    intent(&["manager"], &["provost team contract show"], ""),
    intent(&["finish"], &["provost team done --because TEXT"], ""),
    intent(&["handoff"], &["provost team handoff TEAM"], ""),
    intent(&["report-card"], &["provost summary RUN"], ""),
];

/// Returns an error with suggestions if an unknown command has a known meaning.
pub(super) fn explain(error: &clap::Error, first: Option<&OsStr>) -> Option<ApiError> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // Only the first word of the command line is looked up, because all other words belong to a
    // command.
    if first.is_some_and(|first| first != OsStr::new(word)) {
        return None;
    }
    let intent = INTENTS.iter().find(|intent| intent.words.contains(&word.as_str()))?;
    let quoted: Vec<String> =
        intent.commands.iter().map(|command| format!("`{command}`")).collect();
    let message =
        format!("there is no command \"{word}\"; use {}{}", quoted.join(" or "), intent.note);
    Some(usage(message).next_all(intent.commands.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::hints::is_valid_hint;

    #[test]
    fn suggested_commands_parse() {
        let command = crate::cli::command();
        for intent in INTENTS {
            // An entry is not used while one of its words is a command.
            if intent.words.iter().any(|word| command.find_subcommand(word).is_some()) {
                continue;
            }
            for hint in intent.commands {
                let with_arguments = format!("{hint} …");
                let valid = is_valid_hint(hint) || is_valid_hint(&with_arguments);
                assert!(valid, "{:?}: {hint}", intent.words);
            }
        }
    }

    #[test]
    fn words_have_one_meaning() {
        let mut words: Vec<&str> = INTENTS.iter().flat_map(|one| one.words).copied().collect();
        words.sort_unstable();
        let all = words.len();
        words.dedup();
        assert_eq!(words.len(), all);
    }
}
