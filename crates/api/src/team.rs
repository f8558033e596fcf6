//! How a team is represented.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Opens a team. `spec` has the domain's own format and was resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenTeamRequest {
    /// The team's id, a UUID version 7 that the caller created.
    pub id: String,
    pub spec: Value,
}

/// A command for a team. `command` has the domain's own format.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamCommandRequest {
    pub command: Value,
    /// The member that the caller acts as. For agents this value is ignored, because they are
    /// identified by their process.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// The calling launch and its token, if the calling process does not identify it.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// Opens a team with all its members. `pairing` has the engine's own format and was resolved by the
/// command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PairRequest {
    /// The team's id, a UUID version 7 that the caller created.
    pub id: String,
    pub pairing: Value,
}

/// Requests a member's next message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextRequest {
    /// The member, or the operator if it is missing.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// How long to wait for a message, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// The calling launch and its token, if the calling process does not identify it.
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
    /// The commands that must pass on the finished tree.
    #[serde(default)]
    pub checks: Vec<String>,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
    /// Why the team is in this state, in words.
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
    /// Commands written by members, which Provost runs only with the operator's consent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaits_consent: Vec<String>,
    #[serde(rename = "loop")]
    pub loop_row: Option<LoopRow>,
    /// light, guided or strict.
    pub mode: String,
    /// The configuration revision that managers must acknowledge.
    pub revision: u32,
    /// The configuration, in the domain's own format.
    #[serde(default)]
    pub config: Value,
    /// The most recent moves.
    #[serde(default)]
    pub moves: Vec<MoveRow>,
    /// What prevents the team from finishing.
    pub blockers: Vec<BlockerRow>,
    /// Blockers that the operator waived when finishing the team.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<BlockerRow>,
    /// Whether the team's final audit is running.
    pub being_audited: bool,
    /// The work that the last audit examined.
    #[serde(default)]
    pub audited: Option<AuditedWorkRow>,
    /// The name of the rule-based manager policy in the configuration, if one manages the team.
    #[serde(default)]
    pub policy: Option<String>,
}

/// The identity and status of a team. This is sent with each change to a message, and there may be
/// thousands of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamHeadRow {
    pub id: String,
    pub name: String,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub terminal: bool,
}

/// The work that an audit examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedWorkRow {
    /// The member whose work was checked.
    pub worker: String,
    /// The git tree that the checks ran on.
    pub tree: String,
}

/// A decision that a manager recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRow {
    /// wait, nudge, interrupt, escalate, stop or inspect.
    pub kind: String,
    pub because: String,
    pub by: String,
    pub at: i64,
    /// Whether an action has used the move.
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
    /// Whether the member has left the team.
    pub left: bool,
    pub acknowledged_revision: Option<u32>,
    /// When the running daemon last saw the member request a message.
    #[serde(default)]
    pub polled_at: Option<i64>,
    /// The state of the member's session. Set only when a single team is shown.
    #[serde(default)]
    pub state: Option<String>,
    /// Why the member's session is in that state, if there is a notable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The branch of the member's session. Set only when a single team is shown.
    #[serde(default)]
    pub branch: Option<String>,
    pub communication: CommunicationRow,
}

/// How a session or a member receives messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationRow {
    /// The channel: protocol, terminal, pane, pipe, once or watched; pull for a
    /// member that runs elsewhere.
    pub kind: String,
    /// turns, typed, written, asks or nothing.
    pub receive: String,
    /// Whether Provost can deliver messages to it.
    pub can_push: bool,
    /// Whether another program must wake the member.
    pub needs_wake: bool,
    /// The command that fetches the next message; null if messages are pushed or cannot be
    /// delivered.
    pub receive_command: Option<String>,
    /// How the member acts on its team: tools or commands. Set only for members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts: Option<String>,
    /// Additional information, if any.
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
    /// The command that Provost runs to check the criterion.
    pub check: Option<String>,
    /// The kind of evidence that satisfied the criterion: verified or asserted.
    pub receipt: Option<String>,
    /// The evidence: a member's text, or how the check ended.
    pub evidence: Option<String>,
    /// Whether the criterion's check is pending or running.
    #[serde(default)]
    pub being_checked: bool,
    /// The result of the criterion's last check, if it failed.
    #[serde(default)]
    pub failed: Option<FailedCheckRow>,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCheckRow {
    pub command: String,
    /// How the check ended, in words.
    pub end: String,
    /// The member whose work was checked.
    pub worker: String,
    /// The git tree that the check ran on; empty if the work has no commit.
    pub tree: String,
    /// The path of the file with the output, relative to Provost's home.
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
    /// Number of items that were left out in addition to the listed ones.
    pub more_left_out: usize,
    /// Whether this was a dry run, in which nothing is proposed.
    pub dry_run: bool,
}

