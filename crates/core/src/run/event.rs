//! The events of a run's stream. Append-only, as those of a session.

use serde::{Deserialize, Serialize};

use super::{
    hook::RunHookKey,
    landing::{LandStep, PullRequest, PullState, Remark},
    outcome::{Cause, Outcome},
    spec::RunSpec,
    stage::Stage,
    state::{Decision, SessionEnd},
};
use crate::{
    ids::{CommitId, RequestId, SessionId},
    session::HookEnd,
    verdict::{Caveats, Snapshot},
};

events! {
    RunOpened = "run.opened", 1 { spec: Box<RunSpec> }
    StageEntered = "run.stage_entered", 1 { stage: Stage }
    /// A session of the run was opened, in the same commit.
    SessionOwed = "run.session_opened", 1 { session: SessionId, stage: Stage, cycle: u32 }
    /// A session of the run was sealed, in the same commit.
    SessionEnded = "run.session_ended", 1 { session: SessionId, end: Box<SessionEnd> }
    /// An agent of the run waits for a person.
    QuestionSeen = "run.question_seen", 1 { request: RequestId, revision: u32 }
    DecisionMade = "run.decision_made", 1 { decision: Decision }
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
    BudgetRaised = "run.budget_raised", 1 { tokens: Option<u64>, turns: Option<u32> }
    HookFinished = "run.hook_finished", 1 { key: RunHookKey, end: HookEnd }
    CardWritten = "run.card_written", 1 { leg: u32, failure: Option<String> }
}
