//! Automatic events, derived from the facts and from time. Level-triggered: the same after a restart.

use super::{
    attempt::{ClaimSource, Sealed, Standing},
    command::UsedUp,
    effect::Due,
    event::*,
    launch::{End, EndedBy, Launch, LaunchPhase, LaunchWhy, StopStep, StopWhy, TurnState},
    state::{Budget, Message, MessageFate, MessageKind, Session, SetupState, WorkState},
};
use crate::{
    lifecycle::{Activity, ClaimKind, Flag, Process, State, StopCause, Verification},
    limits::RUN_SETTLE_MS,
    policy::Ruling,
    request::{Fate, Reply, Request, RequestKind, Scope},
    time::Moment,
    verdict::Refuted,
};

impl Session {
    /// Returns the next automatic event that is due.
    ///
    /// The caller folds it and calls again. Whenever [`Session::deadline`] is past, this returns an
    /// event (except for a due silence, which is decided with what the stream's reader heard).
    pub fn advance(&self, now: Moment) -> Option<Event> {
        if self.attempt().is_sealed() {
            let over = self.after_the_seal().or_else(|| self.give_up_the_compaction(now));
            return over.or_else(|| self.retry_if_due(now)).or_else(|| self.escalate(now));
        }
        self.give_up_the_start()
            .or_else(|| self.give_up_the_process())
            .or_else(|| self.run_out_of_budget())
            .or_else(|| self.retry_if_due(now))
            .or_else(|| self.owe_launch())
            .or_else(|| self.relaunch())
            .or_else(|| self.rule_by_policy())
            .or_else(|| self.go_on_after_a_crash())
            .or_else(|| self.expire(now))
            .or_else(|| self.lift_the_limit(now))
            .or_else(|| self.resume_after_limit())
            .or_else(|| self.give_up_the_handshake(now))
            .or_else(|| self.doubt_what_was_typed(now))
            .or_else(|| self.call_off_the_press())
            .or_else(|| self.give_up_what_is_doubted(now))
            .or_else(|| self.drop_what_is_moot())
            .or_else(|| self.give_up_the_compaction(now))
            .or_else(|| self.give_up_own_turn(now))
            .or_else(|| self.hand_over())
            .or_else(|| self.react(now))
            .or_else(|| self.run_out_of_time(now))
            .or_else(|| self.believe_exit0())
            .or_else(|| self.settle_stream(now))
            .or_else(|| self.end_what_was_decided())
            .or_else(|| self.end_after_its_team())
            .or_else(|| self.ask_for_a_result())
            .or_else(|| self.send_back())
            .or_else(|| self.escalate(now))
            .or_else(|| self.seal_if_due(now))
    }

    /// Returns the moment at which time alone changes something, and what that is.
    pub fn deadline(&self) -> Option<(u64, Due)> {
        let sealed = self.attempt().is_sealed();
        let open = [
            self.time_limit(),
            self.stream_settle_deadline(),
            self.seal_deadline(),
            self.silence_deadline(),
            self.limit_deadline(),
            self.handshake_deadline(),
            self.expiry_deadline(),
            self.proof_deadline(),
            self.compaction_deadline(),
            self.reaction_deadline(),
            self.quiet_deadline(),
            self.own_turn_deadline(),
        ];
        let until_sealed: &[Option<(u64, Due)>] = if sealed { &[] } else { &open };
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
        let sealed = Sealed { judgement: self.judge_facts(), tree, at };
        AttemptSealed { attempt: self.attempt().no, sealed }
    }

