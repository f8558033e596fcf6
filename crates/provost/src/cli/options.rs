//! The groups, choices and defaults of options in the help for `run`, `plan` and `spawn`.

use clap::{Arg, Command, builder::PossibleValuesParser};
use provost_config::ConfigKey;
use serde_json::Value;

use crate::adapters::DEFAULT_AGENT;

/// The commands whose options are grouped.
const COMMANDS: [&str; 3] = ["run", "plan", "spawn"];

/// The options in each group, by clap id. The group's heading is shown before its first option.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Task",
        &[
            "spec",
            "name",
            "role",
            "preset",
            "triage",
            "no_triage",
            "no_questions",
            "answers",
            "plan",
            "plan_mode",
            "no_plan",
            "approve_plan",
        ],
    ),
    (
        "Agent",
        &[
            "agent",
            "model",
            "effort",
            "sandbox",
            "approvals",
            "network",
            "codex_path",
            "once",
            "tty",
            "accept_trust",
            "tmux",
            "stdin",
            "keep",
            "env",
            "pass_env",
        ],
    ),
    ("Workspace", &["cwd", "worktree", "no_worktree", "ignore_project_config", "land"]),
    (
        "Checks and review",
        &[
            "check",
            "no_check",
            "allow_empty_diff",
            "exit_zero_completes",
            "no_exit_zero_completes",
            "review_plan",
            "review_task",
            "review_final",
            "cycles",
        ],
    ),
    ("Limits", &["budget", "turns", "time_limit", "parallel", "batch", "stale_after", "settle"]),
    ("Output", &["detach", "wait", "toml", "key"]),
];

/// The options that set a key of the agent's own section, which may differ between agents.
const AGENT_KEYS: &[&str] = &["sandbox", "approvals"];

/// The configuration key that each option sets. The help shows the choices and default of this key.
const KEYS: &[(&str, &str)] = &[
    ("land", "run.land"),
    ("plan_mode", "run.plan"),
    ("batch", "run.batch"),
    ("review_plan", "review.plan"),
    ("review_task", "review.task"),
    ("review_final", "review.final"),
    ("cycles", "review.cycles"),
    ("stale_after", "session.stale_after"),
    ("settle", "session.settle"),
];

/// Whether [`describe`] limits options of this command to the choices of their configuration keys.
pub(super) fn has_choices(command: &str) -> bool {
    COMMANDS.contains(&command)
}

/// Adds groups, choices and defaults to the help for the commands in [`COMMANDS`].
pub(super) fn describe(command: Command) -> Command {
    COMMANDS.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| sub.mut_args(describe_option))
    })
}

fn describe_option(option: Arg) -> Arg {
    let id = option.get_id().to_string();
    let option = match heading(&id) {
        Some(heading) if !option.is_positional() => option.help_heading(heading),
        Some(_) | None => option,
    };
    let Some(key) = config_key(&id) else { return option };
    let option = match key.choices() {
        [] => option,
        choices => option.value_parser(PossibleValuesParser::new(choices)),
    };
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    match key.default_value() {
        Some(Value::String(text)) => option.help(format!("{help} [default: {text}]")),
        Some(value) => option.help(format!("{help} [default: {value}]")),
        None => option,
    }
}

fn heading(id: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(_, options)| options.contains(&id)).map(|(heading, _)| *heading)
}

fn config_key(id: &str) -> Option<&'static ConfigKey> {
    let name = match KEYS.iter().find(|(option, _)| *option == id) {
        Some((_, name)) => (*name).to_owned(),
        None => AGENT_KEYS.contains(&id).then(|| format!("agents.{DEFAULT_AGENT}.{id}"))?,
    };
    provost_config::keys().find(|key| key.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(command: &str) -> Vec<Arg> {
        let root = crate::cli::command();
        let found = root.find_subcommand(command).unwrap();
        found.get_arguments().filter(|option| !option.is_positional()).cloned().collect()
    }

    #[test]
    fn every_option_is_in_a_group() {
        for command in COMMANDS {
            for option in options(command) {
                assert!(option.get_help_heading().is_some(), "{command}: {}", option.get_id());
            }
        }
    }

    #[test]
    fn every_group_option_exists() {
        let all: Vec<Arg> = COMMANDS.iter().flat_map(|command| options(command)).collect();
        for id in GROUPS.iter().flat_map(|(_, options)| *options) {
            assert!(all.iter().any(|option| option.get_id() == id), "{id}");
        }
        for (id, key) in KEYS {
            assert!(all.iter().any(|option| option.get_id() == id), "{id}");
            assert!(config_key(id).is_some(), "{key}");
        }
    }

    /// Options without a default are excluded: repeatable options, which start empty, and values
    /// that belong to a single task.
    #[test]
    fn every_option_with_a_value_shows_its_default() {
        const NONE: [&str; 5] = ["spec", "preset", "answers", "plan", "accept_trust"];
        for command in COMMANDS {
            for option in options(command) {
                let id = option.get_id().as_str();
                let repeats = matches!(option.get_action(), clap::ArgAction::Append);
                if !option.get_action().takes_values() || repeats || NONE.contains(&id) {
                    continue;
                }
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let shown = help.matches("[default: ").count();
                let own = usize::from(!option.get_default_values().is_empty());
                assert_eq!(shown + own, 1, "{command} --{id}: {help}");
            }
        }
    }
}
