//! A pool of clean checkouts for checks, which lets checks reuse build output.
//!
//! A slot of the pool is a detached worktree. It is disposable: if anything is wrong with it, it is
//! removed and created again. Every checkout is verified to contain the requested tree and nothing
//! else, apart from the directories to keep. All files are present even in a sparse repository,
//! because a verdict applies to the whole tree.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;

use crate::command::{self, Git, GitExit};
use crate::escape::printable_line;
use crate::filters;
use crate::index::{flagged, gitlinks};
use crate::names::{Oid, RepoPath};
use crate::project::Project;
use crate::registry;
use crate::repo::{Repo, RepoLocation};
use crate::submodules::{self, SubmoduleSource};
use crate::worktree::Worktree;

/// The maximum number of files to compare byte by byte if git reports them as changed.
const MAX_COMPARED: usize = 100;

/// The directory that contains the slots. Nothing outside it is ever removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    root: PathBuf,
    worktree: Option<Worktree>,
}

/// A clean checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub path: PathBuf,
    pub tree: Oid,
    /// Whether this checkout may contain directories that were kept from an earlier one.
    pub warm: bool,
}

/// The reason why a clean checkout could not be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use {name:?} as {what}: {why}")]
    BadName { name: String, what: &'static str, why: &'static str },
    #[error("cannot use {} as a pool: {why}", printable_line(.root.as_os_str().as_bytes()))]
    BadRoot { root: PathBuf, why: &'static str },
    #[error("the commit {commit} does not exist")]
    NoSuchCommit { commit: Oid },
    #[error("cannot check out {commit} cleanly: {why}")]
    NotClean { commit: Oid, why: String },
    #[error(transparent)]
    Submodules(#[from] submodules::Error),
    #[error(transparent)]
    Git(#[from] command::Error),
}

impl Error {
    /// Whether the checkout may succeed later or in another slot.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotClean { .. } => true,
            Self::Git(error) => error.is_transient(),
            Self::BadName { .. }
            | Self::BadRoot { .. }
            | Self::NoSuchCommit { .. }
            | Self::Submodules(_) => false,
        }
    }
}

impl Pool {
    /// Uses an existing directory, which must be outside of every repository that the pool serves.
    pub fn new(root: &Path) -> Result<Self, Error> {
        let root = root.canonicalize().map_err(command::Error::file(root))?;
        Ok(Self { root, worktree: None })
    }

    /// Makes the pool look for submodules in this worktree first. The work under check may have
    /// moved them to commits that exist nowhere else.
    #[must_use]
    pub fn with_worktree(mut self, worktree: Worktree) -> Self {
        self.worktree = Some(worktree);
        self
    }

    fn sources(&self, project: &Project) -> Vec<SubmoduleSource> {
        let worked_in =
            self.worktree.iter().map(|tree| SubmoduleSource::new(&tree.path, &tree.git_dir));
        worked_in.chain(SubmoduleSource::of_project(project)).collect()
    }

    fn slot(&self, name: &str) -> Result<PathBuf, Error> {
        check_part(name, "a slot of the pool")?;
        Ok(self.root.join(name))
    }

    fn check_outside(&self, project: &Project) -> Result<(), Error> {
        let bad = |why| Err(Error::BadRoot { root: self.root.clone(), why });
        if self.root.starts_with(&project.common_dir) || self.root.starts_with(&project.top) {
            return bad("the pool is inside the repository");
        }
        if project.top.starts_with(&self.root) || project.common_dir.starts_with(&self.root) {
            return bad("the repository is inside the pool");
        }
        Ok(())
    }
}

/// Makes the slot a clean, detached checkout of the commit. Keeps untracked directories whose name
/// is listed in `keep`, at any depth.
pub fn checkout_detached(
    git: &Git,
    project: &Project,
    pool: &Pool,
    slot: &str,
    commit: &Oid,
    keep: &[&str],
) -> Result<Checkout, Error> {
    pool.check_outside(project)?;
    keep.iter().try_for_each(|name| check_part(name, "a directory to keep"))?;
    let shared = project.shared(git)?;
    let tree = shared.resolve(format!("{commit}^{{tree}}"))?;
    let tree = tree.ok_or_else(|| Error::NoSuchCommit { commit: commit.clone() })?;
    let sources = pool.sources(project);
    let job = SlotJob { git, shared, sources, path: pool.slot(slot)?, commit, tree, keep };
    if job.exists() {
        match job.reuse() {
            // The git process in the slot is still working.
            Err(error @ Error::Git(command::Error::Abandoned { .. })) => return Err(error),
            Ok(checkout) => return Ok(checkout),
            // Create the slot again if it could not be cleaned for any other reason.
            Err(_) => {}
        }
    }
    job.discard()?;
    job.make()
}

