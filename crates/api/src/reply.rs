//! The replies of the routes, apart from those in [`crate::history`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ApiError, AsOfReply, BlockerRow, CriterionRow, DaemonInfo, DiffReply, DraftRow, EventRow,
    HandoffRow, HeartbeatRow, InboxItemRow, OverviewRow, RunGraphRow, RunRow, SessionRow,
    ShortageRow, TeamHeadRow, TeamMessageRow, TeamRow, UnknownHolder,
};

/// A session, as it is or as a change left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionReply {
    pub ok: bool,
    pub session: SessionRow,
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenSessionReply {
    pub ok: bool,
    pub id: String,
    pub session: SessionRow,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Sessions, and the runs in the same listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsReply {
    pub ok: bool,
    pub sessions: Vec<SessionRow>,
    #[serde(default)]
    pub runs: Vec<RunRow>,
    /// Resources that the machine is short of.
    #[serde(default)]
    pub shortages: Vec<ShortageRow>,
    /// Whether there are sessions that the reply does not contain.
    #[serde(default)]
    pub more: bool,
    /// A description of what the ledger lost, if the operator has not accepted the loss yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_loss: Option<String>,
    /// Running holders that are not in the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_holders: Vec<UnknownHolder>,
}

/// The things that an id, part of an id, or name refers to, and the daemon that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LookupReply {
    pub ok: bool,
    pub daemon: DaemonInfo,
    #[serde(flatten)]
    pub found: LookedUpName,
}

/// The things that an id, part of an id, or name refers to, at most one of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LookedUpName {
    pub session: Option<SessionRow>,
    pub run: Option<RunRow>,
    pub team: Option<TeamRow>,
    /// The sessions of the run or team that have a pending request. If no session of a run has one,
    /// the newest active session of the run.
    pub active: Vec<SessionRow>,
    /// The error for a text that matches several things of a kind.
    pub ambiguous: Option<ApiError>,
}

impl LookedUpName {
    /// Whether the text refers to nothing.
    pub fn is_empty(&self) -> bool {
        let LookedUpName { session, run, team, ambiguous, .. } = self;
        session.is_none() && run.is_none() && team.is_none() && ambiguous.is_none()
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunReply {
    pub ok: bool,
    pub run: RunRow,
}

/// A run, as it was opened or as a change left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunChangeReply {
    pub ok: bool,
    pub id: String,
    pub run: RunRow,
}

/// The plan of a run, with the progress of each task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphReply {
    pub ok: bool,
    pub graph: RunGraphRow,
}

/// A list of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunsReply {
    pub ok: bool,
    pub runs: Vec<RunRow>,
    /// Whether there are finished runs that the reply does not contain.
    pub more: bool,
}

/// A team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamReply {
    pub ok: bool,
    pub team: TeamRow,
}

/// A new team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTeamReply {
    pub ok: bool,
    pub id: String,
    pub team: TeamRow,
}

/// A list of teams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamsReply {
    pub ok: bool,
    pub teams: Vec<TeamRow>,
    /// Whether there are finished teams that the reply does not contain.
    pub more: bool,
}

/// The team that a change concerns. A change to a message returns only the short row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChangedTeamRow {
    Full(Box<TeamRow>),
    Head(TeamHeadRow),
}

/// A team after a change, with the rows that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamChangeReply {
    pub ok: bool,
    pub team: ChangedTeamRow,
    #[serde(flatten)]
    pub changed: ChangedRows,
}

/// The rows that a change to a team changed, apart from the team's own row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedRows {
    /// The number of the audit that started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<u32>,
    /// The number of the check that is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<CriterionRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftRow>,
    /// When the lease of the accepted message expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<TeamMessageRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<OrderedRow>,
}

/// The answer to a tool call of a team member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolAnswer {
    pub ok: bool,
    /// The reason of a refusal, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason of a refusal, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What prevents the team from finishing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<Vec<BlockerRow>>,
    /// The team's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Whether the call was made before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// The event that the caller can expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(flatten)]
    pub changed: ChangedRows,
}

/// The overview as the answer to a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewAnswer {
    pub ok: bool,
    #[serde(flatten)]
    pub overview: OverviewRow,
}

/// An order that was sent to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderedRow {
    pub member: String,
    /// The order, in words.
    pub what: String,
}

/// The messages of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMessagesReply {
    pub ok: bool,
    /// The team's id.
    pub team: String,
    pub messages: Vec<TeamMessageRow>,
}

/// The next message of a member. An empty inbox is not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextReply {
    pub ok: bool,
    /// The team's id.
    pub team: String,
    pub item: Option<InboxItemRow>,
}

/// The overview of a team for one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewReply {
    pub ok: bool,
    pub cycle: OverviewRow,
}

/// The handoffs of a team's members, and the team's heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffReply {
    pub ok: bool,
    /// The team's id.
    pub team: String,
    pub handoffs: Vec<HandoffRow>,
    /// None if Provost wakes all members itself.
    pub heartbeat: Option<HeartbeatRow>,
}

/// Whether an awaited event of a team has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TeamWaitState {
    Pending,
    Done,
    /// The event can no longer happen.
    Impossible,
}

/// The reply to a wait for a check or an audit of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamWaitReply {
    pub ok: bool,
    pub status: TeamWaitState,
    /// The result, in the domain's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Value>,
    /// Why the event can no longer happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The streams that were archived, or that would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveReply {
    pub ok: bool,
    pub streams: usize,
    pub records: u64,
    /// The name of the archive file; null if nothing was archived.
    pub file: Option<String>,
    /// Number of closed sessions that are kept, because they belong to an open team.
    pub kept: usize,
}

/// A reply that contains nothing but success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OkReply {
    pub ok: bool,
}

/// The reply of a daemon that is asked to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopDaemonReply {
    pub ok: bool,
    /// Whether the daemon first finishes a landing, or the removal of a worktree.
    pub landing: bool,
}

/// Processes that were stopped because they are not in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopUnknownReply {
    pub ok: bool,
    pub stopped: Vec<UnknownHolder>,
}

/// Events of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsReply {
    pub ok: bool,
    pub events: Vec<EventRow>,
    /// The sequence number after which the next request continues.
    pub last: u64,
    /// Whether there are further events.
    #[serde(default)]
    pub more: bool,
}

/// The result of a garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GcReply {
    pub ok: bool,
    /// Whether anything was removed. Otherwise, the reply only lists what would be removed.
    pub applied: bool,
    pub removed: Vec<GcItemRow>,
    pub kept: Vec<GcItemRow>,
}

/// A directory that a garbage collection removes or keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GcItemRow {
    /// worktree, output or agent.
    pub kind: String,
    pub path: String,
    /// The id of the session, run or team that the directory belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Why the directory is kept, or why it is no longer needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of ignored files in a removed worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_files: Option<usize>,
    /// Number of commits in a removed worktree that are on no branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_commits: Option<u64>,
    /// The ref that keeps these commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_ref: Option<String>,
}

/// A past state, or the difference between two points in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PastReply {
    AsOf(AsOfReply),
    Diff(DiffReply),
}
