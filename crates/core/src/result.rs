//! Structured results: what a stage of a run wants to be told at its end, besides how the work stands.
//!
//! They are an agent's words, typed: they can name findings, and can set no state.

use serde::{Deserialize, Serialize};

/// The most findings that one review may tell; what is beyond is not a review but a flood.
pub const MAX_FINDINGS: usize = 200;

/// Which form of result a session's agent is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultForm {
    /// How the work stands, and nothing else.
    #[default]
    Plain,
    Triage,
    Plan,
    PlanReview,
    Review,
}

/// What an agent told in the form that it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    Triage(Triage),
    /// A plan, or a review of one, as JSON in the agent's own words: what is no plan is told to the agent.
    Plan(String),
    PlanReview(String),
    Review(Review),
}

/// What is to be done, as the agent understood it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triage {
    pub understanding: String,
    /// Whether the agent holds one task for too little.
    pub needs_plan: bool,
}

/// What a reviewer found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub findings: Vec<Finding>,
}

/// One thing that a reviewer found.
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
    /// Whether the reviewer says that it mended this itself. Only the checks can confirm that.
    #[serde(default)]
    pub repaired: bool,
}

/// How much a finding weighs, as the reviewer says.
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

    pub fn word(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }
}

impl Structured {
    pub fn form(&self) -> ResultForm {
        match self {
            Structured::Triage(_) => ResultForm::Triage,
            Structured::Plan(_) => ResultForm::Plan,
            Structured::PlanReview(_) => ResultForm::PlanReview,
            Structured::Review(_) => ResultForm::Review,
        }
    }
}

impl Review {
    /// Gives what the reviewer left for others.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.repaired)
    }
}
