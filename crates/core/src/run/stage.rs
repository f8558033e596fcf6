//! The stages of a run and their permissions, in one table.

use serde::{Deserialize, Serialize};

use super::spec::ReviewMode;
use crate::{result::ResultForm, session::Sandbox};

/// The stage of a run. In any stage, the run may also be waiting for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStage {
    /// The goal and the spec have been stored, but no agent has started.
    Intake,
    /// An agent reads the goal and the project, and asks about anything unclear.
    Triage,
    /// An agent divides the goal into tasks, and asks about anything unclear.
    Plan,
    /// Another agent reviews the plan, and so does the operator if that was requested.
    PlanReview,
    /// The tasks of the plan are worked on, reviewed and merged.
    Tasks,
    /// An agent works, and Provost checks the result.
    Work,
    /// Another agent reviews the work.
    TaskReview,
    /// The work is reviewed once more as a whole.
    FinalReview,
    /// The proved work is landed.
    Land,
}

/// The permissions of an agent in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePermissions {
    pub edits: bool,
    pub asks: bool,
    pub sandbox: Sandbox,
    /// The model's reasoning effort, unless configured otherwise.
    pub effort: Option<&'static str>,
    pub result: ResultForm,
    /// The time limit for an attempt in this stage, not counting the time it waits for users.
    pub time_limit_ms: Option<u64>,
}

const MINUTE: u64 = 60_000;

impl RunStage {
    pub const ALL: [RunStage; 9] = [
        RunStage::Intake,
        RunStage::Triage,
        RunStage::Plan,
        RunStage::PlanReview,
        RunStage::Tasks,
        RunStage::Work,
        RunStage::TaskReview,
        RunStage::FinalReview,
        RunStage::Land,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RunStage::Intake => "intake",
            RunStage::Triage => "triage",
            RunStage::Plan => "plan",
            RunStage::PlanReview => "plan_review",
            RunStage::Tasks => "tasks",
            RunStage::Work => "work",
            RunStage::TaskReview => "task_review",
            RunStage::FinalReview => "final_review",
            RunStage::Land => "land",
        }
    }

    /// Returns the agent's permissions in this stage. None if the stage has no agent.
    pub fn permissions(self, review: ReviewMode) -> Option<StagePermissions> {
        match self {
            // In `Tasks`, agents work and review in the stages of their tasks.
            RunStage::Intake | RunStage::Tasks => None,
            RunStage::Triage => Some(StagePermissions {
                edits: false,
                asks: true,
                sandbox: Sandbox::ReadOnly,
                effort: None,
                result: ResultForm::Triage,
                time_limit_ms: Some(30 * MINUTE),
            }),
            RunStage::Plan => Some(StagePermissions {
                edits: false,
                asks: true,
                sandbox: Sandbox::ReadOnly,
                effort: None,
                result: ResultForm::Plan,
                time_limit_ms: Some(60 * MINUTE),
            }),
            RunStage::PlanReview => match review {
                ReviewMode::Off => None,
                ReviewMode::Report | ReviewMode::Repair => Some(StagePermissions {
                    edits: false,
                    asks: false,
                    sandbox: Sandbox::ReadOnly,
                    effort: None,
                    result: ResultForm::PlanReview,
                    time_limit_ms: Some(60 * MINUTE),
                }),
            },
            // In `Land`, an agent only resolves merge conflicts and addresses review comments.
            RunStage::Work | RunStage::Land => Some(StagePermissions {
                edits: true,
                asks: true,
                sandbox: Sandbox::WorkspaceWrite,
                effort: None,
                result: ResultForm::Plain,
                time_limit_ms: None,
            }),
            RunStage::TaskReview | RunStage::FinalReview => match review {
                ReviewMode::Off => None,
                ReviewMode::Report => Some(StagePermissions {
                    edits: false,
                    asks: false,
                    sandbox: Sandbox::ReadOnly,
                    effort: None,
                    result: ResultForm::Review,
                    time_limit_ms: Some(60 * MINUTE),
                }),
                ReviewMode::Repair => Some(StagePermissions {
                    edits: true,
                    asks: false,
                    sandbox: Sandbox::WorkspaceWrite,
                    effort: None,
                    result: ResultForm::Review,
                    time_limit_ms: Some(60 * MINUTE),
                }),
            },
        }
    }
}
