//! The state of a session, folded from its events.

use serde::{Deserialize, Serialize};

use super::{
    attempt::Attempt,
    command::FactKind,
    hook::HookLog,
    input::{Compaction, InputQueue, TypedInput},
    launch::{Launch, LaunchPhase},
    reactions::{Occasion, Reactions},
    spec::SessionSpec,
    tool_calls::{ToolCallResult, ToolCalls},
};
use crate::{
    ids::{LaunchId, RequestId, SessionId, TreeId},
    request::{Request, RequestReply},
    shortage::EffectWait,
    time::Moment,
    verdict::Snapshot,
};

/// The state of the agent's worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    Pending,
    Ready { cwd: String, base: Option<Snapshot> },
    Failed { reason: String },
    Removed,
}

/// The state of the project's setup command in a fresh worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupState {
    NotNeeded,
    Pending,
    Done,
    Failed { reason: String },
}

/// The kind of message sent to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessageKind {
    Instruction,
    Steer,
    Rework,
    ResultWanted,
    Answer,
    /// Asks the agent to continue, and explains why it was interrupted.
    Continue,
    /// The result of a tool call.
    Returned,
    /// A text sent by a reaction.
    Nudge,
    /// An interrupt of the agent's turn.
    Interrupt,
    /// A request to compact the agent's conversation.
    Compact,
}

/// The delivery status of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Queued,
    Delivered { launch: LaunchId },
    Undeliverable { reason: String },
}

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMessage {
    pub key: String,
    pub kind: AgentMessageKind,
    pub text: String,
    /// The request that this message answers. The reply is stored with it, unless it is secret.
    pub request: Option<RequestId>,
    #[serde(default)]
    pub reply: Option<RequestReply>,
    /// The tool call that this message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<ToolCallResult>,
    pub attempt: u32,
    pub status: DeliveryStatus,
    /// The number of times that the agent's program rejected the message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// The time and progress of typing the message into a terminal. Cleared when the agent confirms
    /// the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<TypedInput>,
    /// The reason why the message is still waiting although it was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed_reason: Option<String>,
    /// The occasion that led to a nudge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occasion: Option<Occasion>,
}

impl Session {
    /// Whether the text of a message is secret, in which case it is not stored.
    pub fn is_secret(&self, message: &AgentMessage) -> bool {
        let request = self.requests.iter().find(|request| Some(request.id) == message.request);
        request.is_some_and(|request| request.asked.is_secret())
    }
}

/// Progress, as reported by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// The number of tokens that the agent reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

impl Usage {
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the usage since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
        }
    }

    pub fn add(&mut self, more: Usage) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

/// The part of the model's context that is in use, as last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextUsage {
    pub used: u64,
    pub window: u64,
}

impl ContextUsage {
    /// Whether at least this percentage of the context is used.
    pub fn is_at_least(self, percent: u32) -> bool {
        let (used, window) = (u128::from(self.used), u128::from(self.window));
        window > 0 && used * 100 >= window * u128::from(percent)
    }
}

/// The total budget of a session. None means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
}

/// A wait for the account's usage limit to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitWait {
    pub detail: String,
    pub since: Moment,
    /// The time at which the work resumes, on the monotonic clock.
    pub until_mono_ms: u64,
}

/// A reported fact about the work: a branch, a pull request, an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub kind: FactKind,
    pub value: String,
    pub at: Moment,
}

/// The dismissal of a session whose team has finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dismissal {
    pub because: String,
    /// Whether the team gave up the work. If so, the attempt is cancelled even in the middle of a
    /// turn.
    pub at_once: bool,
}

fn first_attempt() -> u32 {
    1
}

/// The agent's worktree and its setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    #[serde(rename = "work")]
    pub state: WorkState,
    /// The attempt for which the worktree was last prepared, or is about to be.
    #[serde(rename = "work_for", default = "first_attempt")]
    pub attempt: u32,
    pub setup: SetupState,
    /// The attempt for which the setup last ran, or is about to run.
    #[serde(rename = "setup_for", default = "first_attempt")]
    pub setup_attempt: u32,
}

/// The agent's conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    pub thread: Option<String>,
    /// The context usage, or None until the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUsage>,
    /// The number of times that the agent has compacted its conversation, on request or on its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compactions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Compaction>,
    /// Whether the agent's stored conversation has been deleted.
    #[serde(rename = "conversation_deleted", default)]
    pub deleted: bool,
}

/// The tokens and turns that a session has used, and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    pub usage: Usage,
    /// The number of turns that the agent has started.
    #[serde(default)]
    pub turns: u32,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub limited: Option<LimitWait>,
    /// The time at which the session last resumed after a usage limit, on the monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_ms: Option<u64>,
}

/// The agent's reports about its work, apart from claims and results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReports {
    pub progress: Option<Progress>,
    /// Capabilities that the agent lacks, as reported by its adapter.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The newest facts, at most [`MAX_FACTS_KEPT`](crate::limits::MAX_FACTS_KEPT).
    pub facts: Vec<Fact>,
}

