//! Automatic steps that follow from a run and the current state of its sessions. Level-triggered.

use super::{
    event::*,
    landing::{Ahead, LandStep, Landing, PullChecks, PullStanding, PullState},
    outcome::{Cause, Ending, Outcome},
    place::{Job, repeats},
    spec::{PlanMode, ReviewMode},
    stage::Stage,
    state::{Run, RunSession, SessionEnd, Stopped},
};
use crate::{
    ids::SessionId,
    lifecycle::{ClaimKind, Judgement, Verification},
    request::Request,
    result::Structured,
    session::{self, Budget, SendMode, Session, Spec},
    time::Moment,
    verdict::{EmptyDiff, Snapshot},
};

/// One automatic step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Event(Event),
    /// An event together with its effect on a session, applied both or neither.
    With(Event, Order),
    /// A command to a session, without an event of the run.
    Tell(SessionId, session::Command),
}

/// The effect on a session that accompanies an event of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Open(SessionId, Box<Spec>),
    Tell(SessionId, Box<session::Command>),
}

/// The read context of `advance`, besides the run itself.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub now: Moment,
    /// Number of agents that work for other runs.
    pub elsewhere: usize,
    /// Returns the current state of a session. One that cannot be read is not treated as ended.
    pub look: &'a dyn Fn(SessionId) -> Option<&'a Session>,
}

/// The instruction that resumes an ended session.
pub(super) struct Instruction {
    pub(super) key: String,
    pub(super) text: String,
}

impl Run {
    /// Returns the next automatic step, or none. The caller folds it and calls again.
    pub fn advance(&self, around: &Around<'_>) -> Option<Step> {
        if self.is_sealed() {
            return None;
        }
        self.live().find_map(|live| self.attend_session(live, around)).or_else(|| self.rest(around))
    }

    fn attend_session(&self, live: &RunSession, around: &Around<'_>) -> Option<Step> {
        let session = (around.look)(live.id)?;
        let first = self.keep_decision(session).or_else(|| self.take_end(session));
        match &self.leg().stopped {
            Some(stopped) => first.or_else(|| end_live(session, stopped)),
            None => first.or_else(|| self.go_along(session, around)),
        }
        .filter(|step| is_taken(step, session, around.now))
    }

    /// Returns the next step besides those of the running sessions.
    fn rest(&self, around: &Around<'_>) -> Option<Step> {
        // A stopped run starts nothing new, even while Provost checks whether it had landed.
        match (self.leg().stopped.is_some(), self.is_live()) {
            (true, true) => None,
            (true, false) => self.seal_if_over(around.now),
            (false, true) if self.stage != Stage::Tasks => None,
            (false, _) => self.seal_if_over(around.now).or_else(|| self.go_on(around)),
        }
    }

    fn take_end(&self, session: &Session) -> Option<Step> {
        session.attempt().is_sealed().then(|| {
            let (used, turns) = self.used_before(session);
            let end = Box::new(end_of(session, used, turns));
            Step::Event(SessionEnded { session: session.id, end }.into())
        })
    }

    /// Returns the part of a session's usage that the run has already counted, from earlier
    /// attempts.
    fn used_before(&self, session: &Session) -> (session::Usage, u32) {
        let live = self.sessions.iter().find(|one| one.id == session.id);
        live.map_or_else(Default::default, |one| one.counted)
    }

    /// Attends a running session.
    fn go_along(&self, session: &Session, around: &Around<'_>) -> Option<Step> {
        let taken = |step: &Step| is_taken(step, session, around.now);
        self.answer_again(session)
            .filter(taken)
            .or_else(|| self.see_request(session))
            .or_else(|| self.tell_decision(session).filter(taken))
            .or_else(|| self.give_more(session, around).filter(taken))
            .or_else(|| self.stop_overdrawn(session, around))
    }

    fn see_request(&self, session: &Session) -> Option<Step> {
        let new = |request: &&Request| !self.seen.contains(&(request.id, request.revision));
        let request = session.open_requests().find(new)?;
        let seen = QuestionSeen { request: request.id, revision: request.revision };
        Some(Step::Event(seen.into()))
    }

    /// Returns a session's total allowance: the remaining budget, minus the uncounted usage of the
    /// other sessions, plus what was counted of it before.
    fn allowance(&self, session: &Session, around: &Around<'_>) -> Budget {
        let (left, (before, turns)) = (self.remaining(), self.used_before(session));
        let (others, others_turns) = self.used_by_others(session.id, around);
        Budget {
            tokens: left.tokens.map(|left| (left + before.total()).saturating_sub(others)),
            turns: left.turns.map(|left| (left + turns).saturating_sub(others_turns)),
        }
    }

