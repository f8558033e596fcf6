//! Landing, which puts verified work on its target branch. Landing never moves or overwrites a
//! user's files. It only fast-forwards a branch, and updates a checkout only if the update does not
//! affect the user's changes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::command::{self, Git, GitExit, STDERR_LINES};
use crate::escape::{last_lines, printable_line};
use crate::interrupted::{CheckoutMove, move_files};
use crate::isolated_repo::IsolatedRepo;
use crate::names::{BranchName, Oid, RefName, RepoPath};
use crate::operation::{OngoingOperation, ongoing_operation};
use crate::project::{self, Project};
use crate::registry;
use crate::repo::{Repo, answer_oid};
use crate::snapshot::{self, CommitMessage};

/// The maximum number of files passed to one git call.
const FILES_PER_CALL: usize = 500;

/// The reason why work could not be landed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create the branch {branch}: it already exists at {found}")]
    BranchExists { branch: BranchName, found: Oid },
    #[error("the branch {0} does not exist")]
    NoBranch(RefName),
    #[error("cannot update the branch {branch} in its checkout: {output}")]
    Refused { branch: RefName, output: String },
    #[error("cannot update the branch {branch}: {ongoing} is in progress in its checkout")]
    Busy { branch: RefName, ongoing: OngoingOperation },
    #[error(
        "cannot update the branch {branch} in its checkout: {files} would need the git filter {filter:?}"
    )]
    Filtered { branch: RefName, filter: String, files: String },
    #[error("cannot use a remote of {}: a path is not valid UTF-8", printable_line(.0.as_os_str().as_bytes()))]
    NotUtf8(PathBuf),
    #[error(transparent)]
    Message(#[from] snapshot::Error),
    #[error(transparent)]
    Project(#[from] project::Error),
    #[error(transparent)]
    Git(#[from] command::Error),
}

/// The merge of two lines of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeCommit {
    pub commit: Oid,
    pub tree: Oid,
    /// Files that both sides changed in the same places. They contain conflict markers.
    pub conflicts: Vec<RepoPath>,
}

/// The result of fast-forwarding a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastForward {
    /// The branch now contains the commit.
    Done,
    /// The branch has diverged. The value is the branch's newest commit.
    Diverged(Oid),
}

/// Creates a branch at a commit. Repeating the call succeeds. If the branch exists at another
/// commit, the call fails and the branch is not changed.
pub fn create_branch(
    git: &Git,
    project: &Project,
    branch: &BranchName,
    commit: &Oid,
) -> Result<(), Error> {
    let repo = project.shared(git)?;
    let (name, none) = (branch.full(), "0".repeat(commit.as_str().len()));
    let made = repo
        .write(["update-ref", "-m", "provost: land", &name, commit.as_str(), &none])
        .run_unchecked()?;
    if made.exit == GitExit::Code(0) {
        return Ok(());
    }
    match repo.resolve(&name)? {
        Some(found) if found == *commit => Ok(()),
        Some(found) => Err(Error::BranchExists { branch: branch.clone(), found }),
        None => Err(Error::Git(made.failure())),
    }
}

/// Merges `onto` into `work` without a checkout. The same call always produces the same commit,
/// because the time is a parameter and only attributes in `work` determine how files are merged. It
/// runs no merge driver, because such a program could choose a side.
pub fn merge(
    git: &Git,
    project: &Project,
    work: &Oid,
    onto: &Oid,
    message: &CommitMessage,
    at_s: i64,
) -> Result<MergeCommit, Error> {
    let repo = project.shared(git)?;
    let (tree, conflicts) = merge_trees(&IsolatedRepo::with_objects_of(&repo, work)?, work, onto)?;
    let commit = commit_tree(&repo, &tree, &[work, onto], message, at_s)?;
    Ok(MergeCommit { commit, tree, conflicts })
}

/// Returns the tree of a merge, and the files that are in conflict.
fn merge_trees(
    apart: &IsolatedRepo<'_>,
    work: &Oid,
    onto: &Oid,
) -> Result<(Oid, Vec<RepoPath>), command::Error> {
    let options = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
    let call = apart.call(options.into_iter().chain([work.as_str(), onto.as_str()]));
    let answer = call.variable("GIT_ATTR_SOURCE", work.as_str()).run_unchecked()?;
    if !matches!(answer.exit, GitExit::Code(0 | 1)) {
        return Err(answer.failure());
    }
    let mut items = answer.items();
    let tree = items.next().and_then(|tree| Oid::new(std::str::from_utf8(tree).ok()?).ok());
    let tree = tree.ok_or_else(|| answer.unexpected())?;
    Ok((tree, items.map(RepoPath::new).collect()))
}

