//! Worktrees: preparing them, determining their base, and committing the work of a turn.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use provost_core::{
    ids::{CommitId, SessionId, TreeId},
    limits::MAX_LEFT_OUT,
    run::Run,
    session::{Session, WorkLocation, WorkState},
    team::Team,
    verdict::{Caveats, Snapshot},
};
use provost_git::{
    BranchName, CommitMessage, Git, KeepRef, Oid, Pool, Project, checkout_detached,
    snapshot_user_checkout, snapshot_worktree, worktree_add, worktree_find,
};
use provost_sys::agent_file;

use provost_sys::private;
use provost_trust::approval_patterns;

use crate::guarded_files;
use provost_sys::error_chain;

/// A prepared working directory and its base.
pub(crate) struct PreparedWork {
    pub(crate) cwd: String,
    pub(crate) base: Option<Snapshot>,
}

/// Prepares the working directory. If the preparation is repeated after a crash, existing parts are reused.
pub(crate) fn prepare_work(git: &Git, session: &Session) -> Result<PreparedWork, String> {
    let spec = &session.spec;
    match &spec.work {
        WorkLocation::Plain => {
            if Path::new(&spec.cwd).is_dir() {
                Ok(PreparedWork { cwd: spec.cwd.clone(), base: None })
            } else {
                Err(format!("there is no directory {}", spec.cwd))
            }
        }
        WorkLocation::InPlace { top } => {
            let (base, _) = commit_session_in_place(git, session, top, "base")
                .map_err(|why| error_chain(&*why))?;
            Ok(PreparedWork { cwd: spec.cwd.clone(), base: Some(base) })
        }
        WorkLocation::Worktree { top, path, branch, copy, base } => {
            let base = base.as_ref().map(|base| base.0.as_str());
            let base =
                make_worktree(git, top, path, branch, base).map_err(|why| error_chain(&*why))?;
            copy_ignored(Path::new(top), Path::new(path), copy)?;
            let cwd = map_into_worktree(&spec.cwd, top, path);
            Ok(PreparedWork { cwd, base: Some(base) })
        }
        WorkLocation::Detached { top, path, base } => {
            make_detached_checkout(git, top, path, &base.0).map_err(|why| error_chain(&*why))?;
            Ok(PreparedWork { cwd: map_into_worktree(&spec.cwd, top, path), base: None })
        }
    }
}

/// Refuses to work in a worktree of another home from which the session was imported, because an
/// agent may be working there.
pub(crate) fn check_home(session: &Session, home: &Path) -> Result<(), String> {
    let path = match &session.spec.work {
        WorkLocation::Worktree { path, .. } | WorkLocation::Detached { path, .. } => path,
        WorkLocation::Plain | WorkLocation::InPlace { .. } => return Ok(()),
    };
    // A missing path is reported later, when it is used.
    match (fs::canonicalize(path), fs::canonicalize(home)) {
        (Ok(place), Ok(home)) if !place.starts_with(&home) => Err(format!(
            "its worktree {path} belongs to another home: resume it there, or start a new session with `provost spawn`"
        )),
        _ => Ok(()),
    }
}

/// Commits the content of the working directory. The user's own checkout and index are not changed.
pub(crate) fn commit_work(
    git: &Git,
    session: &Session,
    no: u32,
) -> Result<(Snapshot, Caveats), String> {
    let taken = match &session.spec.work {
        WorkLocation::Plain => return Err("the work is not in a git repository".to_owned()),
        WorkLocation::Detached { .. } => {
            return Err("a read-only checkout has no changes".to_owned());
        }
        WorkLocation::InPlace { top } => {
            commit_session_in_place(git, session, top, &format!("{}-{no}", session.attempt().no))
        }
        WorkLocation::Worktree { top, path, branch, .. } => commit_worktree(
            git,
            session.id,
            commit_message(session),
            WorktreeLocation { top, path, branch },
        ),
    };
    let base = match &session.worktree.state {
        WorkState::Ready { base, .. } => base.as_ref(),
        WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => None,
    };
    let protected = approval_patterns(&session.spec.protected);
    taken
        .and_then(|(taken, caveats)| {
            add_protected_files(git, &session.spec.work, base, &protected, taken, caveats)
        })
        .map_err(|why| error_chain(&*why))
}

