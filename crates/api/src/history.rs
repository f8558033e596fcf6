//! History: answers about teams, sessions and runs from recorded events.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AuditedWorkRow, CommunicationRow, CriterionRow};

/// The state of something after an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsOfReply {
    pub ok: bool,
    /// session, run or team.
    pub kind: String,
    pub id: String,
    /// The requested event, and the last event before it that concerns this item.
    pub at: u64,
    pub after: u64,
    /// The event before that which concerns this item; null if none exists.
    #[serde(default)]
    pub before: Option<u64>,
    /// Whether its events were moved out of the log.
    pub archived: bool,
    /// Its row at that time.
    pub row: Value,
}

/// The difference between two points in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReply {
    pub ok: bool,
    /// session, run or team.
    pub kind: String,
    pub id: String,
    pub from: u64,
    pub to: u64,
    pub archived: bool,
    pub changes: Vec<ChangeRow>,
}

/// A field of a row that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// Its path, for example `members[0].left`.
    pub field: String,
    /// null if it was absent.
    pub from: Value,
    pub to: Value,
}

/// The team of a history query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryTeamRow {
    pub id: String,
    pub name: String,
    pub state: String,
    /// Whether its events were moved out of the log.
    pub archived: bool,
}

/// A session that worked for a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySessionRow {
    pub id: String,
    pub member: String,
    /// null if nothing of it is recorded here.
    pub state: Option<String>,
    /// The branch with its work.
    #[serde(default)]
    pub branch: Option<String>,
    pub archived: bool,
}

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    pub seq: u64,
    pub at: i64,
    /// team or session.
    pub stream: String,
    pub id: String,
    /// The name of the team, in lists of several teams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The member whose session it concerns.
    pub member: Option<String>,
    pub kind: String,
    /// Who did it, by the team's names.
    pub by: String,
    /// The caller, as proved by the socket: operator, launch/… (tool/… by a tool of it) or provost;
    /// and the member it acted as, if any.
    pub actor: String,
    /// The channel: command line, tool or rule.
    pub channel: String,
    /// A description without any written text.
    pub what: String,
    /// The message of the team that it concerns.
    pub message: Option<u32>,
    /// The correlation id that connects related messages, through all answers and into the
    /// sessions.
    pub correlation: Option<String>,
    /// The name of the reason, if something was refused.
    pub refused: Option<String>,
    /// The written text; only if requested.
    pub text: Option<String>,
    /// The length of that text.
    pub text_bytes: Option<usize>,
}

/// The latest events of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentEventsRow {
    /// The ledger event after which the query starts; null for all.
    pub since: Option<u64>,
    /// The newest event of the ledger: start the next query after it.
    pub seq: u64,
    /// Number of events of the team.
    pub total: usize,
    /// The newest of them, oldest first, without written text.
    pub events: Vec<HistoryRow>,
}

/// The replay of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReply {
    pub ok: bool,
    pub team: HistoryTeamRow,
    pub sessions: Vec<HistorySessionRow>,
    /// compact, timeline or transcript.
    #[serde(rename = "as")]
    pub form: String,
    /// Whether written text is shown.
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
    /// The work that its last audit examined.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// All actions on the team, refused or not.
    pub actions: Vec<HistoryRow>,
    pub criteria: Vec<CriterionAuditRow>,
    pub divergences: Vec<DivergenceRow>,
}

/// A criterion with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionAuditRow {
    pub criterion: CriterionRow,
    /// The judgements of it, oldest first.
    pub judgements: Vec<JudgementRow>,
    /// The checks that Provost ran for it.
    pub receipts: Vec<ReceiptRow>,
}

/// A judgement of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgementRow {
    pub seq: u64,
    pub by: String,
    /// accept, satisfy, defer, reject or reopen.
    pub judgement: String,
    /// verified or asserted, if it was satisfied.
    pub receipt: Option<String>,
}

/// A check that Provost ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptRow {
    pub seq: u64,
    pub command: String,
    /// How it ended, as text.
    pub end: String,
    pub tree: String,
    pub output_digest: String,
}

/// Two contradictory signals of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DivergenceRow {
    pub session: String,
    pub member: String,
    /// The code for programs.
    pub code: String,
    pub text: String,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    pub ok: bool,
    /// The newest of each kind.
    pub hits: Vec<HitRow>,
    /// The kinds with further hits.
    pub more: Vec<String>,
}

/// A search hit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HitRow {
    /// teams, sessions, runs, members or events.
    #[serde(rename = "in")]
    pub within: String,
    /// The id of the team, session or run that it is, or belongs to.
    pub id: String,
    pub name: String,
    pub state: Option<String>,
    pub archived: bool,
    /// The member, of a pair.
    pub member: Option<String>,
    pub role: Option<String>,
    /// How the found session or member receives messages.
    pub communication: Option<CommunicationRow>,
    /// The number, time and kind of an event.
    pub seq: Option<u64>,
    pub at: Option<i64>,
    pub kind: Option<String>,
    /// A description without any written text.
    pub what: Option<String>,
    /// Commands to try next.
    pub next: Vec<String>,
}

/// Statistics of teams over a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryReply {
    pub ok: bool,
    /// The start and end of the period.
    pub from: i64,
    pub to: i64,
    pub teams: Vec<TeamStatsRow>,
    /// The newest refusals and failures.
    pub failures: Vec<HistoryRow>,
    /// Number of older ones that are not shown.
    #[serde(default)]
    pub older_failures: u64,
    pub metrics: MetricsRow,
}

/// Statistics of one team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamStatsRow {
    pub id: String,
    pub name: String,
    pub state: String,
    pub events: u64,
    pub messages: u64,
    pub refusals: u64,
    pub iterations: u64,
    /// Total usage of its members' sessions.
    pub tokens: u64,
}

/// Statistics of all teams together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricsRow {
    /// Number of messages stored within the period, by status.
    pub messages: BTreeMap<String, u64>,
    pub stored_to_accepted_ms: WaitRow,
    pub accepted_to_acknowledged_ms: WaitRow,
    pub refusals: BTreeMap<String, u64>,
    /// Checks by result: passed, failed or unfinished.
    pub checks: BTreeMap<String, u64>,
    pub tokens: u64,
}

/// Durations of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    pub count: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
}
