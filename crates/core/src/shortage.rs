//! Shortages: resources that the machine temporarily lacks.
//!
//! Work that encounters a shortage waits and is retried. It never fails because of the shortage,
//! because a shortage says nothing about the work itself.

use serde::{Deserialize, Serialize};

use crate::{aggregate::EffectKey, time::Moment};

/// A resource that may run out and become available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Threads and processes.
    Threads,
    Descriptors,
    Memory,
    DiskSpace,
    Inodes,
    /// The file system is mounted read-only.
    WritableDisk,
    /// A directory of Provost's home is missing or not writable.
    Directory,
    /// A git process of an earlier daemon may still be writing to a checkout.
    Git,
}

impl Resource {
    pub fn as_str(self) -> &'static str {
        match self {
            Resource::Threads => "threads",
            Resource::Descriptors => "descriptors",
            Resource::Memory => "memory",
            Resource::DiskSpace => "disk_space",
            Resource::Inodes => "inodes",
            Resource::WritableDisk => "writable_disk",
            Resource::Directory => "directory",
            Resource::Git => "git",
        }
    }

    /// Returns the name of the resource for use in messages.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Threads => "threads",
            Resource::Descriptors => "file descriptors",
            Resource::Memory => "memory",
            Resource::DiskSpace => "disk space",
            Resource::Inodes => "inodes",
            Resource::WritableDisk => "a writable disk",
            Resource::Directory => "a writable directory",
            Resource::Git => "an earlier git process",
        }
    }
}

/// A resource that has run short, and the error that revealed the shortage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    pub resource: Resource,
    pub detail: String,
}

/// The C library's messages for errors that indicate a shortage. Git prints the same texts, because
/// it runs with `LC_ALL=C`.
const MESSAGES: [(&str, Resource); 8] = [
    ("No space left on device", Resource::DiskSpace),
    ("Disk quota exceeded", Resource::DiskSpace),
    ("Quota exceeded", Resource::DiskSpace),
    ("Too many open files", Resource::Descriptors),
    ("Too many open files in system", Resource::Descriptors),
    ("Resource temporarily unavailable", Resource::Threads),
    ("Cannot allocate memory", Resource::Memory),
    ("Read-only file system", Resource::WritableDisk),
];

/// The prefixes of git's own messages.
const GIT_PREFIXES: [&str; 2] = ["fatal: ", "error: "];

/// Messages that git prints when a write fails, without giving the reason. If a write to an open
/// file fails, the disk is full.
const FAILED_WRITES: [&str; 6] = [
    "unable to write file",
    "unable to write new index file",
    "unable to write new_index file",
    "unable to write loose object file",
    "could not create leading directories",
    "Out of diskspace",
];

impl Shortage {
    pub fn new(resource: Resource, detail: impl Into<String>) -> Shortage {
        Shortage { resource, detail: detail.into() }
    }

    /// Classifies a Linux error number.
    pub fn from_os_error(code: i32, detail: impl Into<String>) -> Option<Shortage> {
        let resource = match code {
            11 => Resource::Threads,
            12 => Resource::Memory,
            23 | 24 => Resource::Descriptors,
            28 | 122 => Resource::DiskSpace,
            30 => Resource::WritableDisk,
            _ => return None,
        };
        Some(Shortage::new(resource, detail))
    }

    /// Classifies the text of an error and its causes. The first line comes from Provost and the
    /// others from git; see [`Shortage::from_git`].
    pub fn from_text(text: &str) -> Option<Shortage> {
        let (first, printed) = text.split_once('\n').unwrap_or((text, ""));
        let resource = cause(first).or_else(|| printed.lines().find_map(git_cause))?;
        Some(Shortage::new(resource, text))
    }

    /// Classifies the output of git. Only git's own messages are considered, because other lines
    /// contain file names, which may be any text.
    pub fn from_git(stderr: &str) -> Option<Shortage> {
        let resource = stderr.lines().find_map(git_cause)?;
        Some(Shortage::new(resource, stderr))
    }
}

fn git_cause(line: &str) -> Option<Resource> {
    let message = GIT_PREFIXES.iter().find_map(|prefix| line.strip_prefix(prefix))?;
    cause(message)
}

/// Classifies one message. The system's error text is either the entire message or follows the last
/// colon. Anywhere else, it is part of a name.
fn cause(message: &str) -> Option<Resource> {
    let message = message.trim_end();
    // Remove the text that Provost appends after the cause.
    let message = message.split_once("; ").map_or(message, |(cause, _)| cause);
    let message = message.rsplit_once(" (os error ").map_or(message, |(cause, _)| cause);
    let is_last = |text: &str| {
        let before = message.strip_suffix(text).map(str::trim_end);
        before.is_some_and(|before| before.is_empty() || before.ends_with(':'))
    };
    if let Some((_, resource)) = MESSAGES.iter().find(|(text, _)| is_last(text)) {
        return Some(*resource);
    }
    let failed = FAILED_WRITES
        .iter()
        .any(|text| message.starts_with(text) || message.contains(&format!(": {text}")));
    failed.then_some(Resource::DiskSpace)
}

/// The delay before the first retry. It doubles with each further retry.
pub const FIRST_RETRY_MS: u64 = 1_000;

/// The maximum delay between two retries. Retries never stop.
pub const LONGEST_RETRY_MS: u64 = 15_000;

/// Returns the delay before the next retry, after this many failures.
pub fn retry_after_ms(tries: u32) -> u64 {
    let doubled = FIRST_RETRY_MS.checked_shl(tries.saturating_sub(1).min(32));
    doubled.unwrap_or(LONGEST_RETRY_MS).min(LONGEST_RETRY_MS)
}

/// An effect that is waiting for a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectWait {
    pub effect: EffectKey,
    pub shortage: Shortage,
    /// The number of times that the effect failed because of a shortage.
    pub tries: u32,
    pub since: Moment,
    /// The time of the next retry, on the monotonic clock.
    pub retry_at_ms: u64,
    /// Whether the effect is being retried now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retrying: bool,
}
