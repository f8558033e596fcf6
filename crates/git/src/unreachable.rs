//! Finds and keeps commits to which only a worktree's own records refer: earlier positions of its
//! HEAD, as before a `reset --hard`, an `--amend` or a rebase, and the worktree's own refs.
//!
//! A worktree's records disappear with it, so a keep ref is created for the commits before the
//! worktree is removed.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use provost_sys::agent_file;

use crate::command::{self, Git, GitExit};
use crate::keep_refs::{self, keep_commit};
use crate::names::{KeepRef, Oid};
use crate::removal::BranchFate;
use crate::repo::{Repo, RepoLocation, answer_oid};
use crate::worktree::Worktree;

/// The maximum number of parents of a commit that keeps dropped commits. If there are more dropped
/// commits, a chain of such commits is created.
const MAX_PARENTS: usize = 100;

/// Commits that are reachable from no ref.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreachableCommits {
    pub(crate) count: u64,
    /// The newest unreachable commits, which are not ancestors of any other unreachable commit.
    tips: Vec<Oid>,
}

impl UnreachableCommits {
    /// Finds the commits that will not be reachable from any ref once the worktree is gone.
    pub(crate) fn find(
        git: &Git,
        shared: &Repo<'_>,
        worktree: &Worktree,
        fate: BranchFate,
    ) -> Result<Self, command::Error> {
        let mut known = own_commits(git, worktree)?;
        if fate == BranchFate::Delete {
            known.extend(read_log(&worktree.common_dir, &worktree.branch.full())?);
        }
        find_unreached(shared, existing(shared, &known)?)
    }

    /// Creates one keep ref from which all the commits are reachable.
    pub(crate) fn keep(
        &self,
        shared: &Repo<'_>,
        worktree: &Worktree,
    ) -> Result<Option<KeepRef>, keep_refs::Error> {
        if self.tips.is_empty() {
            return Ok(None);
        }
        let mut holder: Option<Oid> = None;
        let empty = answer_oid(&shared.write(["mktree"]).run()?)?;
        for some in self.tips.chunks(MAX_PARENTS) {
            let parents = holder.iter().chain(some).flat_map(|tip| ["-p", tip.as_str()]);
            let args = ["commit-tree", empty.as_str(), "-F", "-"].into_iter().chain(parents);
            let message = format!("Keep commits dropped by the worktree of {}\n", worktree.branch);
            holder = Some(answer_oid(&shared.write(args).input(message.into_bytes()).run()?)?);
        }
        let Some(holder) = holder else { return Ok(None) };
        keep_commit(shared, &KeepRef::for_dropped(&worktree.branch), &holder).map(Some)
    }
}

/// Returns the earlier commits of the worktree's HEAD, and the commits of its own refs.
fn own_commits(git: &Git, worktree: &Worktree) -> Result<BTreeSet<Oid>, command::Error> {
    // The checkout's files are not needed, and may no longer exist.
    let common_dir = &worktree.common_dir;
    let place = RepoLocation { git_dir: &worktree.git_dir, common_dir, top: common_dir };
    let repo = Repo::open(git, place)?;
    let mut known = read_log(&worktree.git_dir, "HEAD")?;
    if known.is_empty() {
        known.extend(head_log_from_git(&repo)?);
    }
    known.extend(repo.resolve("ORIG_HEAD^{commit}")?);
    let own = ["refs/worktree/", "refs/bisect/", "refs/rewritten/"];
    let args = ["for-each-ref", "--format=%(objectname)"].into_iter().chain(own);
    known.extend(hashes(&repo.read(args).run()?.stdout));
    Ok(known)
}

/// The maximum size of a reflog to read, in bytes.
const MAX_LOG: u64 = 256 << 20;

/// Reads a reflog in the format of git's default ref store, where each line begins with the old and
/// the new hash. Git itself does not show this reflog while HEAD is unborn.
fn read_log(git_dir: &Path, name: &str) -> Result<BTreeSet<Oid>, command::Error> {
    let path = git_dir.join("logs").join(name);
    match agent_file::read(&path, MAX_LOG).map_err(io::Error::from) {
        Ok(text) => Ok(text.split(|byte| *byte == b'\n').flat_map(hashes_of_line).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(command::Error::file(&path)(error)),
    }
}

/// Asks git for the reflog of HEAD, because other ref stores use a different format.
fn head_log_from_git(repo: &Repo<'_>) -> Result<Vec<Oid>, command::Error> {
    let answer = repo.read(["log", "-g", "--format=%H", "HEAD", "--"]).run_unchecked()?;
    match answer.exit {
        GitExit::Code(0) => Ok(hashes(&answer.stdout)),
        GitExit::Code(_) => Ok(Vec::new()),
        GitExit::Signal(_) => Err(answer.failure()),
    }
}

/// Returns the objects that are commits and still exist.
fn existing(shared: &Repo<'_>, known: &BTreeSet<Oid>) -> Result<Vec<u8>, command::Error> {
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let answer = shared.read(["cat-file", "--batch-check"]).input(lines(known)).run()?;
    let is_commit = |line: &&[u8]| line.split(|byte| *byte == b' ').nth(1) == Some(b"commit");
    let found = answer.stdout.split(|byte| *byte == b'\n').filter(is_commit);
    Ok(lines(&found.flat_map(|line| hashes_of_line(line).next()).collect()))
}

fn find_unreached(shared: &Repo<'_>, known: Vec<u8>) -> Result<UnreachableCommits, command::Error> {
    if known.is_empty() {
        return Ok(UnreachableCommits::default());
    }
    let args = ["rev-list", "--parents", "--stdin", "--not", "--glob=refs/*"];
    let answer = shared.read(args).input(known).run()?;
    let (mut found, mut parents) = (Vec::new(), HashSet::new());
    for line in answer.stdout.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ').filter_map(hash);
        found.extend(words.next());
        parents.extend(words);
    }
    let count = found.len() as u64;
    Ok(UnreachableCommits {
        count,
        tips: found.into_iter().filter(|oid| !parents.contains(oid)).collect(),
    })
}

fn lines(known: &BTreeSet<Oid>) -> Vec<u8> {
    known.iter().flat_map(|oid| [oid.as_str(), "\n"]).collect::<String>().into_bytes()
}

fn hashes(text: &[u8]) -> Vec<Oid> {
    text.split(|byte| *byte == b'\n').filter_map(hash).collect()
}

/// Returns the hashes at the start of a line.
fn hashes_of_line(line: &[u8]) -> impl Iterator<Item = Oid> {
    line.split(|byte| *byte == b' ').map_while(hash)
}

fn hash(word: &[u8]) -> Option<Oid> {
    std::str::from_utf8(word).ok().and_then(|text| Oid::new(text).ok())
}
