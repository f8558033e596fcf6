//! How a stage ends, and which one follows.

use crate::{
    result::StructuredResult,
    run::{
        advance::{
            ResumeInstruction, RunAdvanceContext, RunStep, describe_end, enter_stage, stop_run,
        },
        event::WorkLanded,
        landing::{
            LandStep, LandingNeed, LandingState, PullRequestChecks, PullRequestState,
            PullRequestStatus,
        },
        outcome::RunFailureCause,
        session_spec::is_repeatable,
        spec::{PlanMode, ReviewMode},
        stage::RunStage,
        state::{Run, RunSession, SessionEnd},
    },
    session::Session,
    verdict::{EmptyDiff, Snapshot},
};

/// How the run continues after a review.
pub(in crate::run) enum ReviewProgress {
    Repeat,
    Done,
}

fn stage_after(stage: RunStage) -> RunStage {
    match stage {
        RunStage::Intake => RunStage::Triage,
        RunStage::Plan => RunStage::PlanReview,
        RunStage::PlanReview => RunStage::Tasks,
        RunStage::Tasks => RunStage::FinalReview,
        RunStage::Triage => RunStage::Work,
        RunStage::Work => RunStage::TaskReview,
        RunStage::TaskReview => RunStage::FinalReview,
        RunStage::FinalReview | RunStage::Land => RunStage::Land,
    }
}

impl Run {
    /// Decides how the run continues after a session of this stage has ended.
    pub(in crate::run) fn conclude(
        &self,
        end: &SessionEnd,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        if end.cause == Some(crate::lifecycle::Cause::Budget) {
            return Some(stop_run(RunFailureCause::Budget, describe_end(end)));
        }
        match self.stage {
            RunStage::Intake | RunStage::Tasks | RunStage::Land => None,
            RunStage::Triage => Some(self.conclude_triage(end)),
            RunStage::Plan => self.conclude_plan(end, cycle, context),
            RunStage::PlanReview => self.conclude_plan_review(end, cycle, context),
            RunStage::Work => self.conclude_work(end),
            RunStage::TaskReview | RunStage::FinalReview => {
                self.conclude_review(end, cycle, context)
            }
        }
    }

    fn conclude_triage(&self, end: &SessionEnd) -> RunStep {
        match (&end.result, end.is_good()) {
            (Some(StructuredResult::Triage(triage)), true) => {
                let planned = match self.spec.planning.mode {
                    PlanMode::Always => true,
                    PlanMode::Auto => triage.needs_plan,
                    PlanMode::Never => false,
                };
                enter_stage(if planned { RunStage::Plan } else { RunStage::Work })
            }
            (
                Some(
                    StructuredResult::Plan(_)
                    | StructuredResult::PlanReview(_)
                    | StructuredResult::Review(_),
                )
                | None,
                true,
            ) => stop_run(RunFailureCause::Triage, "triage returned no result".to_owned()),
            (_, false) => stop_run(RunFailureCause::Triage, describe_end(end)),
        }
    }

    fn conclude_work(&self, end: &SessionEnd) -> Option<RunStep> {
        let from = &self.spec.target.base;
        Some(match self.work_result(end, self.commit_failure.as_deref(), from)? {
            Ok(()) => enter_stage(self.next_stage(self.stage)),
            Err(why) => stop_run(RunFailureCause::Work, why),
        })
    }

    fn conclude_review(
        &self,
        end: &SessionEnd,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        match self.review_result(self.stage, end, cycle, self.commit_failure.as_deref())? {
            Err(why) => Some(stop_run(RunFailureCause::Review, why)),
            Ok(ReviewProgress::Done) => Some(enter_stage(self.next_stage(self.stage))),
            Ok(ReviewProgress::Repeat) => match self.used_up() {
                Some(used) => Some(stop_run(RunFailureCause::Budget, used)),
                None if !self.has_free_slot(context) => None,
                None => self.open_session(self.job(cycle + 1)),
            },
        }
    }

    /// Returns the next stage, skipping reviews that are disabled.
    pub(in crate::run) fn next_stage(&self, stage: RunStage) -> RunStage {
        let next = stage_after(stage);
        let review = matches!(next, RunStage::TaskReview | RunStage::FinalReview);
        if review && self.spec.reviews.mode_for(next) == ReviewMode::Off {
            self.next_stage(next)
        } else {
            next
        }
    }

    /// Whether the work since a commit is complete. None while the remaining changes are still
    /// being committed.
    pub(in crate::run) fn work_result(
        &self,
        end: &SessionEnd,
        headless: Option<&str>,
        from: &Snapshot,
    ) -> Option<Result<(), String>> {
        if !end.is_good() {
            return Some(Err(describe_end(end)));
        }
        if let Some(reason) = headless {
            return Some(Err(reason.to_owned()));
        }
        let empty = end.head.as_ref()?.tree == from.tree;
        Some(if empty && self.spec.empty_diff == EmptyDiff::Refused {
            Err("nothing was changed".to_owned())
        } else {
            Ok(())
        })
    }

