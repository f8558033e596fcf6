//! The laws (invariants) of a team, written independently of the rules that uphold them.
//!
//! A [`TeamWatch`] checks every event together with the team before and after it, and every settled team together with
//! the sessions of its members. It tracks every message by its number, because two messages with the same text are
//! still two messages.

mod messages;
mod news;

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::SessionId,
    lifecycle::{Activity, State},
    limits::MAX_FAILED_STARTS,
    session::{Attempt, Session},
    team::{
        CheckEvent, CriterionState, DeliveryMode, Event, FinishBlocker, FinishEvent, LoopEvent,
        MemberRole, MessageAccepted, NewsWatermark, Team, TeamActor, TeamChange, TeamMessageKind,
        TeamPhase, TeamWaitTarget,
    },
    time::Moment,
    verdict::CheckEnd,
};

use self::messages::{TrackedMessage, TrackedStatus};
use crate::session_laws::BrokenLaw;

/// The part of a team's history that is needed to judge its current state.
#[derive(Clone, Debug, Default)]
pub struct TeamWatch {
    messages: BTreeMap<u32, TrackedMessage>,
    open: BTreeSet<u32>,
    /// The number of the message for each sender and key.
    keys: BTreeMap<(String, String), u32>,
    current_loop: Option<TrackedLoop>,
    /// The continuations that started an iteration, for all loops.
    started_iterations: BTreeSet<u32>,
    /// A continuation that was just accepted. The very next event must start its iteration.
    starting_iteration: Option<u32>,
    /// News messages that no news record lists yet.
    news: BTreeSet<u32>,
    sent_news: BTreeMap<String, NewsWatermark>,
    checks: BTreeSet<u32>,
    /// The running audit.
    audit: Option<u32>,
    over: bool,
    /// The lost messages about which senders and managers were notified.
    reported_lost: BTreeSet<u32>,
}

/// The current or latest loop.
#[derive(Clone, Debug)]
struct TrackedLoop {
    iteration: u32,
    max: u32,
    /// The newest message from before the loop. Neither this message nor any earlier one continues the loop.
    after: u32,
    ended: bool,
}

macro_rules! law {
    ($holds:expr, $($words:tt)+) => {
        if !$holds { return Err(format!($($words)+)); }
    };
}
pub(crate) use law;

