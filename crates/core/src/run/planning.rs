//! From a goal to an accepted plan.

use super::{
    advance::{Around, Instruction, Step, ended, enter, stopped},
    event::*,
    outcome::Cause,
    spec::{PlanMode, ReviewMode},
    stage::Stage,
    state::{Planned, Run, SessionEnd},
};
use crate::{
    ids::SessionId,
    plan::{MAX_PLANNED, Plan, PlanReview, PlanVerdict},
    result::Structured,
};

/// How often an agent may correct its plan or its review of one.
const MAX_REPAIRS: u32 = 1;

/// Maximum number of faults that are kept and quoted.
const MAX_FAULTS: usize = 20;

/// A plan that passed its review.
struct Reviewed {
    plan: Plan,
    edits: usize,
    reason: String,
}

impl Run {
    pub(super) fn leave_intake(&self) -> Step {
        let planning = &self.spec.planning;
        match &planning.given {
            Some(plan) if self.planned.is_none() => {
                Step::Event(PlanMade { plan: Box::new(plan.clone()) }.into())
            }
            Some(_) => enter(Stage::PlanReview),
            None if self.spec.triage => enter(Stage::Triage),
            None if planning.mode == PlanMode::Always => enter(Stage::Plan),
            None => enter(Stage::Work),
        }
    }

    /// Whether a plan-only run has its plan.
    pub(super) fn ends_with_plan(&self) -> bool {
        self.spec.planning.only && self.stage == Stage::PlanReview && self.is_plan_settled()
    }

    /// Whether the plan is settled: reviewed, and approved by the operator if required.
    pub(super) fn is_plan_settled(&self) -> bool {
        let settled = |one: &Planned| one.reviewed && (one.approved || !self.needs_approval());
        self.planned.as_ref().is_some_and(settled)
    }

    /// Whether the operator has to approve the plan: on request, or because an agent wrote commands
    /// into it. A plan-only run executes none of them.
    fn needs_approval(&self) -> bool {
        let planning = &self.spec.planning;
        planning.approve || (!planning.only && !self.awaited_commands().is_empty())
    }

    /// Whether the plan waits for the operator.
    pub(super) fn plan_waits(&self) -> bool {
        let asked = self.planned.as_ref().is_some_and(|one| one.reviewed && !one.approved);
        asked && self.needs_approval() && self.stage == Stage::PlanReview
    }

    pub(super) fn leave_plan(&self) -> Option<Step> {
        (!self.spec.planning.only).then(|| enter(Stage::Tasks))
    }

    /// Whether an agent reviews the plan. A user's plan is not reviewed by agents.
    pub(super) fn is_plan_reviewed_by_agent(&self) -> bool {
        self.spec.planning.given.is_none() && self.spec.reviews.plan != ReviewMode::Off
    }

    /// Passes a plan that no agent reviews.
    pub(super) fn pass_plan(&self) -> Option<Step> {
        let planned = self.planned.as_ref().filter(|planned| !planned.reviewed)?;
        Some(passed(Reviewed { plan: (*planned.plan).clone(), edits: 0, reason: String::new() }))
    }

    pub(super) fn conclude_plan(
        &self,
        end: &SessionEnd,
        cycle: u32,
        around: &Around<'_>,
    ) -> Option<Step> {
        if self.planned.is_some() {
            return Some(enter(Stage::PlanReview));
        }
        let told = match (&end.result, end.is_good()) {
            (Some(Structured::Plan(told)), true) => read_plan(told),
            (
                Some(Structured::Triage(_) | Structured::PlanReview(_) | Structured::Review(_))
                | None,
                true,
            ) => Err(vec!["no plan was returned".to_owned()]),
            (_, false) => return Some(stopped(Cause::Plan, ended(end))),
        };
        match told.and_then(|plan| self.within_rules(plan)) {
            Ok(plan) => Some(Step::Event(PlanMade { plan: Box::new(plan) }.into())),
            Err(faults) => self.repair(faults, cycle, around),
        }
    }

