//! Who works on a task: members, what each is there for, and who acts.

use serde::{Deserialize, Serialize};

use crate::{
    ids::SessionId,
    session::{Driver, Line, Receive, Session},
    text::is_deceptive,
    time::Moment,
};

/// What a member is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Worker,
    Manager,
    Reviewer,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Worker, Role::Manager, Role::Reviewer];

    pub fn word(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Manager => "manager",
            Role::Reviewer => "reviewer",
        }
    }
}

/// Names under which Provost and whoever commands it speak: no member may pass for them.
pub(super) const RESERVED: [&str; 3] = ["operator", "policy", "provost"];

/// The longest name of a member.
pub const MAX_MEMBER_NAME: usize = 64;

/// Says whether a member can have this name. Every character of it can be seen and typed: it stands in commands that
/// people and agents copy.
pub fn is_member_name(name: &str) -> bool {
    let letters = name.chars().count();
    (1..=MAX_MEMBER_NAME).contains(&letters)
        && !name.chars().any(is_deceptive)
        && !name.starts_with(char::is_whitespace)
        && !name.ends_with(char::is_whitespace)
}

/// What a member has to show whoever looks for it elsewhere. Navigation and nothing more: no rule asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels {
    pub thread: Option<String>,
    pub title: Option<String>,
}

/// Somebody who works on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Unique in the task, also among those who left.
    pub name: String,
    pub role: Role,
    /// Its session, where Provost has one. Whoever opens it elsewhere asks for its messages, and nobody probes it.
    pub session: Option<SessionId>,
    #[serde(default)]
    pub labels: Labels,
    /// What its session gives it; none if it has none, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<Means>,
    /// Whether Provost told it its part in a message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed: bool,
    /// What it has to know of who had its place before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<String>,
    pub bound: Moment,
    /// When it was retired, or another took its place.
    #[serde(default)]
    pub left: Option<Moment>,
    /// The revision of the configuration that it has read and acknowledged.
    #[serde(default)]
    pub acknowledged: Option<u32>,
    /// What of its session its manager was told.
    #[serde(default)]
    pub told: Told,
    /// The messages that tell the newest of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub news: Vec<u32>,
}

impl Member {
    pub fn is_bound(&self) -> bool {
        self.left.is_none()
    }

    /// Says how it gets its messages.
    pub fn receives(&self) -> Receive {
        match (self.session, self.means) {
            (None, _) => Receive::Asks,
            (Some(_), None) => Receive::Turns,
            (Some(_), Some(means)) => means.receives(),
        }
    }

    /// Says whether it was bound in the middle of its conversation, and has to be told its part.
    pub(super) fn is_to_be_told(&self) -> bool {
        let late = self.means.is_some_and(|means| !means.told && means.pushed);
        late && !self.handed && self.is_bound()
    }
}

/// What a session gives a member, as it was when it was bound. What a session was opened with stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Means {
    pub line: Line,
    /// Whether the task gives it its messages.
    pub pushed: bool,
    /// Whether its agent has the tools of a member.
    pub tools: bool,
    /// Whether it was opened for this task, and begins with its part.
    pub told: bool,
}

impl Means {
    /// Gives what a session gives a member that it is bound to now. Agents are given tools when their conversation
    /// begins; on JSON lines they call what they know of.
    pub fn of(session: &Session) -> Means {
        let (spec, driver) = (&session.spec, session.spec.agent.driver);
        let as_member = spec.agent.settings.member.is_some();
        Means {
            line: spec.line(),
            pushed: spec.adopted.is_none() && driver.has_protocol(),
            tools: as_member || driver == Driver::Jsonl,
            told: as_member && session.launches.is_empty(),
        }
    }

    fn receives(self) -> Receive {
        match self.line {
            _ if !self.pushed => Receive::Asks,
            Line::Terminal | Line::Pane => Receive::Typed,
            Line::AppServer | Line::JsonLines | Line::Pipe | Line::Once | Line::Watched => {
                Receive::Turns
            }
        }
    }
}

/// How far the news of a member's session have gone to its manager: each is told once, whatever is asked how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    pub turns_ended: u32,
    pub attempts_sealed: u32,
    pub requests: u32,
    /// How many of its processes ended otherwise than they should.
    pub processes_lost: u32,
}

impl Told {
    /// Gives the most of each: a turn that is expected or taken up again takes back nothing of what was told.
    pub(super) fn max(self, other: Told) -> Told {
        Told {
            turns_ended: self.turns_ended.max(other.turns_ended),
            attempts_sealed: self.attempts_sealed.max(other.attempts_sealed),
            requests: self.requests.max(other.requests),
            processes_lost: self.processes_lost.max(other.processes_lost),
        }
    }
}

/// What a member's agent is told besides its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// To leave its turn; this is said next, if anything is.
    Interrupt {
        text: Option<String>,
    },
    Compact,
}

impl Order {
    pub fn word(&self) -> &'static str {
        match self {
            Order::Interrupt { .. } => "leave its turn",
            Order::Compact => "make its conversation shorter",
        }
    }
}

/// Who does something to a task. The shell says it by the caller's process, never by what the caller says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    #[default]
    Operator,
    Member(String),
    /// A manager that is rules and no agent.
    Policy,
    Provost,
}

impl Actor {
    /// Says whether it manages a task for the operator, who answers for it.
    pub(super) fn manages(&self) -> bool {
        match self {
            Actor::Member(_) | Actor::Policy => true,
            Actor::Operator | Actor::Provost => false,
        }
    }

    /// Gives its name for people.
    pub fn name(&self) -> &str {
        match self {
            Actor::Operator => "operator",
            Actor::Member(name) => name,
            Actor::Policy => "policy",
            Actor::Provost => "provost",
        }
    }
}
