//! Read-only queries about commits and trees.

use serde::Serialize;

use crate::command::{Error, Git, GitOutput};
use crate::index::Staging;
use crate::names::{Oid, RefName, RepoPath};
use crate::project::Project;
use crate::repo::Repo;

/// The state of a checkout's HEAD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GitHead {
    /// HEAD is on a branch that has a commit.
    Branch { name: RefName, commit: Oid },
    /// HEAD is on a branch that has no commit yet.
    Unborn { name: RefName },
    /// HEAD is at a commit, without a branch.
    Detached { commit: Oid },
}

/// One file that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    pub path: RepoPath,
    pub kind: FileChangeKind,
    /// Lines added and removed. `None` for a binary file or a submodule.
    pub lines: Option<LineCounts>,
}

/// The kind of difference between two versions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Added,
    Deleted,
    Modified,
    /// The type of the file changed, for example from a file to a symbolic link.
    Retyped,
}

/// Lines added and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    pub added: u64,
    pub removed: u64,
}

impl GitHead {
    /// Returns the commit, if there is one.
    pub fn commit(&self) -> Option<&Oid> {
        match self {
            Self::Branch { commit, .. } | Self::Detached { commit } => Some(commit),
            Self::Unborn { .. } => None,
        }
    }

    /// Returns the full ref of the branch, unless HEAD is detached.
    pub fn branch(&self) -> Option<&RefName> {
        match self {
            Self::Branch { name, .. } | Self::Unborn { name } => Some(name),
            Self::Detached { .. } => None,
        }
    }
}

/// Returns the state of HEAD in the project's checkout.
pub fn read_head(git: &Git, project: &Project) -> Result<GitHead, Error> {
    head_of_repo(&project.repo(git)?)
}

/// Resolves an expression (a commit, ref or tree) to a tree, if the tree exists.
pub fn tree_of(git: &Git, project: &Project, commitish: &str) -> Result<Option<Oid>, Error> {
    project.repo(git)?.resolve(format!("{commitish}^{{tree}}"))
}

/// Returns the files in the project's checkout that differ from its commit, except ignored files.
pub fn uncommitted(git: &Git, project: &Project) -> Result<Vec<RepoPath>, Error> {
    let status = Staging::open(&project.repo(git)?)?.status()?;
    // Two letters and a blank precede each path.
    Ok(status.items().filter_map(|item| item.get(3..)).map(RepoPath::new).collect())
}

/// Returns the first parent of a commit, if it has one.
pub fn parent_of(git: &Git, project: &Project, commit: &Oid) -> Result<Option<Oid>, Error> {
    project.repo(git)?.resolve(format!("{commit}^1"))
}

/// Returns the files that differ between two commits or trees, in git's order.
pub fn diff_stat(
    git: &Git,
    project: &Project,
    from: &Oid,
    to: &Oid,
) -> Result<Vec<FileChange>, Error> {
    let options =
        ["-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"];
    let args = ["diff-tree"].into_iter().chain(options).chain([from.as_str(), to.as_str()]);
    let answer = project.repo(git)?.read(args).run()?;
    parse_changes(&answer).ok_or_else(|| answer.unexpected())
}

/// Returns the files that differ between two commits or trees and match the patterns, which are
/// relative to the top.
pub fn changed_among(
    git: &Git,
    project: &Project,
    from: &Oid,
    to: &Oid,
    patterns: &[String],
) -> Result<Vec<RepoPath>, Error> {
    let options = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
    let options = options.into_iter().chain([from.as_str(), to.as_str(), "--"]).map(str::to_owned);
    let patterns = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    let answer = project.repo(git)?.read(options.chain(patterns)).run()?;
    Ok(answer.items().map(RepoPath::new).collect())
}

/// A regular file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFile {
    pub path: String,
    pub content: Vec<u8>,
}

/// Returns the files of a commit that `wanted` selects. `None` if one of them is not a regular file
/// or its path is not UTF-8.
pub fn files_at(
    git: &Git,
    project: &Project,
    commit: &Oid,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<Vec<CommittedFile>>, Error> {
    let args = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit.as_str()];
    let listed = project.repo(git)?.read(args).run()?;
    let mut entries = Vec::new();
    for item in listed.items() {
        entries.push(parse_entry(item).ok_or_else(|| listed.unexpected())?);
    }
    entries.retain(|entry| wanted(&entry.path));
    if entries.iter().any(|entry| !matches!(entry.kind, TreeEntryKind::File { .. })) {
        return Ok(None);
    }
    read_entries(git, project, entries).map(Some)
}

/// An entry of a commit: a file, a link, a submodule or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub path: String,
    pub kind: TreeEntryKind,
    object: String,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEntryKind {
    File {
        /// The size in bytes.
        size: u64,
    },
    Directory,
    /// A symbolic link, a submodule, or an entry of unknown kind.
    Other,
}

/// The entries that [`entries_at`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeDepth {
    /// Only the entries at the given paths.
    Entry,
    /// Every file at or below the paths.
    Files,
}

