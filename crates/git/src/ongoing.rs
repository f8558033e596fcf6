//! Operations of git that were begun and not ended.

use std::fmt;

use serde::Serialize;

use crate::command::Error;
use crate::repo::Repo;

/// An operation that somebody may want to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ongoing {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Bisect,
    /// Files in conflict without any of the above, as after `git stash pop`.
    Conflict,
}

/// What lies in the git directory as long as an operation goes on.
const MARKS: &[(&str, Ongoing)] = &[
    ("rebase-merge", Ongoing::Rebase),
    ("rebase-apply", Ongoing::Rebase),
    ("MERGE_HEAD", Ongoing::Merge),
    ("CHERRY_PICK_HEAD", Ongoing::CherryPick),
    ("REVERT_HEAD", Ongoing::Revert),
    ("BISECT_LOG", Ongoing::Bisect),
];

/// Returns the operation that goes on in a checkout, if any.
pub(crate) fn ongoing(repo: &Repo<'_>) -> Result<Option<Ongoing>, Error> {
    let marked =
        MARKS.iter().find(|(name, _)| repo.git_dir().join(name).symlink_metadata().is_ok());
    if let Some((_, operation)) = marked {
        return Ok(Some(*operation));
    }
    let unmerged = repo.read(["ls-files", "--unmerged", "-z"]).run()?;
    Ok((!unmerged.stdout.is_empty()).then_some(Ongoing::Conflict))
}

impl fmt::Display for Ongoing {
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