/// Commits the content of the checkout in which a team was opened, for the team's check with this
/// number. The user's own checkout and index are not changed.
pub(crate) fn commit_team_checkout(
    git: &Git,
    team: &Team,
    no: u32,
) -> Result<(Snapshot, Caveats), String> {
    let top = team.spec.project.as_deref();
    let top = top.ok_or_else(|| "the work is not in a git repository".to_owned())?;
    let message = CommitMessage {
        text: format!("{}: work for check {no}", team.spec.name),
        trailers: vec![("Provost-Team".to_owned(), team.id.to_string())],
    };
    let keep = keep_ref(team.id, &format!("check-{no}"));
    let taken = keep.and_then(|keep| commit_in_place(git, top, &keep, &message));
    taken.map_err(|why| error_chain(&*why))
}

/// Adds the changed files that affect the checks or grant permissions to the caveats.
fn add_protected_files(
    git: &Git,
    work: &WorkLocation,
    base: Option<&Snapshot>,
    protected: &[String],
    taken: Snapshot,
    caveats: Caveats,
) -> Result<(Snapshot, Caveats), WorkFailure> {
    let Some((base, top)) = base.zip(work.top()) else {
        return Ok((taken, caveats));
    };
    let project = Project::find(git, Path::new(top))?;
    let (from, to) = (Oid::new(&base.tree.0)?, Oid::new(&taken.tree.0)?);
    let changed = provost_git::changed_among(git, &project, &from, &to, protected)?;
    let protected = changed.iter().take(MAX_LEFT_OUT).map(ToString::to_string).collect();
    Ok((taken, Caveats { protected, ..caveats }))
}

/// Commits the work of a run's session that no check has committed.
pub(crate) fn commit_head(
    git: &Git,
    run: &Run,
    session: SessionId,
) -> Result<(Snapshot, Caveats), String> {
    let (path, branch) = run.worktree(session).ok_or("the run has no such worktree")?;
    let trailers = [("Provost-Run", run.id.to_string()), ("Provost-Session", session.to_string())];
    let message = CommitMessage {
        text: format!("{}: uncommitted work", run.spec.name),
        trailers: trailers.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    let place = WorktreeLocation { top: &run.spec.project, path: &path, branch: &branch };
    let taken = commit_worktree(git, session, message, place);
    let work = WorkLocation::InPlace { top: run.spec.project.clone() };
    let (base, protected) = (&run.spec.target.base, guarded_files::patterns(&run.spec));
    taken
        .and_then(|(taken, caveats)| {
            add_protected_files(git, &work, Some(base), &protected, taken, caveats)
        })
        .map_err(|why| error_chain(&*why))
}

/// The paths and the branch of a worktree.
#[derive(Clone, Copy)]
struct WorktreeLocation<'a> {
    top: &'a str,
    path: &'a str,
    branch: &'a str,
}

type WorkFailure = Box<dyn std::error::Error + Send + Sync>;

fn make_worktree(
    git: &Git,
    top: &str,
    path: &str,
    branch: &str,
    base: Option<&str>,
) -> Result<Snapshot, WorkFailure> {
    let project = Project::find(git, Path::new(top))?;
    let branch = BranchName::new(branch)?;
    let base = match base {
        Some(base) => Oid::new(base)?,
        None => project.commit(git)?,
    };
    if let Some(parent) = Path::new(path).parent() {
        private::create_dir_all(parent)?;
    }
    let made =
        worktree_add(git, &project, Path::new(path), &branch, base.as_str()).map_err(with_hint)?;
    // The base is the commit from which the branch was created, even if the worktree is prepared
    // again after a crash.
    let (commit, tree) = made.checked_out(git)?;
    Ok(Snapshot { commit: CommitId(commit.to_string()), tree: TreeId(tree.to_string()) })
}

/// Makes a clean, detached checkout for a session that changes nothing.
fn make_detached_checkout(git: &Git, top: &str, path: &str, base: &str) -> Result<(), WorkFailure> {
    let project = Project::find(git, Path::new(top))?;
    let place = Path::new(path);
    let (parent, slot) = (place.parent(), place.file_name().and_then(|name| name.to_str()));
    let (parent, slot) = parent.zip(slot).ok_or("the checkout has an invalid path")?;
    private::create_dir_all(parent)?;
    checkout_detached(git, &project, &Pool::new(parent)?, slot, &Oid::new(base)?, &[])?;
    Ok(())
}

/// Formats an error together with its hint.
fn with_hint(why: provost_git::worktree::Error) -> WorkFailure {
    match why.hint() {
        Some(hint) => format!("{}; {hint}", error_chain(&why)).into(),
        None => why.into(),
    }
}

