//! How sessions and members get what is sent to them, as programs are told.

use super::{
    command_line::{Caller, Commands},
    member::Member,
    prompts::Via,
    state::Task,
};
use crate::session::{Line, Receive, Session};

/// How somebody gets what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communication {
    /// The line on which it is spoken to; none if Provost has none to it.
    pub line: Option<Line>,
    pub receive: Receive,
    /// The command by which it gets its next message; none if that is brought to it, or nothing is.
    pub receive_command: Option<String>,
    /// The way by which it acts on its task, if it is shown as a member.
    pub via: Option<Via>,
}

impl Communication {
    /// Gives how a session is reached that is looked at for itself.
    pub fn of_session(session: &Session) -> Communication {
        let (line, receive) = (Some(session.spec.line()), session.receives());
        Communication { line, receive, receive_command: None, via: None }
    }

    /// Gives how a member is reached by its task.
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

    /// Gives what it is spoken to by, in a word.
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

    /// Says whether somebody else has to wake it.
    pub fn needs_wake(&self) -> bool {
        self.receive == Receive::Asks
    }

    /// Says what is to be known besides.
    pub fn note(&self) -> Option<&'static str> {
        (self.via == Some(Via::Late)).then_some(
            "it has no tools of a member: its agent takes tools at the beginning of a conversation, and this one \
             began before it was bound",
        )
    }
}
