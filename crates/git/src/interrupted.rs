//! Finishes an interrupted move of a checkout from one commit to another.
//!
//! Git writes the files first, then the index and the branch. If git is killed in between, files of
//! the new commit remain in a checkout of the old one, and git takes them for the user's changes.
//! Files that are identical to those of the new commit can safely be added to the index, and then
//! the move can be repeated.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;

use provost_sys::agent_file;

use crate::command::{Error, GitExit, GitOutput};
use crate::index::Staging;
use crate::names::{Oid, RepoPath};
use crate::repo::Repo;
use crate::worktree::{LOCK_REASON, MAX_POINTER};

/// The number of times that an interrupted move may be repeated.
const MAX_MOVES: usize = 3;

/// The mode and the object of an entry in a tree or an index.
type TreeEntry = (Vec<u8>, Vec<u8>);

/// A move of a checkout between commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckoutMove<'a> {
    pub(crate) from: &'a Oid,
    pub(crate) to: &'a Oid,
}

/// Runs the git command that moves a checkout's files, and finishes an earlier interrupted move.
/// The user's changes are preserved, because neither git nor this function overwrites them.
pub(crate) fn move_files(
    checkout: &Repo<'_>,
    args: &[&str],
    between: CheckoutMove<'_>,
) -> Result<GitOutput, Error> {
    let (mut tries, mut repaired) = (0, false);
    loop {
        tries += 1;
        remove_own_locks(checkout)?;
        let moved = checkout.when_unlocked(|checkout| checkout.change_files(args));
        match moved {
            Err(Error::Interrupted { .. }) if tries < MAX_MOVES => repaired = false,
            Ok(answer) if refused_overwrite(&answer) && !repaired => {
                repaired = true;
                if !finish_move(checkout, between)? {
                    return Ok(answer);
                }
            }
            other => return other,
        }
    }
}

/// Removes locks left by an interrupted call. In Provost's own worktree, where no other program
/// works, it removes all locks. In a user's checkout, it removes only locks that the call can have
/// created.
fn remove_own_locks(checkout: &Repo<'_>) -> Result<(), Error> {
    if checkout.git().cut_off_calls().is_empty() {
        return Ok(());
    }
    let reason = agent_file::read_text(&checkout.git_dir().join("locked"), MAX_POINTER);
    if !reason.is_ok_and(|reason| reason.trim_end() == LOCK_REASON) {
        return checkout.remove_left_locks();
    }
    checkout.remove_locks()
}

/// Whether git refused the move because it would overwrite files.
fn refused_overwrite(answer: &GitOutput) -> bool {
    answer.exit != GitExit::Code(0)
        && (answer.stderr_contains("would be overwritten")
            || answer.stderr_contains("not uptodate"))
}

/// Adds files that already match the new commit to the index. Returns true if there are such files
/// and nothing else blocks the move.
fn finish_move(checkout: &Repo<'_>, between: CheckoutMove<'_>) -> Result<bool, Error> {
    let changes = changes(checkout, between)?;
    let recorded = entries(checkout)?;
    let staging = Staging::open(checkout)?;
    staging.stage(changes.iter().map(|change| &change.path))?;
    let found = entries(staging.repo())?;
    let (mut written, mut torn) = (Vec::new(), Vec::new());
    for change in &changes {
        let (recorded, found) = (recorded.get(&change.path), found.get(&change.path));
        if recorded != change.old.as_ref() && recorded != change.new.as_ref() {
            // The user has staged a change.
            return Ok(false);
        }
        if found == change.new.as_ref() {
            written.push(&change.path);
        } else if found.is_some() && found != change.old.as_ref() {
            torn.push(&change.path);
        }
    }
    // Remove files only after confirming that git wrote all of them.
    for path in &torn {
        if !is_torn(checkout, between.to, path)? {
            return Ok(false);
        }
    }
    for path in &torn {
        let file = checkout.top().join(path.as_path());
        fs::remove_file(&file).map_err(Error::file(&file))?;
    }
    if !written.is_empty() {
        let input: Vec<u8> =
            written.iter().flat_map(|path| path.as_bytes().iter().copied().chain([0])).collect();
        let update = ["update-index", "--add", "--remove", "-z", "--stdin"];
        let call =
            |checkout: &Repo<'_>| checkout.write_files(update).input(input.clone()).run_unchecked();
        let updated = checkout.when_unlocked(call)?;
        if updated.exit != GitExit::Code(0) {
            return Err(updated.failure());
        }
    }
    Ok(!(written.is_empty() && torn.is_empty()))
}

