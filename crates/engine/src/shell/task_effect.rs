//! What a task owes: checks of its workers' work, run by Provost on what is committed of it.

use std::sync::Arc;

use provost_core::{
    ids::{SessionId, TreeId},
    limits::Bounds,
    session::{Afterwards, Agent, Driver, Exit0, Input, Session, SessionOpened, Spec, Work},
    task::{CheckOwed, Command, Effect, Task},
    time::Moment,
    verdict::{EmptyDiff, Receipt},
};
use provost_git::Git;
use tokio::sync::watch;

use super::{
    check::{CheckJob, CheckRunner, unfinished_on},
    held, work,
};

/// Carries out an effect of a task, and gives what came of it.
pub(crate) async fn carry_out(
    git: &Git,
    checks: &CheckRunner,
    (task, worker): (&Task, Option<Arc<Session>>),
    effect: Effect,
    cancel: watch::Receiver<bool>,
) -> Command {
    let Effect::RunCheck(owed) = effect;
    let worker = worker.map_or_else(|| of_the_checkout(task), |worker| (*worker).clone());
    let no = owed.no;
    let receipt = check(git, checks, (task, worker), owed, cancel).await;
    Command::CheckDone { no, receipt: Box::new(receipt) }
}

async fn check(
    git: &Git,
    checks: &CheckRunner,
    (task, worker): (&Task, Session),
    owed: CheckOwed,
    cancel: watch::Receiver<bool>,
) -> Receipt {
    let (git, looked) = (git.clone(), worker.clone());
    let taken = held::blocking(move || work::snapshot(&git, &looked, owed.no)).await;
    let (snapshot, _) = match taken {
        Ok(taken) => taken,
        // Without a commit there is no tree that it could be about.
        Err(why) => return unfinished_on(&owed.command, TreeId(String::new()), why),
    };
    let bounds = &task.spec.bounds;
    let bounds = Bounds {
        check_time_ms: bounds.check_time_ms,
        check_output: bounds.check_output,
        ..worker.spec.bounds.clone()
    };
    // With the tree in its key: one that ran on another tree before a restart is not taken for this one.
    let key = format!("task-{}-check-{}-{}", task.id.short(), owed.no, short(&snapshot.tree));
    let job = CheckJob {
        session: worker.id,
        spec: Spec { bounds, ..worker.spec },
        snapshot,
        command: owed.command,
        key,
    };
    checks.run(job, cancel).await
}

fn short(tree: &TreeId) -> &str {
    tree.0.get(..12).unwrap_or(&tree.0)
}

/// A worker that Provost has no session of works in the checkout that the task was opened in.
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
