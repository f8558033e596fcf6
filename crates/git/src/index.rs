//! A private copy of an index, for staging without changing the real one.
//!
//! All code that reads or records the files of a checkout uses such a copy. This keeps the user's
//! index unchanged, byte for byte, and also works if a git process was killed and has left a lock
//! file.

use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::path::Path;

use provost_sys::agent_file;
use tempfile::TempDir;

use crate::command::{Error, GitOutput};
use crate::names::{Oid, RepoPath};
use crate::repo::{Repo, answer_oid};
use crate::submodules::MAX_DEPTH;

/// A checkout with a copy of its index. The copy is deleted when the value is dropped.
pub(crate) struct Staging<'a> {
    repo: Repo<'a>,
    _directory: TempDir,
}

impl<'a> Staging<'a> {
    /// Copies the checkout's index.
    pub(crate) fn open(repo: &Repo<'a>) -> Result<Self, Error> {
        let scratch = repo.git().scratch();
        let directory =
            TempDir::with_prefix_in("provost-index-", scratch).map_err(Error::file(scratch))?;
        let copy = directory.path().join("index");
        let original = repo.git_dir().join("index");
        copy_index(&original, &copy).map_err(Error::file(&original))?;
        Ok(Self { repo: repo.with_index(&copy), _directory: directory })
    }

    /// Makes git see changes that index flags hide: clears "assume unchanged" everywhere, and "skip
    /// worktree" for files that exist.
    pub(crate) fn reveal(&self) -> Result<(), Error> {
        let flagged = flagged(&self.repo)?;
        let present =
            |path: &&RepoPath| self.repo.top().join(path.as_path()).symlink_metadata().is_ok();
        self.update("--no-assume-unchanged", flagged.assumed.iter())?;
        self.update("--no-skip-worktree", flagged.skipped.iter().filter(present))
    }

    /// Lists all paths that differ from HEAD or are untracked. Each item is two letters, a blank
    /// and the path. A directory is listed only if it is a repository.
    pub(crate) fn status(&self) -> Result<GitOutput, Error> {
        let args = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
        self.repo.read_files(args.into_iter().chain(["--ignore-submodules=dirty"])).run()
    }

    /// Stages all files except ignored ones and embedded repositories. Returns the embedded
    /// repositories and the submodules that contain uncommitted content.
    ///
    /// An untracked repository inside the checkout would be staged as a link to a commit that
    /// exists nowhere else, and staging would fail if it has no commits. Files that need an
    /// untrusted filter are refused.
    pub(crate) fn add_all(&self) -> Result<Vec<RepoPath>, Error> {
        let candidates = candidates(&self.repo)?;
        let mut left_out = embedded(&candidates);
        self.repo.refuse_filtered(candidates.stdout, None)?;
        let submodules = populated_submodules(&self.repo)?;
        let mut pathspecs = b":/\0".to_vec();
        for path in left_out.iter().chain(&submodules) {
            pathspecs.extend_from_slice(b":(top,exclude,literal)");
            pathspecs.extend_from_slice(path.as_bytes());
            pathspecs.push(0);
        }
        // With `--sparse`, git also stages existing files outside a sparse checkout. Files that the
        // sparse checkout omits keep their index entries.
        let args = ["add", "--all", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"];
        self.repo.write_files(args).input(pathspecs).run()?;
        // `git add` would run `git status` inside each submodule, with the filters of the
        // submodule's own configuration. This call only reads the submodule's HEAD.
        self.update("--add", submodules.iter())?;
        for path in submodules {
            if is_dirty(&self.repo, &path, MAX_DEPTH)? {
                left_out.push(path);
            }
        }
        Ok(left_out)
    }

    /// Stages the given files in their current state. A missing file is staged as removed.
    pub(crate) fn stage<'p>(&self, paths: impl Iterator<Item = &'p RepoPath>) -> Result<(), Error> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path.as_bytes());
            input.push(0);
        }
        let update = ["update-index", "--add", "--remove", "-z", "--stdin"];
        self.repo.write_files(update).input(input).run().map(drop)
    }

    /// Returns the checkout, set up to use the copied index.
    pub(crate) fn repo(&self) -> &Repo<'a> {
        &self.repo
    }

    pub(crate) fn write_tree(&self) -> Result<Oid, Error> {
        answer_oid(&self.repo.write_files(["write-tree"]).run()?)
    }

    /// Runs `git update-index` with this flag on the paths.
    fn update<'p>(
        &self,
        flag: &str,
        paths: impl Iterator<Item = &'p RepoPath>,
    ) -> Result<(), Error> {
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path.as_bytes());
            input.push(0);
        }
        if !input.is_empty() {
            self.repo.write_files(["update-index", flag, "-z", "--stdin"]).input(input).run()?;
        }
        Ok(())
    }
}

