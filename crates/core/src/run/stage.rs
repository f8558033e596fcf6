//! The stages of a run, and what is permitted in each: one table.

use serde::{Deserialize, Serialize};

use super::spec::ReviewMode;
use crate::{result::ResultForm, session::Sandbox};

/// Where a run is. Whether somebody is waited for is another fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The goal and the spec are kept; nothing has been asked of an agent.
    Intake,
    /// An agent reads the goal and the project, and asks what is unclear.
    Triage,
    /// An agent divides the goal into tasks, and asks what is unclear.
    Plan,
    /// The plan is reviewed, by another agent and by a person if that was asked for.
    PlanReview,
    /// The tasks of the plan are worked on, reviewed and merged.
    Tasks,
    /// An agent works, and Provost checks what it left.
    Work,
    /// The work is reviewed by another agent.
    TaskReview,
    /// The whole is reviewed once more.
    FinalReview,
    /// What was proved goes to where it was asked for.
    Land,
}

/// What an agent may do in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub edits: bool,
    pub asks: bool,
    pub sandbox: Sandbox,
    /// How hard the model thinks, unless the configuration says otherwise.
    pub effort: Option<&'static str>,
    pub result: ResultForm,
    /// How long the stage's attempt may take, waiting for people not counted.
    pub time_limit_ms: Option<u64>,
}

const MINUTE: u64 = 60_000;

impl Stage {
    pub const ALL: [Stage; 9] = [
        Stage::Intake,
        Stage::Triage,
        Stage::Plan,
        Stage::PlanReview,
        Stage::Tasks,
        Stage::Work,
        Stage::TaskReview,
        Stage::FinalReview,
        Stage::Land,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Stage::Intake => "intake",
            Stage::Triage => "triage",
            Stage::Plan => "plan",
            Stage::PlanReview => "plan_review",
            Stage::Tasks => "tasks",
            Stage::Work => "work",
            Stage::TaskReview => "task_review",
            Stage::FinalReview => "final_review",
            Stage::Land => "land",
        }
    }

    /// Gives what an agent may do; none where no agent works.
    pub fn permissions(self, review: ReviewMode) -> Option<Permissions> {
        match self {
            Stage::Intake => None,
            Stage::Triage => Some(Permissions {
                edits: false,
                asks: true,
                sandbox: Sandbox::ReadOnly,
                effort: None,
                result: ResultForm::Triage,
                time_limit_ms: Some(30 * MINUTE),
            }),
            Stage::Plan => Some(Permissions {
                edits: false,
                asks: true,
                sandbox: Sandbox::ReadOnly,
                effort: None,
                result: ResultForm::Plan,
                time_limit_ms: Some(60 * MINUTE),
            }),
            Stage::PlanReview => match review {
                ReviewMode::Off => None,
                ReviewMode::Report | ReviewMode::Repair => Some(Permissions {
                    edits: false,
                    asks: false,
                    sandbox: Sandbox::ReadOnly,
                    effort: None,
                    result: ResultForm::PlanReview,
                    time_limit_ms: Some(60 * MINUTE),
                }),
            },
            // Only a merge with conflicts, or what a pull request is told, brings an agent to the last.
            // A session of all tasks has no agent: it checks what was merged.
            Stage::Work | Stage::Tasks | Stage::Land => Some(Permissions {
                edits: true,
                asks: true,
                sandbox: Sandbox::WorkspaceWrite,
                effort: None,
                result: ResultForm::Plain,
                time_limit_ms: None,
            }),
            Stage::TaskReview | Stage::FinalReview => match review {
                ReviewMode::Off => None,
                ReviewMode::Report => Some(Permissions {
                    edits: false,
                    asks: false,
                    sandbox: Sandbox::ReadOnly,
                    effort: None,
                    result: ResultForm::Review,
                    time_limit_ms: Some(60 * MINUTE),
                }),
                ReviewMode::Repair => Some(Permissions {
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
