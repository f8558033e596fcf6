//! Structured results that a stage of a run asks an agent for, besides the status of the work.
//!
//! They are typed statements of an agent: they can list findings, but cannot change state.

use serde::{Deserialize, Serialize};

/// The maximum number of findings in one review. A longer list is rejected as a flood.
pub const MAX_FINDINGS: usize = 200;

/// The form of result that a session's agent is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultForm {
    /// The status of the work only.
    #[default]
    Plain,
    Triage,
    Plan,
    PlanReview,
    Review,
}

/// A result in the form that the agent was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredResult {
    Triage(Triage),
    /// A plan, or a review of one, as the agent's JSON. An invalid plan is returned to the agent with
    /// the errors.
    Plan(String),
    PlanReview(String),
    Review(Review),
}

/// The agent's understanding of the goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triage {
    pub understanding: String,
    /// Whether the agent thinks that one task is not enough.
    pub needs_plan: bool,
}

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub findings: Vec<Finding>,
}

/// One problem that a reviewer found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub title: String,
    #[serde(default)]
    pub detail: String,
    pub severity: Severity,
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub line: Option<u32>,
    /// Whether the reviewer claims to have fixed it. Only the checks can confirm that.
    #[serde(default)]
    pub repaired: bool,
}

/// The severity of a finding, as the reviewer rates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

impl Severity {
    pub const ALL: [Severity; 4] =
        [Severity::Low, Severity::Medium, Severity::High, Severity::Critical];

    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }
}

impl StructuredResult {
    pub fn form(&self) -> ResultForm {
        match self {
            StructuredResult::Triage(_) => ResultForm::Triage,
            StructuredResult::Plan(_) => ResultForm::Plan,
            StructuredResult::PlanReview(_) => ResultForm::PlanReview,
            StructuredResult::Review(_) => ResultForm::Review,
        }
    }
}

impl Review {
    /// Returns the findings that the reviewer did not fix.
    pub fn unrepaired(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.repaired)
    }
}
