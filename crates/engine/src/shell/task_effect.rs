//! The effects of a team: checks of its workers' work, run by Provost on the committed tree.

use std::{path::Path, sync::Arc};

use provost_core::{
    ids::{SessionId, TreeId},
    limits::Bounds,
    session::{
        Afterwards, Agent, Driver, Exit0, Input, Session, SessionOpened, Spec, Work, WorkState,
    },
    task::{
        CheckOwed, Command, Compared, Effect, Task,
        pictures::{Measured, Picture, Pictures},
    },
    time::Moment,
    verdict::{EmptyDiff, Receipt},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    check::{CheckJob, CheckRunner, base_of, unfinished_on},
    held, work,
};

/// Carries out an effect of a team, and returns its result.
pub(crate) async fn carry_out(
    git: &Git,
    checks: &CheckRunner,
    task: &Task,
    worker: Option<Arc<Session>>,
    effect: Effect,
    cancel: watch::Receiver<bool>,
) -> Command {
    let Effect::RunCheck(owed) = effect;
    // A worker without a worktree of its own works in the team's checkout.
    let worker = worker.filter(|worker| worker.spec.work != Work::Plain);
    let worker = worker.map_or_else(|| of_the_checkout(task), |worker| (*worker).clone());
    let no = owed.no;
    let (receipt, compared) = match owed.pictures.clone() {
        Some(pictures) => compare(git, worker, *pictures, no).await,
        None => (Box::pin(check(git, checks, task, worker, owed, cancel)).await, None),
    };
    Command::CheckDone { no, receipt: Box::new(receipt), compared: compared.map(Box::new) }
}

/// Compares two pictures in the worker's directory. Git may ignore them. The tree, if there is one,
/// identifies the rest of the work.
async fn compare(
    git: &Git,
    worker: Session,
    pictures: Pictures,
    no: u32,
) -> (Receipt, Option<Compared>) {
    let git = git.clone();
    held::blocking(move || {
        let taken = work::snapshot(&git, &worker, no);
        let tree = taken.map(|(snapshot, _)| snapshot.tree).unwrap_or(TreeId(String::new()));
        let cwd = match &worker.work {
            WorkState::Ready { cwd, .. } => cwd,
            WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => &worker.spec.cwd,
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

fn measured(found: provost_verify::Comparison) -> Measured {
    let picture = |read: provost_verify::Read| {
        let provost_verify::Read { digest, width, height } = read;
        Picture { digest, width, height }
    };
    let provost_verify::Comparison { expected, actual, differing, points } = found;
    Measured { expected: picture(expected), actual: picture(actual), differing, points }
}

async fn check(
    git: &Git,
    checks: &CheckRunner,
    task: &Task,
    worker: Session,
    owed: CheckOwed,
    cancel: watch::Receiver<bool>,
) -> Receipt {
    let (git, looked) = (git.clone(), worker.clone());
    let taken = held::blocking(move || work::snapshot(&git, &looked, owed.no)).await;
    let (snapshot, _) = match taken {
        Ok(taken) => taken,
        // Without a commit there is no tree that the receipt could be about.
        Err(why) => return unfinished_on(&owed.command, TreeId(String::new()), why),
    };
    let bounds = &task.spec.bounds;
    let bounds = Bounds {
        check_time_ms: bounds.check_time_ms,
        check_output: bounds.check_output,
        ..worker.spec.bounds.clone()
    };
    // With the tree in its key: a check of another tree before a restart is not taken for this one.
    let base = base_of(&worker);
    let key = format!("task-{}-check-{}-{}", task.id.short(), owed.no, short(&snapshot.tree));
    let job = CheckJob {
        session: worker.id,
        spec: Spec { bounds, ..worker.spec },
        snapshot,
        base,
        command: owed.command,
        key,
    };
    checks.run(job, cancel).await
}

fn short(tree: &TreeId) -> &str {
    tree.0.get(..12).unwrap_or(&tree.0)
}

/// Returns a placeholder session for a worker without one: it works in the checkout that the team
/// was opened in.
fn of_the_checkout(task: &Task) -> Session {
    let agent = Agent {
        name: "nobody".to_owned(),
        driver: Driver::Command,
        argv: Vec::new(),
        env: Default::default(),
        pass_env: Vec::new(),
        own_env: Vec::new(),
        input: Input::Closed,
        settings: Default::default(),
        version: None,
        carried: Default::default(),
    };
    let work = match &task.spec.project {
        Some(top) => Work::InPlace { top: top.clone() },
        None => Work::Plain,
    };
    let spec = Spec {
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
        exit0: Exit0::SaysNothing,
        afterwards: Afterwards::Close,
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
