//! The state of a run, folded from its events. Stage, requests, decisions, reviews, budget and
//! outcome are independent of each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    consent::GuardedLanding,
    graph::{TaskGraph, TaskPhase},
    hook::{PendingRunHook, RunHookEvent},
    landing::{LandStep, LandingState, ReviewComment},
    outcome::{RunAttemptOutcome, RunEnding, RunFailureCause, TreeProof},
    spec::RunSpec,
    stage::RunStage,
    verification::RunVerification,
};
use crate::{
    ids::{RequestId, RunId, SessionId, TreeId},
    lifecycle::{self, State},
    plan::{Plan, TaskId},
    result::{Finding, Review, StructuredResult, Triage},
    session::{Budget, Usage},
    time::Moment,
    verdict::{Caveats, Receipt, Snapshot},
};

/// An answered question, which all later stages receive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDecision {
    /// The agent's own id for the question.
    pub id: String,
    pub question: String,
    /// The answer. None if it is secret, because secrets are never stored.
    pub answer: Option<Vec<String>>,
    pub request: RequestId,
}

/// A part of a session's usage that its run has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedUsage {
    pub usage: Usage,
    pub turns: u32,
}

/// A session of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSession {
    pub id: SessionId,
    pub no: u32,
    pub attempt: u32,
    pub stage: RunStage,
    /// The stage in which the session was opened, which determines its permissions.
    pub opened_in: RunStage,
    /// The plan task that the session works on, if any.
    #[serde(default)]
    pub task: Option<TaskId>,
    /// The number of the review or, in the last stage, of the landing step.
    pub cycle: u32,
    /// How many decisions the session's instruction included.
    #[serde(default)]
    pub decisions_known: usize,
    /// The session's usage and turns that the run already counted when the session last ended.
    pub counted: CountedUsage,
    /// Behind an `Arc` because a run and its sessions are cloned for every decision about the run.
    pub end: Option<Arc<SessionEnd>>,
}

/// The sealed outcome of one of the run's sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub state: State,
    pub cause: Option<lifecycle::Cause>,
    /// Why Provost ended the session, which result refuted its work, or why the agent gave up.
    #[serde(default)]
    pub why: Option<String>,
    /// Whether the agent itself reported failure, regardless of the checks.
    #[serde(default)]
    pub gave_up: bool,
    /// The agent's own report about its work.
    pub said: Option<String>,
    pub result: Option<StructuredResult>,
    /// The tree that was judged.
    pub tree: Option<TreeId>,
    pub head: Option<Snapshot>,
    pub receipts: Vec<Receipt>,
    /// Changes that are missing from the commit, and changed files that the checks depend on.
    #[serde(default)]
    pub caveats: Caveats,
    pub usage: Usage,
    pub turns: u32,
}

impl SessionEnd {
    /// Whether the session completed its job, as far as that can be known without checks.
    pub fn is_good(&self) -> bool {
        matches!(self.state, State::Succeeded | State::Completed | State::Accepted)
    }
}

/// The findings of one review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReview {
    pub session: SessionId,
    pub stage: RunStage,
    #[serde(default)]
    pub task: Option<TaskId>,
    pub cycle: u32,
    pub review: Review,
}

/// The current plan, and whether it was reviewed and approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanProgress {
    pub plan: Arc<Plan>,
    /// Whether a review accepted the plan, and whether the operator approved it.
    pub reviewed: bool,
    pub approved: bool,
}

/// Why a run is being stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStop {
    Cancelled { because: String },
    Failed { cause: RunFailureCause, detail: String },
}

/// One run attempt, from its start to its outcome. `resume` begins the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAttempt {
    pub no: u32,
    pub opened: Moment,
    /// The number of landing steps before this attempt, which do not count towards its limits.
    #[serde(default)]
    pub steps: usize,
    pub stopped: Option<RunStop>,
    pub sealed: Option<RunAttemptOutcome>,
    /// Whether it is known that a stopped attempt has no landing in progress.
    #[serde(default)]
    pub landing_aborted: bool,
    /// Whether the report about the outcome has been written.
    pub report_written: bool,
    /// The protected and trust-relevant files that differ between the run's base and the end of
    /// this attempt. None until they have been compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
}

/// The state of a run, independent of its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// The run was cancelled or failed, and its sessions are being stopped.
    Stopping,
    Ended(RunEnding),
}

impl RunState {
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Stopping => "stopping",
            RunState::Ended(ending) => ending.as_str(),
        }
    }
}

