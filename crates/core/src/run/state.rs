//! What a run's events add up to. Stage, requests, decisions, reviews, budget and outcome are separate facts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    graph::{Graph, Phase},
    held::HeldLanding,
    hook::{RunHookEvent, RunHookOwed},
    landing::{LandStep, Landing, Remark},
    outcome::{Cause, Ending, Outcome, Proof},
    spec::RunSpec,
    stage::Stage,
};
use crate::{
    ids::{RequestId, RunId, SessionId, TreeId},
    lifecycle::{self, State},
    plan::{Plan, TaskId},
    result::{Finding, Review, Structured, Triage},
    session::{Budget, Usage},
    time::Moment,
    verdict::{Caveats, Receipt, Snapshot},
};

/// A question once answered, kept for all later stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The agent's own name for the question.
    pub id: String,
    pub question: String,
    /// Of a secret only the fact is kept.
    pub answer: Option<Vec<String>>,
    pub request: RequestId,
}

/// A session of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSession {
    pub id: SessionId,
    pub no: u32,
    pub leg: u32,
    pub stage: Stage,
    /// The stage that it was opened in, whose permissions it has.
    pub opened_in: Stage,
    /// The task of the plan that it works for, if it is one.
    #[serde(default)]
    pub task: Option<TaskId>,
    /// Counts the reviews of one stage; in the last it is the number of the step.
    pub cycle: u32,
    /// So many decisions of the run its instruction had in it.
    #[serde(default)]
    pub told: usize,
    /// What the run counted of it when it ended before.
    pub counted: (Usage, u32),
    /// Shared, for a run with many sessions is copied for every decision about it.
    pub end: Option<Arc<SessionEnd>>,
}

/// How a session of the run ended, as it was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub state: State,
    pub cause: Option<lifecycle::Cause>,
    /// Why Provost ended it, what refuted its work, or why the agent gave it up.
    #[serde(default)]
    pub why: Option<String>,
    /// Whether the agent said itself that it failed, whatever the checks say of what it left.
    #[serde(default)]
    pub gave_up: bool,
    /// What the agent said of its work, in its words.
    pub said: Option<String>,
    pub result: Option<Structured>,
    /// The tree that was judged.
    pub tree: Option<TreeId>,
    pub head: Option<Snapshot>,
    pub receipts: Vec<Receipt>,
    /// What the commit does not show, and which files that the checks rest on were changed.
    #[serde(default)]
    pub caveats: Caveats,
    pub usage: Usage,
    pub turns: u32,
}

impl SessionEnd {
    /// Says whether the session did what it was opened for, as far as can be told without checks.
    pub fn is_good(&self) -> bool {
        matches!(self.state, State::Succeeded | State::Completed | State::Accepted)
    }
}

/// What one review found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reviewed {
    pub session: SessionId,
    pub stage: Stage,
    #[serde(default)]
    pub task: Option<TaskId>,
    pub cycle: u32,
    pub review: Review,
}

/// A plan as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub plan: Arc<Plan>,
    /// Whether a review let it pass, and a person.
    pub reviewed: bool,
    pub approved: bool,
}

/// Why a run is being ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    Cancelled { because: String },
    Failed { cause: Cause, detail: String },
}

/// From one beginning to one outcome: `resume` begins the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub no: u32,
    pub opened: Moment,
    /// How many steps towards the landing were taken before it: what bounds them begins anew.
    #[serde(default)]
    pub steps: usize,
    pub stopped: Option<Stopped>,
    pub sealed: Option<Outcome>,
    /// Whether it is known that nothing of a stopped leg is landing any more.
    #[serde(default)]
    pub landing_over: bool,
    /// Whether the report card of the outcome was written.
    pub card: bool,
    /// The protected and trust-relevant files that differ between the run's base and the end of this leg, once they
    /// were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
}

/// How a run is, beside its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// It was cancelled or has failed, and what it started is being ended.
    Stopping,
    Ended(Ending),
}

impl RunState {
    pub fn word(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Stopping => "stopping",
            RunState::Ended(ending) => ending.word(),
        }
    }
}

