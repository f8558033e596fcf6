//! How what is sent to a session reaches its agent.

use serde::{Deserialize, Serialize};

use super::{
    launch::Launch,
    spec::{Driver, Spec},
    state::{Session, WorkState},
};

/// The line on which an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Codex's app-server.
    AppServer,
    /// JSON lines on standard input and output.
    JsonLines,
    /// A terminal that Provost holds.
    Terminal,
    /// A pane of tmux that is somebody else's.
    Pane,
    /// The standard input of a plain command.
    Pipe,
    /// One instruction on the command line; what ended can be gone on with.
    Once,
    /// Somebody else started it, and Provost only reads what it records.
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

/// How somebody gets what is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// As turns of its conversation.
    Turns,
    /// Typed at its prompt.
    Typed,
    /// Written to its standard input.
    Written,
    /// It asks for it.
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

    /// Says whether Provost brings it there.
    pub fn is_pushed(self) -> bool {
        match self {
            Receive::Turns | Receive::Typed | Receive::Written => true,
            Receive::Asks | Receive::Nothing => false,
        }
    }
}

impl Spec {
    /// Gives the line on which the agent is spoken to.
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
    /// Says how what is sent to it now reaches its agent.
    pub fn receives(&self) -> Receive {
        let (agent, line) = (&self.spec.agent, self.spec.line());
        let gone = self.work == WorkState::Removed || (self.store_removed && self.thread.is_some());
        let sealed = self.attempt().is_sealed();
        // What was only opened is about to live.
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
