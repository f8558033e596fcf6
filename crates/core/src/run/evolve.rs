//! Folds an event into a run. Total: a stored event is never refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    event::*,
    graph::{Graph, Task},
    hook::{RunHookEvent, RunHookKey, RunHookOwed},
    landing::{LandStep, Landed, Landing, PullRequest},
    outcome::{Cause, Outcome, Proof},
    stage::Stage,
    state::{Leg, Reviewed, Run, RunSession, SessionEnd, Stopped},
};
use crate::{
    ids::{RunId, SessionId},
    result::Structured,
    session::Usage,
    time::Moment,
    verdict::Snapshot,
};

impl Run {
    /// Creates a run from its first event.
    pub fn open(id: RunId, at: Moment, event: &RunOpened) -> Run {
        let spec = (*event.spec).clone();
        let mut run = Run {
            id,
            opened: at,
            stage: Stage::Intake,
            since: at,
            legs: vec![Leg::opened(1, at)],
            sessions: Vec::new(),
            decisions: Vec::new(),
            forged_records: 0,
            seen: BTreeSet::new(),
            triage: None,
            planned: None,
            plan_faults: Vec::new(),
            graph: None,
            reviews: Vec::new(),
            head: None,
            proof: None,
            headless: None,
            landing: Landing::Open,
            held: None,
            consented: BTreeSet::new(),
            steps: Vec::new(),
            looks: 0,
            remarks_seen: BTreeSet::new(),
            remarks_left: Vec::new(),
            budget: spec.budget,
            usage: Usage::default(),
            turns: 0,
            hooks: Vec::new(),
            hooks_fired: BTreeMap::new(),
            imported: false,
            taken_over: false,
            spec,
        };
        run.owe_hook(RunHookEvent::Opened, at);
        run
    }

    /// Folds one event.
    pub fn evolve(&mut self, at: Moment, event: &Event) {
        let before = self.state();
        self.apply(at, event);
        if self.state() != before {
            self.since = self.leg().sealed.as_ref().map_or(at, |outcome| outcome.at);
        }
    }