    fn after_the_seal(&self) -> Option<Event> {
        if let Some(request) = self.open_requests().next() {
            return Some(
                RequestSettled { request: request.id, fate: Fate::Void, cursor: None }.into(),
            );
        }
        // A call is answered for as long as its caller is running.
        let waits = |message: &Message| {
            let running = self.running().filter(|launch| launch.stop.is_none());
            let asker = message.returned.as_ref().map(|returned| returned.launch);
            let answers = asker.is_some() && asker == running.map(|launch| launch.id);
            // A conversation may be compacted before the next work begins.
            let compacts = message.kind == MessageKind::Compact && self.rests_after_its_work();
            answers || compacts
        };
        let queued = |message: &&Message| message.fate == MessageFate::Queued && !waits(message);
        let lost = self.messages.iter().find(queued);
        if let Some(message) = lost {
            let reason = "the session ended first".to_owned();
            return Some(MessageLost { key: message.key.clone(), reason }.into());
        }
        if let Some(ended) = self.end_after_its_team() {
            return Some(ended);
        }
        let launch = self.launches.last().filter(|launch| launch.may_be_ended())?;
        let unattended =
            super::spec::Afterwards::Close == self.spec.afterwards && !launch.is_attended();
        let close = unattended || self.attempt().is_decided();
        close.then(|| self.stop_launch(launch.id, StopWhy::Finished).into())
    }

    fn give_up_the_start(&self) -> Option<Event> {
        let reason = match (&self.work, &self.setup, self.current_launch().map(|l| &l.phase)) {
            (WorkState::Failed { reason }, _, _) => reason.as_str(),
            (_, SetupState::Failed { reason }, _) => reason,
            // A launch that the user stopped before it ran did not fail to start.
            (_, _, Some(LaunchPhase::Failed { .. })) if self.was_ended() => return None,
            (_, _, Some(LaunchPhase::Failed { reason })) => reason,
            (_, _, Some(_)) if self.refusal().is_some() => self.refusal().unwrap_or_default(),
            (WorkState::Removed, _, None) => "its worktree was removed",
            (_, _, None) if self.is_haunted() => "its previous process could not be killed",
            _ => return None,
        };
        let stopped = AttemptStopped { cause: StopCause::Launch, detail: reason.to_owned() };
        (!self.attempt().is_decided()).then(|| stopped.into())
    }

    /// Stops an attempt whose process can be neither reached nor killed: it would never end.
    fn give_up_the_process(&self) -> Option<Event> {
        let stop = self.current_launch()?.stop?;
        let stuck = matches!(self.attempt().shown, State::Idle | State::Rework);
        let detail = "its process could not be killed".to_owned();
        (stop.step == StopStep::GivenUp && stuck)
            .then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    fn owe_launch(&self) -> Option<Event> {
        let ready = matches!(self.work, WorkState::Ready { .. })
            && matches!(self.setup, SetupState::NotNeeded | SetupState::Done);
        let served = self.current_launch().is_some() || self.launches.iter().any(Launch::may_live);
        if !ready || served || self.attempt().is_decided() {
            return None;
        }
        let why = if self.launches.is_empty() { LaunchWhy::First } else { LaunchWhy::Instruction };
        Some(LaunchOwed { launch: self.next_launch(), why }.into())
    }

    fn refusal(&self) -> Option<&str> {
        if self.is_relaunching() {
            return None;
        }
        self.current_launch()?.stream.refused.as_deref()
    }

    /// Stops the attempt once its budget is known to be used up, so that no further model call starts.
    fn run_out_of_budget(&self) -> Option<Event> {
        let detail = self.used_up()?.detail;
        self.may_use_more().then(|| AttemptStopped { cause: StopCause::Budget, detail }.into())
    }

    /// Whether the agent may begin another model call for its attempt.
    pub(crate) fn may_use_more(&self) -> bool {
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        !self.attempt().is_decided() && !claimed
    }

    /// Returns the exhausted part of the session's budget, if any.
    pub(super) fn used_up(&self) -> Option<UsedUp> {
        self.used_up_of(self.budget)
    }

    /// Returns the exhausted part of a budget, if any.
    pub(crate) fn used_up_of(&self, budget: Budget) -> Option<UsedUp> {
        let over = |limit: Option<u64>, used: u64| limit.filter(|limit| used >= *limit);
        let tokens = over(budget.tokens, self.usage.total());
        let turns = over(budget.turns.map(u64::from), self.turns_ended());
        let raise = match (tokens, turns) {
            (Some(_), Some(_)) => "--tokens N --turns N",
            (Some(_), None) => "--tokens N",
            (None, Some(_)) => "--turns N",
            (None, None) => return None,
        };
        let tokens = tokens.map(|limit| format!("{} of {limit} tokens", self.usage.total()));
        let turns = turns.map(|limit| format!("{} of {limit} turns", self.turns));
        let used: Vec<String> = tokens.into_iter().chain(turns).collect();
        Some(UsedUp { detail: format!("{} are used", used.join(" and ")), raise })
    }

    /// Counts finished turns. An open turn began within the budget.
    fn turns_ended(&self) -> u64 {
        let open = self.launches.last().is_some_and(|launch| {
            launch.may_live() && matches!(launch.stream.turn, TurnState::Open { turn: Some(_) })
        });
        u64::from(self.turns).saturating_sub(u64::from(open))
    }

    fn rule_by_policy(&self) -> Option<Event> {
        self.open_requests().find_map(|request| {
            let subject = request.asked.subject.as_deref()?;
            let (reply, rule) = match self.spec.policy.rule(subject) {
                Ruling::Allow(rule) => (Reply::Approve(Scope::Once), rule),
                Ruling::Deny(rule) => (Reply::Deny, rule),
                Ruling::Ask => return None,
            };
            Some(RequestRuled { request: request.id, reply, rule }.into())
        })
    }

    /// Resumes an agent that crashed at work, in a new process, once the old process tree is gone.
    fn go_on_after_a_crash(&self) -> Option<Event> {
        // A launch that is no longer followed is gone.
        self.died_at_work().filter(|launch| !launch.is_followed())?;
        // Approvals are void: only the dead process could have used them. A question can still be
        // answered, and resumes the work.
        let void = self.void_approvals().next().or_else(|| self.lose_an_approval());
        let owed = || LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Crash }.into();
        Some(void.unwrap_or_else(owed))
    }

