//! The parameters that a run is opened with. Resolved once by the command line and kept in the
//! ledger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{hook::RunHookEvent, landing::CommentAuthors, prompt::PromptTemplate, stage::RunStage};
use crate::{
    limits::Bounds,
    plan::Plan,
    policy::Policy,
    session::{AgentSpec, Budget, HookSpec},
    verdict::{EmptyDiff, Snapshot},
};

/// How a review handles its findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewMode {
    Off,
    /// Report them.
    #[default]
    Report,
    /// Fix them, and have the fixes checked.
    Repair,
}

impl ReviewMode {
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewMode::Off => "off",
            ReviewMode::Report => "report",
            ReviewMode::Repair => "repair",
        }
    }
}

/// The modes of the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewModes {
    /// A plan review reports findings or edits the plan.
    pub plan: ReviewMode,
    pub task: ReviewMode,
    #[serde(rename = "final")]
    pub whole: ReviewMode,
    /// Maximum number of rounds of a repairing review.
    pub cycles: u32,
}

impl Default for ReviewModes {
    fn default() -> Self {
        ReviewModes {
            plan: ReviewMode::Off,
            task: ReviewMode::Report,
            whole: ReviewMode::Off,
            cycles: 2,
        }
    }
}

impl ReviewModes {
    pub fn mode_for(self, stage: RunStage) -> ReviewMode {
        match stage {
            RunStage::PlanReview => self.plan,
            RunStage::TaskReview => self.task,
            RunStage::FinalReview => self.whole,
            RunStage::Intake
            | RunStage::Triage
            | RunStage::Plan
            | RunStage::Tasks
            | RunStage::Work
            | RunStage::Land => ReviewMode::Off,
        }
    }
}

/// Whether the goal is divided into tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// If triage finds the goal too large for one task.
    Auto,
    Always,
    #[default]
    Never,
}

impl PlanMode {
    pub fn as_str(self) -> &'static str {
        match self {
            PlanMode::Auto => "auto",
            PlanMode::Always => "always",
            PlanMode::Never => "never",
        }
    }
}

/// How the goal is planned, and how its tasks are executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanningSpec {
    pub mode: PlanMode,
    /// A plan that the user wrote, which replaces the planning agent.
    pub given: Option<Plan>,
    /// Whether the operator has to approve the plan.
    pub approve: bool,
    /// Whether the run ends with its plan.
    pub only: bool,
    /// Maximum number of agents of this run that work at the same time.
    pub parallel: u32,
    /// Maximum number of agents of all runs of this home.
    pub machine_parallel: u32,
    /// Maximum number of tasks that are merged and checked together.
    pub batch: u32,
    /// How often a task with a failed session is retried.
    pub retries: u32,
}

impl Default for PlanningSpec {
    fn default() -> Self {
        PlanningSpec {
            mode: PlanMode::Never,
            given: None,
            approve: false,
            only: false,
            parallel: 1,
            machine_parallel: u32::MAX,
            batch: 8,
            retries: 1,
        }
    }
}

/// How proved work is landed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandMode {
    /// It stays on its own branch.
    #[default]
    Branch,
    /// It is merged into the branch that the run began on.
    Merge,
    /// It is pushed, and a pull request is opened.
    Pr,
}

/// The price of a million tokens, in millionths of the currency's unit, so that sums are exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPrices {
    pub currency: String,
    pub input: u64,
    pub output: u64,
}

impl LandMode {
    pub fn as_str(self) -> &'static str {
        match self {
            LandMode::Branch => "branch",
            LandMode::Merge => "merge",
            LandMode::Pr => "pr",
        }
    }
}

/// Where the run began, and where it is to land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTarget {
    /// The checked-out branch; none if HEAD was detached.
    pub branch: Option<String>,
    /// Its newest commit at that time, which the work begins from.
    pub base: Snapshot,
    /// The remote to push to; none if nothing is pushed.
    #[serde(default)]
    pub remote: Option<RunRemote>,
}

/// A remote of the repository, recorded before any agent began, because an agent can change the
/// repository's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRemote {
    pub name: String,
    pub url: String,
    /// The repository's settings of its remotes.
    pub settings: Vec<(String, String)>,
}

/// The origin of a run that no user typed: an issue of a tracker, picked up by a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// The workflow's file.
    pub workflow: String,
    /// The tracker's id of the issue.
    pub issue: String,
    /// The issue's name for users.
    pub identifier: String,
    /// Sequence number of the runs for this issue, from 0.
    pub attempt: u32,
}

/// All parameters that a run is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    pub name: String,
    pub goal: String,
    /// The preset that selected the stages, if any.
    #[serde(default)]
    pub preset: Option<String>,
    /// The whole text of the spec, if one was given, because the file may change later.
    pub spec: Option<String>,
    /// The top of the git repository.
    pub project: String,
    /// The directory in the repository where the agent begins.
    pub cwd: String,
    pub target: RunTarget,
    /// The directory below which the run's worktrees are created, each under its session's number.
    pub worktrees: String,
    /// The prefix of branch names, before the number and the words of the goal.
    pub branch: String,
    /// The agent as configured. Stages restrict its permissions.
    pub agent: AgentSpec,
    pub triage: bool,
    #[serde(default)]
    pub planning: PlanningSpec,
    pub reviews: ReviewModes,
    pub land: LandMode,
    pub checks: Vec<String>,
    /// Whether the checks come from the configuration rather than from the command line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured_checks: bool,
    /// Whether nothing is checked at all, not even by checks of a plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_checks: bool,
    pub keep: Vec<String>,
    /// Files that the checks depend on. Changes of them are reported with the verdict.
    #[serde(default)]
    pub protected: Vec<String>,
    pub setup: Option<String>,
    pub copy: Vec<String>,
    pub empty_diff: EmptyDiff,
    pub bounds: Bounds,
    #[serde(default)]
    pub budget: Budget,
    /// Its paths in the worktree use session number 0, which no session has.
    #[serde(default)]
    pub policy: Policy,
    /// Whether users may be asked at all.
    pub questions: bool,
    /// Answers given in advance, by question id.
    #[serde(default)]
    pub answers: BTreeMap<String, Vec<String>>,
    /// Prompts that the project overrides.
    #[serde(default)]
    pub templates: BTreeMap<PromptTemplate, String>,
    #[serde(default)]
    pub hooks: BTreeMap<RunHookEvent, HookSpec>,
    /// The interval of pull request queries.
    #[serde(default = "default_pull_interval_ms")]
    pub pull_every_ms: u64,
    /// How long to wait for external checks to appear before assuming that none exist.
    #[serde(default = "default_pull_checks_ms")]
    pub pull_checks_ms: u64,
    #[serde(default)]
    pub comments_from: CommentAuthors,
    #[serde(default)]
    pub prices: Option<TokenPrices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

fn default_pull_interval_ms() -> u64 {
    30_000
}

fn default_pull_checks_ms() -> u64 {
    60_000
}
