//! What a session was opened with. Resolved once by the command line and kept in the ledger, so that a
//! later change of configuration never changes a session that exists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hook::HookEvent;
use crate::{limits::Bounds, verdict::EmptyDiff};

/// How Provost talks with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// A plain command: output is output, and its exit is all it says by itself.
    Command,
    /// JSON lines on standard input and output.
    Jsonl,
}

impl Driver {
    /// Says whether the agent has turns, takes instructions and can be asked for a result.
    pub fn has_protocol(self) -> bool {
        match self {
            Driver::Command => false,
            Driver::Jsonl => true,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Driver::Command => "command",
            Driver::Jsonl => "jsonl",
        }
    }
}

/// What a command without a protocol finds on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Nothing: it is at its end from the start.
    #[default]
    Closed,
    /// What is sent to the session.
    Open,
}

/// The agent's program and what it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub name: String,
    pub driver: Driver,
    pub argv: Vec<String>,
    /// Variables by value: harmless ones only, for they are written into the ledger.
    pub env: BTreeMap<String, String>,
    /// Variables by name: their values are taken from the daemon's environment at each launch.
    pub pass_env: Vec<String>,
    #[serde(default)]
    pub input: Input,
}

impl Agent {
    /// Says whether text can reach the agent at all.
    pub fn listens(&self) -> bool {
        self.driver.has_protocol() || self.input == Input::Open
    }
}

/// Where the agent works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// In a directory that is no git repository, or in one whose work is not checked.
    Plain,
    /// In the user's own checkout: snapshots are taken beside it and touch nothing of theirs.
    InPlace { top: String },
    /// In a worktree of its own, on a branch of its own.
    Worktree { top: String, path: String, branch: String, copy: Vec<String> },
}

/// What exit 0 of a process that claimed nothing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit0 {
    SaysNothing,
    IsDone,
}

/// What becomes of a living process once its attempt is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afterwards {
    Close,
    Park,
}

/// A command run because of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    pub argv: Vec<String>,
    pub time_limit_ms: u64,
    pub output_limit: u64,
}

/// All that a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub name: String,
    pub role: Option<String>,
    /// The top of the git repository that the session is about, if any.
    pub project: Option<String>,
    pub cwd: String,
    pub agent: Agent,
    pub instruction: Option<String>,
    pub work: Work,
    pub setup: Option<String>,
    pub checks: Vec<String>,
    /// Paths that a pooled verification checkout keeps between checks.
    pub keep: Vec<String>,
    pub empty_diff: EmptyDiff,
    pub exit0: Exit0,
    pub afterwards: Afterwards,
    pub bounds: Bounds,
    pub hooks: BTreeMap<HookEvent, HookSpec>,
    /// What was worth a warning when the session was opened, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Spec {
    /// A command with checks and no protocol has no other way to say that it is done.
    pub fn exit0_is_done(&self) -> bool {
        let judged_by_checks = !self.agent.driver.has_protocol() && !self.checks.is_empty();
        self.exit0 == Exit0::IsDone || judged_by_checks
    }
}
