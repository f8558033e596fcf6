//! Unfinished git operations.

use std::fmt;

use serde::Serialize;

use crate::command::Error;
use crate::repo::Repo;

/// An operation that the user may want to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OngoingOperation {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Bisect,
    /// Files are in conflict, but none of the operations above is in progress, as after `git stash
    /// pop`.
    Conflict,
}

/// Files in the git directory that indicate an operation in progress.
const MARKS: &[(&str, OngoingOperation)] = &[
    ("rebase-merge", OngoingOperation::Rebase),
    ("rebase-apply", OngoingOperation::Rebase),
    ("MERGE_HEAD", OngoingOperation::Merge),
    ("CHERRY_PICK_HEAD", OngoingOperation::CherryPick),
    ("REVERT_HEAD", OngoingOperation::Revert),
    ("BISECT_LOG", OngoingOperation::Bisect),
];

/// Returns the operation in progress in a checkout, if any.
pub(crate) fn ongoing_operation(repo: &Repo<'_>) -> Result<Option<OngoingOperation>, Error> {
    let marked =
        MARKS.iter().find(|(name, _)| repo.git_dir().join(name).symlink_metadata().is_ok());
    if let Some((_, operation)) = marked {
        return Ok(Some(*operation));
    }
    let unmerged = repo.read(["ls-files", "--unmerged", "-z"]).run()?;
    Ok((!unmerged.stdout.is_empty()).then_some(OngoingOperation::Conflict))
}

impl fmt::Display for OngoingOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Merge => "a merge",
            Self::Rebase => "a rebase",
            Self::CherryPick => "a cherry-pick",
            Self::Revert => "a revert",
            Self::Bisect => "a bisection",
            Self::Conflict => "files in conflict",
        })
    }
}