    /// Returns the uncounted usage of the other running sessions.
    fn used_by_others(&self, session: SessionId, around: &Around<'_>) -> (u64, u32) {
        let others = self.live().filter(|one| one.id != session);
        others.fold((0, 0), |(tokens, turns), one| match (around.look)(one.id) {
            Some(other) => {
                let (before, turns_before) = one.counted;
                let used = other.usage.since(before).total();
                (tokens + used, turns + other.turns.saturating_sub(turns_before))
            }
            None => (tokens, turns),
        })
    }

    /// Raises a session's budget to what is left of the run's, in case that was raised.
    pub(super) fn give_more(&self, session: &Session, around: &Around<'_>) -> Option<Step> {
        let Budget { tokens, turns } = self.allowance(session, around);
        let more = |now: Option<u64>, may: Option<u64>| now.zip(may).is_some_and(|(n, m)| m > n);
        let more_tokens = more(session.budget.tokens, tokens);
        let more_turns = more(session.budget.turns.map(u64::from), turns.map(u64::from));
        let raise = session::Command::RaiseBudget {
            tokens: if more_tokens { tokens } else { None },
            turns: if more_turns { turns } else { None },
        };
        let nothing = session::Command::RaiseBudget { tokens: None, turns: None };
        (raise != nothing).then_some(Step::Tell(session.id, raise))
    }

    /// Stops a resumed session that exceeds the remaining budget: it keeps its original budget, of
    /// which other sessions may have used a part.
    fn stop_overdrawn(&self, session: &Session, around: &Around<'_>) -> Option<Step> {
        let Budget { tokens, turns } = self.allowance(session, around);
        // A session without a budget has no agent.
        let budget = Budget {
            tokens: session.budget.tokens.and(tokens),
            turns: session.budget.turns.and(turns),
        };
        if !session.may_use_more() {
            return None;
        }
        let used = session.used_up_of(budget)?;
        if bug!(BudgetOverdrawn) {
            return None;
        }
        Some(stopped(Cause::Budget, used.detail))
    }

    /// Seals a stopped or landed run once no session works for it any more.
    fn seal_if_over(&self, now: Moment) -> Option<Step> {
        if self.is_stopped_landing() && !bug!(SealedWhileLanding) {
            return None;
        }
        let leg = self.leg();
        let (ending, cause, detail) = match (&leg.stopped, &self.landing) {
            (Some(Stopped::Cancelled { because }), _) => (Ending::Cancelled, None, because.clone()),
            (Some(Stopped::Failed { cause, detail }), _) => {
                (Ending::Failed, Some(*cause), detail.clone())
            }
            (None, Landing::Done(_)) => (self.proved(), None, String::new()),
            (None, Landing::Open | Landing::Requested(_)) if self.ends_with_plan() => {
                (Ending::Completed, None, String::new())
            }
            (None, Landing::Open | Landing::Requested(_)) => return None,
        };
        let outcome = Outcome { ending, cause, detail, head: self.head.clone(), at: now };
        Some(Step::Event(RunSealed { leg: leg.no, outcome }.into()))
    }

    /// Only a proof for the final tree of the run makes `succeeded`.
    fn proved(&self) -> Ending {
        let proof = self.proof.as_ref().zip(self.head.as_ref());
        if proof.is_some_and(|(proof, head)| proof.is_for(head)) {
            Ending::Succeeded
        } else {
            Ending::Completed
        }
    }

    fn go_on(&self, around: &Around<'_>) -> Option<Step> {
        match (self.stage, self.current()) {
            (Stage::Intake, _) => Some(self.leave_intake()),
            (Stage::Land, current) => self.go_to_land(around, current),
            (Stage::Tasks, _) => self.go_on_with_tasks(around),
            (Stage::PlanReview, _) if self.is_plan_settled() => self.leave_plan(),
            (Stage::PlanReview, None) if !self.is_plan_reviewed_by_agent() => self.pass_plan(),
            (
                Stage::Triage
                | Stage::Plan
                | Stage::PlanReview
                | Stage::Work
                | Stage::TaskReview
                | Stage::FinalReview,
                None,
            ) => self.begin(around),
            (_, Some(RunSession { end: None, .. })) => None,
            (_, Some(RunSession { end: Some(end), cycle, .. })) => {
                self.conclude(end, *cycle, around)
            }
        }
    }

