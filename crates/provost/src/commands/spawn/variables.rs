//! An agent's environment variables. Harmless ones are stored by value, all others by name.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use provost_api::ApiError;
use provost_config::{NamePatterns, SAFE_VARIABLES, Variable, Variables};

use crate::error::usage;

/// The prefix of Provost's own variables.
const OWN_PREFIX: &str = "PROVOST_";

/// Parts of names that indicate a secret, whose value must not be stored in the ledger.
const SECRET_PARTS: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "PRIVATE_KEY", "CREDENTIAL"];

/// The agent's variables on the command line
#[derive(Debug, Default, Args)]
pub(crate) struct VariableArgs {
    /// Set a variable; the value is recorded permanently, so never use it for a secret
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    pub(super) env: Vec<(String, String)>,
    /// Pass on a variable of the daemon's environment; NAME may end in *
    #[arg(long, value_name = "NAME", value_parser = parse_pattern)]
    pub(super) pass_env: Vec<String>,
}

/// Variables to pass on, either by value or by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VariableSet {
    pub(super) by_value: BTreeMap<String, String>,
    pub(super) by_name: BTreeSet<String>,
}

impl VariableSet {
    /// Creates a set of the variables that every child process gets.
    pub(super) fn safe(environment: &BTreeMap<String, String>) -> Self {
        let safe = environment
            .iter()
            .filter(|(name, _)| SAFE_VARIABLES.iter().any(|pattern| matches(pattern, name)));
        let by_value = safe.map(|(name, value)| (name.clone(), value.clone())).collect();
        VariableSet { by_value, by_name: BTreeSet::new() }
    }

    /// Adds the variables in an agent's configuration. A reference to one of the daemon's variables
    /// must have the same name as that variable.
    pub(super) fn configured(
        &mut self,
        agent: &str,
        variables: &Variables,
    ) -> Result<(), ApiError> {
        for (name, variable) in variables.iter() {
            match variable {
                Variable::Literal(value) => {
                    check_not_secret(name)
                        .map_err(|why| usage(format!("agents.{agent}.env.{name}: {why}")))?;
                    self.by_value.insert(name.to_owned(), value.clone());
                }
                Variable::Reference(source) if source == name => self.name(name),
                Variable::Reference(source) => {
                    let message = format!(
                        "agents.{agent}.env.{name} refers to ${source}, but a variable can only \
                         be passed on under the same name"
                    );
                    return Err(usage(message).next(format!(
                        "export {name}=… where the daemon is started, and set {name} = \"${name}\""
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn patterns(&mut self, patterns: &NamePatterns) {
        patterns.iter().for_each(|pattern| self.name(pattern));
    }

    pub(super) fn values(&mut self, values: &[(String, String)]) {
        self.by_value.extend(values.iter().cloned());
    }

    pub(super) fn names(&mut self, names: &[String]) {
        names.iter().for_each(|name| self.name(name));
    }

    /// Removes a variable, whether it is passed by value or by name.
    pub(super) fn without(&mut self, name: &str) {
        self.by_value.remove(name);
        self.by_name.remove(name);
    }

    /// Whether a variable is passed, by value or by name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_value.contains_key(name) || self.by_name.contains(name)
    }

    /// Changes `PATH`, provided that it is passed by value.
    pub(super) fn path(&mut self, change: impl FnOnce(&str) -> String) {
        if let Some(path) = self.by_value.get_mut("PATH") {
            *path = change(path);
        }
    }

    fn name(&mut self, name: &str) {
        self.by_name.insert(name.to_owned());
    }
}

/// Expands patterns to names. Provost's own variables are never passed on.
pub(super) fn expand(wanted: &[String], there: &[String]) -> Vec<String> {
    let mut names = BTreeSet::new();
    for pattern in wanted {
        if pattern.ends_with('*') {
            names.extend(there.iter().filter(|name| matches(pattern, name)).cloned());
        } else {
            names.insert(pattern.clone());
        }
    }
    names.into_iter().filter(|name| !name.starts_with(OWN_PREFIX)).collect()
}

/// Returns the wanted variables that are set here but not in the daemon's environment. The daemon
/// can only pass on its own environment.
pub(super) fn missing_in_daemon(
    wanted: &[String],
    here: &BTreeMap<String, String>,
    there: &[String],
) -> Vec<String> {
    let lacks = |name: &&String| here.contains_key(*name) && !there.contains(name);
    wanted.iter().filter(lacks).cloned().collect()
}

/// Parses `NAME=VALUE`.
pub(super) fn parse_assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=VALUE; to pass a variable on, use --pass-env NAME")?;
    check_name(name)?;
    check_not_secret(name)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses the name of a variable. A trailing star matches any suffix.
pub(super) fn parse_pattern(text: &str) -> Result<String, String> {
    check_name(text.strip_suffix('*').unwrap_or(text))?;
    Ok(text.to_owned())
}

fn check_name(name: &str) -> Result<(), String> {
    if name.starts_with(OWN_PREFIX) {
        return Err(format!("variables that begin with {OWN_PREFIX} are reserved for Provost"));
    }
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) {
        Ok(())
    } else {
        Err(format!("{name:?} is not a valid variable name"))
    }
}

/// Rejects a variable that looks like a secret. Values are stored in the ledger, so secrets must be passed by name.
fn check_not_secret(name: &str) -> Result<(), String> {
    let upper = name.to_ascii_uppercase();
    if SECRET_PARTS.iter().any(|part| upper.contains(part)) {
        return Err(format!(
            "{name} looks like a secret, and values are stored in the ledger: use --pass-env {name}, or \"${name}\" in the configuration"
        ));
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_variables_pass_by_default() {
        let environment = [("PATH", "/bin"), ("LC_ALL", "C"), ("API_TOKEN", "x"), ("FOO", "y")];
        let environment =
            environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let names: Vec<_> = VariableSet::safe(&environment).by_value.into_keys().collect();
        assert_eq!(names, ["LC_ALL", "PATH"]);
    }

    #[test]
    fn secret_by_value_is_rejected() {
        assert_eq!(parse_assignment("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        for bad in
            ["A", "=x", "1A=x", "PROVOST_HOME=x", "github_token=x", "OPENAI_API_KEY=x", "A B=x"]
        {
            assert!(parse_assignment(bad).is_err(), "{bad}");
        }
        assert!(parse_pattern("OPENAI_*").is_ok());
        assert!(parse_pattern("*").is_err());
    }

    #[test]
    fn variable_missing_in_daemon_is_reported() {
        let here = ["A", "B"].map(|name| (name.to_owned(), "x".to_owned())).into();
        let wanted = ["A", "B", "C"].map(str::to_owned);
        assert_eq!(missing_in_daemon(&wanted, &here, &["B".to_owned()]), ["A"]);
    }

    #[test]
    fn star_expands_to_daemon_variables() {
        let wanted = ["A_*".to_owned(), "B".to_owned(), "PROVOST*".to_owned()];
        let there = ["A_1", "A_2", "C", "PROVOST_HOME"].map(str::to_owned);
        assert_eq!(expand(&wanted, &there), ["A_1", "A_2", "B"]);
    }
}