impl TeamWatch {
    /// Checks one event against the team before it, and against the actor that caused it.
    pub fn check_before<'s>(
        &mut self,
        task: &Team,
        at: Moment,
        by: &str,
        event: &Event,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        law!(!task.phase.is_over(), "a team is {}, but changes: {event:?}", task.phase.as_str());
        if let Some(no) = self.starting_iteration.take() {
            let begins =
                matches!(event, Event::Loop(LoopEvent::LoopAdvanced(e)) if e.message == no);
            law!(begins, "continuation {no} was accepted, but its iteration does not start");
        }
        self.check_messages(task, at, by, event, look)?;
        self.check_loops(task, event)?;
        self.check_news(task, event)?;
        self.check_checks(event)?;
        if let Event::Team(TeamChange::PhaseChanged(e)) = event {
            self.check_finish(task, &e.phase)?;
        }
        Ok(())
    }

    /// Checks the team after an event.
    pub fn check_after(&self, event: &Event, task: &Team) -> Result<(), BrokenLaw> {
        if let Some(policy) = &task.spec.policy {
            let acts = task.policy.actions.len();
            law!(
                acts <= policy.actions as usize,
                "a policy performed {acts} actions after {event:?}"
            );
        }
        Ok(())
    }

    /// Whether an awaited result is still possible.
    pub(crate) fn is_pending(&self, awaited: TeamWaitTarget) -> bool {
        !self.over
            && match awaited {
                TeamWaitTarget::Check(no) => self.checks.contains(&no),
                TeamWaitTarget::Audit(no) => self.audit == Some(no),
            }
    }

    /// An iteration starts when its continuation is accepted. Each iteration starts only once, in order and within the
    /// limit.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is about loops")]
    fn check_loops(&mut self, task: &Team, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::Loop(LoopEvent::LoopBegun(e)) => {
                let running = self.current_loop.as_ref().is_some_and(|round| !round.ended);
                law!(!running, "a loop starts inside a loop");
                let after = self.messages.keys().next_back().copied().unwrap_or(0);
                let max = e.template.max;
                self.current_loop = Some(TrackedLoop { iteration: 1, max, after, ended: false });
            }
            Event::Loop(LoopEvent::LoopAdvanced(e)) => {
                let noted = self.tracked(e.message)?;
                let accepted = matches!(noted.status, TrackedStatus::Accepted(_));
                law!(accepted, "iteration {} starts with an unaccepted continuation", e.to);
                law!(
                    noted.iteration == Some(e.to),
                    "message {} belongs to another iteration",
                    e.message
                );
                law!(
                    self.started_iterations.insert(e.message),
                    "message {} starts a second iteration",
                    e.message
                );
                let missing = task.loop_state.as_ref().map(|looped| looped.missing_evidence());
                let shown = missing.as_ref().is_some_and(Vec::is_empty);
                law!(shown, "iteration {} starts, but {missing:?} is missing", e.to);
                let round =
                    self.current_loop.as_mut().ok_or("an iteration starts without a loop")?;
                law!(!round.ended, "iteration {} starts after the end of its loop", e.to);
                law!(e.message > round.after, "message {} belongs to an earlier loop", e.message);
                law!(e.to == round.iteration + 1, "iteration {} follows {}", e.to, round.iteration);
                law!(
                    e.to <= round.max,
                    "iteration {} starts, but the limit is {}",
                    e.to,
                    round.max
                );
                round.iteration = e.to;
            }
            Event::Loop(LoopEvent::LoopEnded(_)) => {
                let round = self.current_loop.as_mut().ok_or("a loop ends, but never started")?;
                round.ended = true;
            }
            _ => {}
        }
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is about checks")]
    fn check_checks(&mut self, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::Check(CheckEvent::CheckRequested(e)) => {
                law!(self.checks.insert(e.check.no), "check {} is requested twice", e.check.no);
            }
            Event::Check(CheckEvent::CheckDone(e)) => {
                law!(self.checks.remove(&e.no), "check {} is done, but was not requested", e.no);
            }
            Event::Finish(FinishEvent::FinishRequested(e)) => self.audit = Some(e.no),
            Event::Finish(FinishEvent::FinishRefused(_)) => self.audit = None,
            _ => {}
        }
        Ok(())
    }

    /// A team is done only when no criterion is open, and its audit has passed.
    fn check_finish(&self, task: &Team, phase: &TeamPhase) -> Result<(), BrokenLaw> {
        if !matches!(phase, TeamPhase::Done { .. }) {
            return Ok(());
        }
        let open = task
            .criteria
            .iter()
            .find(|one| matches!(one.state, CriterionState::Accepted | CriterionState::Proposed));
        law!(open.is_none(), "a team is done, but {open:?} is open");
        law!(!task.is_paused(), "a team is done while it is paused");
        for check in task.audit_checks() {
            let receipts = task.audit.iter().flat_map(|audit| &audit.receipts);
            let mut of_it = receipts.filter(|receipt| receipt.command == check.command);
            let passed = of_it.any(|receipt| receipt.end == CheckEnd::Exit(0));
            law!(passed, "a team is done, but `{}` did not pass", check.command);
        }
        Ok(())
    }

    /// Checks a team that cannot advance at this time.
    pub fn check_settled<'s>(
        &self,
        task: &Team,
        now: Moment,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        law!(
            self.starting_iteration.is_none(),
            "a continuation was accepted, but no iteration started"
        );
        law!(self.news.is_empty(), "news messages {:?} belong to no record", self.news);
        self.no_message_is_lost(task)?;
        if task.phase.is_over() {
            law!(
                task.effects().is_empty(),
                "a team is over with pending effects {:?}",
                task.effects()
            );
            let open = self.open.first();
            law!(open.is_none(), "a team is over, but message {open:?} is open");
            return Ok(());
        }
        let unreported = self.messages.iter().find(|(no, noted)| {
            let lost = matches!(noted.status, TrackedStatus::Dead | TrackedStatus::Expired);
            lost && noted.kind != TeamMessageKind::Probe && !self.reported_lost.contains(no)
        });
        law!(unreported.is_none(), "a lost message was not reported: {unreported:?}");
        let due = task.deadline().filter(|at| *at <= now.mono_ms);
        law!(due.is_none(), "a due deadline of a team changed nothing");
        let waiting = task.messages.iter().filter(|message| message.is_available(now));
        let waiting: BTreeMap<(&str, bool), u32> = waiting
            .map(|message| {
                let own = message.from == TeamActor::Provost;
                ((message.to.name(), own), message.no)
            })
            .collect();
        let held: BTreeSet<&str> = self.open.iter().filter_map(|no| self.holder(*no)).collect();
        for member in task.members.iter().filter(|member| member.is_bound()) {
            let Some(session) = member.session.and_then(&look) else { continue };
            self.news_are_complete(member, session)?;
            let name = member.name.as_str();
            let is_free = !held.contains(name) && !task.is_paused();
            let takes_own = failed_starts(session) < MAX_FAILED_STARTS;
            let own = if takes_own { waiting.get(&(name, true)) } else { None };
            let stranded = if is_free { waiting.get(&(name, false)).or(own) } else { None };
            law!(
                stranded.is_none() || !certainly_accepts(session),
                "message {stranded:?} waits, although {name} could take it"
            );
        }
        Ok(())
    }

    /// Counts the handled instructions, except those in which Provost explains a member's role.
    pub(crate) fn handled_instructions(&self) -> u64 {
        let handled =
            self.messages.values().filter(|noted| noted.status == TrackedStatus::Acknowledged);
        let given =
            handled.filter(|noted| noted.kind == TeamMessageKind::Instruction && !noted.hands_over);
        given.count() as u64
    }

    fn holder(&self, no: u32) -> Option<&str> {
        self.messages.get(&no)?.status.lease().map(|lease| lease.consumer.as_str())
    }
}

