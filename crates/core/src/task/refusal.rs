//! Recorded refusals: actions that a member requested but may not perform, or could not prove.

use super::{
    command::{Command, Rejected},
    event::*,
    manager::Action,
    member::Actor,
    state::Task,
};
use serde::{Deserialize, Serialize};

/// Number of refusals that a team records.
pub const MAX_REFUSALS: usize = 100;

/// An action that a member was refused. Each distinct refusal is recorded once, so that repeating
/// the request cannot fill the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub by: Actor,
    pub action: Action,
    pub code: String,
}

impl Rejected {
    /// Whether the refusal belongs in the audit record: a missing permission or a missing proof.
    /// Late, unknown and duplicate requests are not recorded.
    fn is_kept(&self) -> bool {
        match self {
            Rejected::NotForRole { .. }
            | Rejected::NotToRecord { .. }
            | Rejected::ReviewerChooses
            | Rejected::OperatorsLoop(_)
            | Rejected::NotToPost(_)
            | Rejected::OperatorConsents
            | Rejected::OperatorAllows(_)
            | Rejected::NeedsConsent(_)
            | Rejected::DeniedCommand { .. }
            | Rejected::NotGranted(_)
            | Rejected::NotAcknowledged(_)
            | Rejected::NoMove(_)
            | Rejected::NotYours(_)
            | Rejected::StaleLease(_)
            | Rejected::IllegalJudgement { .. }
            | Rejected::Insufficient(_)
            | Rejected::Unfit(_)
            | Rejected::Blocked(_)
            | Rejected::NotReady(_)
            | Rejected::WorkerFirst
            | Rejected::OwnProposal
            | Rejected::Full(..)
            | Rejected::TooLong(_) => true,
            Rejected::Nothing
            | Rejected::Over(_)
            | Rejected::NoMember { .. }
            | Rejected::BadName(_)
            | Rejected::SaysNothing(_)
            | Rejected::NameTaken(_)
            | Rejected::NameReserved(_)
            | Rejected::SessionTaken
            | Rejected::NoMessage(_)
            | Rejected::NoLease { .. }
            | Rejected::KeyTaken(_)
            | Rejected::NoWorker(_)
            | Rejected::MessageIs { .. }
            | Rejected::NoCriterion(_)
            | Rejected::NoSuchCommand(_)
            | Rejected::TooManyCriteria(_)
            | Rejected::NothingToCheck
            | Rejected::NoPictures
            | Rejected::OtherPictures
            | Rejected::BadFiles(_)
            | Rejected::NoWork
            | Rejected::NoLoop
            | Rejected::LoopRuns(_)
            | Rejected::BadTemplate(_)
            | Rejected::NoSuchEvidence(_)
            | Rejected::OtherIteration { .. }
            | Rejected::Revision { .. }
            | Rejected::Proposed(_)
            | Rejected::NotBoth
            | Rejected::BeingAudited
            | Rejected::MessagesOpen { .. }
            | Rejected::OwnSuccessor(_)
            | Rejected::NotPaused
            | Rejected::NoSession(_)
            | Rejected::NotTaken { .. } => false,
        }
    }
}

impl Task {
    /// Returns the event that records a refusal, if it should be recorded.
    pub fn keep_refusal(&self, by: &Actor, command: &Command, why: &Rejected) -> Option<Event> {
        // Rejected requests of the operator and of Provost itself are not recorded.
        let of_member = matches!(by, Actor::Member(_) | Actor::Policy);
        if !of_member || !why.is_kept() {
            return None;
        }
        let action = command.action()?;
        let refusal = Refusal { by: by.clone(), action, code: why.code().to_owned() };
        let new = !self.phase.is_over()
            && self.refused.len() < MAX_REFUSALS
            && !self.refused.contains(&refusal);
        let Refusal { by, action, code } = refusal;
        new.then(|| ActionRefused { by, action, code, why: why.to_string() }.into())
    }

    pub(super) fn refuse(&mut self, e: &ActionRefused) {
        let (by, action, code) = (e.by.clone(), e.action, e.code.clone());
        self.refused.push(Refusal { by, action, code });
    }
}
