//! Applies events about attempts, their worktree and their evidence.

use crate::{
    ids::LaunchId,
    session::{
        attempt::{Attempt, Resolution},
        event::{AttemptEvent, EvidenceEvent, SnapshotTaken, WorktreeEvent},
        launch::Launch,
        spec::Assignment,
        state::{AgentMessageKind, Session, SetupState, WorkState},
    },
    time::Moment,
};

impl Session {
    /// Applies an event about an attempt.
    pub(super) fn apply_attempt(&mut self, at: Moment, event: &AttemptEvent) {
        match event {
            AttemptEvent::AttemptOpened(e) => self.open_attempt(e.no, e.instruction.clone(), at),
            AttemptEvent::TaskAssigned(e) => self.take_assignment(&e.assignment),
            AttemptEvent::ResultRequested(e) => {
                self.attempt_mut().result_requested = Some(at);
                self.queue(
                    e.key.clone(),
                    AgentMessageKind::ResultWanted,
                    String::new(),
                    None,
                    None,
                );
                self.expect_turn(at);
            }
            AttemptEvent::ReworkSent(e) => {
                let attempt = self.attempt_mut();
                attempt.reworks += 1;
                attempt.claim = None;
                attempt.result_requested = None;
                attempt.verifying.discard();
                self.queue(e.key.clone(), AgentMessageKind::Rework, e.text.clone(), None, None);
                self.expect_turn(at);
            }
            AttemptEvent::AttemptCancelled(e) => {
                self.attempt_mut().cancelled = Some(e.because.clone())
            }
            AttemptEvent::AttemptSuperseded(_) => self.attempt_mut().superseded = true,
            AttemptEvent::AttemptStopped(e) => {
                self.attempt_mut().stopped = Some((e.cause, e.detail.clone()));
            }
            AttemptEvent::AttemptResolved(e) => {
                let because = e.because.clone();
                let resolution = Resolution { state: e.state, cause: e.cause, because, at };
                let sealed = self.attempt().is_sealed();
                self.attempt_mut().resolutions.push(resolution);
                if sealed {
                    self.queue_state_hook(e.state, at);
                }
            }
            AttemptEvent::AttemptSealed(e) => {
                self.attempt_mut().sealed = Some(e.sealed.clone());
                self.queue_state_hook(e.sealed.judgement.state, at);
            }
        }
    }

    /// Applies an event about the worktree and its setup.
    pub(super) fn apply_worktree(&mut self, event: &WorktreeEvent) {
        match event {
            WorktreeEvent::WorkPrepared(e) => {
                self.worktree.state = WorkState::Ready { cwd: e.cwd.clone(), base: e.base.clone() };
            }
            WorktreeEvent::WorkFailed(e) => {
                self.worktree.state = WorkState::Failed { reason: e.reason.clone() }
            }
            WorktreeEvent::WorkRemoved(_) => self.worktree.state = WorkState::Removed,
            WorktreeEvent::SetupFinished(e) => {
                self.worktree.setup = match &e.failure {
                    None => SetupState::Done,
                    Some(reason) => SetupState::Failed { reason: reason.clone() },
                };
            }
        }
    }

    /// Applies an event about the evidence for the claim.
    pub(super) fn apply_evidence(&mut self, event: &EvidenceEvent) {
        match event {
            EvidenceEvent::SnapshotTaken(e) => self.take_snapshot(e),
            EvidenceEvent::SnapshotFailed(e) => {
                self.attempt_mut().verifying.failed = Some(e.reason.clone());
            }
            EvidenceEvent::CheckFinished(e) => {
                self.attempt_mut().verifying.receipts.push(e.receipt.clone())
            }
        }
    }

    fn open_attempt(&mut self, no: u32, instruction: Option<String>, at: Moment) {
        self.attempts.push(Attempt::open(no, instruction, at));
        self.retry_worktree(no);
        (self.reactions.handing_over, self.spending.limited, self.dismissed) = (None, None, None);
        self.reactions.states.iter_mut().for_each(|reacted| reacted.total = 0);
        self.queue_instruction();
        // A process that is being stopped receives no new instruction. The next launch waits until
        // it has exited.
        let free = |launch: &&mut Launch| launch.may_be_running() && launch.stop.is_none();
        if let Some(launch) = self.launches.last_mut().filter(free) {
            launch.attempt = no;
            self.expect_turn(at);
        }
    }

    /// Prepares a failed worktree or setup again for the next attempt, because the user may have
    /// fixed the cause.
    fn retry_worktree(&mut self, attempt: u32) {
        if matches!(self.worktree.state, WorkState::Failed { .. }) {
            (self.worktree.state, self.worktree.attempt) = (WorkState::Pending, attempt);
        }
        match self.worktree.setup {
            SetupState::Pending | SetupState::Failed { .. } => {
                (self.worktree.setup, self.worktree.setup_attempt) = (SetupState::Pending, attempt);
            }
            SetupState::NotNeeded | SetupState::Done => {}
        }
    }

    /// Expects a running agent to start a turn. Until it does, the agent counts as active, not idle.
    pub(in crate::session) fn expect_turn(&mut self, at: Moment) {
        if let Some(launch) = self.launches.last_mut() {
            launch.stream.expect_turn(at);
        }
    }

    fn take_assignment(&mut self, assignment: &Assignment) {
        self.spec.task = Some(assignment.task.clone());
        self.spec.checks = assignment.checks.clone();
        self.spec.check_terms.agent_checks = assignment.agent_checks.clone();
        if let WorkState::Ready { base, .. } = &mut self.worktree.state {
            *base = assignment.base.clone().or(base.take());
        }
    }

    /// Records a snapshot. The first snapshot is judged. The next snapshot either confirms the
    /// first one or shows that the tree has changed.
    fn take_snapshot(&mut self, e: &SnapshotTaken) {
        let verifying = &mut self.attempt_mut().verifying;
        verifying.taken += 1;
        verifying.caveats = e.caveats.clone();
        let same = verifying.snapshot.as_ref().map(|snapshot| snapshot.tree == e.snapshot.tree);
        match same {
            Some(true) => verifying.confirmed = true,
            Some(false) => {
                verifying.moved += 1;
                verifying.receipts.clear();
                verifying.snapshot = Some(e.snapshot.clone());
            }
            None => verifying.snapshot = Some(e.snapshot.clone()),
        }
    }

    /// Discards the evidence, because a new turn may change the work.
    pub(in crate::session) fn void_verdict(&mut self, launch: LaunchId) {
        let current = self.current_launch().is_some_and(|current| current.id == launch);
        if current && !self.attempt().is_sealed() {
            self.attempt_mut().verifying.discard();
        }
    }
}
