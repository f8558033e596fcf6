//! Criteria that must hold before a team's goal is done, and the evidence that satisfies them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    member::{MemberRole, TeamActor},
    pictures::PictureCheck,
};
use crate::{
    ids::TreeId,
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

/// Maximum number of criteria per team.
pub const MAX_CRITERIA: usize = 200;

/// Minimum number of letters and digits in evidence, in a criterion, and in a manager's reason.
pub const MIN_TEXT_LETTERS: usize = 12;

/// Minimum number of distinct letters and digits, so that repetitions of one letter are rejected.
const MIN_DISTINCT_LETTERS: usize = 4;

/// The origin of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionSource {
    User,
    Manager,
    Worker,
    Audit,
}

impl CriterionSource {
    pub const ALL: [CriterionSource; 4] = [
        CriterionSource::User,
        CriterionSource::Manager,
        CriterionSource::Worker,
        CriterionSource::Audit,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CriterionSource::User => "user",
            CriterionSource::Manager => "manager",
            CriterionSource::Worker => "worker",
            CriterionSource::Audit => "audit",
        }
    }

    /// Returns the source for a role. An actor without a role is the user.
    pub fn from_role(role: Option<MemberRole>) -> CriterionSource {
        match role {
            None => CriterionSource::User,
            Some(MemberRole::Manager) => CriterionSource::Manager,
            Some(MemberRole::Worker) => CriterionSource::Worker,
            Some(MemberRole::Reviewer) => CriterionSource::Audit,
        }
    }
}

/// The kind of evidence that a criterion requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceRequirement {
    /// A command that Provost runs on the final tree.
    Verified { check: String },
    /// Two pictures that Provost compares.
    Pictures(Box<PictureCheck>),
    /// A member's assertion, which is marked as an assertion wherever it is shown.
    Asserted,
}

/// The evidence for a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionEvidence {
    Verified(Box<Receipt>),
    Asserted { text: String, by: String },
}

impl CriterionEvidence {
    pub fn as_str(&self) -> &'static str {
        match self {
            CriterionEvidence::Verified(_) => "verified",
            CriterionEvidence::Asserted { .. } => "asserted",
        }
    }

    pub(super) fn sign(self, actor: &TeamActor) -> CriterionEvidence {
        match self {
            CriterionEvidence::Asserted { text, .. } => {
                CriterionEvidence::Asserted { text, by: actor.name().to_owned() }
            }
            CriterionEvidence::Verified(receipt) => CriterionEvidence::Verified(receipt),
        }
    }
}

/// The reason why evidence is insufficient.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsufficientEvidence {
    #[error(
        "the criterion needs a receipt for `{0}`, which Provost runs itself; an assertion is not enough"
    )]
    NeedsCheck(String),
    #[error("the check failed")]
    CheckFailed,
    #[error("the receipt is for another command")]
    OtherCheck,
    #[error("{0}; describe what was done and the result")]
    SaysNothing(#[from] TextTooShort),
}

/// The start of a text that is too short to be meaningful.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is too short: expected at least {MIN_TEXT_LETTERS} letters or digits, at least {MIN_DISTINCT_LETTERS} of them different"
)]
pub struct TextTooShort(pub String);

impl EvidenceRequirement {
    /// Returns the command that Provost runs to obtain the evidence, if there is one.
    pub fn command(&self) -> Option<&str> {
        match self {
            EvidenceRequirement::Verified { check } => Some(check),
            EvidenceRequirement::Pictures(_) | EvidenceRequirement::Asserted => None,
        }
    }

    /// Returns the check that Provost runs. None if an assertion is enough.
    pub fn check(&self) -> Option<ProvostCheck> {
        match self {
            EvidenceRequirement::Verified { check } => {
                Some(ProvostCheck { command: check.clone(), pictures: None })
            }
            EvidenceRequirement::Pictures(pictures) => Some(ProvostCheck::from_pictures(pictures)),
            EvidenceRequirement::Asserted => None,
        }
    }

    /// Checks that the evidence is of the required kind.
    pub fn check_evidence(&self, evidence: &CriterionEvidence) -> Result<(), InsufficientEvidence> {
        match (self.check(), evidence) {
            (Some(check), CriterionEvidence::Asserted { .. }) => {
                Err(InsufficientEvidence::NeedsCheck(check.command))
            }
            (Some(check), CriterionEvidence::Verified(receipt)) => match &receipt.end {
                _ if receipt.command != check.command => Err(InsufficientEvidence::OtherCheck),
                CheckEnd::Exit(0) => Ok(()),
                CheckEnd::Exit(_)
                | CheckEnd::Signal(_)
                | CheckEnd::TimeLimit
                | CheckEnd::OutputLimit
                | CheckEnd::Unfinished(_) => Err(InsufficientEvidence::CheckFailed),
            },
            (None, CriterionEvidence::Verified(_)) => Ok(()),
            (None, CriterionEvidence::Asserted { text, .. }) => Ok(check_meaningful(text)?),
        }
    }
}

/// A check that Provost runs itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvostCheck {
    /// The command to run. For a comparison of pictures, the text that the receipt shows as its command.
    pub command: String,
    /// The pictures to compare instead of running a command.
    pub pictures: Option<Box<PictureCheck>>,
}

impl ProvostCheck {
    pub(super) fn from_pictures(pictures: &PictureCheck) -> ProvostCheck {
        ProvostCheck { command: pictures.command(), pictures: Some(Box::new(pictures.clone())) }
    }
}

