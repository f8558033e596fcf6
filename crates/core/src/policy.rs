//! Rules that settle approval requests without a user. The project's rules apply first, and
//! requests that match no rule are left to the user.
//!
//! `deny` takes precedence over `ask`, and `ask` over `allow`, regardless of the order of the
//! rules. An `allow` rule applies only to what can be parsed with certainty: it never allows a
//! command line with shell syntax just because the first words match. A `deny` rule, in contrast,
//! inspects every part of the line.
//!
//! `allow` matches a program exactly. A bare name in a rule matches only the same bare name in a
//! command, and only if the agent's PATH resolves it to a file that the agent cannot write. A path
//! matches only the same path. Checking this needs IO, so the engine looks up ([`CommandLookup`])
//! the words that [`programs`] returns. `deny` and `ask` match loosely: in any directory, behind
//! any wrapper, and with options in between.

use serde::{Deserialize, Serialize};

use crate::request::{ApprovalSubject, CommandLookup, ProgramLookup};

/// The version of the rule format.
pub const POLICY_VERSION: u32 = 1;

/// Characters that have a special meaning in a shell. A command line that contains such a character
/// is more than plain words.
const SHELL_SYNTAX: &[char] = &[
    ';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '*', '?', '[', ']', '~', '#', '!', '\\',
    '\n', '\r', '=',
];

/// Characters after which another command may begin.
const SEPARATORS: &[char] = &[';', '|', '&', '(', ')', '{', '}', '`', '\n', '$'];

/// Shells, which run the command line that follows `-c`.
const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash"];

/// The project's approval rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub version: u32,
    pub rules: Vec<PolicyRule>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { version: POLICY_VERSION, rules: Vec::new() }
    }
}

/// The decision of a rule about the requests that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    Allow,
    Ask,
    Deny,
}

/// The pattern of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// Commands that begin with the given words.
    Command(Vec<String>),
    /// Files at or below this path.
    Path(String),
    /// A host, or all of its subdomains if the text starts with a dot.
    Network(String),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRule {
    pub decision: RuleDecision,
    pub matches: Matcher,
}

/// The decision of all rules about one approval request, with the decisive rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Allow(String),
    Ask,
    Deny(String),
}

/// The PATH on which the programs in a command are looked up.
#[derive(Clone, Copy, Debug)]
enum ProgramScope<'a> {
    /// Programs on the agent's PATH and in its directory. None if they were not looked up.
    Agent(Option<&'a CommandLookup>),
    /// Programs on Provost's own PATH, which no agent controls.
    OwnPath,
}

impl Policy {
    /// Applies the rules to an approval request. If the version of the rules is unknown, every
    /// request is left to the user. A request inferred from a screen is always left to the user,
    /// because any program can print there.
    pub fn evaluate(&self, subject: &ApprovalSubject) -> Ruling {
        self.judge(subject, ProgramScope::Agent(subject.lookup.as_ref()))
    }

    /// Applies the rules to a command that Provost would run itself, in its own checkout. Relative
    /// paths are never allowed.
    pub fn evaluate_own_command(&self, command: &str) -> Ruling {
        let subject =
            ApprovalSubject { command: Some(command.to_owned()), ..ApprovalSubject::default() };
        self.judge(&subject, ProgramScope::OwnPath)
    }

    fn judge(&self, subject: &ApprovalSubject, programs: ProgramScope<'_>) -> Ruling {
        if self.version != POLICY_VERSION || subject.inferred_from.is_some() {
            return Ruling::Ask;
        }
        let strongest =
            self.rules.iter().filter(|r| r.applies(subject, programs)).max_by_key(|r| r.decision);
        match strongest {
            Some(rule) if rule.decision == RuleDecision::Deny => {
                Ruling::Deny(rule.matches.to_string())
            }
            Some(rule)
                if rule.decision == RuleDecision::Allow && self.allows_all(subject, programs) =>
            {
                Ruling::Allow(rule.matches.to_string())
            }
            Some(_) | None => Ruling::Ask,
        }
    }

