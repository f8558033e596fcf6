//! A task that stands alone, as it is shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Opens a task. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenTaskRequest {
    /// The task's id: a UUID of version 7 that the caller minted.
    pub id: String,
    pub spec: Value,
}

/// Asks something of a task. `command` is the domain's own form.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskRequest {
    pub command: Value,
    /// The member that the caller acts as. An agent is who its process says, whatever stands here.
    #[serde(default, rename = "as")]
    pub by: Option<String>,
    /// The launch that asks, with its token, where its process does not tell.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// Opens a task with all who work on it. `pairing` is the engine's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PairRequest {
    /// The task's id: a UUID of version 7 that the caller minted.
    pub id: String,
    pub pairing: Value,
}

/// Asks for the next message of a member.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextRequest {
    /// The member; the operator's own messages if none is named.
    #[serde(default, rename = "as")]
    pub by: Option<String>,
    /// How long to wait for one, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// The launch that asks, with its token, where its process does not tell.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// What is true about a task that stands alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StandingTaskRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    pub summary: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    /// The commands that have to pass on the tree that is finished.
    #[serde(default)]
    pub checks: Vec<String>,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
    /// Why it is what it is, in words.
    pub because: Option<String>,
    pub since: i64,
    pub opened_at: i64,
    pub members: Vec<MemberRow>,
    /// How many of the messages that are remembered stand how.
    pub messages: BTreeMap<String, usize>,
    /// How many messages the operator has not handled yet.
    #[serde(default)]
    pub for_operator: usize,
    pub criteria: Vec<CriterionRow>,
    /// Commands that members wrote and Provost runs only once the operator agreed to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits_consent: Vec<String>,
    #[serde(rename = "loop")]
    pub looped: Option<LoopRow>,
    /// light, guided or strict.
    pub mode: String,
    /// The revision of the configuration that managers acknowledge.
    pub revision: u32,
    /// The configuration, in the domain's own form.
    #[serde(default)]
    pub config: Value,
    /// The moves that were recorded last.
    #[serde(default)]
    pub moves: Vec<MoveRow>,
    /// What keeps the task from being called complete.
    pub blockers: Vec<BlockerRow>,
    /// What the operator let pass when it was finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<BlockerRow>,
    /// Whether its last audit runs.
    pub being_audited: bool,
    /// The work that its last audit was of.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// The rules that manage it, by their name in the configuration.
    #[serde(default)]
    pub policy: Option<String>,
}

/// Which task it is and how it stands: what goes with the change of a message, of which there may be thousands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskHeadRow {
    pub id: String,
    pub name: String,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
}

/// The work that was audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedWorkRow {
    /// Whose work it is.
    pub worker: String,
    /// The git tree that the checks ran on.
    pub tree: String,
}

/// What a manager recorded to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRow {
    /// wait, nudge, interrupt, escalate, stop or inspect.
    pub kind: String,
    pub because: String,
    pub by: String,
    pub at: i64,
    /// Whether something was done under it.
    pub used: bool,
}

/// Somebody who works on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberRow {
    pub name: String,
    /// worker, manager or reviewer.
    pub role: String,
    pub session: Option<String>,
    pub thread: Option<String>,
    pub title: Option<String>,
    /// Whether it left.
    pub left: bool,
    pub acknowledged_revision: Option<u32>,
    /// When it asked for a message last, as far as the daemon that runs knows.
    #[serde(default)]
    pub polled_at: Option<i64>,
    /// The state of its session, where one task is shown as it stands.
    #[serde(default)]
    pub state: Option<String>,
    /// Why its session is in that state, where there is a reason to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The branch that its session works on, where one task is shown as it stands.
    #[serde(default)]
    pub branch: Option<String>,
    pub communication: CommunicationRow,
}

/// How a session or a member gets what is sent to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationRow {
    /// What it is spoken to by: app_server, json_lines, terminal, pane, pipe, once, watched; pull for a member that is
    /// opened elsewhere.
    pub kind: String,
    /// turns, typed, written, asks or nothing.
    pub receive: String,
    /// Whether Provost brings it there.
    pub can_push: bool,
    /// Whether somebody else has to wake it.
    pub needs_wake: bool,
    /// The command by which it gets its next message; null where that is brought to it, or nothing is.
    pub receive_command: Option<String>,
    /// How it acts on its task: tools or commands. Only of members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts: Option<String>,
    /// What is to be known besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that must hold before the task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionRow {
    pub no: u32,
    pub text: String,
    /// proposed, accepted, satisfied, deferred or rejected.
    pub state: String,
    /// user, manager, worker or audit.
    pub source: String,
    pub rationale: Option<String>,
    /// verified or asserted.
    pub needs: String,
    /// The command that Provost runs for it.
    pub check: Option<String>,
    /// What satisfied it: verified or asserted.
    pub receipt: Option<String>,
    /// The words, or the end of the check.
    pub evidence: Option<String>,
    /// Whether its check is owed or runs.
    #[serde(default)]
    pub being_checked: bool,
    /// Its check as it was run last, if that did not pass.
    #[serde(default)]
    pub failed: Option<FailedCheckRow>,
}

