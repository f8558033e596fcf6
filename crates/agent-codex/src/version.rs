//! Versions of agents, ordered as in semantic versioning.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A version such as `0.166.0` or `0.167.0-alpha.2`. Build metadata is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentVersion {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// The part after the hyphen, if this is a pre-release.
    pub pre: Option<String>,
}

/// The error for a text that is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version such as 1.2.3")]
pub struct InvalidVersion;

impl AgentVersion {
    /// Creates the version of a release.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, pre: None }
    }
}

impl FromStr for AgentVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let plain = text.split_once('+').map_or(text, |(plain, _)| plain);
        let (numbers, pre) = match plain.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (plain, None),
        };
        if pre.is_some_and(|pre| !is_pre_release(pre)) {
            return Err(InvalidVersion);
        }
        let mut parts = numbers.split('.').map(number);
        let mut next = || parts.next().flatten().ok_or(InvalidVersion);
        let (major, minor, patch) = (next()?, next()?, next()?);
        match parts.next() {
            None => Ok(Self { major, minor, patch, pre: pre.map(str::to_owned) }),
            Some(_) => Err(InvalidVersion),
        }
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre.as_ref().map_or(Ok(()), |pre| write!(f, "-{pre}"))
    }
}

impl Ord for AgentVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (&self.pre, &other.pre) {
            (None, None) => Ordering::Equal,
            // A pre-release precedes its release.
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => compare_pre(a, b),
        })
    }
}

impl PartialOrd for AgentVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn number(text: &str) -> Option<u64> {
    // Parsing as `u64` would also accept a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn is_pre_release(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(allowed))
}

/// Compares two pre-releases. Numbers are compared numerically and precede text. If one pre-release
/// is a prefix of the other, the longer one is greater.
fn compare_pre(a: &str, b: &str) -> Ordering {
    let compare = |(a, b): (&str, &str)| match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    };
    let pairs = a.split('.').zip(b.split('.'));
    let first = pairs.map(compare).find(|order| order.is_ne());
    first.unwrap_or_else(|| a.split('.').count().cmp(&b.split('.').count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> AgentVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_follow_semver_order() {
        let rising = [
            "0.9.12",
            "0.107.0",
            "0.166.0-alpha",
            "0.166.0-alpha.2",
            "0.166.0-alpha.10",
            "0.166.0-alpha.beta",
            "0.166.0-beta.1",
            "0.166.0",
            "0.166.1",
            "1.0.0",
        ];
        let mut sorted: Vec<AgentVersion> = rising.iter().rev().map(|text| version(text)).collect();
        sorted.sort();
        assert_eq!(sorted.iter().map(ToString::to_string).collect::<Vec<_>>(), rising);
    }

    #[test]
    fn invalid_version_is_refused() {
        for text in ["", "1", "1.2", "1.2.3.4", "1.2.x", "+1.2.3", "1.2.3-", "1.2.3-a b", "1..3"] {
            assert_eq!(text.parse::<AgentVersion>(), Err(InvalidVersion), "{text}");
        }
        assert_eq!(version("1.2.3+build.5"), AgentVersion::new(1, 2, 3));
    }
}
