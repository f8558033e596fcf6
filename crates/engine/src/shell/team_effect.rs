//! The effects of a team: checks on its workers' work, which Provost runs on the committed tree.

use std::{path::Path, sync::Arc};

use provost_core::{
    ids::{SessionId, TreeId},
    limits::Bounds,
    session::{
        AgentInterface, AgentSpec, CommandStdin, ExitZeroPolicy, OnFinish, Session, SessionOpened,
        SessionSpec, WorkLocation, WorkState,
    },
    team::{
        PendingCheck, PictureComparison, Team, TeamCommand, TeamEffect,
        pictures::{PictureCheck, PictureInfo, PictureMeasurement},
    },
    time::Moment,
    verdict::{EmptyDiff, Receipt},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    check::{CheckJob, CheckRunner, base_of, unfinished_receipt},
    supervised_command, worktree,
};

/// Carries out an effect of a team, and returns its result.
pub(crate) async fn run_effect(
    git: &Git,
    checks: &CheckRunner,
    task: &Team,
    worker: Option<Arc<Session>>,
    effect: TeamEffect,
    cancel: watch::Receiver<bool>,
) -> TeamCommand {
    let TeamEffect::RunCheck(check) = effect;
    // A worker without its own worktree works in the team's checkout.
    let worker = worker.filter(|worker| worker.spec.work != WorkLocation::Plain);
    let worker = worker.map_or_else(|| placeholder_worker(task), |worker| (*worker).clone());
    let no = check.no;
    let (receipt, compared) = match check.pictures.clone() {
        Some(pictures) => compare_pictures(git, worker, *pictures, no).await,
        None => (Box::pin(run_check(git, checks, task, worker, check, cancel)).await, None),
    };
    TeamCommand::CheckDone { no, receipt: Box::new(receipt), compared: compared.map(Box::new) }
}

/// Compares two pictures in the worker's directory. Git may ignore these files. The tree, if there
/// is one, identifies the rest of the work.
async fn compare_pictures(
    git: &Git,
    worker: Session,
    pictures: PictureCheck,
    no: u32,
) -> (Receipt, Option<PictureComparison>) {
    let git = git.clone();
    supervised_command::blocking(move || {
        let taken = worktree::commit_work(&git, &worker, no);
        let tree = taken.map(|(snapshot, _)| snapshot.tree).unwrap_or(TreeId(String::new()));
        let cwd = match &worker.work {
            WorkState::Ready { cwd, .. } => cwd,
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => &worker.spec.cwd,
        };
        let files = &pictures.files;
        let found = provost_verify::compare(
            Path::new(cwd),
            &files.expected,
            &files.actual,
            files.tolerance,
        );
        pictures.receipt(tree, found.map(measured).map_err(|why| why.to_string()))
    })
    .await
}

fn measured(found: provost_verify::Comparison) -> PictureMeasurement {
    let picture = |read: provost_verify::PictureFile| {
        let provost_verify::PictureFile { digest, width, height } = read;
        PictureInfo { digest, width, height }
    };
    let provost_verify::Comparison { expected, actual, differing, points } = found;
    PictureMeasurement { expected: picture(expected), actual: picture(actual), differing, points }
}

async fn run_check(
    git: &Git,
    checks: &CheckRunner,
    task: &Team,
    worker: Session,
    check: PendingCheck,
    cancel: watch::Receiver<bool>,
) -> Receipt {
    let (git, looked) = (git.clone(), worker.clone());
    let taken =
        supervised_command::blocking(move || worktree::commit_work(&git, &looked, check.no)).await;
    let (snapshot, _) = match taken {
        Ok(taken) => taken,
        // Without a commit, the receipt has no tree.
        Err(why) => return unfinished_receipt(&check.command, TreeId(String::new()), why),
    };
    let bounds = &task.spec.bounds;
    let bounds = Bounds {
        check_time_ms: bounds.check_time_ms,
        check_output: bounds.check_output,
        ..worker.spec.bounds.clone()
    };
    // The key contains the tree, so that the result of a check on a different tree, from before a
    // restart, is not reused.
    let base = base_of(&worker);
    let key = format!("team-{}-check-{}-{}", task.id.short(), check.no, short(&snapshot.tree));
    let job = CheckJob {
        session: worker.id,
        spec: SessionSpec { bounds, ..worker.spec },
        snapshot,
        base,
        command: check.command,
        key,
    };
    checks.run(job, cancel).await
}

fn short(tree: &TreeId) -> &str {
    tree.0.get(..12).unwrap_or(&tree.0)
}

/// Returns a placeholder session for a worker without one. It works in the checkout in which the
/// team was opened.
fn placeholder_worker(task: &Team) -> Session {
    let agent = AgentSpec {
        name: "none".to_owned(),
        interface: AgentInterface::command(),
        argv: Vec::new(),
        env: Default::default(),
        pass_env: Vec::new(),
        own_env: Vec::new(),
        input: CommandStdin::Closed,
        settings: Default::default(),
        version: None,
        profile: Default::default(),
    };
    let work = match &task.spec.project {
        Some(top) => WorkLocation::InPlace { top: top.clone() },
        None => WorkLocation::Plain,
    };
    let spec = SessionSpec {
        name: task.spec.name.clone(),
        role: None,
        project: task.spec.project.clone(),
        cwd: task.spec.cwd.clone(),
        agent,
        instruction: None,
        work,
        setup: None,
        checks: Vec::new(),
        keep: Vec::new(),
        protected: Vec::new(),
        check_terms: Default::default(),
        empty_diff: EmptyDiff::Accepted,
        exit_zero: ExitZeroPolicy::NotAClaim,
        on_finish: OnFinish::Close,
        bounds: Bounds::default(),
        budget: Default::default(),
        policy: Default::default(),
        hooks: Default::default(),
        reactions: Default::default(),
        warnings: Vec::new(),
        run: None,
        task: None,
        adopted: None,
    };
    let opened = SessionOpened { spec: Box::new(spec) };
    Session::open(SessionId(task.id.0), Moment::default(), &opened)
}
