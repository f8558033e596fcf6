//! Provost's own git directories, through which it accesses other people's repositories.
//!
//! Anyone who works in a repository can write its configuration and hooks, and many settings
//! specify programs to run. Disabling such settings one by one could miss some of them, and a new
//! one can be written between Provost's check and git's read. Therefore git reads neither the
//! configuration nor the hooks. Instead of the directory that the repository's worktrees share, git
//! uses a directory that Provost creates, which contains a configuration with only the hash and ref
//! formats, links to the repository's refs, and copies of its patterns. Objects, HEAD and index are
//! the repository's own. Settings that matter come from [`crate::settings`], as data.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use provost_sys::{agent_file, private};
use tempfile::TempDir;

use crate::command::{Error, Git, GitCall};
use crate::long_call;
use crate::names::Oid;
use crate::repo::Repo;

/// Shared files that Provost uses in place. None of them specifies a program. The linked HEAD
/// belongs to the main worktree and is needed to list the worktrees; to move HEAD, git uses the
/// worktree's own directory. Trusted filters keep their files in `lfs` and `git-crypt`.
const LINKED: &[&str] = &[
    "HEAD",
    "refs",
    "packed-refs",
    "logs",
    "reftable",
    "worktrees",
    "shallow",
    "lfs",
    "git-crypt",
];

/// Pattern files, which are copied as data.
const COPIED: &[&str] = &["info/exclude", "info/attributes"];

/// The maximum size of a copied pattern file. Git's own limit for an attributes file is 100 MiB.
const MAX_PATTERNS: u64 = 1 << 20;

/// The maximum number of directories to keep for reuse.
const MAX_KEPT: usize = 500;

/// The hash and ref formats of a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct RepoFormat {
    /// The value of `extensions.objectFormat`. `None` means SHA-1.
    pub(crate) objects: Option<&'static str>,
    /// The value of `extensions.refStorage`. `None` means files.
    pub(crate) refs: Option<&'static str>,
}

impl RepoFormat {
    /// Returns a format with the hash type of this object and with refs stored in files.
    fn like(oid: &Oid) -> Self {
        let objects = (oid.as_str().len() == 64).then_some("sha256");
        Self { objects, refs: None }
    }

    fn config(&self) -> String {
        let extensions = [("objectformat", self.objects), ("refstorage", self.refs)];
        let extensions: String = extensions
            .into_iter()
            .filter_map(|(name, value)| Some(format!("\t{name} = {}\n", value?)))
            .collect();
        if extensions.is_empty() {
            return "[core]\n\trepositoryformatversion = 0\n".to_owned();
        }
        format!("[core]\n\trepositoryformatversion = 1\n[extensions]\n{extensions}")
    }
}

/// The directories that stand in for those of repositories. All copies of a [`Git`] share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandIns {
    made: Arc<Mutex<BTreeMap<StandInKey, Arc<StandIn>>>>,
}

/// The repository's directory and the format of its stand-in.
type StandInKey = (PathBuf, RepoFormat);

/// A directory that git uses as the shared directory of a repository's worktrees.
#[derive(Debug)]
pub(crate) struct StandIn {
    dir: TempDir,
    shared: PathBuf,
}

impl StandIns {
    /// Returns the stand-in of a repository, with its current patterns.
    pub(crate) fn get(
        &self,
        scratch: &Path,
        shared: &Path,
        format: &RepoFormat,
    ) -> Result<Arc<StandIn>, Error> {
        let key = (shared.to_owned(), format.clone());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let stand_in = match made.get(&key).filter(|known| known.dir.path().is_dir()) {
            Some(known) => Arc::clone(known),
            None => {
                if made.len() >= MAX_KEPT {
                    // A directory that is in use remains until its last user drops it.
                    made.clear();
                }
                let new = Arc::new(StandIn::make(scratch, "provost-git-", shared, format)?);
                made.insert(key, Arc::clone(&new));
                new
            }
        };
        stand_in.copy_patterns()?;
        Ok(stand_in)
    }
}

impl StandIn {
    /// Creates a stand-in for a call that may outlive this process. It remains until it is removed
    /// explicitly.
    pub(crate) fn for_long_call(
        scratch: &Path,
        shared: &Path,
        format: &RepoFormat,
    ) -> Result<PathBuf, Error> {
        let new = Self::make(scratch, long_call::DIRECTORY_PREFIX, shared, format)?;
        new.copy_patterns()?;
        Ok(new.dir.keep())
    }

