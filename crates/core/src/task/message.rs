//! Messages of a team, from being stored to being acknowledged.
//!
//! Offering, accepting and acknowledging are separate steps. A message is offered under a lease.
//! Only the holder of the lease can accept and acknowledge it, so that a late consumer handles
//! nothing twice.

use serde::{Deserialize, Serialize};

use super::{
    event::MessageStored,
    handing::tells_first,
    member::{Actor, Role},
};
use crate::{ids::SessionId, time::Moment};

/// Longest text of a message, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// Maximum number of messages waiting for one member.
pub const MAX_WAITING: usize = 1_000;

/// Number of offers after which a message is dead-lettered.
pub const MAX_OFFERS: u32 = 10;

/// Longest text of a message that combines several news, in bytes.
pub const MAX_NEWS: usize = 16 << 10;

/// Number of settled messages that a team keeps in its state. All of them remain in its events.
pub const MAX_OVER_KEPT: usize = 200;

/// The recipient of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    Member(String),
    Operator,
}

impl Address {
    pub fn name(&self) -> &str {
        match self {
            Address::Member(name) => name,
            Address::Operator => "operator",
        }
    }

    pub(super) fn is_member(&self, name: &str) -> bool {
        match self {
            Address::Member(own) => own == name,
            Address::Operator => false,
        }
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Work to do.
    Instruction,
    /// Information.
    Note,
    /// A member's report about its work.
    Report,
    /// Starts the next iteration of the loop; the only kind that can advance it.
    Continuation,
    /// Provost's observations of a member's session.
    News,
    /// A text that proves that a connection works.
    Probe,
}

impl Kind {
    /// Whether an actor can write messages of this kind. Provost creates the others: the gate
    /// creates continuations, and observations create news. Only the operator sends probes.
    pub(super) fn is_written_by(self, actor: &Actor) -> bool {
        match self {
            Kind::Instruction | Kind::Note | Kind::Report => true,
            Kind::Probe => *actor != Actor::Policy && !matches!(actor, Actor::Member(_)),
            Kind::Continuation | Kind::News => *actor == Actor::Provost,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Kind::Instruction => "instruction",
            Kind::Note => "note",
            Kind::Report => "report",
            Kind::Continuation => "continuation",
            Kind::News => "news",
            Kind::Probe => "probe",
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
    pub fn word(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }
}

/// The channel by which a message reached Provost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A command run by a user or an agent.
    #[default]
    Cli,
    /// A tool of an agent.
    Tool,
    /// Provost's own rules.
    Rule,
}

impl Channel {
    pub fn word(self) -> &'static str {
        match self {
            Channel::Cli => "command line",
            Channel::Tool => "tool",
            Channel::Rule => "rule",
        }
    }
}

/// How far a recipient may follow a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It speaks for the operator.
    Instructs,
    /// It is a claim, to be checked before it is believed.
    Claims,
}

impl Trust {
    /// Returns the trust between a sender's and a recipient's role.
    pub fn between(from: Option<Role>, to: Option<Role>) -> Trust {
        match (from, to) {
            // The operator and Provost itself have no role.
            (None, _) => Trust::Instructs,
            (Some(Role::Manager), Some(Role::Worker | Role::Reviewer)) => Trust::Instructs,
            (Some(Role::Manager), Some(Role::Manager) | None)
            | (Some(Role::Worker | Role::Reviewer), _) => Trust::Claims,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Trust::Instructs => "instructs",
            Trust::Claims => "claims",
        }
    }
}

/// How a message is delivered to its consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Provost pushes it to the session under this key. `turns` is the number of turns that the
    /// session had begun by then; the agent starts on the message with its next turn.
    Push {
        session: SessionId,
        key: String,
        #[serde(default)]
        turns: u32,
    },
    /// The consumer polled for it.
    Pull,
}

impl Way {
    pub fn word(&self) -> &'static str {
        match self {
            Way::Push { .. } => "push",
            Way::Pull => "pull",
        }
    }
}

/// A message reserved for one consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Sequence number of the offer. A report under an older lease is stale.
    pub no: u32,
    pub consumer: String,
    pub way: Way,
    /// When it is offered again. A push has no deadline: the session reports what became of it.
    pub until_ms: Option<u64>,
}

impl Lease {
    fn is_over(&self, now: Moment) -> bool {
        self.until_ms.is_some_and(|until| until <= now.mono_ms) && !bug!(LeaseNeverEnds)
    }
}

/// The status of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Stored,
    Offered(Lease),
    /// The consumer has accepted it.
    Accepted(Lease),
    Acknowledged {
        by: String,
        /// The lease under which it was handled.
        #[serde(default)]
        lease: u32,
    },
    Expired,
    Cancelled {
        because: String,
    },
    /// It could not be delivered. The operator can requeue it.
    Dead {
        reason: String,
    },
}

/// The status without its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StandingKind {
    Stored,
    Offered,
    Accepted,
    Acknowledged,
    Expired,
    Cancelled,
    Dead,
}

impl StandingKind {
    pub fn word(self) -> &'static str {
        match self {
            StandingKind::Stored => "stored",
            StandingKind::Offered => "offered",
            StandingKind::Accepted => "accepted",
            StandingKind::Acknowledged => "acknowledged",
            StandingKind::Expired => "expired",
            StandingKind::Cancelled => "cancelled",
            StandingKind::Dead => "dead",
        }
    }

    /// Whether the status is final.
    pub fn is_over(self) -> bool {
        match self {
            StandingKind::Stored | StandingKind::Offered | StandingKind::Accepted => false,
            StandingKind::Acknowledged
            | StandingKind::Expired
            | StandingKind::Cancelled
            | StandingKind::Dead => true,
        }
    }

    /// Whether the message is offered or accepted.
    pub fn is_leased(self) -> bool {
        matches!(self, StandingKind::Offered | StandingKind::Accepted)
    }
}

