//! The laws (invariants) of a team, written independently of the rules that uphold them.
//!
//! A [`TeamWatch`] checks every event together with the team before and after it, and every settled team together with
//! the sessions of its members. It tracks every message by its number, because two messages with the same text are
//! still two messages.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::SessionId,
    lifecycle::{Activity, State},
    limits::MAX_FAILED_STARTS,
    session::{Attempt, DeliveryStatus, Launch, LaunchPhase, Session},
    team::{
        CriterionState, DeliveryMode, Event, FinishBlocker, MemberRole, MessageAccepted,
        MessageLease, MessageOffered, MessageStatus, MessageStored, NewsReported, NewsWatermark,
        Team, TeamActor, TeamMember, TeamMessageKind, TeamPhase, TeamWaitTarget,
    },
    time::Moment,
    verdict::CheckEnd,
};

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

/// A message as tracked by this watch.
#[derive(Clone, Debug)]
struct TrackedMessage {
    from: TeamActor,
    key: String,
    dead_lettered_by: Option<TeamActor>,
    to: String,
    iteration: Option<u32>,
    expires_ms: Option<u64>,
    kind: TeamMessageKind,
    hands_over: bool,
    offers: u32,
    status: TrackedStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TrackedStatus {
    Waits,
    Offered(MessageLease),
    Accepted(MessageLease),
    Acknowledged,
    Expired,
    Cancelled,
    Dead,
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

impl TrackedStatus {
    fn as_str(&self) -> &'static str {
        match self {
            TrackedStatus::Waits => "stored",
            TrackedStatus::Offered(_) => "offered",
            TrackedStatus::Accepted(_) => "accepted",
            TrackedStatus::Acknowledged => "acknowledged",
            TrackedStatus::Expired => "expired",
            TrackedStatus::Cancelled => "cancelled",
            TrackedStatus::Dead => "dead",
        }
    }

    fn lease(&self) -> Option<&MessageLease> {
        match self {
            TrackedStatus::Offered(lease) | TrackedStatus::Accepted(lease) => Some(lease),
            TrackedStatus::Waits
            | TrackedStatus::Acknowledged
            | TrackedStatus::Expired
            | TrackedStatus::Cancelled
            | TrackedStatus::Dead => None,
        }
    }

    fn is_open(&self) -> bool {
        match self {
            TrackedStatus::Waits | TrackedStatus::Offered(_) | TrackedStatus::Accepted(_) => true,
            TrackedStatus::Acknowledged
            | TrackedStatus::Expired
            | TrackedStatus::Cancelled
            | TrackedStatus::Dead => false,
        }
    }
}

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
            let begins = matches!(event, Event::LoopAdvanced(e) if e.message == no);
            law!(begins, "continuation {no} was accepted, but its iteration does not start");
        }
        self.check_messages(task, at, by, event, look)?;
        self.check_loops(task, event)?;
        self.check_news(task, event)?;
        self.check_checks(event)?;
        if let Event::PhaseChanged(e) = event {
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

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else changes a message")]
    fn check_messages<'s>(
        &mut self,
        task: &Team,
        at: Moment,
        by: &str,
        event: &Event,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        match event {
            Event::MessageStored(e) => self.store(e)?,
            Event::MessageOffered(e) => self.offer(e, at)?,
            Event::MessageAccepted(e) => {
                let noted = self.tracked(e.no)?;
                // Accepting a message sets a new lease end.
                let held = match &noted.status {
                    TrackedStatus::Offered(held) => {
                        held.no == e.lease.no && held.consumer == e.lease.consumer
                    }
                    _ => false,
                };
                law!(held, "message {} was {}, but is accepted", e.no, noted.status.as_str());
                was_read(e, &look)?;
                let begins = noted.iteration.is_some() && !self.started_iterations.contains(&e.no);
                self.starting_iteration = begins.then_some(e.no);
                self.set(e.no, TrackedStatus::Accepted(e.lease.clone()))?;
            }
            Event::MessageAcknowledged(e) => {
                let noted = self.tracked(e.no)?;
                let holder =
                    matches!(&noted.status, TrackedStatus::Accepted(held) if held.consumer == e.by);
                law!(
                    holder,
                    "{} handles message {}, which is {}",
                    e.by,
                    e.no,
                    noted.status.as_str()
                );
                self.set(e.no, TrackedStatus::Acknowledged)?;
            }
            Event::MessageReturned(e) => {
                self.check_requeue(e.no, at, by, look)?;
                self.set(e.no, TrackedStatus::Waits)?;
            }
            Event::MessageExpired(e) => {
                let noted = self.tracked(e.no)?;
                let due = noted.expires_ms.is_some_and(|expires| expires <= at.mono_ms);
                let waits = noted.status == TrackedStatus::Waits;
                law!(due && waits, "message {} was {}, but expires", e.no, noted.status.as_str());
                self.set(e.no, TrackedStatus::Expired)?;
            }
            Event::MessageCancelled(e) => {
                let noted = self.tracked(e.no)?;
                let has =
                    noted.status.lease().is_some() || noted.status == TrackedStatus::Acknowledged;
                law!(!has, "message {} is cancelled while it is held", e.no);
                self.set(e.no, TrackedStatus::Cancelled)?;
            }
            Event::MessageDead(e) => {
                law!(self.open.contains(&e.no), "message {} is closed, but is dead-lettered", e.no);
                law!(!e.reason.is_empty(), "message {} is dead-lettered without a reason", e.no);
                self.set(e.no, TrackedStatus::Dead)?;
                self.change(e.no, |noted| noted.dead_lettered_by = e.by.clone());
            }
            Event::UndeliveredReported(e) => {
                self.record_loss_report(task, &e.messages, &e.reports)?
            }
            Event::MessageRequeued(e) => {
                let noted = self.tracked(e.no)?;
                let dead_lettered =
                    matches!(noted.status, TrackedStatus::Dead | TrackedStatus::Expired);
                law!(
                    dead_lettered,
                    "message {} is {}, but is requeued",
                    e.no,
                    noted.status.as_str()
                );
                self.set(e.no, TrackedStatus::Waits)?;
                self.reported_lost.remove(&e.no);
                self.change(e.no, |noted| {
                    (noted.expires_ms, noted.dead_lettered_by) = (None, None);
                    noted.to = e.to.clone().unwrap_or_else(|| noted.to.clone());
                });
            }
            Event::NewsAdded(e) => {
                let noted = self.tracked(e.no)?;
                let waits =
                    noted.status == TrackedStatus::Waits && noted.kind == TeamMessageKind::News;
                law!(waits, "message {} is {}, but its text changes", e.no, noted.status.as_str());
                law!(self.news.insert(e.no), "message {} is extended twice at once", e.no);
            }
            Event::MemberLeft(e) => match &e.to {
                Some(to) => self.rotate(&e.name, to)?,
                None => self.retire_member(&e.name)?,
            },
            Event::MemberRotated(e) => self.rotate(&e.from, &e.to)?,
            Event::PhaseChanged(e) if e.phase.is_over() => {
                self.over = true;
                if matches!(e.phase, TeamPhase::Done { .. }) {
                    self.nothing_is_unread(task)?;
                    no_worker_is_busy(task, look)?;
                }
                for no in Vec::from_iter(self.open.iter().copied()) {
                    self.set(no, TrackedStatus::Cancelled)?;
                }
            }
            Event::MemberBound(e) => {
                law!(task.member(&e.name).is_none(), "{} is bound twice", e.name);
            }
            _ => {}
        }
        Ok(())
    }

    fn store(&mut self, e: &MessageStored) -> Result<(), BrokenLaw> {
        let last = self.messages.keys().next_back().copied().unwrap_or(0);
        law!(e.no == last + 1, "message {} follows message {last}", e.no);
        let from = format!("{:?}", e.from);
        let known = self.keys.insert((from, e.key.clone()), e.no);
        law!(known.is_none(), "the key {} belongs to message {known:?} and to {}", e.key, e.no);
        let by_rule = e.from == TeamActor::Provost;
        if by_rule && e.key.starts_with("news-") {
            self.news.insert(e.no);
        }
        self.messages.insert(
            e.no,
            TrackedMessage {
                from: e.from.clone(),
                key: e.key.clone(),
                dead_lettered_by: None,
                to: e.to.name().to_owned(),
                iteration: e.iteration,
                expires_ms: e.expires_ms,
                kind: e.kind,
                hands_over: by_rule && e.kind == TeamMessageKind::Instruction,
                offers: 0,
                status: TrackedStatus::Waits,
            },
        );
        self.open.insert(e.no);
        Ok(())
    }

    /// A message is offered only to its recipient, only while it is waiting, and under a new lease number.
    fn offer(&mut self, e: &MessageOffered, at: Moment) -> Result<(), BrokenLaw> {
        let noted = self.tracked(e.no)?;
        law!(
            noted.status == TrackedStatus::Waits,
            "message {} is {}, but is offered",
            e.no,
            noted.status.as_str()
        );
        law!(e.lease.consumer == noted.to, "message {} is offered to {}", e.no, e.lease.consumer);
        law!(e.lease.no == noted.offers + 1, "lease {} of message {} is not new", e.lease.no, e.no);
        let of_use = noted.expires_ms.is_none_or(|expires| expires > at.mono_ms);
        law!(of_use, "message {} is obsolete, but is offered", e.no);
        let lease = e.lease.clone();
        self.change(e.no, |noted| noted.offers = lease.no);
        self.set(e.no, TrackedStatus::Offered(lease))
    }

    /// A pulled message returns to the queue when its lease expires or its holder gives it back. A pushed one
    /// returns only if its session reports that the agent never received it, or that the receiving process exited
    /// before another turn started.
    fn check_requeue<'s>(
        &self,
        no: u32,
        at: Moment,
        by: &str,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        let noted = self.tracked(no)?;
        let Some(lease) = noted.status.lease() else {
            return Err(format!("message {no} is {}, but is requeued", noted.status.as_str()));
        };
        match &lease.delivery {
            DeliveryMode::Pull => {
                let over = lease.until_ms.is_some_and(|until| until <= at.mono_ms);
                law!(
                    over || by != "provost",
                    "message {no} is taken away from {by}",
                    by = lease.consumer
                );
            }
            DeliveryMode::Push { session, key, turns } => {
                let session = look(*session);
                let sent = session.and_then(|session| {
                    session.messages.iter().find(|sent| sent.key == *key).map(|sent| &sent.status)
                });
                let never_had = match sent {
                    Some(DeliveryStatus::Undeliverable { .. }) => true,
                    Some(DeliveryStatus::Delivered { launch }) => session.is_some_and(|session| {
                        let launch = session.launch(*launch);
                        launch.is_some_and(Launch::has_ended) && session.turns == *turns
                    }),
                    Some(DeliveryStatus::Queued) | None => false,
                };
                law!(
                    never_had,
                    "message {no} was delivered to a session, but is requeued: {sent:?}"
                );
            }
        }
        Ok(())
    }

    fn retire_member(&mut self, name: &str) -> Result<(), BrokenLaw> {
        for no in self.open_for(name) {
            let hands_over = self.tracked(no)?.hands_over;
            self.set(no, if hands_over { TrackedStatus::Cancelled } else { TrackedStatus::Dead })?;
        }
        Ok(())
    }

    /// The sender and the managers are notified about a lost message, unless they already know about it.
    fn record_loss_report(
        &mut self,
        task: &Team,
        lost: &[u32],
        reported: &[u32],
    ) -> Result<(), BrokenLaw> {
        let reported: BTreeSet<String> = reported
            .iter()
            .map(|no| self.tracked(*no).map(|one| one.to.clone()))
            .collect::<Result<_, _>>()?;
        let managers: Vec<&str> =
            task.bound(MemberRole::Manager).map(|one| one.name.as_str()).collect();
        for no in lost {
            law!(self.reported_lost.insert(*no), "message {no} is reported lost twice");
            let noted = self.tracked(*no)?;
            let is_lost = matches!(noted.status, TrackedStatus::Dead | TrackedStatus::Expired);
            law!(is_lost, "message {no} is {}, but reported lost", noted.status.as_str());
            let sender = match &noted.from {
                TeamActor::Operator | TeamActor::Policy => Some("operator"),
                TeamActor::Member(name) => {
                    Some(name.as_str()).filter(|name| task.member(name).is_some())
                }
                TeamActor::Provost => None,
            };
            let of_report = noted.key.starts_with("undelivered-");
            let managers =
                if managers.is_empty() || of_report { vec!["operator"] } else { managers.clone() };
            let knows = |name: &str| {
                name == noted.to
                    || noted.dead_lettered_by.as_ref().is_some_and(|by| by.name() == name)
            };
            let mut wanted = sender.into_iter().chain(managers).filter(|name| !knows(name));
            let missing = wanted.find(|name| !reported.contains(*name));
            law!(missing.is_none(), "{missing:?} is not notified that message {no} is lost");
        }
        Ok(())
    }

    /// A team is done only if no instruction is open, or the operator allowed it.
    fn nothing_is_unread(&self, task: &Team) -> Result<(), BrokenLaw> {
        let allowed =
            task.allowed.iter().any(|one| matches!(one, FinishBlocker::InstructionOpen { .. }));
        let unread = self.open.iter().find(|no| {
            let noted = &self.messages[*no];
            let instructs =
                matches!(noted.kind, TeamMessageKind::Instruction | TeamMessageKind::Continuation);
            instructs && !noted.hands_over && task.member(&noted.to).is_some()
        });
        law!(unread.is_none() || allowed, "a team is done, but message {unread:?} is open");
        Ok(())
    }

    /// Whether an awaited result may still happen.
    pub(crate) fn is_pending(&self, awaited: TeamWaitTarget) -> bool {
        !self.over
            && match awaited {
                TeamWaitTarget::Check(no) => self.checks.contains(&no),
                TeamWaitTarget::Audit(no) => self.audit == Some(no),
            }
    }

    fn rotate(&mut self, from: &str, to: &str) -> Result<(), BrokenLaw> {
        for no in self.open_for(from) {
            if self.tracked(no)?.hands_over {
                self.set(no, TrackedStatus::Cancelled)?;
            } else {
                self.set(no, TrackedStatus::Waits)?;
                self.change(no, |noted| noted.to = to.to_owned());
            }
        }
        Ok(())
    }

    fn open_for(&self, name: &str) -> Vec<u32> {
        let open = self.open.iter().filter(|no| self.messages[no].to == name);
        open.copied().collect()
    }

    fn tracked(&self, no: u32) -> Result<&TrackedMessage, BrokenLaw> {
        self.messages.get(&no).ok_or_else(|| format!("message {no} was never stored"))
    }

    fn change(&mut self, no: u32, how: impl FnOnce(&mut TrackedMessage)) {
        if let Some(noted) = self.messages.get_mut(&no) {
            how(noted);
        }
    }

    fn set(&mut self, no: u32, status: TrackedStatus) -> Result<(), BrokenLaw> {
        let was = &self.tracked(no)?.status;
        law!(
            *was != TrackedStatus::Acknowledged,
            "message {no} was handled, but becomes {}",
            status.as_str()
        );
        if status.is_open() {
            self.open.insert(no);
        } else {
            self.open.remove(&no);
        }
        self.change(no, |noted| noted.status = status);
        Ok(())
    }

    /// An iteration starts when its continuation is accepted. Each one starts only once, in order and within the limit.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is about loops")]
    fn check_loops(&mut self, task: &Team, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::LoopBegun(e) => {
                let running = self.current_loop.as_ref().is_some_and(|round| !round.ended);
                law!(!running, "a loop starts inside a loop");
                let after = self.messages.keys().next_back().copied().unwrap_or(0);
                let max = e.template.max;
                self.current_loop = Some(TrackedLoop { iteration: 1, max, after, ended: false });
            }
            Event::LoopAdvanced(e) => {
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
            Event::LoopEnded(_) => {
                let round = self.current_loop.as_mut().ok_or("a loop ends, but never started")?;
                round.ended = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// News about a member is sent to each of its managers exactly once, in one message each.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else contains news")]
    fn check_news(&mut self, task: &Team, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::NewsReported(e) => self.record_news(task, e),
            Event::MessageStored(_) | Event::NewsAdded(_) => Ok(()),
            _ => {
                law!(self.news.is_empty(), "news messages {:?} belong to no record", self.news);
                Ok(())
            }
        }
    }

    fn record_news(&mut self, task: &Team, e: &NewsReported) -> Result<(), BrokenLaw> {
        let listed: BTreeSet<u32> = e.messages.iter().copied().collect();
        let fresh = std::mem::take(&mut self.news);
        law!(
            listed == fresh,
            "the record of {} lists {listed:?}, but {fresh:?} were sent",
            e.member
        );
        let managers: Vec<&str> =
            task.bound(MemberRole::Manager).map(|one| one.name.as_str()).collect();
        let mut notified: Vec<&str> =
            listed.iter().map(|no| self.messages[no].to.as_str()).collect();
        notified.sort_unstable();
        let mut wanted = managers;
        // In a team without managers, the operator gets the news. A policy observes the work itself.
        if wanted.is_empty() && task.spec.policy.is_none() {
            wanted.push("operator");
        }
        wanted.sort_unstable();
        law!(
            notified == wanted,
            "news about {} was sent to {notified:?}, not to {wanted:?}",
            e.member
        );
        let now = NewsWatermark {
            turns_ended: e.turns_ended,
            attempts_sealed: e.attempts_sealed,
            requests: e.requests,
            processes_lost: e.processes_lost,
        };
        let before = self.sent_news.insert(e.member.clone(), now).unwrap_or_default();
        law!(now != before, "the same news about {} is sent twice: {now:?}", e.member);
        law!(
            includes_news(now, before),
            "news about {} is retracted: {before:?}, {now:?}",
            e.member
        );
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is about checks")]
    fn check_checks(&mut self, event: &Event) -> Result<(), BrokenLaw> {
        match event {
            Event::CheckRequested(e) => {
                law!(self.checks.insert(e.check.no), "check {} is requested twice", e.check.no);
            }
            Event::CheckDone(e) => {
                law!(self.checks.remove(&e.no), "check {} is done, but was not requested", e.no);
            }
            Event::FinishRequested(e) => self.audit = Some(e.no),
            Event::FinishRefused(_) => self.audit = None,
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

    /// Every message is accounted for by its number, regardless of its text.
    fn no_message_is_lost(&self, task: &Team) -> Result<(), BrokenLaw> {
        for message in &task.messages {
            let noted = self.tracked(message.no)?;
            let (word, is) = (message.status.as_str(), noted.status.as_str());
            law!(word == is, "message {} is {word}, but its events say {is}", message.no);
            let to = message.to.name();
            law!(noted.to == to, "message {} is for {to}, not for {}", message.no, noted.to);
            let reason = match &message.status {
                MessageStatus::Dead { reason } => Some(reason),
                MessageStatus::Cancelled { because } => Some(because),
                MessageStatus::Stored
                | MessageStatus::Offered(_)
                | MessageStatus::Accepted(_)
                | MessageStatus::Acknowledged { .. }
                | MessageStatus::Expired => None,
            };
            let why = reason.is_none_or(|reason| !reason.is_empty());
            law!(why, "message {} is {word} without a reason", message.no);
        }
        let there: BTreeSet<u32> = task.messages.iter().map(|message| message.no).collect();
        let lost = self.open.difference(&there).next();
        law!(lost.is_none(), "message {lost:?} is lost");
        law!(there.len() == task.messages.len(), "two messages share a number");
        Ok(())
    }

    /// All news about a member has been sent. A turn, or a process that never ran, may be reported together with the
    /// seal that follows it, as long as that seal is still to come.
    fn news_are_complete(&self, member: &TeamMember, session: &Session) -> Result<(), BrokenLaw> {
        if member.role == MemberRole::Manager {
            return Ok(());
        }
        let sent = self.sent_news.get(&member.name).copied().unwrap_or_default();
        let ended = session.attempts.iter().filter(|one| one.is_sealed() && !one.superseded);
        let (sealed, name) = (ended.count(), &member.name);
        let lost = session.launches.iter().filter(|launch| launch.ended_unexpectedly()).count();
        law!(sent.attempts_sealed as usize == sealed, "{sealed} outcomes of {name}: sent {sent:?}");
        let asked = session.requests.len();
        law!(sent.requests as usize == asked, "{asked} requests of {name}: sent {sent:?}");
        let failed = |launch: &Launch| matches!(launch.phase, LaunchPhase::Failed { .. });
        let settles = session.state().is_terminal()
            && !session.attempt().is_sealed()
            && session.deadline().is_some();
        let waits = settles && session.launches.iter().all(failed);
        let all_sent = sent.processes_lost as usize == lost || waits;
        law!(all_sent, "{lost} lost processes of {name}: sent {sent:?}");
        let alive = session.current_launch().is_some_and(Launch::may_be_running);
        let settles = session.state().is_terminal() && !session.attempt().is_sealed();
        let under_way = u32::from(alive);
        let turns = sent.turns_ended <= session.turns
            && (settles || sent.turns_ended + under_way >= session.turns);
        law!(turns, "{} turns of {name}: sent {sent:?}", session.turns);
        Ok(())
    }
}

/// A team is done only if no worker is busy, or the operator allowed it.
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

fn includes_news(now: NewsWatermark, before: NewsWatermark) -> bool {
    now.turns_ended >= before.turns_ended
        && now.attempts_sealed >= before.attempts_sealed
        && now.requests >= before.requests
        && now.processes_lost >= before.processes_lost
}

/// A message delivered to a session counts as read once a turn has started after it or the agent has reported its
/// status. It also counts as read if the agent reports no turns, or was in the middle of one.
fn was_read<'s>(
    e: &MessageAccepted,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Result<(), BrokenLaw> {
    let DeliveryMode::Push { session, key, turns } = &e.lease.delivery else { return Ok(()) };
    let Some(session) = look(*session) else { return Ok(()) };
    let sent = session.messages.iter().find(|sent| sent.key == *key);
    let attempt = sent.and_then(|sent| session.attempts.iter().find(|one| one.no == sent.attempt));
    let says = attempt.is_some_and(|attempt| attempt.claim.is_some());
    let turned = session.turns > *turns || session.turns == 0;
    // The law holds even after a long silence, or if another attempt was opened in the meantime.
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
