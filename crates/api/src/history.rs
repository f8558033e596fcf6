//! History: replies to queries about teams, sessions and runs, based on recorded events.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AuditedWorkRow, CommunicationRow, CriterionRow};

/// The state of a session, run or team as of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsOfReply {
    pub ok: bool,
    /// The kind of the item: session, run or team.
    pub kind: String,
    pub id: String,
    /// The requested event. `after` is the last event up to the requested one that concerns this
    /// item.
    pub at: u64,
    pub after: u64,
    /// The event that concerns this item and precedes `after`; null if there is none.
    #[serde(default)]
    pub before: Option<u64>,
    /// Whether the events have been moved from the log to an archive.
    pub archived: bool,
    /// The row as it was after the event.
    pub row: Value,
}

/// The difference between two points in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReply {
    pub ok: bool,
    /// The kind of the item: session, run or team.
    pub kind: String,
    pub id: String,
    pub from: u64,
    pub to: u64,
    pub archived: bool,
    pub changes: Vec<ChangeRow>,
}

/// A field that differs between two rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// The path of the field, for example `members[0].left`.
    pub field: String,
    /// The old value; null if the field was absent.
    pub from: Value,
    pub to: Value,
}

/// The team that is the subject of a history query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryTeamRow {
    pub id: String,
    pub name: String,
    pub state: String,
    /// Whether the events have been moved from the log to an archive.
    pub archived: bool,
}

/// A session that worked for a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySessionRow {
    pub id: String,
    pub member: String,
    /// The state; null if this home has no record of the session.
    pub state: Option<String>,
    /// The branch that contains the session's work.
    #[serde(default)]
    pub branch: Option<String>,
    pub archived: bool,
}

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    pub seq: u64,
    pub at: i64,
    /// The kind of the stream: team or session.
    pub stream: String,
    pub id: String,
    /// The name of the team, in lists that cover several teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The member whose session the event concerns.
    pub member: Option<String>,
    pub kind: String,
    /// The name that the actor has in the team.
    pub by: String,
    /// The caller, as proved by the socket: operator, launch/… (tool/… if one of the launch's tools
    /// made the call) or provost; plus the member as which the caller acted, if any.
    pub actor: String,
    /// The channel through which the action came: command line, tool or rule.
    pub channel: String,
    /// A description that contains no user-written text.
    pub what: String,
    /// The number of the team message that the event concerns.
    pub message: Option<u32>,
    /// The correlation id that connects related messages, including all replies and the sessions
    /// that handle them.
    pub correlation: Option<String>,
    /// The code of the reason, if the action was refused.
    pub refused: Option<String>,
    /// The user-written text, included only if requested.
    pub text: Option<String>,
    /// The length of the user-written text in bytes.
    pub text_bytes: Option<usize>,
}

/// The most recent events of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentEventsRow {
    /// The ledger event after which the query starts; null means from the beginning.
    pub since: Option<u64>,
    /// The newest event in the ledger. Start the next query after it.
    pub seq: u64,
    /// Total number of events of the team.
    pub total: usize,
    /// The most recent events, oldest first, without user-written text.
    pub events: Vec<HistoryRow>,
}

/// The replay of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReply {
    pub ok: bool,
    pub team: HistoryTeamRow,
    pub sessions: Vec<HistorySessionRow>,
    /// The form of the replay: compact, timeline or transcript.
    #[serde(rename = "as")]
    pub form: String,
    /// Whether user-written text is included.
    pub content: bool,
    pub rows: Vec<HistoryRow>,
}

/// The audit of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditReply {
    pub ok: bool,
    pub team: HistoryTeamRow,
    pub sessions: Vec<HistorySessionRow>,
    pub content: bool,
    /// The work that the last audit examined.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// All actions on the team, including refused ones.
    pub actions: Vec<HistoryRow>,
    pub criteria: Vec<CriterionAuditRow>,
    pub divergences: Vec<DivergenceRow>,
}

/// A criterion and its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionAuditRow {
    pub criterion: CriterionRow,
    /// All judgements of the criterion, oldest first.
    pub judgements: Vec<JudgementRow>,
    /// The checks that Provost ran for the criterion.
    pub receipts: Vec<ReceiptRow>,
}

/// A judgement of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgementRow {
    pub seq: u64,
    pub by: String,
    /// The judgement: accept, satisfy, defer, reject or reopen.
    pub judgement: String,
    /// The kind of evidence that satisfied the criterion: verified or asserted.
    pub receipt: Option<String>,
}

/// A check that Provost ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptRow {
    pub seq: u64,
    pub command: String,
    /// The way the check ended, in words.
    pub end: String,
    pub tree: String,
    pub output_digest: String,
}

/// Two signals of a session that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DivergenceRow {
    pub session: String,
    pub member: String,
    /// A code for use by programs.
    pub code: String,
    pub text: String,
}

/// The results of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    pub ok: bool,
    /// The newest hits of each kind.
    pub hits: Vec<HitRow>,
    /// The kinds that have more hits than are listed.
    pub more: Vec<String>,
}

/// A search hit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HitRow {
    /// The kind of the hit: teams, sessions, runs, members or events.
    #[serde(rename = "in")]
    pub within: String,
    /// The id of the matching team, session or run. For a member or an event, the id of its team,
    /// session or run.
    pub id: String,
    pub name: String,
    pub state: Option<String>,
    pub archived: bool,
    /// The member, if the hit is a member of a team.
    pub member: Option<String>,
    pub role: Option<String>,
    /// The way the matching session or member receives messages.
    pub communication: Option<CommunicationRow>,
    /// The number, time and kind of the matching event.
    pub seq: Option<u64>,
    pub at: Option<i64>,
    pub kind: Option<String>,
    /// A description that contains no user-written text.
    pub what: Option<String>,
    /// Commands to try next.
    pub next: Vec<String>,
}

/// Statistics about teams over a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryReply {
    pub ok: bool,
    /// The start and end of the period.
    pub from: i64,
    pub to: i64,
    pub teams: Vec<TeamStatsRow>,
    /// The most recent refusals and failures.
    pub failures: Vec<HistoryRow>,
    /// Number of older failures that are not listed.
    #[serde(default)]
    pub older_failures: u64,
    pub metrics: MetricsRow,
}

/// Statistics about one team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamStatsRow {
    pub id: String,
    pub name: String,
    pub state: String,
    pub events: u64,
    pub messages: u64,
    pub refusals: u64,
    pub iterations: u64,
    /// Total token usage of the members' sessions.
    pub tokens: u64,
}

/// Statistics about all teams combined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricsRow {
    /// Number of messages stored during the period, by status.
    pub messages: BTreeMap<String, u64>,
    pub stored_to_accepted_ms: WaitRow,
    pub accepted_to_acknowledged_ms: WaitRow,
    pub refusals: BTreeMap<String, u64>,
    /// Number of checks by result: passed, failed or unfinished.
    pub checks: BTreeMap<String, u64>,
    pub tokens: u64,
}

/// The duration of a step, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    pub count: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
}
