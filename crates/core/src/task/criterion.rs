//! Criteria: what must hold before a task is done, and the receipts that say that it does.

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

/// How many criteria a task may have.
pub const MAX_CRITERIA: usize = 200;

/// How many letters and digits a text has at least that says anything: evidence, a criterion, a reason of a manager.
pub const MIN_EVIDENCE: usize = 12;

/// How many of them differ at least: one letter over and over says nothing either.
const MIN_DIFFERENT: usize = 4;

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
    /// Two pictures that Provost compares.
    Pictures(Box<Pictures>),
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

    pub(super) fn signed(self, actor: &Actor) -> Evidence {
        match self {
            Evidence::Asserted { text, .. } => {
                Evidence::Asserted { text, by: actor.name().to_owned() }
            }
            Evidence::Verified(receipt) => Evidence::Verified(receipt),
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
    #[error("{0}; tell what was done and what came of it")]
    SaysNothing(#[from] SaysNothing),
}

/// A text that is too short to say anything, as far as it is told.
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

    /// Gives what Provost itself does to see whether it holds; none if somebody's word is enough.
    pub fn check(&self) -> Option<Check> {
        match self {
            Needs::Verified { check } => Some(Check { command: check.clone(), pictures: None }),
            Needs::Pictures(pictures) => Some(Check::of(pictures)),
            Needs::Asserted => None,
        }
    }

    /// Says whether evidence is what is needed.
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

/// What Provost does to see whether something holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A command that it runs, or what stands for one in a receipt.
    pub command: String,
    /// The pictures that it compares instead.
    pub pictures: Option<Box<Pictures>>,
}

impl Check {
    pub(super) fn of(pictures: &Pictures) -> Check {
        Check { command: pictures.command(), pictures: Some(Box::new(pictures.clone())) }
    }
}

/// An empty text, or one of a letter, says nothing.
pub(super) fn says_something(text: &str) -> Result<(), SaysNothing> {
    let letters = || text.chars().filter(|letter| letter.is_alphanumeric());
    let different: BTreeSet<char> = letters().collect();
    match letters().take(MIN_EVIDENCE).count() == MIN_EVIDENCE && different.len() >= MIN_DIFFERENT {
        true => Ok(()),
        false => Err(SaysNothing(text.chars().take(40).collect())),
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
    /// Gives the reason, where one is given.
    pub(super) fn because(&self) -> Option<&str> {
        match self {
            Judgement::Defer { because }
            | Judgement::Reject { because }
            | Judgement::Reopen { because } => Some(because),
            Judgement::Accept | Judgement::Satisfy { .. } => None,
        }
    }

    /// Nobody signs for another: what somebody asserts is said by whoever brings it.
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
    /// Who manages, and laid aside what the user asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by: Option<String>,
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
