//! Runs: a goal that is worked on in stages until it reaches an outcome. Each stage has its own
//! sessions.
//!
//! A run has no process of its own. [`Run::advance`] reads the current state of its sessions and
//! returns the next step: an event of the run, a session to open, or a command to a session. Each
//! step is committed together with its trigger, so a crash can never separate a session's end from
//! the run's reaction to it.

mod advance;
mod advance_tasks;
mod aggregate;
mod close_imported;
mod consent;
mod decide;
mod decisions;
mod effect;
mod event;
mod evolve;
mod evolve_tasks;
mod graph;
mod hook;
mod landing;
mod outcome;
mod planning;
mod prompt;
mod queue;
mod reason;
mod session_spec;
mod spec;
mod stage;
mod state;
mod verification;

pub use advance::{RunAdvanceContext, RunStep, SessionOrder};
pub use consent::{GuardedLanding, PendingRunApproval};
pub use decide::{RunCommand, RunRejection};
pub use effect::RunEffect;
pub use event::{
    BatchMerged, BatchVerified, BudgetRaised, CommitFailed, CommitRecorded, DecisionMade, Event,
    HandedOver, HookFinished, Integrated, LandStepAdded, LandingAborted, LandingApproved,
    LandingEvent, LandingFailed, LandingHeld, PlanApproved, PlanEvent, PlanInvalid, PlanMade,
    PlanReviewed, PullRequestObserved, PullRequestOpened, QueueEvent, RecordForged,
    RequestObserved, ReviewCommentsDropped, RunCancelled, RunChange, RunOpened, RunReportWritten,
    RunResumed, RunSealed, RunSessionOpened, RunStopped, RunTakenOver, SessionEnded, StageEntered,
    StageEvent, TaskEvent, TaskFailed, TaskQueued, TaskRetried, TaskReturned, VerificationDone,
    VerificationEvent, VerificationRequested, WorkLanded, WorktreeMoveRequested, WorktreeMoved,
};
pub use graph::{MAX_RETURNS, TaskGraph, TaskPhase, TaskReturn, TaskState, WorktreeMove};
pub use hook::{PendingRunHook, RunHookEvent, RunHookKey};
pub use landing::{
    CommentAuthors, LandStep, LandedWork, LandingState, MAX_COMMENTS, MAX_MERGES, MAX_ROUNDS,
    PullRequest, PullRequestChecks, PullRequestState, PullRequestStatus, ReviewComment,
};
pub use outcome::{RunAttemptOutcome, RunEnding, RunFailureCause, TreeProof};
pub use prompt::{DEFAULT_TEMPLATES, PromptTemplate, placeholders};
pub use queue::{BatchLink, MergeBatch, MergeConflict, MergeQueue, QueueStep, RefutedPrefix};
pub use reason::RunReason;
pub use spec::{
    LandMode, PlanMode, PlanningSpec, ReviewMode, ReviewModes, RunOrigin, RunRemote, RunSpec,
    RunTarget, TokenPrices,
};
pub use stage::{RunStage, StagePermissions};
pub use state::{
    CountedUsage, PlanProgress, Run, RunAttempt, RunDecision, RunSession, RunState, RunStop,
    SessionEnd, StageReview,
};
pub use verification::{RunVerification, VerificationResult, VerificationSubject};
