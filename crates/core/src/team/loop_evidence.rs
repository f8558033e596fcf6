//! The evidence that an iteration of a loop requires, and that its members show.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    criterion::{CriterionEvidence, InsufficientEvidence, check_meaningful},
    loop_state::LoopProof,
    pictures::PictureInfo,
};
use crate::{
    ids::TreeId,
    text::{quote_text, visible},
    verdict::CheckEnd,
};

/// The result of challenging the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkChallenge {
    pub failure_mode: String,
    pub check: String,
    pub result: String,
}

/// Two pictures, and the result of Provost's comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureComparison {
    pub expected: String,
    pub actual: String,
    /// The share of pixels that differ, in millionths.
    pub differing: u32,
    /// The color tolerance, in millionths of the value range.
    #[serde(default)]
    pub tolerance: u32,
    #[serde(default)]
    pub expected_is: PictureInfo,
    #[serde(default)]
    pub actual_is: PictureInfo,
}

/// A piece of evidence that was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownEvidence {
    Evidence(CriterionEvidence),
    Challenge(WorkChallenge),
    Artifact(BTreeMap<String, String>),
    Pictures(PictureComparison),
}

/// The reason why submitted evidence does not meet the requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceMismatch {
    #[error(transparent)]
    Insufficient(#[from] InsufficientEvidence),
    #[error("expected {0}")]
    OtherKind(&'static str),
    #[error("the field \"{0}\" is missing or empty")]
    Missing(String),
    #[error("{found} of a million pixels differ, but at most {most} may differ")]
    Differs { found: u32, most: u32 },
    #[error("the pictures have different sizes: expected {}x{} pixels, found {}x{}", .expected.0, .expected.1, .actual.0, .actual.1)]
    OtherSize { expected: (u32, u32), actual: (u32, u32) },
}

impl ShownEvidence {
    /// Returns the tree that the evidence refers to, if one of Provost's own checks produced it.
    pub fn tree(&self) -> Option<&TreeId> {
        match self {
            ShownEvidence::Evidence(CriterionEvidence::Verified(receipt)) => Some(&receipt.tree),
            ShownEvidence::Evidence(CriterionEvidence::Asserted { .. })
            | ShownEvidence::Challenge(_)
            | ShownEvidence::Artifact(_)
            | ShownEvidence::Pictures(_) => None,
        }
    }
}

impl LoopProof {
    /// Describes the required evidence.
    pub fn describe(&self) -> String {
        match self {
            LoopProof::Verified { check } => format!("`{}` passes, run by Provost", visible(check)),
            LoopProof::Asserted => "an assertion, shown as asserted".to_owned(),
            LoopProof::Adversarial => {
                "an attempt to disprove the work: failure_mode, check and result".to_owned()
            }
            LoopProof::Artifact { fields } => format!("the fields {}", fields.join(", ")),
            LoopProof::Pictures { differing, files } => {
                let which = files.as_ref().map_or_else(String::new, |files| {
                    format!(", {} and {}", quote_text(&files.expected), quote_text(&files.actual))
                });
                format!(
                    "two pictures{which}, compared by Provost, that differ in at most {differing} of a million pixels"
                )
            }
        }
    }

    /// Checks that submitted evidence meets the requirement.
    pub fn check_evidence(&self, shown: &ShownEvidence) -> Result<(), EvidenceMismatch> {
        match (self, shown) {
            (
                LoopProof::Verified { check },
                ShownEvidence::Evidence(CriterionEvidence::Verified(receipt)),
            ) => match (receipt.command == *check, receipt.end == CheckEnd::Exit(0)) {
                (true, true) => Ok(()),
                (true, false) => Err(InsufficientEvidence::CheckFailed.into()),
                (false, _) => Err(InsufficientEvidence::OtherCheck.into()),
            },
            (LoopProof::Verified { check }, _) => {
                Err(InsufficientEvidence::NeedsCheck(check.clone()).into())
            }
            (
                LoopProof::Asserted,
                ShownEvidence::Evidence(CriterionEvidence::Asserted { text, .. }),
            ) => Ok(check_meaningful(text).map_err(InsufficientEvidence::from)?),
            (LoopProof::Asserted, ShownEvidence::Evidence(CriterionEvidence::Verified(_))) => {
                Ok(())
            }
            (LoopProof::Adversarial, ShownEvidence::Challenge(challenge)) => {
                for part in [&challenge.failure_mode, &challenge.check, &challenge.result] {
                    check_meaningful(part).map_err(InsufficientEvidence::from)?;
                }
                Ok(())
            }
            (LoopProof::Artifact { fields }, ShownEvidence::Artifact(given)) => {
                let filled =
                    |field: &&String| given.get(*field).is_none_or(|value| value.trim().is_empty());
                let missing = fields.iter().find(filled);
                missing.map_or(Ok(()), |field| Err(EvidenceMismatch::Missing(field.clone())))
            }
            (LoopProof::Pictures { differing, files }, ShownEvidence::Pictures(compared)) => {
                if files.as_ref().is_some_and(|files| !compared.matches_files(files)) {
                    return Err(InsufficientEvidence::OtherCheck.into());
                }
                compared.check_limit(*differing)
            }
            (LoopProof::Asserted, _) => Err(EvidenceMismatch::OtherKind("an assertion as text")),
            (LoopProof::Adversarial, _) => {
                Err(EvidenceMismatch::OtherKind("a challenge: failure_mode, check and result"))
            }
            (LoopProof::Artifact { .. }, _) => {
                Err(EvidenceMismatch::OtherKind("an object with fields"))
            }
            (LoopProof::Pictures { .. }, _) => Err(EvidenceMismatch::OtherKind(
                "two pictures compared by Provost: request their check",
            )),
        }
    }
}

/// Returns the part of the evidence that depends on the work, excluding durations and times.
pub(super) fn evidence_digest(shown: &ShownEvidence) -> String {
    match shown {
        ShownEvidence::Evidence(CriterionEvidence::Verified(receipt)) => {
            format!("{:?} {}", receipt.end, receipt.tree.0)
        }
        ShownEvidence::Evidence(CriterionEvidence::Asserted { text, .. }) => text.clone(),
        ShownEvidence::Challenge(challenge) => {
            format!("{}\n{}\n{}", challenge.failure_mode, challenge.check, challenge.result)
        }
        ShownEvidence::Artifact(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("\n"),
        ShownEvidence::Pictures(compared) => compared.differing.to_string(),
    }
}
