//! Derives a session's state from its facts.

use super::{
    attempt::{Attempt, ClaimSource},
    launch::{Launch, LaunchPhase, StopReason},
    spec::WorkLocation,
    state::Session,
};
use crate::{
    lifecycle::{
        Activity, Cause, ClaimKind, Flag, Judgement, ProcessFact, State, StateOverlay,
        VerificationFact, apply_overlay, judge_facts_by_table,
    },
    rules::rules,
    verdict::{CheckRefutation, Evidence, Verdict},
};

impl Session {
    /// Returns the current judgement: the sealed outcome if there is one, and otherwise a judgement
    /// of the facts.
    pub fn judgement(&self) -> Judgement {
        let attempt = self.attempt();
        let judged = match (&attempt.sealed, attempt.resolutions.last()) {
            (Some(sealed), None) => sealed.judgement.clone(),
            (None, _) | (Some(_), Some(_)) => self.judge_facts(),
        };
        judged.with(self.status_flags())
    }

    /// Returns the state after the last event.
    pub fn state(&self) -> State {
        let attempt = self.attempt();
        match (&attempt.sealed, attempt.resolutions.last()) {
            (_, Some(resolution)) => resolution.state,
            (Some(sealed), None) => sealed.judgement.state,
            (None, None) => attempt.shown,
        }
    }

    /// Judges the current attempt by its facts, whether or not it is sealed.
    pub(super) fn judge_facts(&self) -> Judgement {
        let attempt = self.attempt();
        let found = judge_facts_by_table(
            self.claim(),
            self.process(),
            self.activity(),
            &self.verification(),
        );
        let found = attribute_turn_error(attempt, found);
        let mut found = attribute_unrun_checks(&self.verification(), found);
        if !self.answer_resumes() {
            found.flags.remove(&Flag::AnswerResumes);
        }
        apply_overlay(&self.overlay(), found).with(self.evidence_flags())
    }

    /// The claim fact. If the agent exited with an open request, it still needs the answer.
    pub fn claim(&self) -> ClaimKind {
        if self.has_ended() && self.open_requests().any(|request| request.blocks()) {
            return ClaimKind::NeedsInput;
        }
        self.attempt().claim_kind()
    }

    /// The process fact. Before the first launch, the process counts as alive, because nothing has exited.
    pub fn process(&self) -> ProcessFact {
        self.current_launch().map_or(ProcessFact::Alive, Launch::process)
    }

    /// The activity fact.
    pub fn activity(&self) -> Activity {
        self.current_launch().map_or(Activity::Active, Launch::activity)
    }

    /// The verification fact: the verdict on the current tree, once that tree is known to be stable.
    pub fn verification(&self) -> VerificationFact {
        let verifying = &self.attempt().verifying;
        // Without checks, a failed commit does not refute the work, because the work itself is
        // unchanged.
        if !self.spec.checks.is_empty()
            && let Some(reason) = &verifying.failed
        {
            return VerificationFact::Failed(CheckRefutation::NoSnapshot {
                reason: reason.clone(),
            });
        }
        match (self.verdict(), rules().is_stable(verifying.confirmed)) {
            // Checks that an agent wrote cannot prove the work, but they can refute it.
            (Verdict::Passed(_), true) if !self.spec.has_trusted_check() => VerificationFact::None,
            (Verdict::Passed(passed), true) => VerificationFact::Passed(passed),
            (Verdict::Refuted(refuted), true) => VerificationFact::Failed(refuted),
            (Verdict::Open, _) | (Verdict::Passed(_) | Verdict::Refuted(_), false) => {
                VerificationFact::None
            }
        }
    }

    /// Returns the verdict on the evidence gathered so far.
    pub fn verdict(&self) -> Verdict {
        let verifying = &self.attempt().verifying;
        match &verifying.snapshot {
            None => Verdict::Open,
            Some(snapshot) => Verdict::from_evidence(Evidence {
                snapshot,
                base: self.base_tree(),
                empty_diff: self.spec.empty_diff,
                required: &self.spec.checks,
                receipts: &verifying.receipts,
            }),
        }
    }

