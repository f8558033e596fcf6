//! Determines whether the agents' files in a commit are trusted. A worktree contains the files of the commit that the
//! work starts from, and these files may differ from those in the checkout.

use std::path::Path;

use provost_api::{ApiError, ErrorCode};
use provost_git::{Git, Oid, Project, TreeDepth, TreeEntryKind, entries_at, read_entries};
use provost_trust::{
    AGENT_PATHS, MAX_BYTES, MAX_FILE, MAX_FILES, TrustContent, agent_directory, find_top,
};

use crate::{
    commands::spawn::worktree,
    context::Context,
    error::chain,
    trust::{self, TrustPrompt, TrustSubject},
    ui::escape_line,
};

/// How many digits of a commit's hash are shown to users.
const SHORT: usize = 12;

/// The files of a commit that agents read in their working directory. Provost's own files are not
/// included, because Provost reads and checks them only in a checkout.
#[derive(Clone, Debug)]
pub(crate) struct CommitContent {
    /// The first digits of the commit's hash.
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

/// The options for a trust decision about the files in a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTerms<'a> {
    pub(crate) cwd: &'a Path,
    /// Whether the operator chose to ignore the project's configuration.
    pub(crate) ignores_project: bool,
    pub(crate) asking: TrustPrompt,
}

/// Reads the agents' files in a commit, and requires that the operator trust them. If the files are not trusted yet,
/// asks the operator. If the project's configuration is ignored, no trust is needed.
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

/// Reads the agents' files in a commit, from the top down to the working directory.
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
    // If a directory is really a link or a submodule, it leads to other files.
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
    entries.retain(|entry| matches!(entry.kind, TreeEntryKind::File { .. }));
    let mut total = 0;
    for (count, entry) in entries.iter().enumerate() {
        let TreeEntryKind::File { size } = entry.kind else { continue };
        total += size;
        if size > MAX_FILE || total > MAX_BYTES as u64 || count >= MAX_FILES {
            return Err(refused(&entry.path, "exceeds the limits"));
        }
    }
    let files = read_entries(git, project, entries).map_err(unread)?;
    let files = files.into_iter().map(|file| (file.path, file.content));
    Ok(CommitContent { commit: short, content: TrustContent::from_files(files) })
}

/// Reads the agents' files in the checked-out commit. Returns `None` without git or without a commit.
pub(crate) fn read_head(context: &Context, cwd: &Path) -> Result<Option<CommitContent>, ApiError> {
    let Ok((git, project)) = worktree::project_at(context, cwd) else { return Ok(None) };
    let Ok(commit) = project.commit(&git) else { return Ok(None) };
    read(&StartCommit { git, project, commit }, cwd).map(Some)
}

/// Requires that the agents' files in a commit be trusted. If they are not trusted yet, asks the operator.
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

/// Returns the directories from the repository's top down to the working directory, as paths
/// relative to the top.
fn directories(top: &Path, cwd: &Path) -> Result<Vec<String>, ApiError> {
    let below = cwd.strip_prefix(top).unwrap_or(Path::new(""));
    let mut all: Vec<String> =
        below.ancestors().map(worktree::path_text).collect::<Result<_, _>>()?;
    all.reverse();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use provost_trust::{FILES, TRUST_RELEVANT};

    use super::AGENT_PATHS;

    #[test]
    fn changes_to_trusted_files_need_approval() {
        for path in FILES.iter().chain(&AGENT_PATHS) {
            let (top, is_directory) =
                path.split_once('/').map_or((*path, false), |(top, _)| (top, true));
            let covers = |pattern: String| TRUST_RELEVANT.contains(&pattern.as_str());
            assert!(covers(format!("**/{top}")), "{path}");
            assert!(!is_directory || covers(format!("**/{top}/**")), "{path}");
        }
    }
}
