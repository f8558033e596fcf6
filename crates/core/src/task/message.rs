//! Messages of a task, from being stored to being acknowledged.
//!
//! Being offered, being accepted and being acknowledged are three facts. A message is offered under a lease; only who
//! has the lease can accept and acknowledge it, so that a consumer that comes back too late handles nothing twice.

use serde::{Deserialize, Serialize};

use super::{
    event::MessageStored,
    handing::tells_first,
    member::{Actor, Role},
};
use crate::{ids::SessionId, time::Moment};

/// The longest text of a message.
pub const MAX_TEXT: usize = 1 << 20;

/// How many messages may wait for one member.
pub const MAX_WAITING: usize = 1_000;

/// How often a message is offered before it is laid aside as dead.
pub const MAX_OFFERS: u32 = 10;

/// How long a message may become that tells several news.
pub const MAX_NEWS: usize = 16 << 10;

/// How many messages that are over a task remembers; all of them are in its events.
pub const MAX_OVER_KEPT: usize = 200;

/// For whom a message is.
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

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What to do.
    Instruction,
    /// Something to know.
    Note,
    /// What a member tells of its work.
    Report,
    /// The next iteration of the loop; the only kind that can advance it.
    Continuation,
    /// What Provost saw of a member's session.
    News,
    /// A text that proves that a connection stands.
    Probe,
}

impl Kind {
    /// Whether members and the operator write messages of this kind themselves. The others are made by Provost: a
    /// continuation by the gate, news by what was seen. A probe is the operator's.
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

/// Which of several messages comes first; those of one priority come in the order in which they were stored.
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

/// The way by which what was written came to Provost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// A command of a person or of an agent.
    #[default]
    Cli,
    /// A tool that an agent was given.
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

/// How far what a message says may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It speaks for whoever started the work.
    Instructs,
    /// It is what somebody says, to be checked before it is believed.
    Claims,
}

impl Trust {
    /// Says how far an author is to be followed by whoever has this role.
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

/// How a message comes to its consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Provost gives it to the session, where it has this key. So many turns the session had begun by then: with the
    /// next one its agent begins with it.
    Push {
        session: SessionId,
        key: String,
        #[serde(default)]
        turns: u32,
    },
    /// The consumer asked for it.
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

/// A message held for one consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Counts the offers of the message: what is told under an older one is told too late.
    pub no: u32,
    pub consumer: String,
    pub way: Way,
    /// When it is offered to others again. A push has no end of its own: the session says what becomes of it.
    pub until_ms: Option<u64>,
}

impl Lease {
    fn is_over(&self, now: Moment) -> bool {
        self.until_ms.is_some_and(|until| until <= now.mono_ms) && !bug!(LeaseNeverEnds)
    }
}

/// How a message stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Stored,
    Offered(Lease),
    /// The consumer has it.
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
    /// Nobody could take it; a person can have it offered again.
    Dead {
        reason: String,
    },
}

/// The same without who and why.
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

    /// Says whether nothing more is expected of it.
    pub fn is_over(self) -> bool {
        match self {
            StandingKind::Stored | StandingKind::Offered | StandingKind::Accepted => false,
            StandingKind::Acknowledged
            | StandingKind::Expired
            | StandingKind::Cancelled
            | StandingKind::Dead => true,
        }
    }

    /// Says whether somebody has it, or is offered it.
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

    /// Says whether nothing more is expected of it.
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
    /// Counts the messages of the task.
    pub no: u32,
    /// What its sender calls it: sent twice under one key, it is one message.
    pub key: String,
    /// What belongs together, through all answers.
    pub correlation: Option<String>,
    pub from: Actor,
    pub channel: Channel,
    pub trust: Trust,
    pub to: Address,
    /// For whom it was sent, if it was given to another since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to: Option<Address>,
    pub kind: Kind,
    pub text: String,
    pub priority: Priority,
    pub stored: Moment,
    pub expires_ms: Option<u64>,
    /// How long it is of use, as its sender said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// The iteration that it begins, if it is a continuation.
    pub iteration: Option<u32>,
    /// Whether it may reach a session in the middle of its turn.
    #[serde(default)]
    pub steer: bool,
    /// Whether its iteration began: whoever gets it again begins nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// How often it was offered: a lease has the number of its offer, and no two have one number.
    pub offers: u32,
    /// How many of them no longer count, since somebody had it offered anew.
    #[serde(default)]
    pub forgiven: u32,
    /// Whether a consumer may have had it before.
    pub redelivered: bool,
    /// Who dead-lettered it on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried_by: Option<Actor>,
    /// Whether its sender and the managers were told that it expired or was dead-lettered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    pub standing: Standing,
}

impl Message {
    /// Says whether it can be offered now.
    pub fn waits(&self, now: Moment) -> bool {
        let over = self.expires_ms.is_some_and(|expires| expires <= now.mono_ms);
        self.standing == Standing::Stored && !over
    }

    /// Says whether it is for this member, and something is still expected of it.
    pub(super) fn is_open_for(&self, name: &str) -> bool {
        self.to.is_member(name) && !self.standing.is_over()
    }

    /// Gives it to another member, as if nobody had been offered it.
    pub(super) fn readdress(&mut self, to: Address) {
        let before = std::mem::replace(&mut self.to, to);
        self.sent_to.get_or_insert(before);
    }

    /// Whether it tells somebody what to do.
    pub fn is_instruction(&self) -> bool {
        match self.kind {
            Kind::Instruction | Kind::Continuation => true,
            Kind::Note | Kind::Report | Kind::News | Kind::Probe => false,
        }
    }

    /// Whether it expired or was dead-lettered, and that is still to be told. A probe is answered by whoever sent it.
    pub(super) fn is_untold(&self) -> bool {
        let lost = matches!(self.standing, Standing::Dead { .. } | Standing::Expired);
        lost && !self.reported && self.kind != Kind::Probe
    }

    /// Says whether it is given to who both are for before another is.
    pub(super) fn comes_before(&self, other: &Message) -> bool {
        let rank = |message: &Message| {
            (tells_first(message), message.priority, std::cmp::Reverse(message.no))
        };
        rank(self) > rank(other)
    }

    /// Says whether it was offered as often as it may be.
    pub fn is_worn(&self) -> bool {
        self.offers.saturating_sub(self.forgiven) >= MAX_OFFERS
    }

    /// Says what time does to it, if its time has come.
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

    /// Gives when time changes something about it.
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
    /// Gives what Provost tells a member by its own rules. It may quote what others said or printed.
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

/// What time does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Expired,
    /// Its lease is over: it waits again.
    Returned,
    /// It was offered too often.
    Dead,
}
