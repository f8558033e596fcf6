//! The effects of a team: checks on its workers' work, which Provost runs on the committed tree.

use std::{path::Path, sync::Arc};

use provost_core::{
    ids::TreeId,
    session::{Session, WorkLocation, WorkState},
    team::{
        PendingCheck, PictureComparison, Team, TeamCommand, TeamEffect,
        pictures::{PictureCheck, PictureInfo, PictureMeasurement},
    },
    verdict::{Caveats, Receipt, Snapshot},
    verification::{CheckLimits, Verification},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    check::{CheckJob, CheckRunner, unfinished_receipt},
    supervised_command, worktree,
};
use crate::stream::Subject;

/// Carries out an effect of a team, and returns its result.
pub(crate) async fn run_effect(
    git: &Git,
    checks: &CheckRunner,
    team: &Arc<Team>,
    worker: Option<Arc<Session>>,
    effect: TeamEffect,
    cancel: watch::Receiver<bool>,
) -> TeamCommand {
    let TeamEffect::RunCheck(check) = effect;
    let work = CheckedWork::new(team, worker);
    let no = check.no;
    let (receipt, compared) = match check.pictures.clone() {
        Some(pictures) => compare_pictures(git, work, *pictures, no).await,
        None => (Box::pin(run_check(git, checks, team, work, check, cancel)).await, None),
    };
    TeamCommand::CheckDone { no, receipt: Box::new(receipt), compared: compared.map(Box::new) }
}

/// The work that a team checks.
#[derive(Clone)]
enum CheckedWork {
    Worker(Arc<Session>),
    /// The checkout in which the team was opened. A worker without its own worktree works there.
    Checkout(Arc<Team>),
}

impl CheckedWork {
    fn new(team: &Arc<Team>, worker: Option<Arc<Session>>) -> CheckedWork {
        let worker = worker.filter(|worker| worker.spec.work != WorkLocation::Plain);
        worker.map_or_else(|| CheckedWork::Checkout(team.clone()), CheckedWork::Worker)
    }

    fn commit(&self, git: &Git, no: u32) -> Result<(Snapshot, Caveats), String> {
        match self {
            CheckedWork::Worker(worker) => worktree::commit_work(git, worker, no),
            CheckedWork::Checkout(team) => worktree::commit_team_checkout(git, team, no),
        }
    }

    fn cwd(&self) -> &str {
        match self {
            CheckedWork::Worker(worker) => match &worker.worktree.state {
                WorkState::Ready { cwd, .. } => cwd,
                WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => {
                    &worker.spec.cwd
                }
            },
            CheckedWork::Checkout(team) => &team.spec.cwd,
        }
    }

    fn owner(&self) -> Subject {
        match self {
            CheckedWork::Worker(worker) => Subject::Session(worker.id),
            CheckedWork::Checkout(team) => Subject::Team(team.id),
        }
    }

    fn verification(&self, snapshot: Snapshot, check: String) -> Verification {
        match self {
            CheckedWork::Worker(worker) => worker.verification_of(snapshot, vec![check]),
            CheckedWork::Checkout(team) => team.checkout_verification(snapshot, check),
        }
    }
}

/// Compares two pictures in the worker's directory. Git may ignore these files. The tree, if there
/// is one, identifies the rest of the work.
async fn compare_pictures(
    git: &Git,
    work: CheckedWork,
    pictures: PictureCheck,
    no: u32,
) -> (Receipt, Option<PictureComparison>) {
    let git = git.clone();
    supervised_command::blocking(move || {
        let taken = work.commit(&git, no);
        let tree = taken.map(|(snapshot, _)| snapshot.tree).unwrap_or(TreeId(String::new()));
        let files = &pictures.files;
        let found = provost_verify::compare(
            Path::new(work.cwd()),
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
    team: &Team,
    work: CheckedWork,
    check: PendingCheck,
    cancel: watch::Receiver<bool>,
) -> Receipt {
    let PendingCheck { no, command, .. } = check;
    let (git, looked) = (git.clone(), work.clone());
    let taken = supervised_command::blocking(move || looked.commit(&git, no)).await;
    let (snapshot, _) = match taken {
        Ok(taken) => taken,
        // Without a commit, the receipt has no tree.
        Err(why) => return unfinished_receipt(&command, TreeId(String::new()), why),
    };
    // The key contains the tree, so that the result of a check on a different tree, from before a
    // restart, is not reused.
    let key = format!("team-{}-check-{no}-{}", team.id.short(), short(&snapshot.tree));
    let verification = work.verification(snapshot.clone(), command.clone());
    let (time_ms, output) = (team.spec.bounds.check_time_ms, team.spec.bounds.check_output);
    let limits = CheckLimits { time_ms, output, ..verification.limits };
    let verification = Verification { limits, ..verification };
    let receipts = checks.run(CheckJob { owner: work.owner(), key, verification }, cancel).await;
    receipts.into_iter().next().unwrap_or_else(|| {
        unfinished_receipt(&command, snapshot.tree, "it was not requested".to_owned())
    })
}

fn short(tree: &TreeId) -> &str {
    tree.0.get(..12).unwrap_or(&tree.0)
}