/// A run: the work on one goal, from start to outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub spec: RunSpec,
    pub opened: Moment,
    pub stage: RunStage,
    /// When the state or stage last changed.
    pub since: Moment,
    /// Never empty: opening a run begins its first attempt.
    pub attempts: Vec<RunAttempt>,
    pub sessions: Vec<RunSession>,
    /// The verifications that the run requested, in order. Each is behind an `Arc` because the run
    /// is cloned for every decision about it.
    pub verifications: Vec<Arc<RunVerification>>,
    pub decisions: Vec<RunDecision>,
    /// The number of forged effect records found so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forged_records: u32,
    /// The requests observed so far, so that each request triggers its hook only once.
    pub seen: BTreeSet<(RequestId, u32)>,
    pub triage: Option<Triage>,
    #[serde(default)]
    pub planned: Option<PlanProgress>,
    /// The faults of invalid plans and plan reviews, by the session that was asked to fix them.
    #[serde(default)]
    pub plan_faults: Vec<(SessionId, Vec<String>)>,
    /// The tasks of the plan, once work on them has begun.
    #[serde(default)]
    pub graph: Option<TaskGraph>,
    pub reviews: Vec<StageReview>,
    /// The newest committed work, and the proof that it passed the checks.
    pub head: Option<Snapshot>,
    pub proof: Option<TreeProof>,
    /// Why the remaining changes of a session could not be committed.
    pub commit_failure: Option<String>,
    pub landing: LandingState,
    /// A landing that needs the operator's approval, or already has it.
    #[serde(default)]
    pub held: Option<GuardedLanding>,
    /// Commands written by an agent that the operator approved.
    #[serde(default)]
    pub consented: BTreeSet<String>,
    /// The landing steps, in order.
    pub steps: Vec<LandStep>,
    /// How many times the pull request was observed to have changed.
    pub pull_request_changes: u32,
    /// The ids of review comments that have been handled or dropped.
    pub comments_seen: BTreeSet<String>,
    pub comments_dropped: Vec<ReviewComment>,
    pub budget: Budget,
    /// The usage of sessions that have ended.
    pub usage: Usage,
    pub turns: u32,
    pub hooks: Vec<PendingRunHook>,
    pub hooks_fired: BTreeMap<RunHookEvent, u32>,
    /// Whether the run was imported from another home. This is recorded in the ledger, but not in
    /// the events.
    #[serde(skip)]
    pub imported: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
}

impl Run {
    pub fn attempt(&self) -> &RunAttempt {
        self.attempts.last().expect("a run is opened with its first attempt")
    }

    pub(super) fn attempt_mut(&mut self) -> &mut RunAttempt {
        self.attempts.last_mut().expect("a run is opened with its first attempt")
    }

    pub fn is_sealed(&self) -> bool {
        self.attempt().sealed.is_some()
    }

    pub fn state(&self) -> RunState {
        let attempt = self.attempt();
        match (&attempt.sealed, &attempt.stopped) {
            (Some(outcome), _) => RunState::Ended(outcome.ending),
            (None, Some(_)) => RunState::Stopping,
            (None, None) => RunState::Running,
        }
    }

    /// Returns the sessions that are currently working for the run. Only the tasks stage can have
    /// more than one.
    pub fn live(&self) -> impl Iterator<Item = &RunSession> {
        self.sessions.iter().filter(|session| session.end.is_none())
    }

    pub fn is_live(&self) -> bool {
        self.live().next().is_some()
    }

    /// Returns the sessions that have ended and might be resumed next.
    pub fn resumable_sessions(&self) -> Vec<SessionId> {
        let last = [self.sessions.last(), self.owner()];
        let mut wanted: Vec<SessionId> = last.into_iter().flatten().map(|one| one.id).collect();
        wanted.extend(self.worktree_moves().map(|(_, worktree_move)| worktree_move.session));
        wanted
    }

    /// Returns the newest session of the current attempt, if it belongs to the current stage.
    pub(super) fn current(&self) -> Option<&RunSession> {
        let attempt = self.attempt().no;
        let of_stage = |one: &&RunSession| one.attempt == attempt && one.stage == self.stage;
        self.sessions.last().filter(of_stage).filter(|one| one.task.is_none())
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&RunSession> {
        // Search from the end, because the newest sessions are looked up most often.
        self.sessions.iter().rev().find(|one| one.id == id)
    }

    /// Returns the commit from which the next session starts.
    pub fn base(&self) -> &Snapshot {
        self.head.as_ref().unwrap_or(&self.spec.target.base)
    }

    /// Whether a check passed on the newest work.
    pub fn proves(&self, check: &str) -> bool {
        let proof = self.proof.as_ref().zip(self.head.as_ref());
        proof.is_some_and(|(proof, head)| proof.is_for(head) && proof.covers(&[check]))
    }

    /// Returns the outcomes of the sessions that contribute to the run's work: those for the run as
    /// a whole and those for merged tasks. While the run is open, the sessions of all tasks count.
    pub fn contributing_ends(&self) -> impl Iterator<Item = &SessionEnd> {
        let merged = |session: &&RunSession| {
            let task = session.task.as_ref().zip(self.graph.as_ref());
            let task = task.and_then(|(id, graph)| graph.task(id));
            !self.is_sealed() || task.is_none_or(|task| task.phase == TaskPhase::Merged)
        };
        let ends = self.sessions.iter().filter(merged).filter_map(|one| one.end.as_deref());
        ends.filter(|end| end.is_good())
    }

    /// Returns the unfixed findings from the newest review of each task and of the whole run.
    pub fn open_findings(&self) -> impl Iterator<Item = &Finding> {
        self.latest_reviews().flat_map(|reviewed| reviewed.review.unrepaired())
    }

    /// Returns the newest review of each task and of the whole run.
    pub(super) fn latest_reviews(&self) -> impl Iterator<Item = &StageReview> {
        let mut newest = BTreeMap::new();
        for reviewed in &self.reviews {
            newest.insert((reviewed.stage, &reviewed.task), reviewed);
        }
        newest.into_values()
    }

    /// Whether the run has ended and has no pending effects. If so, it can be evicted from memory.
    pub fn is_closed(&self) -> bool {
        self.is_sealed() && self.effects().is_empty()
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
