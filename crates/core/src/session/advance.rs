//! What follows by itself, from the facts and from time. Level-triggered: the same after a restart.

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
    /// Gives the next event that is due without anyone asking, or none.
    ///
    /// The caller folds it and asks again. Whenever [`Session::deadline`] is past, this gives an event
    /// (a due silence excepted, which is decided with what the stream's reader heard).
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

    /// Gives the moment at which time alone will change something, and what.
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
        open.into_iter()
            .filter(|_| !sealed)
            .flatten()
            .chain(self.escalation_deadline())
            .chain(self.retry_deadline())
            .chain(self.compaction_deadline().filter(|_| sealed))
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
        // A call is answered for as long as there is somebody who waits for that.
        let waits = |message: &Message| {
            let running = self.running().filter(|launch| launch.stop.is_none());
            let asker = message.returned.as_ref().map(|returned| returned.launch);
            let answers = asker.is_some() && asker == running.map(|launch| launch.id);
            // A conversation may be made shorter before the next work begins.
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
            // What the user stopped before it ran did not fail to start.
            (_, _, Some(LaunchPhase::Failed { .. })) if self.was_ended() => return None,
            (_, _, Some(LaunchPhase::Failed { reason })) => reason,
            (_, _, Some(_)) if self.refusal().is_some() => self.refusal().unwrap_or_default(),
            (WorkState::Removed, _, None) => "its place of work was removed",
            (_, _, None) if self.is_haunted() => "its former process could not be ended",
            _ => return None,
        };
        let stopped = AttemptStopped { cause: StopCause::Launch, detail: reason.to_owned() };
        (!self.attempt().is_decided()).then(|| stopped.into())
    }

    /// A process that can neither be told anything nor be ended will not bring its attempt to an end.
    fn give_up_the_process(&self) -> Option<Event> {
        let stop = self.current_launch()?.stop?;
        let stuck = matches!(self.attempt().shown, State::Idle | State::Rework);
        let detail = "its process could not be ended".to_owned();
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
        let launch = self.current_launch().filter(|_| !self.is_relaunching())?;
        launch.stream.refused.as_deref()
    }

    /// No model call starts once the budget is known to be used up.
    fn run_out_of_budget(&self) -> Option<Event> {
        let detail = self.used_up()?.detail;
        self.may_use_more().then(|| AttemptStopped { cause: StopCause::Budget, detail }.into())
    }

    /// Says whether the agent may begin another model call for its attempt.
    pub(crate) fn may_use_more(&self) -> bool {
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        !self.attempt().is_decided() && !claimed
    }

    /// Says what of the budget is used up, if anything is.
    pub(super) fn used_up(&self) -> Option<UsedUp> {
        self.used_up_of(self.budget)
    }

    /// Says what of a budget is used up, if anything is.
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

    /// Counts the turns that are over: the one that is open was begun within the budget.
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

    /// An agent that died at work goes on in a new process, once all of the former one is gone.
    fn go_on_after_a_crash(&self) -> Option<Event> {
        // Whoever is not followed any more is gone.
        self.died_at_work().filter(|launch| !launch.is_followed())?;
        // What only the dead process could have used is void; a question can still be answered, and then is.
        let void = self.void_approvals().next().or_else(|| self.lose_an_approval());
        let owed = || LaunchOwed { launch: self.next_launch(), why: LaunchWhy::Crash }.into();
        Some(void.unwrap_or_else(owed))
    }

    /// A word on an approval that never arrived is for nobody else than the process that had asked.
    fn lose_an_approval(&self) -> Option<Event> {
        let approves = |message: &&Message| {
            let request = self.requests.iter().find(|r| Some(r.id) == message.request);
            message.fate == MessageFate::Queued
                && request.is_some_and(|r| r.asked.kind == RequestKind::Approval)
        };
        let key = self.messages.iter().find(approves)?.key.clone();
        Some(MessageLost { key, reason: "the process that asked has ended".to_owned() }.into())
    }

    /// Gives the launch that died at work, if it may go on: that is done a bounded number of times.
    fn died_at_work(&self) -> Option<&Launch> {
        let launch = self.current_launch()?;
        let crashed = match &launch.phase {
            LaunchPhase::Ended { end, by, .. } => *by == EndedBy::Itself && *end != End::Exit(0),
            LaunchPhase::Unobserved { .. } => true,
            LaunchPhase::Owed | LaunchPhase::Running { .. } | LaunchPhase::Failed { .. } => false,
        };
        // A member at rest has nothing to go on with: what is sent to it next wakes it.
        let waits = self.messages.iter().any(|message| message.fate == MessageFate::Queued);
        // Nor has one whose turn was interrupted: the user says what comes next.
        let idles = self.is_member() || self.attempt().held;
        let rests = idles && launch.stream.turn == TurnState::Over && !waits;
        let claimed = matches!(self.claim(), ClaimKind::Completed | ClaimKind::Failed);
        let at_work = !claimed && !rests;
        let resumable = self.spec.agent.driver.resumes() && self.thread.is_some();
        let bounded = self.attempt().resumes < self.spec.bounds.resumes;
        let undecided = launch.stop.is_none() && !self.attempt().is_decided();
        (crashed && at_work && resumable && bounded && undecided).then_some(launch)
    }

    /// Gives the approval that has waited longest, if such waits are bounded.
    fn oldest_approval(&self) -> Option<(u64, &Request)> {
        let patience = self.spec.bounds.approval_ms.filter(|_| !self.attempt().is_decided())?;
        let approvals = self.open_requests().filter(|r| r.asked.kind == RequestKind::Approval);
        approvals.map(|r| (r.at.deadline(patience), r)).min_by_key(|(at, _)| *at)
    }

    fn expiry_deadline(&self) -> Option<(u64, Due)> {
        self.oldest_approval().map(|(at, _)| (at, Due::Expiry))
    }

    /// Nobody decided in time, and the rules say what that means.
    fn expire(&self, now: Moment) -> Option<Event> {
        let (_, request) = self.oldest_approval().filter(|(at, _)| now.mono_ms >= *at)?;
        let rule = "expired: nobody decided in time".to_owned();
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
        // A handshake takes two: no time counts in which nobody was there to answer the agent.
        let since = launch.followed.unwrap_or(launch.owed_at);
        Some((since.deadline(self.spec.bounds.handshake_ms), Due::Handshake))
    }

    /// Gives the launch that runs and has yet to name its conversation.
    pub(super) fn shaking_hands(&self) -> Option<&Launch> {
        let launch = self.current_launch().filter(|_| self.spec.agent.driver.shakes_hands())?;
        let waiting = matches!(launch.phase, LaunchPhase::Running { .. })
            && !launch.stream.ready
            && launch.stop.is_none()
            && !self.attempt().is_decided();
        waiting.then_some(launch)
    }

    fn give_up_the_handshake(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.handshake_deadline()?;
        let detail = "the agent did not say which conversation it has".to_owned();
        (now.mono_ms >= at).then(|| AttemptStopped { cause: StopCause::Launch, detail }.into())
    }

    /// Says whether a process lives on that Provost gave up ending: nothing is started beside it.
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

    /// The launch's policy speaks for a process that exited 0 and claimed nothing.
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
        let closed = launch.stream.closed.filter(|_| !launch.stream.settled)?;
        Some((closed.deadline(self.spec.bounds.stream_settle_ms), Due::StreamSettle))
    }

    fn settle_stream(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.stream_settle_deadline()?;
        let launch = self.current_launch()?.id;
        (now.mono_ms >= at).then(|| StreamSettled { launch }.into())
    }

    /// Ends a process whose attempt was decided, or that closed its stream and lives on.
    fn end_what_was_decided(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_ended())?;
        let why = match (self.attempt().is_decided(), launch.stream.settled) {
            (true, _) => StopWhy::Decided,
            (false, true) => StopWhy::Leftover,
            (false, false) => return None,
        };
        Some(self.stop_launch(launch.id, why).into())
    }

    /// A member whose team is over is ended once its turn is over, or it is silent. A person at its screen keeps it.
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

    /// Says whether the session works for a task that stands alone, and rests between what it is sent.
    pub(super) fn is_member(&self) -> bool {
        self.spec.agent.settings.member.is_some()
    }

    /// An idle agent that claimed nothing is asked once for its result; idle again, or deaf, it is closed. A member of a
    /// task waits for its next message. One with a person at its screen is that person's, and so is one that a person interrupted: whoever does that goes on.
    fn ask_for_a_result(&self) -> Option<Event> {
        let free = |launch: &&Launch| launch.stop.is_none() && !launch.is_attended();
        let asks = !self.spec.agent.driver.has_terminal()
            && !self.attempt().held
            && !self.is_compacting()
            && !self.repeats_a_message()
            && !self.is_member();
        let launch = self.current_launch().filter(free).filter(|_| asks)?;
        let asked = self.attempt().result_asked.is_some();
        let deaf = launch.stream.turn == TurnState::Open { turn: None }
            && self.attempt().shown == State::Stalled;
        match (asked, self.is_idle()) {
            (false, true) => {
                let attempt = self.attempt();
                let key = format!("result-{}-{}", attempt.no, attempt.reworks);
                // An agent that goes on with another's work is asked for its own.
                let key = match self.knows(&key) {
                    true => format!("{key}-l{}", launch.id.no),
                    false => key,
                };
                // A refused question is asked anew.
                let key = match self.knows(&key) {
                    true => format!("{key}-{}", self.messages.len()),
                    false => key,
                };
                Some(ResultAsked { key }.into())
            }
            (true, idle) if idle || deaf => {
                Some(self.stop_launch(launch.id, StopWhy::Unclaimed).into())
            }
            (true | false, _) => None,
        }
    }

    /// Refuted work goes back to the living agent, a bounded number of times.
    fn send_back(&self) -> Option<Event> {
        let launch = self.current_launch().filter(|launch| launch.may_be_ended())?;
        if self.attempt().shown != State::Rework {
            return None;
        }
        let attempt = self.attempt();
        // What keeps a check from being run is nothing that the agent could repair.
        let may_talk =
            self.spec.agent.driver.has_protocol() && !self.verification().could_not_run();
        match may_talk && attempt.reworks < self.spec.bounds.rework {
            false => Some(self.stop_launch(launch.id, StopWhy::ReworkExhausted).into()),
            true => {
                let key = format!("rework-{}-{}", attempt.no, attempt.reworks + 1);
                Some(ReworkSent { key, text: self.refutation() }.into())
            }
        }
    }

    /// Says to the agent what refuted its work.
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

    /// Gives the end of what a check printed.
    fn printed_by(&self, command: &str) -> String {
        let receipts = &self.attempt().verifying.receipts;
        let receipt = receipts.iter().find(|r| r.command == command && !r.tail.is_empty());
        receipt.map_or(String::new(), |receipt| format!(" It printed last:\n{}", receipt.tail))
    }

    /// Gives the launch that is being ended. One that is only owed may run without anybody knowing.
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
        // An agent whose turn is over has nothing left to interrupt.
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

    /// Whoever goes on has not ended: however long its tree takes to go, no window ends before that.
    pub(super) fn goes_on(&self) -> bool {
        self.died_at_work().is_some()
            || self.is_handing_over()
            || self.is_relaunching()
            || self.is_paused()
    }

    /// Gives from when on and how long a terminal state has to stand. What checks proved for a run has stood since it was
    /// claimed: whatever was said against it meanwhile would have been heard.
    fn settle_window(&self) -> (Moment, u64) {
        let (attempt, own) = (self.attempt(), self.spec.bounds.settle_ms);
        match (attempt.shown, self.spec.run, &attempt.claim) {
            (State::Succeeded, Some(_), Some(claim)) => (claim.at, own.min(RUN_SETTLE_MS)),
            (State::Completed, Some(_), _) => (attempt.since, own.min(RUN_SETTLE_MS)),
            (_, _, _) => (attempt.since, own),
        }
    }

    /// A decided attempt is sealed when its process is known to be gone, or Provost gave up ending it.
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
