//! A commit in which some files are replaced by those of another commit.
//!
//! Checks may depend on files that the work under check has changed. The commit built here has the
//! work's tree, but takes these files from the base: changed and deleted files are restored, and
//! added files are left out. The commit is built from trees alone. No file of a checkout is
//! written, so no link in the work can redirect a write, and `git status` in a check reports no
//! changes.

use std::ffi::OsStr;

use tempfile::TempDir;

use crate::command::{self, Git};
use crate::escape::printable;
use crate::landing::{self, commit_merge};
use crate::names::{Oid, RepoPath};
use crate::project::Project;
use crate::repo::answer_oid;
use crate::snapshot::CommitMessage;

/// The maximum number of bytes that [`diff_among`] returns.
pub const MAX_DIFF: usize = 16 << 10;

/// Two commits to compare.
#[derive(Debug, Clone, Copy)]
pub struct CommitPair<'a> {
    pub base: &'a Oid,
    pub work: &'a Oid,
}

/// A commit of the work in which some files come from the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayCommit {
    pub commit: Oid,
    pub tree: Oid,
    /// The files taken from the base.
    pub files: Vec<RepoPath>,
}

/// A diff as text, truncated to [`MAX_DIFF`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedDiff {
    pub text: String,
    pub truncated: bool,
}

/// Returns the work with all files that match the patterns taken from the base. Returns `None` if
/// the matching files do not differ. The same call always produces the same commit.
pub fn overlay(
    git: &Git,
    project: &Project,
    CommitPair { base, work }: CommitPair<'_>,
    patterns: &[String],
) -> Result<Option<OverlayCommit>, landing::Error> {
    let repo = project.shared(git)?;
    let options = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
    let options = options.into_iter().chain([base.as_str(), work.as_str(), "--"]);
    let patterns = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    let changed = repo.read(options.map(str::to_owned).chain(patterns)).run()?;
    let (mut restored, mut files) = (Vec::new(), Vec::new());
    let mut items = changed.items();
    while let (Some(meta), Some(path)) = (items.next(), items.next()) {
        let entry = base_entry(meta).ok_or_else(|| changed.unexpected())?;
        restored.extend([entry.as_bytes(), b"\t", path, b"\0"].concat());
        files.push(RepoPath::new(path));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let scratch = git.scratch();
    let directory = TempDir::with_prefix_in("provost-index-", scratch)
        .map_err(command::Error::file(scratch))?;
    let staged = repo.with_index(&directory.path().join("index"));
    staged.write(["read-tree", work.as_str()]).run()?;
    let update = ["update-index", "-z", "--replace", "--index-info"];
    staged.write(update).input(restored).run()?;
    let tree = answer_oid(&staged.write(["write-tree"]).run()?)?;
    let message = CommitMessage {
        text: "Check with protected files as of the base".to_owned(),
        trailers: vec![("Provost-Base".to_owned(), base.to_string())],
    };
    let commit = commit_merge(git, project, &tree, &[work], &message, 0)?;
    Ok(Some(OverlayCommit { commit, tree, files }))
}

/// Converts a raw diff record (`:mode mode hash hash letter`) to the base's index entry. Mode 0
/// removes a file that the base does not have.
fn base_entry(meta: &[u8]) -> Option<String> {
    let meta = std::str::from_utf8(meta).ok()?.strip_prefix(':')?;
    let mut fields = meta.split(' ');
    let (mode, hash) = (fields.next()?, fields.nth(1)?);
    Some(match mode {
        "000000" => format!("0 {hash}"),
        mode => format!("{mode} {hash}"),
    })
}

/// Returns the diff of the files that match the patterns, as text to display. A file counts as text
/// even if it has bytes or attributes that make git show nothing of a binary file.
pub fn diff_among(
    git: &Git,
    project: &Project,
    CommitPair { base, work }: CommitPair<'_>,
    patterns: &[String],
) -> Result<BoundedDiff, landing::Error> {
    let options =
        ["diff-tree", "-r", "-p", "--text", "--no-renames", "--no-ext-diff", "--no-textconv"];
    let options = options.into_iter().chain([base.as_str(), work.as_str(), "--"]);
    let patterns = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    let arguments: Vec<String> = options.map(str::to_owned).chain(patterns).collect();
    let answer = project.shared(git)?.read(arguments.iter().map(OsStr::new)).run()?;
    let truncated = answer.stdout.len() > MAX_DIFF;
    let shown = answer.stdout.get(..MAX_DIFF).unwrap_or(&answer.stdout);
    Ok(BoundedDiff { text: printable(shown), truncated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_entry_restores_or_removes_files() {
        let entry = |record: &str| base_entry(record.as_bytes());
        assert_eq!(entry(":100644 100755 aa bb M").as_deref(), Some("100644 aa"));
        assert_eq!(entry(":120000 000000 aa 00 D").as_deref(), Some("120000 aa"));
        assert_eq!(entry(":000000 100644 00 bb A").as_deref(), Some("0 00"));
        assert_eq!(entry("100644 100755 aa bb M"), None);
    }
}
