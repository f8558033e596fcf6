//! Landing: making proved work stand where it was asked for. Nothing that stands is moved or overwritten.

use crate::command::{self, Exit, Git};
use crate::names::{BranchName, Oid};
use crate::project::{self, Project};

/// Why work could not be landed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the branch {branch} exists already, at {found}")]
    Taken { branch: BranchName, found: Oid },
    #[error(transparent)]
    Project(#[from] project::Error),
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// Makes a branch at a commit. Doing it again finds what was made; another's branch is left alone.
pub fn branch_at(
    git: &Git,
    project: &Project,
    branch: &BranchName,
    commit: &Oid,
) -> Result<(), Error> {
    let repo = project.shared(git)?;
    let (name, none) = (branch.full(), "0".repeat(commit.as_str().len()));
    let made =
        repo.write(["update-ref", "-m", "provost: land", &name, commit.as_str(), &none]).ask()?;
    if made.exit == Exit::Code(0) {
        return Ok(());
    }
    match repo.resolve(&name)? {
        Some(found) if found == *commit => Ok(()),
        Some(found) => Err(Error::Taken { branch: branch.clone(), found }),
        None => Err(Error::Git(made.failure())),
    }
}
