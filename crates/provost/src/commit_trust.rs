//! Whether the agents' files of a commit are trusted. A worktree gets the files of the commit that the work starts
//! from, which may differ from the checkout's.

use std::path::Path;

use provost_api::{ApiError, ErrorCode};
use provost_git::{Git, Oid, Project, TreeDepth, TreeEntryKind, entries_at, read_entry};
use provost_trust::{MAX_BYTES, MAX_FILE, MAX_FILES, TrustContent, agent_directory, find_top};

use crate::{
    commands::spawn::worktree,
    context::Context,
    error::chain,
    trust::{self, TrustPrompt, TrustSubject},
    ui::escape_line,
};

/// The number of digits that identify a commit for users.
const SHORT: usize = 12;

/// The files in a directory from which agents read settings; in `.claude` only some count.
const AGENT_PATHS: [&str; 3] = [".claude", ".codex", ".mcp.json"];

/// The files of a commit that agents read in their working directory. Provost's own files do not count: it reads them
/// in a checkout alone, and checks them there.
#[derive(Clone, Debug)]
pub(crate) struct CommitContent {
    /// The start of the commit's hash.
    pub(crate) commit: String,
    pub(crate) content: TrustContent,
}

/// The commit that work starts from.
#[derive(Clone, Debug)]
pub(crate) struct StartCommit {
    pub(crate) git: Git,
    pub(crate) project: Project,
    pub(crate) commit: Oid,
}

/// How the files of a commit are judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTerms<'a> {
    pub(crate) cwd: &'a Path,
    /// Whether the operator starts without the project's configuration.
    pub(crate) ignores_project: bool,
    pub(crate) asking: TrustPrompt,
}

/// Reads the agents' files of a commit. They must be trusted, or the operator trusts them now, unless the project's
/// configuration is ignored.
pub(crate) fn judge(
    context: &Context,
    start: &StartCommit,
    terms: CommitTerms<'_>,
) -> Result<Option<CommitContent>, ApiError> {
    let read = read(start, terms.cwd);
    if terms.ignores_project {
        return Ok(read.ok());
    }
    let committed = read?;
    require(context, &committed, terms)?;
    Ok(Some(committed))
}

/// Reads the agents' files of a commit, from the top down to the working directory.
fn read(start: &StartCommit, cwd: &Path) -> Result<CommitContent, ApiError> {
    let StartCommit { git, project, commit } = start;
    let short: String = commit.as_str().chars().take(SHORT).collect();
    let unread = |why: provost_git::command::Error| {
        chain(ErrorCode::BadRequest, &format!("cannot read the files of commit {short}"), &why)
    };
    let refused = |path: &str, why: &str| {
        let message = format!(
            "{} of commit {short} {why}, so the commit's files cannot be trusted",
            escape_line(path)
        );
        ApiError::new(ErrorCode::Refused, message).next("git status")
    };
    let directories = directories(&project.top, cwd)?;
    let below = |directory: &String, name: &str| match directory.as_str() {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    };
    let paths: Vec<String> = directories
        .iter()
        .flat_map(|directory| AGENT_PATHS.map(|name| below(directory, name)))
        .collect();
    let mut entries = entries_at(git, project, commit, &paths, TreeDepth::Files).map_err(unread)?;
    // A link or a submodule in place of a directory would lead to other files.
    let above = entries_at(git, project, commit, &directories[1..], TreeDepth::Entry);
    for entry in entries.iter().chain(&above.map_err(unread)?) {
        let leads = agent_directory(&entry.path).is_some()
            || paths.contains(&entry.path)
            || directories.contains(&entry.path);
        if leads && entry.kind == TreeEntryKind::Other {
            return Err(refused(&entry.path, "is a link or a submodule"));
        }
    }
    entries.retain(|entry| agent_directory(&entry.path).is_some());
    let mut total = 0;
    let mut files = Vec::new();
    for entry in &entries {
        let TreeEntryKind::File { size } = entry.kind else { continue };
        total += size;
        if size > MAX_FILE || total > MAX_BYTES as u64 || files.len() >= MAX_FILES {
            return Err(refused(&entry.path, "exceeds the limits"));
        }
        files.push((entry.path.clone(), read_entry(git, project, entry).map_err(unread)?));
    }
    Ok(CommitContent { commit: short, content: TrustContent::from_files(files) })
}

/// Reads the agents' files of the checked-out commit. `None` if git or a commit is missing.
pub(crate) fn read_head(context: &Context, cwd: &Path) -> Result<Option<CommitContent>, ApiError> {
    let Ok((git, project)) = worktree::project_at(context, cwd) else { return Ok(None) };
    let Ok(commit) = project.commit(&git) else { return Ok(None) };
    read(&StartCommit { git, project, commit }, cwd).map(Some)
}

/// Checks that work may start from a commit: its agents' files are trusted, or the operator trusts them now.
fn require(
    context: &Context,
    committed: &CommitContent,
    terms: CommitTerms<'_>,
) -> Result<(), ApiError> {
    let cwd = terms.cwd;
    let Some(path) = find_top(cwd) else { return Ok(()) };
    let store = trust::store(&context.environment)?;
    if store.includes(&path, &committed.content).map_err(trust::store_error)? {
        return Ok(());
    }
    let directory = cwd.strip_prefix(&path).unwrap_or(Path::new("")).to_owned();
    let committed = Some(committed.clone());
    let subject = TrustSubject { path, directory, content: TrustContent::default(), committed };
    trust::ask_or_refuse(context, &subject, terms.asking)
}

/// The directories from the top down to the working directory, relative to the top.
fn directories(top: &Path, cwd: &Path) -> Result<Vec<String>, ApiError> {
    let below = cwd.strip_prefix(top).unwrap_or(Path::new(""));
    let mut all: Vec<String> =
        below.ancestors().map(worktree::path_text).collect::<Result<_, _>>()?;
    all.reverse();
    Ok(all)
}