    /// Returns the same rules for another directory: paths at or below `from` are moved to `to`.
    #[must_use]
    pub fn relocated(&self, from: &str, to: &str) -> Policy {
        let below = |path: &str| match path.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            Some(_) | None => path.to_owned(),
        };
        let moved = |rule: &PolicyRule| {
            let matches = match &rule.matches {
                Matcher::Path(path) => Matcher::Path(below(path)),
                Matcher::Command(_) | Matcher::Network(_) => rule.matches.clone(),
            };
            PolicyRule { decision: rule.decision, matches }
        };
        Policy { version: self.version, rules: self.rules.iter().map(moved).collect() }
    }

    /// Whether every part of the request is allowed. Permission for one part does not extend to the others.
    fn allows_all(&self, subject: &ApprovalSubject, programs: ProgramScope<'_>) -> bool {
        let allowed = |part: ApprovalSubject| {
            let mut rules = self.rules.iter().filter(|rule| rule.decision == RuleDecision::Allow);
            rules.any(|rule| rule.applies(&part, programs))
        };
        let unknown = String::new();
        let command = subject.command.iter().map(|command| ApprovalSubject {
            command: Some(command.clone()),
            ..ApprovalSubject::default()
        });
        let paths = subject
            .paths
            .iter()
            .zip(subject.real_paths.iter().chain(std::iter::repeat(&unknown)))
            .map(|(path, real)| ApprovalSubject {
                paths: vec![path.clone()],
                real_paths: vec![real.clone()],
                ..ApprovalSubject::default()
            });
        let network = subject.network.iter().map(|host| ApprovalSubject {
            network: Some(host.clone()),
            ..ApprovalSubject::default()
        });
        command.chain(paths).chain(network).all(allowed)
    }
}