    /// Whether a review is complete. None while its fixes are still being committed.
    pub(in crate::run) fn review_result(
        &self,
        stage: RunStage,
        end: &SessionEnd,
        cycle: u32,
        headless: Option<&str>,
    ) -> Option<Result<ReviewProgress, String>> {
        if !end.is_good() {
            return Some(Err(describe_end(end)));
        }
        let Some(StructuredResult::Review(review)) = &end.result else {
            return Some(Err("the review returned no findings".to_owned()));
        };
        if let Some(reason) = headless {
            return Some(Err(reason.to_owned()));
        }
        let mode = self.spec.reviews.mode_for(stage);
        if is_repeatable(mode) && end.head.is_none() {
            return None;
        }
        let again = is_repeatable(mode) && !review.findings.is_empty();
        let again = again && cycle < self.spec.reviews.cycles;
        Some(Ok(if again { ReviewProgress::Repeat } else { ReviewProgress::Done }))
    }

    /// Continues the landing, either with a step that needs a session or based on the state of the
    /// pull request.
    pub(in crate::run) fn advance_landing(
        &self,
        context: &RunAdvanceContext<'_>,
        current: Option<&RunSession>,
    ) -> Option<RunStep> {
        if let Some(end) = current.and_then(|one| one.end.as_ref()) {
            if !end.is_good() {
                let budget = end.cause == Some(crate::lifecycle::Cause::Budget);
                let cause = if budget { RunFailureCause::Budget } else { RunFailureCause::Landing };
                return Some(stop_run(cause, describe_end(end)));
            }
            if let Some(reason) = &self.commit_failure {
                return Some(stop_run(RunFailureCause::Landing, reason.clone()));
            }
            // The head is unknown until the remaining changes have been committed.
            let head = end.head.as_ref()?;
            let step = current.map_or(0, |one| one.cycle);
            if let Some(files) = self.unresolved_files(step, head) {
                let detail = format!("conflicts were not resolved in: {}", files.join(", "));
                return Some(stop_run(RunFailureCause::Landing, detail));
            }
        }
        match self.landing_need()? {
            LandingNeed::Verification(no, step) => self.verify_landing(no, step),
            LandingNeed::Session(no, step) => match self.used_up() {
                Some(used) => Some(stop_run(RunFailureCause::Budget, used)),
                None => self.begin_step(context, no, step),
            },
            LandingNeed::Land | LandingNeed::Approval => None,
            LandingNeed::Watch => self.end_watch(),
        }
    }

    /// Sends review comments to the session that did the work, in the same conversation.
    fn begin_step(
        &self,
        context: &RunAdvanceContext<'_>,
        no: u32,
        step: &LandStep,
    ) -> Option<RunStep> {
        if !self.has_free_slot(context) {
            return None;
        }
        let owner = match step {
            LandStep::Merge { .. } => None,
            LandStep::Answer { comments } => {
                // Reuse a worktree only if it contains the newest work. Otherwise the work of other
                // tasks or of a reviewer would be lost.
                let owner = self.owner().filter(|one| self.has_newest_work(one));
                let owner = owner.and_then(|one| (context.session)(one.id));
                owner.filter(|session| self.is_checked_by_all(session)).zip(Some(comments))
            }
        };
        let taken_up = owner.and_then(|(owner, comments)| {
            let key = format!("land-{}-{no}", self.attempt().no);
            let text = self.comments_prompt(None, comments);
            self.resume_session(owner, context, no, ResumeInstruction { key, text })
        });
        taken_up.or_else(|| self.open_session(self.job(no)))
    }

    /// Whether the session's result is verified by all checks of the run, including those of other tasks.
    fn is_checked_by_all(&self, session: &Session) -> bool {
        self.all_checks().iter().all(|check| session.spec.checks.contains(check))
    }

    /// Stops watching the pull request. The landing is complete if the pull request was merged or
    /// all of its checks passed.
    fn end_watch(&self) -> Option<RunStep> {
        let LandingState::Requested(pull) = &self.landing else { return None };
        let PullRequestState { status, checks, .. } = pull.seen.as_ref()?;
        let (branch, commit) = (self.spec.branch.clone(), pull.commit.clone());
        let landed = |merged| RunStep::Event(WorkLanded { branch, commit, merged }.into());
        match (status, checks) {
            (PullRequestStatus::Merged, _) => Some(landed(true)),
            (PullRequestStatus::Closed, _) => {
                Some(stop_run(RunFailureCause::Landing, "the pull request was closed".to_owned()))
            }
            (PullRequestStatus::Open, PullRequestChecks::Pending) => None,
            (PullRequestStatus::Open, PullRequestChecks::Passed | PullRequestChecks::None) => {
                Some(landed(false))
            }
            (PullRequestStatus::Open, PullRequestChecks::Failed) => Some(stop_run(
                RunFailureCause::Landing,
                "checks of the pull request failed".to_owned(),
            )),
        }
    }
}
