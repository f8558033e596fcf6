//! What a session's events add up to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    attempt::Attempt,
    calls::{Calls, Returned},
    command::FactKind,
    control::Compacting,
    hook::{HookEnded, HookEvent, HookOwed},
    launch::{Launch, LaunchPhase},
    react::{Heir, Occasion, Reacted},
    spec::Spec,
    watch::Typed,
};
use crate::{
    ids::{LaunchId, RequestId, SessionId, TreeId},
    request::{Reply, Request},
    shortage::EffectWait,
    time::Moment,
    verdict::Snapshot,
};

/// The place where the agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    Owed,
    Ready { cwd: String, base: Option<Snapshot> },
    Failed { reason: String },
    Removed,
}

/// The project's setup command in a fresh worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetupState {
    NotNeeded,
    Owed,
    Done,
    Failed { reason: String },
}

/// What an item for the agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    Instruction,
    Steer,
    Rework,
    ResultWanted,
    Answer,
    /// What happened to the agent, and that it shall go on.
    Continue,
    /// What came of a call of a tool.
    Returned,
    /// What the project's reactions say by themselves.
    Nudge,
    /// That it shall leave its turn.
    Interrupt,
    /// That it shall make its conversation shorter.
    Compact,
}

/// How a message stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageFate {
    Queued,
    Delivered { launch: LaunchId },
    Undeliverable { reason: String },
}

/// Something said to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub key: String,
    pub kind: MessageKind,
    pub text: String,
    /// The request that this answers, and with what; a secret is not here.
    pub request: Option<RequestId>,
    #[serde(default)]
    pub reply: Option<Reply>,
    /// The call that this is the answer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
    pub attempt: u32,
    pub fate: MessageFate,
    /// How many times the agent's program refused it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// When it was typed into a terminal, if it was and nothing shows yet that the agent took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<Typed>,
    /// Why it waits though it was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unproved: Option<String>,
    /// What a nudge is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occasion: Option<Occasion>,
}

impl Session {
    /// Says whether the text of a message is a secret, which the record does not have.
    pub fn is_secret(&self, message: &Message) -> bool {
        let request = self.requests.iter().find(|request| Some(request.id) == message.request);
        request.is_some_and(|request| request.asked.is_secret())
    }
}

/// How far the agent says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// Tokens that the agent reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

impl Usage {
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Gives what was used after this much.
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

/// How full the context of the agent's model is, as the agent told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub used: u64,
    pub window: u64,
}

impl Context {
    /// Says whether so many hundredths of it, or more, are taken.
    pub fn is_at(self, percent: u32) -> bool {
        let (used, window) = (u128::from(self.used), u128::from(self.window));
        window > 0 && used * 100 >= window * u128::from(percent)
    }
}

/// How much a session may use in all; none means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub turns: Option<u32>,
}

/// A wait until the account may go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    pub detail: String,
    pub since: Moment,
    /// When the work goes on, on the clock that windows are measured by.
    pub until_mono_ms: u64,
}

/// Something about the work that was told: a branch, a pull request, an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub kind: FactKind,
    pub value: String,
    pub at: Moment,
}

/// A session whose team is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dismissed {
    pub because: String,
    /// Whether its process is ended in the middle of a turn.
    pub at_once: bool,
}

fn first_attempt() -> u32 {
    1
}

