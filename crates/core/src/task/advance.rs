//! What follows by itself, from the task and from its members' sessions as they stand. Level-triggered.

use std::collections::BTreeMap;

use super::{
    criterion::Evidence,
    envelope,
    event::*,
    gate::{Look, Shown},
    member::{Actor, Member, Role, Told},
    message::{Address, Channel, Kind, Lease, Message, Overdue, Priority, Standing, Trust, Way},
    state::Task,
};
use crate::{
    ids::SessionId,
    lifecycle::{Activity, State},
    session::{self, MessageFate, SendMode, Session},
    time::Moment,
};

/// What a task looks at besides itself.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub now: Moment,
    /// Gives a session as it stands. One that cannot be looked at has not ended.
    pub look: &'a dyn Fn(SessionId) -> Option<&'a Session>,
}

/// One thing that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Events(Vec<Event>),
    /// The offer together with what it says to a session, or, if that takes nothing, the message is dead.
    Send(Box<(MessageOffered, SessionId, session::Command)>),
}

impl<'a> Around<'a> {
    /// Gives the tokens that the task's workers used.
    pub(super) fn used(&self, task: &Task) -> u64 {
        let sessions = task.bound(Role::Worker).filter_map(|worker| worker.session);
        sessions.filter_map(|id| (self.look)(id)).map(|session| session.usage.total()).sum()
    }

    /// Gives what the work looks like now, to be compared with later.
    pub(super) fn look_of(&self, task: &Task) -> Look {
        let Some(looped) = task.running_loop() else { return Look::default() };
        let findings = looped.shown.iter().map(|(name, shown)| (name.clone(), found(shown)));
        Look { tree: shown_tree(looped.shown.values()), findings: findings.collect() }
    }
}

/// Gives the tree that this iteration's receipts are about.
fn shown_tree<'s>(shown: impl Iterator<Item = &'s Shown>) -> Option<crate::ids::TreeId> {
    let verified = shown.filter_map(|shown| match shown {
        Shown::Evidence(Evidence::Verified(receipt)) => Some(receipt.tree.clone()),
        Shown::Evidence(Evidence::Asserted { .. })
        | Shown::Attack(_)
        | Shown::Artifact(_)
        | Shown::Pictures(_) => None,
    });
    verified.last()
}

