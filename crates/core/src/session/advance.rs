//! Automatic events, which follow from the facts and the time. They are level-triggered, so a
//! restarted daemon derives the same events.

use super::{
    attempt::{ClaimSource, ReportStatus, SealedOutcome},
    command::ExhaustedBudget,
    effect::DeadlineKind,
    event::*,
    launch::{
        Launch, LaunchPhase, LaunchReason, ProcessExit, StopReason, StopStep, StoppedBy, TurnState,
    },
    state::{
        AgentMessage, AgentMessageKind, Budget, DeliveryStatus, Session, SetupState, WorkState,
    },
};
use crate::{
    lifecycle::{Activity, ClaimKind, Flag, ProcessFact, State, StopCause, VerificationFact},
    limits::RUN_SETTLE_MS,
    policy::Ruling,
    request::{ApprovalScope, Request, RequestKind, RequestReply, RequestStatus},
    rules::rules,
    time::Moment,
    verdict::CheckRefutation,
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
        let lost = self.messages.iter().find(queued);
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

    fn fail_launch(&self) -> Option<Event> {
        let reason = match (&self.work, &self.setup, self.current_launch().map(|l| &l.phase)) {
            (WorkState::Failed { reason }, _, _) => reason.as_str(),
            (_, SetupState::Failed { reason }, _) => reason,
            // A launch that the user stopped before it ran did not fail to start.
            (_, _, Some(LaunchPhase::Failed { .. })) if self.ended_on_request() => return None,
            (_, _, Some(LaunchPhase::Failed { reason })) => reason,
            (_, _, Some(_)) if self.launch_refusal().is_some() => {
                self.launch_refusal().unwrap_or_default()
            }
            (WorkState::Removed, _, None) => "its worktree was removed",
            (_, _, None) if self.has_unkillable_process() => {
                "its previous process could not be killed"
            }
            _ => return None,
        };
        let stopped = AttemptStopped { cause: StopCause::Launch, detail: reason.to_owned() };
        (!self.attempt().is_decided()).then(|| stopped.into())
    }

    /// Stops an attempt whose process can be neither reached nor killed, because it would otherwise
    /// never end.
    fn fail_unkillable_process(&self) -> Option<Event> {
        let stop = self.current_launch()?.stop?;
        let stuck = matches!(self.attempt().shown, State::Idle | State::Rework);
        let detail = "its process could not be killed".to_owned();
        (stop.step == StopStep::GivenUp && stuck)
            .then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    fn request_launch(&self) -> Option<Event> {
        let ready = matches!(self.work, WorkState::Ready { .. })
            && matches!(self.setup, SetupState::NotNeeded | SetupState::Done);
        let served =
            self.current_launch().is_some() || self.launches.iter().any(Launch::may_be_running);
        if !ready || served || self.attempt().is_decided() {
            return None;
        }
        let why =
            if self.launches.is_empty() { LaunchReason::First } else { LaunchReason::Instruction };
        Some(LaunchRequested { launch: self.next_launch(), why }.into())
    }

    fn launch_refusal(&self) -> Option<&str> {
        if self.is_relaunching() {
            return None;
        }
        self.current_launch()?.stream.refused.as_deref()
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
        self.exhausted_part_of(self.budget)
    }

    /// Returns the part of the given budget that is exhausted, if any.
    pub(crate) fn exhausted_part_of(&self, budget: Budget) -> Option<ExhaustedBudget> {
        let over = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        let tokens = over(budget.tokens, self.usage.total());
        let turns = over(budget.turns.map(u64::from), self.finished_turns());
        let (over_tokens, over_turns) = (tokens.is_some(), turns.is_some());
        if !over_tokens && !over_turns {
            return None;
        }
        let tokens = tokens.map(|limit| format!("{} of {limit} tokens", self.usage.total()));
        let turns = turns.map(|limit| format!("{} of {limit} turns", self.turns));
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
        u64::from(self.turns).saturating_sub(u64::from(open))
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

    /// Resumes an agent that crashed while working. The new process starts once the old process
    /// tree is gone.
    fn resume_after_crash(&self) -> Option<Event> {
        // If a launch is no longer followed, its processes are gone.
        self.crashed_launch().filter(|launch| !launch.is_followed())?;
        // Open approvals are void, because only the dead process could have used them. A question
        // can still be answered, and the answer resumes the work.
        let void = self.void_approvals().next().or_else(|| self.drop_undelivered_approval());
        let resume =
            || LaunchRequested { launch: self.next_launch(), why: LaunchReason::Crash }.into();
        Some(void.unwrap_or_else(resume))
    }

    /// Drops the undelivered answer to an approval request, because only the process that made the
    /// request could use it.
    fn drop_undelivered_approval(&self) -> Option<Event> {
        let approves = |message: &&AgentMessage| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            message.status == DeliveryStatus::Queued
                && request.is_some_and(|r| r.asked.kind == RequestKind::Approval)
        };
        let key = self.messages.iter().find(approves)?.key.clone();
        Some(MessageLost { key, reason: "the process that asked has ended".to_owned() }.into())
    }

    /// Returns the launch that crashed while working, if it may be resumed. The number of resumes
    /// is limited.
    fn crashed_launch(&self) -> Option<&Launch> {
        let launch = self.current_launch()?;
        let crashed = match &launch.phase {
            LaunchPhase::Ended { end, by, .. } => {
                *by == StoppedBy::Itself && *end != ProcessExit::Exit(0)
            }
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Pending | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => {
                false
            }
        };
        // An idle team member has nothing to resume. It wakes up when it receives its next message.
        let waits = self.messages.iter().any(|message| message.status == DeliveryStatus::Queued);
        // An interrupted agent has nothing to resume, because the user decides how it continues.
        let idles = self.is_member() || self.attempt().awaits_user;
        let rests = idles && launch.stream.turn == TurnState::Over && !waits;
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        let at_work = !claimed && !rests;
        let resumable = self.spec.agent.interface.resumes_after_crash() && self.thread.is_some();
        let bounded = self.attempt().resumes < self.spec.bounds.resumes;
        let undecided = launch.stop.is_none() && !self.attempt().is_decided();
        (crashed && at_work && resumable && bounded && undecided).then_some(launch)
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

    fn handshake_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.handshaking_launch()?;
        // Time without a running daemon does not count, because no one could have responded to the agent.
        let since = launch.followed.unwrap_or(launch.requested_at);
        Some((since.deadline(self.spec.bounds.handshake_ms), DeadlineKind::Handshake))
    }

    /// Returns the running launch if it has not reported its conversation yet.
    pub(super) fn handshaking_launch(&self) -> Option<&Launch> {
        if !self.spec.agent.interface.has_handshake() {
            return None;
        }
        let launch = self.current_launch()?;
        let waiting = matches!(launch.phase, LaunchPhase::Running { .. })
            && !launch.stream.ready
            && launch.stop.is_none()
            && !self.attempt().is_decided();
        waiting.then_some(launch)
    }

    fn fail_handshake(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.handshake_deadline()?;
        let detail = "the agent did not report its conversation in time".to_owned();
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    /// Whether a process remains that cannot be killed. No other process is started next to it.
    fn has_unkillable_process(&self) -> bool {
        self.launches.iter().any(Launch::is_stop_abandoned)
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

    /// Claims completion on behalf of a process that exited with 0 and made no claim, if the exit
    /// policy allows it.
    fn claim_exit_zero(&self) -> Option<Event> {
        let launch = self.current_launch()?;
        let by_itself = matches!(
            launch.phase,
            LaunchPhase::Ended { end: ProcessExit::Exit(0), by: StoppedBy::Itself, .. }
        );
        let unclaimed = matches!(self.claim(), ClaimKind::None | ClaimKind::Working);
        let shown = !self.spec.agent.interface.reports_turn_success() || launch.stream.ended_well;
        let done = self.spec.exit_zero_is_done() && by_itself && shown;
        (done && unclaimed && !self.attempt().is_decided()).then(|| {
            ClaimMade {
                launch: Some(launch.id),
                kind: ClaimKind::Completed,
                source: ClaimSource::Policy,
                text: None,
                status: ReportStatus::Applied,
                cursor: None,
            }
            .into()
        })
    }

    fn stream_settle_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.current_launch().filter(|launch| launch.may_be_running())?;
        let at = launch.stream.closed?.deadline(self.spec.bounds.stream_settle_ms);
        (!launch.stream.settled).then_some((at, DeadlineKind::StreamSettle))
    }

    fn settle_stream(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.stream_settle_deadline()?;
        let launch = self.current_launch()?.id;
        (now.mono_ms >= at).then(|| StreamSettled { launch }.into())
    }

    /// Stops a process that is still running although its attempt is decided or it closed its stream.
    fn stop_decided_attempt(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_stopped())?;
        let why = match (self.attempt().is_decided(), launch.stream.settled) {
            (true, _) => StopReason::Decided,
            (false, true) => StopReason::Leftover,
            (false, false) => return None,
        };
        Some(self.stop_launch(launch.id, why).into())
    }

    /// Cancels the attempt of a team member if its team gave up the work, or if the member waits
    /// for an answer that is no longer needed. Work that was already claimed still counts.
    fn cancel_dismissed_member(&self) -> Option<Event> {
        let dismissed = self.dismissed.as_ref()?;
        let waits = self.attempt().shown == State::NeedsInput && !self.is_attended();
        let cancels = (dismissed.at_once || waits) && self.may_continue_work();
        cancels.then(|| AttemptCancelled { because: dismissed.because.clone() }.into())
    }

    /// Stops a member of a finished team once its turn is over, it is silent or it waits for an
    /// answer. If a user is at the member's screen, the member keeps running.
    fn stop_dismissed_member(&self) -> Option<Event> {
        let dismissed = self.dismissed.as_ref()?;
        let launch = self.launches.last().filter(|launch| launch.may_be_stopped())?;
        let unread = self.messages.iter().any(|message| message.status == DeliveryStatus::Queued);
        let quiet = launch.activity() != Activity::Active && !unread;
        let rests = (quiet || self.is_blocked()) && !launch.is_attended();
        (dismissed.at_once || rests)
            .then(|| self.stop_launch(launch.id, StopReason::TeamEnded).into())
    }

    /// Voids an open request of a dismissed member that is ending or has ended, because no process
    /// will use the answer.
    fn void_dismissed_request(&self) -> Option<Event> {
        self.dismissed.as_ref()?;
        let launch = self.launches.last();
        if launch.is_some_and(|one| one.stop.is_none() && !one.has_ended()) {
            return None;
        }
        let request = self.open_requests().next()?;
        Some(
            RequestSettled { request: request.id, status: RequestStatus::Void, cursor: None }
                .into(),
        )
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

    /// Asks an idle agent that made no claim for its result, once. If the agent becomes idle again
    /// or does not respond, it is stopped. Three kinds of agents are not asked: a team member,
    /// which waits for its next message; an agent with a user at its screen; and an agent that a
    /// user interrupted.
    fn request_result(&self) -> Option<Event> {
        let free = |launch: &&Launch| launch.stop.is_none() && !launch.is_attended();
        let asks = !self.spec.agent.interface.has_terminal()
            && !self.attempt().awaits_user
            && !self.is_compacting()
            && !self.has_refused_message()
            && !self.is_member();
        if !asks {
            return None;
        }
        let launch = self.current_launch().filter(free)?;
        let asked = self.attempt().result_requested.is_some();
        let deaf = launch.stream.turn == TurnState::Open { turn: None }
            && self.attempt().shown == State::Stalled;
        match (asked, self.is_idle()) {
            (false, true) => {
                let attempt = self.attempt();
                let key = format!("result-{}-{}", attempt.no, attempt.reworks);
                // Ask a successor for its own result.
                let key =
                    if self.has_message(&key) { format!("{key}-l{}", launch.id.no) } else { key };
                // If the agent's program rejects the request for the result, send it again.
                let messages = self.messages.len();
                let key = if self.has_message(&key) { format!("{key}-{messages}") } else { key };
                Some(ResultRequested { key }.into())
            }
            (true, idle) if idle || deaf => {
                Some(self.stop_launch(launch.id, StopReason::Unclaimed).into())
            }
            (true | false, _) => None,
        }
    }

    /// Returns refuted work to the running agent, up to a limited number of times.
    fn request_rework(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_stopped())?;
        if self.attempt().shown != State::Rework {
            return None;
        }
        let attempt = self.attempt();
        // The agent cannot fix a check that could not be run.
        let may_talk =
            self.spec.agent.interface.takes_instructions() && !self.verification().could_not_run();
        if may_talk && attempt.reworks < self.spec.bounds.rework {
            let key = format!("rework-{}-{}", attempt.no, attempt.reworks + 1);
            Some(ReworkSent { key, text: self.refutation() }.into())
        } else {
            Some(self.stop_launch(launch.id, StopReason::ReworkExhausted).into())
        }
    }

    /// Explains to the agent why its work was refuted.
    fn refutation(&self) -> String {
        match self.verification() {
            VerificationFact::Failed(CheckRefutation::EmptyDiff) => {
                "Nothing was changed.".to_owned()
            }
            VerificationFact::Failed(CheckRefutation::NoSnapshot { reason }) => {
                format!("Your work could not be committed: {reason}.")
            }
            VerificationFact::Failed(
                CheckRefutation::Check { command, end }
                | CheckRefutation::Unfinished { command, end },
            ) => format!("The check `{command}` {}.{}", end, self.check_output_tail(&command)),
            VerificationFact::None | VerificationFact::Passed(_) => String::new(),
        }
    }

    /// Returns the end of a check's output.
    fn check_output_tail(&self, command: &str) -> String {
        let receipts = &self.attempt().verifying.receipts;
        let receipt = receipts.iter().find(|r| r.command == command && !r.tail.is_empty());
        receipt.map_or(String::new(), |receipt| format!(" Last output:\n{}", receipt.tail))
    }

    /// Returns the launch that is being stopped. A launch that is still pending may already be
    /// running unobserved.
    fn stopping_launch(&self) -> Option<&Launch> {
        self.launches.last().filter(|launch| launch.is_stopping())
    }

    fn escalation_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let stop = self.stopping_launch()?.stop?;
        let grace = match stop.step {
            StopStep::Interrupt | StopStep::Terminate => self.spec.bounds.stop_grace_ms,
            StopStep::Kill => self.spec.bounds.kill_grace_ms,
            StopStep::GivenUp => return None,
        };
        Some((stop.since.deadline(grace), DeadlineKind::Escalation))
    }

    fn escalate(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.escalation_deadline()?;
        let launch = self.stopping_launch()?;
        let step = launch.stop?.step.next()?;
        // If the agent's turn is over, there is nothing to interrupt.
        let quiet =
            launch.stop?.step == StopStep::Interrupt && launch.stream.turn == TurnState::Over;
        (now.mono_ms >= at || quiet).then(|| StopEscalated { launch: launch.id, step }.into())
    }

    fn seal_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let stays = self.is_stop_pending()
            || self.is_preparing()
            || self.will_continue()
            || self.wants_commit();
        if !self.attempt().shown.is_terminal() || stays {
            return None;
        }
        let settles = self.judge_facts().has(Flag::SettleFirst);
        let (attempt, bounds) = (self.attempt(), &self.spec.bounds);
        let resolved = !attempt.resolutions.is_empty();
        let (from, window) = match (rules().seals_at_once(resolved), settles) {
            (true, _) => (attempt.since, 0),
            (false, true) => (attempt.since, bounds.settle_ms.max(bounds.drain_ms)),
            (false, false) => self.settle_window(),
        };
        Some((from.deadline(window), DeadlineKind::Seal))
    }

    /// Whether the work will continue in another process. Until then, the attempt is not sealed, no
    /// matter how long the old process tree takes to exit.
    pub(super) fn will_continue(&self) -> bool {
        self.crashed_launch().is_some()
            || self.is_handing_over()
            || self.is_relaunching()
            || self.is_paused_at_limit()
    }

    /// Returns the start and length of the settle window. In a run, the window of a verified
    /// success starts at the claim, because contradicting reports would have arrived during the
    /// checks.
    fn settle_window(&self) -> (Moment, u64) {
        let (attempt, own) = (self.attempt(), self.spec.bounds.settle_ms);
        match (attempt.shown, self.spec.run, &attempt.claim) {
            (State::Succeeded, Some(_), Some(claim)) => (claim.at, own.min(RUN_SETTLE_MS)),
            (State::Completed, Some(_), _) => (attempt.since, own.min(RUN_SETTLE_MS)),
            (_, _, _) => (attempt.since, own),
        }
    }

    /// Whether the attempt's process is still being stopped. A decided attempt is sealed once its
    /// process is gone or Provost has given up killing it.
    pub(super) fn is_stop_pending(&self) -> bool {
        let Some(launch) = self.current_launch().filter(|launch| launch.may_be_running()) else {
            return false;
        };
        let resolved = !self.attempt().resolutions.is_empty();
        let wanted = self.attempt().is_decided() || launch.stream.settled;
        !resolved && wanted && !launch.is_stop_abandoned() && !launch.adopted
    }

    fn seal_if_due(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.seal_deadline()?;
        (now.mono_ms >= at).then(|| self.seal(now).into())
    }

    fn silence_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.current_launch()?;
        let listening = launch.activity() == Activity::Active
            && matches!(launch.phase, LaunchPhase::Running { .. })
            && self.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        let at = launch.stream.last_heard.deadline(self.spec.bounds.stale_ms);
        listening.then_some((at, DeadlineKind::Silence(launch.id)))
    }
}
