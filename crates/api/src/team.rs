//! The representation of a team.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Opens a team. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenTeamRequest {
    /// The team's id: a UUID of version 7 that the caller created.
    pub id: String,
    pub spec: Value,
}

/// A command to a team. `command` is the domain's own form.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamCommandRequest {
    pub command: Value,
    /// The member as which the caller acts. An agent is identified by its process, whatever is
    /// given here.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// The calling launch and its token, if its process does not identify it.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// Opens a team with all its members. `pairing` is the engine's own form, resolved by the command
/// line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PairRequest {
    /// The team's id: a UUID of version 7 that the caller created.
    pub id: String,
    pub pairing: Value,
}

/// Requests the next message of a member.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextRequest {
    /// The member; the operator's own messages by default.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// How long to wait for one, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// The calling launch and its token, if its process does not identify it.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// The state of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    pub summary: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    /// The commands that have to pass on the finished tree.
    #[serde(default)]
    pub checks: Vec<String>,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
    /// Why it is in this state, as text.
    pub because: Option<String>,
    pub since: i64,
    pub opened_at: i64,
    pub members: Vec<MemberRow>,
    /// Number of stored messages, by status.
    pub messages: BTreeMap<String, usize>,
    /// Number of messages that the operator has not handled yet.
    #[serde(default)]
    pub for_operator: usize,
    pub criteria: Vec<CriterionRow>,
    /// Commands that members wrote and that Provost runs only with the operator's consent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits_consent: Vec<String>,
    #[serde(rename = "loop")]
    pub loop_row: Option<LoopRow>,
    /// light, guided or strict.
    pub mode: String,
    /// The revision of the configuration that managers acknowledge.
    pub revision: u32,
    /// The configuration, in the domain's own form.
    #[serde(default)]
    pub config: Value,
    /// The last recorded moves.
    #[serde(default)]
    pub moves: Vec<MoveRow>,
    /// What prevents the team from finishing.
    pub blockers: Vec<BlockerRow>,
    /// Blockers that the operator waived when it was finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<BlockerRow>,
    /// Whether its final audit is running.
    pub being_audited: bool,
    /// The work that its last audit examined.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// The rules that manage it, by their name in the configuration.
    #[serde(default)]
    pub policy: Option<String>,
}

/// The identity and status of a team, sent with each change of a message, of which there may be
/// thousands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamHeadRow {
    pub id: String,
    pub name: String,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
}

/// The audited work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedWorkRow {
    /// The member whose work it is.
    pub worker: String,
    /// The git tree on which the checks ran.
    pub tree: String,
}

/// A manager's recorded decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRow {
    /// wait, nudge, interrupt, escalate, stop or inspect.
    pub kind: String,
    pub because: String,
    pub by: String,
    pub at: i64,
    /// Whether an action followed it.
    pub used: bool,
}

/// A member of a team.
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
    /// When it last requested a message, as far as the running daemon knows.
    #[serde(default)]
    pub polled_at: Option<i64>,
    /// The state of its session, if a single team is shown.
    #[serde(default)]
    pub state: Option<String>,
    /// Why its session is in that state, if there is a notable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The branch of its session, if a single team is shown.
    #[serde(default)]
    pub branch: Option<String>,
    pub communication: CommunicationRow,
}

/// How a session or a member receives messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationRow {
    /// The channel: app_server, json_lines, terminal, pane, pipe, once, watched; pull for a member
    /// that runs elsewhere.
    pub kind: String,
    /// turns, typed, written, asks or nothing.
    pub receive: String,
    /// Whether Provost delivers messages.
    pub can_push: bool,
    /// Whether something else has to wake it.
    pub needs_wake: bool,
    /// The command that fetches its next message; null if messages are delivered, or there are
    /// none.
    pub receive_command: Option<String>,
    /// How it acts on its team: tools or commands. Only for members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts: Option<String>,
    /// A further note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A condition that must hold before the team is done.
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
    /// The text, or the end of the check.
    pub evidence: Option<String>,
    /// Whether its check is pending or running.
    #[serde(default)]
    pub being_checked: bool,
    /// The last run of its check, if that failed.
    #[serde(default)]
    pub failed: Option<FailedCheckRow>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCheckRow {
    pub command: String,
    /// How it ended, as text.
    pub end: String,
    /// The member whose work was checked.
    pub worker: String,
    /// The git tree on which it ran; empty if none existed.
    pub tree: String,
    /// The path of its output, relative to Provost's home.
    pub output: String,
}

