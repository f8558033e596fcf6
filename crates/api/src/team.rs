//! The representation of a team.

use std::collections::BTreeMap;

use provost_core::{lifecycle::State, team::MessageStatusKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CriterionStateName, Extensible, TeamStateName};

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
    /// The member as which the caller acts. This value is ignored for agents, because they are
    /// identified by their process.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// The calling launch and its token. Needed if the calling process does not identify the
    /// launch.
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
    /// The member whose message is requested. If it is missing, the operator's message is
    /// requested.
    #[serde(default, rename = "as")]
    pub acting_as: Option<String>,
    /// The time to wait for a message, in milliseconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// The calling launch and its token. Needed if the calling process does not identify the
    /// launch.
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
    /// The state: open, active, paused, done, failed or cancelled.
    pub state: Extensible<TeamStateName>,
    pub terminal: bool,
    /// The reason why the team is in this state, in words.
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
    /// The strictness with which managers are supervised: light, guided or strict.
    pub mode: String,
    /// The configuration revision that managers must acknowledge.
    pub revision: u32,
    /// The configuration, in the domain's own format.
    #[serde(default)]
    pub config: Value,
    /// The most recent moves.
    #[serde(default)]
    pub moves: Vec<MoveRow>,
    /// The blockers that prevent the team from finishing.
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
    /// The state: open, active, paused, done, failed or cancelled.
    pub state: Extensible<TeamStateName>,
    pub terminal: bool,
}

/// The work that an audit examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedWorkRow {
    /// The member whose work was checked.
    pub worker: String,
    /// The git tree on which the checks ran.
    pub tree: String,
}

/// A decision that a manager recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveRow {
    /// The kind of the move: wait, nudge, interrupt, escalate, stop or inspect.
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
    /// The member's role: worker, manager or reviewer.
    pub role: String,
    pub session: Option<String>,
    pub thread: Option<String>,
    pub title: Option<String>,
    /// Whether the member has left the team.
    pub left: bool,
    pub acknowledged_revision: Option<u32>,
    /// The time at which the running daemon last saw the member request a message.
    #[serde(default)]
    pub polled_at: Option<i64>,
    /// The state of the member's session. Set only when a single team is shown.
    #[serde(default)]
    pub state: Option<Extensible<State>>,
    /// The reason for the state of the member's session, if there is a notable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The branch of the member's session. Set only when a single team is shown.
    #[serde(default)]
    pub branch: Option<String>,
    pub communication: CommunicationRow,
}

/// The way a session or a member receives messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationRow {
    /// The channel: protocol, terminal, pane, pipe, once or watched; pull for a
    /// member that runs elsewhere.
    pub kind: String,
    /// The way in which messages are received: turns, typed, written, polls or nothing.
    pub receive: String,
    /// Whether Provost can deliver messages to the session or member.
    pub can_push: bool,
    /// Whether another program must wake the member.
    pub needs_wake: bool,
    /// The command that fetches the next message; null if messages are pushed or cannot be
    /// delivered.
    pub receive_command: Option<String>,
    /// The means by which the member acts on its team: tools or commands. Set only for members.
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
    /// The state: proposed, accepted, satisfied, deferred or rejected.
    pub state: Extensible<CriterionStateName>,
    /// The source of the criterion: user, manager, worker or audit.
    pub source: String,
    pub rationale: Option<String>,
    /// The kind of evidence that the criterion needs: verified or asserted.
    pub needs: String,
    /// The command that Provost runs to check the criterion.
    pub check: Option<String>,
    /// The kind of evidence that satisfied the criterion: verified or asserted.
    pub receipt: Option<String>,
    /// The evidence: a member's text, or the result of the check.
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
    /// The way the check ended, in words.
    pub end: String,
    /// The member whose work was checked.
    pub worker: String,
    /// The git tree on which the check ran; empty if the work has no commit.
    pub tree: String,
    /// The path of the file with the output, relative to Provost's home.
    pub output: String,
}

/// Criteria drafted from a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftRow {
    /// The source of the criteria: user, manager, worker or audit.
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
    /// The reason: empty, too_long, hidden_characters, known, too_many, quoted or fenced.
    pub why: String,
}

/// The state of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRow {
    pub template: String,
    pub iteration: u32,
    pub max: u32,
    /// The clean-up of the worker's conversation before the next iteration: keep, compact or
    /// new_thread.
    pub cleanup: String,
    /// The evidence that each iteration requires.
    pub evidence: Vec<String>,
    pub shown: Vec<String>,
    /// Evidence that Provost verified itself, by name: the result of a check, or the difference
    /// between two pictures, in words.
    #[serde(default)]
    pub verified: BTreeMap<String, String>,
    /// Evidence that a member asserted, by name.
    #[serde(default)]
    pub asserted: BTreeMap<String, AssertedRow>,
    pub missing: Vec<String>,
    /// The number of iterations without a change after which the loop stops; null means never.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// The maximum number of tokens for all workers of the loop; null means no limit.
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
    /// The reason why the loop ended: finished, stopped, plateau or budget.
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

/// An obstacle that prevents a team from finishing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockerRow {
    /// A code for use by programs.
    pub code: String,
    pub text: String,
    /// The last part of a failed check's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<String>,
    /// A command that helps to resolve the blocker, in a form that works with an empty environment.
    #[serde(default)]
    pub next: Option<String>,
    /// The command of `next`, in the form for a user who has Provost on the path.
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
    /// The time at which the offer expires; null once the message has been accepted.
    #[serde(default)]
    pub offer_until: Option<i64>,
    /// The time at which the lease expires; null until the message is accepted.
    pub lease_until: Option<i64>,
    pub kind: String,
    pub key: String,
    pub correlation: Option<String>,
    pub from: String,
    pub channel: String,
    /// The trust that the recipient may place in the message: trusted or untrusted.
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
    /// The channel through which the message came: command line, tool or rule.
    #[serde(default)]
    pub channel: String,
    /// The trust that the recipient may place in the message: trusted or untrusted.
    #[serde(default)]
    pub trust: String,
    /// The priority: low, normal or high.
    #[serde(default)]
    pub priority: String,
    /// The time at which the message expires if it is not accepted; null if it does not expire.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// The iteration that the message starts, if any.
    #[serde(default)]
    pub iteration: Option<u32>,
    /// The status: stored, offered, accepted, acknowledged, expired, cancelled or dead.
    pub status: Extensible<MessageStatusKind>,
    /// The reason why the message was dead-lettered or cancelled.
    pub reason: Option<String>,
    pub consumer: Option<String>,
    pub offers: u32,
    pub stored_at: i64,
    pub text: String,
}
