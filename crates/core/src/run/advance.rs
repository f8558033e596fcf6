//! The automatic steps of a run. They are level-triggered: each step depends only on the current state of the run and
//! its sessions.

use super::{
    event::*,
    landing::{
        LandStep, LandingNeed, LandingState, PullRequestChecks, PullRequestState, PullRequestStatus,
    },
    outcome::{RunAttemptOutcome, RunEnding, RunFailureCause},
    session_spec::{SessionJob, is_repeatable},
    spec::{PlanMode, ReviewMode},
    stage::RunStage,
    state::{CountedUsage, Run, RunSession, RunStop, SessionEnd},
};
use crate::{
    ids::SessionId,
    lifecycle::{ClaimKind, Judgement, VerificationFact},
    request::Request,
    result::StructuredResult,
    rules::rules,
    session::{self, Budget, SendMode, Session, SessionSpec},
    time::Moment,
    verdict::{EmptyDiff, Snapshot},
};

/// One automatic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    Event(Event),
    /// An event and a command to a session, recorded in one transaction.
    EventAndOrder(Event, SessionOrder),
    /// A command to a session, without an event of the run.
    Command(SessionId, session::SessionCommand),
}

/// The command to a session that accompanies an event of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    Open(SessionId, Box<SessionSpec>),
    Command(SessionId, Box<session::SessionCommand>),
}

/// The state that `advance` reads in addition to the run itself.
#[derive(Clone, Copy)]
pub struct RunAdvanceContext<'a> {
    pub now: Moment,
    /// The number of agents that are working for other runs.
    pub other_agents: usize,
    /// Returns the current state of a session. A session that cannot be read does not count as ended.
    pub session: &'a dyn Fn(SessionId) -> Option<&'a Session>,
}

/// The instruction for resuming a session that has ended.
pub(super) struct ResumeInstruction {
    pub(super) key: String,
    pub(super) text: String,
}

impl Run {
    /// Returns the next automatic step, if any. The caller applies the step and then calls this method again.
    pub fn advance(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        if self.is_sealed() {
            return None;
        }
        self.live()
            .find_map(|live| self.attend_session(live, context))
            .or_else(|| self.advance_run(context))
    }

    fn attend_session(
        &self,
        live: &RunSession,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let session = (context.session)(live.id)?;
        let first = self.record_decision(session).or_else(|| self.record_end(session));
        match &self.attempt().stopped {
            Some(stopped) => first.or_else(|| cancel_session(session, stopped)),
            None => first.or_else(|| self.attend_running(session, context)),
        }
        .filter(|step| is_accepted(step, session, context.now))
    }

    /// Returns the next step that does not involve a running session.
    fn advance_run(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        // A stopped run starts nothing new, even while Provost is checking whether its work has landed.
        match (self.attempt().stopped.is_some(), self.is_live()) {
            (true, true) => None,
            (true, false) => self.seal_if_over(context.now),
            (false, true) if self.stage != RunStage::Tasks => None,
            (false, _) => self.seal_if_over(context.now).or_else(|| self.advance_stage(context)),
        }
    }

    fn record_end(&self, session: &Session) -> Option<RunStep> {
        session.attempt().is_sealed().then(|| {
            let end = Box::new(session_end(session, self.used_before(session)));
            RunStep::Event(SessionEnded { session: session.id, end }.into())
        })
    }

    /// Returns the part of a session's usage that the run already counted in earlier attempts.
    fn used_before(&self, session: &Session) -> CountedUsage {
        let live = self.sessions.iter().find(|one| one.id == session.id);
        live.map_or_else(Default::default, |one| one.counted)
    }

    /// Returns the next step for a running session.
    fn attend_running(
        &self,
        session: &Session,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let taken = |step: &RunStep| is_accepted(step, session, context.now);
        self.repeat_answer(session)
            .filter(taken)
            .or_else(|| self.observe_request(session))
            .or_else(|| self.send_decision(session).filter(taken))
            .or_else(|| self.raise_budget(session, context).filter(taken))
            .or_else(|| self.stop_overdrawn(session, context))
    }

