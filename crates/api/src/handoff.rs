//! The handoff to a team member, and the heartbeat for members that Provost cannot wake.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The information that a member needs in order to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffRow {
    /// The team's id.
    pub team: String,
    pub name: String,
    pub member: String,
    /// The member's role: worker, manager or reviewer.
    pub role: String,
    /// The means by which the member acts on its team: tools or commands.
    pub via: String,
    pub thread: Option<String>,
    pub title: Option<String>,
    /// The complete prompt for the member.
    pub prompt: String,
    /// The command that fetches the member's next message.
    pub receive_command: String,
    /// The member's heartbeat. None if Provost starts the member's turns itself.
    pub heartbeat: Option<MemberHeartbeatRow>,
}

/// The heartbeats of members whose turns Provost cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatRow {
    pub applies_when: String,
    pub interval_minutes: u32,
    pub note: String,
    pub teardown: TeardownRow,
    pub manager: Option<MemberHeartbeatRow>,
    pub worker: Option<MemberHeartbeatRow>,
    /// The heartbeats of the other members.
    pub others: Vec<MemberHeartbeatRow>,
}

/// The owner of the heartbeats, who removes them, and the rule for their removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeardownRow {
    pub owner: String,
    pub rule: String,
    pub finish_command: String,
}

/// The heartbeat of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberHeartbeatRow {
    pub member: String,
    pub receive_command: String,
    pub prompt: String,
}
