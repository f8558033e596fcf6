//! The representation of a run.

use provost_core::lifecycle::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BudgetRow, CheckRow, Extensible, MergeCheckKindName, MergeCheckStateName, RequestRow,
    RunStateName, ShortageRow, UsageRow,
};

/// Opens a run. `spec` has the domain's own format and was resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenRunRequest {
    /// The run's id, a UUID version 7 that the caller created.
    pub id: String,
    pub spec: Value,
}

/// The state of a run. The stage, the requests and the outcome are independent of each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub id: String,
    pub name: String,
    pub goal: String,
    pub project: String,
    /// The agent that works on the run.
    #[serde(default)]
    pub agent: String,
    /// The preset with which the run was opened, if any.
    #[serde(default)]
    pub preset: Option<String>,
    /// The branch that was checked out when the run was opened. None if HEAD was detached.
    #[serde(default)]
    pub target: Option<String>,
    /// The commit from which the run's work starts.
    #[serde(default)]
    pub base: String,
    /// The state: running, stopping, succeeded, completed, failed or cancelled.
    pub state: Extensible<RunStateName>,
    /// The reason why the run is in its state: the thing for which it is waiting, or the cause of
    /// its end.
    #[serde(default)]
    pub why: String,
    /// The session that the reason concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_session: Option<String>,
    pub terminal: bool,
    pub sealed: bool,
    /// The kind of failure that ended the run: triage, plan, work, tasks, queue, review, landing or
    /// budget.
    pub cause: Option<String>,
    /// The reason why the run ended, in words.
    pub detail: Option<String>,
    /// The resource for which pending work is waiting; omitted if no work is waiting. The work is
    /// retried automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageRow>,
    /// The current stage: intake, triage, plan, plan_review, tasks, work, task_review, final_review
    /// or land.
    pub stage: String,
    /// The number of the run attempt: 1, plus one for each resume.
    pub attempt: u32,
    pub sessions: Vec<RunSessionRow>,
    /// The newest checks of merged work, which need no session.
    #[serde(default)]
    pub verifications: Vec<RunVerificationRow>,
    /// Requests of the run's active session that the user must settle. They are not stored in the
    /// ledger.
    #[serde(default)]
    pub requests: Vec<RequestRow>,
    pub decisions: Vec<DecisionRow>,
    pub findings: Vec<FindingRow>,
    /// The agent's understanding of the goal.
    pub understanding: Option<String>,
    /// The progress of the plan's tasks. None without a plan.
    #[serde(default)]
    pub tasks: Option<TaskCounts>,
    /// Whether the run is waiting for the operator to approve its plan or a landing.
    #[serde(default)]
    pub awaits_approval: bool,
    /// The plan or landing that the operator should approve or reject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRow>,
    pub checks: Vec<CheckRow>,
    /// The tree and commit of the newest committed work.
    pub tree: Option<String>,
    pub commit: Option<String>,
    /// Whether every check passed on exactly the tree of the newest committed work.
    pub verified: bool,
    pub landing: LandingRow,
    pub usage: UsageRow,
    /// The cost of the tokens used, if prices are configured.
    #[serde(default)]
    pub cost: Option<CostRow>,
    /// Total number of turns in the run's sessions.
    #[serde(default)]
    pub turns: u32,
    pub budget: BudgetRow,
    /// The issue for which the run was opened, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRow>,
    pub warnings: Vec<String>,
    pub opened_at: i64,
    /// The time at which the run entered the current stage.
    pub since: i64,
    pub sealed_at: Option<i64>,
}

/// An action that a run takes only with the operator's consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRow {
    /// The subject of the approval: plan or landing.
    pub kind: String,
    /// Commands in the plan that were written by an agent. Provost runs none of them before the
    /// plan is approved.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Files that the landing would change and that only the operator may change.
    #[serde(default)]
    pub files: Vec<String>,
    /// The commit on the target branch with which the change is compared.
    #[serde(default)]
    pub onto: Option<String>,
    /// The commit that would land, and its tree. An approval applies only to this exact commit.
    #[serde(default)]
    pub commit: Option<String>,
    #[serde(default)]
    pub tree: Option<String>,
    /// The diff of the files in `files`, limited to 16 KiB.
    #[serde(default)]
    pub diff: Option<String>,
    /// Whether the diff is truncated.
    #[serde(default)]
    pub truncated: bool,
}

/// Approves the pending plan of a run, or a landing identified by its commit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApproveRunRequest {
    /// The commit whose landing is approved. Without a commit, the plan is approved.
    #[serde(default)]
    pub landing: Option<String>,
}

