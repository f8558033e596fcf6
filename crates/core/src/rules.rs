//! Rules whose violation would be hard to notice: each decides one question from the facts it is given.
//!
//! The callers gather the facts, and act on the answer. The simulator breaks one rule at a time,
//! with an implementation of [`Rules`] of its own, to show that its laws detect the difference.

use crate::{
    ids::{LaunchId, TreeId},
    lifecycle::State,
    plan::{PlanTask, TaskId},
    run::{LandMode, RunStop, TaskGraph, TreeProof, VerificationResult},
    session::{
        self, Budget, Cursor, EffectShortage, ExhaustedBudget, Launch, Session, SessionEffect,
        StopStep, TurnState,
    },
    shortage::{EffectWait, Shortage},
    team::{self, DuplicateStatus, MessageStatus, TeamMessage, TeamWaitResult},
    verdict::Snapshot,
    wait::WaitStatus,
};

/// The rules. The provided methods are those of production.
pub trait Rules {
    // Reports, claims and the stream.

    /// Whether output up to this position was already folded. Nothing is folded twice.
    fn is_folded(&self, position: Cursor, folded: Cursor) -> bool {
        position <= folded
    }

    /// Whether a report comes from a launch other than the current one. Such a report is recorded,
    /// but not applied.
    fn is_fenced_off(&self, reporter: Option<LaunchId>, current: Option<LaunchId>) -> bool {
        reporter.is_some() && reporter != current
    }

    /// Whether a claim arrives too late to be applied.
    fn is_late_claim(&self, sealed: bool) -> bool {
        sealed
    }

    /// Whether an attempt shows that it was cancelled. A claim cannot undo that.
    fn shows_cancelled(&self, cancelled: bool, _claims_completion: bool) -> bool {
        cancelled
    }

    /// Returns the turn after the agent started one, even if it started that turn on its own.
    fn started_turn(&self, _before: &TurnState, turn: Option<String>) -> TurnState {
        TurnState::Open { turn }
    }

    /// Whether a turn keeps the agent's program from accepting a message, so that the message waits.
    fn turn_blocks_message(&self, busy: bool, in_turn: bool) -> bool {
        busy || in_turn
    }

    // Evidence.

    /// Whether a receipt proves something about this tree.
    fn is_about_tree(&self, checked: &TreeId, tree: Option<&TreeId>) -> bool {
        Some(checked) == tree
    }

    /// Whether the tree is known not to change anymore, because a second snapshot confirmed it.
    fn is_stable(&self, confirmed: bool) -> bool {
        confirmed
    }

    /// Whether a snapshot is the requested one.
    fn is_requested(&self, next: Option<&SessionEffect>, given: &SessionEffect) -> bool {
        next == Some(given)
    }

    /// Whether the outcome waits for a verdict.
    fn waits_for_verdict(&self, wanted: bool) -> bool {
        wanted
    }

    // The end of an attempt, and of its processes.

    /// Whether an attempt is sealed without a settle window, because the operator resolved it.
    fn seals_at_once(&self, resolved: bool) -> bool {
        resolved
    }

    /// Whether git may still create the session's worktree.
    fn may_create_worktree(&self, work: &session::WorkState) -> bool {
        *work == session::WorkState::Pending
    }

    /// Whether a state is announced when it is shown. An outcome is announced once it is sealed.
    fn announces_when_shown(&self, state: State) -> bool {
        !state.is_terminal()
    }

    /// Whether time in this state counts towards the time limit, unlike waiting for the operator.
    fn counts_time_in(&self, state: State) -> bool {
        state != State::NeedsInput
    }

    /// Returns the step after asking a process to terminate.
    fn step_after_terminate(&self) -> StopStep {
        StopStep::Kill
    }

    /// Whether the stream and process tree of a launch are closed because its holder exited.
    fn closes_with_holder(&self, followed: bool) -> bool {
        followed
    }

    /// Returns the time at which a session resumes that was assigned a slot after a usage limit.
    fn resume_time(&self, _limit_passes_ms: u64, slot_ms: u64) -> u64 {
        slot_ms
    }

    // Hooks and effects.

    /// Returns the number of a session's next hook for an event.
    fn next_session_hook(&self, last: u32) -> u32 {
        last + 1
    }

    /// Returns the number of a run's next hook for an event.
    fn next_run_hook(&self, last: u32) -> u32 {
        last + 1
    }

    /// Records that an effect encountered a shortage. It waits, and nothing fails.
    fn record_shortage(&self, effect: &SessionEffect, shortage: &Shortage) -> session::Event {
        EffectShortage { effect: effect.key(), shortage: shortage.clone() }.into()
    }

    /// Whether an effect that encountered a shortage has to be retried.
    fn will_retry(&self, wait: &EffectWait) -> bool {
        !wait.retrying
    }

    // Runs.

    /// Whether a proof is still valid for the newest commit.
    fn keeps_proof(&self, proof: &TreeProof, head: &Snapshot) -> bool {
        proof.is_for(head)
    }

    /// Returns why an attempt is stopped. The first reason counts.
    fn stop_reason(&self, first: Option<RunStop>, then: RunStop) -> RunStop {
        first.unwrap_or(then)
    }

    /// Whether a failed landing stops the run. In a stopped run, it changes nothing.
    fn landing_may_fail(&self, open: bool) -> bool {
        open
    }

