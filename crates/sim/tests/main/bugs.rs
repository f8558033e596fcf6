//! Seeded bugs: each breaks one rule, to show that the simulator detects it.

use provost_core::{
    ids::{LaunchId, TreeId},
    lifecycle::State,
    plan::{PlanTask, TaskId},
    rules::{Rules, StandardRules, replace},
    run::{LandMode, RunStop, TaskGraph, TreeProof, VerificationResult},
    session::{
        self, Budget, Cursor, ExhaustedBudget, Launch, LaunchFailed, Session, SessionEffect,
        StopStep, TurnState, WorkState,
    },
    shortage::{EffectWait, Shortage},
    team::{self, DuplicateStatus, MessageReturned, MessageStatus, TeamMessage, TeamWaitResult},
    verdict::Snapshot,
    wait::WaitStatus,
};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    SealIgnoresPendingCheck,
    LateClaimApplied,
    EvidenceOfAnotherTree,
    FenceRemoved,
    CancelOverwrittenByClaim,
    HookKeyReused,
    OutcomeAnnouncedTwice,
    SettleSkipped,
    WaitingCounted,
    KillSkipped,
    LinesFoldedTwice,
    ConfirmationSkipped,
    LostTreeForgotten,
    SnapshotConfirmsItself,
    SlotIgnored,
    SealedWhileLanding,
    SealedWhilePreparing,
    LateLookTaken,
    ProofOutlivesCommit,
    DecisionLost,
    RunCancelOverwritten,
    RunHookKeyReused,
    BudgetOverdrawn,
    TaskBegunTooEarly,
    ParallelIgnored,
    RefutedMergeTaken,
    ConversationShared,
    LateIntegrationTaken,
    LateVerificationTaken,
    QueueForgotten,
    StoppedMoveCounted,
    WorktreeTakenFromAgent,
    StaleLeaseTaken,
    LeaseNeverEnds,
    PushComesBack,
    WrittenIsBegun,
    KeyStoredTwice,
    GivenNewsChanged,
    LossNotReported,
    GateForgotten,
    WaitSkipsState,
    EndNotNoticed,
    UndeliveredNotReported,
    OutlivedGitIgnored,
    LeftWhileLanding,
    ShortageFailsLaunch,
    ShortageNeverRetried,
    OwnTurnIgnored,
    RefusalFailsAttempt,
}

/// All seeded bugs.
pub(crate) static ALL: [Bug; 49] = [
    Bug::SealIgnoresPendingCheck,
    Bug::LateClaimApplied,
    Bug::EvidenceOfAnotherTree,
    Bug::FenceRemoved,
    Bug::CancelOverwrittenByClaim,
    Bug::HookKeyReused,
    Bug::OutcomeAnnouncedTwice,
    Bug::SettleSkipped,
    Bug::WaitingCounted,
    Bug::KillSkipped,
    Bug::LinesFoldedTwice,
    Bug::ConfirmationSkipped,
    Bug::LostTreeForgotten,
    Bug::SnapshotConfirmsItself,
    Bug::SlotIgnored,
    Bug::SealedWhileLanding,
    Bug::SealedWhilePreparing,
    Bug::LateLookTaken,
    Bug::ProofOutlivesCommit,
    Bug::DecisionLost,
    Bug::RunCancelOverwritten,
    Bug::RunHookKeyReused,
    Bug::BudgetOverdrawn,
    Bug::TaskBegunTooEarly,
    Bug::ParallelIgnored,
    Bug::RefutedMergeTaken,
    Bug::ConversationShared,
    Bug::LateIntegrationTaken,
    Bug::LateVerificationTaken,
    Bug::QueueForgotten,
    Bug::StoppedMoveCounted,
    Bug::WorktreeTakenFromAgent,
    Bug::StaleLeaseTaken,
    Bug::LeaseNeverEnds,
    Bug::PushComesBack,
    Bug::WrittenIsBegun,
    Bug::KeyStoredTwice,
    Bug::GivenNewsChanged,
    Bug::LossNotReported,
    Bug::GateForgotten,
    Bug::WaitSkipsState,
    Bug::EndNotNoticed,
    Bug::UndeliveredNotReported,
    Bug::OutlivedGitIgnored,
    Bug::LeftWhileLanding,
    Bug::ShortageFailsLaunch,
    Bug::ShortageNeverRetried,
    Bug::OwnTurnIgnored,
    Bug::RefusalFailsAttempt,
];

/// Breaks one rule on this thread while an action runs.
pub(crate) fn with_bug<T>(bug: &'static Bug, action: impl FnOnce() -> T) -> T {
    replace(bug);
    let result = action();
    replace(&StandardRules);
    result
}

impl Bug {
    fn breaks(self, rule: Bug) -> bool {
        self == rule
    }
}

impl Rules for Bug {
    fn is_folded(&self, position: Cursor, folded: Cursor) -> bool {
        StandardRules.is_folded(position, folded) && !self.breaks(Bug::LinesFoldedTwice)
    }