/// Rejects a text with too few letters and digits to be meaningful.
pub(super) fn check_meaningful(text: &str) -> Result<(), TextTooShort> {
    let letters = || text.chars().filter(|letter| letter.is_alphanumeric());
    let different: BTreeSet<char> = letters().collect();
    if letters().take(MIN_TEXT_LETTERS).count() == MIN_TEXT_LETTERS
        && different.len() >= MIN_DISTINCT_LETTERS
    {
        Ok(())
    } else {
        Err(TextTooShort(text.chars().take(40).collect()))
    }
}

/// The state of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionState {
    Proposed,
    Accepted,
    Satisfied { evidence: CriterionEvidence },
    Deferred { because: String },
    Rejected { because: String },
}

/// A decision about a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionJudgement {
    Accept,
    Satisfy {
        evidence: CriterionEvidence,
    },
    Defer {
        because: String,
    },
    Reject {
        because: String,
    },
    /// A satisfied, deferred or rejected criterion becomes required again.
    Reopen {
        because: String,
    },
}

impl CriterionState {
    pub fn as_str(&self) -> &'static str {
        match self {
            CriterionState::Proposed => "proposed",
            CriterionState::Accepted => "accepted",
            CriterionState::Satisfied { .. } => "satisfied",
            CriterionState::Deferred { .. } => "deferred",
            CriterionState::Rejected { .. } => "rejected",
        }
    }

    /// Returns the state after a judgement, or None if the transition is not allowed.
    pub fn after(&self, judgement: &CriterionJudgement) -> Option<CriterionState> {
        use CriterionState::{Accepted, Deferred, Proposed, Rejected, Satisfied};
        match (self, judgement) {
            (Proposed | Deferred { .. }, CriterionJudgement::Accept) => Some(Accepted),
            (Accepted, CriterionJudgement::Satisfy { evidence }) => {
                Some(Satisfied { evidence: evidence.clone() })
            }
            (Proposed | Accepted, CriterionJudgement::Defer { because }) => {
                Some(Deferred { because: because.clone() })
            }
            (Proposed | Accepted | Deferred { .. }, CriterionJudgement::Reject { because }) => {
                Some(Rejected { because: because.clone() })
            }
            (
                Satisfied { .. } | Deferred { .. } | Rejected { .. },
                CriterionJudgement::Reopen { .. },
            ) => Some(Accepted),
            (Accepted | Satisfied { .. } | Rejected { .. }, CriterionJudgement::Accept)
            | (
                Proposed | Satisfied { .. } | Deferred { .. } | Rejected { .. },
                CriterionJudgement::Satisfy { .. },
            )
            | (
                Satisfied { .. } | Deferred { .. } | Rejected { .. },
                CriterionJudgement::Defer { .. },
            )
            | (Satisfied { .. } | Rejected { .. }, CriterionJudgement::Reject { .. })
            | (Proposed | Accepted, CriterionJudgement::Reopen { .. }) => None,
        }
    }
}

impl CriterionJudgement {
    /// Returns the reason given with the judgement, if there is one.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            CriterionJudgement::Defer { because }
            | CriterionJudgement::Reject { because }
            | CriterionJudgement::Reopen { because } => Some(because),
            CriterionJudgement::Accept | CriterionJudgement::Satisfy { .. } => None,
        }
    }

    /// Signs an assertion with the actor who makes it, so that no one can sign on behalf of another.
    pub(super) fn sign(self, actor: &TeamActor) -> CriterionJudgement {
        match self {
            CriterionJudgement::Satisfy { evidence } => {
                CriterionJudgement::Satisfy { evidence: evidence.sign(actor) }
            }
            other @ (CriterionJudgement::Accept
            | CriterionJudgement::Defer { .. }
            | CriterionJudgement::Reject { .. }
            | CriterionJudgement::Reopen { .. }) => other,
        }
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            CriterionJudgement::Accept => "accept",
            CriterionJudgement::Satisfy { .. } => "satisfy",
            CriterionJudgement::Defer { .. } => "defer",
            CriterionJudgement::Reject { .. } => "reject",
            CriterionJudgement::Reopen { .. } => "reopen",
        }
    }
}

/// A criterion that must hold before the team's goal is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Sequence number within the team.
    pub no: u32,
    pub text: String,
    pub source: CriterionSource,
    pub rationale: Option<String>,
    pub needs: EvidenceRequirement,
    pub state: CriterionState,
    pub since: Moment,
    /// The manager who deferred or rejected the criterion, if it came from the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by: Option<String>,
}

impl Criterion {
    /// Whether the criterion blocks the finish. A proposed criterion blocks the finish until it is
    /// accepted or rejected.
    pub fn is_open(&self) -> bool {
        match self.state {
            CriterionState::Proposed | CriterionState::Accepted => true,
            CriterionState::Satisfied { .. }
            | CriterionState::Deferred { .. }
            | CriterionState::Rejected { .. } => false,
        }
    }

    /// Returns the tree on which the check passed, if a check satisfied the criterion.
    pub fn proved_tree(&self) -> Option<&TreeId> {
        match &self.state {
            CriterionState::Satisfied { evidence: CriterionEvidence::Verified(receipt) } => {
                Some(&receipt.tree)
            }
            CriterionState::Satisfied { evidence: CriterionEvidence::Asserted { .. } }
            | CriterionState::Proposed
            | CriterionState::Accepted
            | CriterionState::Deferred { .. }
            | CriterionState::Rejected { .. } => None,
        }
    }
}
