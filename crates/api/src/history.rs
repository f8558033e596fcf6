//! Looking back: what is answered about tasks, sessions and runs from what was recorded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AuditedWorkRow, CommunicationRow, CriterionRow};

/// Something as it was after an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThenReply {
    pub ok: bool,
    /// session, run or task.
    pub of: String,
    pub id: String,
    /// The event that was asked for, and the last one before it that happened to this.
    pub at: u64,
    pub after: u64,
    /// The one before that which happened to this; null if it had only begun.
    #[serde(default)]
    pub before: Option<u64>,
    /// Whether its events were moved out of the log.
    pub archived: bool,
    /// Its row as it was then.
    pub row: Value,
}

/// What is different between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReply {
    pub ok: bool,
    /// session, run or task.
    pub of: String,
    pub id: String,
    pub from: u64,
    pub to: u64,
    pub archived: bool,
    pub changes: Vec<ChangeRow>,
}

/// A field of a row that is different.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRow {
    /// Where it is: `members[0].left`, say.
    pub field: String,
    /// null where it was not there.
    pub from: Value,
    pub to: Value,
}

/// The task that is looked back at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastTaskRow {
    pub id: String,
    pub name: String,
    pub state: String,
    /// Whether its events were moved out of the log.
    pub archived: bool,
}

/// A session that worked for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastSessionRow {
    pub id: String,
    pub member: String,
    /// null if nothing of it is recorded here.
    pub state: Option<String>,
    /// The branch that has its work.
    #[serde(default)]
    pub branch: Option<String>,
    pub archived: bool,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastRow {
    pub seq: u64,
    pub at: i64,
    /// task or session.
    pub of: String,
    pub id: String,
    /// What the task is called, where rows of several tasks stand together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The member whose session it happened to.
    pub member: Option<String>,
    pub kind: String,
    /// Who did it, as the task knows them.
    pub by: String,
    /// Who asked for it, as the socket proved it: operator, launch/… (tool/… by a tool of it), provost; and as which member, if as one.
    pub actor: String,
    /// The way by which it came: command line, tool or rule.
    pub channel: String,
    /// What happened, without what anybody wrote.
    pub what: String,
    /// The message of the task that it is about.
    pub message: Option<u32>,
    /// What belongs together, through all answers and into the sessions.
    pub correlation: Option<String>,
    /// The name of the reason, if something was refused.
    pub refused: Option<String>,
    /// What somebody wrote; only if it was asked for.
    pub text: Option<String>,
    /// How long that is.
    pub text_bytes: Option<usize>,
}

/// What happened to a task of late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewsRow {
    /// The event of the ledger that it was asked from; null for all.
    pub since: Option<u64>,
    /// The newest event of the ledger: what comes after it is new to who looked now.
    pub seq: u64,
    /// How many events of the task there are.
    pub in_all: usize,
    /// The newest of them, oldest first, without what anybody wrote.
    pub shown: Vec<PastRow>,
}

/// The replay of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReply {
    pub ok: bool,
    pub task: PastTaskRow,
    pub sessions: Vec<PastSessionRow>,
    /// compact, timeline or transcript.
    #[serde(rename = "as")]
    pub form: String,
    /// Whether what was written is shown.
    pub content: bool,
    pub rows: Vec<PastRow>,
}

/// The audit of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditReply {
    pub ok: bool,
    pub task: PastTaskRow,
    pub sessions: Vec<PastSessionRow>,
    pub content: bool,
    /// The work that its last audit was of.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// All that was done to the task, refused or not.
    pub deeds: Vec<PastRow>,
    pub criteria: Vec<AuditedRow>,
    pub divergences: Vec<DivergenceRow>,
}

/// A criterion with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedRow {
    pub criterion: CriterionRow,
    /// What was made of it, oldest first.
    pub judgements: Vec<JudgementRow>,
    /// What Provost ran for it.
    pub receipts: Vec<ReceiptRow>,
}

/// What somebody made of a criterion.
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
    /// How it ended, in words.
    pub end: String,
    pub tree: String,
    pub output_digest: String,
}

/// Two signals of one session that do not say the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DivergenceRow {
    pub session: String,
    pub member: String,
    /// The name by which programs know it.
    pub code: String,
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    pub ok: bool,
    /// The newest of each kind.
    pub hits: Vec<HitRow>,
    /// The kinds of which there is more.
    pub more: Vec<String>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HitRow {
    /// tasks, sessions, runs, pairs or events.
    #[serde(rename = "in")]
    pub within: String,
    /// The id of the task, session or run that it is, or belongs to.
    pub id: String,
    pub name: String,
    pub state: Option<String>,
    pub archived: bool,
    /// The member, of a pair.
    pub member: Option<String>,
    pub role: Option<String>,
    /// How whoever was found gets what is sent to it.
    pub communication: Option<CommunicationRow>,
    /// The number, moment and kind of an event.
    pub seq: Option<u64>,
    pub at: Option<i64>,
    pub kind: Option<String>,
    /// What happened, without what anybody wrote.
    pub what: Option<String>,
    /// Commands that make sense now.
    pub next: Vec<String>,
}

/// Figures of tasks over a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryReply {
    pub ok: bool,
    /// The first and last moment that is counted.
    pub from: i64,
    pub to: i64,
    pub tasks: Vec<TaskFiguresRow>,
    /// The newest of what was refused or failed.
    pub failures: Vec<PastRow>,
    /// How many older ones are not shown.
    #[serde(default)]
    pub older_failures: u64,
    pub metrics: MetricsRow,
}

/// What happened to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFiguresRow {
    pub id: String,
    pub name: String,
    pub state: String,
    pub events: u64,
    pub messages: u64,
    pub refusals: u64,
    pub iterations: u64,
    /// What its members' sessions used in all.
    pub tokens: u64,
}

/// Figures of all tasks together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricsRow {
    /// How many of the messages that were stored within the window stand how.
    pub messages: BTreeMap<String, u64>,
    pub stored_to_accepted_ms: WaitRow,
    pub accepted_to_acknowledged_ms: WaitRow,
    pub refusals: BTreeMap<String, u64>,
    /// Checks by how they ended: passed, failed or unfinished.
    pub checks: BTreeMap<String, u64>,
    pub tokens: u64,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    pub count: u64,
    pub p50: Option<u64>,
    pub p95: Option<u64>,
}
