//! A run as it is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BudgetRow, CheckRow, RequestRow, UsageRow};

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
    pub terminal: bool,
    pub sealed: bool,
    /// Why it failed, in one word: triage, work, review, landing, budget.
    pub cause: Option<String>,
    /// Why it ended, in words.
    pub detail: Option<String>,
    /// intake, triage, work, task_review, final_review or land.
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
    pub warnings: Vec<String>,
    pub opened_at: i64,
    /// Since when the stage is what it is.
    pub since: i64,
    pub sealed_at: Option<i64>,
}

/// What tokens cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    pub currency: String,
    /// In decimal notation, exact to a millionth.
    pub amount: String,
}

/// A session that works or worked for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSessionRow {
    pub id: String,
    pub stage: String,
    pub cycle: u32,
    /// The state that it was sealed with; none while it works.
    pub state: Option<String>,
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
}