    fn make(
        scratch: &Path,
        prefix: &str,
        shared: &Path,
        format: &RepoFormat,
    ) -> Result<Self, Error> {
        let dir = TempDir::with_prefix_in(prefix, scratch).map_err(Error::file(scratch))?;
        private::make_private_dir(dir.path()).map_err(Error::file(dir.path()))?;
        for name in LINKED {
            let link = dir.path().join(name);
            symlink(shared.join(name), &link).map_err(Error::file(&link))?;
        }
        let config = dir.path().join("config");
        private::write(&config, format.config().as_bytes()).map_err(Error::file(&config))?;
        let info = dir.path().join("info");
        private::create_dir_all(&info).map_err(Error::file(&info))?;
        Ok(Self { dir, shared: shared.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Copies the pattern files that changed. Each new file replaces the old one atomically,
    /// because another call may be reading it.
    fn copy_patterns(&self) -> Result<(), Error> {
        for name in COPIED {
            let (from, to) = (self.shared.join(name), self.dir.path().join(name));
            let wanted = patterns(&from).map_err(Error::file(&from))?;
            if fs::read(&to).unwrap_or_default() == wanted {
                continue;
            }
            let new = to.with_extension("new");
            private::write(&new, &wanted)
                .and_then(|()| fs::rename(&new, &to))
                .map_err(Error::file(&to))?;
        }
        Ok(())
    }
}

/// Reads a pattern file, which may be a symbolic link. Returns empty content if the file is missing
/// or not a regular file.
fn patterns(path: &Path) -> io::Result<Vec<u8>> {
    let Ok(file) = agent_file::open_linked(path) else { return Ok(Vec::new()) };
    let mut text = Vec::new();
    file.take(MAX_PATTERNS).read_to_end(&mut text)?;
    Ok(text)
}

/// A temporary repository with the objects of another one, but without its refs and settings.
#[derive(Debug)]
pub(crate) struct IsolatedRepo<'a> {
    git: &'a Git,
    dir: TempDir,
    objects: PathBuf,
}

impl<'a> IsolatedRepo<'a> {
    /// Creates a temporary repository that reads and writes the objects of another one. `like` is
    /// one of these objects and determines the hash type.
    pub(crate) fn with_objects_of(repo: &Repo<'a>, like: &Oid) -> Result<Self, Error> {
        let git = repo.git();
        let dir = TempDir::new_in(git.scratch()).map_err(Error::file(git.scratch()))?;
        private::make_private_dir(dir.path()).map_err(Error::file(dir.path()))?;
        init_repo(dir.path(), like)?;
        Ok(Self { git, dir, objects: repo.objects() })
    }

    /// Prepares a call. It ignores the user's settings too, because the same call must always
    /// produce the same result.
    pub(crate) fn call<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> GitCall<'a> {
        let call = self.git.call(self.dir.path()).args(args).without_user_settings();
        call.variable("GIT_DIR", self.dir.path())
            .variable("GIT_OBJECT_DIRECTORY", &self.objects)
            .variable("GIT_ATTR_NOSYSTEM", "1")
    }
}

/// Makes a directory a valid git repository that has no refs and whose only setting is the hash
/// format. Repeating the call changes nothing.
pub(crate) fn init_repo(dir: &Path, like: &Oid) -> Result<(), Error> {
    let refs = dir.join("refs");
    private::create_dir_all(&refs).map_err(Error::file(&refs))?;
    let settings = RepoFormat::like(like).config();
    for (name, content) in [("HEAD", "ref: refs/heads/none\n"), ("config", settings.as_str())] {
        let file = dir.join(name);
        private::write(&file, content.as_bytes()).map_err(Error::file(&file))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_contains_only_the_format() {
        let plain = RepoFormat::default().config();
        assert_eq!(plain, "[core]\n\trepositoryformatversion = 0\n");
        let both = RepoFormat { objects: Some("sha256"), refs: Some("reftable") }.config();
        assert_eq!(
            both,
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n\trefstorage = reftable\n"
        );
    }

    #[test]
    fn changed_patterns_are_copied() {
        let place = tempfile::tempdir().unwrap();
        let (scratch, shared) = (place.path().join("scratch"), place.path().join("shared"));
        fs::create_dir_all(&scratch).unwrap();
        fs::create_dir_all(shared.join("info")).unwrap();
        let all = StandIns::default();
        let now = || {
            let one = all.get(&scratch, &shared, &RepoFormat::default()).unwrap();
            fs::read_to_string(one.path().join("info/exclude")).unwrap_or_default()
        };
        assert_eq!(now(), "");
        fs::write(shared.join("info/exclude"), "*.log\n").unwrap();
        assert_eq!(now(), "*.log\n");
        fs::remove_file(shared.join("info/exclude")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            shared.join("info/exclude"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(now(), "", "reading a pipe does not block");
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1, "the directory is reused");
    }
}
