//! The representation of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BudgetRow, CheckRow, RequestRow, ShortageRow, UsageRow};

/// Opens a run. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenRunRequest {
    /// The run's id: a UUID of version 7 that the caller created.
    pub id: String,
    pub spec: Value,
}

/// The state of a run. Stage, requests and outcome are separate facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    pub project: String,
    /// The agent that works for it.
    #[serde(default)]
    pub agent: String,
    /// The preset with which it was opened, if any.
    #[serde(default)]
    pub preset: Option<String>,
    /// The branch that was checked out when it was opened; none on a detached head.
    #[serde(default)]
    pub target: Option<String>,
    /// The commit from which its work starts.
    #[serde(default)]
    pub base: String,
    /// running, stopping, succeeded, completed, failed or cancelled.
    pub state: String,
    /// Why it is in that state: what it waits for, or why it ended.
    #[serde(default)]
    pub why: String,
    /// The session that this concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_session: Option<String>,
    pub terminal: bool,
    pub sealed: bool,
    /// The kind of failure: triage, plan, work, tasks, queue, review, landing, budget.
    pub cause: Option<String>,
    /// Why it ended, as text.
    pub detail: Option<String>,
    /// The resource that pending work waits for; omitted if nothing waits. It is retried
    /// automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// intake, triage, plan, plan_review, tasks, work, task_review, final_review or land.
    pub stage: String,
    /// Counts the run attempts: 1, plus one for each resume.
    pub attempt: u32,
    pub sessions: Vec<RunSessionRow>,
    /// The requests of its active session that the user has to settle. Not stored in the ledger.
    #[serde(default)]
    pub requests: Vec<RequestRow>,
    pub decisions: Vec<DecisionRow>,
    pub findings: Vec<FindingRow>,
    /// The agent's understanding of the goal.
    pub understanding: Option<String>,
    /// The progress of the tasks of its plan; none without a plan.
    #[serde(default)]
    pub tasks: Option<TaskCounts>,
    /// Whether the run waits for the operator: to approve its plan, or a landing.
    #[serde(default)]
    pub awaits_approval: bool,
    /// Exactly what the operator is asked to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRow>,
    pub checks: Vec<CheckRow>,
    /// The newest committed work.
    pub tree: Option<String>,
    pub commit: Option<String>,
    /// Whether every check passed on exactly that tree.
    pub verified: bool,
    pub landing: LandingRow,
    pub usage: UsageRow,
    /// The cost of the tokens, if prices are configured.
    #[serde(default)]
    pub cost: Option<CostRow>,
    /// Number of turns of its sessions.
    #[serde(default)]
    pub turns: u32,
    pub budget: BudgetRow,
    /// The issue for which it was opened, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRow>,
    pub warnings: Vec<String>,
    pub opened_at: i64,
    /// Since when it is in this stage.
    pub since: i64,
    pub sealed_at: Option<i64>,
}

/// Something that a run does only with the operator's consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRow {
    /// plan or landing.
    pub kind: String,
    /// Commands that an agent wrote into the plan. Provost runs none of them before the plan is
    /// approved.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Files that would change with the landing, and that only the operator may change.
    #[serde(default)]
    pub files: Vec<String>,
    /// The target's commit with which the change is compared.
    #[serde(default)]
    pub onto: Option<String>,
    /// The commit that would land, and its tree. An approval covers exactly this commit.
    #[serde(default)]
    pub commit: Option<String>,
    #[serde(default)]
    pub tree: Option<String>,
    /// The diff of those files, at most 16 KiB of it.
    #[serde(default)]
    pub diff: Option<String>,
    /// Whether the diff is truncated.
    #[serde(default)]
    pub truncated: bool,
}

/// Approves what a run waits for: its plan, or a landing by its commit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApproveRunRequest {
    /// The commit that may land; none approves the plan.
    #[serde(default)]
    pub landing: Option<String>,
}

/// Rejects what a run waits for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RejectRunRequest {
    pub because: String,
    /// The commit that may not land; none rejects the plan.
    #[serde(default)]
    pub landing: Option<String>,
}

/// The issue of a tracker for which a run was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OriginRow {
    /// The workflow's file.
    pub workflow: String,
    /// The tracker's id of the issue.
    pub issue: String,
    /// The issue's name for users.
    pub identifier: String,
    /// Counts the runs for this issue, from 0.
    pub attempt: u32,
}

/// The cost of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    pub currency: String,
    /// In decimal notation, exact to a millionth.
    pub amount: String,
}

/// Number of tasks of a plan, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    pub all: usize,
    pub waiting: usize,
    pub working: usize,
    pub queued: usize,
    pub merged: usize,
    pub failed: usize,
}

/// The plan of a run, with the state of each task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunGraphRow {
    pub run: String,
    pub name: String,
    /// The state of the run.
    pub state: String,
    /// In dependency order.
    pub tasks: Vec<TaskRow>,
    /// Empty before the tasks start.
    pub queue: QueueRow,
}

/// A task of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRow {
    pub id: String,
    pub title: String,
    pub instruction: String,
    /// The tasks whose result it needs.
    pub after: Vec<String>,
    pub criteria: Vec<String>,
    pub checks: Vec<String>,
    pub scope: Vec<String>,
    /// planned, waiting, starting, working, review, needs_input, queued, merged, failed, or stopped with its run.
    pub state: String,
    /// Why it failed, or why it was returned.
    pub detail: Option<String>,
    /// The session that works for it, or did last.
    pub session: Option<String>,
    /// The usage of its sessions.
    pub usage: UsageRow,
    /// How many times the queue returned it.
    pub returns: u32,
    /// How many times it was started again after a failure.
    pub retries: u32,
    /// Its newest committed work.
    pub commit: Option<String>,
}

/// The merge queue to the run's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// Tasks that wait to be merged.
    pub waiting: Vec<String>,
    /// Tasks that were merged together and are being checked.
    pub batch: Vec<String>,
    /// Number of batches, and of checks of them.
    pub batches: u32,
    pub checks: u32,
}

/// A session that works or worked for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSessionRow {
    pub id: String,
    pub stage: String,
    /// The task of the plan for which it works.
    #[serde(default)]
    pub task: Option<String>,
    pub cycle: u32,
    /// The state with which it was sealed; none while it works.
    pub state: Option<String>,
    /// Whether its turn was interrupted, and it waits for the user's next message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// An answered question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRow {
    pub id: String,
    pub question: String,
    /// None for a secret.
    pub answer: Option<Vec<String>>,
}

/// A finding of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingRow {
    pub stage: String,
    /// The task of the plan whose work was reviewed.
    #[serde(default)]
    pub task: Option<String>,
    pub cycle: u32,
    pub title: String,
    pub detail: String,
    pub severity: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Not fixed: the last review of its stage left it open.
    pub open: bool,
}

/// The landing of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LandingRow {
    /// The requested mode: branch, merge or pr.
    pub mode: String,
    pub done: bool,
    /// The branch with the landed work.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// Whether the work is on the branch from which the run started.
    pub merged: bool,
    pub pull_request: Option<PullRow>,
    /// Review comments of the pull request that were not addressed.
    pub unaddressed_comments: Vec<String>,
}

/// A pull request of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRow {
    pub number: u64,
    pub url: String,
    /// none, pending, passed or failed, as last observed.
    pub checks: Option<String>,
    /// Number of comments and reviews that were left out because their authors have no write
    /// access.
    #[serde(default)]
    pub left_out: u32,
}