    fn apply(&mut self, at: Moment, event: &Event) {
        match event {
            // A run is opened once: `open` folds the first event.
            Event::RunOpened(_) => {}
            Event::StageEntered(e) => self.enter(e.stage, at),
            Event::SessionOwed(e) => self.add_session(e),
            Event::SessionEnded(e) => self.end_session(e.session, &e.end, at),
            Event::QuestionSeen(e) => {
                self.seen.insert((e.request, e.revision));
                self.owe_hook(RunHookEvent::Question, at);
            }
            Event::DecisionMade(e) => self.decisions.push(e.decision.clone()),
            Event::PlanMade(_)
            | Event::PlanFaulty(_)
            | Event::PlanReviewed(_)
            | Event::PlanApproved(_) => self.apply_plan(at, event),
            Event::ErrandOwed(_)
            | Event::ErrandDone(_)
            | Event::HandedOver(_)
            | Event::TaskRetried(_)
            | Event::TaskQueued(_)
            | Event::TaskReturned(_)
            | Event::TaskFailed(_) => self.apply_task(event),
            Event::BatchMerged(_) | Event::PrefixProved(_) | Event::Integrated(_) => {
                self.apply_queue(event);
            }
            Event::HeadTaken(e) => self.take_left(e),
            Event::HeadFailed(e) => match self.task_of(e.session) {
                Some(task) => task.headless = Some(e.reason.clone()),
                None => self.headless = Some(e.reason.clone()),
            },
            Event::StepTaken(e) => self.take_step(&e.step),
            Event::PullRequested(e) => {
                let (number, url, commit) = (e.number, e.url.clone(), e.commit.clone());
                self.landing = Landing::Requested(PullRequest { number, url, commit, seen: None });
            }
            Event::PullSeen(e) => {
                self.looks += 1;
                if let Landing::Requested(pull) = &mut self.landing {
                    pull.seen = Some(e.state.clone());
                }
            }
            Event::RemarksLeft(e) => {
                self.remarks_seen.extend(e.remarks.iter().map(|remark| remark.id.clone()));
                self.remarks_left.extend(e.remarks.iter().cloned());
            }
            Event::LandingHeld(e) => {
                self.held = Some((*e.held).clone());
                self.owe_hook(RunHookEvent::Question, at);
            }
            Event::LandingApproved(e) => {
                if let Some(held) =
                    self.held.as_mut().filter(|held| held.landing.commit == e.commit)
                {
                    held.approved = true;
                }
            }
            Event::WorkLanded(e) => self.land(e),
            Event::LandFailed(e) => {
                self.stop_for(Cause::Landing, &e.reason);
                self.leg_mut().landing_over = true;
            }
            Event::LandOver(e) => {
                self.leg_mut().landing_over = true;
                let pull = e.pull.clone().map(Landing::Requested);
                self.landing = pull.unwrap_or_else(|| std::mem::take(&mut self.landing));
            }
            Event::RunCancelled(e) => {
                self.leg_mut().stopped = Some(Stopped::Cancelled { because: e.because.clone() });
            }
            Event::RunStopped(e) => self.stop_for(e.cause, &e.detail),
            Event::RunSealed(e) => {
                let ending = e.outcome.ending;
                self.leg_mut().sealed = Some(e.outcome.clone());
                self.owe_hook(RunHookEvent::Ended(ending), at);
            }
            Event::RunTakenOver(_) => self.taken_over = true,
            Event::RunResumed(e) => {
                let ended = self.leg().sealed.as_ref().map(Outcome::told).unwrap_or_default();
                self.graph.iter_mut().for_each(|graph| graph.restart(&ended));
                self.legs.push(Leg { steps: self.steps.len(), ..Leg::opened(e.leg, at) });
                (self.headless, self.held) = (None, None);
                // The cause of the last end may be fixed by now, so the pull request is queried
                // again.
                if let Landing::Requested(pull) = &mut self.landing {
                    pull.seen = None;
                }
                self.enter(e.stage, at);
            }
            Event::BudgetRaised(e) => {
                self.budget.tokens = e.tokens.or(self.budget.tokens);
                self.budget.turns = e.turns.or(self.budget.turns);
            }
            Event::HookFinished(e) => self.hooks.retain(|hook| hook.key != e.key),
            Event::CardWritten(e) => {
                let leg = self.legs.iter_mut().find(|leg| leg.no == e.leg);
                leg.into_iter().for_each(|leg| (leg.card, leg.changed) = (true, e.changed.clone()));
            }
            Event::RecordForged(_) => self.forged_records = self.forged_records.saturating_add(1),
        }
    }

    fn take_step(&mut self, step: &LandStep) {
        match step {
            LandStep::Merge { merge, .. } => self.take_head(merge, None),
            LandStep::Answer { remarks } => {
                self.remarks_seen.extend(remarks.iter().map(|remark| remark.id.clone()));
            }
        }
        self.steps.push(step.clone());
    }

    fn land(&mut self, e: &WorkLanded) {
        let pull_request = match std::mem::take(&mut self.landing) {
            Landing::Requested(pull) => Some(pull),
            Landing::Done(landed) => landed.pull_request,
            Landing::Open => None,
        };
        let (branch, commit) = (e.branch.clone(), e.commit.clone());
        self.landing = Landing::Done(Landed { branch, commit, merged: e.merged, pull_request });
    }

    fn enter(&mut self, stage: Stage, at: Moment) {
        (self.stage, self.since) = (stage, at);
        if stage == Stage::Tasks
            && self.graph.is_none()
            && let Some(planned) = &self.planned
        {
            self.graph = Some(Graph::new(planned.plan.clone()));
        }
    }

    fn take_left(&mut self, e: &HeadTaken) {
        let end = self.sessions.iter_mut().find(|one| one.id == e.session);
        if let Some(end) = end.and_then(|session| session.end.as_mut()).map(Arc::make_mut) {
            end.head = Some(e.head.clone());
            end.caveats = e.caveats.clone();
        }
        match self.task_of(e.session) {
            Some(task) => task.take_head(&e.head, None),
            None => self.take_head(&e.head, None),
        }
    }