/// One conversation with one agent over one worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub spec: Spec,
    pub opened: Moment,
    pub work: WorkState,
    /// The attempt that its place was prepared for last, or is to be.
    #[serde(default = "first_attempt")]
    pub work_for: u32,
    pub setup: SetupState,
    /// The attempt that it was set up for last, or is to be.
    #[serde(default = "first_attempt")]
    pub setup_for: u32,
    /// Never empty: a session is opened with its first attempt.
    pub attempts: Vec<Attempt>,
    pub launches: Vec<Launch>,
    pub requests: Vec<Request>,
    /// The calls of tools by which a member of a task acts on it.
    #[serde(default, skip_serializing_if = "Calls::is_empty")]
    pub calls: Calls,
    pub messages: Vec<Message>,
    pub hooks: Vec<HookOwed>,
    pub hooks_fired: BTreeMap<HookEvent, u32>,
    /// The newest hooks that have ended, at most [`MAX_HOOKS_KEPT`](crate::limits::MAX_HOOKS_KEPT).
    pub hooks_ended: Vec<HookEnded>,
    pub thread: Option<String>,
    pub progress: Option<Progress>,
    pub usage: Usage,
    /// None as long as the agent told nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// How often the agent made its conversation shorter, asked or by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compactions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Compacting>,
    /// How each reaction of the spec stands, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reacted: Vec<Reacted>,
    /// The agent that goes on once the process of this one is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handing_over: Option<Heir>,
    /// Whether that has happened: it does so once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
    /// That its team is over, until a new instruction comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<Dismissed>,
    /// How many turns the agent began.
    #[serde(default)]
    pub turns: u32,
    #[serde(default)]
    pub budget: Budget,
    #[serde(default)]
    pub limited: Option<Limited>,
    /// When it went on last after such a wait, on the clock that windows are measured by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_ms: Option<u64>,
    /// What the agent lacks, as its driver told.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The newest, at most [`MAX_FACTS_KEPT`](crate::limits::MAX_FACTS_KEPT).
    pub facts: Vec<Fact>,
    /// How many records of effects were found that Provost had not made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forged_records: u32,
    /// Effects that met a shortage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short: Vec<EffectWait>,
    /// Whether what the agent's own program kept is gone.
    #[serde(default)]
    pub store_removed: bool,
    pub output_limit: u64,
    /// Whether the ledger holds it because it was imported from another home. Not part of its events.
    #[serde(skip)]
    pub imported: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
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

    /// Gives the launch that serves the current attempt, if there is one.
    pub fn current_launch(&self) -> Option<&Launch> {
        self.launches.last().filter(|launch| launch.attempt == self.attempt().no)
    }

    pub fn launch(&self, id: LaunchId) -> Option<&Launch> {
        self.launches.iter().find(|launch| launch.id == id)
    }

    /// Gives the launch that runs: none is begun while another lives, so it is the last one.
    pub(super) fn running(&self) -> Option<&Launch> {
        let runs = |launch: &&Launch| matches!(launch.phase, LaunchPhase::Running { .. });
        self.launches.last().filter(runs)
    }

    pub(super) fn launch_mut(&mut self, id: LaunchId) -> Option<&mut Launch> {
        self.launches.iter_mut().find(|launch| launch.id == id)
    }

    pub fn open_requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.is_open())
    }

    /// Gives the approvals of the current attempt that came to another end than was answered.
    pub fn contradicted(&self) -> impl Iterator<Item = &Request> {
        let current = |launch: LaunchId| {
            self.launch(launch).is_some_and(|launch| launch.attempt == self.attempt().no)
        };
        let requests = self.requests.iter().filter(|request| request.otherwise.is_some());
        requests.filter(move |request| current(request.launch))
    }

    /// Gives the wait for the account's limit, if it is to be ended by time.
    pub fn wait(&self) -> Option<&Limited> {
        let attempt = self.attempt();
        self.limited.as_ref().filter(|_| !attempt.is_decided() && !attempt.is_sealed())
    }

    /// Gives what the agent says of its tries to reach its model, while it tries.
    pub fn retrying(&self) -> Option<&str> {
        let launch = self.current_launch().filter(|launch| launch.may_live())?;
        launch.stream.retrying_why.as_deref().filter(|_| launch.stream.retrying)
    }

    /// Gives the tree in which the session's work began.
    pub fn base_tree(&self) -> Option<&TreeId> {
        match &self.work {
            WorkState::Ready { base, .. } => base.as_ref().map(|base| &base.tree),
            WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => None,
        }
    }

    /// Says whether nothing is owed, running or expected any more: the stream may be put away.
    pub fn is_closed(&self) -> bool {
        // Every launch that may live, or may still be heard of, is owed something.
        self.attempt().is_sealed() && self.owed().is_empty()
    }
}
