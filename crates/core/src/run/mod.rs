//! Runs: a goal taken to an outcome through stages, each with sessions of its own.
//!
//! A run has no process of its own. [`Run::advance`] reads the current state of its sessions and
//! returns what follows: an event of the run, a session to open, or a command to a session. Each
//! step is committed together with its trigger, so that no crash separates a session's end from the
//! run's reaction.

mod advance;
mod decide;
mod decisions;
mod effect;
mod elsewhere;
mod event;
mod evolve;
mod fold_tasks;
mod graph;
mod held;
mod hook;
mod landing;
mod outcome;
mod place;
mod planning;
mod prompt;
mod queue;
mod spec;
mod stage;
mod state;
mod tasks;
mod why;

pub use advance::{Around, Order, Step};
pub use decide::{Command, Rejected};
pub use effect::Effect;
pub use event::{
    BatchMerged, BudgetRaised, CardWritten, DecisionMade, ErrandDone, ErrandOwed, Event,
    HandedOver, HeadFailed, HeadTaken, HookFinished, Integrated, LandFailed, LandOver,
    LandingApproved, LandingHeld, PlanApproved, PlanFaulty, PlanMade, PlanReviewed, PrefixProved,
    PullRequested, PullSeen, QuestionSeen, RecordForged, RemarksLeft, RunCancelled, RunOpened,
    RunResumed, RunSealed, RunStopped, RunTakenOver, SessionEnded, SessionOwed, StageEntered,
    StepTaken, TaskFailed, TaskQueued, TaskRetried, TaskReturned, WorkLanded,
};
pub use graph::{Errand, Graph, MAX_RETURNS, Phase, Return, Task};
pub use held::{Approval, HeldLanding};
pub use hook::{RunHookEvent, RunHookKey, RunHookOwed};
pub use landing::{
    CommentAuthors, LandStep, Landed, Landing, MAX_MERGES, MAX_REMARKS, MAX_ROUNDS, PullChecks,
    PullRequest, PullStanding, PullState, Remark,
};
pub use outcome::{Cause, Ending, Outcome, Proof};
pub use prompt::{DEFAULT_TEMPLATES, Template, placeholders};
pub use queue::{Batch, Conflict, Found, Link, Queue, QueueStep, Refutation};
pub use spec::{
    LandMode, Origin, PlanMode, Planning, Prices, Remote, ReviewMode, Reviews, RunSpec, Target,
};
pub use stage::{Permissions, Stage};
pub use state::{Decision, Leg, Planned, Reviewed, Run, RunSession, RunState, SessionEnd, Stopped};
pub use why::RunReason;
