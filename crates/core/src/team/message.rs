//! The messages of a team, from the time they are stored until they are acknowledged.
//!
//! Offering, accepting and acknowledging a message are separate steps. A message is offered under a
//! lease, and only the holder of that lease can accept and acknowledge it, so a consumer that is
//! late cannot handle the message a second time.

use serde::{Deserialize, Serialize};

use super::{
    event::MessageStored,
    member::{MemberRole, TeamActor},
    onboarding::is_delivered_first,
};
use crate::{ids::SessionId, rules::rules, time::Moment};

/// Maximum length of a message text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// Maximum number of messages that may wait for one member.
pub const MAX_WAITING: usize = 1_000;

/// Maximum number of times a message is offered before it is dead-lettered.
pub const MAX_OFFERS: u32 = 10;

/// Maximum length of a message that combines several pieces of news, in bytes.
pub const MAX_NEWS_BYTES: usize = 16 << 10;

/// The number of settled messages that a team keeps in its state. The events of the team contain
/// all messages.
pub const MAX_SETTLED_KEPT: usize = 200;

/// The recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    Member(String),
    Operator,
}

impl Recipient {
    pub fn name(&self) -> &str {
        match self {
            Recipient::Member(name) => name,
            Recipient::Operator => "operator",
        }
    }

    pub(super) fn is_member(&self, name: &str) -> bool {
        match self {
            Recipient::Member(own) => own == name,
            Recipient::Operator => false,
        }
    }
}

/// The kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamMessageKind {
    /// Work to do.
    Instruction,
    /// Information.
    Note,
    /// A member's report about its work.
    Report,
    /// Starts the next iteration of the loop. No other kind of message can advance the loop.
    Continuation,
    /// A report of what Provost observed about a member's session.
    News,
    /// A text that tests whether a connection works.
    Probe,
}

impl TeamMessageKind {
    /// Whether an actor may write messages of this kind. Provost itself creates messages of the other kinds: the gate
    /// creates continuations, and observations create news. Only the operator sends probes.
    pub(super) fn may_be_written_by(self, actor: &TeamActor) -> bool {
        match self {
            TeamMessageKind::Instruction | TeamMessageKind::Note | TeamMessageKind::Report => true,
            TeamMessageKind::Probe => {
                *actor != TeamActor::Policy && !matches!(actor, TeamActor::Member(_))
            }
            TeamMessageKind::Continuation | TeamMessageKind::News => *actor == TeamActor::Provost,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TeamMessageKind::Instruction => "instruction",
            TeamMessageKind::Note => "note",
            TeamMessageKind::Report => "report",
            TeamMessageKind::Continuation => "continuation",
            TeamMessageKind::News => "news",
            TeamMessageKind::Probe => "probe",
        }
    }
}

/// The delivery priority. Messages of equal priority are delivered in the order they were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Priority {
    pub const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }
}

/// The channel on which a message reached Provost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageChannel {
    /// A command run by a user or an agent.
    #[default]
    Cli,
    /// A tool of an agent.
    Tool,
    /// Provost's own rules.
    Rule,
}

impl MessageChannel {
    pub fn as_str(self) -> &'static str {
        match self {
            MessageChannel::Cli => "command line",
            MessageChannel::Tool => "tool",
            MessageChannel::Rule => "rule",
        }
    }
}

/// The trust that a recipient may place in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageTrust {
    /// The message is sent on behalf of the operator.
    Trusted,
    /// The message is a claim that the recipient must verify.
    Untrusted,
}

impl MessageTrust {
    /// Returns how far a recipient may trust a sender, based on their roles.
    pub fn between(from: Option<MemberRole>, to: Option<MemberRole>) -> MessageTrust {
        match (from, to) {
            // The operator and Provost itself have no role.
            (None, _) => MessageTrust::Trusted,
            (Some(MemberRole::Manager), Some(MemberRole::Worker | MemberRole::Reviewer)) => {
                MessageTrust::Trusted
            }
            (Some(MemberRole::Manager), Some(MemberRole::Manager) | None)
            | (Some(MemberRole::Worker | MemberRole::Reviewer), _) => MessageTrust::Untrusted,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            MessageTrust::Trusted => "trusted",
            MessageTrust::Untrusted => "untrusted",
        }
    }
}

/// The method by which a message is delivered to its consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// Provost pushes the message to the session under this key. `turns` is the number of turns
    /// that the session had started by then. The agent handles the message in its next turn.
    Push {
        session: SessionId,
        key: String,
        #[serde(default)]
        turns: u32,
    },
    /// The consumer polled for the message.
    Pull,
}