/// Returns the files of a tree that still contain conflict markers of a merge, which are the lines
/// that [`merge`] wrote around the two sides. Such a line contains a commit hash, so no other text
/// matches.
pub fn files_with_conflict_markers(
    git: &Git,
    project: &Project,
    work: &Oid,
    onto: &Oid,
    tree: &Oid,
) -> Result<Vec<RepoPath>, Error> {
    let apart = IsolatedRepo::with_objects_of(&project.shared(git)?, work)?;
    let (_, files) = merge_trees(&apart, work, onto)?;
    let marker = format!("^[<>]+ ({work}|{onto})");
    let mut found = Vec::new();
    for some in files.chunks(FILES_PER_CALL) {
        let options = ["grep", "-lzE", "--text", "-e", &marker, tree.as_str(), "--"];
        let paths = some.iter().map(|file| file.as_path().as_os_str());
        let call = apart.call(options.into_iter().map(OsStr::new).chain(paths));
        let answer = call.variable("GIT_LITERAL_PATHSPECS", "1").run_unchecked()?;
        match answer.exit {
            // Each item begins with the tree's hash.
            GitExit::Code(0) => found.extend(answer.items().map(|item| {
                RepoPath::new(item.get(tree.as_str().len() + 1..).unwrap_or_default())
            })),
            GitExit::Code(1) => {}
            GitExit::Code(_) | GitExit::Signal(_) => return Err(answer.failure().into()),
        }
    }
    Ok(found)
}

/// Commits a tree with several parents. The same call always produces the same commit.
pub fn commit_merge(
    git: &Git,
    project: &Project,
    tree: &Oid,
    parents: &[&Oid],
    message: &CommitMessage,
    at_s: i64,
) -> Result<Oid, Error> {
    commit_tree(&project.shared(git)?, tree, parents, message, at_s)
}

fn commit_tree(
    repo: &Repo<'_>,
    tree: &Oid,
    parents: &[&Oid],
    message: &CommitMessage,
    at_s: i64,
) -> Result<Oid, Error> {
    let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
    let args = ["commit-tree", tree.as_str(), "-F", "-"].into_iter().chain(parents);
    let date = format!("@{at_s} +0000");
    let call = repo.write(args).input(message.render()?.into_bytes());
    let call = call.variable("GIT_AUTHOR_DATE", &date).variable("GIT_COMMITTER_DATE", &date);
    Ok(answer_oid(&call.run()?)?)
}

/// Fast-forwards a branch to a commit that contains it. If the branch is checked out, its files are
/// updated too, unless that would affect an uncommitted change.
pub fn fast_forward(
    git: &Git,
    project: &Project,
    branch: &RefName,
    to: &Oid,
) -> Result<FastForward, Error> {
    let repo = project.shared(git)?;
    let tip = commit_of(&repo, branch)?.ok_or_else(|| Error::NoBranch(branch.clone()))?;
    if contains_commit(&repo, &tip, to)? {
        return Ok(FastForward::Done);
    }
    if !contains_commit(&repo, to, &tip)? {
        return Ok(FastForward::Diverged(tip));
    }
    match checkout_of(git, &repo, branch)? {
        Some(checkout) => forward_files(&checkout, branch, &tip, to)?,
        None => move_ref(git, project, branch, &tip, to)?,
    }
    // The result depends on the current position of the branch, because another process may have
    // moved the branch first.
    let now = commit_of(&repo, branch)?.ok_or_else(|| Error::NoBranch(branch.clone()))?;
    Ok(if contains_commit(&repo, &now, to)? {
        FastForward::Done
    } else {
        FastForward::Diverged(now)
    })
}

/// Moves a branch to a commit that need not contain the current one. If the branch is checked out,
/// its files are updated too, unless that would affect an uncommitted change.
pub fn move_branch(
    git: &Git,
    project: &Project,
    branch: &RefName,
    from: &Oid,
    to: &Oid,
) -> Result<(), Error> {
    let repo = project.shared(git)?;
    let Some(checkout) = checkout_of(git, &repo, branch)? else {
        return move_ref(git, project, branch, from, to);
    };
    refuse_unsafe_checkout(&checkout, branch, from, to)?;
    let reset = ["reset", "--quiet", "--keep", to.as_str()];
    let moved = move_files(&checkout, &reset, CheckoutMove { from, to })?;
    match moved.exit {
        GitExit::Code(0) => Ok(()),
        GitExit::Code(_) | GitExit::Signal(_) => {
            let output = last_lines(&moved.stderr, STDERR_LINES);
            Err(Error::Refused { branch: branch.clone(), output })
        }
    }
}

/// Whether a branch contains a commit.
pub fn has_commit(
    git: &Git,
    project: &Project,
    branch: &RefName,
    commit: &Oid,
) -> Result<bool, Error> {
    let repo = project.shared(git)?;
    match commit_of(&repo, branch)? {
        Some(tip) => contains_commit(&repo, &tip, commit),
        None => Ok(false),
    }
}

/// Returns the newest commit of a branch, if the branch exists.
pub fn branch_tip(git: &Git, project: &Project, branch: &RefName) -> Result<Option<Oid>, Error> {
    Ok(commit_of(&project.shared(git)?, branch)?)
}