    fn observe_request(&self, session: &Session) -> Option<RunStep> {
        let new = |request: &&Request| !self.seen.contains(&(request.id, request.revision));
        let request = session.open_requests().find(new)?;
        let seen = RequestObserved { request: request.id, revision: request.revision };
        Some(RunStep::Event(seen.into()))
    }

    /// Returns the total budget of a session: the remaining budget of the run, minus the uncounted usage of the other
    /// sessions, plus the usage of this session that was already counted.
    fn allowance(&self, session: &Session, context: &RunAdvanceContext<'_>) -> Budget {
        let (left, before) = (self.remaining(), self.used_before(session));
        let (others, others_turns) = self.used_by_others(session.id, context);
        Budget {
            tokens: left.tokens.map(|left| (left + before.usage.total()).saturating_sub(others)),
            turns: left.turns.map(|left| (left + before.turns).saturating_sub(others_turns)),
        }
    }

    /// Returns the uncounted usage of the other running sessions.
    fn used_by_others(&self, session: SessionId, context: &RunAdvanceContext<'_>) -> (u64, u32) {
        let others = self.live().filter(|one| one.id != session);
        others.fold((0, 0), |(tokens, turns), one| match (context.session)(one.id) {
            Some(other) => {
                let used = other.usage.since(one.counted.usage).total();
                (tokens + used, turns + other.turns.saturating_sub(one.counted.turns))
            }
            None => (tokens, turns),
        })
    }

    /// Raises a session's budget to what remains of the run's budget, which the user may have raised.
    pub(super) fn raise_budget(
        &self,
        session: &Session,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let Budget { tokens, turns } = self.allowance(session, context);
        let more = |now: Option<u64>, may: Option<u64>| now.zip(may).is_some_and(|(n, m)| m > n);
        let more_tokens = more(session.budget.tokens, tokens);
        let more_turns = more(session.budget.turns.map(u64::from), turns.map(u64::from));
        let raise = session::SessionCommand::RaiseBudget {
            tokens: if more_tokens { tokens } else { None },
            turns: if more_turns { turns } else { None },
        };
        let nothing = session::SessionCommand::RaiseBudget { tokens: None, turns: None };
        (raise != nothing).then_some(RunStep::Command(session.id, raise))
    }

    /// Stops a resumed session that exceeds the remaining budget of the run. The session still has its original budget,
    /// but other sessions may have used part of that budget.
    fn stop_overdrawn(
        &self,
        session: &Session,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let Budget { tokens, turns } = self.allowance(session, context);
        // A session without a budget does not get a budget later.
        let budget = Budget {
            tokens: session.budget.tokens.and(tokens),
            turns: session.budget.turns.and(turns),
        };
        if !session.may_continue_work() {
            return None;
        }
        let used = rules().overdraft(session, budget)?;
        Some(stop_run(RunFailureCause::Budget, used.detail))
    }

    /// Seals a stopped or landed run once none of its sessions is running.
    fn seal_if_over(&self, now: Moment) -> Option<RunStep> {
        if rules().waits_for_landing(self.is_stopped_landing()) {
            return None;
        }
        let attempt = self.attempt();
        let (ending, cause, detail) = match (&attempt.stopped, &self.landing) {
            (Some(RunStop::Cancelled { because }), _) => {
                (RunEnding::Cancelled, None, because.clone())
            }
            (Some(RunStop::Failed { cause, detail }), _) => {
                (RunEnding::Failed, Some(*cause), detail.clone())
            }
            (None, LandingState::Done(_)) => (self.final_ending(), None, String::new()),
            (None, LandingState::Open | LandingState::Requested(_)) if self.ends_with_plan() => {
                (RunEnding::Completed, None, String::new())
            }
            (None, LandingState::Open | LandingState::Requested(_)) => return None,
        };
        let outcome = RunAttemptOutcome { ending, cause, detail, head: self.head.clone(), at: now };
        Some(RunStep::Event(RunSealed { attempt: attempt.no, outcome }.into()))
    }

