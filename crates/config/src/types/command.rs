//! Commands, and hooks, which are commands with their own limits.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::node::{KeyName, NodeValue, ValueNode};
use crate::problem::{ProblemKind, ValueFault};
use crate::shape::ValueShape;
use crate::suggest;
use crate::table::{OUTPUT, TIME};
use crate::types::Bytes;
use crate::value::{ConfigValue, bounded, invalid, text, wrong_type};

/// A command: a shell command line, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandSpec {
    /// Passed to `sh -c`.
    Shell(String),
    /// Run without a shell.
    Argv(Argv),
}

/// A program and its arguments. The program's name is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argv(Vec<String>);

/// A command that runs when an event occurs, with its effective limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub command: CommandSpec,
    pub time_limit: Duration,
    pub output_limit: Bytes,
}

/// A hook as written. Missing limits default to `hooks.time_limit` and `hooks.output_limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookSpec {
    pub(crate) command: CommandSpec,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) output_limit: Option<Bytes>,
}

impl Argv {
    pub fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    pub fn arguments(&self) -> &[String] {
        self.0.get(1..).unwrap_or_default()
    }

    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl ConfigValue for CommandSpec {
    fn shape() -> ValueShape {
        ValueShape::Command
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        match &node.item {
            NodeValue::Text(line) | NodeValue::Plain(line) => {
                shell_line(node, line).map(Self::Shell)
            }
            NodeValue::List(_) => Argv::read(node).map(Self::Argv),
            NodeValue::Switch(_)
            | NodeValue::Integer(_)
            | NodeValue::Float(_)
            | NodeValue::Table(_)
            | NodeValue::Other(_) => Err(wrong_type::<Self>(node)),
        }
    }

    fn show(&self) -> Json {
        match self {
            Self::Shell(line) => json!(line),
            Self::Argv(argv) => argv.show(),
        }
    }
}

impl ConfigValue for Argv {
    fn shape() -> ValueShape {
        ValueShape::Argv
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let NodeValue::List(nodes) = &node.item else {
            return Err(wrong_type::<Self>(node));
        };
        let words = nodes.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
        if words.first().is_none_or(String::is_empty) {
            return Err(invalid(node, "it does not specify a program"));
        }
        Ok(Self(words))
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl ConfigValue for HookSpec {
    fn shape() -> ValueShape {
        ValueShape::Hook
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        match &node.item {
            NodeValue::Table(fields) => hook_table(node, fields),
            NodeValue::Text(_) | NodeValue::Plain(_) | NodeValue::List(_) => {
                CommandSpec::read(node).map(|command| Self {
                    command,
                    time_limit: None,
                    output_limit: None,
                })
            }
            NodeValue::Switch(_)
            | NodeValue::Integer(_)
            | NodeValue::Float(_)
            | NodeValue::Other(_) => Err(wrong_type::<Self>(node)),
        }
    }

    fn show(&self) -> Json {
        if self.time_limit.is_none() && self.output_limit.is_none() {
            return self.command.show();
        }
        let mut fields = Map::from_iter([("command".to_owned(), self.command.show())]);
        fields.extend(self.time_limit.map(|limit| ("time_limit".to_owned(), limit.show())));
        fields.extend(self.output_limit.map(|limit| ("output_limit".to_owned(), limit.show())));
        Json::Object(fields)
    }
}

fn shell_line(node: &ValueNode, line: &str) -> Result<String, Vec<ValueFault>> {
    if line.trim().is_empty() {
        return Err(invalid(node, "the command is empty"));
    }
    without_nul(node, line)
}

fn argument(node: &ValueNode) -> Result<String, Vec<ValueFault>> {
    without_nul(node, text::<Argv>(node)?)
}

/// Rejects NUL characters: a process argument cannot contain them, so the command could never run.
fn without_nul(node: &ValueNode, text: &str) -> Result<String, Vec<ValueFault>> {
    if text.contains('\0') {
        Err(invalid(node, "it contains a NUL character"))
    } else {
        Ok(text.to_owned())
    }
}

/// The keys in a hook's table.
const FIELDS: [&str; 3] = ["command", "time_limit", "output_limit"];

fn hook_table(
    node: &ValueNode,
    fields: &[(KeyName, ValueNode)],
) -> Result<HookSpec, Vec<ValueFault>> {
    let (mut command, mut time_limit, mut output_limit) = (None, None, None);
    let mut faults = Vec::new();
    for (name, value) in fields {
        let read = match name.text.as_str() {
            "command" => CommandSpec::read(value).map(|read| command = Some(read)),
            "time_limit" => bounded(value, TIME).map(|read| time_limit = Some(read)),
            "output_limit" => bounded(value, OUTPUT).map(|read| output_limit = Some(read)),
            unknown => Err(vec![unknown_field(name, unknown)]),
        };
        faults.extend(read.err().into_iter().flatten().map(|fault| below(fault, &name.text)));
    }
    let has_command = fields.iter().any(|(name, _)| name.text == "command");
    if !has_command {
        faults.push(below(
            ValueFault::new(ProblemKind::Missing, &node.span, "a hook needs a command"),
            "command",
        ));
    }
    match command {
        Some(command) if faults.is_empty() => Ok(HookSpec { command, time_limit, output_limit }),
        Some(_) | None => Err(faults),
    }
}

fn below(fault: ValueFault, field: &str) -> ValueFault {
    ValueFault { below: Some(field.to_owned()), ..fault }
}

fn unknown_field(name: &KeyName, unknown: &str) -> ValueFault {
    ValueFault::new(ProblemKind::UnknownKey, &name.span, suggest::suggest_among(unknown, &FIELDS))
}