    /// Whether checks are pending or running: the facts indicate an outcome, but the tree has no
    /// verdict yet.
    pub fn wants_verdict(&self) -> bool {
        self.lacks_verdict()
            && !self.attempt().is_decided()
            && !self.is_blocked()
            && !self.is_paused_at_limit()
            && judge_facts_by_table(
                self.claim(),
                self.process(),
                self.activity(),
                &VerificationFact::None,
            )
            .is_terminal()
    }

    /// Whether there are checks, but no verdict yet.
    pub(super) fn lacks_verdict(&self) -> bool {
        !self.spec.checks.is_empty() && !self.has_verdict() && !self.tree_keeps_moving()
    }

    /// Whether there is a verdict on a tree that is known to be stable.
    fn has_verdict(&self) -> bool {
        let verifying = &self.attempt().verifying;
        let confirmed = rules().is_stable(verifying.confirmed);
        verifying.failed.is_some() || (confirmed && self.verdict() != Verdict::Open)
    }

    fn tree_keeps_moving(&self) -> bool {
        self.attempt().verifying.moved > self.spec.bounds.snapshots
    }

    pub(super) fn has_ended(&self) -> bool {
        self.current_launch().is_some_and(Launch::has_ended)
    }

    pub(super) fn is_blocked(&self) -> bool {
        let asks = || self.open_requests().any(|request| request.blocks());
        !self.has_ended() && (asks() || self.untyped_answer().is_some())
    }

    fn overlay(&self) -> StateOverlay {
        let attempt = self.attempt();
        if let Some(resolution) = attempt.resolutions.last() {
            return StateOverlay::Resolved(resolution.state, resolution.cause);
        }
        let claimed = matches!(attempt.claim_kind(), ClaimKind::Completed);
        if rules().shows_cancelled(attempt.cancelled.is_some(), claimed) {
            return StateOverlay::Cancelled;
        }
        if attempt.superseded {
            return StateOverlay::Superseded;
        }
        if let Some((cause, _)) = attempt.stopped {
            return StateOverlay::Stopped(cause);
        }
        if self.is_paused_at_limit() {
            return StateOverlay::Limited;
        }
        let needs_verdict = rules().waits_for_verdict(self.wants_verdict());
        match (self.is_blocked(), self.tree_keeps_moving(), needs_verdict) {
            (true, _, _) => StateOverlay::BlockingRequest,
            (false, true, _) => StateOverlay::MovingTree,
            (false, false, true) => StateOverlay::Verifying,
            (false, false, false) if self.ended_on_request() => StateOverlay::Ended,
            (false, false, false) => StateOverlay::None,
        }
    }

    /// Whether the process exited because the user stopped it or because the team finished.
    pub(super) fn ended_on_request(&self) -> bool {
        let why = self.stop_reason();
        self.has_ended() && matches!(why, Some(StopReason::Operator | StopReason::TeamEnded))
    }

    /// Whether an answer can resume an agent that exited while it was waiting.
    fn answer_resumes(&self) -> bool {
        self.spec.adopted.is_none() && self.spec.agent.interface.takes_instructions()
    }

    fn evidence_flags(&self) -> Option<Flag> {
        match self.verification() {
            VerificationFact::Failed(CheckRefutation::EmptyDiff) => Some(Flag::EmptyDiff),
            VerificationFact::Failed(
                CheckRefutation::Unfinished { .. } | CheckRefutation::NoSnapshot { .. },
            ) => Some(Flag::ChecksUnfinished),
            VerificationFact::Failed(CheckRefutation::Check { .. })
            | VerificationFact::Passed(_)
            | VerificationFact::None => None,
        }
    }

    /// Whether the session watches an external agent but cannot observe its turns. In that case,
    /// `idle` only means that no turn is known.
    pub fn has_unobservable_turns(&self) -> bool {
        let watched = |launch: &Launch| launch.adopted && launch.may_be_running();
        let adopted = !self.attempt().is_sealed() && self.current_launch().is_some_and(watched);
        // An agent may create the transcript of a conversation only when it receives the first prompt.
        let recorded = self.spec.agent.interface.takes_instructions() && self.has_transcript();
        adopted && !recorded
    }

    fn has_transcript(&self) -> bool {
        let adopted = self.spec.adopted.as_deref();
        let named = adopted.is_some_and(|one| one.rollout.is_some() || one.thread.is_some());
        named || self.conversation.thread.is_some()
    }

