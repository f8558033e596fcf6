//! How sessions and members receive messages, as reported to programs.

use super::{
    command_line::{Caller, Commands},
    member::Member,
    prompts::Via,
    state::Task,
};
use crate::session::{Line, Receive, Session};

/// How a session or member receives messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// The channel to the agent; none if Provost has no channel.
    pub line: Option<Line>,
    pub receive: Receive,
    /// The command that fetches the next message; none if messages are pushed, or cannot be
    /// delivered.
    pub receive_command: Option<String>,
    /// How the member acts on its team, if this describes a member.
    pub via: Option<Via>,
}

impl Communication {
    /// Describes how a session outside of any team is reached.
    pub fn of_session(session: &Session) -> Communication {
        let (line, receive) = (Some(session.spec.line()), session.receives());
        Communication { line, receive, receive_command: None, via: None }
    }

    /// Describes how a team reaches a member.
    pub fn of_member(task: &Task, member: &Member, caller: &Caller) -> Communication {
        let receive = member.receives();
        let commands = Commands { caller, task, by: Some(&member.name) };
        Communication {
            line: member.means.map(|means| means.line),
            receive,
            receive_command: (!receive.is_pushed()).then(|| commands.receive().to_string()),
            via: Some(Via::of(member)),
        }
    }

    /// Returns the channel's kind.
    pub fn kind(&self) -> &'static str {
        match (self.line, self.receive) {
            (Some(line), _) => line.word(),
            (None, Receive::Asks) => "pull",
            (None, _) => "session",
        }
    }

    pub fn can_push(&self) -> bool {
        self.receive.is_pushed()
    }

    /// Whether the agent has to be woken by something other than Provost.
    pub fn needs_wake(&self) -> bool {
        self.receive == Receive::Asks
    }

    /// Returns an additional note.
    pub fn note(&self) -> Option<&'static str> {
        (self.via == Some(Via::Late)).then_some(
            "it has no member tools: agents receive tools when a conversation begins, and this one \
             began before it was bound",
        )
    }
}