impl DeliveryMode {
    pub fn as_str(&self) -> &'static str {
        match self {
            DeliveryMode::Push { .. } => "push",
            DeliveryMode::Pull => "pull",
        }
    }
}

/// The reservation of a message for one consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageLease {
    /// The sequence number of the offer. A report under an older lease is stale.
    pub no: u32,
    pub consumer: String,
    pub delivery: DeliveryMode,
    /// The time at which the message will be offered again. None for a push, because the session
    /// reports its result.
    pub until_ms: Option<u64>,
}

impl MessageLease {
    fn is_over(&self, now: Moment) -> bool {
        self.until_ms.is_some_and(|until| rules().is_lease_over(until, now.mono_ms))
    }
}

/// The status of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    Stored,
    Offered(MessageLease),
    /// The consumer has accepted the message.
    Accepted(MessageLease),
    Acknowledged {
        by: String,
        /// The lease under which the message was handled.
        #[serde(default)]
        lease: u32,
    },
    Expired,
    Cancelled {
        because: String,
    },
    /// The message could not be delivered, but the operator can requeue it.
    Dead {
        reason: String,
    },
}

/// The status without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageStatusKind {
    Stored,
    Offered,
    Accepted,
    Acknowledged,
    Expired,
    Cancelled,
    Dead,
}

impl MessageStatusKind {
    pub const ALL: [MessageStatusKind; 7] = [
        MessageStatusKind::Stored,
        MessageStatusKind::Offered,
        MessageStatusKind::Accepted,
        MessageStatusKind::Acknowledged,
        MessageStatusKind::Expired,
        MessageStatusKind::Cancelled,
        MessageStatusKind::Dead,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            MessageStatusKind::Stored => "stored",
            MessageStatusKind::Offered => "offered",
            MessageStatusKind::Accepted => "accepted",
            MessageStatusKind::Acknowledged => "acknowledged",
            MessageStatusKind::Expired => "expired",
            MessageStatusKind::Cancelled => "cancelled",
            MessageStatusKind::Dead => "dead",
        }
    }

    /// Whether the status is final.
    pub fn is_over(self) -> bool {
        match self {
            MessageStatusKind::Stored
            | MessageStatusKind::Offered
            | MessageStatusKind::Accepted => false,
            MessageStatusKind::Acknowledged
            | MessageStatusKind::Expired
            | MessageStatusKind::Cancelled
            | MessageStatusKind::Dead => true,
        }
    }

    /// Whether the message is offered or accepted.
    pub fn is_leased(self) -> bool {
        matches!(self, MessageStatusKind::Offered | MessageStatusKind::Accepted)
    }
}

impl MessageStatus {
    pub fn kind(&self) -> MessageStatusKind {
        match self {
            MessageStatus::Stored => MessageStatusKind::Stored,
            MessageStatus::Offered(_) => MessageStatusKind::Offered,
            MessageStatus::Accepted(_) => MessageStatusKind::Accepted,
            MessageStatus::Acknowledged { .. } => MessageStatusKind::Acknowledged,
            MessageStatus::Expired => MessageStatusKind::Expired,
            MessageStatus::Cancelled { .. } => MessageStatusKind::Cancelled,
            MessageStatus::Dead { .. } => MessageStatusKind::Dead,
        }
    }

    pub fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Whether the status is final.
    pub fn is_over(&self) -> bool {
        self.kind().is_over()
    }

    pub fn lease(&self) -> Option<&MessageLease> {
        match self {
            MessageStatus::Offered(lease) | MessageStatus::Accepted(lease) => Some(lease),
            MessageStatus::Stored
            | MessageStatus::Acknowledged { .. }
            | MessageStatus::Expired
            | MessageStatus::Cancelled { .. }
            | MessageStatus::Dead { .. } => None,
        }
    }
}

/// A message to a member of the team or to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamMessage {
    /// Sequence number within the team.
    pub no: u32,
    /// The sender's idempotency key. Sending twice under the same key stores only one message.
    pub key: String,
    /// The correlation id that links a message and its replies.
    pub correlation: Option<String>,
    pub from: TeamActor,
    pub channel: MessageChannel,
    pub trust: MessageTrust,
    pub to: Recipient,
    /// The original recipient, if the message was redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<Recipient>,
    pub kind: TeamMessageKind,
    pub text: String,
    pub priority: Priority,
    pub stored: Moment,
    pub expires_ms: Option<u64>,
    /// The time until the message expires, as set by its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The iteration that the message starts, if it is a continuation.
    pub iteration: Option<u32>,
    /// Whether the message may be delivered in the middle of a turn.
    #[serde(default)]
    pub steer: bool,
    /// Whether the iteration has begun. If so, delivering the message again does not restart it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// The number of times that the message was offered. Each lease has the number of its offer, which is unique.
    pub offers: u32,
    /// The number of offers that no longer count, because the message was requeued after them.
    #[serde(default)]
    pub forgiven_offers: u32,
    /// Whether a consumer may have received the message before.
    pub redelivered: bool,
    /// The actor who explicitly dead-lettered the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_lettered_by: Option<TeamActor>,
    /// Whether the sender and the managers have been notified that the message expired or was
    /// dead-lettered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    pub status: MessageStatus,
}

