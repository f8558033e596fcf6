//! A run as it is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BudgetRow, CheckRow, RequestRow, ShortageRow, UsageRow};

/// Opens a run. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenRunRequest {
    /// The run's id: a UUID of version 7 that the caller minted.
    pub id: String,
    pub spec: Value,
}

/// What is true about a run. Stage, requests and outcome are separate facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    pub project: String,
    /// The agent that works for it.
    #[serde(default)]
    pub agent: String,
    /// The preset that it was opened with, if one was named.
    #[serde(default)]
    pub preset: Option<String>,
    /// The branch that was checked out when it was opened; none if no branch was.
    #[serde(default)]
    pub target: Option<String>,
    /// The commit that its work begins from.
    #[serde(default)]
    pub base: String,
    /// running, stopping, succeeded, completed, failed or cancelled.
    pub state: String,
    /// Why it is in that state: what it waits for, or why it ended.
    #[serde(default)]
    pub why: String,
    /// The session that this is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_session: Option<String>,
    pub terminal: bool,
    pub sealed: bool,
    /// Why it failed, in one word: triage, plan, work, tasks, queue, review, landing, budget.
    pub cause: Option<String>,
    /// Why it ended, in words.
    pub detail: Option<String>,
    /// The resource that something owed waits for; left out where nothing waits. It is tried again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// intake, triage, plan, plan_review, tasks, work, task_review, final_review or land.
    pub stage: String,
    /// Counts how often the run was begun and resumed.
    pub leg: u32,
    pub sessions: Vec<RunSessionRow>,
    /// What the session that works for it now waits for a person to settle. Left out of what the ledger keeps.
    #[serde(default)]
    pub requests: Vec<RequestRow>,
    pub decisions: Vec<DecisionRow>,
    pub findings: Vec<FindingRow>,
    /// What was understood of the goal.
    pub understanding: Option<String>,
    /// How far the tasks of its plan are; none without a plan.
    #[serde(default)]
    pub tasks: Option<TaskCounts>,
    /// Whether the run waits for the operator: to approve its plan, or what would land.
    #[serde(default)]
    pub awaits_approval: bool,
    /// What exactly the operator is asked to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRow>,
    pub checks: Vec<CheckRow>,
    /// The newest work that was committed.
    pub tree: Option<String>,
    pub commit: Option<String>,
    /// Whether every check passed on that very tree.
    pub proved: bool,
    pub landing: LandingRow,
    pub usage: UsageRow,
    /// What the tokens cost, if prices are configured.
    #[serde(default)]
    pub cost: Option<CostRow>,
    /// How many turns its sessions took.
    #[serde(default)]
    pub turns: u32,
    pub budget: BudgetRow,
    /// The issue that it was opened for, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRow>,
    pub warnings: Vec<String>,
    pub opened_at: i64,
    /// Since when the stage is what it is.
    pub since: i64,
    pub sealed_at: Option<i64>,
}

/// Something that a run does only with the operator's consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRow {
    /// plan or landing.
    pub kind: String,
    /// Commands that an agent wrote into the plan. Provost runs none of them before the plan is approved.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Files that would change with the landing, and that only the operator may let change.
    #[serde(default)]
    pub files: Vec<String>,
    /// The target's commit that the change is compared with.
    #[serde(default)]
    pub onto: Option<String>,
    /// The commit that would land, and its tree. Approving it lets exactly this commit land.
    #[serde(default)]
    pub commit: Option<String>,
    #[serde(default)]
    pub tree: Option<String>,
    /// How those files differ, at most 16 KiB of it.
    #[serde(default)]
    pub diff: Option<String>,
    /// Whether the diff is longer than what is shown.
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

/// Refuses what a run waits for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RejectRunRequest {
    pub because: String,
    /// The commit that may not land; none refuses the plan.
    #[serde(default)]
    pub landing: Option<String>,
}

/// The issue of a tracker that a run was opened for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OriginRow {
    /// The workflow's file.
    pub workflow: String,
    /// What the tracker knows the issue by.
    pub issue: String,
    /// What people call it.
    pub identifier: String,
    /// Counts the runs for this issue, from 0.
    pub attempt: u32,
}

/// What tokens cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    pub currency: String,
    /// In decimal notation, exact to a millionth.
    pub amount: String,
}

/// How many tasks of a plan there are, and how far they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    pub all: usize,
    pub waiting: usize,
    pub working: usize,
    pub queued: usize,
    pub merged: usize,
    pub failed: usize,
}

/// The plan of a run, with how far each task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphRow {
    pub run: String,
    pub name: String,
    /// The state of the run.
    pub state: String,
    /// Each behind all that it is after.
    pub tasks: Vec<TaskRow>,
    /// Nothing of it before the tasks are worked on.
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
    /// Why it failed, or what it was given back for.
    pub detail: Option<String>,
    /// The session that works for it, or did last.
    pub session: Option<String>,
    /// What its sessions used.
    pub usage: UsageRow,
    /// How often the queue gave it back.
    pub returns: u32,
    /// How often it was begun again after a failure.
    pub retries: u32,
    /// Its newest work that was committed.
    pub commit: Option<String>,
}

/// What is on its way to the run's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// Tasks that wait to be merged.
    pub waiting: Vec<String>,
    /// Tasks that were merged together and are being checked.
    pub batch: Vec<String>,
    /// How many batches there were, and how many checks of them.
    pub batches: u32,
    pub checks: u32,
}

/// A session that works or worked for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSessionRow {
    pub id: String,
    pub stage: String,
    /// The task of the plan that it works for.
    #[serde(default)]
    pub task: Option<String>,
    pub cycle: u32,
    /// The state that it was sealed with; none while it works.
    pub state: Option<String>,
    /// Whether its turn was interrupted, and it waits for the user to say what comes next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A question once answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRow {
    pub id: String,
    pub question: String,
    /// None of a secret.
    pub answer: Option<Vec<String>>,
}

/// Something that a review found.
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
    /// Nobody mended it: the last review of its stage left it.
    pub open: bool,
}

/// Where the work went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LandingRow {
    /// branch, merge or pr, as it was asked for.
    pub mode: String,
    pub done: bool,
    /// Where the work stands once it has landed.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// Whether the branch that the run began on has the work.
    pub merged: bool,
    pub pull_request: Option<PullRow>,
    /// What the pull request was told, and nobody took up any more.
    pub remarks: Vec<String>,
}

/// A pull request of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRow {
    pub number: u64,
    pub url: String,
    /// none, pending, passed or failed, as it was seen last.
    pub checks: Option<String>,
    /// How many comments and reviews were left out, for their authors have no write access.
    #[serde(default)]
    pub left_out: u32,
}