    /// Whether the process has not started yet. The table treats it as alive, since nothing has exited.
    pub fn is_starting(&self) -> bool {
        let pending =
            |launch: &Launch| launch.phase == LaunchPhase::Pending && launch.stop.is_none();
        let open = !self.attempt().is_sealed() && !self.attempt().is_decided();
        open && self.current_launch().is_none_or(pending)
    }

    /// Whether the turn was interrupted and the session is waiting for the user to continue it.
    pub fn awaits_user(&self) -> bool {
        let rests = |launch: &Launch| {
            launch.may_be_running() && launch.stop.is_none() && !launch.is_in_turn()
        };
        let open = !self.attempt().is_sealed() && !self.attempt().is_decided();
        open && self.attempt().awaits_user && self.current_launch().is_some_and(rests)
    }

    /// Whether the work in the worktree could not be committed although the outcome does not depend
    /// on it. The work may be lost.
    fn is_uncommitted(&self) -> bool {
        let in_worktree = matches!(self.spec.work, WorkLocation::Worktree { .. });
        in_worktree && self.spec.checks.is_empty() && self.attempt().verifying.failed.is_some()
    }

    /// Returns the flags to show next to the state, even after it is sealed. They never change the outcome.
    fn status_flags(&self) -> Vec<Flag> {
        let mut notes = Vec::new();
        let mut note = |holds: bool, flag| notes.extend(holds.then_some(flag));
        note(!self.attempt().late_claims.is_empty(), Flag::LateClaim);
        let caveats = &self.attempt().verifying.caveats;
        note(caveats.kept_at.is_some(), Flag::OffBranch);
        note(self.is_uncommitted(), Flag::NotCommitted);
        note(!caveats.left_out.is_empty(), Flag::LeftOut);
        note(self.contradicted_requests().next().is_some(), Flag::AnswerOverridden);
        note(!caveats.protected.is_empty(), Flag::ChecksTouched);
        note(self.spending.limited.is_some() && !self.attempt().is_sealed(), Flag::Limited);
        note(self.forged_records > 0, Flag::RecordForged);
        note(self.is_starting(), Flag::Starting);
        note(self.awaits_user(), Flag::Interrupted);
        note(!self.effect_waits.is_empty(), Flag::Shortage);
        note(self.spec.adopted.is_some(), Flag::Adopted);
        if let Some(launch) = self.current_launch() {
            let gone = launch.gone;
            note(launch.is_stopping(), Flag::Stopping);
            note(launch.at_limit && launch.may_be_running(), Flag::OutputLimit);
            note(launch.disk_full.is_some() && launch.may_be_running(), Flag::DiskFull);
            note(launch.output_lost, Flag::OutputLost);
            note(launch.oversized, Flag::OversizedOutput);
            note(launch.reports.refused, Flag::ReportsRefused);
            note(launch.stream.retrying && launch.may_be_running(), Flag::Retrying);
            note(launch.watch.suspended && launch.may_be_running(), Flag::Suspended);
            note(self.has_unobservable_turns(), Flag::TurnsUnobservable);
            note(gone.is_some_and(|gone| gone.leftovers > 0), Flag::Leftovers);
            let unverified = gone.is_some_and(|gone| !gone.verified);
            note(unverified || launch.is_stop_abandoned(), Flag::ProcessesMayRemain);
        }
        notes
    }
}

/// Corrects the cause if a check could not be run, because the work is not to blame for that.
fn attribute_unrun_checks(verification: &VerificationFact, found: Judgement) -> Judgement {
    let unrun = found.cause == Some(Cause::Verification) && verification.is_unchecked();
    if unrun { found.because(Cause::ChecksNotRun) } else { found }
}

/// Corrects the cause if the turn ended with a protocol error, because the agent itself did not
/// claim to have failed.
fn attribute_turn_error(attempt: &Attempt, found: Judgement) -> Judgement {
    let by_turn =
        attempt.claim.as_ref().is_some_and(|claim| claim.source == ClaimSource::TurnError);
    match (found.state, found.cause) {
        (State::Failed, Some(Cause::SelfReported)) if by_turn => found.because(Cause::AgentError),
        _ => found,
    }
}