/// Rejects the pending plan or landing of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RejectRunRequest {
    pub because: String,
    /// The commit whose landing is rejected. Without a commit, the plan is rejected.
    #[serde(default)]
    pub landing: Option<String>,
}

/// The tracker issue for which a run was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OriginRow {
    /// The path of the workflow file.
    pub workflow: String,
    /// The issue's id in the tracker.
    pub issue: String,
    /// The issue's name as shown to users.
    pub identifier: String,
    /// The number of the run for this issue, starting at 0.
    pub attempt: u32,
}

/// The cost of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    pub currency: String,
    /// The amount in decimal notation, exact to a millionth.
    pub amount: String,
}

/// The number of tasks in a plan, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCounts {
    pub all: usize,
    pub waiting: usize,
    pub working: usize,
    pub queued: usize,
    pub merged: usize,
    pub failed: usize,
}

/// A run's plan and the state of each task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunGraphRow {
    pub run: String,
    pub name: String,
    /// The state of the run.
    pub state: Extensible<RunStateName>,
    /// The tasks, ordered so that dependencies come first.
    pub tasks: Vec<TaskRow>,
    /// The merge queue, which is empty before the tasks start.
    pub queue: QueueRow,
}

/// A task in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRow {
    pub id: String,
    pub title: String,
    pub instruction: String,
    /// The tasks on which this task depends.
    pub after: Vec<String>,
    pub criteria: Vec<String>,
    pub checks: Vec<String>,
    pub scope: Vec<String>,
    /// The state: planned, waiting, starting, working, review, needs_input, queued, merged, failed,
    /// or stopped together with the run.
    pub state: String,
    /// The reason why the task failed or was sent back.
    pub detail: Option<String>,
    /// The session that is working on the task, or that last worked on it.
    pub session: Option<String>,
    /// The token usage of the task's sessions.
    pub usage: UsageRow,
    /// The number of times that the merge queue sent the task back.
    pub returns: u32,
    /// The number of times that the task was restarted after a failure.
    pub retries: u32,
    /// The commit of the task's newest committed work.
    pub commit: Option<String>,
}

/// The queue of tasks to merge into the run's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// Tasks that are waiting to be merged.
    pub waiting: Vec<String>,
    /// Tasks that were merged together and are being checked.
    pub batch: Vec<String>,
    /// The number of batches so far. `checks` is the number of times that batches were checked.
    pub batches: u32,
    pub checks: u32,
}

/// A session that is working or has worked for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSessionRow {
    pub id: String,
    pub stage: String,
    /// The plan's task on which the session works.
    #[serde(default)]
    pub task: Option<String>,
    pub cycle: u32,
    /// The state in which the session was sealed. None while it is working.
    pub state: Option<Extensible<State>>,
    /// Whether the session is waiting for the user's next message because its turn was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// The checks of merged work: of a batch in the merge queue, or of a merge with the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunVerificationRow {
    /// The number of the verification within the run, starting at 1.
    pub no: u32,
    pub kind: Extensible<MergeCheckKindName>,
    /// The number of the batch, if a batch is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// The number of the landing step, if a merge with the target is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    pub state: Extensible<MergeCheckStateName>,
    /// The merge commit, and its tree.
    pub commit: String,
    pub tree: String,
    /// The checks, in the order in which they run.
    pub checks: Vec<CheckRow>,
}

/// A question that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRow {
    pub id: String,
    pub question: String,
    /// The answer. None if it is secret.
    pub answer: Option<Vec<String>>,
}

/// A finding from a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingRow {
    pub stage: String,
    /// The plan's task whose work was reviewed.
    #[serde(default)]
    pub task: Option<String>,
    pub cycle: u32,
    pub title: String,
    pub detail: String,
    pub severity: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Whether the last review of the stage still reported this finding as not fixed.
    pub open: bool,
}

/// The landing of the work: its mode, branch, commit and pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LandingRow {
    /// The requested landing mode: branch, merge or pr.
    pub mode: String,
    pub done: bool,
    /// The branch on which the work landed.
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// Whether the work was merged into the branch from which the run started.
    pub merged: bool,
    pub pull_request: Option<PullRow>,
    /// Review comments on the pull request that have not been addressed.
    pub unaddressed_comments: Vec<String>,
}

/// A pull request of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRow {
    pub number: u64,
    pub url: String,
    /// The state of the pull request's checks when last observed: none, pending, passed or failed.
    pub checks: Option<String>,
    /// Number of comments and reviews that were ignored because their authors do not have write
    /// access.
    #[serde(default)]
    pub left_out: u32,
}
