//! Criteria: what must hold before a task is done, and the receipts that say that it does.

use serde::{Deserialize, Serialize};

use super::member::Role;
use crate::{
    ids::TreeId,
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

/// How many criteria a task may have.
pub const MAX_CRITERIA: usize = 200;

/// The shortest evidence that says anything.
pub const MIN_EVIDENCE: usize = 12;

/// Who brought a criterion up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    User,
    Manager,
    Worker,
    Audit,
}

impl Source {
    pub const ALL: [Source; 4] = [Source::User, Source::Manager, Source::Worker, Source::Audit];

    pub fn word(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::Manager => "manager",
            Source::Worker => "worker",
            Source::Audit => "audit",
        }
    }

    /// Gives the source that a member of this role is; who has none is the user.
    pub fn of(role: Option<Role>) -> Source {
        match role {
            None => Source::User,
            Some(Role::Manager) => Source::Manager,
            Some(Role::Worker) => Source::Worker,
            Some(Role::Reviewer) => Source::Audit,
        }
    }
}

/// What kind of receipt satisfies a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A command that Provost runs on the tree that is to be finished.
    Verified { check: String },
    /// Somebody's word, shown as such.
    Asserted,
}

/// The evidence for a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    Verified(Box<Receipt>),
    Asserted { text: String, by: String },
}

impl Evidence {
    pub fn word(&self) -> &'static str {
        match self {
            Evidence::Verified(_) => "verified",
            Evidence::Asserted { .. } => "asserted",
        }
    }
}

/// Why evidence satisfies nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Insufficient {
    #[error(
        "it needs a receipt of `{0}`, which Provost runs itself; somebody's word is not enough"
    )]
    NeedsCheck(String),
    #[error("the check ended otherwise than well")]
    CheckFailed,
    #[error("the receipt is of another command")]
    OtherCheck,
    #[error(
        "\"{0}\" says nothing that could be checked: tell what was done and what came of it, in {MIN_EVIDENCE} characters at least"
    )]
    SaysNothing(String),
}

impl Needs {
    /// Says whether evidence is what is needed.
    pub fn met_by(&self, evidence: &Evidence) -> Result<(), Insufficient> {
        match (self, evidence) {
            (Needs::Verified { check }, Evidence::Asserted { .. }) => {
                Err(Insufficient::NeedsCheck(check.clone()))
            }
            (Needs::Verified { check }, Evidence::Verified(receipt)) => match &receipt.end {
                _ if receipt.command != *check => Err(Insufficient::OtherCheck),
                CheckEnd::Exit(0) => Ok(()),
                CheckEnd::Exit(_)
                | CheckEnd::Signal(_)
                | CheckEnd::TimeLimit
                | CheckEnd::OutputLimit
                | CheckEnd::Unfinished(_) => Err(Insufficient::CheckFailed),
            },
            (Needs::Asserted, Evidence::Verified(_)) => Ok(()),
            (Needs::Asserted, Evidence::Asserted { text, .. }) => says_something(text),
        }
    }
}

/// An empty receipt, or one of a letter, satisfies nothing.
pub(super) fn says_something(text: &str) -> Result<(), Insufficient> {
    let letters = text.chars().filter(|letter| letter.is_alphanumeric()).count();
    match letters >= MIN_EVIDENCE {
        true => Ok(()),
        false => Err(Insufficient::SaysNothing(text.chars().take(40).collect())),
    }
}

/// How a criterion stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionState {
    Proposed,
    Accepted,
    Satisfied { evidence: Evidence },
    Deferred { because: String },
    Rejected { because: String },
}

/// What is made of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    Accept,
    Satisfy {
        evidence: Evidence,
    },
    Defer {
        because: String,
    },
    Reject {
        because: String,
    },
    /// What was satisfied, deferred or rejected is to hold after all.
    Reopen {
        because: String,
    },
}

impl CriterionState {
    pub fn word(&self) -> &'static str {
        match self {
            CriterionState::Proposed => "proposed",
            CriterionState::Accepted => "accepted",
            CriterionState::Satisfied { .. } => "satisfied",
            CriterionState::Deferred { .. } => "deferred",
            CriterionState::Rejected { .. } => "rejected",
        }
    }

    /// Gives the state that a judgement leads to, where it leads anywhere.
    pub fn after(&self, judgement: &Judgement) -> Option<CriterionState> {
        use CriterionState::{Accepted, Deferred, Proposed, Rejected, Satisfied};
        match (self, judgement) {
            (Proposed | Deferred { .. }, Judgement::Accept) => Some(Accepted),
            (Accepted, Judgement::Satisfy { evidence }) => {
                Some(Satisfied { evidence: evidence.clone() })
            }
            (Proposed | Accepted, Judgement::Defer { because }) => {
                Some(Deferred { because: because.clone() })
            }
            (Proposed | Accepted | Deferred { .. }, Judgement::Reject { because }) => {
                Some(Rejected { because: because.clone() })
            }
            (Satisfied { .. } | Deferred { .. } | Rejected { .. }, Judgement::Reopen { .. }) => {
                Some(Accepted)
            }
            (Accepted | Satisfied { .. } | Rejected { .. }, Judgement::Accept)
            | (
                Proposed | Satisfied { .. } | Deferred { .. } | Rejected { .. },
                Judgement::Satisfy { .. },
            )
            | (Satisfied { .. } | Deferred { .. } | Rejected { .. }, Judgement::Defer { .. })
            | (Satisfied { .. } | Rejected { .. }, Judgement::Reject { .. })
            | (Proposed | Accepted, Judgement::Reopen { .. }) => None,
        }
    }
}

impl Judgement {
    pub fn word(&self) -> &'static str {
        match self {
            Judgement::Accept => "accept",
            Judgement::Satisfy { .. } => "satisfy",
            Judgement::Defer { .. } => "defer",
            Judgement::Reject { .. } => "reject",
            Judgement::Reopen { .. } => "reopen",
        }
    }
}

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Counts the criteria of the task.
    pub no: u32,
    pub text: String,
    pub source: Source,
    pub rationale: Option<String>,
    pub needs: Needs,
    pub state: CriterionState,
    pub since: Moment,
}

impl Criterion {
    /// Says whether it keeps the task from being finished. What is only proposed does too: somebody has to say
    /// whether it must hold.
    pub fn is_open(&self) -> bool {
        match self.state {
            CriterionState::Proposed | CriterionState::Accepted => true,
            CriterionState::Satisfied { .. }
            | CriterionState::Deferred { .. }
            | CriterionState::Rejected { .. } => false,
        }
    }

    /// Gives the tree that its receipt is about, if a check satisfied it.
    pub fn proved_tree(&self) -> Option<&TreeId> {
        match &self.state {
            CriterionState::Satisfied { evidence: Evidence::Verified(receipt) } => {
                Some(&receipt.tree)
            }
            CriterionState::Satisfied { evidence: Evidence::Asserted { .. } }
            | CriterionState::Proposed
            | CriterionState::Accepted
            | CriterionState::Deferred { .. }
            | CriterionState::Rejected { .. } => None,
        }
    }
}
