//! Message commands. Each message is handled once, by the holder of its lease, and never lost.

use std::sync::Arc;

use super::{
    advance::Around,
    command::{Command, Post, Rejected},
    decide::{Decision, one},
    event::*,
    forgotten::{Content, Sent},
    gate::{Blocked, Loop},
    member::{Actor, Member, Role},
    message::{Address, Kind, Lease, MAX_TEXT, MAX_WAITING, Message, Standing, Trust, Way},
    state::Task,
};
use crate::time::Moment;

impl Task {
    pub(super) fn post(&self, actor: &Actor, post: &Post, now: Moment) -> Decision {
        let from = self.role_of(actor);
        if !post.kind.is_written_by(actor) {
            return Err(Rejected::NotToPost(post.kind));
        }
        if let Address::Member(name) = &post.to {
            self.known(name)?;
        }
        if post.text.len() > MAX_TEXT {
            return Err(Rejected::TooLong(post.text.len()));
        }
        let trust = Trust::between(from, self.role_at(&post.to));
        // An instruction from an untrusted sender is stored as a report.
        let kind = match (post.kind, trust) {
            (Kind::Instruction, Trust::Claims) => Kind::Report,
            (kind, _) => kind,
        };
        let content = Content {
            to: post.to.name(),
            text: &post.text,
            iteration: None,
            kind,
            priority: post.priority,
            window_ms: post.expires_in_ms,
            correlation: post.correlation.as_deref(),
            steer: post.steer,
        };
        match self.sent_before(actor, &post.key, &content) {
            Sent::Never => {}
            Sent::Already => return Err(Rejected::Nothing),
            Sent::Otherwise => return Err(Rejected::KeyTaken(post.key.clone())),
        }
        self.has_room(&post.to)?;
        let expires_ms = post.expires_in_ms.map(|window| now.deadline(window));
        one(MessageStored {
            no: self.messages_stored + 1,
            key: post.key.clone(),
            correlation: post.correlation.clone(),
            from: actor.clone(),
            channel: post.channel,
            trust,
            to: post.to.clone(),
            kind,
            text: post.text.clone(),
            priority: post.priority,
            expires_ms,
            window_ms: post.expires_in_ms,
            iteration: None,
            steer: post.steer,
        })
    }

    /// Whether a command answers an open connection probe: once, to the operator, with the exact
    /// text that only this member was sent. It can carry nothing else, so that it needs no
    /// permission.
    pub(super) fn answers_probe(&self, actor: &Actor, command: &Command) -> bool {
        let (Command::Post(post), Actor::Member(name)) = (command, actor) else { return false };
        if post.to != Address::Operator || self.member(name).is_none() {
            return false;
        }
        let asks = |probe: &Message| {
            let over = matches!(
                probe.standing,
                Standing::Dead { .. } | Standing::Cancelled { .. } | Standing::Expired
            );
            let mine = probe.to == Address::Member(name.clone()) && !over;
            let of_operator = probe.kind == Kind::Probe && probe.from == Actor::Operator;
            mine && of_operator && probe.correlation.as_deref() == Some(post.text.trim())
        };
        let answers = |sent: &Message| {
            sent.from == *actor && sent.to == Address::Operator && sent.text == post.text
        };
        self.messages.iter().any(|probe| asks(probe)) && !self.messages.iter().any(|m| answers(m))
    }

    /// Returns the message that an actor stored under a key, if it is still remembered. Keys are
    /// scoped to their sender: two senders may use the same key.
    pub fn sent(&self, by: &Actor, key: &str) -> Option<&Message> {
        self.messages.sent(by, key)
    }

    pub(super) fn has_room(&self, to: &Address) -> Result<(), Rejected> {
        // Most teams have too few messages for the limit to matter.
        if self.messages.len() < MAX_WAITING {
            return Ok(());
        }
        let waits = |message: &&Arc<Message>| message.to == *to && !message.standing.is_over();
        let waiting = self.messages.iter().filter(waits).count();
        if waiting < MAX_WAITING {
            Ok(())
        } else {
            Err(Rejected::Full(waiting, to.name().to_owned()))
        }
    }

