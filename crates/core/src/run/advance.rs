//! What follows by itself, from the run and from its sessions as they stand. Level-triggered.

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

/// One thing that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Event(Event),
    /// The event together with what it does to a session, or not at all.
    With(Event, Order),
    /// Something to be said to a session; the run itself has nothing to record.
    Tell(SessionId, session::Command),
}

/// What is done to a session together with an event of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Open(SessionId, Box<Spec>),
    Tell(SessionId, Box<session::Command>),
}

/// What a run looks at besides itself.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub now: Moment,
    /// How many agents work for other runs.
    pub elsewhere: usize,
    /// Gives a session as it stands. One that cannot be looked at has not ended.
    pub look: &'a dyn Fn(SessionId) -> Option<&'a Session>,
}

/// What a session that ended is gone on with.
pub(super) struct Instruction {
    pub(super) key: String,
    pub(super) text: String,
}

impl Run {
    /// Gives the next thing that is due without anyone asking, or none. The caller folds it and asks again.
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

    /// Gives what is due besides what the sessions at work need.
    fn rest(&self, around: &Around<'_>) -> Option<Step> {
        // Nothing is begun for a run that was stopped, also while it is asked whether it had landed.
        match (self.leg().stopped.is_some(), self.is_live()) {
            (true, true) => None,
            (true, false) => self.seal_if_over(around.now),
            (false, true) if self.stage != Stage::Tasks => None,
            (false, _) => self.seal_if_over(around.now).or_else(|| self.go_on(around)),
        }
    }

    fn take_end(&self, session: &Session) -> Option<Step> {
        session.attempt().is_sealed().then(|| {
            let end = Box::new(end_of(session, self.used_before(session)));
            Step::Event(SessionEnded { session: session.id, end }.into())
        })
    }

    /// Gives what the run counted of a session already, from attempts before this one.
    fn used_before(&self, session: &Session) -> (session::Usage, u32) {
        let live = self.sessions.iter().find(|one| one.id == session.id);
        live.map_or_else(Default::default, |one| one.counted)
    }

    /// Goes along with a session that works.
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

    /// Gives how much a session may use in all: what is left, without what others at work use, and what was counted
    /// of it before.
    fn allowance(&self, session: &Session, around: &Around<'_>) -> Budget {
        let (left, (before, turns)) = (self.remaining(), self.used_before(session));
        let (others, others_turns) = self.used_by_others(session.id, around);
        Budget {
            tokens: left.tokens.map(|left| (left + before.total()).saturating_sub(others)),
            turns: left.turns.map(|left| (left + turns).saturating_sub(others_turns)),
        }
    }

    /// Gives what the other sessions at work used that is not counted yet.
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

    /// A session may use what is left of the run's budget, also when that was raised meanwhile.
    pub(super) fn give_more(&self, session: &Session, around: &Around<'_>) -> Option<Step> {
        let Budget { tokens, turns } = self.allowance(session, around);
        let more = |now: Option<u64>, may: Option<u64>| now.zip(may).is_some_and(|(n, m)| m > n);
        let raise = session::Command::RaiseBudget {
            tokens: tokens.filter(|_| more(session.budget.tokens, tokens)),
            turns: turns
                .filter(|_| more(session.budget.turns.map(u64::from), turns.map(u64::from))),
        };
        let nothing = session::Command::RaiseBudget { tokens: None, turns: None };
        (raise != nothing).then_some(Step::Tell(session.id, raise))
    }

    /// A session that is taken up again has the budget that it was opened with, of which others may have used a part.
    fn stop_overdrawn(&self, session: &Session, around: &Around<'_>) -> Option<Step> {
        let Budget { tokens, turns } = self.allowance(session, around);
        // One without a budget has no agent.
        let budget = Budget {
            tokens: tokens.filter(|_| session.budget.tokens.is_some()),
            turns: turns.filter(|_| session.budget.turns.is_some()),
        };
        let used = session.used_up_of(budget).filter(|_| session.may_use_more())?;
        if bug!(BudgetOverdrawn) {
            return None;
        }
        Some(stopped(Cause::Budget, used.detail))
    }

    /// Nobody works for the run any more: what was stopped, or landed, is over.
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