/// Gives what of evidence would differ if something had changed; durations and times do not count.
fn found(shown: &Shown) -> String {
    match shown {
        Shown::Evidence(Evidence::Verified(receipt)) => {
            format!("{:?} {}", receipt.end, receipt.tree.0)
        }
        Shown::Evidence(Evidence::Asserted { text, .. }) => text.clone(),
        Shown::Attack(attack) => {
            format!("{}\n{}\n{}", attack.failure_mode, attack.check, attack.result)
        }
        Shown::Artifact(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("\n"),
        Shown::Pictures(compared) => compared.differing.to_string(),
    }
}

impl Task {
    /// Gives the next thing that is due without anyone asking, or none. The caller folds it and asks again.
    pub fn advance(&self, around: &Around<'_>) -> Option<Step> {
        if self.phase.is_over() {
            return None;
        }
        self.let_time_work(around.now)
            .or_else(|| self.see_pushed(around))
            .or_else(|| self.tell_news(around))
            .or_else(|| self.push(around))
    }

    /// Gives when time alone changes something.
    pub fn deadline(&self) -> Option<u64> {
        let live = self.messages.iter().filter(|_| !self.phase.is_over());
        live.filter_map(Message::deadline).min()
    }

    fn let_time_work(&self, now: Moment) -> Option<Step> {
        self.messages.iter().find_map(|message| {
            let no = message.no;
            let event = match message.overdue(now)? {
                Overdue::Expired => MessageExpired { no }.into(),
                Overdue::Returned => {
                    let holder = message.standing.lease().map_or("nobody", |lease| &lease.consumer);
                    let reason = format!("{holder} did not say in time that it was handled");
                    MessageReturned { no, reason }.into()
                }
                Overdue::Dead => {
                    let reason =
                        format!("it was offered {} times and never handled", message.offers);
                    MessageDead { no, reason }.into()
                }
            };
            Some(Step::Events(vec![event]))
        })
    }

    /// Sees what became of what was given to sessions.
    fn see_pushed(&self, around: &Around<'_>) -> Option<Step> {
        self.messages.iter().find_map(|message| {
            let lease = message.standing.lease()?;
            let Way::Push { session, key } = &lease.way else { return None };
            let session = (around.look)(*session)?;
            let sent = session.messages.iter().find(|sent| sent.key == *key);
            self.pushed(message, lease, sent, around).map(Step::Events)
        })
    }

    fn pushed(
        &self,
        message: &Message,
        lease: &Lease,
        sent: Option<&session::Message>,
        around: &Around<'_>,
    ) -> Option<Vec<Event>> {
        let no = message.no;
        match sent.map(|sent| &sent.fate) {
            Some(MessageFate::Queued) => None,
            // The agent's own record has it: a confirmed push is consumed.
            Some(MessageFate::Delivered { .. }) => {
                let mut events = self.accepted(message, lease.clone(), 0, around);
                let by = lease.consumer.clone();
                events.push(MessageAcknowledged { no, by, note: None }.into());
                Some(events)
            }
            Some(MessageFate::Undeliverable { reason }) => {
                Some(vec![MessageDead { no, reason: reason.clone() }.into()])
            }
            None => {
                let reason = "its session does not know it".to_owned();
                Some(vec![MessageDead { no, reason }.into()])
            }
        }
    }

    /// What happens to a worker reaches its managers by itself, once.
    fn tell_news(&self, around: &Around<'_>) -> Option<Step> {
        let told = |member: &&Member| member.is_bound() && member.role != Role::Manager;
        self.members.iter().filter(told).find_map(|member| {
            let session = (around.look)(member.session?)?;
            let seen = seen_of(session);
            (seen != member.told).then(|| Step::Events(self.news(member, session, seen)))
        })
    }

    fn news(&self, member: &Member, session: &Session, seen: Told) -> Vec<Event> {
        let text = envelope::news(member, session);
        let managers = self.bound(Role::Manager).map(|manager| manager.name.clone());
        let numbered = managers.zip(self.messages_stored + 1..);
        let stored = numbered.map(|(to, no)| {
            Event::from(MessageStored {
                no,
                key: format!(
                    "news-{}-{}-{}-{}-{to}",
                    member.name, seen.turns_ended, seen.attempts_sealed, seen.requests
                ),
                correlation: None,
                from: Actor::Provost,
                channel: Channel::Rule,
                // What an agent said is in it.
                trust: Trust::Claims,
                to: Address::Member(to),
                kind: Kind::News,
                text: text.clone(),
                priority: Priority::Normal,
                expires_ms: None,
                iteration: None,
            })
        });
        let told = NewsTold {
            member: member.name.clone(),
            turns_ended: seen.turns_ended,
            attempts_sealed: seen.attempts_sealed,
            requests: seen.requests,
        };
        stored.chain([told.into()]).collect()
    }

    /// Gives the next message to a session that is at rest, one at a time.
    fn push(&self, around: &Around<'_>) -> Option<Step> {
        if self.is_paused() {
            return None;
        }
        let bound = self.members.iter().filter(|member| member.is_bound());
        bound.filter(|member| self.has_none_under_way(member)).find_map(|member| {
            let session = (around.look)(member.session?)?;
            let to = Address::Member(member.name.clone());
            let message = self.next_for(&to, around.now).filter(|_| takes(session))?;
            match self.bars(message, around) {
                Some(why) => Some(Step::Events(self.refuse_delivery(message, why))),
                None => Some(self.send(member, message, session)),
            }
        })
    }

    fn has_none_under_way(&self, member: &Member) -> bool {
        let held = |message: &Message| match &message.standing {
            Standing::Offered(lease) | Standing::Accepted(lease) => lease.consumer == member.name,
            Standing::Stored
            | Standing::Acknowledged { .. }
            | Standing::Expired
            | Standing::Cancelled { .. }
            | Standing::Dead { .. } => false,
        };
        !self.messages.iter().any(held)
    }

    fn send(&self, member: &Member, message: &Message, session: &Session) -> Step {
        let sent = format!("task-{}-{}-{}", self.id.short(), message.no, message.offers + 1);
        // To a session that has ended it is its next instruction, which has a key of its own.
        let key = match session.attempt().is_sealed() {
            true => format!("instruction-{}", session.attempt().no + 1),
            false => sent.clone(),
        };
        let way = Way::Push { session: session.id, key };
        let lease =
            Lease { no: message.offers + 1, consumer: member.name.clone(), way, until_ms: None };
        let text = envelope::wrapped(self, message);
        let command = session::Command::Send { key: sent, text, mode: SendMode::Continue };
        let offered = MessageOffered { no: message.no, lease };
        Step::Send(Box::new((offered, session.id, command)))
    }
}

/// Says whether a session takes something now: it is at rest, and nobody is asked anything.
fn takes(session: &Session) -> bool {
    if session.spec.adopted.is_some() || session.open_requests().next().is_some() {
        return false;
    }
    let sealed = session.attempt().is_sealed();
    let at_rest = session
        .current_launch()
        .is_some_and(|launch| launch.may_live() && launch.activity() == Activity::Idle);
    let resumable = session.spec.agent.driver.has_protocol() && session.state() != State::Cancelled;
    (sealed && resumable) || (!sealed && at_rest)
}

/// Gives how much of a session there is to tell.
fn seen_of(session: &Session) -> Told {
    let sealed = session.attempts.iter().filter(|attempt| attempt.is_sealed()).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let turns_ended = session.turns.saturating_sub(u32::from(in_turn(session)));
    Told { turns_ended, attempts_sealed: count(sealed), requests: count(session.requests.len()) }
}

fn in_turn(session: &Session) -> bool {
    session.current_launch().is_some_and(|launch| launch.may_live() && launch.is_in_turn())
}

/// Sums up how many messages stand how.
impl Task {
    pub fn message_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for message in &self.messages {
            *counts.entry(message.standing.word()).or_insert(0) += 1;
        }
        counts
    }
}