impl Standing {
    pub fn kind(&self) -> StandingKind {
        match self {
            Standing::Stored => StandingKind::Stored,
            Standing::Offered(_) => StandingKind::Offered,
            Standing::Accepted(_) => StandingKind::Accepted,
            Standing::Acknowledged { .. } => StandingKind::Acknowledged,
            Standing::Expired => StandingKind::Expired,
            Standing::Cancelled { .. } => StandingKind::Cancelled,
            Standing::Dead { .. } => StandingKind::Dead,
        }
    }

    pub fn word(&self) -> &'static str {
        self.kind().word()
    }

    /// Whether the status is final.
    pub fn is_over(&self) -> bool {
        self.kind().is_over()
    }

    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Standing::Offered(lease) | Standing::Accepted(lease) => Some(lease),
            Standing::Stored
            | Standing::Acknowledged { .. }
            | Standing::Expired
            | Standing::Cancelled { .. }
            | Standing::Dead { .. } => None,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Sequence number within the team.
    pub no: u32,
    /// The sender's idempotency key: sent twice under one key, it is one message.
    pub key: String,
    /// The correlation id that links a message and its replies.
    pub correlation: Option<String>,
    pub from: Actor,
    pub channel: Channel,
    pub trust: Trust,
    pub to: Address,
    /// The original recipient, if it was redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<Address>,
    pub kind: Kind,
    pub text: String,
    pub priority: Priority,
    pub stored: Moment,
    pub expires_ms: Option<u64>,
    /// How long the message is useful, as set by its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The iteration that it begins, if it is a continuation.
    pub iteration: Option<u32>,
    /// Whether it may be delivered in the middle of a turn.
    #[serde(default)]
    pub steer: bool,
    /// Whether its iteration has begun, so that a redelivery begins nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// Number of offers. A lease carries the number of its offer, which is unique.
    pub offers: u32,
    /// Number of offers that no longer count because the message was requeued.
    #[serde(default)]
    pub forgiven: u32,
    /// Whether a consumer may have received it before.
    pub redelivered: bool,
    /// The actor who dead-lettered it explicitly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried_by: Option<Actor>,
    /// Whether its sender and the managers were notified that it expired or was dead-lettered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    pub standing: Standing,
}

impl Message {
    /// Whether it can be offered now.
    pub fn waits(&self, now: Moment) -> bool {
        let over = self.expires_ms.is_some_and(|expires| expires <= now.mono_ms);
        self.standing == Standing::Stored && !over
    }

    /// Whether it is addressed to this member and not settled.
    pub(super) fn is_open_for(&self, name: &str) -> bool {
        self.to.is_member(name) && !self.standing.is_over()
    }

    /// Redirects it to another member, as if it had never been offered.
    pub(super) fn readdress(&mut self, to: Address) {
        let before = std::mem::replace(&mut self.to, to);
        self.sent_to.get_or_insert(before);
    }

    /// Whether it asks its recipient to do something.
    pub fn is_instruction(&self) -> bool {
        match self.kind {
            Kind::Instruction | Kind::Continuation => true,
            Kind::Note | Kind::Report | Kind::News | Kind::Probe => false,
        }
    }

    /// Whether it expired or was dead-lettered and that is not reported yet. A probe's sender
    /// handles it.
    pub(super) fn is_untold(&self) -> bool {
        let lost = matches!(self.standing, Standing::Dead { .. } | Standing::Expired);
        lost && !self.reported && self.kind != Kind::Probe
    }

    /// Whether it is delivered before another message to the same recipient.
    pub(super) fn comes_before(&self, other: &Message) -> bool {
        let rank = |message: &Message| {
            (tells_first(message), message.priority, std::cmp::Reverse(message.no))
        };
        rank(self) > rank(other)
    }

    /// Whether its offers are used up.
    pub fn is_worn(&self) -> bool {
        self.offers.saturating_sub(self.forgiven) >= MAX_OFFERS
    }

    /// Returns what its deadline does to it, if the deadline has passed.
    pub fn overdue(&self, now: Moment) -> Option<Overdue> {
        let expired = self.expires_ms.is_some_and(|expires| expires <= now.mono_ms);
        match &self.standing {
            Standing::Stored if expired => Some(Overdue::Expired),
            Standing::Offered(lease) | Standing::Accepted(lease) if lease.is_over(now) => {
                Some(if self.is_worn() { Overdue::Dead } else { Overdue::Returned })
            }
            Standing::Stored
            | Standing::Offered(_)
            | Standing::Accepted(_)
            | Standing::Acknowledged { .. }
            | Standing::Expired
            | Standing::Cancelled { .. }
            | Standing::Dead { .. } => None,
        }
    }

    /// Returns the next time at which time alone changes it.
    pub fn deadline(&self) -> Option<u64> {
        match &self.standing {
            Standing::Stored => self.expires_ms,
            Standing::Offered(lease) | Standing::Accepted(lease) => lease.until_ms,
            Standing::Acknowledged { .. }
            | Standing::Expired
            | Standing::Cancelled { .. }
            | Standing::Dead { .. } => None,
        }
    }
}

impl MessageStored {
    /// Builds a message from Provost's own rules to a member. It may quote text written by others.
    pub(super) fn by_rule(no: u32, key: String, to: Address, text: String) -> MessageStored {
        MessageStored {
            no,
            key,
            correlation: None,
            from: Actor::Provost,
            channel: Channel::Rule,
            trust: Trust::Claims,
            to,
            kind: Kind::News,
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
pub enum Overdue {
    Expired,
    /// Its lease expired, so that it waits again.
    Returned,
    /// It was offered too often.
    Dead,
}
