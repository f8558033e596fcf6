//! The overview of a team for one of its members: everything needed to decide on the next step.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BlockerRow, CriterionRow, LoopRow, RecentEventsRow};

/// The overview. Lists are limited, and texts are clipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewRow {
    pub team: OverviewTeamRow,
    pub you: OverviewReaderRow,
    pub members: Vec<OverviewMemberRow>,
    pub criteria: OverviewCriteriaRow,
    #[serde(rename = "loop")]
    pub loop_row: Option<LoopRow>,
    pub budget: OverviewBudgetRow,
    pub running_checks: Vec<RunningCheckRow>,
    pub messages: OverviewMessagesRow,
    pub blockers: Vec<BlockerRow>,
    /// The next steps in words, most urgent first.
    pub next: Vec<String>,
    /// The current round of blind proposals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposals: Option<ProposalRoundRow>,
    /// The terms that managers work under. Only managers see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractRow>,
    /// The events that are new to the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<RecentEventsRow>,
}

/// The team in its overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewTeamRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    /// open, active, paused, done, failed or cancelled.
    pub state: String,
    pub being_audited: bool,
}

/// The member that the overview is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewReaderRow {
    pub name: String,
    /// worker, manager or reviewer.
    pub role: String,
}

/// A member, with the state of its session if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewMemberRow {
    pub name: String,
    /// worker, manager or reviewer.
    pub role: String,
    /// The state of the session, or polls_messages if the member has none.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_requests: Vec<String>,
    /// The text of the last claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// How full the model's context is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUseRow>,
}

/// How full a model's context is, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextUseRow {
    pub used: u64,
    pub window: u64,
}

/// The criteria of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewCriteriaRow {
    pub total: usize,
    pub open: usize,
    /// The first open criteria.
    pub shown: Vec<CriterionRow>,
}

/// How much of a limit is used; null means unknown or unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitUseRow {
    pub used: Option<u64>,
    pub limit: Option<u64>,
}

/// How much of its budgets a team has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewBudgetRow {
    /// The budget of the running loop.
    #[serde(rename = "loop")]
    pub loop_use: Option<LoopUseRow>,
    pub sessions: Vec<MemberUseRow>,
}

/// How much of its budget a loop has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoopUseRow {
    pub tokens: LimitUseRow,
    pub iterations: LimitUseRow,
}

/// How much of its budget a member's session has used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberUseRow {
    pub member: String,
    pub tokens: LimitUseRow,
    pub turns: LimitUseRow,
}

/// A check that is pending or running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningCheckRow {
    pub check: u32,
    pub command: String,
    /// The criterion, evidence or audit that needs the check.
    #[serde(rename = "for")]
    pub purpose: String,
}

/// The newest messages to and from the reader, and how many are waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewMessagesRow {
    pub waiting_for_you: usize,
    pub waiting_for_operator: usize,
    pub newest: Vec<OverviewMessageRow>,
}

/// A message in an overview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverviewMessageRow {
    pub no: u32,
    pub from: String,
    pub to: String,
    pub kind: String,
    /// stored, offered, accepted, acknowledged, expired, cancelled or dead.
    pub status: String,
    pub text: String,
    /// Why the message was dead-lettered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A round of blind proposals for the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalRoundRow {
    pub round: u32,
    pub worker: ProposalRow,
    pub manager: Option<ProposalRow>,
    pub chosen: Option<ChosenProposalRow>,
}

/// A proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposalRow {
    pub by: String,
    /// The text; null until the reader may see it.
    pub text: Option<String>,
}

/// A reviewer's choice between two proposals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChosenProposalRow {
    pub choice: String,
    pub because: String,
}

/// The terms that a team's managers work under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContractRow {
    pub revision: u32,
    /// The revision that the reader has accepted.
    pub acknowledged: Option<u32>,
    /// light, guided or strict.
    pub mode: String,
    pub objective: String,
    pub guidelines: Vec<String>,
    pub references: Vec<String>,
    /// The actions that managers may not take.
    pub may_not: Vec<String>,
    pub epilogue: Vec<String>,
    /// Whether the team requires adversarial evidence before it can finish.
    pub adversarial: bool,
    /// Questions to ask the user at the start, by name.
    pub questions: BTreeMap<String, String>,
    pub on_completion: Option<String>,
}