    /// Returns the next message for an address.
    fn next_for(&self, to: &Address, now: Moment) -> Option<&Message> {
        let mine = self.messages.iter().filter(|message| message.to == *to && message.waits(now));
        mine.map(Arc::as_ref)
            .reduce(|known, next| if next.comes_before(known) { next } else { known })
    }

    pub(super) fn address_of(&self, actor: &Actor, consumer: &str) -> Result<Address, Rejected> {
        let own = match actor {
            Actor::Operator | Actor::Provost => true,
            Actor::Member(name) => name == consumer,
            Actor::Policy => false,
        };
        match (own, consumer) {
            (false, _) => Err(Rejected::NotYours(consumer.to_owned())),
            (true, "operator") => Ok(Address::Operator),
            (true, name) => Ok(Address::Member(self.known(name)?.name.clone())),
        }
    }

    pub(super) fn next(&self, actor: &Actor, consumer: &str, around: &Around<'_>) -> Decision {
        let to = self.address_of(actor, consumer)?;
        // Nothing is delivered while the team is paused.
        if self.is_paused() {
            return Err(Rejected::Nothing);
        }
        let message = self.next_for(&to, around.now).ok_or(Rejected::Nothing)?;
        if let Some(why) = self.bars(message, around) {
            return Ok(self.refuse_delivery(message, why));
        }
        let lease = Lease {
            no: message.offers + 1,
            consumer: consumer.to_owned(),
            way: Way::Pull,
            until_ms: Some(around.now.deadline(self.spec.bounds.offer_ms)),
        };
        one(MessageOffered { no: message.no, lease })
    }

    /// Returns why a message may not be delivered. Its gate is checked again on every channel.
    pub(super) fn bars(&self, message: &Message, around: &Around<'_>) -> Option<Blocked> {
        if message.begun || bug!(GateForgotten) {
            return None;
        }
        let iteration = message.iteration?;
        match &self.looped {
            None => Some(Blocked::Ended),
            Some(looped) if message.no <= looped.begun_after => Some(Blocked::OtherLoop),
            Some(looped) => looped.may_begin(iteration, around.used(self)).err(),
        }
    }

    pub(super) fn refuse_delivery(&self, message: &Message, why: Blocked) -> Vec<Event> {
        let reason = format!("{}: {why}", why.code());
        let iteration = message.iteration.unwrap_or_default();
        let by = message.from.clone();
        let end = if self.running_loop().is_some() { why.end() } else { None };
        let end = end.map(|end| LoopEnded { end, by: Actor::Provost }.into());
        let refused = [
            ContinuationRefused { iteration, why, by }.into(),
            MessageDead { no: message.no, reason, by: None }.into(),
        ];
        refused.into_iter().chain(end).collect()
    }

    pub(super) fn held(
        &self,
        actor: &Actor,
        no: u32,
        lease: u32,
    ) -> Result<(&Message, Lease), Rejected> {
        let message = self.message(no).ok_or(Rejected::NoMessage(no))?;
        let held = message
            .standing
            .lease()
            .ok_or(Rejected::MessageIs { no, standing: message.standing.word() })?;
        self.address_of(actor, &held.consumer)?;
        if lease > message.offers {
            return Err(Rejected::NoLease { no, lease });
        }
        let own = held.no == lease || bug!(StaleLeaseTaken);
        if own && held.way == Way::Pull {
            Ok((message, held.clone()))
        } else {
            Err(Rejected::StaleLease(no))
        }
    }

    pub(super) fn accept(
        &self,
        actor: &Actor,
        no: u32,
        lease: u32,
        polls: u32,
        around: &Around<'_>,
    ) -> Decision {
        let (message, held) = self.held(actor, no, lease)?;
        if matches!(message.standing, Standing::Accepted(_)) {
            return Err(Rejected::Nothing);
        }
        if let Some(why) = self.bars(message, around) {
            return Ok(self.refuse_delivery(message, why));
        }
        let until_ms = Some(around.now.deadline(self.spec.bounds.lease_ms));
        Ok(self.accepted(message, Lease { until_ms, ..held }, polls))
    }