    /// Begins the current stage: resumes its ended conversation, or opens a new one.
    fn begin(&self, around: &Around<'_>) -> Option<Step> {
        let review = matches!(self.stage, Stage::TaskReview | Stage::FinalReview);
        if review && self.spec.reviews.of(self.stage) == ReviewMode::Off {
            return Some(enter(self.following(self.stage)));
        }
        if let Some(used) = self.used_up() {
            return Some(stopped(Cause::Budget, used));
        }
        if !self.has_room(around) {
            return None;
        }
        self.take_up(around).or_else(|| self.open_session(self.job(1)))
    }

    /// Resumes interrupted work in the same conversation and worktree.
    fn take_up(&self, around: &Around<'_>) -> Option<Step> {
        if self.stage != Stage::Work {
            return None;
        }
        let before = self.sessions.last().filter(|one| one.stage == Stage::Work)?;
        let session = (around.look)(before.id)?;
        let ended = self.legs.iter().rev().find_map(|leg| leg.sealed.as_ref())?;
        let text = self.continuation(None, &ended.told());
        let instruction = Instruction { key: format!("leg-{}", self.leg().no), text };
        self.go_on_with(session, around, 1, instruction)
    }

    /// Resumes an ended session if it accepts that. Its worktree or conversation may be gone.
    pub(super) fn go_on_with(
        &self,
        session: &Session,
        around: &Around<'_>,
        cycle: u32,
        Instruction { key, text }: Instruction,
    ) -> Option<Step> {
        if !session.attempt().is_sealed() {
            return None;
        }
        if let Some(raise) = self.give_more(session, around) {
            return Some(raise);
        }
        let send = session::Command::Send { key, text, mode: SendMode::Continue };
        let owed = SessionOwed { session: session.id, stage: self.stage, cycle, task: None };
        let taken = session.decide(&send, around.now).is_ok();
        taken.then(|| Step::With(owed.into(), Order::Tell(session.id, Box::new(send))))
    }

    pub(super) fn open_session(&self, job: Job<'_>) -> Option<Step> {
        let no = self.sessions.len() as u32 + 1;
        let spec = self.session_spec(no, &job)?;
        let session = self.id.session(no);
        let task = job.task.map(|task| task.id.clone());
        let owed = SessionOwed { session, stage: job.stage, cycle: job.cycle, task };
        Some(Step::With(owed.into(), Order::Open(session, Box::new(spec))))
    }

    /// Continues the landing: with a step that needs a session, or with the state of the pull
    /// request.
    fn go_to_land(&self, around: &Around<'_>, current: Option<&RunSession>) -> Option<Step> {
        if let Some(end) = current.and_then(|one| one.end.as_ref()) {
            if !end.is_good() {
                let budget = end.cause == Some(crate::lifecycle::Cause::Budget);
                let cause = if budget { Cause::Budget } else { Cause::Landing };
                return Some(stopped(cause, ended(end)));
            }
            if let Some(reason) = &self.headless {
                return Some(stopped(Cause::Landing, reason.clone()));
            }
            // The leftover changes are being committed, so the head is still to come.
            let head = end.head.as_ref()?;
            let step = current.map_or(0, |one| one.cycle);
            if let Some(files) = self.left_in_conflict(step, head) {
                let detail = format!("conflicts were not resolved in: {}", files.join(", "));
                return Some(stopped(Cause::Landing, detail));
            }
        }
        match self.ahead()? {
            Ahead::Session(no, _) if self.only_checks(self.stage, no) => {
                self.open_session(self.job(no))
            }
            Ahead::Session(no, step) => match self.used_up() {
                Some(used) => Some(stopped(Cause::Budget, used)),
                None => self.begin_step(around, no, step),
            },
            Ahead::Land | Ahead::Approval => None,
            Ahead::Watch => self.end_watch(),
        }
    }

    /// Sends review comments to the session that did the work, in the same conversation.
    fn begin_step(&self, around: &Around<'_>, no: u32, step: &LandStep) -> Option<Step> {
        if !self.has_room(around) {
            return None;
        }
        let owner = match step {
            LandStep::Merge { .. } => None,
            LandStep::Answer { remarks } => {
                // A worktree without the newest work of other tasks or of a reviewer would lose it.
                let owner = self.owner().filter(|one| self.has_newest(one));
                let owner = owner.and_then(|one| (around.look)(one.id));
                owner.filter(|session| self.is_checked_by_all(session)).zip(Some(remarks))
            }
        };
        let taken_up = owner.and_then(|(owner, remarks)| {
            let key = format!("land-{}-{no}", self.leg().no);
            let text = self.remarked(None, remarks);
            self.go_on_with(owner, around, no, Instruction { key, text })
        });
        taken_up.or_else(|| self.open_session(self.job(no)))
    }