/// A check that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCheckRow {
    pub command: String,
    /// How it ended, in words.
    pub end: String,
    /// Whose work was checked.
    pub worker: String,
    /// The git tree that it ran on; empty if there was none.
    pub tree: String,
    /// Where its output is kept, relative to Provost's home.
    pub output: String,
}

/// Criteria that a text gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftRow {
    /// user, manager, worker or audit.
    pub source: String,
    pub rationale: String,
    pub proposed: Vec<DraftedRow>,
    pub left_out: Vec<LeftOutRow>,
    /// How many more were left out than are listed.
    pub more_left_out: usize,
    /// Whether nothing was proposed.
    pub dry_run: bool,
}

/// A criterion that was drafted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftedRow {
    /// null if it was not proposed.
    pub no: Option<u32>,
    pub text: String,
}

/// An item that is no criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutRow {
    pub text: String,
    /// says_nothing, too_long, hidden_characters, known, too_many, quoted or fenced.
    pub why: String,
}

/// A loop as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRow {
    pub template: String,
    pub iteration: u32,
    pub max: u32,
    /// keep, compact or new_thread.
    pub cleanup: String,
    /// What each iteration has to show.
    pub evidence: Vec<String>,
    pub shown: Vec<String>,
    /// What of it Provost saw itself, by its name, in words: the end of a check, or what of two pictures differs.
    #[serde(default)]
    pub verified: BTreeMap<String, String>,
    /// What of it is somebody's word, by its name.
    #[serde(default)]
    pub asserted: BTreeMap<String, AssertedRow>,
    pub missing: Vec<String>,
    /// After so many iterations that changed nothing the loop is stopped; null if it is not.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// How many tokens its workers may use; null if there is no bound.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// How many they used, where one task is shown as it stands and a worker has a session.
    #[serde(default)]
    pub tokens_used: Option<u64>,
    /// How many messages of the task are stored and not yet taken.
    #[serde(default)]
    pub backlog: usize,
    /// Of what the check is owed or runs.
    #[serde(default)]
    pub being_checked: Vec<String>,
    /// The checks of this iteration that did not pass when they were run last, by the name of the evidence.
    #[serde(default)]
    pub failed: BTreeMap<String, FailedCheckRow>,
    /// The message that asks for the next iteration and was not accepted yet.
    pub asked: Option<u32>,
    pub advances: Vec<AdvanceRow>,
    pub refusals: u32,
    pub last_refusal: Option<String>,
    /// Why it ended: finished, stopped, plateau or budget.
    pub ended: Option<String>,
    /// What to do next, in words.
    pub recommendation: String,
    pub tools: Vec<String>,
}

/// Evidence that is somebody's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssertedRow {
    /// Who says it.
    pub by: String,
    pub text: String,
}

/// An iteration that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceRow {
    pub to: u32,
    pub message: u32,
    pub consumer: String,
    pub at: i64,
}

/// Something that keeps a task from being finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockerRow {
    /// The name by which programs know it.
    pub code: String,
    pub text: String,
    /// The end of what a check printed that does not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// The command that helps, as it works in an empty environment.
    #[serde(default)]
    pub next: Option<String>,
    /// The same for a person who has Provost on its path.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A message as whoever takes it gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemRow {
    pub task: String,
    pub no: u32,
    /// Counts the offers: accepting and acknowledging name it.
    pub lease: u32,
    /// Until when it may be accepted; null when it was.
    #[serde(default)]
    pub offer_until: Option<i64>,
    /// Until when it may be acknowledged, from when it was accepted; null before.
    pub lease_until: Option<i64>,
    pub kind: String,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub channel: String,
    /// instructs or claims.
    pub trust: String,
    pub redelivered: bool,
    /// The text as it was written.
    pub text: String,
    /// The same with who wrote it, for an agent to read.
    pub envelope: String,
    /// The terms of the loop, if the message begins an iteration of it.
    #[serde(rename = "loop")]
    pub looped: Option<ContinuationRow>,
    /// What comes first, as long as the message is only offered; null when it was accepted.
    #[serde(default)]
    pub accept_command: Option<String>,
    /// What says that it is handled, once it was accepted.
    pub acknowledge_command: String,
}

/// What comes with the beginning of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuationRow {
    pub template: String,
    pub iteration: u32,
    pub max: u32,
    pub cleanup: String,
    pub evidence: Vec<String>,
    pub artifacts: Vec<String>,
    pub tools: Vec<String>,
}

/// A message as the task's lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskMessageRow {
    pub no: u32,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub to: String,
    pub kind: String,
    /// The way by which it came: command line, tool or rule.
    #[serde(default)]
    pub channel: String,
    /// instructs or claims.
    #[serde(default)]
    pub trust: String,
    /// low, normal or high.
    #[serde(default)]
    pub priority: String,
    /// When it expires if nobody has taken it; null if it does not.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// The iteration that it begins, if it begins one.
    #[serde(default)]
    pub iteration: Option<u32>,
    /// stored, offered, accepted, acknowledged, expired, cancelled or dead.
    pub standing: String,
    /// Why it is dead or was cancelled.
    pub reason: Option<String>,
    pub consumer: Option<String>,
    pub offers: u32,
    pub stored_at: i64,
    pub text: String,
}