/// A drafted criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftedRow {
    /// The criterion's number; null if it was not proposed.
    pub no: Option<u32>,
    pub text: String,
}

/// An item that did not become a criterion.
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
    /// The evidence that each iteration requires.
    pub evidence: Vec<String>,
    pub shown: Vec<String>,
    /// Evidence that Provost verified itself, by name: how a check ended, or how much two pictures
    /// differ, in words.
    #[serde(default)]
    pub verified: BTreeMap<String, String>,
    /// Evidence that a member asserted, by name.
    #[serde(default)]
    pub asserted: BTreeMap<String, AssertedRow>,
    pub missing: Vec<String>,
    /// The number of iterations without a change after which the loop stops; null means never.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// Maximum number of tokens for all its workers; null means no limit.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The number of tokens used. Set only when a single team is shown and a worker has a session.
    #[serde(default)]
    pub tokens_used: Option<u64>,
    /// Number of the team's stored messages that have not been accepted yet.
    #[serde(default)]
    pub backlog: usize,
    /// Evidence whose check is pending or running.
    #[serde(default)]
    pub being_checked: Vec<String>,
    /// The checks of this iteration whose last run failed, by the name of the evidence.
    #[serde(default)]
    pub failed: BTreeMap<String, FailedCheckRow>,
    /// The message that requests the next iteration, if it has not been accepted yet.
    pub continuation: Option<u32>,
    pub advances: Vec<AdvanceRow>,
    pub refusals: u32,
    pub last_refusal: Option<String>,
    /// Why the loop ended: finished, stopped, plateau or budget.
    pub ended: Option<String>,
    /// The recommended next step, in words.
    pub recommendation: String,
    pub tools: Vec<String>,
}

/// Evidence that a member asserted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssertedRow {
    /// The member that provided the evidence.
    pub by: String,
    pub text: String,
}

/// The start of a new iteration.
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
    /// A code for use by programs.
    pub code: String,
    pub text: String,
    /// The last part of a failed check's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// A command that helps to resolve it, in a form that works with an empty environment.
    #[serde(default)]
    pub next: Option<String>,
    /// The same command for a user who has Provost on the path.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A message in the form in which its recipient receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxItemRow {
    pub team: String,
    pub no: u32,
    /// The number of the offer, which must be passed when accepting or acknowledging the message.
    pub lease: u32,
    /// When the offer expires; null once the message has been accepted.
    #[serde(default)]
    pub offer_until: Option<i64>,
    /// When the lease expires; null until the message is accepted.
    pub lease_until: Option<i64>,
    pub kind: String,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub channel: String,
    /// instructs or claims.
    pub trust: String,
    pub redelivered: bool,
    /// The message text as written.
    pub text: String,
    /// The message text and its sender, formatted for an agent to read.
    pub envelope: String,
    /// The terms of the loop, if the message starts an iteration.
    #[serde(rename = "loop")]
    pub loop_terms: Option<ContinuationRow>,
    /// The command to run first, while the message is only offered; null once it has been accepted.
    #[serde(default)]
    pub accept_command: Option<String>,
    /// The command that acknowledges the message once it has been accepted.
    pub acknowledge_command: String,
}

/// The terms of the iteration that a message starts.
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

/// A message in a team's lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMessageRow {
    pub no: u32,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub to: String,
    pub kind: String,
    /// The channel that the message came through: command line, tool or rule.
    #[serde(default)]
    pub channel: String,
    /// instructs or claims.
    #[serde(default)]
    pub trust: String,
    /// low, normal or high.
    #[serde(default)]
    pub priority: String,
    /// When the message expires if it is not accepted; null if it does not expire.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// The iteration that the message starts, if any.
    #[serde(default)]
    pub iteration: Option<u32>,
    /// stored, offered, accepted, acknowledged, expired, cancelled or dead.
    pub status: String,
    /// Why the message was dead-lettered or cancelled.
    pub reason: Option<String>,
    pub consumer: Option<String>,
    pub offers: u32,
    pub stored_at: i64,
    pub text: String,
}