/// Criteria drafted from a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftRow {
    /// user, manager, worker or audit.
    pub source: String,
    pub rationale: String,
    pub proposed: Vec<DraftedRow>,
    pub left_out: Vec<RejectedItemRow>,
    /// Number of further items that were left out and are not listed.
    pub more_left_out: usize,
    /// Whether nothing was proposed.
    pub dry_run: bool,
}

/// A drafted criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftedRow {
    /// null if it was not proposed.
    pub no: Option<u32>,
    pub text: String,
}

/// An item that is not a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RejectedItemRow {
    pub text: String,
    /// empty, too_long, hidden_characters, known, too_many, quoted or fenced.
    pub why: String,
}

/// The state of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRow {
    pub template: String,
    pub iteration: u32,
    pub max: u32,
    /// keep, compact or new_thread.
    pub cleanup: String,
    /// The required evidence of each iteration.
    pub evidence: Vec<String>,
    pub shown: Vec<String>,
    /// The evidence that Provost itself verified, by name, as text: the end of a check, or the
    /// difference of two pictures.
    #[serde(default)]
    pub verified: BTreeMap<String, String>,
    /// The evidence that a member asserted, by name.
    #[serde(default)]
    pub asserted: BTreeMap<String, AssertedRow>,
    pub missing: Vec<String>,
    /// The loop stops after this many iterations without a change; null means never.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// Maximum number of tokens of its workers; null means no limit.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The tokens used, if a single team is shown and a worker has a session.
    #[serde(default)]
    pub tokens_used: Option<u64>,
    /// Number of stored messages of the team that were not accepted yet.
    #[serde(default)]
    pub backlog: usize,
    /// The evidence whose check is pending or running.
    #[serde(default)]
    pub being_checked: Vec<String>,
    /// The checks of this iteration that failed in their last run, by the name of the evidence.
    #[serde(default)]
    pub failed: BTreeMap<String, FailedCheckRow>,
    /// The message that requests the next iteration and was not accepted yet.
    pub continuation: Option<u32>,
    pub advances: Vec<AdvanceRow>,
    pub refusals: u32,
    pub last_refusal: Option<String>,
    /// Why it ended: finished, stopped, plateau or budget.
    pub ended: Option<String>,
    /// The recommended next step, as text.
    pub recommendation: String,
    pub tools: Vec<String>,
}

/// Asserted evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssertedRow {
    /// The member that asserted it.
    pub by: String,
    pub text: String,
}

/// An iteration that started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdvanceRow {
    pub to: u32,
    pub message: u32,
    pub consumer: String,
    pub at: i64,
}

/// Something that prevents a team from finishing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockerRow {
    /// The code for programs.
    pub code: String,
    pub text: String,
    /// The end of the output of a failed check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// The command that helps, in a form that works with an empty environment.
    #[serde(default)]
    pub next: Option<String>,
    /// The same for a user with Provost on the path.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A message as its consumer receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxItemRow {
    pub team: String,
    pub no: u32,
    /// Counts the offers; accepting and acknowledging require it.
    pub lease: u32,
    /// Until when it may be accepted; null once it was.
    #[serde(default)]
    pub offer_until: Option<i64>,
    /// Until when it may be acknowledged, once it was accepted; null before.
    pub lease_until: Option<i64>,
    pub kind: String,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub channel: String,
    /// instructs or claims.
    pub trust: String,
    pub redelivered: bool,
    /// The text as written.
    pub text: String,
    /// The same with its sender, for an agent to read.
    pub envelope: String,
    /// The terms of the loop, if the message starts an iteration of it.
    #[serde(rename = "loop")]
    pub loop_terms: Option<ContinuationRow>,
    /// The first command, as long as the message is only offered; null once it was accepted.
    #[serde(default)]
    pub accept_command: Option<String>,
    /// The command that acknowledges it, once it was accepted.
    pub acknowledge_command: String,
}

/// The terms of a new iteration.
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

/// A message in the team's lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMessageRow {
    pub no: u32,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub to: String,
    pub kind: String,
    /// The channel: command line, tool or rule.
    #[serde(default)]
    pub channel: String,
    /// instructs or claims.
    #[serde(default)]
    pub trust: String,
    /// low, normal or high.
    #[serde(default)]
    pub priority: String,
    /// When it expires if it is not accepted; null if it does not.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// The iteration that it starts, if any.
    #[serde(default)]
    pub iteration: Option<u32>,
    /// stored, offered, accepted, acknowledged, expired, cancelled or dead.
    pub status: String,
    /// Why it is dead or was cancelled.
    pub reason: Option<String>,
    pub consumer: Option<String>,
    pub offers: u32,
    pub stored_at: i64,
    pub text: String,
}
