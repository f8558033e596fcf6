//! Garbage collection of the files of closed sessions, runs and teams. Unsaved work is never removed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use provost_api::{
    ApiError, ErrorCode, GcItemRow, GcReply, LaunchRow, ProcessName, RunRow, RunStateName,
    SessionRow, TeamRow,
};
use provost_core::{
    ids::{RunId, SessionId},
    session::SessionCommand,
};
use provost_engine::shell::{
    EngineReply, EngineRequest, Home, Listing, blocking::blocking_request, mismatched_reply,
};
use provost_git::{
    BranchFate, BranchName, Git, KeepRef, Project, RemovalImpact, removal_risk, remove_worktree,
    worktree_find,
};
use provost_ledger::SqliteReader;
use provost_sys::error_chain;
use tokio::sync::OwnedRwLockReadGuard;

use super::server::DaemonServer;
use crate::adapters::adapters;

/// The items that a collection removed, and those that it kept.
#[derive(Default)]
struct GcReport {
    removed: Vec<GcItemRow>,
    kept: Vec<GcItemRow>,
}

/// The scope of a collection.
pub(crate) struct GcScope {
    pub(crate) apply: bool,
    pub(crate) older_than_ms: i64,
    /// If set, only the sessions of these runs are covered.
    pub(crate) runs: Option<Vec<String>>,
}

impl GcScope {
    fn includes(&self, row: &SessionRow) -> bool {
        let of = |runs: &Vec<String>| row.run.as_ref().is_some_and(|run| runs.contains(run));
        self.runs.as_ref().is_none_or(of)
    }
}

/// Removes the worktrees of sealed sessions that contain nothing unique. For sessions that have
/// been closed for longer than the given age, also removes the output and the agent's stored data.
pub(crate) async fn collect(daemon: &DaemonServer, wanted: &GcScope) -> Result<GcReply, ApiError> {
    let ledger = daemon.world.home.ledger();
    let rows = blocking(move || sealed_sessions(&ledger)).await??;
    let apply = wanted.apply;
    let old = super::server::wall_ms().saturating_sub(wanted.older_than_ms);
    let mut found = GcReport::default();
    let ledger = daemon.world.home.ledger();
    // If runs are given explicitly, they are not kept for a later resume.
    let resumed_since = if wanted.runs.is_some() { i64::MAX } else { old };
    let needed = blocking(move || runs_to_keep(&ledger, resumed_since)).await??;
    let bound = sessions_of_teams(daemon).await?;
    for row in rows.into_iter().filter(|row| wanted.includes(row)) {
        let of_run = row.run.as_ref().and_then(|run| needed.get(run)).map(|why| (*why).to_owned());
        let of_task = bound.get(&row.id).map(|task| format!("the session belongs to team {task}"));
        if let Some(reason) = of_run.or(of_task) {
            keep_worktree(&row, &reason, &mut found);
            continue;
        }
        if row.worktree.as_ref().is_some_and(|worktree| !worktree.removed) {
            collect_worktree(daemon, &row, apply, &mut found).await?;
        }
        if row.sealed_at.is_some_and(|at| at < old) {
            let (home, id) = (daemon.world.home.clone(), row.id.clone());
            let gone = blocking(move || remove_output(&home, &id, apply)).await?;
            found
                .removed
                .extend(gone.into_iter().map(|path| session_item("output", &path, &row.id)));
            collect_agent(daemon, &row, apply, &mut found).await?;
        }
    }
    collect_runs(daemon, wanted, old, &mut found).await?;
    if wanted.runs.is_none() {
        collect_teams(daemon, wanted.apply, old, &mut found).await?;
    }
    let GcReport { removed, kept } = found;
    Ok(GcReply { ok: true, applied: apply, removed, kept })
}

/// Removes the summaries of runs that were closed long ago, and the output of their hooks and landings.
async fn collect_runs(
    daemon: &DaemonServer,
    wanted: &GcScope,
    old: i64,
    found: &mut GcReport,
) -> Result<(), ApiError> {
    let ledger = daemon.world.home.ledger();
    let named = |row: &RunRow| wanted.runs.as_ref().is_none_or(|runs| runs.contains(&row.id));
    let rows = blocking(move || sealed_runs(&ledger)).await??;
    let over = rows.into_iter().filter(|row| row.sealed_at.is_some_and(|at| at < old));
    for row in over.filter(named) {
        let Ok(run) = row.id.parse::<RunId>() else { continue };
        let (home, apply) = (daemon.world.home.clone(), wanted.apply);
        let gone = blocking(move || remove_run_output(&home, run, apply)).await?;
        found.removed.extend(gone.into_iter().map(|path| run_item("output", &path, &row.id)));
    }
    Ok(())
}

