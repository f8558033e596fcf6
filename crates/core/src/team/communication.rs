//! Describes to programs how sessions and members receive messages.

use super::{
    command_line::{ProvostInvocation, TeamCommandLines},
    member::TeamMember,
    prompts::MemberMode,
    state::Team,
};
use crate::session::{AgentChannel, ReceiveMode, Session};

/// The way in which a session or member receives messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// The channel to the agent. None if Provost has no channel to the agent.
    pub line: Option<AgentChannel>,
    pub receive: ReceiveMode,
    /// The command that fetches the next message. None if messages are pushed or cannot be delivered.
    pub receive_command: Option<String>,
    /// The way in which the member acts on its team. None if this describes a session that is not a
    /// member.
    pub via: Option<MemberMode>,
}

impl Communication {
    /// Describes how messages reach a session outside of any team.
    pub fn for_session(session: &Session) -> Communication {
        let (line, receive) = (Some(session.spec.channel()), session.receive_mode());
        Communication { line, receive, receive_command: None, via: None }
    }

    /// Describes how a team's messages reach a member.
    pub fn for_member(
        task: &Team,
        member: &TeamMember,
        caller: &ProvostInvocation,
    ) -> Communication {
        let receive = member.receive_mode();
        let commands = TeamCommandLines { caller, task, member: Some(&member.name) };
        Communication {
            line: member.means.map(|means| means.line),
            receive,
            receive_command: (!receive.is_pushed()).then(|| commands.receive().to_string()),
            via: Some(MemberMode::for_member(member)),
        }
    }

    /// Returns the kind of channel.
    pub fn channel_kind(&self) -> &'static str {
        match (self.line, self.receive) {
            (Some(line), _) => line.as_str(),
            (None, ReceiveMode::Polls) => "pull",
            (None, _) => "session",
        }
    }

    pub fn can_push(&self) -> bool {
        self.receive.is_pushed()
    }

    /// Whether something other than Provost must wake the agent.
    pub fn needs_wake(&self) -> bool {
        self.receive == ReceiveMode::Polls
    }

    /// Returns an additional note to display, if there is one.
    pub fn note(&self) -> Option<&'static str> {
        (self.via == Some(MemberMode::CommandsPushed)).then_some(
            "it has no member tools: agents receive tools when a conversation begins, and this one \
             began before it was bound",
        )
    }
}