    /// Returns the run's ending, which is `succeeded` only if there is proof for the run's final tree.
    fn final_ending(&self) -> RunEnding {
        let proof = self.proof.as_ref().zip(self.head.as_ref());
        if proof.is_some_and(|(proof, head)| proof.is_for(head)) {
            RunEnding::Succeeded
        } else {
            RunEnding::Completed
        }
    }

    fn advance_stage(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        match (self.stage, self.current()) {
            (RunStage::Intake, _) => Some(self.leave_intake()),
            (RunStage::Land, current) => self.advance_landing(context, current),
            (RunStage::Tasks, _) => self.advance_tasks(context),
            (RunStage::PlanReview, _) if self.is_plan_settled() => self.leave_plan(),
            (RunStage::PlanReview, None) if !self.is_plan_reviewed_by_agent() => self.pass_plan(),
            (
                RunStage::Triage
                | RunStage::Plan
                | RunStage::PlanReview
                | RunStage::Work
                | RunStage::TaskReview
                | RunStage::FinalReview,
                None,
            ) => self.begin(context),
            (_, Some(RunSession { end: None, .. })) => None,
            (_, Some(RunSession { end: Some(end), cycle, .. })) => {
                self.conclude(end, *cycle, context)
            }
        }
    }

    /// Begins the current stage: resumes interrupted work, or opens a new session.
    fn begin(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        let review = matches!(self.stage, RunStage::TaskReview | RunStage::FinalReview);
        if review && self.spec.reviews.mode_for(self.stage) == ReviewMode::Off {
            return Some(enter_stage(self.next_stage(self.stage)));
        }
        if let Some(used) = self.used_up() {
            return Some(stop_run(RunFailureCause::Budget, used));
        }
        if !self.has_free_slot(context) {
            return None;
        }
        self.resume_work(context).or_else(|| self.open_session(self.job(1)))
    }

    /// Resumes interrupted work in the same conversation and worktree.
    fn resume_work(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        if self.stage != RunStage::Work {
            return None;
        }
        let before = self.sessions.last().filter(|one| one.stage == RunStage::Work)?;
        let session = (context.session)(before.id)?;
        let ended = self.attempts.iter().rev().find_map(|attempt| attempt.sealed.as_ref())?;
        let text = self.resume_prompt(None, &ended.describe());
        let instruction =
            ResumeInstruction { key: format!("run-attempt-{}", self.attempt().no), text };
        self.resume_session(session, context, 1, instruction)
    }

    /// Resumes a session that has ended. Returns None if that is impossible, for example because
    /// the session's worktree or conversation no longer exists.
    pub(super) fn resume_session(
        &self,
        session: &Session,
        context: &RunAdvanceContext<'_>,
        cycle: u32,
        ResumeInstruction { key, text }: ResumeInstruction,
    ) -> Option<RunStep> {
        if !session.attempt().is_sealed() {
            return None;
        }
        if let Some(raise) = self.raise_budget(session, context) {
            return Some(raise);
        }
        let send = session::SessionCommand::Send { key, text, mode: SendMode::Continue };
        let opened = RunSessionOpened { session: session.id, stage: self.stage, cycle, task: None };
        let taken = session.decide(&send, context.now).is_ok();
        taken.then(|| {
            RunStep::EventAndOrder(opened.into(), SessionOrder::Command(session.id, Box::new(send)))
        })
    }

    pub(super) fn open_session(&self, job: SessionJob<'_>) -> Option<RunStep> {
        let no = self.sessions.len() as u32 + 1;
        let spec = self.session_spec(no, &job)?;
        let session = self.id.session(no);
        let task = job.task.map(|task| task.id.clone());
        let opened = RunSessionOpened { session, stage: job.stage, cycle: job.cycle, task };
        Some(RunStep::EventAndOrder(opened.into(), SessionOrder::Open(session, Box::new(spec))))
    }

