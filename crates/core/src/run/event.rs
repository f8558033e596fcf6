//! The events of a run's stream. Append-only, like those of a session.

use serde::{Deserialize, Serialize};

use super::{
    consent::GuardedLanding,
    graph::TaskReturn,
    hook::RunHookKey,
    landing::{LandStep, PullRequest, PullRequestState, ReviewComment},
    outcome::{RunAttemptOutcome, RunFailureCause},
    queue::{BatchLink, MergeConflict},
    spec::RunSpec,
    stage::RunStage,
    state::{RunDecision, SessionEnd},
};
use crate::{
    ids::{CommitId, RequestId, SessionId},
    plan::{Plan, TaskId},
    session::HookEnd,
    verdict::{Caveats, Snapshot},
};

events! {
    RunOpened = "run.opened", 1 { spec: Box<RunSpec> }
    StageEntered = "run.stage_entered", 1 { stage: RunStage }
    /// A session of the run was opened, in the same commit.
    RunSessionOpened = "run.session_opened", 1 {
        session: SessionId,
        stage: RunStage,
        cycle: u32,
        /// The plan task that it works for, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    }
    /// A session of the run was sealed, in the same commit.
    SessionEnded = "run.session_ended", 1 { session: SessionId, end: Box<SessionEnd> }
    /// An agent of the run waits for the user.
    RequestObserved = "run.request_observed", 1 { request: RequestId, revision: u32 }
    DecisionMade = "run.decision_made", 1 { decision: RunDecision }
    /// The run has a plan: an agent's, or the one it was opened with.
    PlanMade = "run.plan_made", 1 { plan: Box<Plan> }
    /// An agent's result is not a valid plan, or not a valid review of one.
    PlanInvalid = "run.plan_invalid", 1 { session: SessionId, faults: Vec<String> }
    /// A review accepted the plan, with its edits applied.
    PlanReviewed = "run.plan_reviewed", 1 { plan: Box<Plan>, edits: usize, reason: String }
    PlanApproved = "run.plan_approved", 1 {
        /// The agent-written commands in it that the operator approved.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<String>,
    }
    /// The worktree of a conversation is to be moved to the commit where a task begins.
    WorktreeMoveRequested = "run.worktree_move_requested", 1 {
        task: TaskId,
        no: u32,
        session: SessionId,
        to: Option<Snapshot>,
    }
    WorktreeMoved = "run.worktree_moved", 1 { task: TaskId, no: u32 }
    /// A conversation cannot be resumed, so that another session takes over the task.
    HandedOver = "run.handed_over", 1 { task: TaskId, from: SessionId, reason: String }
    /// The work of a task failed and is retried: by the same agent, or by another one from the
    /// beginning. A failed review is always retried by another agent.
    TaskRetried = "run.task_retried", 1 {
        task: TaskId,
        #[serde(default = "work", skip_serializing_if = "is_work")]
        stage: RunStage,
        fresh: bool,
        detail: String,
    }
    /// The work of a task is done and waits to be merged.
    TaskQueued = "run.task_queued", 1 { task: TaskId }
    /// The queue returns a task to its worker.
    TaskReturned = "run.task_returned", 1 { task: TaskId, why: Box<TaskReturn> }
    TaskFailed = "run.task_failed", 1 { task: TaskId, detail: String }
    BatchMerged = "run.batch_merged", 1 {
        no: u32,
        onto: Snapshot,
        links: Vec<BatchLink>,
        conflicts: Vec<MergeConflict>,
    }
    /// The first `len` links of the batch need no check: their tree is proved, or there are no
    /// checks.
    BatchVerified = "run.batch_verified", 1 { batch: u32, len: usize }
    /// The run's branch contains the first `len` links of the batch.
    Integrated = "run.integrated", 1 { batch: u32, len: usize, head: Snapshot }
    /// The changes left by an editing session were committed, because no check had committed them.
    CommitRecorded = "run.commit_recorded", 1 {
        session: SessionId,
        head: Snapshot,
        /// Changes that the commit does not contain, or not where one would expect them.
        caveats: Caveats,
    }
    CommitFailed = "run.commit_failed", 1 { session: SessionId, reason: String }
    /// Something must be done before the work can land.
    LandStepAdded = "run.land_step_added", 1 { step: Box<LandStep> }
    /// The work was pushed, and a pull request exists.
    PullRequestOpened = "run.pull_request_opened", 1 { number: u64, url: String, commit: CommitId }
    PullRequestObserved = "run.pull_request_observed", 1 { state: PullRequestState }
    /// These review comments are no longer addressed.
    ReviewCommentsDropped = "run.review_comments_dropped", 1 { comments: Vec<ReviewComment> }
    /// The work changes files that need the operator's approval to land.
    LandingHeld = "run.landing_held", 1 { held: Box<GuardedLanding> }
    /// The operator lets exactly this commit land.
    LandingApproved = "run.landing_approved", 1 { commit: CommitId }
    WorkLanded = "run.landed", 1 { branch: String, commit: CommitId, merged: bool }
    LandingFailed = "run.landing_failed", 1 { reason: String }
    /// A run that was stopped while landing has not landed and will not.
    LandingAborted = "run.landing_aborted", 1 {
        attempt: u32,
        /// A pull request that was opened nevertheless.
        pull: Option<PullRequest>,
    }
    RunCancelled = "run.cancelled", 1 { because: String }
    /// Provost itself ended the run.
    RunStopped = "run.stopped", 1 { cause: RunFailureCause, detail: String }
    RunSealed = "run.sealed", 1 { attempt: u32, outcome: RunAttemptOutcome }
    /// A sealed run continues with its remaining work.
    RunResumed = "run.resumed", 1 { attempt: u32, stage: RunStage }
    /// The operator lets a run that was imported from another home continue here.
    RunTakenOver = "run.taken_over", 1 {}
    BudgetRaised = "run.budget_raised", 1 { tokens: Option<u64>, turns: Option<u32> }
    HookFinished = "run.hook_finished", 1 { key: RunHookKey, end: HookEnd }
    RunReportWritten = "run.report_written", 1 {
        attempt: u32, failure: Option<String>,
        /// The protected and trust-relevant files that differ between the run's base and its end,
        /// if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<Vec<String>>,
    }
    /// A record of an effect that Provost had not started was moved aside, and the effect ran.
    RecordForged = "run.record_forged", 1 { effect: String, moved_to: String }
}

fn work() -> RunStage {
    RunStage::Work
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_work(stage: &RunStage) -> bool {
    *stage == RunStage::Work
}