/// Index entries whose flags make git ignore changes to the file.
#[derive(Debug, Default)]
pub(crate) struct FlaggedEntries {
    pub(crate) assumed: Vec<RepoPath>,
    pub(crate) skipped: Vec<RepoPath>,
}

/// Returns the flagged entries of an index.
pub(crate) fn flagged(repo: &Repo<'_>) -> Result<FlaggedEntries, Error> {
    let answer = repo.read(["ls-files", "-v", "-z"]).run()?;
    let mut flagged = FlaggedEntries::default();
    for item in answer.items() {
        let [tag, b' ', path @ ..] = item else { return Err(answer.unexpected()) };
        if tag.is_ascii_lowercase() {
            flagged.assumed.push(RepoPath::new(path));
        }
        if tag.eq_ignore_ascii_case(&b'S') {
            flagged.skipped.push(RepoPath::new(path));
        }
    }
    Ok(flagged)
}

/// Returns the submodules that an index records.
pub(crate) fn gitlinks(repo: &Repo<'_>) -> Result<Vec<RepoPath>, Error> {
    let answer = repo.read(["ls-files", "--stage", "-z"]).run()?;
    let links = answer.items().filter(|item| item.starts_with(b"160000 "));
    let path = |item: &[u8]| {
        item.iter().position(|b| *b == b'\t').map(|tab| RepoPath::new(&item[tab + 1..]))
    };
    links.map(path).collect::<Option<_>>().ok_or_else(|| answer.unexpected())
}

/// Returns the submodules whose repository exists in this checkout.
pub(crate) fn populated_submodules(repo: &Repo<'_>) -> Result<Vec<RepoPath>, Error> {
    let there = |path: &RepoPath| {
        let directory = repo.top().join(path.as_path());
        let is_directory = directory.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        is_directory && directory.join(".git").symlink_metadata().is_ok()
    };
    let mut links: Vec<RepoPath> = gitlinks(repo)?.into_iter().filter(there).collect();
    // A submodule in conflict has one entry per side.
    links.dedup();
    Ok(links)
}

/// Whether a submodule, or one nested in it, contains uncommitted content. A submodule that cannot
/// be inspected counts as dirty.
fn is_dirty(repo: &Repo<'_>, path: &RepoPath, depth: usize) -> Result<bool, Error> {
    let inner = Repo::open_at(repo.git(), &repo.top().join(path.as_path()))?;
    let Some(inner) = inner else { return Ok(true) };
    if depth == 0 {
        return Ok(true);
    }
    let staging = Staging::open(&inner)?;
    staging.reveal()?;
    if !staging.status()?.stdout.is_empty() {
        return Ok(true);
    }
    for path in populated_submodules(&inner)? {
        if is_dirty(&inner, &path, depth - 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists all paths that differ from the index, including deleted files. A directory is listed only
/// if it is an untracked repository, and ends in a slash.
fn candidates(repo: &Repo<'_>) -> Result<GitOutput, Error> {
    let args = ["ls-files", "--modified", "--others", "--exclude-standard", "-z"];
    repo.read_files(args).run()
}

/// Returns the untracked repositories among the candidates.
fn embedded(candidates: &GitOutput) -> Vec<RepoPath> {
    candidates.items().filter(|item| item.ends_with(b"/")).map(RepoPath::new).collect()
}

/// Copies an index, if there is one, together with its modification time. Git rechecks an entry
/// that is as new as the index itself, so a newer copy would hide a change made in the same
/// instant.
fn copy_index(original: &Path, copy: &Path) -> io::Result<()> {
    let mut file = match agent_file::open(original).map_err(io::Error::from) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    let mut new = File::create(copy)?;
    // If the file grows during the copy, only its original length is copied.
    io::copy(&mut file.by_ref().take(about.len()), &mut new)?;
    new.set_times(FileTimes::new().set_modified(about.modified()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn index_copy_keeps_the_modification_time() {
        let directory = tempfile::tempdir().unwrap();
        let (original, copy) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&original, "index").unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        File::options().write(true).open(&original).unwrap().set_modified(old).unwrap();
        copy_index(&original, &copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"index");
        assert_eq!(fs::metadata(&copy).unwrap().modified().unwrap(), old);
    }

    #[test]
    fn missing_index_makes_no_copy() {
        let directory = tempfile::tempdir().unwrap();
        copy_index(&directory.path().join("a"), &directory.path().join("b")).unwrap();
        assert!(!directory.path().join("b").exists());
    }
}
