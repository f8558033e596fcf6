//! The members of a team, their roles, and the actors who issue commands.

use serde::{Deserialize, Serialize};

use crate::{
    ids::SessionId,
    session::{AgentChannel, ReceiveMode, Session, ToolSupport},
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

/// The names of Provost's own actors, which members cannot use.
pub(super) const RESERVED: [&str; 3] = ["operator", "policy", "provost"];

/// The maximum length of a member's name, in characters.
pub const MAX_MEMBER_NAME: usize = 64;

/// Whether a member can have this name. Every character must be visible and easy to type, because
/// users and agents copy the name into commands.
pub fn is_member_name(name: &str) -> bool {
    let letters = name.chars().count();
    (1..=MAX_MEMBER_NAME).contains(&letters)
        && !name.chars().any(is_deceptive)
        && !name.starts_with(char::is_whitespace)
        && !name.ends_with(char::is_whitespace)
}

/// Labels that help users to find the member in another application. Provost itself does not use them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberLabels {
    pub thread: Option<String>,
    pub title: Option<String>,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamMember {
    /// The name, which is unique in the team, even among members that have left.
    pub name: String,
    pub role: MemberRole,
    /// The member's session, if Provost has one. A member without a session polls for its messages,
    /// and Provost does not probe it.
    pub session: Option<SessionId>,
    #[serde(default)]
    pub labels: MemberLabels,
    /// The capabilities that the session provides. None if the member has no session, or if its
    /// capabilities are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<MemberCapabilities>,
    /// Whether Provost sent the member an onboarding message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onboarded: bool,
    /// The handover from the member's predecessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<String>,
    pub bound: Moment,
    /// The time at which the member was retired or replaced.
    #[serde(default)]
    pub left: Option<Moment>,
    /// The configuration revision that the member has read and acknowledged.
    #[serde(default)]
    pub acknowledged: Option<u32>,
    /// The part of the member's session about which its managers have been notified.
    #[serde(default)]
    pub reported: NewsWatermark,
    /// The messages that contain the newest news about the member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub news: Vec<u32>,
}

impl TeamMember {
    pub fn is_bound(&self) -> bool {
        self.left.is_none()
    }

    /// Returns how the member receives its messages.
    pub fn receive_mode(&self) -> ReceiveMode {
        match (self.session, self.means) {
            (None, _) => ReceiveMode::Polls,
            (Some(_), None) => ReceiveMode::Turns,
            (Some(_), Some(means)) => means.receive_mode(),
        }
    }

    /// Whether the member was bound in the middle of its conversation and still needs an onboarding
    /// message.
    pub(super) fn needs_onboarding(&self) -> bool {
        let late = self.means.is_some_and(|means| !means.onboarded && means.pushed);
        late && !self.onboarded && self.is_bound()
    }
}

/// The capabilities that a session provides to a member. They are fixed when the member is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCapabilities {
    pub line: AgentChannel,
    /// Whether messages are pushed to the session.
    pub pushed: bool,
    /// Whether the agent has the member tools.
    pub tools: bool,
    /// Whether the session was opened for this team and therefore begins with the team's contract.
    pub onboarded: bool,
}

impl MemberCapabilities {
    /// Returns the capabilities of a session at the time when it is bound. Some agents receive the member tools when
    /// their conversation begins, and others already know these tools.
    pub fn from_session(session: &Session) -> MemberCapabilities {
        let (spec, interface) = (&session.spec, &session.spec.agent.interface);
        let as_member = spec.agent.settings.member.is_some();
        MemberCapabilities {
            line: spec.channel(),
            pushed: spec.adopted.is_none() && interface.takes_instructions(),
            tools: as_member || interface.capabilities.tools == ToolSupport::Known,
            onboarded: as_member && session.launches.is_empty(),
        }
    }

    fn receive_mode(self) -> ReceiveMode {
        match self.line {
            _ if !self.pushed => ReceiveMode::Polls,
            AgentChannel::Terminal | AgentChannel::Pane => ReceiveMode::Typed,
            AgentChannel::Protocol
            | AgentChannel::Pipe
            | AgentChannel::Once
            | AgentChannel::Watched => ReceiveMode::Turns,
        }
    }
}

/// The part of a member's session about which its managers have been notified. Each change is
/// reported only once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewsWatermark {
    pub turns_ended: u32,
    pub attempts_sealed: u32,
    pub requests: u32,
    /// The number of the session's processes that exited abnormally.
    pub processes_lost: u32,
}

impl NewsWatermark {
    /// Returns the maximum of each counter, because a turn that is expected or reopened does not
    /// undo a notification.
    pub(super) fn max(self, other: NewsWatermark) -> NewsWatermark {
        NewsWatermark {
            turns_ended: self.turns_ended.max(other.turns_ended),
            attempts_sealed: self.attempts_sealed.max(other.attempts_sealed),
            requests: self.requests.max(other.requests),
            processes_lost: self.processes_lost.max(other.processes_lost),
        }
    }
}

/// An order to a member's agent that is not a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberOrder {
    /// Interrupts the agent's turn. If a text is given, the agent receives it next.
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

/// The actor who issues a command. Provost determines the actor from the caller's process, never
/// from the request.
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
    /// Whether the actor manages the team on behalf of the operator.
    pub(super) fn is_manager(&self) -> bool {
        match self {
            TeamActor::Member(_) | TeamActor::Policy => true,
            TeamActor::Operator | TeamActor::Provost => false,
        }
    }

    /// Returns the display name of the actor.
    pub fn name(&self) -> &str {
        match self {
            TeamActor::Operator => "operator",
            TeamActor::Member(name) => name,
            TeamActor::Policy => "policy",
            TeamActor::Provost => "provost",
        }
    }
}