    /// Returns the task that a session works for.
    fn task_of(&mut self, session: SessionId) -> Option<&mut Task> {
        let found = self.sessions.iter().rev().find(|one| one.id == session);
        let task = found.and_then(|one| one.task.clone())?;
        self.graph.as_mut()?.task_mut(&task)
    }

    /// Adds a session, or reopens one that had ended.
    fn add_session(&mut self, e: &SessionOwed) {
        let before = self.sessions.iter().position(|session| session.id == e.session);
        let before = before.map(|at| self.sessions.remove(at));
        let no = before.as_ref().map_or(self.sessions.len() as u32 + 1, |one| one.no);
        let opened_in = before.as_ref().map_or(e.stage, |one| one.opened_in);
        let counted = before.map_or_else(Default::default, |one| one.counted);
        let (leg, id, stage, cycle) = (self.leg().no, e.session, e.stage, e.cycle);
        let (task, told, end) = (e.task.clone(), self.decisions.len(), None);
        let session = RunSession { id, no, leg, stage, opened_in, task, cycle, told, counted, end };
        self.sessions.push(session);
        self.begin_task(e);
    }

    fn end_session(&mut self, id: SessionId, end: &SessionEnd, at: Moment) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else {
            return;
        };
        session.end = Some(Arc::new(end.clone()));
        let (used, turns) = &mut session.counted;
        used.add(end.usage);
        *turns = turns.saturating_add(end.turns);
        let (stage, cycle, task) = (session.stage, session.cycle, session.task.clone());
        self.usage.add(end.usage);
        self.turns = self.turns.saturating_add(end.turns);
        match &end.result {
            Some(Structured::Triage(triage)) => self.triage = Some(triage.clone()),
            Some(Structured::Review(review)) => {
                let found = !review.findings.is_empty();
                let review = review.clone();
                self.reviews.push(Reviewed { session: id, stage, task, cycle, review });
                if found {
                    self.owe_hook(RunHookEvent::Findings, at);
                }
            }
            Some(Structured::Plan(_) | Structured::PlanReview(_)) | None => {}
        }
        if stage == Stage::Tasks {
            return self.end_check(id, end);
        }
        if let Some(task) = self.task_of(id) {
            task.usage.add(end.usage);
        }
        if let Some(head) = &end.head
            && end.is_good()
        {
            match self.task_of(id) {
                Some(task) => task.take_head(head, Proof::of(end)),
                None => self.take_head(head, Proof::of(end)),
            }
        }
    }

    /// Sets the newest commit. A new commit voids an old proof.
    pub(super) fn take_head(&mut self, head: &Snapshot, proof: Option<Proof>) {
        let stands =
            self.proof.take().filter(|proof| proof.is_for(head) || bug!(ProofOutlivesCommit));
        self.proof = proof.or(stands);
        // An approval is valid only for the tree that was shown.
        self.held = self.held.take().filter(|held| held.landing.tree == head.tree);
        self.head = Some(head.clone());
    }

    /// Stops the run. A cancelled run stays cancelled.
    fn stop_for(&mut self, cause: Cause, detail: &str) {
        let detail = detail.to_owned();
        if bug!(RunCancelOverwritten) {
            self.leg_mut().stopped = None;
        }
        self.leg_mut().stopped.get_or_insert(Stopped::Failed { cause, detail });
    }

    pub(super) fn owe_hook(&mut self, event: RunHookEvent, at: Moment) {
        if !self.spec.hooks.contains_key(&event) {
            return;
        }
        let no = self.hooks_fired.entry(event).or_default();
        *no += u32::from(!bug!(RunHookKeyReused));
        let key = RunHookKey { event, no: *no };
        let (leg, stage) = (self.leg().no, self.stage);
        self.hooks.push(RunHookOwed { key, leg, stage, at });
    }
}

impl Leg {
    fn opened(no: u32, at: Moment) -> Leg {
        Leg {
            no,
            opened: at,
            steps: 0,
            stopped: None,
            sealed: None,
            landing_over: false,
            card: false,
            changed: None,
        }
    }
}
