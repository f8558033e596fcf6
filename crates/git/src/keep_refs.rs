//! Keep refs, which preserve an agent's commits that are on no branch.

use crate::command::{self, GitExit};
use crate::names::{KeepRef, Oid};
use crate::repo::Repo;

/// The maximum number of keep refs that share a name.
const MAX_KEPT: usize = 1000;

/// The reason why a commit was not kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot keep a commit: there are already {MAX_KEPT} refs like {keep}")]
    TooMany { keep: KeepRef },
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Points a keep ref at the commit. If the ref already points at a commit that the new one does not
/// contain, uses a numbered ref instead.
pub(crate) fn keep_commit(repo: &Repo<'_>, keep: &KeepRef, commit: &Oid) -> Result<KeepRef, Error> {
    for count in 1..=MAX_KEPT {
        let name = keep.numbered(count);
        let before = repo.ref_commit(name.as_str())?;
        if let Some(old) = &before
            && !contains(repo, commit, old)?
        {
            continue;
        }
        let old = before.as_ref().map_or("", Oid::as_str);
        // A symbolic ref with this name would lead to a branch.
        repo.write(["update-ref", "--no-deref", name.as_str(), commit.as_str(), old]).run()?;
        return Ok(name);
    }
    Err(Error::TooMany { keep: keep.clone() })
}

/// Whether `old` is the commit or one of its ancestors.
pub(crate) fn contains(repo: &Repo<'_>, commit: &Oid, old: &Oid) -> Result<bool, command::Error> {
    let answer = repo
        .read(["merge-base", "--is-ancestor", old.as_str(), commit.as_str()])
        .run_unchecked()?;
    match answer.exit {
        GitExit::Code(0) => Ok(true),
        GitExit::Code(1) => Ok(false),
        GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure()),
    }
}
