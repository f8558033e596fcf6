//! Automatic events, which follow from the facts and the time. They are level-triggered, so a
//! restarted daemon derives the same events.

mod ending;
mod launch;

use super::{
    attempt::SealedOutcome,
    command::ExhaustedBudget,
    effect::DeadlineKind,
    event::*,
    launch::{Launch, StopReason, TurnState},
    state::{AgentMessage, AgentMessageKind, Budget, DeliveryStatus, Session},
};
use crate::{
    lifecycle::{ClaimKind, ProcessFact, State, StopCause},
    policy::Ruling,
    request::{ApprovalScope, Request, RequestKind, RequestReply, RequestStatus},
    time::Moment,
};

impl Session {
    /// Returns the next automatic event that is due.
    ///
    /// The caller applies the event and then calls this again. Once [`Session::deadline`] has
    /// passed, this returns an event. The only exception is a deadline for silence, because that
    /// decision also needs the time of the last output, which only the reader of the stream knows.
    pub fn advance(&self, now: Moment) -> Option<Event> {
        if self.attempt().is_sealed() {
            let over = self.advance_sealed().or_else(|| self.expire_compaction(now));
            return over.or_else(|| self.retry_if_due(now)).or_else(|| self.escalate(now));
        }
        self.fail_launch()
            .or_else(|| self.fail_unkillable_process())
            .or_else(|| self.stop_over_budget())
            .or_else(|| self.retry_if_due(now))
            .or_else(|| self.request_launch())
            .or_else(|| self.relaunch())
            .or_else(|| self.rule_by_policy())
            .or_else(|| self.resume_after_crash())
            .or_else(|| self.deny_expired_approval(now))
            .or_else(|| self.end_limit_wait(now))
            .or_else(|| self.resume_after_limit())
            .or_else(|| self.fail_handshake(now))
            .or_else(|| self.mark_input_unconfirmed(now))
            .or_else(|| self.cancel_enter_retry())
            .or_else(|| self.expire_unconfirmed_input(now))
            .or_else(|| self.drop_stale_messages())
            .or_else(|| self.expire_compaction(now))
            .or_else(|| self.expire_own_turn(now))
            .or_else(|| self.hand_over())
            .or_else(|| self.react(now))
            .or_else(|| self.stop_over_time_limit(now))
            .or_else(|| self.claim_exit_zero())
            .or_else(|| self.settle_stream(now))
            .or_else(|| self.cancel_dismissed_member())
            .or_else(|| self.stop_decided_attempt())
            .or_else(|| self.stop_dismissed_member())
            .or_else(|| self.void_dismissed_request())
            .or_else(|| self.request_result())
            .or_else(|| self.request_rework())
            .or_else(|| self.escalate(now))
            .or_else(|| self.seal_if_due(now))
    }

    /// Returns the next time at which the session changes merely because time passes, and the
    /// purpose of that deadline.
    pub fn deadline(&self) -> Option<(u64, DeadlineKind)> {
        let sealed = self.attempt().is_sealed();
        let open = [
            self.time_limit_deadline(),
            self.stream_settle_deadline(),
            self.seal_deadline(),
            self.silence_deadline(),
            self.limit_deadline(),
            self.handshake_deadline(),
            self.expiry_deadline(),
            self.confirmation_deadline(),
            self.compaction_deadline(),
            self.reaction_deadline(),
            self.quiet_deadline(),
            self.own_turn_deadline(),
        ];
        let until_sealed: &[Option<(u64, DeadlineKind)>] = if sealed { &[] } else { &open };
        let compaction = if sealed { self.compaction_deadline() } else { None };
        until_sealed
            .iter()
            .copied()
            .flatten()
            .chain(self.escalation_deadline())
            .chain(self.retry_deadline())
            .chain(compaction)
            .min_by_key(|(at, _)| *at)
    }

    pub(super) fn seal(&self, at: Moment) -> AttemptSealed {
        let tree = self.attempt().verifying.snapshot.as_ref().map(|snapshot| snapshot.tree.clone());
        let sealed = SealedOutcome { judgement: self.judge_facts(), tree, at };
        AttemptSealed { attempt: self.attempt().no, sealed }
    }

    fn advance_sealed(&self) -> Option<Event> {
        if let Some(request) = self.open_requests().next() {
            return Some(
                RequestSettled { request: request.id, status: RequestStatus::Void, cursor: None }
                    .into(),
            );
        }
        // A tool call can be answered as long as the process that made it is running.
        let waits = |message: &AgentMessage| {
            let running = self.running_launch().filter(|launch| launch.stop.is_none());
            let asker = message.returned.as_ref().map(|returned| returned.launch);
            let answers = asker.is_some() && asker == running.map(|launch| launch.id);
            // A conversation can be compacted before the next work begins.
            let compacts = message.kind == AgentMessageKind::Compact && self.is_parked();
            answers || compacts
        };
        let queued =
            |message: &&AgentMessage| message.status == DeliveryStatus::Queued && !waits(message);
        let lost = self.input.messages.iter().find(queued);
        if let Some(message) = lost {
            let reason = "the session ended first".to_owned();
            return Some(MessageLost { key: message.key.clone(), reason }.into());
        }
        if let Some(ended) = self.stop_dismissed_member() {
            return Some(ended);
        }
        let launch = self.launches.last().filter(|launch| launch.may_be_stopped())?;
        let unattended =
            super::spec::OnFinish::Close == self.spec.on_finish && !launch.is_attended();
        let close = unattended || self.attempt().is_decided();
        close.then(|| self.stop_launch(launch.id, StopReason::Finished).into())
    }

