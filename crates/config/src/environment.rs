//! Environment variables as a layer.
//!
//! A variable is named `PROVOST_` plus the key in upper case, with underscores instead of dots. Keys of agents may have
//! a shorter variable. Variables can set only keys with scalar values, and an empty variable is treated as unset.

use std::collections::BTreeMap;
use std::fmt;

use crate::agent_section::short_variable;
use crate::key::{ConfigKey, keys};
use crate::node::ValueNode;
use crate::problem::{Problem, ProblemKind, ValueFault, escape, quote};
use crate::resolve::LayerValue;
use crate::source::ValueSource;
use crate::suggest::nearest;
use crate::value::digits;

/// The prefix of Provost's variables.
pub(crate) const PREFIX: &str = "PROVOST_";

/// Variables that Provost uses, but that do not set a configuration key.
pub const RESERVED_VARIABLES: &[&str] = &[
    "PROVOST_HOME",
    "PROVOST_LAUNCH",
    "PROVOST_TOKEN",
    "PROVOST_DROP",
    "PROVOST_SOCKET",
    "PROVOST_SESSION",
    "PROVOST_BIN",
    "PROVOST_LAUNCH_NO",
    "PROVOST_THREAD",
];

/// An alias for the variable that sets `session.stale_after`, in whole seconds.
const STALE_ALIAS: &str = "PROVOST_STALE_SECONDS";
const STALE_KEY: &str = "session.stale_after";

/// A probable mistake that is not an error. Its `Display` output is a complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableWarning {
    /// The variable does not correspond to any key.
    UnknownVariable { variable: String, suggestion: Option<String> },
    /// The variable corresponds to a key whose value is not scalar.
    NotScalar { variable: String, key: &'static str },
    /// Both the variable and its alias are set, so the alias is ignored.
    AliasIgnored { alias: &'static str, variable: String },
}

/// The values, problems and warnings found in the environment.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentReading {
    pub(crate) given: Vec<LayerValue>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<VariableWarning>,
}

/// Returns the variable that sets a key, if the key has a scalar value and a fixed name.
pub(crate) fn variable_of(key: &ConfigKey) -> Option<String> {
    let chosen_by_user = key.name.contains('*');
    ((key.shape)().is_scalar() && !chosen_by_user).then(|| variable_name(key))
}

/// Reads all variables that start with `PROVOST_`.
pub(crate) fn read(variables: &BTreeMap<String, String>) -> EnvironmentReading {
    let mut reading = EnvironmentReading::default();
    for (variable, text) in
        variables.range(PREFIX.to_owned()..).take_while(|(name, _)| name.starts_with(PREFIX))
    {
        if !text.is_empty() && !RESERVED_VARIABLES.contains(&variable.as_str()) {
            read_one(variables, variable, text, &mut reading);
        }
    }
    reading
}

fn read_one(
    variables: &BTreeMap<String, String>,
    variable: &str,
    text: &str,
    reading: &mut EnvironmentReading,
) {
    if variable == STALE_ALIAS {
        return read_alias(variables, text, reading);
    }
    match keys().find(|key| !key.name.contains('*') && variable_name(key) == variable) {
        Some(key) if variable_of(key).is_some() => read_value(key, variable, text, reading),
        Some(key) => {
            reading
                .warnings
                .push(VariableWarning::NotScalar { variable: variable.to_owned(), key: key.name });
        }
        None => reading.warnings.push(unknown(variable)),
    }
}

fn read_alias(variables: &BTreeMap<String, String>, text: &str, reading: &mut EnvironmentReading) {
    let key = keys().find(|key| key.name == STALE_KEY).expect("the table has the aliased key");
    let variable = variable_name(key);
    if variables.get(&variable).is_some_and(|text| !text.is_empty()) {
        return reading
            .warnings
            .push(VariableWarning::AliasIgnored { alias: STALE_ALIAS, variable });
    }
    if digits(text).is_some() {
        return read_value(key, STALE_ALIAS, text, reading);
    }
    let fault = ValueFault::new(
        ProblemKind::Invalid,
        &(0..0),
        format!("expected whole seconds, found {}", quote(text)),
    );
    reading.problems.push(fault.into_problem(STALE_KEY, source(STALE_ALIAS)));
}

fn read_value(
    key: &'static ConfigKey,
    variable: &str,
    text: &str,
    reading: &mut EnvironmentReading,
) {
    let given = LayerValue::check(
        key,
        key.name.to_owned(),
        source(variable),
        ValueNode::written(text),
        |_| source(variable),
    );
    match given {
        Ok(given) => reading.given.push(given),
        Err(problems) => reading.problems.extend(problems),
    }
}

fn source(variable: &str) -> ValueSource {
    ValueSource::Environment { variable: variable.to_owned() }
}

fn variable_name(key: &ConfigKey) -> String {
    match short_variable(key.name) {
        Some(variable) => variable.to_owned(),
        None => format!("{PREFIX}{}", key.name.replace('.', "_").to_uppercase()),
    }
}

fn unknown(variable: &str) -> VariableWarning {
    let names: Vec<String> = keys().filter_map(variable_of).collect();
    let known = names
        .iter()
        .map(String::as_str)
        .chain(RESERVED_VARIABLES.iter().copied())
        .chain([STALE_ALIAS]);
    let suggestion = nearest(variable, known).map(str::to_owned);
    VariableWarning::UnknownVariable { variable: variable.to_owned(), suggestion }
}

impl fmt::Display for VariableWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVariable { variable, suggestion: Some(suggestion) } => {
                write!(
                    f,
                    "the variable {} sets no key; did you mean {suggestion}?",
                    escape(variable)
                )
            }
            Self::UnknownVariable { variable, suggestion: None } => {
                write!(f, "the variable {} sets no key", escape(variable))
            }
            Self::NotScalar { variable, key } => {
                write!(
                    f,
                    "the variable {} is ignored; {key} can only be set in a file or by a flag",
                    escape(variable)
                )
            }
            Self::AliasIgnored { alias, variable } => {
                write!(f, "the variable {alias} is ignored; {variable} is set too")
            }
        }
    }
}
