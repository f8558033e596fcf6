//! The steps from a goal to an accepted plan: planning, plan review and approval.

use super::{
    advance::{ResumeInstruction, RunAdvanceContext, RunStep, describe_end, enter_stage, stop_run},
    event::*,
    outcome::RunFailureCause,
    spec::{PlanMode, ReviewMode},
    stage::RunStage,
    state::{PlanProgress, Run, SessionEnd},
};
use crate::{
    ids::SessionId,
    plan::{MAX_PLANNED, Plan, PlanReview, PlanVerdict},
    result::StructuredResult,
};

/// How many times an agent may correct an invalid plan or plan review.
const MAX_REPAIRS: u32 = 1;

/// Maximum number of faults to keep and quote.
const MAX_FAULTS: usize = 20;

/// A plan that passed its review.
struct ReviewedPlan {
    plan: Plan,
    edits: usize,
    reason: String,
}

impl Run {
    pub(super) fn leave_intake(&self) -> RunStep {
        let planning = &self.spec.planning;
        match &planning.given {
            Some(plan) if self.planned.is_none() => {
                RunStep::Event(PlanMade { plan: Box::new(plan.clone()) }.into())
            }
            Some(_) => enter_stage(RunStage::PlanReview),
            None if self.spec.triage => enter_stage(RunStage::Triage),
            None if planning.mode == PlanMode::Always => enter_stage(RunStage::Plan),
            None => enter_stage(RunStage::Work),
        }
    }

    /// Whether the run was started only to produce a plan, and that plan is settled.
    pub(super) fn ends_with_plan(&self) -> bool {
        self.spec.planning.only && self.stage == RunStage::PlanReview && self.is_plan_settled()
    }

    /// Whether the plan is settled: it was reviewed, and the operator approved it if that is required.
    pub(super) fn is_plan_settled(&self) -> bool {
        let settled = |one: &PlanProgress| one.reviewed && (one.approved || !self.needs_approval());
        self.planned.as_ref().is_some_and(settled)
    }

    /// Whether the operator must approve the plan, either because the user requested it or because
    /// the plan contains commands written by an agent. A plan-only run never executes these
    /// commands.
    fn needs_approval(&self) -> bool {
        let planning = &self.spec.planning;
        planning.approve || (!planning.only && !self.commands_awaiting_consent().is_empty())
    }

    /// Whether the plan is waiting for the operator's approval.
    pub(super) fn is_plan_waiting(&self) -> bool {
        let asked = self.planned.as_ref().is_some_and(|one| one.reviewed && !one.approved);
        asked && self.needs_approval() && self.stage == RunStage::PlanReview
    }

    pub(super) fn leave_plan(&self) -> Option<RunStep> {
        (!self.spec.planning.only).then(|| enter_stage(RunStage::Tasks))
    }

    /// Whether an agent reviews the plan. Agents do not review a plan that a user wrote.
    pub(super) fn is_plan_reviewed_by_agent(&self) -> bool {
        self.spec.planning.given.is_none() && self.spec.reviews.plan != ReviewMode::Off
    }

    /// Accepts a plan that no agent needs to review.
    pub(super) fn pass_plan(&self) -> Option<RunStep> {
        let planned = self.planned.as_ref().filter(|planned| !planned.reviewed)?;
        Some(plan_reviewed(ReviewedPlan {
            plan: (*planned.plan).clone(),
            edits: 0,
            reason: String::new(),
        }))
    }

    pub(super) fn conclude_plan(
        &self,
        end: &SessionEnd,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        if self.planned.is_some() {
            return Some(enter_stage(RunStage::PlanReview));
        }
        let parsed = match (&end.result, end.is_good()) {
            (Some(StructuredResult::Plan(text)), true) => read_plan(text),
            (
                Some(
                    StructuredResult::Triage(_)
                    | StructuredResult::PlanReview(_)
                    | StructuredResult::Review(_),
                )
                | None,
                true,
            ) => Err(vec!["no plan was returned".to_owned()]),
            (_, false) => return Some(stop_run(RunFailureCause::Plan, describe_end(end))),
        };
        match parsed.and_then(|plan| self.check_plan_rules(plan)) {
            Ok(plan) => Some(RunStep::Event(PlanMade { plan: Box::new(plan) }.into())),
            Err(faults) => self.return_faults(faults, cycle, context),
        }
    }

