//! What a run's events add up to. Stage, requests, decisions, reviews, budget and outcome are separate facts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    hook::{RunHookEvent, RunHookOwed},
    landing::{LandStep, Landing, Remark},
    outcome::{Cause, Outcome, Proof},
    spec::RunSpec,
    stage::Stage,
};
use crate::{
    ids::{RequestId, RunId, SessionId, TreeId},
    lifecycle::{self, State},
    result::{Review, Structured, Triage},
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
    /// Counts the reviews of one stage; in the last it is the number of the step.
    pub cycle: u32,
    /// What the run counted of it when it ended before.
    pub counted: (Usage, u32),
    pub end: Option<SessionEnd>,
}

/// How a session of the run ended, as it was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub state: State,
    pub cause: Option<lifecycle::Cause>,
    /// Why Provost ended it, or could not take its work.
    #[serde(default)]
    pub why: Option<String>,
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
    pub cycle: u32,
    pub review: Review,
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
}

/// A goal taken to an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub spec: RunSpec,
    pub opened: Moment,
    pub stage: Stage,
    /// Since when the stage is what it is.
    pub since: Moment,
    /// Never empty: a run is opened with its first leg.
    pub legs: Vec<Leg>,
    pub sessions: Vec<RunSession>,
    pub decisions: Vec<Decision>,
    /// Requests that were seen, so that each fires its hook once.
    pub seen: BTreeSet<(RequestId, u32)>,
    pub triage: Option<Triage>,
    pub reviews: Vec<Reviewed>,
    /// The newest work that was committed, and the proof that it passed.
    pub head: Option<Snapshot>,
    pub proof: Option<Proof>,
    /// Why what a session left could not be committed.
    pub headless: Option<String>,
    pub landing: Landing,
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

    /// Gives the session that works for the run now, if one does: there is never more than one.
    pub fn live(&self) -> Option<&RunSession> {
        self.sessions.last().filter(|session| session.end.is_none())
    }

    /// Gives the newest session of the current leg, if it is one of the current stage.
    pub(super) fn current(&self) -> Option<&RunSession> {
        let leg = self.leg().no;
        self.sessions.last().filter(|one| one.leg == leg && one.stage == self.stage)
    }

    /// Gives the commit that the next session begins from.
    pub(super) fn base(&self) -> &Snapshot {
        self.head.as_ref().unwrap_or(&self.spec.target.base)
    }

    /// Gives the findings that nobody mended: the last word of each reviewing stage.
    pub fn open_findings(&self) -> impl Iterator<Item = &crate::result::Finding> {
        let last = |stage: Stage| self.reviews.iter().rev().find(move |one| one.stage == stage);
        [Stage::TaskReview, Stage::FinalReview]
            .into_iter()
            .filter_map(last)
            .flat_map(|reviewed| reviewed.review.open())
    }

    /// Says whether nothing is owed or expected any more: the stream may be put away.
    pub fn is_closed(&self) -> bool {
        self.is_sealed() && self.effects().is_empty()
    }
}