/// Removes the check output of teams that ended long ago. Checks that belong to a worker's session
/// are removed with the session.
async fn collect_teams(
    daemon: &DaemonServer,
    apply: bool,
    old: i64,
    found: &mut GcReport,
) -> Result<(), ApiError> {
    let (home, ledger) = (daemon.world.home.clone(), daemon.world.home.ledger());
    let gone = blocking(move || -> Result<Vec<GcItemRow>, ApiError> {
        let over = ended_teams(&ledger, old)?;
        let places = over.into_iter().flat_map(|id| {
            let gone = remove_dirs(owned_paths(&home.checks(), &id), apply);
            gone.into_iter().map(move |path| team_item("output", &path, &id)).collect::<Vec<_>>()
        });
        Ok(places.collect())
    });
    found.removed.extend(gone.await??);
    Ok(())
}

/// Returns the teams that ended before a point in time.
fn ended_teams(ledger: &Path, before: i64) -> Result<Vec<String>, ApiError> {
    let reader = SqliteReader::open(ledger).map_err(ledger_error)?;
    let mut ids = Vec::new();
    Listing::default()
        .visit_teams(&reader, |projection| {
            let row = serde_json::from_str::<TeamRow>(projection).ok();
            ids.extend(row.filter(|row| row.terminal && row.since < before).map(|row| row.id));
            std::ops::ControlFlow::Continue(())
        })
        .map_err(ledger_error)?;
    Ok(ids)
}

fn sealed_runs(ledger: &Path) -> Result<Vec<RunRow>, ApiError> {
    let reader = SqliteReader::open(ledger).map_err(ledger_error)?;
    let mut rows = Vec::new();
    Listing::default()
        .visit_runs(&reader, |projection| {
            let row = serde_json::from_str::<RunRow>(projection).ok();
            rows.extend(row.filter(|row| row.sealed));
            std::ops::ControlFlow::Continue(())
        })
        .map_err(ledger_error)?;
    Ok(rows)
}

fn ledger_error(why: impl std::error::Error) -> ApiError {
    ApiError::new(ErrorCode::Storage, why.to_string()).next("provost ledger verify")
}

fn sealed_sessions(ledger: &Path) -> Result<Vec<SessionRow>, ApiError> {
    let reader = SqliteReader::open(ledger).map_err(ledger_error)?;
    let mut rows = Vec::new();
    Listing::default()
        .visit(&reader, |projection| {
            // Skip a session whose projection cannot be read.
            let row = serde_json::from_str::<SessionRow>(projection).ok();
            let over = |row: &SessionRow| {
                row.sealed
                    && row.process != ProcessName::Alive
                    && !row.launches.iter().any(LaunchRow::may_be_running)
            };
            rows.extend(row.filter(over));
            std::ops::ControlFlow::Continue(())
        })
        .map_err(ledger_error)?;
    Ok(rows)
}

/// Returns the runs whose worktrees are kept, and why. These are active runs, and resumable runs
/// that ended after `resumed_since`.
fn runs_to_keep(
    ledger: &Path,
    resumed_since: i64,
) -> Result<BTreeMap<String, &'static str>, ApiError> {
    let reader = SqliteReader::open(ledger).map_err(ledger_error)?;
    let mut runs = BTreeMap::new();
    Listing::default()
        .visit_runs(&reader, |projection| {
            if let Ok(row) = serde_json::from_str::<RunRow>(projection) {
                let resumable = matches!(
                    row.state.known(),
                    Some(RunStateName::Failed | RunStateName::Cancelled)
                );
                let recent = row.sealed_at.is_some_and(|at| at >= resumed_since);
                let reason = if !row.sealed {
                    Some("the run of the session is still active")
                } else if resumable && recent {
                    Some("the run of the session can be resumed")
                } else {
                    None
                };
                runs.extend(reason.map(|reason| (row.id, reason)));
            }
            std::ops::ControlFlow::Continue(())
        })
        .map_err(ledger_error)?;
    Ok(runs)
}

/// Returns the sessions that are bound to an active team, with the name of the team. The next
/// message resumes them, and their work is checked and audited.
async fn sessions_of_teams(daemon: &DaemonServer) -> Result<BTreeMap<String, String>, ApiError> {
    let bound = daemon.handle.bound_sessions().await?;
    Ok(bound.into_iter().map(|one| (one.session.to_string(), one.team)).collect())
}