struct SlotJob<'a> {
    git: &'a Git,
    shared: Repo<'a>,
    sources: Vec<SubmoduleSource>,
    path: PathBuf,
    commit: &'a Oid,
    tree: Oid,
    keep: &'a [&'a str],
}

impl<'a> SlotJob<'a> {
    fn exists(&self) -> bool {
        fs::symlink_metadata(self.path.join(".git")).is_ok_and(|meta| meta.is_file())
            && fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_dir())
    }

    fn reuse(&self) -> Result<Checkout, Error> {
        let repo = self.repo()?;
        let hidden = flagged(&repo)?;
        if !hidden.assumed.is_empty() || !hidden.skipped.is_empty() {
            return Err(self.not_clean("index flags hide files"));
        }
        // This call moves only HEAD itself, even if a check has attached it to a branch.
        repo.write(["update-ref", "--no-deref", "HEAD", self.commit.as_str()]).run()?;
        filters::refuse_tree(&repo, self.commit)?;
        repo.reset_hard()?;
        self.empty_submodules(&repo)?;
        self.clean(&repo)?;
        submodules::fill(&repo, &self.sources)?;
        self.verify(&repo)?;
        Ok(self.checkout(true))
    }

    fn make(&self) -> Result<Checkout, Error> {
        let options =
            ["worktree", "add", "--quiet", "--no-checkout", "--detach", "--"].map(OsStr::new);
        let place = [self.path.as_os_str(), OsStr::new(self.commit.as_str())];
        filters::refuse_tree(&self.shared, self.commit)?;
        registry::create_registry_dir(&self.shared)?;
        self.shared.write(options.into_iter().chain(place)).run()?;
        let repo = self.repo()?;
        registry::rewrite_git_file(&repo)?;
        repo.reset_hard()?;
        submodules::fill(&repo, &self.sources)?;
        self.verify(&repo)?;
        Ok(self.checkout(false))
    }

    /// Removes the slot's registration, then its directory. Because of this order, an interrupted
    /// discard leaves nothing in the repository, only a directory in the pool. Symbolic links are
    /// removed, not followed.
    fn discard(&self) -> Result<(), Error> {
        if let Some(git_dir) = registry::git_dir_of(&self.shared, &self.path)? {
            fs::remove_dir_all(&git_dir).map_err(command::Error::file(&git_dir))?;
        }
        let removed = match fs::symlink_metadata(&self.path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(&self.path),
            Ok(_) => fs::remove_file(&self.path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        Ok(removed.map_err(command::Error::file(&self.path))?)
    }

    fn repo(&self) -> Result<Repo<'a>, Error> {
        let git_dir = registry::git_dir_of(&self.shared, &self.path)?;
        let git_dir = git_dir
            .ok_or_else(|| self.not_clean("the slot is not a worktree of the repository"))?;
        let common_dir = self.shared.git_dir();
        let place = RepoLocation { git_dir: &git_dir, common_dir, top: &self.path };
        Ok(Repo::open(self.git, place)?.with_setting("core.sparseCheckout", "false"))
    }

    /// Removes all files that are not in the commit, apart from the directories to keep.
    fn clean(&self, repo: &Repo<'_>) -> Result<(), Error> {
        let others = ["ls-files", "--others", "--directory", "-z"].map(OsString::from);
        let others = repo.read(others.into_iter().chain(self.keep_options("-x"))).run()?;
        if others.stdout.is_empty() {
            return Ok(());
        }
        let args =
            ["clean", "-ffdxq"].map(OsString::from).into_iter().chain(self.keep_options("-e"));
        let cleaned = repo.change_files(args)?;
        if cleaned.exit == GitExit::Code(0) { Ok(()) } else { Err(cleaned.failure().into()) }
    }

    /// Empties the directories of submodules, because `git clean` skips them.
    fn empty_submodules(&self, repo: &Repo<'_>) -> Result<(), Error> {
        for link in gitlinks(repo)? {
            let directory = self.path.join(link.as_path());
            let resolved = directory.canonicalize().map_err(command::Error::file(&directory))?;
            if resolved != directory {
                return Err(self.not_clean("a link leads out of the slot"));
            }
            fs::remove_dir_all(&directory).map_err(command::Error::file(&directory))?;
            fs::create_dir(&directory).map_err(command::Error::file(&directory))?;
        }
        Ok(())
    }

    fn verify(&self, repo: &Repo<'_>) -> Result<(), Error> {
        if repo.resolve("HEAD^{tree}")?.as_ref() != Some(&self.tree) {
            return Err(self.not_clean("HEAD has another tree"));
        }
        let others = ["ls-files", "--others", "-z"].map(OsString::from);
        let others = repo.read(others.into_iter().chain(self.keep_options("-x"))).run()?;
        if let Some(path) = others.items().next() {
            return Err(self.not_clean(&format!("{} is left over", RepoPath::new(path))));
        }
        let status =
            ["status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=dirty"];
        let changed = repo.read_files(status.into_iter().chain(["--no-renames"])).run()?;
        for (count, record) in changed.items().enumerate() {
            self.verify_changed(repo, record, count)?;
        }
        Ok(())
    }

    /// Accepts a file that git reports as changed only if its bytes are what a checkout would
    /// write. Git always reports a file as changed if its line endings violate the repository's own
    /// rules.
    fn verify_changed(&self, repo: &Repo<'_>, record: &[u8], count: usize) -> Result<(), Error> {
        let path = if count < MAX_COMPARED { content_only(record) } else { None };
        let Some(path) = path else {
            return Err(self.not_clean(&format!("git status reports {}", printable_line(record))));
        };
        let object = [b"HEAD:", path.as_bytes()].concat();
        let args = [OsStr::new("cat-file"), OsStr::new("--filters"), OsStr::from_bytes(&object)];
        let wanted = repo.read_files(args).run()?.stdout;
        let file = self.path.join(path.as_path());
        match agent_file::read(&file, wanted.len() as u64) {
            Ok(bytes) if bytes == wanted => return Ok(()),
            Err(agent_file::Error::Io { source, .. }) => {
                return Err(command::Error::file(&file)(source).into());
            }
            // The file differs, is longer, or is not a regular file.
            Ok(_) | Err(_) => {}
        }
        Err(self.not_clean(&format!("{path} differs")))
    }

    /// Returns the option once for each kept name. The trailing slash makes a name match only
    /// directories, not symbolic links.
    fn keep_options(&self, option: &'static str) -> impl Iterator<Item = OsString> {
        self.keep.iter().flat_map(move |name| [option.into(), format!("{name}/").into()])
    }

    fn checkout(&self, warm: bool) -> Checkout {
        Checkout { path: self.path.clone(), tree: self.tree.clone(), warm }
    }

    fn not_clean(&self, why: &str) -> Error {
        Error::NotClean { commit: self.commit.clone(), why: why.to_owned() }
    }
}

