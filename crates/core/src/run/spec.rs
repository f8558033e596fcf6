//! The parameters of a run. The command line resolves them once, and the ledger stores them.

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

/// How a reviewer handles its findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewMode {
    Off,
    /// The reviewer only reports its findings.
    #[default]
    Report,
    /// The reviewer fixes what it finds, and the checks run on the fixes.
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

/// The mode of each kind of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewModes {
    /// In a plan review, the reviewer reports findings or edits the plan.
    pub plan: ReviewMode,
    pub task: ReviewMode,
    #[serde(rename = "final")]
    pub whole: ReviewMode,
    /// Maximum number of rounds for a review that fixes its findings.
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
    /// Triage decides: the goal is divided if it is too large for a single task.
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
    /// A plan written by the user. If given, no agent plans the run.
    pub given: Option<Plan>,
    /// Whether the operator must approve the plan.
    pub approve: bool,
    /// Whether the run ends as soon as it has a plan.
    pub only: bool,
    /// Maximum number of agents that may work for this run at the same time.
    pub parallel: u32,
    /// Maximum number of agents that may work at the same time for all runs in this home.
    pub machine_parallel: u32,
    /// Maximum number of tasks that are merged and checked together.
    pub batch: u32,
    /// How many times to retry a task after its session failed.
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

/// How proved work lands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandMode {
    /// The work stays on its own branch.
    #[default]
    Branch,
    /// The work is merged into the branch from which the run started.
    Merge,
    /// The work is pushed and a pull request is opened.
    Pr,
}

/// The price of a million tokens, in millionths of the currency unit so that sums are exact.
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

/// The branch and commit from which the run started, and the remote that it pushes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTarget {
    /// The branch that was checked out. None if HEAD was detached.
    pub branch: Option<String>,
    /// The newest commit of the branch at that time, from which the work starts.
    pub base: Snapshot,
    /// The remote to push to. None if nothing is pushed.
    #[serde(default)]
    pub remote: Option<RunRemote>,
}

/// A remote of the repository. It is recorded before any agent starts, because agents can change
/// the repository's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRemote {
    pub name: String,
    pub url: String,
    /// The repository's git settings that concern its remotes.
    pub settings: Vec<(String, String)>,
}

/// The origin of a run that a workflow started for an issue in a tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// The path of the workflow file.
    pub workflow: String,
    /// The id of the issue in the tracker.
    pub issue: String,
    /// The identifier of the issue that users see.
    pub identifier: String,
    /// The number of earlier runs for this issue.
    pub attempt: u32,
}

/// All parameters with which a run is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    pub name: String,
    pub goal: String,
    /// The preset that determined the stages, if any.
    #[serde(default)]
    pub preset: Option<String>,
    /// The full text of the spec file, if one was given. The file itself may change later.
    pub spec: Option<String>,
    /// The root directory of the git repository.
    pub project: String,
    /// The directory in the repository in which the agent starts.
    pub cwd: String,
    pub target: RunTarget,
    /// The directory that contains the run's worktrees, each named after the number of its session.
    pub worktrees: String,
    /// The prefix of branch names, which is followed by the number and the words of the goal.
    pub branch: String,
    /// The agent as configured. Stages may restrict its permissions.
    pub agent: AgentSpec,
    pub triage: bool,
    #[serde(default)]
    pub planning: PlanningSpec,
    pub reviews: ReviewModes,
    pub land: LandMode,
    pub checks: Vec<String>,
    /// Whether the checks come from the configuration instead of the command line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured_checks: bool,
    /// Whether all checks are disabled, including those in a plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_checks: bool,
    pub keep: Vec<String>,
    /// Files that the checks depend on. The verdict lists changes to them.
    #[serde(default)]
    pub protected: Vec<String>,
    pub setup: Option<String>,
    pub copy: Vec<String>,
    pub empty_diff: EmptyDiff,
    pub bounds: Bounds,
    #[serde(default)]
    pub budget: Budget,
    /// Paths inside the worktree are written for session number 0, which does not exist.
    #[serde(default)]
    pub policy: Policy,
    /// Whether agents may ask users questions.
    pub questions: bool,
    /// Answers given in advance, by question id.
    #[serde(default)]
    pub answers: BTreeMap<String, Vec<String>>,
    /// Prompts that the project overrides.
    #[serde(default)]
    pub templates: BTreeMap<PromptTemplate, String>,
    #[serde(default)]
    pub hooks: BTreeMap<RunHookEvent, HookSpec>,
    /// The interval at which the pull request is polled.
    #[serde(default = "default_pull_interval_ms")]
    pub pull_every_ms: u64,
    /// How long to wait for external checks to appear before assuming that there are none.
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
