//! `provost help`: the commands in groups, their aliases, and the help topics.

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, CommandFactory as _, ValueEnum as _, error::ErrorKind};
use provost_api::ApiError;

use super::{Cli, CliResult, intent, options};
use crate::{
    commands::{exit_codes, guide},
    context::Context,
    error::usage,
};

/// Show the help of a command, or a topic
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost help --all\n  provost help run\n  provost help exit-codes\n  provost help managing"
)]
pub(crate) struct HelpArgs {
    /// Command, or topic: exit-codes, managing, review, member or loops [default: common commands]
    #[arg(value_name = "COMMAND")]
    subject: Vec<String>,
    /// List every command
    #[arg(long, conflicts_with = "subject")]
    all: bool,
}

/// A group of commands in the help text.
struct CommandGroup {
    title: &'static str,
    /// Commands that are shown by `provost --help`.
    common: &'static [&'static str],
    /// Commands that are shown only by `provost help --all`.
    more: &'static [&'static str],
}

/// Every command that is not hidden, by group. When a command is added or renamed, only this table changes.
const GROUPS: &[CommandGroup] = &[
    CommandGroup { title: "Start", common: &["run", "spawn", "plan", "serve"], more: &[] },
    CommandGroup { title: "See", common: &["ls", "status", "logs", "graph", "summary"], more: &[] },
    CommandGroup {
        title: "Steer",
        common: &[
            "answer",
            "approve",
            "deny",
            "send",
            "attach",
            "interrupt",
            "stop",
            "cancel",
            "resume",
        ],
        more: &["limit", "compact", "rename"],
    },
    CommandGroup { title: "Results", common: &["resolve"], more: &["gc"] },
    CommandGroup { title: "Team", common: &["team"], more: &["guide"] },
    CommandGroup { title: "External", common: &["discover", "adopt", "monitor"], more: &[] },
    CommandGroup {
        title: "History",
        common: &["events", "search"],
        more: &["replay", "audit", "telemetry", "export", "import", "ledger"],
    },
    CommandGroup {
        title: "Set up",
        common: &["doctor", "config", "trust", "tour"],
        more: &["presets", "skills", "daemon", "completions", "help"],
    },
    CommandGroup { title: "Agents", common: &["report"], more: &[] },
];

/// Alternative names for commands, which users may know from other programs. Only the help of the
/// command itself lists its aliases.
const ALIASES: &[(&str, &[&str])] = &[
    ("ls", &["list", "ps"]),
    ("logs", &["log", "tail"]),
    ("stop", &["kill"]),
    ("monitor", &["wait"]),
    ("resume", &["restart"]),
    ("spawn", &["new"]),
];

/// The set of commands that a help text lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelpExtent {
    Common,
    All,
}

/// The width to which examples are broken, in columns.
const EXAMPLE_WIDTH: usize = 80;

/// Breaks the examples of a command and its subcommands before an option, as a shell accepts it.
/// Otherwise, the parser would wrap long examples between any two words.
fn break_examples(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let command = match examples {
        Some(text) => {
            command.after_help(text.lines().map(break_example).collect::<Vec<_>>().join("\n"))
        }
        None => command,
    };
    command.mut_subcommands(break_examples)
}

