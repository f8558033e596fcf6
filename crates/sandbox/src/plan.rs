//! The plan of a sandbox: plain data that determines the access to every path.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How much of the file system a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// The command can write only to its temporary directory.
    ReadOnly,
    /// The command can also write to its worktree and to paths that the user's configuration lists.
    Workspace,
    /// Files and network are not restricted.
    Off,
}

impl SandboxMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How completely a machine can enforce a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// Nothing is enforced.
    None,
    /// Landlock restricts files and TCP. There is no PID namespace, the names of hidden files are
    /// visible, and sockets in the file system are reachable.
    Files,
    /// Bubblewrap enforces the whole plan, in a PID namespace of its own.
    Full,
}

impl SandboxLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Files => "files",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a command can use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkAccess {
    Off,
    On,
}

/// The kind of access that a command has to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathAccess {
    Hidden,
    Readable,
    Writable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    Directory,
    /// Anything else, such as a regular file or a socket.
    File,
}

/// The access to a path and everything below it, unless a rule for a longer path applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRule {
    /// An absolute path without symbolic links.
    pub path: PathBuf,
    pub access: PathAccess,
    pub kind: FileKind,
    /// The directory that the command finds at `path` instead of the real one. At the level
    /// *files*, `path` is hidden instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
}

/// Limits that a command cannot raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// The maximum number of processes and threads. The kernel does not apply it to root.
    pub processes: u64,
    /// The maximum number of open files per process.
    pub open_files: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: 4096, open_files: 65_536 }
    }
}

/// Everything that the sandbox of one command allows.
///
/// The rule with the longest path that contains a file determines the access to that file. A file
/// without a rule is readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    pub mode: SandboxMode,
    pub network: NetworkAccess,
    /// The working directory of the command.
    pub directory: PathBuf,
    /// The temporary directory that only this command and its successors use.
    pub temporary: PathBuf,
    /// Sorted by path, so that a rule follows the rules for its parents. Paths are unique.
    pub rules: Vec<PathRule>,
    /// Existing files and directories in writable directories that are readable only. At the level
    /// *files*, they can be replaced, because Landlock grants access to whole directories.
    pub frozen: Vec<PathBuf>,
    /// Names of environment variables that the command does not inherit.
    pub removed_variables: Vec<String>,
    pub limits: ProcessLimits,
}

impl SandboxPlan {
    /// Creates a plan that restricts no files and no network. At the level *full*, the command
    /// still has its own PID namespace.
    pub fn unrestricted(directory: PathBuf, temporary: PathBuf) -> Self {
        Self {
            mode: SandboxMode::Off,
            network: NetworkAccess::On,
            directory,
            temporary,
            rules: Vec::new(),
            frozen: Vec::new(),
            removed_variables: Vec::new(),
            limits: ProcessLimits::default(),
        }
    }

    /// Returns the access to a file. The path must not contain symbolic links.
    pub fn access_to(&self, path: &Path) -> PathAccess {
        if self.mode == SandboxMode::Off {
            return PathAccess::Writable;
        }
        let access = self.rule_for(path).map_or(PathAccess::Readable, |rule| rule.access);
        if access == PathAccess::Writable && self.frozen.iter().any(|one| path.starts_with(one)) {
            return PathAccess::Readable;
        }
        access
    }

    /// Returns the rule that determines the access to a path.
    pub(crate) fn rule_for(&self, path: &Path) -> Option<&PathRule> {
        // A longer path is sorted after the paths that contain it.
        self.rules.iter().rfind(|rule| path.starts_with(&rule.path))
    }

    /// Returns the rules for paths strictly below a directory.
    pub(crate) fn rules_below(&self, directory: &Path) -> impl Iterator<Item = &PathRule> {
        let is_below =
            move |rule: &&PathRule| rule.path != directory && rule.path.starts_with(directory);
        self.rules.iter().filter(is_below)
    }

    /// Adds a rule. It replaces an earlier rule for the same path.
    pub(crate) fn add_rule(&mut self, rule: PathRule) {
        match self.rules.binary_search_by(|one| one.path.cmp(&rule.path)) {
            Ok(at) => self.rules[at] = rule,
            Err(at) => self.rules.insert(at, rule),
        }
    }

    /// Returns the value of `TMPDIR` for the command.
    pub fn temporary_at(&self, level: SandboxLevel) -> &Path {
        let replaced = self.rules.iter().find(|rule| rule.source.as_ref() == Some(&self.temporary));
        match (level, replaced) {
            // The path is short, because it may become part of the path of a socket.
            (SandboxLevel::Full, Some(rule)) => &rule.path,
            _ => &self.temporary,
        }
    }
}