/// Whether the session was imported from another home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOrigin {
    /// Whether the session was imported. This is recorded in the ledger, but not in the events.
    #[serde(skip)]
    pub imported: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
}

/// One conversation with one agent in one worktree. The stored form is flat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub spec: SessionSpec,
    pub opened: Moment,
    #[serde(flatten)]
    pub worktree: Worktree,
    /// The attempts, of which there is at least one, because a session is opened with its first
    /// attempt.
    pub attempts: Vec<Attempt>,
    pub launches: Vec<Launch>,
    pub requests: Vec<Request>,
    /// The tool calls with which a member acts on its team.
    #[serde(default, skip_serializing_if = "ToolCalls::is_empty")]
    pub calls: ToolCalls,
    #[serde(flatten)]
    pub input: InputQueue,
    #[serde(flatten)]
    pub hook_log: HookLog,
    #[serde(flatten)]
    pub conversation: Conversation,
    #[serde(flatten)]
    pub spending: Spending,
    #[serde(flatten)]
    pub reported: AgentReports,
    #[serde(flatten)]
    pub reactions: Reactions,
    /// The dismissal, which is set when the session's team finishes, and cleared when a new
    /// instruction arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<Dismissal>,
    /// The number of effect records found that Provost had not written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forged_records: u32,
    /// Effects that are waiting for a resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effect_waits: Vec<EffectWait>,
    pub output_limit: u64,
    #[serde(flatten)]
    pub origin: SessionOrigin,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Session {
    pub fn attempt(&self) -> &Attempt {
        self.attempts.last().expect("a session is opened with its first attempt")
    }

    pub(super) fn attempt_mut(&mut self) -> &mut Attempt {
        self.attempts.last_mut().expect("a session is opened with its first attempt")
    }

    /// Returns the launch that is working on the current attempt, if there is one.
    pub fn current_launch(&self) -> Option<&Launch> {
        self.launches.last().filter(|launch| launch.attempt == self.attempt().no)
    }

    pub fn launch(&self, id: LaunchId) -> Option<&Launch> {
        self.launches.iter().find(|launch| launch.id == id)
    }

    /// Returns the running launch. Only the last launch can be running, because launches never overlap.
    pub(super) fn running_launch(&self) -> Option<&Launch> {
        let runs = |launch: &&Launch| matches!(launch.phase, LaunchPhase::Running { .. });
        self.launches.last().filter(runs)
    }

    pub(super) fn launch_mut(&mut self, id: LaunchId) -> Option<&mut Launch> {
        self.launches.iter_mut().find(|launch| launch.id == id)
    }

    pub fn open_requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.is_open())
    }

    /// Returns the approval requests of the current attempt where the agent's action contradicts
    /// the answer.
    pub fn contradicted_requests(&self) -> impl Iterator<Item = &Request> {
        let current = |launch: LaunchId| {
            self.launch(launch).is_some_and(|launch| launch.attempt == self.attempt().no)
        };
        let requests =
            self.requests.iter().filter(|request| request.contradicted_by_outcome.is_some());
        requests.filter(move |request| current(request.launch))
    }

    /// Returns the wait for the account's usage limit, unless the attempt is already decided or sealed.
    pub fn limit_wait(&self) -> Option<&LimitWait> {
        let attempt = self.attempt();
        if attempt.is_decided() || attempt.is_sealed() {
            None
        } else {
            self.spending.limited.as_ref()
        }
    }

    /// Returns the agent's explanation if it is currently retrying to reach its model.
    pub fn retry_reason(&self) -> Option<&str> {
        let stream = &self.current_launch().filter(|launch| launch.may_be_running())?.stream;
        if stream.retrying { stream.retrying_why.as_deref() } else { None }
    }

    /// Returns the tree on which the session's work is based.
    pub fn base_tree(&self) -> Option<&TreeId> {
        match &self.worktree.state {
            WorkState::Ready { base, .. } => base.as_ref().map(|base| &base.tree),
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => None,
        }
    }

    /// Returns how many of the newest attempts, in a row, ended before their agent started a turn
    /// or claimed anything.
    pub fn failed_starts(&self) -> usize {
        self.attempts.iter().rev().take_while(|attempt| self.failed_to_start(attempt)).count()
    }

    fn failed_to_start(&self, attempt: &Attempt) -> bool {
        let by_user =
            attempt.superseded || attempt.cancelled.is_some() || !attempt.resolutions.is_empty();
        let turned = |launch: &Launch| {
            launch.attempt == attempt.no && launch.watch.turn_changed_at.is_some()
        };
        let began = attempt.claim.is_some()
            || attempt.last_turn.is_some()
            || self.launches.iter().any(turned);
        attempt.is_sealed() && !by_user && !began
    }

    /// Whether nothing is pending, running or expected anymore. If so, the session can be evicted
    /// from memory.
    pub fn is_closed(&self) -> bool {
        // Every launch that may be running, or may still report something, has a pending effect.
        self.attempt().is_sealed() && self.pending_effects().is_empty()
    }
}