    fn is_fenced_off(&self, reporter: Option<LaunchId>, current: Option<LaunchId>) -> bool {
        StandardRules.is_fenced_off(reporter, current) && !self.breaks(Bug::FenceRemoved)
    }

    fn is_late_claim(&self, sealed: bool) -> bool {
        StandardRules.is_late_claim(sealed) && !self.breaks(Bug::LateClaimApplied)
    }

    fn shows_cancelled(&self, cancelled: bool, claims_completion: bool) -> bool {
        StandardRules.shows_cancelled(cancelled, claims_completion)
            && !(self.breaks(Bug::CancelOverwrittenByClaim) && claims_completion)
    }

    fn started_turn(&self, before: &TurnState, turn: Option<String>) -> TurnState {
        if self.breaks(Bug::OwnTurnIgnored) && *before == TurnState::Over {
            return TurnState::Over;
        }
        StandardRules.started_turn(before, turn)
    }

    fn turn_blocks_message(&self, busy: bool, in_turn: bool) -> bool {
        StandardRules.turn_blocks_message(busy, in_turn) && !self.breaks(Bug::RefusalFailsAttempt)
    }

    fn is_about_tree(&self, checked: &TreeId, tree: Option<&TreeId>) -> bool {
        StandardRules.is_about_tree(checked, tree) || self.breaks(Bug::EvidenceOfAnotherTree)
    }

    fn is_stable(&self, confirmed: bool) -> bool {
        StandardRules.is_stable(confirmed) || self.breaks(Bug::ConfirmationSkipped)
    }

    fn is_requested(&self, next: Option<&SessionEffect>, given: &SessionEffect) -> bool {
        StandardRules.is_requested(next, given) || self.breaks(Bug::SnapshotConfirmsItself)
    }

    fn waits_for_verdict(&self, wanted: bool) -> bool {
        StandardRules.waits_for_verdict(wanted) && !self.breaks(Bug::SealIgnoresPendingCheck)
    }

    fn seals_at_once(&self, resolved: bool) -> bool {
        StandardRules.seals_at_once(resolved) || self.breaks(Bug::SettleSkipped)
    }

    fn may_create_worktree(&self, work: &WorkState) -> bool {
        StandardRules.may_create_worktree(work) && !self.breaks(Bug::SealedWhilePreparing)
    }

    fn announces_when_shown(&self, state: State) -> bool {
        StandardRules.announces_when_shown(state) || self.breaks(Bug::OutcomeAnnouncedTwice)
    }

    fn counts_time_in(&self, state: State) -> bool {
        StandardRules.counts_time_in(state) || self.breaks(Bug::WaitingCounted)
    }

    fn step_after_terminate(&self) -> StopStep {
        if self.breaks(Bug::KillSkipped) {
            return StopStep::GivenUp;
        }
        StandardRules.step_after_terminate()
    }

    fn closes_with_holder(&self, followed: bool) -> bool {
        StandardRules.closes_with_holder(followed) && !self.breaks(Bug::LostTreeForgotten)
    }

    fn resume_time(&self, limit_passes_ms: u64, slot_ms: u64) -> u64 {
        if self.breaks(Bug::SlotIgnored) {
            return limit_passes_ms;
        }
        StandardRules.resume_time(limit_passes_ms, slot_ms)
    }

    fn next_session_hook(&self, last: u32) -> u32 {
        if self.breaks(Bug::HookKeyReused) {
            return last;
        }
        StandardRules.next_session_hook(last)
    }

    fn next_run_hook(&self, last: u32) -> u32 {
        if self.breaks(Bug::RunHookKeyReused) {
            return last;
        }
        StandardRules.next_run_hook(last)
    }

    fn record_shortage(&self, effect: &SessionEffect, shortage: &Shortage) -> session::Event {
        if let (SessionEffect::StartLaunch(launch), true) =
            (effect, self.breaks(Bug::ShortageFailsLaunch))
        {
            let reason = shortage.detail.clone();
            return LaunchFailed { launch: *launch, reason }.into();
        }
        StandardRules.record_shortage(effect, shortage)
    }

    fn will_retry(&self, wait: &EffectWait) -> bool {
        StandardRules.will_retry(wait) && !self.breaks(Bug::ShortageNeverRetried)
    }

    fn keeps_proof(&self, proof: &TreeProof, head: &Snapshot) -> bool {
        StandardRules.keeps_proof(proof, head) || self.breaks(Bug::ProofOutlivesCommit)
    }

    fn stop_reason(&self, first: Option<RunStop>, then: RunStop) -> RunStop {
        if self.breaks(Bug::RunCancelOverwritten) {
            return then;
        }
        StandardRules.stop_reason(first, then)
    }

    fn landing_may_fail(&self, open: bool) -> bool {
        StandardRules.landing_may_fail(open) || self.breaks(Bug::RunCancelOverwritten)
    }

    fn waits_for_landing(&self, stopped_landing: bool) -> bool {
        StandardRules.waits_for_landing(stopped_landing) && !self.breaks(Bug::SealedWhileLanding)
    }

