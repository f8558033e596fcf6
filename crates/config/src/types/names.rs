//! Names of agents and variables, and the environment of child processes.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value as Json, json};

use crate::environment::PREFIX;
use crate::node::ValueNode;
use crate::problem::{ValueFault, quote};
use crate::shape::{TextLabel, ValueLimits, ValueShape};
use crate::value::{ConfigField, ConfigValue, EffectiveValues, invalid, text};

/// The variables that every child process gets if they are set. Programs need these variables to find other programs,
/// the user and the language. None of the variables grants access to anything.
pub const SAFE_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Maximum length of an agent's name.
const MAX_AGENT_NAME: usize = 64;

/// Names of variables. A trailing star matches any suffix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamePatterns(Vec<NamePattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct NamePattern(String);

/// The value of a variable in an agent's environment. `Debug` hides literals, because they may be secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Variable {
    /// The text itself.
    Literal(String),
    /// `$NAME` or `${NAME}`: the value of that variable in the daemon's environment, which the caller looks up.
    Reference(String),
}

/// The variables of an agent, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(BTreeMap<String, Variable>);

impl NamePatterns {
    /// Whether a variable matches. Provost's own variables never match, because they contain the
    /// identity of a launch.
    pub fn matches(&self, name: &str) -> bool {
        !name.starts_with(PREFIX) && self.0.iter().any(|pattern| pattern_matches(&pattern.0, name))
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|pattern| pattern.0.as_str())
    }
}

impl Variables {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.0.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.0.get(name)
    }
}

/// Whether a variable is one of those that every child process gets.
pub(crate) fn is_safe(name: &str) -> bool {
    SAFE_VARIABLES.iter().any(|pattern| pattern_matches(pattern, name))
}

fn pattern_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Returns what is wrong with a user-chosen name, such as that of an agent, if anything.
pub(crate) fn name_fault_of(whose: &str, name: &str) -> Option<String> {
    let fits = (1..=MAX_AGENT_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !name.starts_with('-');
    (!fits).then(|| {
        format!("{whose} name has 1 to {MAX_AGENT_NAME} letters, digits, \"-\" or \"_\", and no \"-\" first")
    })
}

/// Returns what is wrong with the name of a variable, if anything.
pub(crate) fn variable_name_fault(name: &str) -> Option<String> {
    if name.starts_with(PREFIX) {
        return Some(format!("variables that begin with {PREFIX} are set by Provost itself"));
    }
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let fits = plain && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
    (!fits).then(|| {
        format!(
            "{} is not a variable name: use letters, digits and \"_\", and no digit first",
            quote(name)
        )
    })
}

impl ConfigValue for NamePatterns {
    fn shape() -> ValueShape {
        ValueShape::List(Box::new(<NamePattern as ConfigValue>::shape()))
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        Vec::read(node).map(Self)
    }

    fn show(&self) -> Json {
        self.0.show()
    }
}

impl ConfigValue for NamePattern {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "variable name", many: "variable names" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        let start = text.strip_suffix('*').unwrap_or(text);
        if start.is_empty() {
            return Err(invalid(
                node,
                "expected a variable name, or the beginning of one followed by \"*\"",
            ));
        }
        match variable_name_fault(start) {
            Some(why) => Err(invalid(node, why)),
            None => Ok(Self(text.to_owned())),
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl ConfigValue for Variable {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "text or `$NAME`", many: "texts" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        let text = text::<Self>(node)?;
        if text.contains('\0') {
            return Err(invalid(node, "it contains a NUL character"));
        }
        Ok(match reference(text) {
            Some(name) => Self::Reference(name.to_owned()),
            None => Self::Literal(text.to_owned()),
        })
    }

    fn show(&self) -> Json {
        json!(MASK)
    }
}

impl ConfigField for Variables {
    fn shape() -> ValueShape {
        <Variable as ConfigValue>::shape()
    }

    fn check(node: &ValueNode, limits: ValueLimits) -> Result<Json, Vec<ValueFault>> {
        <Variable as ConfigField>::check(node, limits)
    }

    fn take(chosen: &EffectiveValues, name: &str) -> Self {
        let read = |node| Variable::read(node).expect("every chosen value was checked");
        Self(chosen.below(name).map(|(variable, node)| (variable.to_owned(), read(node))).collect())
    }
}

/// Shown in place of a value that may be secret.
const MASK: &str = "***";

/// Returns the variable's name if the text consists of a single reference.
fn reference(text: &str) -> Option<&str> {
    let after = text.strip_prefix('$')?;
    let name = after.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(after);
    variable_name_fault(name).is_none().then_some(name)
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str(MASK),
            Self::Reference(name) => write!(f, "${name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_reference_is_resolved() {
        assert_eq!(reference("$TOKEN"), Some("TOKEN"));
        assert_eq!(reference("${TOKEN}"), Some("TOKEN"));
        for literal in
            ["TOKEN", "$", "$$TOKEN", "${TOKEN", "a$TOKEN", "$TOKEN/x", "$1", "$PROVOST_TOKEN"]
        {
            assert_eq!(reference(literal), None, "{literal}");
        }
    }

    #[test]
    fn names_of_agents_and_variables_are_plain() {
        for name in ["helper", "Helper-2", "a_b", "0"] {
            assert_eq!(name_fault_of("an agent's", name), None, "{name}");
        }
        for name in ["", "-x", "a.b", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(name_fault_of("an agent's", name).is_some(), "{name:?} was taken");
        }
        for name in ["", "1A", "A-B", "A=B", "PROVOST_TOKEN"] {
            assert!(variable_name_fault(name).is_some(), "{name:?} was taken");
        }
    }

    #[test]
    fn debug_does_not_print_a_literal() {
        let variables =
            Variables(BTreeMap::from([("K".into(), Variable::Literal("hunter2".into()))]));
        assert!(!format!("{variables:?}").contains("hunter2"));
    }
}
