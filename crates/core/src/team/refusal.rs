//! Recorded refusals: actions that a member requested but was not allowed to perform or could not prove.

use super::{
    command::{TeamCommand, TeamRejection},
    event::*,
    manager::TeamAction,
    member::TeamActor,
    state::Team,
};
use serde::{Deserialize, Serialize};

/// Maximum number of refusals to record per team.
pub const MAX_REFUSALS: usize = 100;

/// A refused action. Each distinct refusal is recorded only once, so that repeating the request
/// cannot fill up the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRefusal {
    pub by: TeamActor,
    pub action: TeamAction,
    pub code: String,
}

impl TeamRejection {
    /// Whether the refusal belongs in the audit record, because a permission or a proof is missing.
    /// Late, unknown and duplicate requests are not recorded.
    fn is_recorded(&self) -> bool {
        match self {
            TeamRejection::NotForRole { .. }
            | TeamRejection::RecordNotAllowed { .. }
            | TeamRejection::ReviewerChooses
            | TeamRejection::OperatorsLoop(_)
            | TeamRejection::KindNotAllowed(_)
            | TeamRejection::OperatorConsents
            | TeamRejection::OperatorAllows(_)
            | TeamRejection::NeedsConsent(_)
            | TeamRejection::DeniedCommand { .. }
            | TeamRejection::NotGranted(_)
            | TeamRejection::ContractNotAccepted(_)
            | TeamRejection::NoMove(_)
            | TeamRejection::NotRecipient(_)
            | TeamRejection::StaleLease(_)
            | TeamRejection::IllegalJudgement { .. }
            | TeamRejection::Insufficient(_)
            | TeamRejection::EvidenceMismatch(_)
            | TeamRejection::Blocked(_)
            | TeamRejection::NotReady(_)
            | TeamRejection::WorkerFirst
            | TeamRejection::OwnProposal
            | TeamRejection::InboxFull(..)
            | TeamRejection::TooLong(_) => true,
            TeamRejection::NothingNew
            | TeamRejection::TeamOver(_)
            | TeamRejection::NoMember { .. }
            | TeamRejection::BadName(_)
            | TeamRejection::TextTooShort(_)
            | TeamRejection::NameTaken(_)
            | TeamRejection::NameReserved(_)
            | TeamRejection::SessionTaken
            | TeamRejection::NoMessage(_)
            | TeamRejection::NoLease { .. }
            | TeamRejection::KeyTaken(_)
            | TeamRejection::NoWorker(_)
            | TeamRejection::MessageIs { .. }
            | TeamRejection::NoCriterion(_)
            | TeamRejection::NoSuchCommand(_)
            | TeamRejection::TooManyCriteria(_)
            | TeamRejection::NothingToCheck
            | TeamRejection::NoPictures
            | TeamRejection::OtherPictures
            | TeamRejection::BadFiles(_)
            | TeamRejection::NoWorkToCheck
            | TeamRejection::NoLoop
            | TeamRejection::LoopRuns(_)
            | TeamRejection::BadTemplate(_)
            | TeamRejection::NoSuchEvidence(_)
            | TeamRejection::OtherIteration { .. }
            | TeamRejection::StaleRevision { .. }
            | TeamRejection::AlreadyProposed(_)
            | TeamRejection::ProposalsMissing
            | TeamRejection::BeingAudited
            | TeamRejection::MessagesOpen { .. }
            | TeamRejection::HandoverToSelf(_)
            | TeamRejection::NotPaused
            | TeamRejection::NoSession(_)
            | TeamRejection::SessionRejected { .. } => false,
        }
    }
}

impl Team {
    /// Returns the event that records a refusal, if it should be recorded.
    pub fn refusal_event(
        &self,
        by: &TeamActor,
        command: &TeamCommand,
        why: &TeamRejection,
    ) -> Option<Event> {
        // Don't record rejected requests from the operator or from Provost itself.
        let of_member = matches!(by, TeamActor::Member(_) | TeamActor::Policy);
        if !of_member || !why.is_recorded() {
            return None;
        }
        let action = command.action()?;
        let refusal = RecordedRefusal { by: by.clone(), action, code: why.code().to_owned() };
        let new = !self.phase.is_over()
            && self.refused.len() < MAX_REFUSALS
            && !self.refused.contains(&refusal);
        let RecordedRefusal { by, action, code } = refusal;
        new.then(|| ActionRefused { by, action, code, why: why.to_string() }.into())
    }

    pub(super) fn add_refusal(&mut self, e: &ActionRefused) {
        let (by, action, code) = (e.by.clone(), e.action, e.code.clone());
        self.refused.push(RecordedRefusal { by, action, code });
    }
}