/// A goal taken to an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub spec: RunSpec,
    pub opened: Moment,
    pub stage: Stage,
    /// Since when its state and its stage are what they are.
    pub since: Moment,
    /// Never empty: a run is opened with its first leg.
    pub legs: Vec<Leg>,
    pub sessions: Vec<RunSession>,
    pub decisions: Vec<Decision>,
    /// How many records of effects were found that Provost had not made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forged_records: u32,
    /// Requests that were seen, so that each fires its hook once.
    pub seen: BTreeSet<(RequestId, u32)>,
    pub triage: Option<Triage>,
    #[serde(default)]
    pub planned: Option<Planned>,
    /// What was wrong with what agents told instead of a plan, by the session that was told so.
    #[serde(default)]
    pub plan_faults: Vec<(SessionId, Vec<String>)>,
    /// The tasks of the plan, once they are worked on.
    #[serde(default)]
    pub graph: Option<Graph>,
    pub reviews: Vec<Reviewed>,
    /// The newest work that was committed, and the proof that it passed.
    pub head: Option<Snapshot>,
    pub proof: Option<Proof>,
    /// Why what a session left could not be committed.
    pub headless: Option<String>,
    pub landing: Landing,
    /// A landing that waits for the operator, or that the operator approved.
    #[serde(default)]
    pub held: Option<HeldLanding>,
    /// Commands of agents that the operator agreed to.
    #[serde(default)]
    pub consented: BTreeSet<String>,
    /// What the work met on its way, in order.
    pub steps: Vec<LandStep>,
    /// How often something new was seen of the pull request.
    pub looks: u32,
    /// What the pull request was told, and was taken up or is left.
    pub remarks_seen: BTreeSet<String>,
    pub remarks_left: Vec<Remark>,
    pub budget: Budget,
    /// What sessions used that have ended.
    pub usage: Usage,
    pub turns: u32,
    pub hooks: Vec<RunHookOwed>,
    pub hooks_fired: BTreeMap<RunHookEvent, u32>,
    /// Whether the ledger holds it because it was imported from another home. Not part of its events.
    #[serde(skip)]
    pub imported: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
}

impl Run {
    pub fn leg(&self) -> &Leg {
        self.legs.last().expect("a run is opened with its first leg")
    }

    pub(super) fn leg_mut(&mut self) -> &mut Leg {
        self.legs.last_mut().expect("a run is opened with its first leg")
    }

    pub fn is_sealed(&self) -> bool {
        self.leg().sealed.is_some()
    }

    pub fn state(&self) -> RunState {
        let leg = self.leg();
        match (&leg.sealed, &leg.stopped) {
            (Some(outcome), _) => RunState::Ended(outcome.ending),
            (None, Some(_)) => RunState::Stopping,
            (None, None) => RunState::Running,
        }
    }

    /// Gives the sessions that work for the run now. Only tasks are worked on by more than one.
    pub fn live(&self) -> impl Iterator<Item = &RunSession> {
        self.sessions.iter().filter(|session| session.end.is_none())
    }

    pub fn is_live(&self) -> bool {
        self.live().next().is_some()
    }

    /// Gives the sessions that may be gone on with next, though they have ended.
    pub fn wanted(&self) -> Vec<SessionId> {
        let last = [self.sessions.last(), self.owner()];
        let mut wanted: Vec<SessionId> = last.into_iter().flatten().map(|one| one.id).collect();
        wanted.extend(self.errands().map(|(_, errand)| errand.session));
        wanted
    }

    /// Gives the newest session of the current leg, if it is one of the current stage.
    pub(super) fn current(&self) -> Option<&RunSession> {
        let leg = self.leg().no;
        let of_stage = |one: &&RunSession| one.leg == leg && one.stage == self.stage;
        self.sessions.last().filter(of_stage).filter(|one| one.task.is_none())
    }

    pub(super) fn session(&self, id: SessionId) -> Option<&RunSession> {
        // The newest are asked for most.
        self.sessions.iter().rev().find(|one| one.id == id)
    }

    /// Gives the commit that the next session begins from.
    pub fn base(&self) -> &Snapshot {
        self.head.as_ref().unwrap_or(&self.spec.target.base)
    }

    /// Says whether a check passed on the newest work.
    pub fn proves(&self, check: &str) -> bool {
        let proof = self.proof.as_ref().zip(self.head.as_ref());
        proof.is_some_and(|(proof, head)| proof.is_for(head) && proof.covers(&[check]))
    }

    /// Returns the ends of the sessions whose work is part of the run's: those of the whole, and of merged tasks. While
    /// the run is open, every task may be merged yet.
    pub fn contributing_ends(&self) -> impl Iterator<Item = &SessionEnd> {
        let merged = |session: &&RunSession| {
            let task = session.task.as_ref().zip(self.graph.as_ref());
            let task = task.and_then(|(id, graph)| graph.task(id));
            !self.is_sealed() || task.is_none_or(|task| task.phase == Phase::Merged)
        };
        let ends = self.sessions.iter().filter(merged).filter_map(|one| one.end.as_deref());
        ends.filter(|end| end.is_good())
    }

    /// Gives the findings that nobody mended: the last word of each review of a task, and of the whole.
    pub fn open_findings(&self) -> impl Iterator<Item = &Finding> {
        self.last_words().flat_map(|reviewed| reviewed.review.open())
    }

    /// Gives the newest review of each task, and of the whole.
    pub(super) fn last_words(&self) -> impl Iterator<Item = &Reviewed> {
        let mut newest = BTreeMap::new();
        for reviewed in &self.reviews {
            newest.insert((reviewed.stage, &reviewed.task), reviewed);
        }
        newest.into_values()
    }

    /// Says whether nothing is owed or expected any more: the stream may be put away.
    pub fn is_closed(&self) -> bool {
        self.is_sealed() && self.effects().is_empty()
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
