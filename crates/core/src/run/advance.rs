//! The automatic steps of a run. They are level-triggered: each step depends only on the current state of the run and
//! its sessions.

mod stages;

pub(super) use stages::ReviewProgress;

use super::{
    event::*,
    landing::LandingState,
    outcome::{RunAttemptOutcome, RunEnding, RunFailureCause},
    session_spec::SessionJob,
    spec::ReviewMode,
    stage::RunStage,
    state::{CountedUsage, Run, RunSession, RunStop, SessionEnd},
};
use crate::{
    ids::SessionId,
    lifecycle::{ClaimKind, Judgement, VerificationFact},
    request::Request,
    rules::rules,
    session::{Budget, SendMode, Session, SessionCommand, SessionSpec},
    time::Moment,
};

/// One automatic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    Event(Event),
    /// An event and a command to a session, recorded in one transaction.
    EventAndOrder(Event, SessionOrder),
    /// A command to a session, without an event of the run.
    Command(SessionId, SessionCommand),
}

/// The command to a session that accompanies an event of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    Open(SessionId, Box<SessionSpec>),
    Command(SessionId, Box<SessionCommand>),
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
                let used = other.spending.usage.since(one.counted.usage).total();
                (tokens + used, turns + other.spending.turns.saturating_sub(one.counted.turns))
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
        let more_tokens = more(session.spending.budget.tokens, tokens);
        let more_turns = more(session.spending.budget.turns.map(u64::from), turns.map(u64::from));
        let raise = SessionCommand::RaiseBudget {
            tokens: if more_tokens { tokens } else { None },
            turns: if more_turns { turns } else { None },
        };
        let nothing = SessionCommand::RaiseBudget { tokens: None, turns: None };
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
            tokens: session.spending.budget.tokens.and(tokens),
            turns: session.spending.budget.turns.and(turns),
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
        let send = SessionCommand::Send { key, text, mode: SendMode::Continue };
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
    undecided.then_some(RunStep::Command(session.id, SessionCommand::Cancel { because }))
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
        usage: session.spending.usage.since(before.usage),
        turns: session.spending.turns.saturating_sub(before.turns),
    }
}