    /// Whether the session's result is verified by all checks of the run, including those of other
    /// tasks.
    fn is_checked_by_all(&self, session: &Session) -> bool {
        self.all_checks().iter().all(|check| session.spec.checks.contains(check))
    }

    /// Ends the watch: a merged pull request, or one whose checks all passed, completes the
    /// landing.
    fn end_watch(&self) -> Option<Step> {
        let Landing::Requested(pull) = &self.landing else { return None };
        let PullState { standing, checks, .. } = pull.seen.as_ref()?;
        let (branch, commit) = (self.spec.branch.clone(), pull.commit.clone());
        let landed = |merged| Step::Event(WorkLanded { branch, commit, merged }.into());
        match (standing, checks) {
            (PullStanding::Merged, _) => Some(landed(true)),
            (PullStanding::Closed, _) => {
                Some(stopped(Cause::Landing, "the pull request was closed".to_owned()))
            }
            (PullStanding::Open, PullChecks::Pending) => None,
            (PullStanding::Open, PullChecks::Passed | PullChecks::None) => Some(landed(false)),
            (PullStanding::Open, PullChecks::Failed) => {
                Some(stopped(Cause::Landing, "checks of the pull request failed".to_owned()))
            }
        }
    }

    /// Decides how the run continues after a session of the stage ended.
    fn conclude(&self, end: &SessionEnd, cycle: u32, around: &Around<'_>) -> Option<Step> {
        if end.cause == Some(crate::lifecycle::Cause::Budget) {
            return Some(stopped(Cause::Budget, ended(end)));
        }
        match self.stage {
            Stage::Intake | Stage::Tasks | Stage::Land => None,
            Stage::Triage => Some(self.conclude_triage(end)),
            Stage::Plan => self.conclude_plan(end, cycle, around),
            Stage::PlanReview => self.conclude_plan_review(end, cycle, around),
            Stage::Work => self.conclude_work(end),
            Stage::TaskReview | Stage::FinalReview => self.conclude_review(end, cycle, around),
        }
    }

    fn conclude_triage(&self, end: &SessionEnd) -> Step {
        match (&end.result, end.is_good()) {
            (Some(Structured::Triage(triage)), true) => {
                let planned = match self.spec.planning.mode {
                    PlanMode::Always => true,
                    PlanMode::Auto => triage.needs_plan,
                    PlanMode::Never => false,
                };
                enter(if planned { Stage::Plan } else { Stage::Work })
            }
            (
                Some(Structured::Plan(_) | Structured::PlanReview(_) | Structured::Review(_))
                | None,
                true,
            ) => stopped(Cause::Triage, "triage returned no result".to_owned()),
            (_, false) => stopped(Cause::Triage, ended(end)),
        }
    }

    fn conclude_work(&self, end: &SessionEnd) -> Option<Step> {
        let from = &self.spec.target.base;
        Some(match self.worked(end, self.headless.as_deref(), from)? {
            Ok(()) => enter(self.following(self.stage)),
            Err(why) => stopped(Cause::Work, why),
        })
    }

    fn conclude_review(&self, end: &SessionEnd, cycle: u32, around: &Around<'_>) -> Option<Step> {
        match self.reviewed(self.stage, end, cycle, self.headless.as_deref())? {
            Err(why) => Some(stopped(Cause::Review, why)),
            Ok(Reviewing::Done) => Some(enter(self.following(self.stage))),
            Ok(Reviewing::Again) => match self.used_up() {
                Some(used) => Some(stopped(Cause::Budget, used)),
                None if !self.has_room(around) => None,
                None => self.open_session(self.job(cycle + 1)),
            },
        }
    }

    /// Returns the next stage. A disabled review is skipped.
    pub(super) fn following(&self, stage: Stage) -> Stage {
        let next = after(stage);
        let review = matches!(next, Stage::TaskReview | Stage::FinalReview);
        if review && self.spec.reviews.of(next) == ReviewMode::Off {
            self.following(next)
        } else {
            next
        }
    }

