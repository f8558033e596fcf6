//! The events of a run's stream. They are append-only, like those of a session.

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
    verification::VerificationSubject,
};
use crate::{
    ids::{CommitId, RequestId, SessionId},
    plan::{Plan, TaskId},
    session::HookEnd,
    verdict::{Caveats, Receipt, Snapshot},
};

events! {
    /// A change to the run itself.
    Run(RunChange) {
        RunOpened = "run.opened", 1 { spec: Box<RunSpec> }
        RunCancelled = "run.cancelled", 1 { because: String }
        /// Provost itself ended the run.
        RunStopped = "run.stopped", 1 { cause: RunFailureCause, detail: String }
        RunSealed = "run.sealed", 1 { attempt: u32, outcome: RunAttemptOutcome }
        /// A sealed run was resumed to finish its remaining work.
        RunResumed = "run.resumed", 1 { attempt: u32, stage: RunStage }
        /// The operator allowed a run that was imported from another home to continue here.
        RunTakenOver = "run.taken_over", 1 {}
        BudgetRaised = "run.budget_raised", 1 { tokens: Option<u64>, turns: Option<u32> }
        HookFinished = "run.hook_finished", 1 { key: RunHookKey, end: HookEnd }
        RunReportWritten = "run.report_written", 1 {
            attempt: u32, failure: Option<String>,
            /// The protected and trust-relevant files that differ between the run's base and its final
            /// commit, if known.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            changed: Option<Vec<String>>,
        }
        /// Provost found a record of an effect that it had not started. It moved the record aside and
        /// ran the effect.
        RecordForged = "run.record_forged", 1 { effect: String, moved_to: String }
    }
    /// An event about a stage and the sessions that work on it.
    Stage(StageEvent) {
        StageEntered = "run.stage_entered", 1 { stage: RunStage }
        /// A session of the run was opened in the same transaction.
        RunSessionOpened = "run.session_opened", 1 {
            session: SessionId,
            stage: RunStage,
            cycle: u32,
            /// The plan task that the session works on, if any.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            task: Option<TaskId>,
        }
        /// A session of the run was sealed in the same transaction.
        SessionEnded = "run.session_ended", 1 { session: SessionId, end: Box<SessionEnd> }
        /// One of the run's agents made a request that needs the user's answer.
        RequestObserved = "run.request_observed", 1 { request: RequestId, revision: u32 }
        DecisionMade = "run.decision_made", 1 { decision: RunDecision }
        /// Provost committed the changes that an editing session left behind, because they had not been committed for a
        /// check.
        CommitRecorded = "run.commit_recorded", 1 {
            session: SessionId,
            head: Snapshot,
            /// Changes that are missing from the commit, or that were made in unexpected places.
            caveats: Caveats,
        }
        CommitFailed = "run.commit_failed", 1 { session: SessionId, reason: String }
    }
    /// An event about the plan.
    Plan(PlanEvent) {
        /// The run now has a plan, which an agent wrote or which was given when the run was opened.
        PlanMade = "run.plan_made", 1 { plan: Box<Plan> }
        /// An agent returned something that is not a valid plan, or not a valid plan review.
        PlanInvalid = "run.plan_invalid", 1 { session: SessionId, faults: Vec<String> }
        /// A review accepted the plan; `plan` already includes its edits.
        PlanReviewed = "run.plan_reviewed", 1 { plan: Box<Plan>, edits: usize, reason: String }
        PlanApproved = "run.plan_approved", 1 {
            /// The commands in the plan that an agent wrote and the operator approved.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            commands: Vec<String>,
        }
    }
    /// An event about a task of the plan.
    Task(TaskEvent) {
        /// The worktree of a conversation must be moved to the commit where a task starts.
        WorktreeMoveRequested = "run.worktree_move_requested", 1 {
            task: TaskId,
            no: u32,
            session: SessionId,
            to: Option<Snapshot>,
        }
        WorktreeMoved = "run.worktree_moved", 1 { task: TaskId, no: u32 }
        /// A conversation cannot be resumed, so another session takes over the task.
        HandedOver = "run.handed_over", 1 { task: TaskId, from: SessionId, reason: String }
        /// The work of a task failed. The same agent retries it, or another agent starts over. A failed
        /// review is always retried by another agent.
        TaskRetried = "run.task_retried", 1 {
            task: TaskId,
            #[serde(default = "work", skip_serializing_if = "is_work")]
            stage: RunStage,
            fresh: bool,
            detail: String,
        }
        /// The work on a task is finished and is waiting to be merged.
        TaskQueued = "run.task_queued", 1 { task: TaskId }
        /// The merge queue returned a task to its agent.
        TaskReturned = "run.task_returned", 1 { task: TaskId, why: Box<TaskReturn> }
        TaskFailed = "run.task_failed", 1 { task: TaskId, detail: String }
    }
    /// An event about the merge queue.
    Queue(QueueEvent) {
        BatchMerged = "run.batch_merged", 1 {
            no: u32,
            onto: Snapshot,
            links: Vec<BatchLink>,
            conflicts: Vec<MergeConflict>,
        }
        /// The first `len` links of the batch need no check, because their tree is already proved or
        /// there are no checks.
        BatchVerified = "run.batch_verified", 1 { batch: u32, len: usize }
        /// The run's branch now contains the first `len` links of the batch.
        Integrated = "run.integrated", 1 { batch: u32, len: usize, head: Snapshot }
    }
    /// An event about a verification of merged work.
    Verification(VerificationEvent) {
        /// Merged work must be checked before the run continues with it.
        VerificationRequested = "run.verification_requested", 1 {
            no: u32,
            subject: VerificationSubject,
            snapshot: Snapshot,
            checks: Vec<String>,
            /// The commit from which the checks take protected files.
            base: CommitId,
        }
        /// The checks of merged work have ended, all of them or up to the first that did not pass.
        VerificationDone = "run.verification_done", 1 { no: u32, receipts: Vec<Receipt> }
    }
    /// An event about the landing of the work.
    Landing(LandingEvent) {
        /// A step must be completed before the work can land.
        LandStepAdded = "run.land_step_added", 1 { step: Box<LandStep> }
        /// The work was pushed and a pull request was opened.
        PullRequestOpened = "run.pull_request_opened", 1 { number: u64, url: String, commit: CommitId }
        PullRequestObserved = "run.pull_request_observed", 1 { state: PullRequestState }
        /// Provost gave up on addressing these review comments.
        ReviewCommentsDropped = "run.review_comments_dropped", 1 { comments: Vec<ReviewComment> }
        /// The work changes files that must not land without the operator's approval.
        LandingHeld = "run.landing_held", 1 { held: Box<GuardedLanding> }
        /// The operator allowed this commit, and no other, to land.
        LandingApproved = "run.landing_approved", 1 { commit: CommitId }
        WorkLanded = "run.landed", 1 { branch: String, commit: CommitId, merged: bool }
        LandingFailed = "run.landing_failed", 1 { reason: String }
        /// The work of a run that was stopped during the landing did not land, and can no longer land.
        LandingAborted = "run.landing_aborted", 1 {
            attempt: u32,
            /// The pull request, if it was opened although the run was stopped.
            pull: Option<PullRequest>,
        }
    }
}

fn work() -> RunStage {
    RunStage::Work
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_work(stage: &RunStage) -> bool {
    *stage == RunStage::Work
}
