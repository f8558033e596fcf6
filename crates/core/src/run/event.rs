//! The events of a run's stream. Append-only, as those of a session.

use serde::{Deserialize, Serialize};

use super::{
    graph::Return,
    held::HeldLanding,
    hook::RunHookKey,
    landing::{LandStep, PullRequest, PullState, Remark},
    outcome::{Cause, Outcome},
    queue::{Conflict, Link},
    spec::RunSpec,
    stage::Stage,
    state::{Decision, SessionEnd},
};
use crate::{
    ids::{CommitId, RequestId, SessionId},
    plan::{Plan, TaskId},
    session::HookEnd,
    verdict::{Caveats, Snapshot},
};

events! {
    RunOpened = "run.opened", 1 { spec: Box<RunSpec> }
    StageEntered = "run.stage_entered", 1 { stage: Stage }
    /// A session of the run was opened, in the same commit.
    SessionOwed = "run.session_opened", 1 {
        session: SessionId,
        stage: Stage,
        cycle: u32,
        /// The task that it works for, if it is one of a plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    }
    /// A session of the run was sealed, in the same commit.
    SessionEnded = "run.session_ended", 1 { session: SessionId, end: Box<SessionEnd> }
    /// An agent of the run waits for a person.
    QuestionSeen = "run.question_seen", 1 { request: RequestId, revision: u32 }
    DecisionMade = "run.decision_made", 1 { decision: Decision }
    /// There is a plan: an agent's, or the one that the run was opened with.
    PlanMade = "run.plan_made", 1 { plan: Box<Plan> }
    /// What an agent told is no plan, or no review of one.
    PlanFaulty = "run.plan_faulty", 1 { session: SessionId, faults: Vec<String> }
    /// A review has nothing against the plan, as it stands after its edits.
    PlanReviewed = "run.plan_reviewed", 1 { plan: Box<Plan>, edits: usize, reason: String }
    PlanApproved = "run.plan_approved", 1 {
        /// The commands of agents in it that the operator agreed to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<String>,
    }
    /// The worktree of a conversation is brought to where a task's work begins.
    ErrandOwed = "run.errand_owed", 1 {
        task: TaskId,
        no: u32,
        session: SessionId,
        to: Option<Snapshot>,
    }
    ErrandDone = "run.errand_done", 1 { task: TaskId, no: u32 }
    /// A conversation cannot be gone on with: another takes the task over.
    HandedOver = "run.handed_over", 1 { task: TaskId, from: SessionId, reason: String }
    /// The work of a task failed, and is begun once more: by the same agent, or by another one from the beginning. A review
    /// that failed is always begun by another.
    TaskRetried = "run.task_retried", 1 {
        task: TaskId,
        #[serde(default = "work", skip_serializing_if = "is_work")]
        stage: Stage,
        fresh: bool,
        detail: String,
    }
    /// The work of a task is done, and waits to be merged.
    TaskQueued = "run.task_queued", 1 { task: TaskId }
    /// The queue gives a task back to whoever worked on it.
    TaskReturned = "run.task_returned", 1 { task: TaskId, why: Box<Return> }
    TaskFailed = "run.task_failed", 1 { task: TaskId, detail: String }
    BatchMerged = "run.batch_merged", 1 {
        no: u32,
        onto: Snapshot,
        links: Vec<Link>,
        conflicts: Vec<Conflict>,
    }
    /// So many links of the batch need no check: their tree is proved, or nothing is to be checked.
    PrefixProved = "run.prefix_proved", 1 { batch: u32, len: usize }
    /// The run's branch has so many links of the batch.
    Integrated = "run.integrated", 1 { batch: u32, len: usize, head: Snapshot }
    /// What an editing session left was committed, where no check had asked for that.
    HeadTaken = "run.head_taken", 1 {
        session: SessionId,
        head: Snapshot,
        /// What the commit does not show, or not where one would look for it.
        caveats: Caveats,
    }
    HeadFailed = "run.head_failed", 1 { session: SessionId, reason: String }
    /// Something stands between the work and its landing, and is to be done first.
    StepTaken = "run.land_step_taken", 1 { step: Box<LandStep> }
    /// The work was pushed, and a pull request is there.
    PullRequested = "run.pull_requested", 1 { number: u64, url: String, commit: CommitId }
    PullSeen = "run.pull_seen", 1 { state: PullState }
    /// Nobody takes these up any more.
    RemarksLeft = "run.remarks_left", 1 { remarks: Vec<Remark> }
    /// The work changes files that only the operator may let land.
    LandingHeld = "run.landing_held", 1 { held: Box<HeldLanding> }
    /// The operator lets exactly this commit land.
    LandingApproved = "run.landing_approved", 1 { commit: CommitId }
    WorkLanded = "run.landed", 1 { branch: String, commit: CommitId, merged: bool }
    LandFailed = "run.land_failed", 1 { reason: String }
    /// A run that was stopped on its way to land has not landed, and will not.
    LandOver = "run.land_over", 1 {
        leg: u32,
        /// A pull request that had been made all the same.
        pull: Option<PullRequest>,
    }
    RunCancelled = "run.cancelled", 1 { because: String }
    /// Provost itself ended the run.
    RunStopped = "run.stopped", 1 { cause: Cause, detail: String }
    RunSealed = "run.sealed", 1 { leg: u32, outcome: Outcome }
    /// What is left of a run that was sealed is gone on with.
    RunResumed = "run.resumed", 1 { leg: u32, stage: Stage }
    /// The operator lets a run that was imported from another home continue here.
    RunTakenOver = "run.taken_over", 1 {}
    BudgetRaised = "run.budget_raised", 1 { tokens: Option<u64>, turns: Option<u32> }
    HookFinished = "run.hook_finished", 1 { key: RunHookKey, end: HookEnd }
    CardWritten = "run.card_written", 1 {
        leg: u32, failure: Option<String>,
        /// The protected and trust-relevant files that differ between the run's base and its end, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<Vec<String>>,
    }
    /// A record of an effect that Provost had not started was moved aside, and the effect ran.
    RecordForged = "run.record_forged", 1 { effect: String, moved_to: String }
}

fn work() -> Stage {
    Stage::Work
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_work(stage: &Stage) -> bool {
    *stage == Stage::Work
}