/// Returns the path in a status record if it is a regular file whose content changed and that has
/// nothing staged.
fn content_only(record: &[u8]) -> Option<RepoPath> {
    let mut fields = record.splitn(9, |byte| *byte == b' ');
    let (kind, state, submodule) = (fields.next()?, fields.next()?, fields.next()?);
    let (head, index, file) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.nth(2)?;
    let plain = kind == b"1" && state == b".M" && submodule == b"N...";
    let same_mode = head == index && index == file && file.starts_with(b"100");
    (plain && same_mode).then(|| RepoPath::new(path))
}

/// Validates a name that is used as a path component or in an ignore pattern.
fn check_part(name: &str, what: &'static str) -> Result<(), Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bad = |why| Err(Error::BadName { name: printable_line(name.as_bytes()), what, why });
    if name.is_empty() || name.len() > 100 || !name.bytes().all(plain) {
        return bad("up to 100 letters, digits and `-_.` are allowed");
    }
    if name.starts_with('-') || matches!(name, "." | ".." | ".git") {
        return bad("the name is reserved");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_escape_the_pool() {
        for name in ["", ".", "..", ".git", "a/b", "/a", "-e", "a b", "*", "a\0"] {
            assert!(check_part(name, "a slot").is_err(), "{name:?}");
        }
        assert!(check_part("node_modules", "x").is_ok());
        assert!(check_part(".venv", "x").is_ok());
    }

    #[test]
    fn only_content_changes_are_compared() {
        let record = |text: &str| content_only(text.as_bytes());
        assert_eq!(record("1 .M N... 100644 100644 100644 a b p q"), Some(RepoPath::new(b"p q")));
        assert_eq!(record("1 M. N... 100644 100644 100644 a b p"), None);
        assert_eq!(record("1 .M N... 100644 100644 100755 a b p"), None);
        assert_eq!(record("1 .M N... 120000 120000 120000 a b p"), None);
        assert_eq!(record("u UU N... 100644 100644 100644 a b p"), None);
    }
}