    /// Continues the landing, either with a step that needs a session or based on the state of the
    /// pull request.
    fn advance_landing(
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

    /// Decides how the run continues after a session of this stage has ended.
    fn conclude(
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
    pub(super) fn next_stage(&self, stage: RunStage) -> RunStage {
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
    pub(super) fn work_result(
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
    pub(super) fn review_result(
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
}

/// How the run continues after a review.
pub(super) enum ReviewProgress {
    Repeat,
    Done,
}

/// Whether the session accepts the step. Steps that would be rejected are skipped, so that they do
/// not block others.
fn is_accepted(step: &RunStep, session: &Session, now: Moment) -> bool {
    match step {
        RunStep::Command(_, command) => session.decide(command, now).is_ok(),
        RunStep::Event(_) | RunStep::EventAndOrder(..) => true,
    }
}

/// Cancels a session of a stopped run. The session itself verifies that its processes are gone.
fn cancel_session(session: &Session, stopped: &RunStop) -> Option<RunStep> {
    let because = match stopped {
        RunStop::Cancelled { because } => format!("its run was cancelled: {because}"),
        RunStop::Failed { detail, .. } => format!("its run ended: {detail}"),
    };
    let undecided = !session.attempt().is_decided();
    undecided.then_some(RunStep::Command(session.id, session::SessionCommand::Cancel { because }))
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

pub(super) fn enter_stage(stage: RunStage) -> RunStep {
    RunStep::Event(StageEntered { stage }.into())
}

pub(super) fn stop_run(cause: RunFailureCause, detail: String) -> RunStep {
    RunStep::Event(RunStopped { cause, detail }.into())
}

pub(super) fn describe_end(end: &SessionEnd) -> String {
    let cause = end.cause.map_or(String::new(), |cause| format!(" ({})", cause.as_str()));
    let why = end.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("its session ended as {}{cause}{why}", end.state.as_str())
}

/// Maximum number of characters of an agent's message to quote as the reason for an ending.
const MAX_SAID: usize = 200;

/// Describes why a session ended badly: why Provost stopped it, which result refuted the work, or
/// why the agent gave up.
fn bad_end_reason(session: &Session, judged: &Judgement) -> Option<String> {
    let attempt = session.attempt();
    let stopped = attempt.stopped.as_ref().map(|(_, detail)| detail.clone());
    let crashed = judged.cause == Some(crate::lifecycle::Cause::Crash);
    let refuted = || match session.verification() {
        VerificationFact::Failed(refuted) if !crashed => Some(refuted.describe()),
        VerificationFact::None | VerificationFact::Failed(_) | VerificationFact::Passed(_) => None,
    };
    let gave_up = attempt.claim.as_ref().filter(|claim| claim.kind == ClaimKind::Failed);
    let first_line = gave_up.and_then(|claim| claim.text.as_deref()?.lines().next());
    let first_line = first_line
        .map(|line| format!("it said: {}", line.chars().take(MAX_SAID).collect::<String>()));
    stopped.or(first_line).or_else(refuted)
}

/// Describes how a session ended. Excludes the usage that the run already counted.
fn session_end(session: &Session, before: CountedUsage) -> SessionEnd {
    let (attempt, judged) = (session.attempt(), session.judgement());
    let verifying = &attempt.verifying;
    SessionEnd {
        state: judged.state,
        cause: judged.cause,
        why: bad_end_reason(session, &judged),
        gave_up: session.claim() == ClaimKind::Failed,
        said: attempt.claim.as_ref().and_then(|claim| claim.text.clone()),
        result: attempt.result.clone(),
        tree: attempt.sealed.as_ref().and_then(|sealed| sealed.tree.clone()),
        head: verifying.snapshot.clone(),
        receipts: verifying.receipts.clone(),
        caveats: verifying.caveats.clone(),
        usage: session.usage.since(before.usage),
        turns: session.turns.saturating_sub(before.turns),
    }
}
