//! The channel through which messages reach an agent.

use serde::{Deserialize, Serialize};

use crate::session::{
    interface::AgentMode,
    launch::Launch,
    spec::SessionSpec,
    state::{Session, WorkState},
};

/// The channel to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentChannel {
    /// A protocol on pipes or a socket.
    Protocol,
    /// A terminal under a holder.
    Terminal,
    /// A tmux pane of an external agent.
    Pane,
    /// The standard input of a plain command.
    Pipe,
    /// A single instruction on the command line. A finished conversation can be resumed.
    Once,
    /// An external agent whose transcript Provost only reads.
    Watched,
}

impl AgentChannel {
    pub fn as_str(self) -> &'static str {
        match self {
            AgentChannel::Protocol => "protocol",
            AgentChannel::Terminal => "terminal",
            AgentChannel::Pane => "pane",
            AgentChannel::Pipe => "pipe",
            AgentChannel::Once => "once",
            AgentChannel::Watched => "watched",
        }
    }
}

/// The way in which a recipient receives messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveMode {
    /// Messages become turns of the recipient's conversation.
    Turns,
    /// Messages are typed at the recipient's prompt.
    Typed,
    /// Messages are written to the recipient's standard input.
    Written,
    /// The recipient fetches its messages itself.
    Polls,
    /// The recipient cannot receive messages.
    Nothing,
}

impl ReceiveMode {
    pub fn as_str(self) -> &'static str {
        match self {
            ReceiveMode::Turns => "turns",
            ReceiveMode::Typed => "typed",
            ReceiveMode::Written => "written",
            ReceiveMode::Polls => "polls",
            ReceiveMode::Nothing => "nothing",
        }
    }

    /// Whether Provost pushes messages to the recipient.
    pub fn is_pushed(self) -> bool {
        match self {
            ReceiveMode::Turns | ReceiveMode::Typed | ReceiveMode::Written => true,
            ReceiveMode::Polls | ReceiveMode::Nothing => false,
        }
    }
}

impl SessionSpec {
    /// Returns the channel to the agent.
    pub fn channel(&self) -> AgentChannel {
        if let Some(adopted) = &self.adopted {
            return if adopted.pane.is_some() { AgentChannel::Pane } else { AgentChannel::Watched };
        }
        match self.agent.interface.mode {
            AgentMode::Headless if self.agent.interface.has_turns() => AgentChannel::Protocol,
            AgentMode::Headless => AgentChannel::Pipe,
            AgentMode::Once => AgentChannel::Once,
            AgentMode::Terminal => AgentChannel::Terminal,
        }
    }
}

impl Session {
    /// Returns how a message sent now would reach the agent.
    pub fn receive_mode(&self) -> ReceiveMode {
        let (agent, line) = (&self.spec.agent, self.spec.channel());
        let gone = self.worktree.state == WorkState::Removed
            || (self.conversation.deleted && self.conversation.thread.is_some());
        let sealed = self.attempt().is_sealed();
        // A session without a launch counts as alive, because its first launch is about to start.
        let lives = !sealed && self.launches.last().is_none_or(Launch::may_be_running);
        let ended = sealed && !self.launches.last().is_some_and(Launch::may_be_running);
        let works = match line {
            AgentChannel::Protocol => true,
            AgentChannel::Terminal if agent.interface.takes_instructions() => true,
            AgentChannel::Pane | AgentChannel::Terminal | AgentChannel::Pipe => {
                lives && agent.accepts_input()
            }
            AgentChannel::Once => {
                ended && self.conversation.thread.is_some() && agent.interface.can_resume()
            }
            AgentChannel::Watched => false,
        };
        match line {
            _ if gone || !works => ReceiveMode::Nothing,
            AgentChannel::Protocol | AgentChannel::Once => ReceiveMode::Turns,
            AgentChannel::Terminal | AgentChannel::Pane => ReceiveMode::Typed,
            AgentChannel::Pipe => ReceiveMode::Written,
            AgentChannel::Watched => ReceiveMode::Nothing,
        }
    }
}
