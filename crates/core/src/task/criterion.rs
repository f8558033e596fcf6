//! Criteria that must hold before a team's goal is done, and the receipts that satisfy them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    member::{Actor, Role},
    pictures::Pictures,
};
use crate::{
    ids::TreeId,
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

/// Maximum number of criteria of a team.
pub const MAX_CRITERIA: usize = 200;

/// Minimum number of letters and digits in evidence, in a criterion and in a manager's reason.
pub const MIN_EVIDENCE: usize = 12;

/// Minimum number of different letters among them, so that one repeated letter is rejected.
const MIN_DIFFERENT: usize = 4;

/// The origin of a criterion.
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

    /// Returns the source for a role. An actor without a role is the user.
    pub fn of(role: Option<Role>) -> Source {
        match role {
            None => Source::User,
            Some(Role::Manager) => Source::Manager,
            Some(Role::Worker) => Source::Worker,
            Some(Role::Reviewer) => Source::Audit,
        }
    }
}

/// The kind of evidence that satisfies a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A command that Provost runs on the final tree.
    Verified { check: String },
    /// Two pictures that Provost compares.
    Pictures(Box<Pictures>),
    /// An assertion, shown as such.
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

    pub(super) fn signed(self, actor: &Actor) -> Evidence {
        match self {
            Evidence::Asserted { text, .. } => {
                Evidence::Asserted { text, by: actor.name().to_owned() }
            }
            Evidence::Verified(receipt) => Evidence::Verified(receipt),
        }
    }
}

/// Why evidence is insufficient.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Insufficient {
    #[error("it needs a receipt of `{0}`, which Provost runs itself; an assertion is not enough")]
    NeedsCheck(String),
    #[error("the check failed")]
    CheckFailed,
    #[error("the receipt is for another command")]
    OtherCheck,
    #[error("{0}; describe what was done and the result")]
    SaysNothing(#[from] SaysNothing),
}

/// The start of a text that is too short to be meaningful.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" says too little: at least {MIN_EVIDENCE} letters or digits are needed, and not the same few"
)]
pub struct SaysNothing(pub String);

impl Needs {
    /// Returns the command that Provost runs for it.
    pub fn command(&self) -> Option<&str> {
        match self {
            Needs::Verified { check } => Some(check),
            Needs::Pictures(_) | Needs::Asserted => None,
        }
    }

    /// Returns the check that Provost runs; none if an assertion is enough.
    pub fn check(&self) -> Option<Check> {
        match self {
            Needs::Verified { check } => Some(Check { command: check.clone(), pictures: None }),
            Needs::Pictures(pictures) => Some(Check::of(pictures)),
            Needs::Asserted => None,
        }
    }

    /// Checks that the evidence is of the required kind.
    pub fn met_by(&self, evidence: &Evidence) -> Result<(), Insufficient> {
        match (self.check(), evidence) {
            (Some(check), Evidence::Asserted { .. }) => {
                Err(Insufficient::NeedsCheck(check.command))
            }
            (Some(check), Evidence::Verified(receipt)) => match &receipt.end {
                _ if receipt.command != check.command => Err(Insufficient::OtherCheck),
                CheckEnd::Exit(0) => Ok(()),
                CheckEnd::Exit(_)
                | CheckEnd::Signal(_)
                | CheckEnd::TimeLimit
                | CheckEnd::OutputLimit
                | CheckEnd::Unfinished(_) => Err(Insufficient::CheckFailed),
            },
            (None, Evidence::Verified(_)) => Ok(()),
            (None, Evidence::Asserted { text, .. }) => Ok(says_something(text)?),
        }
    }
}

/// A check that Provost runs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The command to run, or its replacement text in the receipt of a comparison.
    pub command: String,
    /// The pictures to compare instead.
    pub pictures: Option<Box<Pictures>>,
}

impl Check {
    pub(super) fn of(pictures: &Pictures) -> Check {
        Check { command: pictures.command(), pictures: Some(Box::new(pictures.clone())) }
    }
}

/// Rejects texts with too few letters to be meaningful.
pub(super) fn says_something(text: &str) -> Result<(), SaysNothing> {
    let letters = || text.chars().filter(|letter| letter.is_alphanumeric());
    let different: BTreeSet<char> = letters().collect();
    if letters().take(MIN_EVIDENCE).count() == MIN_EVIDENCE && different.len() >= MIN_DIFFERENT {
        Ok(())
    } else {
        Err(SaysNothing(text.chars().take(40).collect()))
    }
}

/// The state of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionState {
    Proposed,
    Accepted,
    Satisfied { evidence: Evidence },
    Deferred { because: String },
    Rejected { because: String },
}

/// A decision about a criterion.
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
    /// A satisfied, deferred or rejected criterion is required again.
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

    /// Returns the state after a judgement, if the transition is legal.
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
    /// Returns the reason, if the judgement has one.
    pub(super) fn because(&self) -> Option<&str> {
        match self {
            Judgement::Defer { because }
            | Judgement::Reject { because }
            | Judgement::Reopen { because } => Some(because),
            Judgement::Accept | Judgement::Satisfy { .. } => None,
        }
    }

    /// Signs an assertion with the actor who makes it, so that no one can sign for another.
    pub(super) fn signed(self, actor: &Actor) -> Judgement {
        match self {
            Judgement::Satisfy { evidence } => {
                Judgement::Satisfy { evidence: evidence.signed(actor) }
            }
            other @ (Judgement::Accept
            | Judgement::Defer { .. }
            | Judgement::Reject { .. }
            | Judgement::Reopen { .. }) => other,
        }
    }

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

/// A criterion that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Sequence number within the team.
    pub no: u32,
    pub text: String,
    pub source: Source,
    pub rationale: Option<String>,
    pub needs: Needs,
    pub state: CriterionState,
    pub since: Moment,
    /// The manager who deferred or rejected a criterion that the user asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by: Option<String>,
}

impl Criterion {
    /// Whether the criterion blocks the finish. A proposed one does too, until it is accepted or
    /// rejected.
    pub fn is_open(&self) -> bool {
        match self.state {
            CriterionState::Proposed | CriterionState::Accepted => true,
            CriterionState::Satisfied { .. }
            | CriterionState::Deferred { .. }
            | CriterionState::Rejected { .. } => false,
        }
    }

    /// Returns the tree of its receipt, if a check satisfied it.
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