impl TeamMessage {
    /// Whether the message can be offered now.
    pub fn is_available(&self, now: Moment) -> bool {
        let over = self.expires_ms.is_some_and(|expires| expires <= now.mono_ms);
        self.status == MessageStatus::Stored && !over
    }

    /// Whether the message is addressed to this member and not settled yet.
    pub(super) fn is_open_for(&self, name: &str) -> bool {
        self.to.is_member(name) && !self.status.is_over()
    }

    /// Redirects the message to another member, as if it had never been offered.
    pub(super) fn readdress(&mut self, to: Recipient) {
        let before = std::mem::replace(&mut self.to, to);
        self.sent_to.get_or_insert(before);
    }

    /// Whether the message asks its recipient to do something.
    pub fn is_instruction(&self) -> bool {
        match self.kind {
            TeamMessageKind::Instruction | TeamMessageKind::Continuation => true,
            TeamMessageKind::Note
            | TeamMessageKind::Report
            | TeamMessageKind::News
            | TeamMessageKind::Probe => false,
        }
    }

    /// Whether the message expired or was dead-lettered and this has not been reported yet. Probes
    /// are not reported, because their sender handles them.
    pub(super) fn needs_report(&self) -> bool {
        let lost = matches!(self.status, MessageStatus::Dead { .. } | MessageStatus::Expired);
        lost && !self.reported && self.kind != TeamMessageKind::Probe
    }

    /// Whether the message is delivered before another message to the same recipient.
    pub(super) fn comes_before(&self, other: &TeamMessage) -> bool {
        let rank = |message: &TeamMessage| {
            (is_delivered_first(message), message.priority, std::cmp::Reverse(message.no))
        };
        rank(self) > rank(other)
    }

    /// Whether the maximum number of offers was reached.
    pub fn is_out_of_offers(&self) -> bool {
        self.offers.saturating_sub(self.forgiven_offers) >= MAX_OFFERS
    }

    /// Returns what happens to the message because its deadline has passed. None if the deadline has not passed.
    pub fn deadline_effect(&self, now: Moment) -> Option<DeadlineEffect> {
        let expired = self.expires_ms.is_some_and(|expires| expires <= now.mono_ms);
        match &self.status {
            MessageStatus::Stored if expired => Some(DeadlineEffect::Expired),
            MessageStatus::Offered(lease) | MessageStatus::Accepted(lease)
                if lease.is_over(now) =>
            {
                Some(if self.is_out_of_offers() {
                    DeadlineEffect::Dead
                } else {
                    DeadlineEffect::Returned
                })
            }
            MessageStatus::Stored
            | MessageStatus::Offered(_)
            | MessageStatus::Accepted(_)
            | MessageStatus::Acknowledged { .. }
            | MessageStatus::Expired
            | MessageStatus::Cancelled { .. }
            | MessageStatus::Dead { .. } => None,
        }
    }

    /// Returns the time at which the message expires, or at which its lease ends if the message is leased.
    pub fn deadline(&self) -> Option<u64> {
        match &self.status {
            MessageStatus::Stored => self.expires_ms,
            MessageStatus::Offered(lease) | MessageStatus::Accepted(lease) => lease.until_ms,
            MessageStatus::Acknowledged { .. }
            | MessageStatus::Expired
            | MessageStatus::Cancelled { .. }
            | MessageStatus::Dead { .. } => None,
        }
    }
}

impl MessageStored {
    /// Builds a message that Provost's own rules send to a member. It may quote text written by others.
    pub(super) fn by_rule(no: u32, key: String, to: Recipient, text: String) -> MessageStored {
        MessageStored {
            no,
            key,
            correlation: None,
            from: TeamActor::Provost,
            channel: MessageChannel::Rule,
            trust: MessageTrust::Untrusted,
            to,
            kind: TeamMessageKind::News,
            text,
            priority: Priority::Normal,
            expires_ms: None,
            window_ms: None,
            iteration: None,
            steer: false,
        }
    }
}

/// The effect of a passed deadline on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineEffect {
    Expired,
    /// The lease expired, so the message is waiting again.
    Returned,
    /// The message was offered too often.
    Dead,
}
