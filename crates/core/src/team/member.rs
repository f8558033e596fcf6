//! Members of a team, their roles, and the actors of commands.

use serde::{Deserialize, Serialize};

use crate::{
    ids::SessionId,
    session::{AgentChannel, Driver, ReceiveMode, Session},
    text::is_deceptive,
    time::Moment,
};

/// The role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    Worker,
    Manager,
    Reviewer,
}

impl MemberRole {
    pub const ALL: [MemberRole; 3] =
        [MemberRole::Worker, MemberRole::Manager, MemberRole::Reviewer];

    pub fn as_str(self) -> &'static str {
        match self {
            MemberRole::Worker => "worker",
            MemberRole::Manager => "manager",
            MemberRole::Reviewer => "reviewer",
        }
    }
}

/// Names of Provost's own actors, which no member may use.
pub(super) const RESERVED: [&str; 3] = ["operator", "policy", "provost"];

/// Longest name of a member, in characters.
pub const MAX_MEMBER_NAME: usize = 64;

/// Whether a member can have this name. Every character must be visible and typeable, because users
/// and agents copy it in commands.
pub fn is_member_name(name: &str) -> bool {
    let letters = name.chars().count();
    (1..=MAX_MEMBER_NAME).contains(&letters)
        && !name.chars().any(is_deceptive)
        && !name.starts_with(char::is_whitespace)
        && !name.ends_with(char::is_whitespace)
}

/// Labels for finding the member in another application. For navigation only: no rule reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberLabels {
    pub thread: Option<String>,
    pub title: Option<String>,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamMember {
    /// Unique in the team, including members that left.
    pub name: String,
    pub role: MemberRole,
    /// Its session, if Provost has one. A member opened elsewhere polls for its messages and is not
    /// probed.
    pub session: Option<SessionId>,
    #[serde(default)]
    pub labels: MemberLabels,
    /// What its session provides; none if it has no session or this is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<MemberCapabilities>,
    /// Whether Provost sent it an onboarding message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onboarded: bool,
    /// The handover from its predecessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<String>,
    pub bound: Moment,
    /// When it was retired or replaced.
    #[serde(default)]
    pub left: Option<Moment>,
    /// The configuration revision that it has read and acknowledged.
    #[serde(default)]
    pub acknowledged: Option<u32>,
    /// How much of its session its managers have been notified of.
    #[serde(default)]
    pub reported: NewsWatermark,
    /// The messages that carry the newest news about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub news: Vec<u32>,
}

impl TeamMember {
    pub fn is_bound(&self) -> bool {
        self.left.is_none()
    }

    /// Returns how it receives its messages.
    pub fn receive_mode(&self) -> ReceiveMode {
        match (self.session, self.means) {
            (None, _) => ReceiveMode::Polls,
            (Some(_), None) => ReceiveMode::Turns,
            (Some(_), Some(means)) => means.receive_mode(),
        }
    }

    /// Whether it was bound in the middle of its conversation and still needs an onboarding
    /// message.
    pub(super) fn needs_onboarding(&self) -> bool {
        let late = self.means.is_some_and(|means| !means.onboarded && means.pushed);
        late && !self.onboarded && self.is_bound()
    }
}

/// What a session provides to a member, as of binding. A session's initial setup does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCapabilities {
    pub line: AgentChannel,
    /// Whether the team pushes its messages.
    pub pushed: bool,
    /// Whether its agent has the tools of a member.
    pub tools: bool,
    /// Whether it was opened for this team and begins with its contract.
    pub onboarded: bool,
}

impl MemberCapabilities {
    /// Returns what a session provides if it is bound now. Agents receive tools when their
    /// conversation begins; JSON-lines agents call the tools they know.
    pub fn from_session(session: &Session) -> MemberCapabilities {
        let (spec, driver) = (&session.spec, session.spec.agent.driver);
        let as_member = spec.agent.settings.member.is_some();
        MemberCapabilities {
            line: spec.channel(),
            pushed: spec.adopted.is_none() && driver.has_protocol(),
            tools: as_member || driver == Driver::Jsonl,
            onboarded: as_member && session.launches.is_empty(),
        }
    }

    fn receive_mode(self) -> ReceiveMode {
        match self.line {
            _ if !self.pushed => ReceiveMode::Polls,
            AgentChannel::Terminal | AgentChannel::Pane => ReceiveMode::Typed,
            AgentChannel::AppServer
            | AgentChannel::JsonLines
            | AgentChannel::Pipe
            | AgentChannel::Once
            | AgentChannel::Watched => ReceiveMode::Turns,
        }
    }
}

/// How much of a member's session its managers have been notified of. Each item is reported once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewsWatermark {
    pub turns_ended: u32,
    pub attempts_sealed: u32,
    pub requests: u32,
    /// Number of its processes that ended abnormally.
    pub processes_lost: u32,
}

impl NewsWatermark {
    /// Returns the maximum of each counter. An expected or reopened turn does not undo a
    /// notification.
    pub(super) fn max(self, other: NewsWatermark) -> NewsWatermark {
        NewsWatermark {
            turns_ended: self.turns_ended.max(other.turns_ended),
            attempts_sealed: self.attempts_sealed.max(other.attempts_sealed),
            requests: self.requests.max(other.requests),
            processes_lost: self.processes_lost.max(other.processes_lost),
        }
    }
}

/// A control order to a member's agent, besides its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// Interrupts its turn, and optionally sends this text next.
    Interrupt {
        text: Option<String>,
    },
    Compact,
}

impl MemberOrder {
    pub fn describe(&self) -> &'static str {
        match self {
            MemberOrder::Interrupt { .. } => "interrupt its turn",
            MemberOrder::Compact => "compact its conversation",
        }
    }
}

/// The actor of a command. Determined from the caller's process, never from what the caller claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamActor {
    #[default]
    Operator,
    Member(String),
    /// A manager implemented by rules instead of an agent.
    Policy,
    Provost,
}

impl TeamActor {
    /// Whether it manages the team on behalf of the operator.
    pub(super) fn is_manager(&self) -> bool {
        match self {
            TeamActor::Member(_) | TeamActor::Policy => true,
            TeamActor::Operator | TeamActor::Provost => false,
        }
    }

    /// Returns its display name.
    pub fn name(&self) -> &str {
        match self {
            TeamActor::Operator => "operator",
            TeamActor::Member(name) => name,
            TeamActor::Policy => "policy",
            TeamActor::Provost => "provost",
        }
    }
}