    /// Only a proof for the very tree that the run ends with makes `succeeded`.
    fn proved(&self) -> Ending {
        let proof = self.proof.as_ref().zip(self.head.as_ref());
        match proof.is_some_and(|(proof, head)| proof.is_for(head)) {
            true => Ending::Succeeded,
            false => Ending::Completed,
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

    /// Begins the current stage: takes up the conversation that was ended, or opens a new one.
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

    /// Work that was ended is gone on with in the same conversation and the same worktree.
    fn take_up(&self, around: &Around<'_>) -> Option<Step> {
        let before = self.sessions.last().filter(|one| one.stage == Stage::Work)?;
        let session = (around.look)(before.id).filter(|_| self.stage == Stage::Work)?;
        let ended = self.legs.iter().rev().find_map(|leg| leg.sealed.as_ref())?;
        let text = self.continuation(None, &ended.told());
        let instruction = Instruction { key: format!("leg-{}", self.leg().no), text };
        self.go_on_with(session, around, 1, instruction)
    }

    /// Goes on with a session that ended, if it takes that: its place of work or its conversation may be gone.
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

    /// Goes on with the landing: a step that needs somebody, or what the pull request says.
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
            // What was left is being committed; the answer comes.
            let head = end.head.as_ref()?;
            let step = current.map_or(0, |one| one.cycle);
            if let Some(files) = self.left_in_conflict(step, head) {
                let detail =
                    format!("files in conflict were left as they were: {}", files.join(", "));
                return Some(stopped(Cause::Landing, detail));
            }
        }
        match self.ahead()? {
            Ahead::Session(no, _) if self.only_checks(self.stage, no) => {
                self.open_session(self.job(no))
            }
            Ahead::Session(no, step) => match self.used_up() {
                Some(used) => Some(stopped(Cause::Budget, used)),
                None => self.begin_step(around, (no, step)),
            },
            Ahead::Land | Ahead::Approval => None,
            Ahead::Watch => self.end_watch(),
        }
    }

    /// What a pull request was told goes to whoever did the work, in the same conversation.
    fn begin_step(&self, around: &Around<'_>, (no, step): (u32, &LandStep)) -> Option<Step> {
        if !self.has_room(around) {
            return None;
        }
        let owner = match step {
            LandStep::Merge { .. } => None,
            LandStep::Answer { remarks } => {
                // A worktree that lacks what others did, or a reviewer mended, would lose it.
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

    /// Says whether what a session leaves passes all checks of the run, also those of other tasks.
    fn is_checked_by_all(&self, session: &Session) -> bool {
        self.all_checks().iter().all(|check| session.spec.checks.contains(check))
    }

    /// A pull request that was merged, or that all checks of others passed, is where the work was to go.
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

    /// Says what the end of a stage's session means for the run.
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
            ) => stopped(Cause::Triage, "triage told no result".to_owned()),
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

    /// Gives the stage that comes next. A review that is off is none.
    pub(super) fn following(&self, stage: Stage) -> Stage {
        let next = after(stage);
        let review = matches!(next, Stage::TaskReview | Stage::FinalReview);
        match review && self.spec.reviews.of(next) == ReviewMode::Off {
            true => self.following(next),
            false => next,
        }
    }

    /// Says whether work is done that began from a commit; none while what was left is being committed.
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
        Some(match empty && self.spec.empty_diff == EmptyDiff::Refused {
            true => Err("nothing was changed".to_owned()),
            false => Ok(()),
        })
    }

    /// Says whether a review is over; none while what it mended is being committed.
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
            return Some(Err("the review told no findings".to_owned()));
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

/// What comes after a review.
pub(super) enum Reviewing {
    Again,
    Done,
}

/// What a session would refuse is not told: nobody else is kept waiting for it.
fn is_taken(step: &Step, session: &Session, now: Moment) -> bool {
    match step {
        Step::Tell(_, command) => session.decide(command, now).is_ok(),
        Step::Event(_) | Step::With(..) => true,
    }
}

/// Whoever works for a run that was stopped is cancelled; that it is gone is the session's to verify.
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

/// So many characters of what an agent said are told as the reason of an end.
const SAID: usize = 200;

/// Gives the words for an end that was not a good one: why Provost ended it, what refuted the work, or why the agent gave
/// it up.
fn why(session: &Session, judged: &Judgement) -> Option<String> {
    let attempt = session.attempt();
    let stopped = attempt.stopped.as_ref().map(|(_, detail)| detail.clone());
    let crashed = judged.cause == Some(crate::lifecycle::Cause::Crash);
    let refuted = || match session.verification() {
        Verification::Failed(refuted) => Some(refuted.words()).filter(|_| !crashed),
        Verification::None | Verification::Passed(_) => None,
    };
    let gave_up = attempt.claim.as_ref().filter(|claim| claim.kind == ClaimKind::Failed);
    let said = gave_up.and_then(|claim| claim.text.as_deref()?.lines().next());
    let said = said.map(|said| format!("it said: {}", said.chars().take(SAID).collect::<String>()));
    stopped.or(said).or_else(refuted)
}

/// Gives how a session ended, without what the run counted of it before.
fn end_of(session: &Session, (used, turns): (session::Usage, u32)) -> SessionEnd {
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
