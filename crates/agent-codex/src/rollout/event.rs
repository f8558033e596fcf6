//! The events that a rollout file contains.

use std::path::PathBuf;

use crate::ThreadId;

/// An event in a rollout. Codex does not record approvals, questions and retries in rollouts.
#[derive(Debug, Clone, PartialEq)]
pub enum RolloutEvent {
    Session(SessionMeta),
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: RecordedTurnEnd,
    },
    /// The agent received a message from the user or the supervisor. This proves that the input
    /// arrived.
    UserMessage {
        turn: Option<String>,
        /// The message id that the sender assigned.
        client_id: Option<String>,
        text: String,
    },
    Tokens(TokenReport),
    Limits(AccountLimits),
    Plan(AgentPlan),
    Compacted,
    /// A record of any other kind, which shows that the agent is active.
    Alive,
    /// An unreadable line, for example after a crash or on a full disk.
    Unreadable {
        len: u64,
    },
}

/// The recorded end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedTurnEnd {
    Ok {
        last_message: Option<String>,
    },
    Error {
        message: String,
        /// Codex's name for the error, such as `usage_limit_exceeded`.
        kind: Option<String>,
    },
    Aborted {
        reason: Option<String>,
    },
}

/// The metadata of the thread in a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMeta {
    pub thread: ThreadId,
    /// The thread that started this one as its sub-agent.
    pub parent: Option<ThreadId>,
    /// The thread from which this one was forked, with a copy of its history.
    pub forked_from: Option<ThreadId>,
    pub cwd: Option<PathBuf>,
    pub cli_version: Option<String>,
    pub originator: Option<String>,
    /// Whether Codex created the thread for internal use, for example for a sub-agent. Users do not
    /// talk to these threads.
    pub hidden: bool,
}

/// The token usage that a thread reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenReport {
    /// The usage of the last response alone.
    pub response: TokenUsage,
    /// The usage of the thread so far.
    pub total: TokenUsage,
    /// The size of the model's context.
    pub window: Option<u64>,
}

impl TokenReport {
    /// Returns the number of tokens in the context.
    pub fn filled(&self) -> u64 {
        self.response.total
    }
}

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    pub input: u64,
    pub cached_input: u64,
    pub output: u64,
    pub reasoning_output: u64,
    pub total: u64,
}

/// The limits of an account, as reported with the last response.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountLimits {
    pub id: Option<String>,
    pub primary: Option<LimitUsage>,
    pub secondary: Option<LimitUsage>,
    /// The limit that is currently exhausted, if any.
    pub reached: Option<String>,
}

/// The used part of a limit, and the period of the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitUsage {
    pub used_percent: f64,
    pub minutes: Option<u64>,
    pub reset: Option<LimitReset>,
}

/// The time at which a limit resets. Newer versions report a time, older ones a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReset {
    /// Seconds since 1970.
    At(i64),
    /// Seconds after the line was written.
    In(u64),
}

/// The agent's own plan, which is the only structured report of progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlan {
    pub steps: Vec<AgentPlanStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlanStep {
    pub text: String,
    pub status: StepStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    Pending,
    InProgress,
    Completed,
    /// A status that this version of Provost does not know.
    Unknown,
}

impl AgentPlan {
    /// Returns the number of completed steps and the number of all steps.
    pub fn progress(&self) -> (usize, usize) {
        let done = self.steps.iter().filter(|step| step.status == StepStatus::Completed);
        (done.count(), self.steps.len())
    }
}