    pub(super) fn conclude_plan_review(
        &self,
        end: &SessionEnd,
        cycle: u32,
        around: &Around<'_>,
    ) -> Option<Step> {
        let planned = self.planned.as_ref().filter(|planned| !planned.reviewed)?;
        let told = match (&end.result, end.is_good()) {
            (Some(Structured::PlanReview(told)), true) => read_review(told),
            (
                Some(Structured::Triage(_) | Structured::Plan(_) | Structured::Review(_)) | None,
                true,
            ) => Err(vec!["no review of the plan was returned".to_owned()]),
            (_, false) => return Some(stopped(Cause::Plan, ended(end))),
        };
        let reviewed = told.and_then(|review| self.review_plan(&planned.plan, review));
        match reviewed {
            Ok(Ok(reviewed)) => Some(passed(reviewed)),
            Ok(Err(rejected)) => Some(stopped(Cause::Plan, rejected)),
            Err(faults) => self.repair(faults, cycle, around),
        }
    }

    /// Applies the reviewer's edits to the plan, or returns why it was rejected.
    fn review_plan(
        &self,
        plan: &Plan,
        review: PlanReview,
    ) -> Result<Result<Reviewed, String>, Vec<String>> {
        let PlanReview { verdict, reason, edits } = review;
        match (verdict, self.spec.reviews.plan) {
            (PlanVerdict::Reject, _) => Ok(Err(format!("the plan was rejected: {reason}"))),
            (PlanVerdict::Accept, ReviewMode::Repair) => {
                let edited = plan.edited(&edits).map_err(|fault| vec![fault.to_string()])?;
                // An agent's plan stays subject to the limits, no matter who edits it.
                let edited = edited.within(MAX_PLANNED).map_err(|fault| vec![fault.to_string()])?;
                let edited = self.within_rules(edited)?;
                Ok(Ok(Reviewed { plan: edited, edits: edits.len(), reason }))
            }
            (PlanVerdict::Accept, ReviewMode::Off | ReviewMode::Report) => {
                Ok(Ok(Reviewed { plan: plan.clone(), edits: 0, reason }))
            }
        }
    }

    /// Returns an invalid plan or review to its agent once, with the faults.
    fn repair(&self, mut faults: Vec<String>, cycle: u32, around: &Around<'_>) -> Option<Step> {
        let live = self.current()?;
        faults.truncate(MAX_FAULTS);
        if cycle > MAX_REPAIRS {
            let detail = format!("the result is still not a valid plan: {}", faults.join("; "));
            return Some(stopped(Cause::Plan, detail));
        }
        if !self.is_told(live.id) {
            return Some(Step::Event(PlanFaulty { session: live.id, faults }.into()));
        }
        if let Some(used) = self.used_up() {
            return Some(stopped(Cause::Budget, used));
        }
        if !self.has_room(around) {
            return None;
        }
        let instruction =
            Instruction { key: format!("faults-{cycle}"), text: self.faulted(&faults) };
        let gone_on = (around.look)(live.id)
            .and_then(|session| self.go_on_with(session, around, cycle + 1, instruction));
        gone_on.or_else(|| self.open_session(self.job(cycle + 1)))
    }

    fn is_told(&self, session: SessionId) -> bool {
        self.plan_faults.iter().any(|(told, _)| *told == session)
    }
}

fn passed(Reviewed { plan, edits, reason }: Reviewed) -> Step {
    Step::Event(PlanReviewed { plan: Box::new(plan), edits, reason }.into())
}

fn read_plan(told: &str) -> Result<Plan, Vec<String>> {
    let value = serde_json::from_str(told).map_err(|fault| vec![fault.to_string()])?;
    Plan::parse_within(&value, MAX_PLANNED).map_err(in_words)
}

fn read_review(told: &str) -> Result<PlanReview, Vec<String>> {
    let value = serde_json::from_str(told).map_err(|fault| vec![fault.to_string()])?;
    PlanReview::parse(&value).map_err(in_words)
}

fn in_words(faults: Vec<crate::plan::Fault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}