/// Whether the commit `newer` contains `older`.
pub fn includes(git: &Git, project: &Project, newer: &Oid, older: &Oid) -> Result<bool, Error> {
    contains_commit(&project.shared(git)?, newer, older)
}

/// Whether two commits have a common ancestor. Work that has no common ancestor with the project is
/// not based on it.
pub fn have_common_ancestor(
    git: &Git,
    project: &Project,
    one: &Oid,
    other: &Oid,
) -> Result<bool, Error> {
    let answer =
        project.shared(git)?.read(["merge-base", one.as_str(), other.as_str()]).run_unchecked()?;
    match answer.exit {
        GitExit::Code(0) => Ok(true),
        GitExit::Code(1) => Ok(false),
        GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure().into()),
    }
}

fn commit_of(repo: &Repo<'_>, branch: &RefName) -> Result<Option<Oid>, command::Error> {
    let mut expression = branch.as_os_str().to_owned();
    expression.push("^{commit}");
    repo.resolve(expression)
}

/// Finds the checkout that has this branch checked out.
fn checkout_of<'g>(
    git: &'g Git,
    repo: &Repo<'_>,
    branch: &RefName,
) -> Result<Option<Repo<'g>>, Error> {
    let entries = registry::entries(repo)?;
    let out = entries
        .iter()
        .find(|entry| entry.branch.as_deref().map(OsStr::new) == Some(branch.as_os_str()));
    Ok(out.map(|entry| Repo::open_at(git, &entry.path)).transpose()?.flatten())
}

/// Moves a branch that is not checked out. Does nothing if another process has moved the branch in
/// the meantime.
fn move_ref(
    git: &Git,
    project: &Project,
    branch: &RefName,
    from: &Oid,
    to: &Oid,
) -> Result<(), Error> {
    refuse_busy(&project.repo(git)?, branch)?;
    let args = ["update-ref", "-m", "provost: land"].map(OsStr::new);
    let values = [branch.as_os_str(), to.as_str().as_ref(), from.as_str().as_ref()];
    project.shared(git)?.write(args.into_iter().chain(values)).run_unchecked()?;
    Ok(())
}

/// Refuses to update a checkout that has an operation in progress, or files that need an untrusted
/// filter.
fn refuse_unsafe_checkout(
    checkout: &Repo<'_>,
    branch: &RefName,
    tip: &Oid,
    to: &Oid,
) -> Result<(), Error> {
    refuse_busy(checkout, branch)?;
    let changed = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=d"];
    let changed = checkout.read(changed.into_iter().chain([tip.as_str(), to.as_str()])).run()?;
    match checkout.refuse_filtered(changed.stdout, Some(to)) {
        Err(command::Error::UntrustedFilter { filter, files }) => {
            Err(Error::Filtered { branch: branch.clone(), filter, files })
        }
        checked => Ok(checked?),
    }
}

fn forward_files(checkout: &Repo<'_>, branch: &RefName, tip: &Oid, to: &Oid) -> Result<(), Error> {
    refuse_unsafe_checkout(checkout, branch, tip, to)?;
    let merge = ["merge", "--ff-only", "--no-stat", to.as_str()];
    let merged = move_files(checkout, &merge, CheckoutMove { from: tip, to })?;
    if merged.exit == GitExit::Code(0) || merged.stderr_contains("Not possible to fast-forward") {
        return Ok(());
    }
    let output = last_lines(&merged.stderr, STDERR_LINES);
    Err(Error::Refused { branch: branch.clone(), output })
}

fn refuse_busy(checkout: &Repo<'_>, branch: &RefName) -> Result<(), Error> {
    match ongoing_operation(checkout)? {
        // A bisect does not change the branch.
        None | Some(OngoingOperation::Bisect) => Ok(()),
        Some(ongoing) => Err(Error::Busy { branch: branch.clone(), ongoing }),
    }
}

fn contains_commit(repo: &Repo<'_>, newer: &Oid, older: &Oid) -> Result<bool, Error> {
    let args = ["merge-base", "--is-ancestor", older.as_str(), newer.as_str()];
    let answer = repo.read(args).run_unchecked()?;
    match answer.exit {
        GitExit::Code(0) => Ok(true),
        GitExit::Code(1) => Ok(false),
        GitExit::Code(_) | GitExit::Signal(_) => Err(answer.failure().into()),
    }
}

impl Error {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BranchExists { .. } => Some("rename or delete that branch, then resume"),
            Self::NoBranch(_) => Some("create the branch again, then resume"),
            Self::Refused { .. } => Some("commit or stash your changes, then resume"),
            Self::Busy { .. } => Some("finish or abort the operation, then resume"),
            Self::Filtered { .. } => Some("merge the run's branch yourself with `git merge`"),
            Self::NotUtf8(_) | Self::Message(_) => None,
            Self::Git(error) => error.hint(),
            Self::Project(error) => error.hint(),
        }
    }
}