    /// Whether a run is sealed only after its landing is known to be over.
    fn waits_for_landing(&self, stopped_landing: bool) -> bool {
        stopped_landing
    }

    /// Whether a reply about a pull request answers the newest query.
    fn is_newest_query(&self, query: u32, newest: u32) -> bool {
        query == newest
    }

    /// Whether the result of a verification is taken.
    fn takes_verification(&self, pending: bool) -> bool {
        pending
    }

    /// Whether the result of an integration is taken.
    fn takes_integration(&self, pending: bool) -> bool {
        pending
    }

    /// Whether a question was already answered in this run.
    fn is_decided(&self, known: bool) -> bool {
        known
    }

    /// Returns the part of a run's remaining budget that one of its sessions has used up.
    fn overdraft(&self, session: &Session, remaining: Budget) -> Option<ExhaustedBudget> {
        session.exhausted_part_of(remaining)
    }

    /// Whether a task can begin, depending on how many of its dependencies are not merged yet.
    fn may_begin_task(&self, missing: u32) -> bool {
        missing == 0
    }

    /// Whether one more agent may start.
    fn has_room(&self, limit: u32, at_work: usize) -> bool {
        at_work < usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Whether an agent starts after a worktree move, so that the move counts as an agent.
    fn counts_moves(&self, stopped: bool) -> bool {
        !stopped
    }

    /// Whether a worktree must not be moved because the launch may still be using it.
    fn keeps_worktree(&self, launch: &Launch) -> bool {
        !launch.is_gone()
    }

    /// Returns the task whose conversation a task continues.
    fn continued_task<'g>(&self, graph: &'g TaskGraph, task: &'g PlanTask) -> Option<&'g TaskId> {
        graph.continues(&task.id)
    }

    /// Returns what the merge queue makes of a verification.
    fn queue_result(&self, found: VerificationResult) -> VerificationResult {
        found
    }

    /// Returns the tasks that wait again after the merge queue was restarted.
    fn requeued(&self, in_progress: Vec<TaskId>) -> Vec<TaskId> {
        in_progress
    }

    /// Whether a landing waits for git calls that are left over from an earlier daemon.
    fn landing_waits_for_git(&self) -> bool {
        true
    }

    /// Whether a daemon that is shutting down waits for a landing, because the landing moves a branch.
    fn landing_delays_shutdown(&self, land: LandMode) -> bool {
        land != LandMode::Pr
    }

    // Teams.

    /// Whether a lease is over.
    fn is_lease_over(&self, until_ms: u64, now_ms: u64) -> bool {
        until_ms <= now_ms
    }

    /// Whether a lease is the current one of its message.
    fn is_current_lease(&self, current: u32, given: u32) -> bool {
        current == given
    }

    /// Returns what becomes of a push that is still pending. It stays with its session.
    fn settle_pending_push(&self, _message: &TeamMessage) -> Option<Vec<team::Event>> {
        None
    }

    /// Whether an agent has begun to act on a push: it started a turn, it cannot report turns, or
    /// it made a claim.
    fn has_begun(&self, turns_before: u32, turns: u32, claims: bool) -> bool {
        turns > turns_before || turns == 0 || claims
    }

    /// Whether a delivery passes without a check of the gate, because its iteration has begun.
    fn passes_gate(&self, begun: bool) -> bool {
        begun
    }

    /// Returns the status of a message under a known key, with the same or different content.
    fn status_under_known_key(&self, same_content: bool) -> DuplicateStatus {
        if same_content { DuplicateStatus::Duplicate } else { DuplicateStatus::Conflict }
    }

    /// Whether news may still be added to a message.
    fn may_extend_news(&self, status: &MessageStatus) -> bool {
        *status == MessageStatus::Stored
    }

    /// Returns how many of a session's processes were lost.
    fn count_lost(&self, session: &Session) -> usize {
        session.launches.iter().filter(|launch| launch.ended_unexpectedly()).count()
    }

    /// Whether the loss of a message must be reported.
    fn must_report_loss(&self, lost: &TeamMessage) -> bool {
        !lost.reported
    }

    /// Returns the status of a wait on a team that ended in another way.
    fn status_after_end(&self, reason: String) -> WaitStatus<TeamWaitResult> {
        WaitStatus::Impossible(reason)
    }

    /// Whether a wait evaluates the state before the first event.
    fn evaluates_state_first(&self) -> bool {
        true
    }
}

/// The rules of production.
#[derive(Clone, Copy, Debug)]
pub struct StandardRules;

impl Rules for StandardRules {}

/// Returns the rules that are in force.
#[cfg(not(feature = "replaceable-rules"))]
pub(crate) fn rules() -> &'static dyn Rules {
    &StandardRules
}

#[cfg(feature = "replaceable-rules")]
pub use replacement::replace;
#[cfg(feature = "replaceable-rules")]
pub(crate) use replacement::rules;

/// Replaces the rules of this thread. Only the simulator is built with it.
#[cfg(feature = "replaceable-rules")]
mod replacement {
    use std::cell::Cell;

    use super::{Rules, StandardRules};

    thread_local! {
        static IN_FORCE: Cell<&'static dyn Rules> = const { Cell::new(&StandardRules) };
    }

    /// Puts these rules in force on this thread.
    pub fn replace(rules: &'static dyn Rules) {
        IN_FORCE.set(rules);
    }

    pub(crate) fn rules() -> &'static dyn Rules {
        IN_FORCE.get()
    }
}
