//! Applies events to a run. This never fails, because every stored event must remain readable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    event::*,
    graph::{TaskGraph, TaskState},
    hook::{PendingRunHook, RunHookEvent, RunHookKey},
    landing::{LandStep, LandedWork, LandingState, PullRequest},
    outcome::{RunAttemptOutcome, RunFailureCause, TreeProof},
    stage::RunStage,
    state::{Run, RunAttempt, RunSession, RunStop, SessionEnd, StageReview},
};
use crate::{
    ids::{RunId, SessionId},
    result::StructuredResult,
    rules::rules,
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
            stage: RunStage::Intake,
            since: at,
            attempts: vec![RunAttempt::new(1, at)],
            sessions: Vec::new(),
            verifications: Vec::new(),
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
            commit_failure: None,
            landing: LandingState::Open,
            held: None,
            consented: BTreeSet::new(),
            steps: Vec::new(),
            pull_request_changes: 0,
            comments_seen: BTreeSet::new(),
            comments_dropped: Vec::new(),
            budget: spec.budget,
            usage: Usage::default(),
            turns: 0,
            hooks: Vec::new(),
            hooks_fired: BTreeMap::new(),
            imported: false,
            taken_over: false,
            spec,
        };
        run.add_pending_hook(RunHookEvent::Opened, at);
        run
    }

    /// Applies one event.
    pub fn evolve(&mut self, at: Moment, event: &Event) {
        let before = self.state();
        self.apply(at, event);
        if self.state() != before {
            self.since = self.attempt().sealed.as_ref().map_or(at, |outcome| outcome.at);
        }
    }

    fn apply(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Run(event) => self.apply_change(at, event),
            Event::Stage(event) => self.apply_stage(at, event),
            Event::Plan(event) => self.apply_plan(at, event),
            Event::Task(event) => self.apply_task(event),
            Event::Queue(event) => self.apply_queue(event),
            Event::Verification(event) => self.apply_verification(event),
            Event::Landing(event) => self.apply_landing(at, event),
        }
    }

    /// Applies a change to the run itself.
    fn apply_change(&mut self, at: Moment, event: &RunChange) {
        match event {
            // `open` handles this event, which is always the first in the stream.
            RunChange::RunOpened(_) => {}
            RunChange::RunCancelled(e) => {
                self.attempt_mut().stopped =
                    Some(RunStop::Cancelled { because: e.because.clone() });
            }
            RunChange::RunStopped(e) => self.stop(e.cause, &e.detail),
            RunChange::RunSealed(e) => {
                let ending = e.outcome.ending;
                self.attempt_mut().sealed = Some(e.outcome.clone());
                self.add_pending_hook(RunHookEvent::Ended(ending), at);
            }
            RunChange::RunResumed(e) => {
                let ended = self
                    .attempt()
                    .sealed
                    .as_ref()
                    .map(RunAttemptOutcome::describe)
                    .unwrap_or_default();
                self.graph.iter_mut().for_each(|graph| graph.restart(&ended));
                self.attempts
                    .push(RunAttempt { steps: self.steps.len(), ..RunAttempt::new(e.attempt, at) });
                (self.commit_failure, self.held) = (None, None);
                // The cause that ended the last attempt may be resolved by now, so query the pull request again.
                if let LandingState::Requested(pull) = &mut self.landing {
                    pull.seen = None;
                }
                self.enter_stage(e.stage, at);
            }
            RunChange::RunTakenOver(_) => self.taken_over = true,
            RunChange::BudgetRaised(e) => {
                self.budget.tokens = e.tokens.or(self.budget.tokens);
                self.budget.turns = e.turns.or(self.budget.turns);
            }
            RunChange::HookFinished(e) => self.hooks.retain(|hook| hook.key != e.key),
            RunChange::RunReportWritten(e) => {
                let attempt = self.attempts.iter_mut().find(|attempt| attempt.no == e.attempt);
                attempt.into_iter().for_each(|attempt| {
                    (attempt.report_written, attempt.changed) = (true, e.changed.clone())
                });
            }
            RunChange::RecordForged(_) => {
                self.forged_records = self.forged_records.saturating_add(1)
            }
        }
    }

    /// Applies an event about a stage and its sessions.
    fn apply_stage(&mut self, at: Moment, event: &StageEvent) {
        match event {
            StageEvent::StageEntered(e) => self.enter_stage(e.stage, at),
            StageEvent::RunSessionOpened(e) => self.add_session(e),
            StageEvent::SessionEnded(e) => self.end_session(e.session, &e.end, at),
            StageEvent::RequestObserved(e) => {
                self.seen.insert((e.request, e.revision));
                self.add_pending_hook(RunHookEvent::Question, at);
            }
            StageEvent::DecisionMade(e) => self.decisions.push(e.decision.clone()),
            StageEvent::CommitRecorded(e) => self.record_leftovers(e),
            StageEvent::CommitFailed(e) => match self.task_of(e.session) {
                Some(task) => task.commit_failure = Some(e.reason.clone()),
                None => self.commit_failure = Some(e.reason.clone()),
            },
        }
    }

    /// Applies an event about a verification of merged work.
    fn apply_verification(&mut self, event: &VerificationEvent) {
        match event {
            VerificationEvent::VerificationRequested(e) => self.add_verification(e),
            VerificationEvent::VerificationDone(e) => self.end_verification(e),
        }
    }

    /// Applies an event about the landing of the work.
    fn apply_landing(&mut self, at: Moment, event: &LandingEvent) {
        match event {
            LandingEvent::LandStepAdded(e) => self.add_land_step(&e.step),
            LandingEvent::PullRequestOpened(e) => {
                let (number, url, commit) = (e.number, e.url.clone(), e.commit.clone());
                self.landing =
                    LandingState::Requested(PullRequest { number, url, commit, seen: None });
            }
            LandingEvent::PullRequestObserved(e) => {
                self.pull_request_changes += 1;
                if let LandingState::Requested(pull) = &mut self.landing {
                    pull.seen = Some(e.state.clone());
                }
            }
            LandingEvent::ReviewCommentsDropped(e) => {
                self.comments_seen.extend(e.comments.iter().map(|comment| comment.id.clone()));
                self.comments_dropped.extend(e.comments.iter().cloned());
            }
            LandingEvent::LandingHeld(e) => {
                self.held = Some((*e.held).clone());
                self.add_pending_hook(RunHookEvent::Question, at);
            }
            LandingEvent::LandingApproved(e) => {
                if let Some(held) =
                    self.held.as_mut().filter(|held| held.landing.commit == e.commit)
                {
                    held.approved = true;
                }
            }
            LandingEvent::WorkLanded(e) => self.record_landing(e),
            LandingEvent::LandingFailed(e) => {
                self.stop(RunFailureCause::Landing, &e.reason);
                self.attempt_mut().landing_aborted = true;
            }
            LandingEvent::LandingAborted(e) => {
                self.attempt_mut().landing_aborted = true;
                let pull = e.pull.clone().map(LandingState::Requested);
                self.landing = pull.unwrap_or_else(|| std::mem::take(&mut self.landing));
            }
        }
    }

    fn add_land_step(&mut self, step: &LandStep) {
        match step {
            LandStep::Merge { merge, .. } => self.set_head(merge, None),
            LandStep::Answer { comments } => {
                self.comments_seen.extend(comments.iter().map(|comment| comment.id.clone()));
            }
        }
        self.steps.push(step.clone());
    }

    fn record_landing(&mut self, e: &WorkLanded) {
        let pull_request = match std::mem::take(&mut self.landing) {
            LandingState::Requested(pull) => Some(pull),
            LandingState::Done(landed) => landed.pull_request,
            LandingState::Open => None,
        };
        let (branch, commit) = (e.branch.clone(), e.commit.clone());
        self.landing =
            LandingState::Done(LandedWork { branch, commit, merged: e.merged, pull_request });
    }

    fn enter_stage(&mut self, stage: RunStage, at: Moment) {
        (self.stage, self.since) = (stage, at);
        if stage == RunStage::Tasks
            && self.graph.is_none()
            && let Some(planned) = &self.planned
        {
            self.graph = Some(TaskGraph::new(planned.plan.clone()));
        }
    }

    fn record_leftovers(&mut self, e: &CommitRecorded) {
        let end = self.sessions.iter_mut().find(|one| one.id == e.session);
        if let Some(end) = end.and_then(|session| session.end.as_mut()).map(Arc::make_mut) {
            end.head = Some(e.head.clone());
            end.caveats = e.caveats.clone();
        }
        match self.task_of(e.session) {
            Some(task) => task.set_head(&e.head, None),
            None => self.set_head(&e.head, None),
        }
    }

    /// Returns the task that a session is working on.
    fn task_of(&mut self, session: SessionId) -> Option<&mut TaskState> {
        let found = self.sessions.iter().rev().find(|one| one.id == session);
        let task = found.and_then(|one| one.task.clone())?;
        self.graph.as_mut()?.task_mut(&task)
    }

    /// Adds a session, or reopens one that has ended.
    fn add_session(&mut self, e: &RunSessionOpened) {
        let before = self.sessions.iter().position(|session| session.id == e.session);
        let before = before.map(|at| self.sessions.remove(at));
        let no = before.as_ref().map_or(self.sessions.len() as u32 + 1, |one| one.no);
        let opened_in = before.as_ref().map_or(e.stage, |one| one.opened_in);
        let counted = before.map_or_else(Default::default, |one| one.counted);
        let (attempt, id, stage, cycle) = (self.attempt().no, e.session, e.stage, e.cycle);
        let (task, decisions_known, end) = (e.task.clone(), self.decisions.len(), None);
        let session = RunSession {
            id,
            no,
            attempt,
            stage,
            opened_in,
            task,
            cycle,
            decisions_known,
            counted,
            end,
        };
        self.sessions.push(session);
        self.add_task_session(e);
    }

    fn end_session(&mut self, id: SessionId, end: &SessionEnd, at: Moment) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else {
            return;
        };
        session.end = Some(Arc::new(end.clone()));
        session.counted.usage.add(end.usage);
        session.counted.turns = session.counted.turns.saturating_add(end.turns);
        let (stage, cycle, task) = (session.stage, session.cycle, session.task.clone());
        self.usage.add(end.usage);
        self.turns = self.turns.saturating_add(end.turns);
        match &end.result {
            Some(StructuredResult::Triage(triage)) => self.triage = Some(triage.clone()),
            Some(StructuredResult::Review(review)) => {
                let found = !review.findings.is_empty();
                let review = review.clone();
                self.reviews.push(StageReview { session: id, stage, task, cycle, review });
                if found {
                    self.add_pending_hook(RunHookEvent::Findings, at);
                }
            }
            Some(StructuredResult::Plan(_) | StructuredResult::PlanReview(_)) | None => {}
        }
        if let Some(task) = self.task_of(id) {
            task.usage.add(end.usage);
        }
        if let Some(head) = &end.head
            && end.is_good()
        {
            match self.task_of(id) {
                Some(task) => task.set_head(head, TreeProof::from_end(end)),
                None => self.set_head(head, TreeProof::from_end(end)),
            }
        }
    }

    /// Sets the newest commit, and drops the proof if it was for a different tree.
    pub(super) fn set_head(&mut self, head: &Snapshot, proof: Option<TreeProof>) {
        let kept = self.proof.take().filter(|proof| rules().keeps_proof(proof, head));
        self.proof = proof.or(kept);
        // The approval is valid only for the tree that the operator saw.
        self.held = self.held.take().filter(|held| held.landing.tree == head.tree);
        self.head = Some(head.clone());
    }

    /// Stops the run. A run that is already cancelled stays cancelled.
    fn stop(&mut self, cause: RunFailureCause, detail: &str) {
        let detail = detail.to_owned();
        let stopped = &mut self.attempt_mut().stopped;
        *stopped = Some(rules().stop_reason(stopped.take(), RunStop::Failed { cause, detail }));
    }

    pub(super) fn add_pending_hook(&mut self, event: RunHookEvent, at: Moment) {
        if !self.spec.hooks.contains_key(&event) {
            return;
        }
        let no = self.hooks_fired.entry(event).or_default();
        *no = rules().next_run_hook(*no);
        let key = RunHookKey { event, no: *no };
        let (attempt, stage) = (self.attempt().no, self.stage);
        self.hooks.push(PendingRunHook { key, attempt, stage, at });
    }
}

impl RunAttempt {
    fn new(no: u32, at: Moment) -> RunAttempt {
        RunAttempt {
            no,
            opened: at,
            steps: 0,
            stopped: None,
            sealed: None,
            landing_aborted: false,
            report_written: false,
            changed: None,
        }
    }
}
