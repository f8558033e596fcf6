//! The place where a session works: a plain directory, a checkout or a separate worktree.

use std::path::{Path, PathBuf};

use provost_api::{ApiError, ErrorCode};
use provost_config::Resolved;
use provost_core::{ids::CommitId, session::WorkLocation};
use provost_git::{BranchName, Git, Oid, Project, RepoPath, absent_submodules, project};

use crate::{
    commit_trust::StartCommit,
    context::Context,
    error::{chain, from_causes, usage},
    settings, trust,
};

/// The maximum length of the part of a branch name that is derived from a text.
const MAX_SLUG: usize = 40;

/// The input for choosing the worktree of a session.
pub(crate) struct WorktreeRequest<'a> {
    pub(crate) cwd: &'a Path,
    pub(crate) config: &'a Resolved,
    /// The last digits of the session's ID.
    pub(crate) short: &'a str,
    /// The text from which the branch name is derived.
    pub(crate) about: &'a str,
}

/// The directory in which the session works, and the top of its repository.
pub(super) struct SessionWorktree {
    pub(super) project: Option<String>,
    pub(super) work: WorkLocation,
    /// Warnings about missing parts of the worktree.
    pub(super) warnings: Vec<String>,
}

/// Whether the session gets a separate worktree.
pub(super) fn is_separate(config: &Resolved) -> bool {
    config.worktree.enabled == Some(true)
}

/// Returns the commit from which a worktree starts or with which checks compare the work. `None` if the session has
/// neither a worktree nor checks.
pub(super) fn start_commit(
    context: &Context,
    cwd: &Path,
    config: &Resolved,
) -> Result<Option<StartCommit>, ApiError> {
    let own = is_separate(config);
    if !own && config.verify.checks.is_empty() {
        return Ok(None);
    }
    let found = project_at(context, cwd).map_err(|why| with_own_check(why, cwd));
    let (git, project) = found.map_err(|why| unusable(&why, !is_unusable(&why)))?;
    let commit = project.commit(&git).map_err(|why| unusable(&why, own))?;
    Ok(Some(StartCommit { git, project, commit }))
}

/// Determines where the session works. If this fails, nothing has been started.
pub(super) fn find(
    context: &Context,
    wanted: &WorktreeRequest<'_>,
    start: Option<&StartCommit>,
) -> Result<SessionWorktree, ApiError> {
    let Some(StartCommit { git, project, commit }) = start else {
        return find_plain(context, wanted.cwd);
    };
    let top = path_text(&project.top)?;
    refuse_filtered(git, project, commit)?;
    let warnings = missing_submodules(git, project, "the session's worktree and checks")?;
    let work = if is_separate(wanted.config) {
        worktree(context, wanted, project, commit)?
    } else {
        WorkLocation::InPlace { top: top.clone() }
    };
    Ok(SessionWorktree { project: Some(top), work, warnings })
}

/// Converts a path to text, so that it can be stored in the ledger.
pub(crate) fn path_text(path: &Path) -> Result<String, ApiError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| usage(format!("the path {} is not UTF-8", path.display())))
}

/// Derives part of a branch name from an arbitrary text. Branch names contain only ASCII letters.
pub(super) fn slug(about: &str) -> String {
    let mut slug = String::new();
    for c in about.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            c if ascii_letters(c).is_some() => slug.extend(ascii_letters(c)),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
        if slug.len() >= MAX_SLUG {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Returns the ASCII letters for a lower-case Latin letter with an accent.
fn ascii_letters(letter: char) -> Option<&'static str> {
    Some(match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'ç' | 'ć' | 'č' => "c",
        'ď' | 'đ' => "d",
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'ğ' => "g",
        'ì'..='ï' | 'ī' | 'ı' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => "o",
        'œ' => "oe",
        'ř' => "r",
        'ś' | 'ş' | 'š' | 'ș' => "s",
        'ß' => "ss",
        'ť' | 'ţ' | 'ț' => "t",
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => "u",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => return None,
    })
}

/// Uses a directory without a worktree. The directory need not be in a repository. A directory in a repository that git
/// does not trust is rejected, because git would execute commands from the configuration of that repository.
fn find_plain(context: &Context, cwd: &Path) -> Result<SessionWorktree, ApiError> {
    let found = match settings::project_top(cwd) {
        None => None,
        Some(_) => match git(context).and_then(|git| Project::top_of(&git, cwd)) {
            Ok(top) => Some(top),
            Err(why) => match with_own_check(why, cwd) {
                why if is_unusable(&why) => return Err(unusable(&why, false)),
                _ => None,
            },
        },
    };
    let project = found.as_deref().map(path_text).transpose()?;
    Ok(SessionWorktree { project, work: WorkLocation::Plain, warnings: Vec::new() })
}

/// If Provost's own check finds that another user owns the repository, replaces git's error. The
/// check does not depend on git's message.
fn with_own_check(why: project::Error, cwd: &Path) -> project::Error {
    match settings::project_top(cwd) {
        Some(top) if trust::is_foreign(&top) => project::Error::ForeignOwner(top),
        Some(_) | None => why,
    }
}