    pub(super) fn conclude_plan_review(
        &self,
        end: &SessionEnd,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let planned = self.planned.as_ref().filter(|planned| !planned.reviewed)?;
        let parsed = match (&end.result, end.is_good()) {
            (Some(StructuredResult::PlanReview(text)), true) => read_review(text),
            (
                Some(
                    StructuredResult::Triage(_)
                    | StructuredResult::Plan(_)
                    | StructuredResult::Review(_),
                )
                | None,
                true,
            ) => Err(vec!["no review of the plan was returned".to_owned()]),
            (_, false) => return Some(stop_run(RunFailureCause::Plan, describe_end(end))),
        };
        let reviewed = parsed.and_then(|review| self.review_plan(&planned.plan, review));
        match reviewed {
            Ok(Ok(reviewed)) => Some(plan_reviewed(reviewed)),
            Ok(Err(rejected)) => Some(stop_run(RunFailureCause::Plan, rejected)),
            Err(faults) => self.return_faults(faults, cycle, context),
        }
    }

    /// Applies the reviewer's edits to the plan, or returns why the plan was rejected.
    fn review_plan(
        &self,
        plan: &Plan,
        review: PlanReview,
    ) -> Result<Result<ReviewedPlan, String>, Vec<String>> {
        let PlanReview { verdict, reason, edits } = review;
        match (verdict, self.spec.reviews.plan) {
            (PlanVerdict::Reject, _) => Ok(Err(format!("the plan was rejected: {reason}"))),
            (PlanVerdict::Accept, ReviewMode::Repair) => {
                let edited = plan.apply_edits(&edits).map_err(|fault| vec![fault.to_string()])?;
                // The limits for an agent's plan still apply after the reviewer edited it.
                let edited =
                    edited.limit_tasks(MAX_PLANNED).map_err(|fault| vec![fault.to_string()])?;
                let edited = self.check_plan_rules(edited)?;
                Ok(Ok(ReviewedPlan { plan: edited, edits: edits.len(), reason }))
            }
            (PlanVerdict::Accept, ReviewMode::Off | ReviewMode::Report) => {
                Ok(Ok(ReviewedPlan { plan: plan.clone(), edits: 0, reason }))
            }
        }
    }

    /// Returns an invalid plan or review to its agent, together with the faults. A plan or review is returned at most
    /// once.
    fn return_faults(
        &self,
        mut faults: Vec<String>,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let live = self.current()?;
        faults.truncate(MAX_FAULTS);
        if cycle > MAX_REPAIRS {
            let detail = format!("the result is still not a valid plan: {}", faults.join("; "));
            return Some(stop_run(RunFailureCause::Plan, detail));
        }
        if !self.has_fault_report(live.id) {
            return Some(RunStep::Event(PlanInvalid { session: live.id, faults }.into()));
        }
        if let Some(used) = self.used_up() {
            return Some(stop_run(RunFailureCause::Budget, used));
        }
        if !self.has_free_slot(context) {
            return None;
        }
        let instruction =
            ResumeInstruction { key: format!("faults-{cycle}"), text: self.faults_prompt(&faults) };
        let gone_on = (context.session)(live.id)
            .and_then(|session| self.resume_session(session, context, cycle + 1, instruction));
        gone_on.or_else(|| self.open_session(self.job(cycle + 1)))
    }

    fn has_fault_report(&self, session: SessionId) -> bool {
        self.plan_faults.iter().any(|(asked, _)| *asked == session)
    }
}

fn plan_reviewed(ReviewedPlan { plan, edits, reason }: ReviewedPlan) -> RunStep {
    RunStep::Event(PlanReviewed { plan: Box::new(plan), edits, reason }.into())
}

fn read_plan(text: &str) -> Result<Plan, Vec<String>> {
    let value = serde_json::from_str(text).map_err(|fault| vec![fault.to_string()])?;
    Plan::parse_within(&value, MAX_PLANNED).map_err(describe_faults)
}

fn read_review(text: &str) -> Result<PlanReview, Vec<String>> {
    let value = serde_json::from_str(text).map_err(|fault| vec![fault.to_string()])?;
    PlanReview::parse(&value).map_err(describe_faults)
}

fn describe_faults(faults: Vec<crate::plan::PlanFault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}