fn break_example(line: &str) -> String {
    if line.len() <= EXAMPLE_WIDTH {
        return line.to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    for part in line.split(" --") {
        match lines.last_mut() {
            None => lines.push(part.to_owned()),
            // A backslash ends each line except the last.
            Some(last) if last.len() + part.len() + " -- \\".len() <= EXAMPLE_WIDTH => {
                last.push_str(&format!(" --{part}"));
            }
            Some(_) => lines.push(format!("      --{part}")),
        }
    }
    lines.join(" \\\n")
}

/// Adds the aliases and the grouped help to the parser.
pub(super) fn decorate(command: clap::Command, extent: HelpExtent) -> clap::Command {
    let command = break_examples(options::describe(command));
    let command = ALIASES.iter().fold(command, |command, (name, aliases)| {
        command.mut_subcommand(name, |sub| {
            let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let help = format!("{examples}\n\nAliases: {}", aliases.join(", "));
            sub.aliases(*aliases).after_help(help)
        })
    });
    let template = template(&command, extent);
    command.help_template(template)
}

/// Returns the template for the main help: clap's own, but with groups instead of a single list.
fn template(command: &clap::Command, extent: HelpExtent) -> String {
    let (head, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let shown = |group: &CommandGroup| match extent {
        HelpExtent::Common => group.common.to_vec(),
        HelpExtent::All => [group.common, group.more].concat(),
    };
    let width = GROUPS.iter().flat_map(shown).map(str::len).max().unwrap_or_default();
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for group in GROUPS {
        text.push_str(&format!("\n{head}{}:{head:#}\n", group.title));
        for name in shown(group) {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let gap = " ".repeat(width - name.len() + 2);
            text.push_str(&format!("  {literal}{name}{literal:#}{gap}{about}\n"));
        }
    }
    text.push('\n');
    if extent == HelpExtent::Common {
        text.push_str("All commands: provost help --all\n");
    }
    text.push_str(&format!("Topics: {} (provost help TOPIC)\n", topics().join(", ")));
    text.push_str("IDs:    the first or last 4 digits of an ID are enough\n");
    text.push_str("Colors: --color auto, always or never (default: auto)\n");
    text.push_str(&format!("\n{head}Options:{head:#}\n{{options}}{{after-help}}"));
    text
}

/// Returns the names of the topics.
fn topics() -> Vec<&'static str> {
    let guides = guide::Topic::value_variants().iter().map(|topic| topic.as_str());
    std::iter::once(exit_codes::TOPIC).chain(guides).collect()
}

/// Returns the error for a word that is neither a command nor a topic.
fn unknown_subject(word: &str) -> ApiError {
    let topics = topics();
    let commands = GROUPS.iter().flat_map(|group| [group.common, group.more].concat());
    let known = topics.iter().copied().chain(commands);
    let near = known.map(|one| (strsim::osa_distance(word, one), one)).min();
    let near = near.filter(|(distance, _)| *distance <= MAX_TYPOS).map(|(_, one)| one);
    let suggestion = near.map(|one| format!("did you mean \"{one}\"? ")).unwrap_or_default();
    let message = format!(
        "there is no command or topic \"{word}\"; {suggestion}topics: {}",
        topics.join(", ")
    );
    let next =
        near.map_or_else(|| "provost help --all".to_owned(), |one| format!("provost help {one}"));
    usage(message).next(next)
}

/// The maximum number of typing errors in an unknown word for which a known word is suggested.
const MAX_TYPOS: usize = 2;

pub(super) fn run(context: &Context, args: &HelpArgs) -> CliResult {
    if let [topic] = args.subject.as_slice() {
        if topic == exit_codes::TOPIC {
            return exit_codes::show(context);
        }
        if let Ok(topic) = guide::Topic::from_str(topic, false) {
            return guide::run(context, &guide::GuideArgs::for_topic(topic));
        }
    }
    let extent = if args.all { HelpExtent::All } else { HelpExtent::Common };
    let subject = args.subject.iter().map(OsString::from);
    let words: Vec<OsString> = [OsString::from("provost")]
        .into_iter()
        .chain(subject)
        .chain([OsString::from("--help")])
        .collect();
    match decorate(Cli::command(), extent).try_get_matches_from(&words) {
        Err(help) => match (intent::explain(&help, None), args.subject.as_slice()) {
            (Some(error), _) => Err(error.into()),
            (None, [subject]) if help.kind() == ErrorKind::InvalidSubcommand => {
                Err(unknown_subject(subject).into())
            }
            (None, _) => super::report_parsed(context, &help),
        },
        // This line is never reached, because clap reports `--help` as an error.
        Ok(_) => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The maximum number of commands shown by `provost --help`.
    const MAX_COMMON: usize = 30;

    fn grouped() -> Vec<&'static str> {
        GROUPS.iter().flat_map(|group| [group.common, group.more].concat()).collect()
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = super::super::command();
        let visible: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let listed: BTreeSet<&str> = grouped().into_iter().collect();
        assert_eq!(visible, listed, "commands and the groups of the help differ");
        assert_eq!(listed.len(), grouped().len(), "a command is in two groups");
    }

    #[test]
    fn main_help_lists_at_most_thirty_commands() {
        let common: usize = GROUPS.iter().map(|group| group.common.len()).sum();
        assert!(common <= MAX_COMMON, "{common} commands");
        assert!(GROUPS.iter().all(|group| !group.common.is_empty()), "a group is empty");
    }

    #[test]
    fn aliases_name_commands_and_hide_none() {
        let command = super::super::command();
        let names: BTreeSet<&str> =
            command.get_subcommands().map(clap::Command::get_name).collect();
        for (name, aliases) in ALIASES {
            assert!(names.contains(name), "{name}");
            assert!(aliases.iter().all(|alias| !names.contains(alias)), "{aliases:?}");
        }
    }

    #[test]
    fn long_examples_are_broken_before_an_option() {
        let short = "  provost ls --all";
        assert_eq!(break_example(short), short);
        let long = "  provost team loop start --require tests=verified:'cargo test' --require challenge --max-iterations 5";
        let broken = break_example(long);
        assert_eq!(
            broken,
            "  provost team loop start --require tests=verified:'cargo test' \\\n      --require challenge --max-iterations 5"
        );
        assert!(broken.lines().all(|line| line.len() <= EXAMPLE_WIDTH), "{broken}");
    }

    #[test]
    fn unknown_help_subject_names_topics_and_near_words() {
        let near = unknown_subject("exit-code");
        assert_eq!(
            near.message,
            "there is no command or topic \"exit-code\"; did you mean \"exit-codes\"? \
             topics: exit-codes, managing, review, member, loops"
        );
        assert_eq!(near.next, ["provost help exit-codes"]);
        let far = unknown_subject("nosuchthing");
        assert!(!far.message.contains("did you mean"), "{}", far.message);
        assert_eq!(far.next, ["provost help --all"]);
    }

    #[test]
    fn help_lists_every_guide() {
        let command = super::super::command();
        let help = command.find_subcommand("help").unwrap().clone().render_help().to_string();
        let main = template(&command, HelpExtent::All);
        for topic in guide::Topic::value_variants() {
            assert!(help.contains(topic.as_str()), "{}", topic.as_str());
            assert!(main.contains(topic.as_str()), "{}", topic.as_str());
        }
    }
}