/// Lists a worktree as kept, because a later task, a comment on a pull request, a team message or a
/// resume may still need it.
fn keep_worktree(row: &SessionRow, reason: &str, found: &mut GcReport) {
    let worktree = row.worktree.as_ref().filter(|worktree| !worktree.removed);
    found.kept.extend(worktree.map(|worktree| {
        let mut kept = session_item("worktree", Path::new(&worktree.path), &row.id);
        kept.reason = Some(reason.to_owned());
        kept
    }));
}

async fn collect_worktree(
    daemon: &DaemonServer,
    row: &SessionRow,
    apply: bool,
    found: &mut GcReport,
) -> Result<(), ApiError> {
    let Some(worktree) = row.worktree.clone() else { return Ok(()) };
    let (git, top) = (daemon.world.git.clone(), row.project.clone().unwrap_or_default());
    let path = PathBuf::from(&worktree.path);
    let (place, branch) = (path.clone(), worktree.branch.clone());
    let own = daemon.world.home.worktrees();
    let delay = if apply { Some(delay_exit(daemon).await?) } else { None };
    let result = blocking(move || {
        // The job holds this guard, because the job continues even if the client disconnects.
        let _delay = delay;
        if is_below(&place, &own) {
            remove_session_worktree(&git, &top, &place, &branch, apply)
        } else {
            Err("the worktree belongs to another home".to_owned())
        }
    })
    .await?;
    match result {
        Err(reason) => {
            let mut kept = session_item("worktree", &path, &row.id);
            kept.reason = Some(reason);
            found.kept.push(kept);
        }
        Ok(gone) => {
            let mut removed = session_item("worktree", &path, &row.id);
            removed.ignored_files = Some(gone.ignored_files);
            removed.dropped_commits = Some(gone.dropped_commits);
            removed.kept_ref = gone.kept.map(|kept| kept.to_string());
            found.removed.push(removed);
            if apply {
                let ask = EngineRequest::SessionCommand {
                    session: row.id.clone(),
                    command: SessionCommand::WorkRemoved,
                };
                daemon.handle.request(ask, "operator", None).await?;
            }
        }
    }
    Ok(())
}

/// Delays the daemon's exit until the guard is dropped. A removal that is cut off would leave a
/// worktree whose files are gone, but which git still lists.
async fn delay_exit(daemon: &DaemonServer) -> Result<OwnedRwLockReadGuard<()>, ApiError> {
    let stopping = || ApiError::new(ErrorCode::Unreachable, "the daemon is stopping");
    tokio::select! {
        biased;
        () = daemon.leaving.cancelled() => Err(stopping()),
        guard = Arc::clone(&daemon.world.checkouts).read_owned() => Ok(guard),
    }
}

/// Removes the data that the agent stored for a session. This data contains the conversation and all secrets in it.
async fn collect_agent(
    daemon: &DaemonServer,
    row: &SessionRow,
    apply: bool,
    found: &mut GcReport,
) -> Result<(), ApiError> {
    let Ok(session) = row.id.parse::<SessionId>() else { return Ok(()) };
    let place = daemon.world.home.agent(session);
    if apply && place.exists() && !record_conversation_removal(daemon, row).await? {
        return Ok(());
    }
    let path = place.clone();
    match blocking(move || remove_agent(&path, apply)).await? {
        Ok(true) => {
            let mut removed = session_item("agent", &place, &row.id);
            removed.reason = Some("the session can no longer be resumed".to_owned());
            found.removed.push(removed);
        }
        Ok(false) => {}
        Err(reason) => {
            let mut kept = session_item("agent", &place, &row.id);
            kept.reason = Some(reason);
            found.kept.push(kept);
        }
    }
    Ok(())
}

/// Records that a session can no longer be resumed, before its conversation is removed. Returns
/// false if the session was resumed in the meantime and still needs the conversation.
async fn record_conversation_removal(
    daemon: &DaemonServer,
    row: &SessionRow,
) -> Result<bool, ApiError> {
    let ask = EngineRequest::SessionCommand {
        session: row.id.clone(),
        command: SessionCommand::ConversationRemoved,
    };
    let EngineReply::Session(reply) = daemon.handle.request(ask, "operator", None).await? else {
        return Err(mismatched_reply());
    };
    Ok(reply.session.sealed)
}

/// Removes the agent's data, and returns whether there was any. The agent's home is removed first,
/// and only if Provost created it.
fn remove_agent(place: &Path, apply: bool) -> Result<bool, String> {
    if !place.exists() {
        return Ok(false);
    }
    if apply {
        for adapter in adapters().iter() {
            adapter.clean_home(place)?;
        }
        std::fs::remove_dir_all(place).map_err(|why| why.to_string())?;
    }
    Ok(true)
}

