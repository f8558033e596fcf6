//! Validated names of git objects, refs and paths.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::escape::printable_line;

/// The prefix of refs that protect a snapshot from garbage collection.
pub const KEEP_PREFIX: &str = "refs/provost/keep/";

/// The maximum length of names that Provost chooses.
pub const MAX_NAME: usize = 200;

/// The full hash of a git object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Oid(String);

/// A branch that Provost creates, such as `provost/…`, without `refs/heads/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct BranchName(String);

/// A ref under `refs/provost/keep/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct KeepRef(String);

/// Any full ref name (`refs/heads/main`), as git stores it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(OsString);

/// A path in a repository, relative to its top. It may contain any bytes except NUL.
///
/// Display and serialization escape control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath(OsString);

/// The reason why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not an object hash: expected 40 or 64 hexadecimal digits")]
    NotAnOid(String),
    #[error("cannot use {name:?} as a name: {why}")]
    BadName { name: String, why: &'static str },
}

impl Oid {
    /// Parses a full hash.
    pub fn new(text: &str) -> Result<Self, Error> {
        let hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::NotAnOid(printable_line(text.as_bytes())))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl BranchName {
    /// Parses a branch name, which must have a prefix. Because of the prefix, it never clashes with
    /// a plain name that the user chose.
    pub fn new(name: &str) -> Result<Self, Error> {
        if !name.contains('/') {
            return Err(bad(
                name,
                "Provost's branches have a prefix and a slash, as in `provost/x`",
            ));
        }
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the full ref.
    pub fn full(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl KeepRef {
    /// Returns the keep ref with this id.
    pub fn new(id: &str) -> Result<Self, Error> {
        check(id)?;
        Ok(Self(format!("{KEEP_PREFIX}{id}")))
    }

    /// Returns the ref that keeps commits dropped from the worktree of this branch.
    pub(crate) fn for_dropped(branch: &BranchName) -> Self {
        Self(format!("{KEEP_PREFIX}{}-dropped", branch.0.replace('/', "-")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name to try if the first `count - 1` names are taken.
    pub(crate) fn numbered(&self, count: usize) -> Self {
        if count < 2 { self.clone() } else { Self(format!("{}-{count}", self.0)) }
    }
}

impl RefName {
    pub(crate) fn new(name: &OsStr) -> Self {
        Self(name.to_owned())
    }

    /// Returns the full ref of a branch such as `main`.
    pub fn from_branch(name: &str) -> Self {
        Self(format!("refs/heads/{name}").into())
    }

    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl RepoPath {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(OsString::from_vec(bytes.to_vec()))
    }

    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Validates a name more strictly than git does, so that it is safe as a ref, as a file name and on
/// a command line.
fn check(name: &str) -> Result<(), Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    if name.len() > MAX_NAME {
        return Err(bad(name, "the name is too long"));
    }
    if !name.bytes().all(plain) {
        return Err(bad(name, "only letters, digits and `-_./` are allowed"));
    }
    let well_formed = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['-', '.'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    if !name.split('/').all(well_formed) || name.contains("..") {
        return Err(bad(
            name,
            "a part is empty, begins with `-` or `.`, or ends with `.` or `.lock`",
        ));
    }
    Ok(())
}

fn bad(name: &str, why: &'static str) -> Error {
    Error::BadName { name: printable_line(name.as_bytes()), why }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KeepRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_line(self.0.as_bytes()))
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_line(self.0.as_bytes()))
    }
}

impl Serialize for RefName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for RepoPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_hashes_are_accepted() {
        assert!(Oid::new(&"a1".repeat(20)).is_ok());
        assert!(Oid::new(&"0".repeat(64)).is_ok());
        for text in ["", "abc", "HEAD", &"g".repeat(40), &"A".repeat(40)] {
            assert!(Oid::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn branch_names_are_prefixed_and_safe() {
        assert!(BranchName::new("provost/r1-t2-fix-it").is_ok());
        for name in [
            "main",
            "provost/",
            "provost/a b",
            "provost/-x",
            "provost/a..b",
            "provost/x.lock",
            "provost//a",
            "provost/.a",
            "provost/a.",
            "provost/a~1",
            "provost/a\n",
            "provost/a@{1}",
        ] {
            assert!(BranchName::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn keep_refs_stay_below_their_prefix() {
        let keep = KeepRef::new("s1").unwrap();
        assert_eq!(keep.as_str(), "refs/provost/keep/s1");
        assert_eq!(keep.numbered(1), keep);
        assert_eq!(keep.numbered(2).as_str(), "refs/provost/keep/s1-2");
        assert!(KeepRef::new("../heads/main").is_err());
    }

    #[test]
    fn paths_print_without_control_characters() {
        assert_eq!(RepoPath::new(b"a\nb\x1b").to_string(), "a\\nb\\u{1b}");
    }
}