    /// Drops an undelivered answer to an approval: it was meant only for the process that asked.
    fn lose_an_approval(&self) -> Option<Event> {
        let approves = |message: &&Message| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            message.fate == MessageFate::Queued
                && request.is_some_and(|r| r.asked.kind == RequestKind::Approval)
        };
        let key = self.messages.iter().find(approves)?.key.clone();
        Some(MessageLost { key, reason: "the process that asked has ended".to_owned() }.into())
    }

    /// Returns the launch that crashed at work, if it may be resumed. The number of resumes is limited.
    fn died_at_work(&self) -> Option<&Launch> {
        let launch = self.current_launch()?;
        let crashed = match &launch.phase {
            LaunchPhase::Ended { end, by, .. } => *by == EndedBy::Itself && *end != End::Exit(0),
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Owed | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => false,
        };
        // An idle team member has nothing to resume: its next message wakes it.
        let waits = self.messages.iter().any(|message| message.fate == MessageFate::Queued);
        // Neither has an agent whose turn was interrupted: the user decides what comes next.
        let idles = self.is_member() || self.attempt().held;
        let rests = idles && launch.stream.turn == TurnState::Over && !waits;
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        let at_work = !claimed && !rests;
        let resumable = self.spec.agent.driver.resumes() && self.thread.is_some();
        let bounded = self.attempt().resumes < self.spec.bounds.resumes;
        let undecided = launch.stop.is_none() && !self.attempt().is_decided();
        (crashed && at_work && resumable && bounded && undecided).then_some(launch)
    }

    /// Returns the approval that has waited longest, if such waits are limited.
    fn oldest_approval(&self) -> Option<(u64, &Request)> {
        if self.attempt().is_decided() {
            return None;
        }
        let patience = self.spec.bounds.approval_ms?;
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| (r.at.deadline(patience), r)).min_by_key(|(at, _)| *at)
    }

    fn expiry_deadline(&self) -> Option<(u64, Due)> {
        self.oldest_approval().map(|(at, _)| (at, Due::Expiry))
    }

    /// Denies an approval that was not decided in time.
    fn expire(&self, now: Moment) -> Option<Event> {
        let (_, request) = self.oldest_approval().filter(|(at, _)| now.mono_ms >= *at)?;
        let rule = "expired: not decided in time".to_owned();
        Some(RequestRuled { request: request.id, reply: Reply::Deny, rule }.into())
    }

    fn limit_deadline(&self) -> Option<(u64, Due)> {
        Some((self.wait()?.until_mono_ms, Due::LimitLifted))
    }

    fn lift_the_limit(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.limit_deadline()?;
        (now.mono_ms >= at).then(|| LimitLifted {}.into())
    }

    fn handshake_deadline(&self) -> Option<(u64, Due)> {
        let launch = self.shaking_hands()?;
        // Time without a daemon does not count: nothing could respond to the agent.
        let since = launch.followed.unwrap_or(launch.owed_at);
        Some((since.deadline(self.spec.bounds.handshake_ms), Due::Handshake))
    }

    /// Returns the running launch that has not reported its conversation yet.
    pub(super) fn shaking_hands(&self) -> Option<&Launch> {
        if !self.spec.agent.driver.shakes_hands() {
            return None;
        }
        let launch = self.current_launch()?;
        let waiting = matches!(launch.phase, LaunchPhase::Running { .. })
            && !launch.stream.ready
            && launch.stop.is_none()
            && !self.attempt().is_decided();
        waiting.then_some(launch)
    }

    fn give_up_the_handshake(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.handshake_deadline()?;
        let detail = "the agent did not report its conversation in time".to_owned();
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    /// Whether an unkillable process is left. No other process is started beside it.
    fn is_haunted(&self) -> bool {
        self.launches.iter().any(Launch::is_given_up)
    }

    fn time_limit(&self) -> Option<(u64, Due)> {
        let attempt = self.attempt();
        let at = attempt.clock.deadline(self.spec.bounds.time_limit_ms?)?;
        (!attempt.is_decided()).then_some((at, Due::TimeLimit))
    }

    fn run_out_of_time(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.time_limit()?;
        let limit = self.spec.bounds.time_limit_ms?;
        let detail = format!("the time limit of {limit} ms was reached");
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Timeout, detail }.into())
    }

    /// Claims completion for a process that exited 0 without a claim, if the exit policy allows it.
    fn believe_exit0(&self) -> Option<Event> {
        let launch = self.current_launch()?;
        let by_itself = matches!(
            launch.phase,
            LaunchPhase::Ended { end: End::Exit(0), by: EndedBy::Itself, .. }
        );
        let unclaimed = matches!(self.claim(), ClaimKind::None | ClaimKind::Working);
        let shown = !self.spec.agent.driver.shows_its_end() || launch.stream.ended_well;
        let done = self.spec.exit0_is_done() && by_itself && shown;
        (done && unclaimed && !self.attempt().is_decided()).then(|| {
            ClaimMade {
                launch: Some(launch.id),
                kind: ClaimKind::Completed,
                source: ClaimSource::Policy,
                text: None,
                standing: Standing::Applied,
                cursor: None,
            }
            .into()
        })
    }

    fn stream_settle_deadline(&self) -> Option<(u64, Due)> {
        let launch = self.current_launch().filter(|launch| launch.may_live())?;
        let at = launch.stream.closed?.deadline(self.spec.bounds.stream_settle_ms);
        (!launch.stream.settled).then_some((at, Due::StreamSettle))
    }

    fn settle_stream(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.stream_settle_deadline()?;
        let launch = self.current_launch()?.id;
        (now.mono_ms >= at).then(|| StreamSettled { launch }.into())
    }

    /// Stops a process whose attempt was decided, or that closed its stream but keeps running.
    fn end_what_was_decided(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_ended())?;
        let why = match (self.attempt().is_decided(), launch.stream.settled) {
            (true, _) => StopWhy::Decided,
            (false, true) => StopWhy::Leftover,
            (false, false) => return None,
        };
        Some(self.stop_launch(launch.id, why).into())
    }

    /// Stops a member whose team has ended, once its turn is over or it is silent. A user at its screen
    /// keeps it running.
    fn end_after_its_team(&self) -> Option<Event> {
        let dismissed = self.dismissed.as_ref()?;
        let launch = self.launches.last().filter(|launch| launch.may_be_ended())?;
        let unread = self.messages.iter().any(|message| message.fate == MessageFate::Queued);
        let quiet = launch.activity() != Activity::Active && !launch.is_attended() && !unread;
        (dismissed.at_once || quiet).then(|| self.stop_launch(launch.id, StopWhy::TeamEnded).into())
    }

    fn is_idle(&self) -> bool {
        self.attempt().shown == State::Idle && self.process() == Process::Alive
    }

    /// Whether the session is a member of a team, and idles between messages.
    pub(super) fn is_member(&self) -> bool {
        self.spec.agent.settings.member.is_some()
    }

    /// Asks an idle agent without a claim for its result, once. If it is idle again, or does not
    /// respond, it is stopped. A team member waits for its next message instead. An agent with a user at
    /// its screen is left to that user, and one that a user interrupted waits for that user.
    fn ask_for_a_result(&self) -> Option<Event> {
        let free = |launch: &&Launch| launch.stop.is_none() && !launch.is_attended();
        let asks = !self.spec.agent.driver.has_terminal()
            && !self.attempt().held
            && !self.is_compacting()
            && !self.repeats_a_message()
            && !self.is_member();
        if !asks {
            return None;
        }
        let launch = self.current_launch().filter(free)?;
        let asked = self.attempt().result_asked.is_some();
        let deaf = launch.stream.turn == TurnState::Open { turn: None }
            && self.attempt().shown == State::Stalled;
        match (asked, self.is_idle()) {
            (false, true) => {
                let attempt = self.attempt();
                let key = format!("result-{}-{}", attempt.no, attempt.reworks);
                // An agent that takes over is asked for its own result.
                let key = if self.knows(&key) { format!("{key}-l{}", launch.id.no) } else { key };
                // A rejected request for the result is sent again.
                let messages = self.messages.len();
                let key = if self.knows(&key) { format!("{key}-{messages}") } else { key };
                Some(ResultAsked { key }.into())
            }
            (true, idle) if idle || deaf => {
                Some(self.stop_launch(launch.id, StopWhy::Unclaimed).into())
            }
            (true | false, _) => None,
        }
    }

    /// Sends refuted work back to the running agent, a limited number of times.
    fn send_back(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_ended())?;
        if self.attempt().shown != State::Rework {
            return None;
        }
        let attempt = self.attempt();
        // The agent cannot repair a check that could not be run.
        let may_talk =
            self.spec.agent.driver.has_protocol() && !self.verification().could_not_run();
        if may_talk && attempt.reworks < self.spec.bounds.rework {
            let key = format!("rework-{}-{}", attempt.no, attempt.reworks + 1);
            Some(ReworkSent { key, text: self.refutation() }.into())
        } else {
            Some(self.stop_launch(launch.id, StopWhy::ReworkExhausted).into())
        }
    }

    /// Describes to the agent why its work was refuted.
    fn refutation(&self) -> String {
        match self.verification() {
            Verification::Failed(Refuted::EmptyDiff) => "Nothing was changed.".to_owned(),
            Verification::Failed(Refuted::NoSnapshot { reason }) => {
                format!("Your work could not be committed: {reason}.")
            }
            Verification::Failed(
                Refuted::Check { command, end } | Refuted::Unfinished { command, end },
            ) => format!("The check `{command}` {}.{}", end, self.printed_by(&command)),
            Verification::None | Verification::Passed(_) => String::new(),
        }
    }

    /// Returns the end of a check's output.
    fn printed_by(&self, command: &str) -> String {
        let receipts = &self.attempt().verifying.receipts;
        let receipt = receipts.iter().find(|r| r.command == command && !r.tail.is_empty());
        receipt.map_or(String::new(), |receipt| format!(" Last output:\n{}", receipt.tail))
    }

    /// Returns the launch that is being stopped. One that is only pending may already run, unobserved.
    fn being_ended(&self) -> Option<&Launch> {
        self.launches.last().filter(|launch| launch.is_being_ended())
    }

    fn escalation_deadline(&self) -> Option<(u64, Due)> {
        let stop = self.being_ended()?.stop?;
        let grace = match stop.step {
            StopStep::Interrupt | StopStep::Terminate => self.spec.bounds.stop_grace_ms,
            StopStep::Kill => self.spec.bounds.kill_grace_ms,
            StopStep::GivenUp => return None,
        };
        Some((stop.since.deadline(grace), Due::Escalation))
    }

    fn escalate(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.escalation_deadline()?;
        let launch = self.being_ended()?;
        let step = launch.stop?.step.next()?;
        // An agent whose turn is over has nothing to interrupt.
        let quiet =
            launch.stop?.step == StopStep::Interrupt && launch.stream.turn == TurnState::Over;
        (now.mono_ms >= at || quiet).then(|| StopEscalated { launch: launch.id, step }.into())
    }

    fn seal_deadline(&self) -> Option<(u64, Due)> {
        let stays = self.is_stopping_for_it() || self.goes_on() || self.wants_commit();
        if !self.attempt().shown.is_terminal() || stays {
            return None;
        }
        let settles = self.judge_facts().has(Flag::SettleFirst);
        let (attempt, bounds) = (self.attempt(), &self.spec.bounds);
        let resolved = !attempt.resolutions.is_empty();
        let (from, window) = match (resolved || bug!(SettleSkipped), settles) {
            (true, _) => (attempt.since, 0),
            (false, true) => (attempt.since, bounds.settle_ms.max(bounds.drain_ms)),
            (false, false) => self.settle_window(),
        };
        Some((from.deadline(window), Due::Seal))
    }

    /// Whether the work will continue in another process. The attempt is not sealed meanwhile, however
    /// long the old process tree takes to exit.
    pub(super) fn goes_on(&self) -> bool {
        self.died_at_work().is_some()
            || self.is_handing_over()
            || self.is_relaunching()
            || self.is_paused()
    }

    /// Returns the start and length of the settle window. For a run, a verified success counts from its
    /// claim, because contrary reports would have arrived during the checks.
    fn settle_window(&self) -> (Moment, u64) {
        let (attempt, own) = (self.attempt(), self.spec.bounds.settle_ms);
        match (attempt.shown, self.spec.run, &attempt.claim) {
            (State::Succeeded, Some(_), Some(claim)) => (claim.at, own.min(RUN_SETTLE_MS)),
            (State::Completed, Some(_), _) => (attempt.since, own.min(RUN_SETTLE_MS)),
            (_, _, _) => (attempt.since, own),
        }
    }

    /// Whether a stop for the attempt is still in progress. A decided attempt is sealed once its process
    /// is gone, or Provost gave up killing it.
    pub(super) fn is_stopping_for_it(&self) -> bool {
        let Some(launch) = self.current_launch().filter(|launch| launch.may_live()) else {
            return false;
        };
        let resolved = !self.attempt().resolutions.is_empty();
        let wanted = self.attempt().is_decided() || launch.stream.settled;
        !resolved && wanted && !launch.is_given_up() && !launch.adopted
    }

    fn seal_if_due(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.seal_deadline()?;
        (now.mono_ms >= at).then(|| self.seal(now).into())
    }

    fn silence_deadline(&self) -> Option<(u64, Due)> {
        let launch = self.current_launch()?;
        let listening = launch.activity() == Activity::Active
            && matches!(launch.phase, LaunchPhase::Running { .. })
            && self.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        let at = launch.stream.heard.deadline(self.spec.bounds.stale_ms);
        listening.then_some((at, Due::Silence(launch.id)))
    }
}
