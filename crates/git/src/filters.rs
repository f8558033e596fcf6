//! Filters, such as Git LFS and git-crypt: programs that transform content when it enters or leaves
//! a repository.
//!
//! Provost runs a filter only if the operator trusts it, with the command from the user's own git
//! configuration. Content that needs any other filter is refused, because the commit or checkout
//! would otherwise have the wrong content.

use crate::command::{Error, Git};
use crate::names::{Oid, RepoPath};
use crate::project::Project;
use crate::repo::Repo;

/// The number of files that an error lists by name. The error only counts the others.
const NAMED: usize = 3;

/// Refuses a commit or tree if any of its files needs a filter that the operator does not trust.
pub fn refuse_filtered(git: &Git, project: &Project, tree: &Oid) -> Result<(), Error> {
    refuse_tree(&project.repo(git)?, tree)
}

/// Refuses a tree if any of its files needs a filter that the operator does not trust.
pub(crate) fn refuse_tree(repo: &Repo<'_>, tree: &Oid) -> Result<(), Error> {
    if repo.configured().filters.is_empty() {
        return Ok(());
    }
    let files = repo.read(["ls-tree", "-r", "-z", "--name-only", tree.as_str()]).run()?;
    refuse(repo, files.stdout, Some(tree))
}

pub(crate) fn refuse(repo: &Repo<'_>, files: Vec<u8>, tree: Option<&Oid>) -> Result<(), Error> {
    let configured = &repo.configured().filters;
    if configured.is_empty() || files.is_empty() {
        return Ok(());
    }
    let trusted = repo.git().trusted_filters();
    let source = tree.map(|tree| format!("--source={tree}"));
    let args = ["check-attr"].into_iter().chain(source.as_deref());
    let call = repo.read(args.chain(["-z", "--stdin", "filter"])).input(files);
    let answer = call.run()?;
    // The items are the path, attribute and value of each file.
    let items: Vec<&[u8]> = answer.stdout.split(|byte| *byte == 0).collect();
    let mut refused =
        items.chunks_exact(3).filter(|item| configured.refuses(item[2], &trusted)).peekable();
    let Some(first) = refused.peek() else { return Ok(()) };
    let filter = String::from_utf8_lossy(first[2]).into_owned();
    let all: Vec<String> = refused.map(|item| RepoPath::new(item[0]).to_string()).collect();
    let mut files = all[..all.len().min(NAMED)].join(", ");
    if all.len() > NAMED {
        files += &format!(" and {} more", all.len() - NAMED);
    }
    Err(Error::UntrustedFilter { filter, files })
}
