//! What a rollout file can say.

use std::path::PathBuf;

use crate::ThreadId;

/// Something that a line of a rollout said. Approvals, questions and retries are not recorded in these files.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Session(SessionMeta),
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
    },
    /// The agent has what a person or a supervisor said: the proof of input.
    UserMessage {
        turn: Option<String>,
        /// The id that the sender gave it.
        client_id: Option<String>,
        text: String,
    },
    Tokens(Tokens),
    Limits(Limits),
    Plan(Plan),
    Compacted,
    /// Something else happened: the agent goes on.
    Alive,
    /// A line that cannot be read, as a crash or a full disk leaves it.
    Unreadable {
        len: u64,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    Ok {
        last_message: Option<String>,
    },
    Error {
        message: String,
        /// Codex's word for what failed, `usage_limit_exceeded` for example.
        kind: Option<String>,
    },
    Aborted {
        reason: Option<String>,
    },
}

/// Whose record a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMeta {
    pub thread: ThreadId,
    /// The thread that started this one as its sub-agent.
    pub parent: Option<ThreadId>,
    /// The thread whose history this one began with.
    pub forked_from: Option<ThreadId>,
    pub cwd: Option<PathBuf>,
    pub cli_version: Option<String>,
    pub originator: Option<String>,
    /// Whether Codex made the thread for itself, as for a sub-agent: no person talks there.
    pub hidden: bool,
}

/// What the model has used, as far as the thread knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// For the last response alone.
    pub response: Usage,
    /// For the thread until now.
    pub total: Usage,
    /// The size of the model's context.
    pub window: Option<u64>,
}

impl Tokens {
    /// How many tokens of the context are taken.
    pub fn filled(&self) -> u64 {
        self.response.total
    }
}

/// Counts of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input: u64,
    pub cached_input: u64,
    pub output: u64,
    pub reasoning_output: u64,
    pub total: u64,
}

/// The limits of an account, as the last response told them.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub id: Option<String>,
    pub primary: Option<Window>,
    pub secondary: Option<Window>,
    /// Which limit stops the account now.
    pub reached: Option<String>,
}

/// How much of a limit is used, and until when it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub used_percent: f64,
    pub minutes: Option<u64>,
    pub reset: Option<Reset>,
}

/// When a limit begins anew: newer versions tell a time, older ones how far off it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Seconds since 1970.
    At(i64),
    /// Seconds after the line was written.
    In(u64),
}

/// The agent's own plan: the one structured word about progress that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<PlanStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    pub text: String,
    pub status: StepStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    Pending,
    InProgress,
    Completed,
    /// A word that this version does not know.
    Unknown,
}

impl Plan {
    /// How many steps are done, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        let done = self.steps.iter().filter(|step| step.status == StepStatus::Completed);
        (done.count(), self.steps.len())
    }
}
