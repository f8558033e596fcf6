//! Read-only queries about commits and trees.

use serde::Serialize;

use crate::command::{Error, Git, GitOutput};
use crate::index::Staging;
use crate::names::{Oid, RefName, RepoPath};
use crate::project::Project;
use crate::repo::Repo;

/// The state of HEAD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GitHead {
    /// A branch with its commit.
    Branch { name: RefName, commit: Oid },
    /// A branch without a commit yet.
    Unborn { name: RefName },
    /// A commit without a branch.
    Detached { commit: Oid },
}

/// One file that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    pub path: RepoPath,
    pub kind: FileChangeKind,
    /// Lines added and removed; `None` for a binary file or a submodule.
    pub lines: Option<LineCounts>,
}

/// How a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Added,
    Deleted,
    Modified,
    /// For example from file to link.
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

    /// Returns the branch's full ref, if HEAD is on one.
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

/// Returns the tree of an expression (a commit, a ref, a tree), if it exists.
pub fn tree_of(git: &Git, project: &Project, commitish: &str) -> Result<Option<Oid>, Error> {
    project.repo(git)?.resolve(format!("{commitish}^{{tree}}"))
}

/// Returns the files of the project's checkout that differ from its commit, without ignored ones.
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

/// Returns the files that match some patterns, relative to the top, and differ between two commits
/// or trees.
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

/// Returns the wanted files of a commit. None if one of them is not a regular file, or its path is
/// not UTF-8.
pub fn files_at(
    git: &Git,
    project: &Project,
    commit: &Oid,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<Vec<CommittedFile>>, Error> {
    let repo = project.repo(git)?;
    let listed = repo.read(["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]).run()?;
    let mut files = Vec::new();
    for item in listed.items() {
        let Some((meta, path)) = std::str::from_utf8(item).ok().and_then(|it| it.split_once('\t'))
        else {
            continue;
        };
        if !wanted(path) {
            continue;
        }
        let (Some(("100644" | "100755", object)), Some(hash)) =
            (meta.split_once(' '), meta.rsplit(' ').next())
        else {
            return Ok(None);
        };
        if !object.starts_with("blob ") {
            return Ok(None);
        }
        let content = repo.read(["cat-file", "blob", hash]).run()?.stdout;
        files.push(CommittedFile { path: path.to_owned(), content });
    }
    Ok(Some(files))
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
        /// In bytes.
        size: u64,
    },
    Directory,
    /// A link, a submodule, or an entry of unknown kind.
    Other,
}

/// How deep [`entries_at`] lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeDepth {
    /// The paths themselves.
    Entry,
    /// Every file at or below the paths.
    Files,
}

/// Returns the entries of a commit at some paths relative to the top. Absent paths are left out, and
/// so are directories on the way to another path.
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

/// Returns the content of a file of a commit.
pub fn read_entry(git: &Git, project: &Project, entry: &TreeEntry) -> Result<Vec<u8>, Error> {
    Ok(project.repo(git)?.read(["cat-file", "blob", &entry.object]).run()?.stdout)
}

/// Reads `mode type hash size`, a tab and the path. A path that is not UTF-8 stays distinct enough
/// for display, and counts as no file.
fn parse_entry(item: &[u8]) -> Option<TreeEntry> {
    let tab = item.iter().position(|byte| *byte == b'\t')?;
    let (meta, path) = (std::str::from_utf8(&item[..tab]).ok()?, &item[tab + 1..]);
    let fields: Vec<&str> = meta.split_ascii_whitespace().collect();
    let [mode, _, object, size] = fields[..] else { return None };
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

/// Reads raw records (`:modes hashes letter`, path), then one line count each.
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
