//! Approval rules: `"command: cargo test"`, `"path: docs/"`, `"network: crates.io"`.

use std::fmt;

use serde_json::{Value as Json, json};

use crate::node::{NodeValue, ValueNode};
use crate::problem::{ValueFault, quote};
use crate::shape::{TextLabel, ValueShape};
use crate::suggest;
use crate::types::FilePath;
use crate::value::{ConfigValue, invalid, text, wrong_type};

/// A pattern that an agent's requests are matched against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalRule {
    /// Commands that start with these words.
    Command(Vec<String>),
    /// Files at or below this path. A relative path starts at the agent's working directory.
    Path(FilePath),
    /// A host or, with a leading dot, all its subdomains.
    Network(String),
}

/// The version of the rule format. Rules of any other version are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RulesVersion(u32);

/// The only supported version.
const VERSION: u32 = 1;

/// The possible subjects of a rule.
const SUBJECTS: [&str; 3] = ["command", "path", "network"];

/// Characters with a special meaning in a shell. A command rule that contains one could never match.
const NOT_WORDS: &[char] =
    &[';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '*', '?', '"', '\'', '\\'];

impl RulesVersion {
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl ConfigValue for RulesVersion {
    fn shape() -> ValueShape {
        ValueShape::Count
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        match u32::read(node)? {
            VERSION => Ok(Self(VERSION)),
            other => Err(invalid(
                node,
                format!("rules of version {other} are not supported; expected version {VERSION}"),
            )),
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl ConfigValue for ApprovalRule {
    fn shape() -> ValueShape {
        ValueShape::Text(TextLabel { one: "approval rule", many: "approval rules" })
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        if !matches!(node.item, NodeValue::Text(_) | NodeValue::Plain(_)) {
            return Err(wrong_type::<Self>(node));
        }
        rule(text::<Self>(node)?).map_err(|why| invalid(node, why))
    }

    fn show(&self) -> Json {
        json!(self.to_string())
    }
}

impl fmt::Display for ApprovalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => write!(f, "command: {}", words.join(" ")),
            Self::Path(path) => write!(f, "path: {}", path.as_str()),
            Self::Network(host) => write!(f, "network: {host}"),
        }
    }
}

fn rule(text: &str) -> Result<ApprovalRule, String> {
    let form = || {
        format!(
            "{} is not a rule: expected \"command: WORDS\", \"path: PATH\" or \"network: HOST\"",
            quote(text)
        )
    };
    let (subject, rest) = text.split_once(':').ok_or_else(form)?;
    let (subject, rest) = (subject.trim(), rest.trim());
    if rest.chars().any(char::is_control) {
        return Err("the rule contains a control character".into());
    }
    match subject {
        _ if !SUBJECTS.contains(&subject) => Err(format!(
            "unknown subject {}; {}",
            quote(subject),
            suggest::suggest_among(subject, &SUBJECTS)
        )),
        _ if rest.is_empty() => Err(format!("nothing follows {:?}", format!("{subject}:"))),
        "command" => command(rest),
        "path" => path(rest),
        _ => network(rest),
    }
}

fn command(line: &str) -> Result<ApprovalRule, String> {
    if line.contains(NOT_WORDS) {
        Err(format!(
            "{} is not just words: a rule contains the first words of a command, without quotes or shell syntax",
            quote(line)
        ))
    } else {
        Ok(ApprovalRule::Command(line.split_whitespace().map(str::to_owned).collect()))
    }
}

/// Parses a path. A path with `..` would match nothing, and a glob would be taken literally.
fn path(path: &str) -> Result<ApprovalRule, String> {
    if path.split('/').any(|part| part == "..") {
        return Err(r#"the path contains "..", so it matches nothing"#.into());
    }
    if path.contains(['*', '?', '[']) {
        Err("a path covers everything below it; globs are not supported".into())
    } else {
        Ok(ApprovalRule::Path(FilePath::checked(path)))
    }
}

fn network(host: &str) -> Result<ApprovalRule, String> {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if host.chars().all(plain) && !host.trim_matches('.').is_empty() {
        Ok(ApprovalRule::Network(host.to_ascii_lowercase()))
    } else {
        Err(format!(
            "{} is not a host; expected one such as \"crates.io\", or \".crates.io\" for its subdomains",
            quote(host)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_rules_are_parsed() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let ok = [
            ("command: cargo  test", ApprovalRule::Command(words(&["cargo", "test"]))),
            ("path:docs/", ApprovalRule::Path(FilePath::checked("docs/"))),
            ("path: .", ApprovalRule::Path(FilePath::checked("."))),
            ("network: .Crates.io", ApprovalRule::Network(".crates.io".into())),
        ];
        for (text, expected) in ok {
            assert_eq!(rule(text), Ok(expected), "{text}");
        }
        let bad = [
            "",
            "cargo test",
            "command:",
            "commands: x",
            "command: a && b",
            "command: echo 'x'",
            "command: a\u{1b}b",
            "path: ../x",
            "path: *.rs",
            "network: https://x",
            "network: .",
        ];
        for text in bad {
            assert!(rule(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn a_shown_rule_reads_back() {
        for text in ["command: cargo test", "path: /srv/x", "network: crates.io"] {
            assert_eq!(rule(text).unwrap().to_string(), text);
        }
    }
}