fn commit_worktree(
    git: &Git,
    session: SessionId,
    message: CommitMessage,
    WorktreeLocation { top, path, branch }: WorktreeLocation<'_>,
) -> Result<(Snapshot, Caveats), WorkFailure> {
    let project = Project::find(git, Path::new(top))?;
    let branch = BranchName::new(branch)?;
    let found = worktree_find(git, &project, Path::new(path), &branch)?;
    // Git still lists a deleted worktree until it is pruned.
    let found = if Path::new(path).is_dir() { found } else { None };
    let worktree = found.ok_or_else(|| format!("the worktree {path} is gone"))?;
    let keep = keep_ref(session, "moved")?;
    Ok(convert_snapshot(&snapshot_worktree(git, &worktree, &message, &keep)?))
}

fn commit_session_in_place(
    git: &Git,
    session: &Session,
    top: &str,
    name: &str,
) -> Result<(Snapshot, Caveats), WorkFailure> {
    commit_in_place(git, top, &keep_ref(session.id, name)?, &commit_message(session))
}

fn commit_in_place(
    git: &Git,
    top: &str,
    keep: &KeepRef,
    message: &CommitMessage,
) -> Result<(Snapshot, Caveats), WorkFailure> {
    let project = Project::find(git, Path::new(top))?;
    Ok(convert_snapshot(&snapshot_user_checkout(git, &project, keep, message)?))
}

/// Converts a snapshot and its caveats to the core's types.
fn convert_snapshot(taken: &provost_git::CheckoutSnapshot) -> (Snapshot, Caveats) {
    let (commit, tree) = (CommitId(taken.commit.to_string()), TreeId(taken.tree.to_string()));
    let kept_at = taken.strayed.as_ref().map(ToString::to_string);
    let left_out = taken.left_out.iter().take(MAX_LEFT_OUT).map(ToString::to_string).collect();
    (Snapshot { commit, tree }, Caveats { kept_at, left_out, ..Caveats::default() })
}

fn keep_ref(owner: impl std::fmt::Display, name: &str) -> Result<KeepRef, WorkFailure> {
    Ok(KeepRef::new(&format!("{owner}-{name}"))?)
}

fn commit_message(session: &Session) -> CommitMessage {
    let attempt = session.attempt().no;
    let of_run = session.spec.run.map(|of| {
        [("Provost-Run", of.run.to_string()), ("Provost-Stage", of.stage.as_str().to_owned())]
    });
    let of_task = session.spec.task.iter().map(|task| ("Provost-Task", task.to_string()));
    let of_session =
        [("Provost-Session", session.id.to_string()), ("Provost-Attempt", attempt.to_string())];
    let trailers = of_run.into_iter().flatten().chain(of_task).chain(of_session);
    let reworks = session.attempt().reworks;
    let what = match &session.spec.task {
        Some(task) => format!("work of attempt {attempt} on task {task}"),
        None => format!("work of attempt {attempt}"),
    };
    let what = if reworks == 0 { what } else { format!("{what}, rework {reworks}") };
    CommitMessage {
        text: format!("{}: {what}", session.spec.name),
        trailers: trailers.map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// Maps a directory in the repository to the corresponding one in the worktree.
fn map_into_worktree(cwd: &str, top: &str, worktree: &str) -> String {
    match Path::new(cwd).strip_prefix(top) {
        Ok(below) if below.as_os_str().is_empty() => worktree.to_owned(),
        Ok(below) => {
            let there = Path::new(worktree).join(below);
            let chosen = if there.is_dir() { there } else { PathBuf::from(worktree) };
            chosen.display().to_string()
        }
        Err(_) => worktree.to_owned(),
    }
}

/// Copies ignored files that the work needs, such as `.env`, into a fresh worktree. Symlinks below the two directories
/// are not followed, because the checked-out tree may contain symlinks that point outside of the tree.
fn copy_ignored(top: &Path, worktree: &Path, names: &[String]) -> Result<(), String> {
    let open = |path: &Path| agent_file::AgentDir::open(path).map_err(|why| why.to_string());
    let (from, to) = (open(top)?, open(worktree)?);
    for name in names {
        let below = Path::new(name);
        let describe = |why: std::io::Error| format!("cannot copy {name} into the worktree: {why}");
        // Skip everything that is not a regular file, and keep existing targets.
        let Ok(mut source) = from.open_file(below) else { continue };
        if to.has(below).map_err(|why| describe(why.into()))? {
            continue;
        }
        let about = source.metadata().map_err(describe)?;
        let mode = rustix::fs::Mode::from_raw_mode(about.mode() & 0o777);
        let mut target = to.create_file(below, mode).map_err(|why| describe(why.into()))?;
        std::io::copy(&mut source, &mut target).map_err(describe)?;
    }
    Ok(())
}
