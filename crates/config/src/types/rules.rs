//! Rules about approvals: `"command: cargo test"`, `"path: docs/"`, `"network: crates.io"`.

use std::fmt;

use serde_json::{Value as Json, json};

use crate::node::{Item, Node};
use crate::problem::{Fault, quote};
use crate::shape::{Shape, Wording};
use crate::suggest;
use crate::types::FilePath;
use crate::value::{Value, invalid, text, wrong_type};

/// What an agent's wish is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalRule {
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// Files at or below this path; a relative one begins where the agent works.
    Path(FilePath),
    /// A host, or with a dot before it all hosts below.
    Network(String),
}

/// The version of the rules' form: what is written for another is not guessed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RulesVersion(u32);

/// The only version there is.
const VERSION: u32 = 1;

/// What a rule can be about.
const SUBJECTS: [&str; 3] = ["command", "path", "network"];

/// What would make a command more than words; such a rule could never match.
const NOT_WORDS: &[char] =
    &[';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '*', '?', '"', '\'', '\\'];

impl RulesVersion {
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Value for RulesVersion {
    fn shape() -> Shape {
        Shape::Count
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        match u32::read(node)? {
            VERSION => Ok(Self(VERSION)),
            other => Err(invalid(
                node,
                format!(
                    "rules of version {other} are not understood; this Provost knows {VERSION}"
                ),
            )),
        }
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

impl Value for ApprovalRule {
    fn shape() -> Shape {
        Shape::Text(Wording { one: "rule about approvals", many: "rules about approvals" })
    }

    fn read(node: &Node) -> Result<Self, Vec<Fault>> {
        if !matches!(node.item, Item::Text(_) | Item::Written(_)) {
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
            "{} is no rule: expected \"command: WORDS\", \"path: PATH\" or \"network: HOST\"",
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
            suggest::among(subject, &SUBJECTS)
        )),
        _ if rest.is_empty() => Err(format!("nothing follows {:?}", format!("{subject}:"))),
        "command" => command(rest),
        "path" => path(rest),
        _ => network(rest),
    }
}

fn command(line: &str) -> Result<ApprovalRule, String> {
    match line.contains(NOT_WORDS) {
        true => Err(format!(
            "{} is more than words: a rule names the first words of a command, without quotes or shell syntax",
            quote(line)
        )),
        false => Ok(ApprovalRule::Command(line.split_whitespace().map(str::to_owned).collect())),
    }
}

/// A path that climbs matches nothing, and a glob is taken for a name.
fn path(path: &str) -> Result<ApprovalRule, String> {
    if path.split('/').any(|part| part == "..") {
        return Err(r#"the path climbs by "..", and such a path matches nothing"#.into());
    }
    match path.contains(['*', '?', '[']) {
        true => Err("a path stands for all below it; there are no globs".into()),
        false => Ok(ApprovalRule::Path(FilePath::checked(path))),
    }
}

fn network(host: &str) -> Result<ApprovalRule, String> {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    match host.chars().all(plain) && !host.trim_matches('.').is_empty() {
        true => Ok(ApprovalRule::Network(host.to_ascii_lowercase())),
        false => Err(format!(
            "{} is no host; expected one such as \"crates.io\", or \".crates.io\" for all below it",
            quote(host)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_it_is_about() {
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