    fn is_newest_query(&self, query: u32, newest: u32) -> bool {
        StandardRules.is_newest_query(query, newest) || self.breaks(Bug::LateLookTaken)
    }

    fn takes_verification(&self, pending: bool) -> bool {
        StandardRules.takes_verification(pending) || self.breaks(Bug::LateVerificationTaken)
    }

    fn takes_integration(&self, pending: bool) -> bool {
        StandardRules.takes_integration(pending) || self.breaks(Bug::LateIntegrationTaken)
    }

    fn is_decided(&self, known: bool) -> bool {
        StandardRules.is_decided(known) || self.breaks(Bug::DecisionLost)
    }

    fn overdraft(&self, session: &Session, remaining: Budget) -> Option<ExhaustedBudget> {
        if self.breaks(Bug::BudgetOverdrawn) {
            return None;
        }
        StandardRules.overdraft(session, remaining)
    }

    fn may_begin_task(&self, missing: u32) -> bool {
        StandardRules.may_begin_task(missing) || self.breaks(Bug::TaskBegunTooEarly)
    }

    fn has_room(&self, limit: u32, at_work: usize) -> bool {
        StandardRules.has_room(limit, at_work) || self.breaks(Bug::ParallelIgnored)
    }

    fn counts_moves(&self, stopped: bool) -> bool {
        StandardRules.counts_moves(stopped) || self.breaks(Bug::StoppedMoveCounted)
    }

    fn keeps_worktree(&self, launch: &Launch) -> bool {
        StandardRules.keeps_worktree(launch) && !self.breaks(Bug::WorktreeTakenFromAgent)
    }

    fn continued_task<'g>(&self, graph: &'g TaskGraph, task: &'g PlanTask) -> Option<&'g TaskId> {
        let first = if self.breaks(Bug::ConversationShared) { task.after.first() } else { None };
        StandardRules.continued_task(graph, task).or(first)
    }

    fn queue_result(&self, found: VerificationResult) -> VerificationResult {
        if self.breaks(Bug::RefutedMergeTaken) && found == VerificationResult::Failed {
            return VerificationResult::Passed;
        }
        StandardRules.queue_result(found)
    }

    fn requeued(&self, in_progress: Vec<TaskId>) -> Vec<TaskId> {
        if self.breaks(Bug::QueueForgotten) {
            return Vec::new();
        }
        StandardRules.requeued(in_progress)
    }

    fn landing_waits_for_git(&self) -> bool {
        StandardRules.landing_waits_for_git() && !self.breaks(Bug::OutlivedGitIgnored)
    }

    fn landing_delays_shutdown(&self, land: LandMode) -> bool {
        StandardRules.landing_delays_shutdown(land) && !self.breaks(Bug::LeftWhileLanding)
    }

    fn is_lease_over(&self, until_ms: u64, now_ms: u64) -> bool {
        StandardRules.is_lease_over(until_ms, now_ms) && !self.breaks(Bug::LeaseNeverEnds)
    }

    fn is_current_lease(&self, current: u32, given: u32) -> bool {
        StandardRules.is_current_lease(current, given) || self.breaks(Bug::StaleLeaseTaken)
    }

    fn settle_pending_push(&self, message: &TeamMessage) -> Option<Vec<team::Event>> {
        if self.breaks(Bug::PushComesBack) && message.offers == 1 {
            let (no, reason) = (message.no, "it waits".to_owned());
            return Some(vec![MessageReturned { no, reason }.into()]);
        }
        StandardRules.settle_pending_push(message)
    }

    fn has_begun(&self, turns_before: u32, turns: u32, claims: bool) -> bool {
        StandardRules.has_begun(turns_before, turns, claims) || self.breaks(Bug::WrittenIsBegun)
    }

    fn passes_gate(&self, begun: bool) -> bool {
        StandardRules.passes_gate(begun) || self.breaks(Bug::GateForgotten)
    }

    fn status_under_known_key(&self, same_content: bool) -> DuplicateStatus {
        if self.breaks(Bug::KeyStoredTwice) {
            return DuplicateStatus::Never;
        }
        StandardRules.status_under_known_key(same_content)
    }

    fn may_extend_news(&self, status: &MessageStatus) -> bool {
        StandardRules.may_extend_news(status) || self.breaks(Bug::GivenNewsChanged)
    }

    fn count_lost(&self, session: &Session) -> usize {
        if self.breaks(Bug::LossNotReported) {
            return 0;
        }
        StandardRules.count_lost(session)
    }

    fn must_report_loss(&self, lost: &TeamMessage) -> bool {
        StandardRules.must_report_loss(lost) && !self.breaks(Bug::UndeliveredNotReported)
    }

    fn status_after_end(&self, reason: String) -> WaitStatus<TeamWaitResult> {
        if self.breaks(Bug::EndNotNoticed) {
            return WaitStatus::Pending;
        }
        StandardRules.status_after_end(reason)
    }

    fn evaluates_state_first(&self) -> bool {
        StandardRules.evaluates_state_first() && !self.breaks(Bug::WaitSkipsState)
    }
}
