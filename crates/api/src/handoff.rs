//! What a member is handed, and what wakes those whom Provost cannot wake, as they are shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All that a member needs to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffRow {
    /// The task's id.
    pub task: String,
    pub name: String,
    pub member: String,
    /// worker, manager or reviewer.
    pub role: String,
    /// tools or commands.
    pub via: String,
    pub thread: Option<String>,
    pub title: Option<String>,
    /// What the member is told, whole.
    pub prompt: String,
    /// The command by which it gets its next message.
    pub receive_command: String,
    /// None if Provost gives it turns itself.
    pub heartbeat: Option<BeatRow>,
}

/// What wakes members whom Provost cannot give a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatRow {
    pub applies_when: String,
    pub interval_minutes: u32,
    pub note: String,
    pub teardown: TeardownRow,
    pub manager: Option<BeatRow>,
    pub worker: Option<BeatRow>,
    /// Further members.
    pub others: Vec<BeatRow>,
}

/// Who takes heartbeats away, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeardownRow {
    pub owner: String,
    pub rule: String,
    pub finish_command: String,
}

/// The heartbeat of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BeatRow {
    pub member: String,
    pub receive_command: String,
    pub prompt: String,
}
