//! Structured results that a run's stage requests from an agent, in addition to the status of the
//! work.
//!
//! A result is only a statement by the agent: it can list findings, but it cannot change any state.

use serde::{Deserialize, Serialize};

/// The maximum number of findings in one review. A review with more findings is rejected.
pub const MAX_FINDINGS: usize = 200;

/// The form in which a session's agent must return its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultForm {
    /// No result other than the status of the work.
    #[default]
    Plain,
    Triage,
    Plan,
    PlanReview,
    Review,
}

/// A result in the requested form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredResult {
    Triage(Triage),
    /// A plan, or a review of one, as the agent's JSON. An invalid plan is returned to the agent
    /// together with the errors.
    Plan(String),
    PlanReview(String),
    Review(Review),
}

/// The agent's understanding of the goal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triage {
    pub understanding: String,
    /// Whether the agent considers the goal too large for one task.
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
    /// Whether the reviewer claims to have fixed the problem. Only the checks can confirm this.
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
