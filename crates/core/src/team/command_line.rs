//! Commands shown verbatim to members and users. Each command works exactly as printed, even if a
//! name contains special characters.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{blind_proposals::ProposalChoice, state::Team};
use crate::text::shell_quote;

/// The maximum time that a call waits for the next message, in seconds.
pub const WAIT_SECONDS: u32 = 60;

/// The way in which the reader of a command invokes Provost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvostInvocation {
    pub program: String,
    /// The state directory. None if the caller's environment already sets it.
    pub home: Option<String>,
}

/// The invocation for callers that have Provost on their PATH. The home directory of Provost is set in their
/// environment or is the default one.
impl Default for ProvostInvocation {
    fn default() -> Self {
        ProvostInvocation { program: "provost".to_owned(), home: None }
    }
}

impl ProvostInvocation {
    /// Rewrites a command that starts with `provost` to this caller's program and home.
    pub fn rewrite_command(&self, command: &str) -> String {
        let ProvostInvocation { program, home } = self.clone();
        let line = CommandLine { program, home, arguments: Vec::new() };
        let rest = command.strip_prefix(&ProvostInvocation::default().program);
        rest.map_or_else(|| command.to_owned(), |rest| format!("{line}{rest}"))
    }
}

/// A command with all its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub home: Option<String>,
    pub program: String,
    pub arguments: Vec<String>,
}

/// Formats the command for a shell.
impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(home) = &self.home {
            write!(f, "PROVOST_HOME={} ", shell_quote(home))?;
        }
        f.write_str(&shell_quote(&self.program))?;
        self.arguments.iter().try_for_each(|word| write!(f, " {}", shell_quote(word)))
    }
}

/// The commands for one team, as used by one of its members or by the operator.
#[derive(Clone, Copy, Debug)]
pub struct TeamCommandLines<'a> {
    pub caller: &'a ProvostInvocation,
    pub task: &'a Team,
    /// The acting member. None for the operator.
    pub member: Option<&'a str>,
}

impl TeamCommandLines<'_> {
    /// Returns the command that fetches a member's next message.
    pub fn receive(&self) -> CommandLine {
        let seconds = WAIT_SECONDS.to_string();
        self.team_command(&["next"], &["--wait", "--timeout", &seconds, "--json"])
    }

    /// Returns the command that accepts a message.
    pub fn accept(&self, no: u32, lease: u32) -> CommandLine {
        self.message_command("accept", no, lease)
    }

    /// Returns the command that acknowledges a message.
    pub fn acknowledge(&self, no: u32, lease: u32) -> CommandLine {
        self.message_command("ack", no, lease)
    }

    /// Returns the command that shows the team and suggests a next step.
    pub fn show_next(&self) -> CommandLine {
        self.build(&["overview", &self.task.id.short()], &[])
    }

    pub fn show(&self) -> CommandLine {
        self.build(&["show", &self.task.id.short()], &[])
    }

    pub fn loop_status(&self) -> CommandLine {
        self.team_command(&["loop", "status"], &[])
    }

    pub fn criteria(&self) -> CommandLine {
        self.team_command(&["criterion", "ls"], &[])
    }

    /// Returns the command that acknowledges the contract.
    pub fn acknowledge_contract(&self) -> CommandLine {
        let revision = self.task.config.revision.to_string();
        self.team_command(&["contract", "accept"], &["--revision", &revision])
    }

    /// Returns the command that audits the team and finishes the team if nothing blocks the finish.
    pub fn finish(&self) -> CommandLine {
        let task = self.task.id.short();
        self.build(&["done", &task], &["--because", "every criterion holds"])
    }

    /// Returns the usage form of the command that chooses between two proposals.
    pub(super) fn choose(&self, choice: ProposalChoice) -> String {
        self.usage_form(&["choose", choice.as_str()], "--because TEXT")
    }

    /// Returns the command that prints a member's handoff.
    pub fn handoff(&self, member: &str) -> CommandLine {
        let task = self.task.id.short();
        let mut line = self.build(&["handoff", &task], &[]);
        // Keep a name that begins with a dash from being parsed as an option.
        line.arguments.extend(member.starts_with('-').then(|| "--".to_owned()));
        line.arguments.push(member.to_owned());
        line
    }

    /// Returns the usage form of a command. Words in capitals are placeholders for the caller to fill in.
    pub fn usage_form(&self, verbs: &[&str], rest: &str) -> String {
        let line = self.team_command(verbs, &[]);
        if rest.is_empty() { line.to_string() } else { format!("{line} {rest}") }
    }

    fn message_command(&self, verb: &str, no: u32, lease: u32) -> CommandLine {
        let (no, lease) = (no.to_string(), lease.to_string());
        self.team_command(&["inbox", verb, &no], &["--lease", &lease])
    }

    fn team_command(&self, verbs: &[&str], rest: &[&str]) -> CommandLine {
        let task = self.task.id.short();
        let verbs: Vec<&str> = verbs.iter().copied().chain(["-t", &task]).collect();
        self.build(&verbs, rest)
    }

    /// Builds a subcommand of `team`, and inserts the acting member between the verbs and their options.
    fn build(&self, verbs: &[&str], rest: &[&str]) -> CommandLine {
        let mut arguments = vec!["team".to_owned()];
        arguments.extend(verbs.iter().map(|verb| (*verb).to_owned()));
        arguments.extend(self.member.into_iter().flat_map(|name| option_args("--as", name)));
        arguments.extend(rest.iter().map(|word| (*word).to_owned()));
        let (home, program) = (self.caller.home.clone(), self.caller.program.clone());
        CommandLine { home, program, arguments }
    }
}

/// Returns the usage form of the command that delivers a message again, for a reader who has Provost on the PATH.
pub(super) fn requeue_form(number: &str) -> String {
    let ProvostInvocation { program, home } = ProvostInvocation::default();
    let words = ["team", "inbox", "requeue", number, "--to", "MEMBER", "--because", "TEXT"];
    CommandLine { program, home, arguments: words.map(str::to_owned).to_vec() }.to_string()
}

/// Returns an option and its value. If the value itself looks like an option, both are joined into
/// one argument.
pub(super) fn option_args(name: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') {
        vec![format!("{name}={value}")]
    } else {
        vec![name.to_owned(), value.to_owned()]
    }
}
