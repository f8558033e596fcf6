//! A run: a goal taken to an outcome through stages, each worked on by sessions of its own.
//!
//! A run has no process. It looks at its sessions as they stand ([`Run::advance`]) and says what follows:
//! an event of its own, a session to be opened, or a command to a session. All of it is committed
//! together with what it follows from, so no crash comes between a session's end and what the run makes of it.

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
