//! The errors for refused requests about teams, and the commands that they suggest.

use provost_api::{ApiError, ErrorCode, Hint, TeamAction};
use provost_core::{
    ids::{SessionId, TeamId},
    session::Session,
    team::{
        Event, FinishEvent, LoopEvent, Team, TeamActor, TeamCommand, TeamRejection,
        describe_not_finished,
    },
};

use crate::hints;

/// The maximum number of commands to suggest.
const MAX_HINTS: usize = 3;

/// Returns the refusal that an event records, if it records one.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else refuses")]
pub(super) fn recorded_refusal<'s>(
    task: &Team,
    who: &TeamActor,
    event: &Event,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<ApiError> {
    match event {
        Event::Loop(LoopEvent::ContinuationRefused(refused)) => {
            let message = format!("{}: {}", refused.why.code(), refused.why);
            let next = hints::team_hint(task.id.short(), who, TeamAction::LoopStatus);
            Some(ApiError::new(ErrorCode::Refused, message).next(next))
        }
        Event::Finish(FinishEvent::FinishRefused(refused)) => {
            let error = ApiError::new(ErrorCode::Refused, describe_not_finished(&refused.blockers));
            let helps = refused.blockers.iter();
            let helps = helps.filter_map(|one| hints::hint_for_open_blocker(task, who, one, &look));
            let error = helps.take(MAX_HINTS).fold(error, ApiError::next);
            Some(error.next(hints::team_hint(task.id.short(), who, TeamAction::Show)))
        }
        _ => None,
    }
}

pub(super) fn no_team(text: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no team \"{text}\"")).next(Hint::ListTeams)
}

pub(super) fn refused(why: &TeamRejection, id: TeamId) -> ApiError {
    ApiError::new(error_code(why), why.to_string()).next(hints::team_hint(
        id.short(),
        &TeamActor::Operator,
        TeamAction::Show,
    ))
}

/// Like [`refused`], but also suggests a command that helps the caller.
pub(super) fn refused_with_hint(
    why: &TeamRejection,
    id: TeamId,
    who: &TeamActor,
    command: &TeamCommand,
) -> ApiError {
    ApiError::new(error_code(why), why.to_string())
        .next(hints::hint_after_refusal(id, who, command, why))
}

pub(super) fn error_code(why: &TeamRejection) -> ErrorCode {
    match why {
        TeamRejection::NoMember { .. }
        | TeamRejection::NoMessage(_)
        | TeamRejection::NoCriterion(_)
        | TeamRejection::NoSuchEvidence(_) => ErrorCode::NotFound,
        TeamRejection::NotForRole { .. }
        | TeamRejection::RecordNotAllowed { .. }
        | TeamRejection::ReviewerChooses
        | TeamRejection::OperatorsLoop(_)
        | TeamRejection::NotGranted(_)
        | TeamRejection::NotRecipient(_) => ErrorCode::Forbidden,
        TeamRejection::TooLong(_)
        | TeamRejection::BadName(_)
        | TeamRejection::NameReserved(_)
        | TeamRejection::BadTemplate(_)
        | TeamRejection::BadFiles(_)
        | TeamRejection::NoPictures
        | TeamRejection::OtherPictures
        | TeamRejection::EvidenceMismatch(_)
        | TeamRejection::TextTooShort(_)
        | TeamRejection::Insufficient(_) => ErrorCode::BadRequest,
        TeamRejection::NothingNew
        | TeamRejection::TeamOver(_)
        | TeamRejection::KindNotAllowed(_)
        | TeamRejection::OperatorConsents
        | TeamRejection::NoSuchCommand(_)
        | TeamRejection::NeedsConsent(_)
        | TeamRejection::DeniedCommand { .. }
        | TeamRejection::ContractNotAccepted(_)
        | TeamRejection::NoMove(_)
        | TeamRejection::NameTaken(_)
        | TeamRejection::SessionTaken
        | TeamRejection::InboxFull(..)
        | TeamRejection::MessageIs { .. }
        | TeamRejection::StaleLease(_)
        | TeamRejection::NoLease { .. }
        | TeamRejection::KeyTaken(_)
        | TeamRejection::NoWorker(_)
        | TeamRejection::IllegalJudgement { .. }
        | TeamRejection::TooManyCriteria(_)
        | TeamRejection::NothingToCheck
        | TeamRejection::NoWorkToCheck
        | TeamRejection::NoLoop
        | TeamRejection::LoopRuns(_)
        | TeamRejection::OtherIteration { .. }
        | TeamRejection::Blocked(_)
        | TeamRejection::StaleRevision { .. }
        | TeamRejection::NotReady(_)
        | TeamRejection::WorkerFirst
        | TeamRejection::AlreadyProposed(_)
        | TeamRejection::ProposalsMissing
        | TeamRejection::OwnProposal
        | TeamRejection::OperatorAllows(_)
        | TeamRejection::MessagesOpen { .. }
        | TeamRejection::HandoverToSelf(_)
        | TeamRejection::BeingAudited
        | TeamRejection::NotPaused
        | TeamRejection::NoSession(_)
        | TeamRejection::SessionRejected { .. } => ErrorCode::Refused,
    }
}