    /// Whether the work since a commit is complete; none while leftover changes are being
    /// committed.
    pub(super) fn worked(
        &self,
        end: &SessionEnd,
        headless: Option<&str>,
        from: &Snapshot,
    ) -> Option<Result<(), String>> {
        if !end.is_good() {
            return Some(Err(ended(end)));
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

    /// Whether a review is complete; none while its fixes are being committed.
    pub(super) fn reviewed(
        &self,
        stage: Stage,
        end: &SessionEnd,
        cycle: u32,
        headless: Option<&str>,
    ) -> Option<Result<Reviewing, String>> {
        if !end.is_good() {
            return Some(Err(ended(end)));
        }
        let Some(Structured::Review(review)) = &end.result else {
            return Some(Err("the review returned no findings".to_owned()));
        };
        if let Some(reason) = headless {
            return Some(Err(reason.to_owned()));
        }
        let mode = self.spec.reviews.of(stage);
        if repeats(mode) && end.head.is_none() {
            return None;
        }
        let again = repeats(mode) && !review.findings.is_empty();
        let again = again && cycle < self.spec.reviews.cycles;
        Some(Ok(if again { Reviewing::Again } else { Reviewing::Done }))
    }
}

/// What follows a review.
pub(super) enum Reviewing {
    Again,
    Done,
}

/// Whether a session accepts the step. A step that it would reject is skipped, so that it blocks no
/// other.
fn is_taken(step: &Step, session: &Session, now: Moment) -> bool {
    match step {
        Step::Tell(_, command) => session.decide(command, now).is_ok(),
        Step::Event(_) | Step::With(..) => true,
    }
}

/// Cancels a session of a stopped run. The session itself verifies that its processes are gone.
fn end_live(session: &Session, stopped: &Stopped) -> Option<Step> {
    let because = match stopped {
        Stopped::Cancelled { because } => format!("its run was cancelled: {because}"),
        Stopped::Failed { detail, .. } => format!("its run ended: {detail}"),
    };
    let undecided = !session.attempt().is_decided();
    undecided.then_some(Step::Tell(session.id, session::Command::Cancel { because }))
}

fn after(stage: Stage) -> Stage {
    match stage {
        Stage::Intake => Stage::Triage,
        Stage::Plan => Stage::PlanReview,
        Stage::PlanReview => Stage::Tasks,
        Stage::Tasks => Stage::FinalReview,
        Stage::Triage => Stage::Work,
        Stage::Work => Stage::TaskReview,
        Stage::TaskReview => Stage::FinalReview,
        Stage::FinalReview | Stage::Land => Stage::Land,
    }
}

pub(super) fn enter(stage: Stage) -> Step {
    Step::Event(StageEntered { stage }.into())
}

pub(super) fn stopped(cause: Cause, detail: String) -> Step {
    Step::Event(RunStopped { cause, detail }.into())
}

pub(super) fn ended(end: &SessionEnd) -> String {
    let cause = end.cause.map_or(String::new(), |cause| format!(" ({})", cause.word()));
    let why = end.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("its session ended as {}{cause}{why}", end.state.word())
}

/// Maximum number of characters of an agent's message that are quoted as the reason of an end.
const SAID: usize = 200;

/// Describes a bad end: why Provost ended the session, what refuted the work, or why the agent gave
/// up.
fn why(session: &Session, judged: &Judgement) -> Option<String> {
    let attempt = session.attempt();
    let stopped = attempt.stopped.as_ref().map(|(_, detail)| detail.clone());
    let crashed = judged.cause == Some(crate::lifecycle::Cause::Crash);
    let refuted = || match session.verification() {
        Verification::Failed(refuted) if !crashed => Some(refuted.words()),
        Verification::None | Verification::Failed(_) | Verification::Passed(_) => None,
    };
    let gave_up = attempt.claim.as_ref().filter(|claim| claim.kind == ClaimKind::Failed);
    let said = gave_up.and_then(|claim| claim.text.as_deref()?.lines().next());
    let said = said.map(|said| format!("it said: {}", said.chars().take(SAID).collect::<String>()));
    stopped.or(said).or_else(refuted)
}

/// Returns how a session ended, without the usage that the run counted before.
fn end_of(session: &Session, used: session::Usage, turns: u32) -> SessionEnd {
    let (attempt, judged) = (session.attempt(), session.judgement());
    let verifying = &attempt.verifying;
    SessionEnd {
        state: judged.state,
        cause: judged.cause,
        why: why(session, &judged),
        gave_up: session.claim() == ClaimKind::Failed,
        said: attempt.claim.as_ref().and_then(|claim| claim.text.clone()),
        result: attempt.result.clone(),
        tree: attempt.sealed.as_ref().and_then(|sealed| sealed.tree.clone()),
        head: verifying.snapshot.clone(),
        receipts: verifying.receipts.clone(),
        caveats: verifying.caveats.clone(),
        usage: session.usage.since(used),
        turns: session.turns.saturating_sub(turns),
    }
}