/// Returns the entries of a commit at these paths, which are relative to the top. Omits missing
/// paths, and directories that contain another given path.
pub fn entries_at(
    git: &Git,
    project: &Project,
    commit: &Oid,
    paths: &[String],
    depth: TreeDepth,
) -> Result<Vec<TreeEntry>, Error> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let repo = project.repo(git)?;
    let recursive: &[&str] = if depth == TreeDepth::Files { &["-r"] } else { &[] };
    let fixed = ["ls-tree", "-l", "-z", "--full-tree"].iter().chain(recursive);
    let args = fixed.copied().chain([commit.as_str(), "--"]);
    let call = repo.read(args.chain(paths.iter().map(String::as_str)));
    let listed = call.variable("GIT_LITERAL_PATHSPECS", "1").run()?;
    let mut entries = Vec::new();
    for item in listed.items() {
        entries.push(parse_entry(item).ok_or_else(|| listed.unexpected())?);
    }
    Ok(entries)
}

/// Returns the given files of a commit with their content. One call of git reads all of them.
pub fn read_entries(
    git: &Git,
    project: &Project,
    entries: Vec<TreeEntry>,
) -> Result<Vec<CommittedFile>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let objects: String = entries.iter().map(|entry| format!("{}\n", entry.object)).collect();
    let call = project.repo(git)?.read(["cat-file", "--batch"]);
    let answer = call.input(objects.into_bytes()).run()?;
    let mut rest = answer.stdout.as_slice();
    let mut files = Vec::new();
    for entry in entries {
        let content = take_object(&mut rest, &entry.object).ok_or_else(|| answer.unexpected())?;
        files.push(CommittedFile { path: entry.path, content: content.to_vec() });
    }
    Ok(files)
}

/// Takes one object from the output of `cat-file --batch`: a line `hash blob size`, the content and
/// a line feed.
fn take_object<'o>(rest: &mut &'o [u8], object: &str) -> Option<&'o [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..end]).ok()?;
    let size: usize = head.strip_prefix(object)?.strip_prefix(" blob ")?.parse().ok()?;
    let (content, after) = rest[end + 1..].split_at_checked(size)?;
    *rest = after.strip_prefix(b"\n")?;
    Some(content)
}

/// A line of `git ls-tree`.
pub(crate) struct TreeLine<'a> {
    pub(crate) mode: &'a str,
    pub(crate) object: &'a str,
    /// `None` without `--long`.
    size: Option<&'a str>,
    pub(crate) path: &'a [u8],
}

/// Parses `mode type hash size`, a tab and the path. The size is optional.
pub(crate) fn parse_tree_line(item: &[u8]) -> Option<TreeLine<'_>> {
    let tab = item.iter().position(|byte| *byte == b'\t')?;
    let (meta, path) = (std::str::from_utf8(&item[..tab]).ok()?, &item[tab + 1..]);
    let fields: Vec<&str> = meta.split_ascii_whitespace().collect();
    match fields[..] {
        [mode, _, object] => Some(TreeLine { mode, object, size: None, path }),
        [mode, _, object, size] => Some(TreeLine { mode, object, size: Some(size), path }),
        _ => None,
    }
}

/// Parses a line that contains a size. An entry whose path is not UTF-8 can be displayed but does
/// not count as a file.
fn parse_entry(item: &[u8]) -> Option<TreeEntry> {
    let TreeLine { mode, object, size, path } = parse_tree_line(item)?;
    let size = size?;
    let kind = match mode {
        "100644" | "100755" if std::str::from_utf8(path).is_ok() => {
            TreeEntryKind::File { size: size.parse().ok()? }
        }
        "040000" => TreeEntryKind::Directory,
        _ => TreeEntryKind::Other,
    };
    let path = String::from_utf8_lossy(path).into_owned();
    Some(TreeEntry { path, kind, object: object.to_owned() })
}

pub(crate) fn head_of_repo(repo: &Repo<'_>) -> Result<GitHead, Error> {
    let name = repo.head_ref()?;
    let commit = repo.resolve("HEAD^{commit}")?;
    match (name, commit) {
        (Some(name), Some(commit)) => Ok(GitHead::Branch { name, commit }),
        (Some(name), None) => Ok(GitHead::Unborn { name }),
        (None, Some(commit)) => Ok(GitHead::Detached { commit }),
        (None, None) => Err(repo.read(["rev-parse", "HEAD"]).run_unchecked()?.failure()),
    }
}

/// Parses raw records (`:modes hashes letter`, path). They are followed by the line counts of all
/// files.
fn parse_changes(answer: &GitOutput) -> Option<Vec<FileChange>> {
    let mut items = answer.items().peekable();
    let mut changes = Vec::new();
    while let Some(meta) = items.next_if(|item| item.starts_with(b":")) {
        let kind = change_kind(*meta.last()?)?;
        changes.push(FileChange { path: RepoPath::new(items.next()?), kind, lines: None });
    }
    for (change, item) in changes.iter_mut().zip(items) {
        change.lines = parse_lines(item, &change.path)?;
    }
    Some(changes)
}

fn change_kind(letter: u8) -> Option<FileChangeKind> {
    match letter {
        b'A' => Some(FileChangeKind::Added),
        b'D' => Some(FileChangeKind::Deleted),
        b'M' => Some(FileChangeKind::Modified),
        b'T' => Some(FileChangeKind::Retyped),
        _ => None,
    }
}

fn parse_lines(item: &[u8], path: &RepoPath) -> Option<Option<LineCounts>> {
    let counts = item.strip_suffix(path.as_bytes())?.strip_suffix(b"\t")?;
    let (added, removed) = std::str::from_utf8(counts).ok()?.split_once('\t')?;
    if added == "-" {
        return Some(None);
    }
    Some(Some(LineCounts { added: added.parse().ok()?, removed: removed.parse().ok()? }))
}
