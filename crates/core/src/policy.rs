//! Which approvals need no person. The project's rules come first; what they do not name is asked.
//!
//! A refusal is stronger than a question, and a question stronger than a permission, whatever the order
//! of the rules. A permission holds only for what can be read with certainty: a command line with any
//! shell syntax in it is never allowed by its first words, while a refusal looks into all of its parts.

use serde::{Deserialize, Serialize};

use crate::request::Subject;

/// The version of the rules' form.
pub const POLICY_VERSION: u32 = 1;

/// Characters that make a command line more than words.
const SHELL_SYNTAX: &[char] = &[
    ';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '*', '?', '[', ']', '~', '#', '!', '\\',
    '\n', '\r', '=',
];

/// Programs that run the command line which follows `-c`.
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash"];

/// The project's rules about approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub version: u32,
    pub rules: Vec<Rule>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { version: POLICY_VERSION, rules: Vec::new() }
    }
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// Files at or below this path.
    Path(String),
    /// This host, or with a leading dot all below it.
    Network(String),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub decision: Decision,
    pub matches: Matcher,
}

/// What the rules say about one approval, and which rule said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Allow(String),
    Ask,
    Deny(String),
}

impl Policy {
    /// Judges what an approval is about. Of an unknown version nothing is understood, so all is asked, and so is what is
    /// only guessed from a screen: anything can print there.
    pub fn rule(&self, subject: &Subject) -> Ruling {
        if self.version != POLICY_VERSION || subject.guessed_by.is_some() {
            return Ruling::Ask;
        }
        let strongest =
            self.rules.iter().filter(|rule| rule.applies(subject)).max_by_key(|r| r.decision);
        match strongest {
            Some(rule) if rule.decision == Decision::Deny => Ruling::Deny(rule.matches.to_string()),
            Some(rule) if rule.decision == Decision::Allow && self.allows_all(subject) => {
                Ruling::Allow(rule.matches.to_string())
            }
            Some(_) | None => Ruling::Ask,
        }
    }

    /// Gives the same rules for another place: paths at or below one directory are put below the other.
    #[must_use]
    pub fn moved(&self, from: &str, to: &str) -> Policy {
        let below = |path: &str| match path.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            Some(_) | None => path.to_owned(),
        };
        let moved = |rule: &Rule| {
            let matches = match &rule.matches {
                Matcher::Path(path) => Matcher::Path(below(path)),
                Matcher::Command(_) | Matcher::Network(_) => rule.matches.clone(),
            };
            Rule { decision: rule.decision, matches }
        };
        Policy { version: self.version, rules: self.rules.iter().map(moved).collect() }
    }

    /// A permission for one part of what is asked is none for the rest of it.
    fn allows_all(&self, subject: &Subject) -> bool {
        let allowed = |part: Subject| {
            self.rules.iter().any(|rule| rule.decision == Decision::Allow && rule.applies(&part))
        };
        let unknown = String::new();
        let command = subject
            .command
            .iter()
            .map(|command| Subject { command: Some(command.clone()), ..Subject::default() });
        let paths = subject
            .paths
            .iter()
            .zip(subject.real_paths.iter().chain(std::iter::repeat(&unknown)))
            .map(|(path, real)| Subject {
                paths: vec![path.clone()],
                real_paths: vec![real.clone()],
                ..Subject::default()
            });
        let network = subject
            .network
            .iter()
            .map(|host| Subject { network: Some(host.clone()), ..Subject::default() });
        command.chain(paths).chain(network).all(allowed)
    }
}

impl Rule {
    fn applies(&self, subject: &Subject) -> bool {
        match (&self.matches, self.decision) {
            (Matcher::Command(words), Decision::Allow) => {
                let command = subject.command.as_deref().and_then(plain_words);
                command.is_some_and(|command| begins_with(&command, words))
            }
            (Matcher::Command(words), Decision::Ask | Decision::Deny) => {
                let command = subject.command.as_deref().unwrap_or_default();
                parts(command).iter().any(|part| begins_with(part, words))
            }
            // A name may be a link: what is allowed is both named and found there.
            (Matcher::Path(below), Decision::Allow) => {
                let mut places = subject.paths.iter().zip(&subject.real_paths);
                places.any(|(path, real)| is_below(path, below) && is_below(real, below))
            }
            (Matcher::Path(below), Decision::Ask | Decision::Deny) => {
                let mut places = subject.paths.iter().chain(&subject.real_paths);
                places.any(|path| is_below(path, below))
            }
            (Matcher::Network(host), _) => {
                subject.network.as_deref().is_some_and(|asked| is_host(asked, host))
            }
        }
    }
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Matcher::Command(words) => write!(f, "command {}", words.join(" ")),
            Matcher::Path(path) => write!(f, "path {path}"),
            Matcher::Network(host) => write!(f, "network {host}"),
        }
    }
}

/// Gives the words of a command line that is nothing but words, out of the shell that it is wrapped in.
fn plain_words(line: &str) -> Option<Vec<String>> {
    let words = split(line)?;
    match words.as_slice() {
        [shell, flag, inner] if is_shell(shell) && is_dash_c(flag) => {
            let plain = !inner.contains(SHELL_SYNTAX);
            plain.then(|| split(inner)).flatten()
        }
        [shell, ..] if is_shell(shell) => None,
        _ => (!line.contains(SHELL_SYNTAX)).then_some(words),
    }
}

/// Gives everything that may be a command in a line, whatever shell syntax is around it.
fn parts(line: &str) -> Vec<Vec<String>> {
    let inner = match split(line).as_deref() {
        Some([shell, flag, inner]) if is_shell(shell) && is_dash_c(flag) => inner.clone(),
        Some(_) | None => line.to_owned(),
    };
    let bare = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    let words = |part: &str| part.split_whitespace().map(bare).collect::<Vec<String>>();
    let all = inner.split([';', '|', '&', '(', ')', '{', '}', '`', '\n', '$']).map(words);
    all.flat_map(|part| (0..part.len()).map(move |at| part[at..].to_vec())).collect()
}

fn begins_with(command: &[String], words: &[String]) -> bool {
    !words.is_empty()
        && command.len() >= words.len()
        && command
            .iter()
            .zip(words)
            .enumerate()
            .all(|(at, (have, want))| have == want || (at == 0 && program(have) == want))
}

/// Splits a line as a shell would, quotes taken off; none if a quote is open.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&program(word))
}

fn is_dash_c(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc")
}

/// Says whether a path is the other or lies below it. A path that climbs is below nothing.
fn is_below(path: &str, below: &str) -> bool {
    let climbs = path.split('/').any(|part| part == "..");
    let rest = path.strip_prefix(below.trim_end_matches('/'));
    !climbs && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_host(asked: &str, host: &str) -> bool {
    match host.strip_prefix('.') {
        Some(domain) => asked == domain || asked.ends_with(host),
        None => asked == host,
    }
}
