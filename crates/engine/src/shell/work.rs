//! The place of work: worktrees, where the work begins, and commits of what a turn left behind.

use std::path::{Path, PathBuf};

use provost_core::{
    ids::{CommitId, TreeId},
    limits::MAX_LEFT_OUT,
    session::{Session, Work},
    verdict::{Caveats, Snapshot},
};
use provost_git::{
    BranchName, Git, KeepRef, Message, Project, snapshot_loose, snapshot_worktree, worktree_add,
    worktree_find,
};

use super::held::chain;

/// The place of work as it was prepared.
pub(crate) struct Prepared {
    pub(crate) cwd: String,
    pub(crate) base: Option<Snapshot>,
}

/// Makes the place of work stand. Doing it again after a crash finds what was made.
pub(crate) fn prepare(git: &Git, session: &Session) -> Result<Prepared, String> {
    let spec = &session.spec;
    match &spec.work {
        Work::Plain => match Path::new(&spec.cwd).is_dir() {
            true => Ok(Prepared { cwd: spec.cwd.clone(), base: None }),
            false => Err(format!("the directory {} is not there", spec.cwd)),
        },
        Work::InPlace { top } => {
            let (base, _) = loose(git, session, top, "base").map_err(|why| chain(&*why))?;
            Ok(Prepared { cwd: spec.cwd.clone(), base: Some(base) })
        }
        Work::Worktree { top, path, branch, copy } => {
            let base = worktree(git, top, path, branch).map_err(|why| chain(&*why))?;
            copy_ignored(Path::new(top), Path::new(path), copy)?;
            let cwd = inside(&spec.cwd, top, path);
            Ok(Prepared { cwd, base: Some(base) })
        }
    }
}

/// Commits what is in the place of work, without touching anything of the user's.
pub(crate) fn snapshot(
    git: &Git,
    session: &Session,
    no: u32,
) -> Result<(Snapshot, Caveats), String> {
    let taken = match &session.spec.work {
        Work::Plain => return Err("the work is in no git repository".to_owned()),
        Work::InPlace { top } => {
            loose(git, session, top, &format!("{}-{no}", session.attempt().no))
        }
        Work::Worktree { top, path, branch, .. } => committed(git, session, top, path, branch),
    };
    taken.map_err(|why| chain(&*why))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn worktree(git: &Git, top: &str, path: &str, branch: &str) -> Result<Snapshot, Failure> {
    let project = Project::find(git, Path::new(top))?;
    let branch = BranchName::new(branch)?;
    let base = project.commit()?.clone();
    if let Some(parent) = Path::new(path).parent() {
        std::fs::create_dir_all(parent)?;
    }
    worktree_add(git, &project, Path::new(path), &branch, base.as_str()).map_err(hinted)?;
    // Where the work begins is what the branch was made from, also when it is prepared again after a crash.
    let made = Project::find(git, Path::new(path))?;
    let commit = made.commit()?.clone();
    let tree = provost_git::tree_of(git, &made, commit.as_str())?;
    let tree = tree.ok_or("the worktree's commit has no tree")?;
    Ok(Snapshot { commit: CommitId(commit.to_string()), tree: TreeId(tree.to_string()) })
}

/// Tells with a failure what can be done about it.
fn hinted(why: provost_git::worktree::Error) -> Failure {
    match why.hint() {
        Some(hint) => format!("{}; {hint}", chain(&why)).into(),
        None => why.into(),
    }
}

fn committed(
    git: &Git,
    session: &Session,
    top: &str,
    path: &str,
    branch: &str,
) -> Result<(Snapshot, Caveats), Failure> {
    let project = Project::find(git, Path::new(top))?;
    let branch = BranchName::new(branch)?;
    let found = worktree_find(git, &project, Path::new(path), &branch)?;
    // Git knows a worktree that was deleted until it is pruned.
    let found = found.filter(|_| Path::new(path).is_dir());
    let worktree = found.ok_or_else(|| format!("the worktree {path} is gone"))?;
    let keep = keep_ref(session, "moved")?;
    Ok(told(&snapshot_worktree(git, &worktree, &message(session), &keep)?))
}

fn loose(
    git: &Git,
    session: &Session,
    top: &str,
    name: &str,
) -> Result<(Snapshot, Caveats), Failure> {
    let project = Project::find(git, Path::new(top))?;
    let keep = keep_ref(session, name)?;
    Ok(told(&snapshot_loose(git, &project, &keep, &message(session))?))
}

/// Gives the snapshot, and what has to be told of it.
fn told(taken: &provost_git::Snapshot) -> (Snapshot, Caveats) {
    let (commit, tree) = (CommitId(taken.commit.to_string()), TreeId(taken.tree.to_string()));
    let kept_at = taken.strayed.as_ref().map(ToString::to_string);
    let left_out = taken.left_out.iter().take(MAX_LEFT_OUT).map(ToString::to_string).collect();
    (Snapshot { commit, tree }, Caveats { kept_at, left_out })
}

fn keep_ref(session: &Session, name: &str) -> Result<KeepRef, Failure> {
    Ok(KeepRef::new(&format!("{}-{name}", session.id))?)
}

fn message(session: &Session) -> Message {
    let attempt = session.attempt().no;
    Message {
        text: format!("{}: what attempt {attempt} left", session.spec.name),
        trailers: vec![
            ("Provost-Session".to_owned(), session.id.to_string()),
            ("Provost-Attempt".to_owned(), attempt.to_string()),
        ],
    }
}

/// Gives the directory of the worktree that corresponds to one inside the repository.
fn inside(cwd: &str, top: &str, worktree: &str) -> String {
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

/// Copies ignored files that the work needs (`.env`, say) into a fresh worktree. Links are not followed.
fn copy_ignored(top: &Path, worktree: &Path, names: &[String]) -> Result<(), String> {
    for name in names {
        let (from, to) = (top.join(name), worktree.join(name));
        let told = |why: std::io::Error| format!("cannot copy {name} into the worktree: {why}");
        let plain = std::fs::symlink_metadata(&from).is_ok_and(|about| about.is_file());
        if !plain || to.exists() {
            continue;
        }
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(told)?;
        }
        std::fs::copy(&from, &to).map_err(told)?;
    }
    Ok(())
}