    /// Records that the consumer has a message. If it continues the loop, its iteration begins in
    /// the same commit.
    pub(super) fn accepted(&self, message: &Message, lease: Lease, polls: u32) -> Vec<Event> {
        let consumer = lease.consumer.clone();
        let role = self.role_at(&message.to);
        let accepted = MessageAccepted { no: message.no, lease, kind: message.kind, role, polls };
        let begins = if message.begun { None } else { message.iteration };
        let advanced = begins.map(|to| {
            let look = self.running_loop().map(Loop::look).unwrap_or_default();
            LoopAdvanced { to, message: message.no, consumer, look }.into()
        });
        [accepted.into()].into_iter().chain(advanced).collect()
    }

    pub(super) fn acknowledge(
        &self,
        actor: &Actor,
        no: u32,
        lease: u32,
        note: Option<String>,
    ) -> Decision {
        if let Some(message) = self.message(no)
            && let Standing::Acknowledged { lease: handled, .. } = &message.standing
        {
            return Err(if *handled == lease {
                Rejected::Nothing
            } else if lease > message.offers {
                Rejected::NoLease { no, lease }
            } else {
                Rejected::StaleLease(no)
            });
        }
        let (message, held) = self.held(actor, no, lease)?;
        if matches!(message.standing, Standing::Accepted(_)) {
            one(MessageAcknowledged { no, by: held.consumer, note })
        } else {
            Err(Rejected::MessageIs { no, standing: message.standing.word() })
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "dispatch() is the exhaustive match")]
    pub(super) fn sort(&self, actor: &Actor, command: &Command) -> Decision {
        let find = |no: u32| self.message(no).ok_or(Rejected::NoMessage(no));
        let is = |message: &Message| Rejected::MessageIs {
            no: message.no,
            standing: message.standing.word(),
        };
        match command {
            // A message under a lease is not taken away: its holder may be working on it.
            Command::CancelMessage { no, because } => match find(*no)? {
                message if message.standing.lease().is_none() && !is_settled(message) => {
                    one(MessageCancelled { no: *no, because: because.clone() })
                }
                message => Err(is(message)),
            },
            Command::Requeue { no, because, to } => {
                let message = find(*no)?;
                if !matches!(message.standing, Standing::Dead { .. } | Standing::Expired) {
                    return Err(is(message));
                }
                let to = to.as_ref().filter(|to| *to != message.to.name());
                match (to, &message.to) {
                    (Some(to), _) => self.may_take(message, self.known(to)?)?,
                    // For a member who has left it would wait forever.
                    (None, Address::Member(name)) => drop(self.known(name)?),
                    (None, Address::Operator) => {}
                }
                one(MessageRequeued { no: *no, because: because.clone(), to: to.cloned() })
            }
            Command::Bury { no, reason } => match find(*no)? {
                message if !message.standing.is_over() => {
                    let (reason, by) = (reason.clone(), Some(actor.clone()));
                    one(MessageDead { no: *no, reason, by })
                }
                message => Err(is(message)),
            },
            _ => unreachable!("dispatch() sends only these here"),
        }
    }

    /// Checks that a message can be given to another member: an iteration needs a worker, and the
    /// inbox room.
    pub(super) fn may_take(&self, message: &Message, to: &Member) -> Result<(), Rejected> {
        if message.iteration.is_some() && to.role != Role::Worker {
            return Err(Rejected::NoWorker(to.name.clone()));
        }
        self.has_room(&Address::Member(to.name.clone()))
    }

    /// Returns the trust of a message when redirected to another member. Redirecting never raises
    /// it.
    pub(super) fn trust_for(&self, message: &Message, to: &Address) -> Trust {
        let role = |name: &str| {
            let member = self.members.iter().find(|member| member.name == name);
            member.map(|member| member.role)
        };
        let from = match &message.from {
            Actor::Member(name) => role(name),
            Actor::Policy => Some(Role::Manager),
            Actor::Operator | Actor::Provost => None,
        };
        match Trust::between(from, role(to.name())) {
            Trust::Instructs => message.trust,
            Trust::Claims => Trust::Claims,
        }
    }
}

/// Whether a message was handled or cancelled on purpose.
fn is_settled(message: &Message) -> bool {
    matches!(message.standing, Standing::Acknowledged { .. } | Standing::Cancelled { .. })
}
