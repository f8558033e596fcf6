//! The laws of a team's messages.

use std::collections::BTreeSet;

use provost_core::{
    ids::SessionId,
    session::{DeliveryStatus, Launch, Session},
    team::{
        DeliveryMode, Event, FinishBlocker, MemberEvent, MemberRole, MessageEvent, MessageLease,
        MessageOffered, MessageStatus, MessageStored, Team, TeamActor, TeamChange, TeamMessageKind,
        TeamPhase,
    },
    time::Moment,
};

use super::{TeamWatch, law, no_worker_is_busy, was_read};
use crate::session_laws::BrokenLaw;

/// A message as tracked by this watch.
#[derive(Clone, Debug)]
pub(super) struct TrackedMessage {
    pub(super) from: TeamActor,
    pub(super) key: String,
    pub(super) dead_lettered_by: Option<TeamActor>,
    pub(super) to: String,
    pub(super) iteration: Option<u32>,
    pub(super) expires_ms: Option<u64>,
    pub(super) kind: TeamMessageKind,
    pub(super) hands_over: bool,
    pub(super) offers: u32,
    pub(super) status: TrackedStatus,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrackedStatus {
    Waits,
    Offered(MessageLease),
    Accepted(MessageLease),
    Acknowledged,
    Expired,
    Cancelled,
    Dead,
}

impl TrackedStatus {
    pub(super) fn as_str(&self) -> &'static str {
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

    pub(super) fn lease(&self) -> Option<&MessageLease> {
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else changes a message")]
    pub(super) fn check_messages<'s>(
        &mut self,
        task: &Team,
        at: Moment,
        by: &str,
        event: &Event,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Result<(), BrokenLaw> {
        match event {
            Event::Message(MessageEvent::MessageStored(e)) => self.store(e)?,
            Event::Message(MessageEvent::MessageOffered(e)) => self.offer(e, at)?,
            Event::Message(MessageEvent::MessageAccepted(e)) => {
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
            Event::Message(MessageEvent::MessageAcknowledged(e)) => {
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
            Event::Message(MessageEvent::MessageReturned(e)) => {
                self.check_requeue(e.no, at, by, look)?;
                self.set(e.no, TrackedStatus::Waits)?;
            }
            Event::Message(MessageEvent::MessageExpired(e)) => {
                let noted = self.tracked(e.no)?;
                let due = noted.expires_ms.is_some_and(|expires| expires <= at.mono_ms);
                let waits = noted.status == TrackedStatus::Waits;
                law!(due && waits, "message {} was {}, but expires", e.no, noted.status.as_str());
                self.set(e.no, TrackedStatus::Expired)?;
            }
            Event::Message(MessageEvent::MessageCancelled(e)) => {
                let noted = self.tracked(e.no)?;
                let has =
                    noted.status.lease().is_some() || noted.status == TrackedStatus::Acknowledged;
                law!(!has, "message {} is cancelled while it is held", e.no);
                self.set(e.no, TrackedStatus::Cancelled)?;
            }
            Event::Message(MessageEvent::MessageDead(e)) => {
                law!(self.open.contains(&e.no), "message {} is closed, but is dead-lettered", e.no);
                law!(!e.reason.is_empty(), "message {} is dead-lettered without a reason", e.no);
                self.set(e.no, TrackedStatus::Dead)?;
                self.change(e.no, |noted| noted.dead_lettered_by = e.by.clone());
            }
            Event::Message(MessageEvent::UndeliveredReported(e)) => {
                self.record_loss_report(task, &e.messages, &e.reports)?
            }
            Event::Message(MessageEvent::MessageRequeued(e)) => {
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
            Event::Message(MessageEvent::NewsAdded(e)) => {
                let noted = self.tracked(e.no)?;
                let waits =
                    noted.status == TrackedStatus::Waits && noted.kind == TeamMessageKind::News;
                law!(waits, "message {} is {}, but its text changes", e.no, noted.status.as_str());
                law!(self.news.insert(e.no), "message {} is extended twice at once", e.no);
            }
            Event::Member(MemberEvent::MemberLeft(e)) => match &e.to {
                Some(to) => self.rotate(&e.name, to)?,
                None => self.retire_member(&e.name)?,
            },
            Event::Member(MemberEvent::MemberRotated(e)) => self.rotate(&e.from, &e.to)?,
            Event::Team(TeamChange::PhaseChanged(e)) if e.phase.is_over() => {
                self.over = true;
                if matches!(e.phase, TeamPhase::Done { .. }) {
                    self.nothing_is_unread(task)?;
                    no_worker_is_busy(task, look)?;
                }
                for no in Vec::from_iter(self.open.iter().copied()) {
                    self.set(no, TrackedStatus::Cancelled)?;
                }
            }
            Event::Member(MemberEvent::MemberBound(e)) => {
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

    /// A pulled message returns to the queue when its lease expires or its holder gives it back. A pushed message
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
                    session
                        .input
                        .messages
                        .iter()
                        .find(|sent| sent.key == *key)
                        .map(|sent| &sent.status)
                });
                let never_had = match sent {
                    Some(DeliveryStatus::Undeliverable { .. }) => true,
                    Some(DeliveryStatus::Delivered { launch }) => session.is_some_and(|session| {
                        let launch = session.launch(*launch);
                        launch.is_some_and(Launch::has_ended) && session.spending.turns == *turns
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

    /// A team is done only if no instruction is open, or if the operator waived this requirement.
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

    pub(super) fn tracked(&self, no: u32) -> Result<&TrackedMessage, BrokenLaw> {
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

    /// Every message is accounted for by its number, regardless of its text.
    pub(super) fn no_message_is_lost(&self, task: &Team) -> Result<(), BrokenLaw> {
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
}
