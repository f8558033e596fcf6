//! The end of an attempt: asking for a result, rework, stopping processes, and sealing.

use crate::{
    lifecycle::{Activity, ClaimKind, Flag, State, VerificationFact},
    limits::RUN_SETTLE_MS,
    request::RequestStatus,
    rules::rules,
    session::{
        attempt::{ClaimSource, ReportStatus},
        effect::DeadlineKind,
        event::{
            AttemptCancelled, ClaimMade, Event, RequestSettled, ResultRequested, ReworkSent,
            StopEscalated,
        },
        launch::{Launch, LaunchPhase, ProcessExit, StopReason, StopStep, StoppedBy, TurnState},
        state::{DeliveryStatus, Session},
    },
    time::Moment,
    verdict::CheckRefutation,
};

impl Session {
    /// Stops a process that is still running although its attempt is decided or it closed its stream.
    pub(in crate::session) fn stop_decided_attempt(&self) -> Option<Event> {
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
    pub(in crate::session) fn cancel_dismissed_member(&self) -> Option<Event> {
        let dismissed = self.dismissed.as_ref()?;
        let waits = self.attempt().shown == State::NeedsInput && !self.is_attended();
        let cancels = (dismissed.at_once || waits) && self.may_continue_work();
        cancels.then(|| AttemptCancelled { because: dismissed.because.clone() }.into())
    }

    /// Stops a member of a finished team once its turn is over, it is silent or it waits for an
    /// answer. If a user is at the member's screen, the member keeps running.
    pub(in crate::session) fn stop_dismissed_member(&self) -> Option<Event> {
        let dismissed = self.dismissed.as_ref()?;
        let launch = self.launches.last().filter(|launch| launch.may_be_stopped())?;
        let unread =
            self.input.messages.iter().any(|message| message.status == DeliveryStatus::Queued);
        let quiet = launch.activity() != Activity::Active && !unread;
        let rests = (quiet || self.is_blocked()) && !launch.is_attended();
        (dismissed.at_once || rests)
            .then(|| self.stop_launch(launch.id, StopReason::TeamEnded).into())
    }

    /// Voids an open request of a dismissed member that is ending or has ended, because no process
    /// will use the answer.
    pub(in crate::session) fn void_dismissed_request(&self) -> Option<Event> {
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

    /// Asks an idle agent that made no claim for its result, once. If the agent becomes idle again
    /// or does not respond, it is stopped. Three kinds of agents are not asked: a team member,
    /// which waits for its next message; an agent with a user at its screen; and an agent that a
    /// user interrupted.
    pub(in crate::session) fn request_result(&self) -> Option<Event> {
        let free = |launch: &&Launch| launch.stop.is_none() && !launch.is_attended();
        let asks = !self.spec.agent.interface.has_terminal()
            && !self.attempt().awaits_user
            && !self.is_compacting()
            && !self.input.has_refused()
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
                    if self.input.has(&key) { format!("{key}-l{}", launch.id.no) } else { key };
                // If the agent's program rejects the request for the result, send it again.
                let messages = self.input.messages.len();
                let key = if self.input.has(&key) { format!("{key}-{messages}") } else { key };
                Some(ResultRequested { key }.into())
            }
            (true, idle) if idle || deaf => {
                Some(self.stop_launch(launch.id, StopReason::Unclaimed).into())
            }
            (true | false, _) => None,
        }
    }

    /// Returns refuted work to the running agent, up to a limited number of times.
    pub(in crate::session) fn request_rework(&self) -> Option<Event> {
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

    pub(in crate::session) fn escalation_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let stop = self.stopping_launch()?.stop?;
        let grace = match stop.step {
            StopStep::Interrupt | StopStep::Terminate => self.spec.bounds.stop_grace_ms,
            StopStep::Kill => self.spec.bounds.kill_grace_ms,
            StopStep::GivenUp => return None,
        };
        Some((stop.since.deadline(grace), DeadlineKind::Escalation))
    }

    pub(in crate::session) fn escalate(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.escalation_deadline()?;
        let launch = self.stopping_launch()?;
        let step = launch.stop?.step.next()?;
        // If the agent's turn is over, there is nothing to interrupt.
        let quiet =
            launch.stop?.step == StopStep::Interrupt && launch.stream.turn == TurnState::Over;
        (now.mono_ms >= at || quiet).then(|| StopEscalated { launch: launch.id, step }.into())
    }

    pub(in crate::session) fn seal_deadline(&self) -> Option<(u64, DeadlineKind)> {
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
    pub(in crate::session) fn will_continue(&self) -> bool {
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
    pub(in crate::session) fn is_stop_pending(&self) -> bool {
        let Some(launch) = self.current_launch().filter(|launch| launch.may_be_running()) else {
            return false;
        };
        let resolved = !self.attempt().resolutions.is_empty();
        let wanted = self.attempt().is_decided() || launch.stream.settled;
        !resolved && wanted && !launch.is_stop_abandoned() && !launch.adopted
    }

    pub(in crate::session) fn seal_if_due(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.seal_deadline()?;
        (now.mono_ms >= at).then(|| self.seal(now).into())
    }

    /// Claims completion on behalf of a process that exited with 0 and made no claim, if the exit
    /// policy allows it.
    pub(in crate::session) fn claim_exit_zero(&self) -> Option<Event> {
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
}