impl PolicyRule {
    fn applies(&self, subject: &ApprovalSubject, programs: ProgramScope<'_>) -> bool {
        match (&self.matches, self.decision) {
            (Matcher::Command(words), RuleDecision::Allow) => {
                let command = subject.command.as_deref().and_then(PlainCommand::parse);
                command.is_some_and(|command| command.is_allowed_by(words, programs))
            }
            (Matcher::Command(words), RuleDecision::Ask | RuleDecision::Deny) => {
                let command = subject.command.as_deref().unwrap_or_default();
                command_candidates(command).iter().any(|part| matches_loosely(part, words))
            }
            // The path may be a symlink, so both the path and its target must be allowed.
            (Matcher::Path(below), RuleDecision::Allow) => {
                let mut places = subject.paths.iter().zip(&subject.real_paths);
                places.any(|(path, real)| is_below(path, below) && is_below(real, below))
            }
            (Matcher::Path(below), RuleDecision::Ask | RuleDecision::Deny) => {
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

/// Returns the words of a command line that name the programs it starts: the wrapping shell, if
/// any, and the program itself. Empty if no rule can allow the line.
pub fn programs(line: &str) -> Vec<String> {
    let Some(command) = PlainCommand::parse(line) else { return Vec::new() };
    command.program_words().map(str::to_owned).collect()
}

/// A command line that consists of plain words, and the shell that wraps it, if any.
struct PlainCommand {
    shell: Option<String>,
    words: Vec<String>,
}

impl PlainCommand {
    fn parse(line: &str) -> Option<PlainCommand> {
        let words = split_words(line)?;
        match words.as_slice() {
            [shell, flag, inner] if is_shell(shell) && is_dash_c(flag) => {
                if inner.contains(SHELL_SYNTAX) {
                    return None;
                }
                Some(PlainCommand { shell: Some(shell.clone()), words: split_words(inner)? })
            }
            [shell, ..] if is_shell(shell) => None,
            _ if line.contains(SHELL_SYNTAX) => None,
            _ => Some(PlainCommand { shell: None, words }),
        }
    }

    fn program_words(&self) -> impl Iterator<Item = &str> {
        self.shell.iter().chain(self.words.first()).map(String::as_str)
    }

    /// Whether a rule with these words allows the command. The command must begin with the same
    /// words, and the agent must not have write access to the programs that it starts.
    fn is_allowed_by(&self, rule: &[String], programs: ProgramScope<'_>) -> bool {
        let same_words = !rule.is_empty() && self.words.starts_with(rule);
        // A relative path refers to a file in the agent's working directory.
        let absolute = |word: &str| !word.contains('/') || word.starts_with('/');
        let known = match programs {
            ProgramScope::OwnPath => true,
            ProgramScope::Agent(lookup) => lookup.is_some_and(|lookup| self.is_found(lookup)),
        };
        same_words && known && self.program_words().all(absolute)
    }

    /// Whether the command would run in the session's working directory and all of its programs were found.
    fn is_found(&self, lookup: &CommandLookup) -> bool {
        let found =
            |(word, found): (&str, &ProgramLookup)| found.word == word && found.file.is_some();
        let all_found = self.program_words().count() == lookup.programs.len()
            && self.program_words().zip(&lookup.programs).all(found);
        lookup.in_worktree && all_found
    }
}

/// Returns everything in a line that might be a command, regardless of the shell syntax around it.
/// The line is split both with and without regard to quotes, because each way finds commands that
/// the other misses.
fn command_candidates(line: &str) -> Vec<Vec<String>> {
    let inner = match split_words(line).as_deref() {
        Some([shell, flag, inner]) if is_shell(shell) && is_dash_c(flag) => inner.clone(),
        Some(_) | None => line.to_owned(),
    };
    let bare = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    let words = |part: &str| part.split_whitespace().map(bare).collect::<Vec<String>>();
    let blind = inner.split(SEPARATORS).map(words);
    let all = blind.chain(quoted_parts(&inner));
    all.flat_map(|part| (0..part.len()).map(move |at| part[at..].to_vec())).collect()
}

/// Splits a line into commands as a shell would, removing quotes and backslashes.
fn quoted_parts(line: &str) -> Vec<Vec<String>> {
    let (mut parts, mut words, mut word, mut quote) =
        (Vec::new(), Vec::new(), None::<String>, None);
    let mut escaped = false;
    for c in line.chars() {
        match quote {
            _ if escaped => {
                escaped = false;
                word.get_or_insert_default().push(c);
            }
            Some(open) if c == open => quote = None,
            Some('\'') => word.get_or_insert_default().push(c),
            _ if c == '\\' => escaped = true,
            Some(_) => word.get_or_insert_default().push(c),
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if SEPARATORS.contains(&c) => {
                words.extend(word.take());
                parts.push(std::mem::take(&mut words));
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    parts.push(words);
    parts
}

/// Whether a command matches a `deny` or `ask` rule. Options and their values may appear between
/// the words of the rule. An option in the rule matches anywhere after the words that precede it.
fn matches_loosely(command: &[String], rule: &[String]) -> bool {
    let Some((first, rest)) = rule.split_first() else { return false };
    let Some((program_word, arguments)) = command.split_first() else { return false };
    (program_word == first || base_name(program_word) == first) && arguments_match(arguments, rest)
}

fn arguments_match(arguments: &[String], rule: &[String]) -> bool {
    let Some((want, rest)) = rule.split_first() else { return true };
    let Some((have, after)) = arguments.split_first() else { return false };
    if have == want && arguments_match(after, rest) {
        return true;
    }
    let is_option = |word: &str| word.starts_with('-');
    if is_option(want) {
        return arguments_match(after, rule);
    }
    // The word after an option might be the option's value.
    is_option(have)
        && (arguments_match(after, rule)
            || after.get(1..).is_some_and(|rest| arguments_match(rest, rule)))
}

/// Splits a line as a shell would, removing quotes. None if a quote is not closed.
fn split_words(line: &str) -> Option<Vec<String>> {
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

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&base_name(word))
}

fn is_dash_c(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc")
}

/// Whether `path` is equal to `below` or inside it. A path that contains `..` never matches.
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