    /// Stops the attempt once its budget is used up, so that it makes no further model calls.
    fn stop_over_budget(&self) -> Option<Event> {
        let detail = self.exhausted_budget()?.detail;
        self.may_continue_work().then(|| AttemptStopped { cause: StopCause::Budget, detail }.into())
    }

    /// Whether the agent may make another model call in this attempt.
    pub(crate) fn may_continue_work(&self) -> bool {
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        !self.attempt().is_decided() && !claimed
    }

    /// Returns the part of the session's budget that is exhausted, if any.
    pub(super) fn exhausted_budget(&self) -> Option<ExhaustedBudget> {
        self.exhausted_part_of(self.spending.budget)
    }

    /// Returns the part of the given budget that is exhausted, if any.
    pub(crate) fn exhausted_part_of(&self, budget: Budget) -> Option<ExhaustedBudget> {
        let over = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        let tokens = over(budget.tokens, self.spending.usage.total());
        let turns = over(budget.turns.map(u64::from), self.finished_turns());
        let (over_tokens, over_turns) = (tokens.is_some(), turns.is_some());
        if !over_tokens && !over_turns {
            return None;
        }
        let tokens =
            tokens.map(|limit| format!("{} of {limit} tokens", self.spending.usage.total()));
        let turns = turns.map(|limit| format!("{} of {limit} turns", self.spending.turns));
        let used: Vec<String> = tokens.into_iter().chain(turns).collect();
        Some(ExhaustedBudget {
            detail: format!("{} are used", used.join(" and ")),
            over_tokens,
            over_turns,
        })
    }

    /// Returns the number of finished turns. An open turn does not count, because it began within
    /// the budget.
    fn finished_turns(&self) -> u64 {
        let open = self.launches.last().is_some_and(|launch| {
            launch.may_be_running()
                && matches!(launch.stream.turn, TurnState::Open { turn: Some(_) })
        });
        u64::from(self.spending.turns).saturating_sub(u64::from(open))
    }

    fn rule_by_policy(&self) -> Option<Event> {
        self.open_requests().find_map(|request| {
            let subject = request.asked.subject.as_deref()?;
            let (reply, rule) = match self.spec.policy.evaluate(subject) {
                Ruling::Allow(rule) => (RequestReply::Approve(ApprovalScope::Once), rule),
                Ruling::Deny(rule) => (RequestReply::Deny, rule),
                Ruling::Ask => return None,
            };
            Some(RequestRuled { request: request.id, reply, rule }.into())
        })
    }

    /// Returns the approval request that has been open the longest, if such requests have a time limit.
    fn oldest_approval(&self) -> Option<(u64, &Request)> {
        if self.attempt().is_decided() {
            return None;
        }
        let patience = self.spec.bounds.approval_ms?;
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| (r.at.deadline(patience), r)).min_by_key(|(at, _)| *at)
    }

    fn expiry_deadline(&self) -> Option<(u64, DeadlineKind)> {
        self.oldest_approval().map(|(at, _)| (at, DeadlineKind::ApprovalExpiry))
    }

    /// Denies an approval request that was not decided in time.
    fn deny_expired_approval(&self, now: Moment) -> Option<Event> {
        let (_, request) = self.oldest_approval().filter(|(at, _)| now.mono_ms >= *at)?;
        let rule = "expired: not decided in time".to_owned();
        Some(RequestRuled { request: request.id, reply: RequestReply::Deny, rule }.into())
    }

    fn limit_deadline(&self) -> Option<(u64, DeadlineKind)> {
        Some((self.limit_wait()?.until_mono_ms, DeadlineKind::LimitLifted))
    }

    /// Ends the wait for the usage limit. A reaction that was due during the wait comes first, even
    /// if the limit had passed before it was reported.
    fn end_limit_wait(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.limit_deadline()?;
        if now.mono_ms < at {
            return None;
        }
        self.react_to_limit(at).or_else(|| Some(LimitLifted {}.into()))
    }

    fn time_limit_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let attempt = self.attempt();
        let at = attempt.clock.deadline(self.spec.bounds.time_limit_ms?)?;
        (!attempt.is_decided()).then_some((at, DeadlineKind::TimeLimit))
    }

    fn stop_over_time_limit(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.time_limit_deadline()?;
        let limit = self.spec.bounds.time_limit_ms?;
        let detail = format!("the time limit of {limit} ms was reached");
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Timeout, detail }.into())
    }

    fn is_attended(&self) -> bool {
        self.launches.last().is_some_and(Launch::is_attended)
    }

    fn is_idle(&self) -> bool {
        self.attempt().shown == State::Idle && self.process() == ProcessFact::Alive
    }

    /// Whether the session is a team member, which stays idle between messages.
    pub(super) fn is_member(&self) -> bool {
        self.spec.agent.settings.member.is_some()
    }
}
