//! What a run was opened with. Resolved once by the command line and kept in the ledger.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{hook::RunHookEvent, landing::CommentAuthors, prompt::Template, stage::Stage};
use crate::{
    limits::Bounds,
    plan::Plan,
    policy::Policy,
    session::{Agent, Budget, HookSpec},
    verdict::{EmptyDiff, Snapshot},
};

/// What a review does about what it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewMode {
    Off,
    /// It tells.
    #[default]
    Report,
    /// It mends, and what it mended is checked again.
    Repair,
}

impl ReviewMode {
    pub fn word(self) -> &'static str {
        match self {
            ReviewMode::Off => "off",
            ReviewMode::Report => "report",
            ReviewMode::Repair => "repair",
        }
    }
}

/// Which reviews there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reviews {
    /// A review of the plan tells, or edits it.
    pub plan: ReviewMode,
    pub task: ReviewMode,
    #[serde(rename = "final")]
    pub whole: ReviewMode,
    /// How many times a repairing review is followed by another look.
    pub cycles: u32,
}

impl Default for Reviews {
    fn default() -> Self {
        Reviews {
            plan: ReviewMode::Off,
            task: ReviewMode::Report,
            whole: ReviewMode::Off,
            cycles: 2,
        }
    }
}

impl Reviews {
    pub fn of(self, stage: Stage) -> ReviewMode {
        match stage {
            Stage::PlanReview => self.plan,
            Stage::TaskReview => self.task,
            Stage::FinalReview => self.whole,
            Stage::Intake
            | Stage::Triage
            | Stage::Plan
            | Stage::Tasks
            | Stage::Work
            | Stage::Land => ReviewMode::Off,
        }
    }
}

/// Whether the goal is divided into tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// If triage says that one task is too little.
    Auto,
    Always,
    #[default]
    Never,
}

impl PlanMode {
    pub fn word(self) -> &'static str {
        match self {
            PlanMode::Auto => "auto",
            PlanMode::Always => "always",
            PlanMode::Never => "never",
        }
    }
}

/// How the goal is planned, and how its tasks are worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Planning {
    pub mode: PlanMode,
    /// A plan that a person wrote: nobody is asked for another.
    pub given: Option<Plan>,
    /// Whether a person has to approve of the plan.
    pub approve: bool,
    /// Whether the run ends with its plan.
    pub only: bool,
    /// So many agents of this run work at the same time.
    pub parallel: u32,
    /// So many agents of all runs of this home.
    pub machine_parallel: u32,
    /// So many tasks are merged and checked together.
    pub batch: u32,
    /// So often a task whose session failed is begun again.
    pub retries: u32,
}

impl Default for Planning {
    fn default() -> Self {
        Planning {
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

/// What becomes of work that was proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandMode {
    /// It stands on a branch of its own.
    #[default]
    Branch,
    /// It is merged into the branch that the run began on.
    Merge,
    /// It is pushed, and a pull request asks for it to be merged.
    Pr,
}

/// What a million tokens cost, in millionths of a currency's unit, so that sums are exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    pub currency: String,
    pub input: u64,
    pub output: u64,
}

impl LandMode {
    pub fn word(self) -> &'static str {
        match self {
            LandMode::Branch => "branch",
            LandMode::Merge => "merge",
            LandMode::Pr => "pr",
        }
    }
}

/// Where the run began, and where it is to land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The branch that was checked out; none if no branch was.
    pub branch: Option<String>,
    /// Its newest commit then: what the work begins from.
    pub base: Snapshot,
    /// Where it is pushed to; none if that is not asked for.
    #[serde(default)]
    pub remote: Option<Remote>,
}

/// A remote of the repository, kept before any agent began: an agent can change what the repository says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    pub name: String,
    pub url: String,
    /// What the repository's settings say of its remotes.
    pub settings: Vec<(String, String)>,
}

/// Whose wish a run is, where no person typed it: an issue of a tracker, by a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The workflow's file.
    pub workflow: String,
    /// What the tracker knows the issue by.
    pub issue: String,
    /// What people call it.
    pub identifier: String,
    /// Counts the runs for this issue, from 0.
    pub attempt: u32,
}

/// All that a run was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    pub name: String,
    pub goal: String,
    /// The preset that the stages were chosen by, if one was.
    #[serde(default)]
    pub preset: Option<String>,
    /// The whole text of the spec, if one was given: the file may be gone tomorrow.
    pub spec: Option<String>,
    /// The top of the git repository.
    pub project: String,
    /// Where in the repository the agent begins.
    pub cwd: String,
    pub target: Target,
    /// The directory below which the run's worktrees are made, each under its session's number.
    pub worktrees: String,
    /// What branches are called, without number and words of the goal.
    pub branch: String,
    /// The agent as the configuration has it; stages narrow what it may do.
    pub agent: Agent,
    pub triage: bool,
    #[serde(default)]
    pub planning: Planning,
    pub reviews: Reviews,
    pub land: LandMode,
    pub checks: Vec<String>,
    /// Whether the checks come from the configuration, and not from the command line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub configured_checks: bool,
    /// Whether nothing is checked at all, by checks of a plan neither.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_checks: bool,
    pub keep: Vec<String>,
    /// Files that the checks rest on: a change of them is told with the verdict.
    #[serde(default)]
    pub protected: Vec<String>,
    pub setup: Option<String>,
    pub copy: Vec<String>,
    pub empty_diff: EmptyDiff,
    pub bounds: Bounds,
    #[serde(default)]
    pub budget: Budget,
    /// Paths in it that begin in the worktree begin with number 0, which no session has.
    #[serde(default)]
    pub policy: Policy,
    /// Whether people may be asked at all.
    pub questions: bool,
    /// Answers that were given beforehand, by the ids of questions.
    #[serde(default)]
    pub answers: BTreeMap<String, Vec<String>>,
    /// Prompts that the project words itself.
    #[serde(default)]
    pub templates: BTreeMap<Template, String>,
    #[serde(default)]
    pub hooks: BTreeMap<RunHookEvent, HookSpec>,
    /// How often a pull request is looked at.
    #[serde(default = "every_half_minute")]
    pub pull_every_ms: u64,
    /// How long checks of others are waited for before there are none.
    #[serde(default = "a_minute")]
    pub pull_checks_ms: u64,
    #[serde(default)]
    pub comments_from: CommentAuthors,
    #[serde(default)]
    pub prices: Option<Prices>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

fn every_half_minute() -> u64 {
    30_000
}

fn a_minute() -> u64 {
    60_000
}
