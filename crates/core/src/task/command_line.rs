//! Commands that members and people are told, word for word. Each works as it stands, whatever is in a name.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::{proposing::Choice, state::Task};
use crate::text::shell_word;

/// How long one call for the next message waits, in seconds.
pub const WAIT_SECONDS: u32 = 60;

/// How Provost is called by whoever is told a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub program: String,
    /// Where its home is, for whoever has no environment that says so.
    pub home: Option<String>,
}

/// For whoever has the program on its path, and its home in its environment or at its usual place.
impl Default for Caller {
    fn default() -> Self {
        Caller { program: "provost".to_owned(), home: None }
    }
}

impl Caller {
    /// Gives a command that is written for who has Provost on its path, with Provost named as this does.
    pub fn says(&self, command: &str) -> String {
        let Caller { program, home } = self.clone();
        let line = CommandLine { program, home, arguments: Vec::new() };
        let rest = command.strip_prefix(&Caller::default().program);
        rest.map_or_else(|| command.to_owned(), |rest| format!("{line}{rest}"))
    }
}

/// A command with all its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub home: Option<String>,
    pub program: String,
    pub arguments: Vec<String>,
}

/// Writes it for a shell.
impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(home) = &self.home {
            write!(f, "PROVOST_HOME={} ", shell_word(home))?;
        }
        f.write_str(&shell_word(&self.program))?;
        self.arguments.iter().try_for_each(|word| write!(f, " {}", shell_word(word)))
    }
}

/// The commands about one task, for one of its members or for the operator.
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a> {
    pub caller: &'a Caller,
    pub task: &'a Task,
    /// Who acts; the operator if nobody is named.
    pub by: Option<&'a str>,
}

impl Commands<'_> {
    /// Gives the command by which a member gets its next message.
    pub fn receive(&self) -> CommandLine {
        let seconds = WAIT_SECONDS.to_string();
        self.about_task(&["inbox", "next"], &["--wait", "--timeout", &seconds, "--json"])
    }

    /// Gives the command by which a member says that it begins with a message.
    pub fn accept(&self, no: u32, lease: u32) -> CommandLine {
        self.of_message("accept", no, lease)
    }

    /// Gives the command by which a member says that a message is handled.
    pub fn acknowledge(&self, no: u32, lease: u32) -> CommandLine {
        self.of_message("ack", no, lease)
    }

    /// Gives the command that shows how the task stands, with what is suggested next.
    pub fn cycle(&self) -> CommandLine {
        self.line(&["cycle", &self.task.id.to_string()], &[])
    }

    pub fn show(&self) -> CommandLine {
        self.line(&["task", "show", &self.task.id.to_string()], &[])
    }

    pub fn loop_status(&self) -> CommandLine {
        self.about_task(&["loop", "status"], &[])
    }

    pub fn criteria(&self) -> CommandLine {
        self.about_task(&["criteria", "ls"], &[])
    }

    /// Gives the command by which a manager says that it read what it works by.
    pub fn acknowledge_contract(&self) -> CommandLine {
        let revision = self.task.config.revision.to_string();
        self.about_task(&["manager", "ack"], &["--revision", &revision])
    }

    /// Gives the command that has everything audited, and ends the task if it all holds.
    pub fn finish(&self) -> CommandLine {
        let task = self.task.id.to_string();
        self.line(&["finish", &task], &["--because", "every criterion holds"])
    }

    /// Gives the form of the command that chooses between two proposals.
    pub(super) fn choose(&self, choice: Choice) -> String {
        self.form(&["task", "choose", choice.word()], "--because TEXT")
    }

    /// Gives the command that prints what a member has to be told.
    pub fn handoff(&self, member: &str) -> CommandLine {
        let task = self.task.id.to_string();
        let mut line = self.line(&["handoff", &task], &[]);
        // A name that begins with a dash is no option.
        line.arguments.extend(member.starts_with('-').then(|| "--".to_owned()));
        line.arguments.push(member.to_owned());
        line
    }

    /// Gives the form of a command: what stands in capitals is for who types it.
    pub fn form(&self, verbs: &[&str], rest: &str) -> String {
        let line = self.about_task(verbs, &[]);
        if rest.is_empty() { line.to_string() } else { format!("{line} {rest}") }
    }

    fn of_message(&self, verb: &str, no: u32, lease: u32) -> CommandLine {
        let (no, lease) = (no.to_string(), lease.to_string());
        self.about_task(&["inbox", verb, &no], &["--lease", &lease])
    }

    fn about_task(&self, verbs: &[&str], rest: &[&str]) -> CommandLine {
        let task = self.task.id.to_string();
        let verbs: Vec<&str> = verbs.iter().copied().chain(["--task", &task]).collect();
        self.line(&verbs, rest)
    }

    /// Puts who acts between what is done and its options.
    fn line(&self, verbs: &[&str], rest: &[&str]) -> CommandLine {
        let mut arguments: Vec<String> = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        arguments.extend(self.by.into_iter().flat_map(|name| option("--as", name)));
        arguments.extend(rest.iter().map(|word| (*word).to_owned()));
        let (home, program) = (self.caller.home.clone(), self.caller.program.clone());
        CommandLine { home, program, arguments }
    }
}

/// Gives an option with its value, in one word if the value could pass for an option itself.
pub(super) fn option(name: &str, value: &str) -> Vec<String> {
    match value.starts_with('-') {
        true => vec![format!("{name}={value}")],
        false => vec![name.to_owned(), value.to_owned()],
    }
}
