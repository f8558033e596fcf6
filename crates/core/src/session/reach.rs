//! The channel by which messages reach an agent.

use serde::{Deserialize, Serialize};

use super::{
    launch::Launch,
    spec::{Driver, Spec},
    state::{Session, WorkState},
};

/// The channel to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Codex's app-server.
    AppServer,
    /// JSON lines on standard input and output.
    JsonLines,
    /// A terminal under a holder.
    Terminal,
    /// A tmux pane of an external agent.
    Pane,
    /// The standard input of a plain command.
    Pipe,
    /// One instruction on the command line; a finished conversation can be resumed.
    Once,
    /// An external agent: Provost only reads its transcript.
    Watched,
}

impl Line {
    pub fn word(self) -> &'static str {
        match self {
            Line::AppServer => "app_server",
            Line::JsonLines => "json_lines",
            Line::Terminal => "terminal",
            Line::Pane => "pane",
            Line::Pipe => "pipe",
            Line::Once => "once",
            Line::Watched => "watched",
        }
    }
}

/// How a recipient receives messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// As turns of its conversation.
    Turns,
    /// Typed at its prompt.
    Typed,
    /// Written to its standard input.
    Written,
    /// It pulls messages.
    Asks,
    /// Not at all.
    Nothing,
}

impl Receive {
    pub fn word(self) -> &'static str {
        match self {
            Receive::Turns => "turns",
            Receive::Typed => "typed",
            Receive::Written => "written",
            Receive::Asks => "asks",
            Receive::Nothing => "nothing",
        }
    }

    /// Whether Provost pushes messages to the recipient.
    pub fn is_pushed(self) -> bool {
        match self {
            Receive::Turns | Receive::Typed | Receive::Written => true,
            Receive::Asks | Receive::Nothing => false,
        }
    }
}

impl Spec {
    /// Returns the channel to the agent.
    pub fn line(&self) -> Line {
        if let Some(adopted) = &self.adopted {
            return if adopted.pane.is_some() { Line::Pane } else { Line::Watched };
        }
        match self.agent.driver {
            Driver::Codex => Line::AppServer,
            Driver::Jsonl => Line::JsonLines,
            Driver::Terminal | Driver::CodexTerminal => Line::Terminal,
            Driver::Command => Line::Pipe,
            Driver::CodexExec => Line::Once,
        }
    }
}

impl Session {
    /// Returns how a message sent now would reach the agent.
    pub fn receives(&self) -> Receive {
        let (agent, line) = (&self.spec.agent, self.spec.line());
        let gone = self.work == WorkState::Removed || (self.store_removed && self.thread.is_some());
        let sealed = self.attempt().is_sealed();
        // A session without a launch is about to start one.
        let lives = !sealed && self.launches.last().is_none_or(Launch::may_live);
        let ended = sealed && !self.launches.last().is_some_and(Launch::may_live);
        let works = match line {
            Line::AppServer | Line::JsonLines => true,
            Line::Terminal if agent.driver.has_protocol() => true,
            Line::Pane | Line::Terminal | Line::Pipe => lives && agent.listens(),
            Line::Once => ended && self.thread.is_some(),
            Line::Watched => false,
        };
        match line {
            _ if gone || !works => Receive::Nothing,
            Line::AppServer | Line::JsonLines | Line::Once => Receive::Turns,
            Line::Terminal | Line::Pane => Receive::Typed,
            Line::Pipe => Receive::Written,
            Line::Watched => Receive::Nothing,
        }
    }
}
