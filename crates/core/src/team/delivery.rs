//! Handlers for message commands. Each message is handled once, by the holder of its lease, and is
//! never lost.

use std::sync::Arc;

use super::{
    advance::TeamAdvanceContext,
    command::{NewMessage, TeamCommand, TeamRejection},
    decide::{TeamCommandResult, single_event},
    dedup::{DuplicateStatus, MessageContent},
    event::*,
    loop_state::{ContinuationBlocked, Loop},
    member::{MemberRole, TeamActor, TeamMember},
    message::{
        DeliveryMode, MAX_TEXT, MAX_WAITING, MessageLease, MessageStatus, MessageTrust, Recipient,
        TeamMessage, TeamMessageKind,
    },
    state::Team,
};
use crate::{rules::rules, time::Moment};

impl Team {
    pub(super) fn post(
        &self,
        actor: &TeamActor,
        post: &NewMessage,
        now: Moment,
    ) -> TeamCommandResult {
        let from = self.role_of(actor);
        if !post.kind.may_be_written_by(actor) {
            return Err(TeamRejection::KindNotAllowed(post.kind));
        }
        if let Recipient::Member(name) = &post.to {
            self.bound_member(name)?;
        }
        if post.text.len() > MAX_TEXT {
            return Err(TeamRejection::TooLong(post.text.len()));
        }
        let trust = MessageTrust::between(from, self.recipient_role(&post.to));
        // Store an instruction from an untrusted sender as a report.
        let kind = match (post.kind, trust) {
            (TeamMessageKind::Instruction, MessageTrust::Untrusted) => TeamMessageKind::Report,
            (kind, _) => kind,
        };
        let content = MessageContent {
            to: post.to.name(),
            text: &post.text,
            iteration: None,
            kind,
            priority: post.priority,
            window_ms: post.expires_in_ms,
            correlation: post.correlation.as_deref(),
            steer: post.steer,
        };
        match self.duplicate_status(actor, &post.key, &content) {
            DuplicateStatus::Never => {}
            DuplicateStatus::Duplicate => return Err(TeamRejection::NothingNew),
            DuplicateStatus::Conflict => return Err(TeamRejection::KeyTaken(post.key.clone())),
        }
        self.check_room(&post.to)?;
        let expires_ms = post.expires_in_ms.map(|window| now.deadline(window));
        single_event(MessageStored {
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

    /// Whether a command answers an open connection probe. The answer is sent once, to the
    /// operator, and consists of the exact text that only this member received. Because it contains
    /// nothing else, it requires no permission.
    pub(super) fn answers_probe(&self, actor: &TeamActor, command: &TeamCommand) -> bool {
        let (TeamCommand::Post(post), TeamActor::Member(name)) = (command, actor) else {
            return false;
        };
        if post.to != Recipient::Operator || self.member(name).is_none() {
            return false;
        }
        let asks = |probe: &TeamMessage| {
            let over = matches!(
                probe.status,
                MessageStatus::Dead { .. }
                    | MessageStatus::Cancelled { .. }
                    | MessageStatus::Expired
            );
            let mine = probe.to == Recipient::Member(name.clone()) && !over;
            let of_operator =
                probe.kind == TeamMessageKind::Probe && probe.from == TeamActor::Operator;
            mine && of_operator && probe.correlation.as_deref() == Some(post.text.trim())
        };
        let answers = |sent: &TeamMessage| {
            sent.from == *actor && sent.to == Recipient::Operator && sent.text == post.text
        };
        self.messages.iter().any(|probe| asks(probe)) && !self.messages.iter().any(|m| answers(m))
    }

    /// Returns the message that an actor stored under a key, if it is still remembered. Keys are
    /// scoped to their sender, so two senders may use the same key.
    pub fn message_by_key(&self, by: &TeamActor, key: &str) -> Option<&TeamMessage> {
        self.messages.by_key(by, key)
    }

    pub(super) fn check_room(&self, to: &Recipient) -> Result<(), TeamRejection> {
        // Most teams have too few messages for the limit to matter.
        if self.messages.len() < MAX_WAITING {
            return Ok(());
        }
        let waits = |message: &&Arc<TeamMessage>| message.to == *to && !message.status.is_over();
        let waiting = self.messages.iter().filter(waits).count();
        if waiting < MAX_WAITING {
            Ok(())
        } else {
            Err(TeamRejection::InboxFull(waiting, to.name().to_owned()))
        }
    }

    /// Returns the next message for a recipient.
    fn next_for(&self, to: &Recipient, now: Moment) -> Option<&TeamMessage> {
        let mine =
            self.messages.iter().filter(|message| message.to == *to && message.is_available(now));
        mine.map(Arc::as_ref)
            .reduce(|known, next| if next.comes_before(known) { next } else { known })
    }

    pub(super) fn address_of(
        &self,
        actor: &TeamActor,
        consumer: &str,
    ) -> Result<Recipient, TeamRejection> {
        let own = match actor {
            TeamActor::Operator | TeamActor::Provost => true,
            TeamActor::Member(name) => name == consumer,
            TeamActor::Policy => false,
        };
        match (own, consumer) {
            (false, _) => Err(TeamRejection::NotRecipient(consumer.to_owned())),
            (true, "operator") => Ok(Recipient::Operator),
            (true, name) => Ok(Recipient::Member(self.bound_member(name)?.name.clone())),
        }
    }

    pub(super) fn next(
        &self,
        actor: &TeamActor,
        consumer: &str,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let to = self.address_of(actor, consumer)?;
        // Nothing is delivered while the team is paused.
        if self.is_paused() {
            return Err(TeamRejection::NothingNew);
        }
        let message = self.next_for(&to, context.now).ok_or(TeamRejection::NothingNew)?;
        if let Some(why) = self.delivery_block(message, context) {
            return Ok(self.refuse_delivery(message, why));
        }
        let lease = MessageLease {
            no: message.offers + 1,
            consumer: consumer.to_owned(),
            delivery: DeliveryMode::Pull,
            until_ms: Some(context.now.deadline(self.spec.bounds.offer_ms)),
        };
        single_event(MessageOffered { no: message.no, lease })
    }

    /// Returns the reason why a message cannot be delivered, if there is one. The gate of a
    /// continuation is checked again at this point, for every channel.
    pub(super) fn delivery_block(
        &self,
        message: &TeamMessage,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<ContinuationBlocked> {
        if rules().passes_gate(message.begun) {
            return None;
        }
        let iteration = message.iteration?;
        match &self.loop_state {
            None => Some(ContinuationBlocked::Ended),
            Some(looped) if message.no <= looped.begun_after => {
                Some(ContinuationBlocked::OtherLoop)
            }
            Some(looped) => looped.check_may_begin(iteration, context.tokens_used(self)).err(),
        }
    }

    pub(super) fn refuse_delivery(
        &self,
        message: &TeamMessage,
        why: ContinuationBlocked,
    ) -> Vec<Event> {
        let reason = format!("{}: {why}", why.code());
        let iteration = message.iteration.unwrap_or_default();
        let by = message.from.clone();
        let end = if self.running_loop().is_some() { why.loop_end() } else { None };
        let end = end.map(|end| LoopEnded { end, by: TeamActor::Provost }.into());
        let refused = [
            ContinuationRefused { iteration, why, by }.into(),
            MessageDead { no: message.no, reason, by: None }.into(),
        ];
        refused.into_iter().chain(end).collect()
    }

    pub(super) fn leased_message(
        &self,
        actor: &TeamActor,
        no: u32,
        lease: u32,
    ) -> Result<(&TeamMessage, MessageLease), TeamRejection> {
        let message = self.message(no).ok_or(TeamRejection::NoMessage(no))?;
        let held = message
            .status
            .lease()
            .ok_or(TeamRejection::MessageIs { no, status: message.status.as_str() })?;
        self.address_of(actor, &held.consumer)?;
        if lease > message.offers {
            return Err(TeamRejection::NoLease { no, lease });
        }
        let own = rules().is_current_lease(held.no, lease);
        if own && held.delivery == DeliveryMode::Pull {
            Ok((message, held.clone()))
        } else {
            Err(TeamRejection::StaleLease(no))
        }
    }

    pub(super) fn accept(
        &self,
        actor: &TeamActor,
        no: u32,
        lease: u32,
        polls: u32,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let (message, held) = self.leased_message(actor, no, lease)?;
        if matches!(message.status, MessageStatus::Accepted(_)) {
            return Err(TeamRejection::NothingNew);
        }
        if let Some(why) = self.delivery_block(message, context) {
            return Ok(self.refuse_delivery(message, why));
        }
        let until_ms = Some(context.now.deadline(self.spec.bounds.lease_ms));
        Ok(self.accept_events(message, MessageLease { until_ms, ..held }, polls))
    }

    /// Records that a consumer accepted a message. If the message continues the loop, the iteration
    /// begins in the same transaction.
    pub(super) fn accept_events(
        &self,
        message: &TeamMessage,
        lease: MessageLease,
        polls: u32,
    ) -> Vec<Event> {
        let consumer = lease.consumer.clone();
        let role = self.recipient_role(&message.to);
        let accepted = MessageAccepted { no: message.no, lease, kind: message.kind, role, polls };
        let begins = if message.begun { None } else { message.iteration };
        let advanced = begins.map(|to| {
            let look = self.running_loop().map(Loop::fingerprint).unwrap_or_default();
            LoopAdvanced { to, message: message.no, consumer, fingerprint: look }.into()
        });
        [accepted.into()].into_iter().chain(advanced).collect()
    }

    pub(super) fn acknowledge(
        &self,
        actor: &TeamActor,
        no: u32,
        lease: u32,
        note: Option<String>,
    ) -> TeamCommandResult {
        if let Some(message) = self.message(no)
            && let MessageStatus::Acknowledged { lease: handled, .. } = &message.status
        {
            return Err(if *handled == lease {
                TeamRejection::NothingNew
            } else if lease > message.offers {
                TeamRejection::NoLease { no, lease }
            } else {
                TeamRejection::StaleLease(no)
            });
        }
        let (message, held) = self.leased_message(actor, no, lease)?;
        if matches!(message.status, MessageStatus::Accepted(_)) {
            single_event(MessageAcknowledged { no, by: held.consumer, note })
        } else {
            Err(TeamRejection::MessageIs { no, status: message.status.as_str() })
        }
    }

    /// Cancels a message. A leased message cannot be cancelled, because the lease holder may be
    /// working on it.
    pub(super) fn cancel_message(&self, no: u32, because: &str) -> TeamCommandResult {
        let message = self.existing_message(no)?;
        if message.status.lease().is_some() || is_settled(message) {
            return Err(status_rejection(message));
        }
        single_event(MessageCancelled { no, because: because.to_owned() })
    }

    /// Queues a dead or expired message again, for the same recipient or another one.
    pub(super) fn requeue_message(
        &self,
        no: u32,
        because: &str,
        to: Option<&str>,
    ) -> TeamCommandResult {
        let message = self.existing_message(no)?;
        if !matches!(message.status, MessageStatus::Dead { .. } | MessageStatus::Expired) {
            return Err(status_rejection(message));
        }
        let to = to.filter(|to| *to != message.to.name());
        match (to, &message.to) {
            (Some(to), _) => self.check_may_take(message, self.bound_member(to)?)?,
            // A message to a member who has left would wait forever.
            (None, Recipient::Member(name)) => drop(self.bound_member(name)?),
            (None, Recipient::Operator) => {}
        }
        let (because, to) = (because.to_owned(), to.map(str::to_owned));
        single_event(MessageRequeued { no, because, to })
    }

    pub(super) fn dead_letter(
        &self,
        actor: &TeamActor,
        no: u32,
        reason: &str,
    ) -> TeamCommandResult {
        let message = self.existing_message(no)?;
        if message.status.is_over() {
            return Err(status_rejection(message));
        }
        single_event(MessageDead { no, reason: reason.to_owned(), by: Some(actor.clone()) })
    }

    fn existing_message(&self, no: u32) -> Result<&TeamMessage, TeamRejection> {
        self.message(no).ok_or(TeamRejection::NoMessage(no))
    }

    /// Checks that a message can be handed over to another member. Only a worker can take over an
    /// iteration, and the inbox must have room.
    pub(super) fn check_may_take(
        &self,
        message: &TeamMessage,
        to: &TeamMember,
    ) -> Result<(), TeamRejection> {
        if message.iteration.is_some() && to.role != MemberRole::Worker {
            return Err(TeamRejection::NoWorker(to.name.clone()));
        }
        self.check_room(&Recipient::Member(to.name.clone()))
    }

    /// Returns the trust of a message that is redirected to another member. A redirect never raises the trust.
    pub(super) fn trust_for(&self, message: &TeamMessage, to: &Recipient) -> MessageTrust {
        let role = |name: &str| {
            let member = self.members.iter().find(|member| member.name == name);
            member.map(|member| member.role)
        };
        let from = match &message.from {
            TeamActor::Member(name) => role(name),
            TeamActor::Policy => Some(MemberRole::Manager),
            TeamActor::Operator | TeamActor::Provost => None,
        };
        match MessageTrust::between(from, role(to.name())) {
            MessageTrust::Trusted => message.trust,
            MessageTrust::Untrusted => MessageTrust::Untrusted,
        }
    }
}

fn status_rejection(message: &TeamMessage) -> TeamRejection {
    TeamRejection::MessageIs { no: message.no, status: message.status.as_str() }
}

/// Whether a message was handled or cancelled on purpose.
fn is_settled(message: &TeamMessage) -> bool {
    matches!(message.status, MessageStatus::Acknowledged { .. } | MessageStatus::Cancelled { .. })
}