/// Whether the error means that no session can start in the directory.
fn is_unusable(why: &project::Error) -> bool {
    matches!(why, project::Error::ForeignOwner(_) | project::Error::NoDirectory { .. })
}

fn git(context: &Context) -> Result<Git, project::Error> {
    let path = context.environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let home = context.environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let environment = context.environment.clone();
    let trusted = move || settings::trusted_filters(&environment);
    Ok(Git::find(path.as_ref(), &home)?.with_filters(trusted))
}

/// Finds git, and the repository that contains a directory.
pub(crate) fn project_at(context: &Context, cwd: &Path) -> Result<(Git, Project), project::Error> {
    let git = git(context)?;
    let project = Project::find(&git, cwd)?;
    Ok((git, project))
}

/// Rejects a project whose files require a git filter that the user does not trust.
pub(crate) fn refuse_filtered(git: &Git, project: &Project, base: &Oid) -> Result<(), ApiError> {
    provost_git::refuse_filtered(git, project, base).map_err(|why| {
        let error = chain(ErrorCode::BadRequest, "cannot start here", &why);
        why.hint().map_or(error.clone(), |hint| error.next(hint))
    })
}

/// Warns about submodules that are not initialized. If a submodule lacks the required commit, that
/// is an error, because agents could not work with it.
pub(crate) fn missing_submodules(
    git: &Git,
    project: &Project,
    places: &str,
) -> Result<Vec<String>, ApiError> {
    let absent = absent_submodules(git, project).map_err(|why| {
        let error = chain(ErrorCode::BadRequest, "cannot start here", &why);
        why.hint().map_or(error.clone(), |hint| error.next(hint))
    })?;
    let top = project.top.display();
    let describe = |path: RepoPath| {
        format!(
            "submodule {path} is not initialised, so it is empty in {places}; \
             run `git submodule update --init` in {top}"
        )
    };
    Ok(absent.into_iter().map(describe).collect())
}

/// Converts the error for an unusable directory, and adds hints.
pub(crate) fn no_project(why: &project::Error) -> ApiError {
    let mut error = from_causes(ErrorCode::BadRequest, why);
    if let Some(hint) = why.hint() {
        error.message.push_str(&format!("\n{hint}"));
    }
    if matches!(why, project::Error::NoCommits(_)) {
        error.next("git commit --allow-empty -m first")
    } else {
        error
    }
}

fn unusable(why: &project::Error, wanted: bool) -> ApiError {
    let mut error = no_project(why);
    if wanted {
        error.message.push_str(
            "\nchecks and worktrees need a git repository with a commit; to start without them, add --no-worktree --no-check",
        );
    }
    error
}

fn worktree(
    context: &Context,
    wanted: &WorktreeRequest<'_>,
    project: &Project,
    base: &Oid,
) -> Result<WorkLocation, ApiError> {
    let config = &wanted.config.worktree;
    let branch = branch(wanted)?;
    let copy = config.copy.iter().map(|pattern| pattern.as_str().to_owned()).collect();
    let path = below_home(context, wanted, project)?;
    Ok(WorkLocation::Worktree {
        top: path_text(&project.top)?,
        path: path_text(&path)?,
        branch,
        copy,
        // The worktree starts from the commit whose files were checked, even if the branch has
        // moved in the meantime.
        base: Some(CommitId(base.as_str().to_owned())),
    })
}

/// Returns the name of the branch.
pub(crate) fn branch(wanted: &WorktreeRequest<'_>) -> Result<String, ApiError> {
    let slug = slug(wanted.about);
    let dash = if slug.is_empty() { "" } else { "-" };
    let prefix = &wanted.config.worktree.branch_prefix;
    let branch = BranchName::new(&format!("{prefix}/{}{dash}{slug}", wanted.short));
    branch.map(|branch| branch.to_string()).map_err(|why| {
        chain(ErrorCode::BadRequest, "invalid worktree.branch_prefix", &why)
            .next("provost config show")
    })
}

/// Returns the directory of a worktree, which is in Provost's home and never in the repository.
pub(crate) fn below_home(
    context: &Context,
    wanted: &WorktreeRequest<'_>,
    project: &Project,
) -> Result<PathBuf, ApiError> {
    Ok(context.home()?.worktrees().join(directory(project)).join(wanted.short))
}

/// Returns the name of a project's directory, which is readable and unique for each repository.
pub(crate) fn directory(project: &Project) -> String {
    let name = project.common_dir.parent().and_then(Path::file_name).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.to_string_lossy().chars().take(MAX_SLUG).map(plain).collect();
    let hash = blake3::hash(project.common_dir.as_os_str().as_encoded_bytes()).to_hex();
    format!("{}-{}", name.trim_start_matches('.'), &hash[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_plain_and_short() {
        assert_eq!(slug("Fix the login!  (#7)"), "fix-the-login-7");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(slug("日本"), "");
        assert_eq!(slug("Ünïcode ☃ name: Größe"), "unicode-name-grosse");
        assert!(slug(&"x y".repeat(100)).len() <= MAX_SLUG);
        for about in ["a.lock", "Żółć ÷ ×"] {
            assert!(BranchName::new(&format!("provost/deadbeef-{}", slug(about))).is_ok());
        }
    }
}