/// A file that differs between two commits.
struct FileDelta {
    path: RepoPath,
    old: Option<TreeEntry>,
    new: Option<TreeEntry>,
}

fn changes(checkout: &Repo<'_>, between: CheckoutMove<'_>) -> Result<Vec<FileDelta>, Error> {
    let options = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"];
    let commits = [between.from.as_str(), between.to.as_str()];
    let answer = checkout.read(options.into_iter().chain(commits)).run()?;
    let mut items = answer.items();
    let mut changes = Vec::new();
    while let Some(raw) = items.next() {
        let change = items.next().and_then(|path| change(raw, path));
        changes.push(change.ok_or_else(|| answer.unexpected())?);
    }
    Ok(changes)
}

/// Parses `:MODE MODE OBJECT OBJECT STATUS`. The mode is 000000 on a side that does not have the
/// file.
fn change(raw: &[u8], path: &[u8]) -> Option<FileDelta> {
    let mut fields = raw.strip_prefix(b":")?.split(|byte| *byte == b' ');
    let mut field = || fields.next().map(<[u8]>::to_vec);
    let (old_mode, new_mode, old, new) = (field()?, field()?, field()?, field()?);
    let entry = |mode: Vec<u8>, object| (mode != b"000000").then_some((mode, object));
    Some(FileDelta {
        path: RepoPath::new(path),
        old: entry(old_mode, old),
        new: entry(new_mode, new),
    })
}

/// Returns the entries of an index. For a file in conflict it returns one of the sides, which
/// matches no commit.
fn entries(repo: &Repo<'_>) -> Result<BTreeMap<RepoPath, TreeEntry>, Error> {
    let answer = repo.read(["ls-files", "--stage", "-z"]).run()?;
    let entry = |item: &[u8]| {
        let tab = item.iter().position(|byte| *byte == b'\t')?;
        let mut fields = item[..tab].split(|byte| *byte == b' ').map(<[u8]>::to_vec);
        Some((RepoPath::new(&item[tab + 1..]), (fields.next()?, fields.next()?)))
    };
    answer.items().map(entry).collect::<Option<_>>().ok_or_else(|| answer.unexpected())
}

/// Whether an interrupted call wrote only the beginning of this file's content. Git writes a new
/// file in this case, so a file that the user changed in place, or changed later, does not match.
fn is_torn(checkout: &Repo<'_>, commit: &Oid, path: &RepoPath) -> Result<bool, Error> {
    let file = checkout.top().join(path.as_path());
    if !checkout.git().can_have_left(&file)? {
        return Ok(false);
    }
    let object = [commit.as_str().as_bytes(), b":", path.as_bytes()].concat();
    let args = [OsStr::new("cat-file"), OsStr::new("--filters"), OsStr::from_bytes(&object)];
    let wanted = checkout.read_files(args).run_unchecked()?;
    if wanted.exit != GitExit::Code(0) {
        // The commit has no such file.
        return Ok(false);
    }
    match agent_file::read(&file, wanted.stdout.len() as u64) {
        Ok(bytes) => Ok(wanted.stdout.starts_with(&bytes)),
        Err(agent_file::Error::Io { source, .. }) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::file(&file)(source))
        }
        // The file is longer, or it is not a regular file.
        Err(_) => Ok(false),
    }
}