/// Whether a path is below a directory, once all links above its last component are resolved. The
/// path may come from an imported record, and other homes clean up their own files.
fn is_below(path: &Path, directory: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.parent().is_some_and(|parent| resolved(parent).starts_with(resolved(directory)))
}

/// The items that are removed together with a worktree.
#[derive(Default)]
struct WorktreeRemoval {
    ignored_files: usize,
    /// The number of commits that only the worktree's reflog refers to, and the ref that now keeps these commits.
    dropped_commits: u64,
    kept: Option<KeepRef>,
}

/// Removes a worktree, or returns the work that would be lost. The same checks are made without
/// `apply`, so a worktree that is listed as removable can really be removed.
fn remove_session_worktree(
    git: &Git,
    top: &str,
    path: &Path,
    branch: &str,
    apply: bool,
) -> Result<WorktreeRemoval, String> {
    let project = Project::find(git, Path::new(top)).map_err(|why| error_chain(&why))?;
    let branch = BranchName::new(branch).map_err(|why| error_chain(&why))?;
    let found = worktree_find(git, &project, path, &branch).map_err(|why| error_chain(&why))?;
    let Some(worktree) = found else {
        return match path.symlink_metadata() {
            Ok(_) => Err("the directory is no longer a worktree of its project".to_owned()),
            Err(_) => Ok(WorktreeRemoval::default()),
        };
    };
    // The branch is kept, because it contains the work.
    let fate = BranchFate::Keep;
    let RemovalImpact { risks, ignored_files, dropped_commits } =
        removal_risk(git, &worktree, fate).map_err(|why| error_chain(&why))?;
    if !risks.is_empty() {
        return Err(risks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    }
    let mut gone = WorktreeRemoval { ignored_files, dropped_commits, kept: None };
    if apply {
        gone.kept = remove_worktree(git, &worktree, fate).map_err(|why| error_chain(&why))?.kept;
    }
    Ok(gone)
}

/// Removes the journals of a session's launches and checks.
fn remove_output(home: &Home, session: &str, apply: bool) -> Vec<PathBuf> {
    let Ok(_) = session.parse::<SessionId>() else { return Vec::new() };
    let parents = [home.launches(), home.checks()];
    let places = parents.iter().flat_map(|parent| owned_paths(parent, session)).collect();
    remove_traces(home, session, apply);
    remove_dirs(places, apply)
}

/// Removes the summaries of a run, and the journals of its hooks and landings.
fn remove_run_output(home: &Home, run: RunId, apply: bool) -> Vec<PathBuf> {
    let summaries = Some(home.run(run)).filter(|summaries| summaries.exists());
    let held = owned_paths(&home.checks(), &run.to_string());
    remove_traces(home, &run.to_string(), apply);
    remove_dirs(summaries.into_iter().chain(held).collect(), apply)
}

/// Removes the start records of an owner's effects, and forged records that were set aside.
fn remove_traces(home: &Home, owner: &str, apply: bool) {
    if !apply {
        return;
    }
    for record in owned_paths(&home.starts(), owner) {
        std::fs::remove_file(record).ok();
    }
    for forged in owned_paths(&home.forged(), owner) {
        // The path may be a directory, a file or a link.
        if std::fs::remove_file(&forged).is_err() {
            std::fs::remove_dir_all(&forged).ok();
        }
    }
}

/// Returns an owner's directories below a shared parent directory.
fn owned_paths(parent: &Path, owner: &str) -> Vec<PathBuf> {
    let prefix = format!("{owner}.");
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    own.map(|entry| entry.path()).collect()
}

/// Removes directories. Returns those that were removed or, without `apply`, would be removed.
fn remove_dirs(mut places: Vec<PathBuf>, apply: bool) -> Vec<PathBuf> {
    places.retain(|place| !apply || std::fs::remove_dir_all(place).is_ok());
    places
}

fn session_item(what: &str, path: &Path, session: &str) -> GcItemRow {
    GcItemRow { session: Some(session.to_owned()), ..item(what, path) }
}

fn run_item(what: &str, path: &Path, run: &str) -> GcItemRow {
    GcItemRow { run: Some(run.to_owned()), ..item(what, path) }
}

fn team_item(what: &str, path: &Path, team: &str) -> GcItemRow {
    GcItemRow { team: Some(team.to_owned()), ..item(what, path) }
}

fn item(what: &str, path: &Path) -> GcItemRow {
    let (kind, path) = (what.to_owned(), path.display().to_string());
    GcItemRow { kind, path, ..GcItemRow::default() }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    Ok(blocking_request(work).await)
}