/// A team is done only if no worker is busy, or if the operator waived this requirement.
fn no_worker_is_busy<'s>(
    task: &Team,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Result<(), BrokenLaw> {
    let allowed = task.allowed.iter().any(|one| matches!(one, FinishBlocker::MemberWorking { .. }));
    let sessions = task.bound(MemberRole::Worker).filter_map(|worker| look(worker.session?));
    // The state of an external agent may be unknown.
    let mut working = sessions.filter(|session| session.spec.adopted.is_none());
    let working = working.find(|session| session.state() == State::Working);
    law!(working.is_none() || allowed, "a team is done, but a worker is busy");
    Ok(())
}

/// A message delivered to a session counts as read once a turn has started after it or the agent has reported its
/// status. A message also counts as read if the agent reports no turns, or was in the middle of a turn when the message
/// was delivered.
fn was_read<'s>(
    e: &MessageAccepted,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Result<(), BrokenLaw> {
    let DeliveryMode::Push { session, key, turns } = &e.lease.delivery else { return Ok(()) };
    let Some(session) = look(*session) else { return Ok(()) };
    let sent = session.input.messages.iter().find(|sent| sent.key == *key);
    let attempt = sent.and_then(|sent| session.attempts.iter().find(|one| one.no == sent.attempt));
    let says = attempt.is_some_and(|attempt| attempt.claim.is_some());
    let turned = session.spending.turns > *turns || session.spending.turns == 0;
    // A message can count as read even after a long silence, or if another attempt was opened in the meantime.
    let within = session.launches.last().is_some_and(|one| {
        one.may_be_running() && one.activity() != Activity::Idle && !one.stream.expected
    });
    law!(
        turned || says || within,
        "message {} is accepted by a process that started no turn",
        e.no
    );
    Ok(())
}

/// Whether a session has ended and can be resumed, and therefore certainly accepts messages. A session that a user
/// stopped is left for that user to resume.
fn certainly_accepts(session: &Session) -> bool {
    session.spec.adopted.is_none()
        && session.spec.agent.interface.takes_instructions()
        && session.attempt().is_sealed()
        && session.state() != State::Cancelled
        && session.open_requests().next().is_none()
        && !session.was_stopped()
        && !session.is_compacting()
}

/// Counts the newest attempts that neither began a turn nor claimed anything, and that no user ended.
fn failed_starts(session: &Session) -> usize {
    let began = |attempt: &Attempt| {
        let mut launches = session.launches.iter().filter(|launch| launch.attempt == attempt.no);
        attempt.claim.is_some()
            || attempt.last_turn.is_some()
            || launches.any(|launch| launch.watch.turn_changed_at.is_some())
    };
    let by_user = |attempt: &Attempt| {
        attempt.superseded || attempt.cancelled.is_some() || !attempt.resolutions.is_empty()
    };
    let newest = session.attempts.iter().rev();
    newest.take_while(|attempt| !began(attempt) && !by_user(attempt)).count()
}
