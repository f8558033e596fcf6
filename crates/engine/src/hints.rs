//! Hints: commands that remove what blocks a team from finishing, or that help after a refusal.

use provost_api::{Hint, TeamAction, TeamHint};
use provost_core::{
    ids::{SessionId, TeamId},
    session::Session,
    team::{
        EpilogueStep, EvidenceRequirement, FinishBlocker, InsufficientEvidence, MemberRole, Team,
        TeamActor, TeamCommand, TeamRejection,
    },
};

use crate::projection::session::request_rows;

/// Returns a command that lets the caller remove something that blocks the team from finishing.
/// `None` if only further work or another member can remove it. The command contains the team's
/// full id, which cannot be mistaken for a name. It also contains the actor, because an external
/// member would otherwise act as the operator.
pub(crate) fn hint_for_blocker(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
) -> Option<Hint> {
    let hint = |action| team_hint(task.id.short(), who, action);
    Some(match blocker {
        FinishBlocker::OpenCriterion { no, state, .. } => {
            hint(match (state.as_str(), task.criterion(*no).map(|one| &one.needs)) {
                ("proposed", _) => TeamAction::AcceptCriterion(*no),
                (
                    _,
                    Some(EvidenceRequirement::Verified { .. } | EvidenceRequirement::Pictures(_)),
                ) => TeamAction::ProveCriterion(*no),
                (_, Some(EvidenceRequirement::Asserted) | None) => {
                    TeamAction::SatisfyCriterion(*no)
                }
            })
        }
        FinishBlocker::ContractNotAccepted { member, revision } => {
            member_command(task, who, member, TeamAction::AcceptContract(*revision))
        }
        FinishBlocker::EpilogueOpen { step } => {
            // If a reviewer is bound, that reviewer must attest the review.
            let of_review = *step == EpilogueStep::SeparateReview;
            let reviewer = if of_review { task.bound(MemberRole::Reviewer).next() } else { None };
            let done = TeamAction::EpilogueStep(step.as_str().to_owned());
            match reviewer {
                Some(reviewer) => member_command(task, who, &reviewer.name, done),
                None => hint(done),
            }
        }
        FinishBlocker::NotChallenged => hint(TeamAction::Challenge),
        FinishBlocker::LoopIncomplete { .. } => hint(TeamAction::LoopStatus),
        FinishBlocker::LoopGaveUp { .. } => hint(TeamAction::StopLoop),
        // Only the operator can run this command.
        FinishBlocker::GateDropped { .. } if *who == TeamActor::Operator => {
            hint(TeamAction::Finish)
        }
        FinishBlocker::GateDropped { .. } => hint(ask_operator()),
        FinishBlocker::CriterionDropped { no, .. } => hint(TeamAction::ReopenCriterion(*no)),
        FinishBlocker::InstructionOpen { member, .. } => {
            hint(TeamAction::MessagesTo(member.clone()))
        }
        FinishBlocker::NothingProved => hint(TeamAction::AddCriterion),
        FinishBlocker::NothingChanged { .. } if *who == TeamActor::Operator => {
            hint(TeamAction::FinishUnchanged)
        }
        FinishBlocker::CheckFailed { .. }
        | FinishBlocker::MemberWorking { .. }
        | FinishBlocker::NothingChanged { .. } => return None,
        FinishBlocker::Paused => hint(TeamAction::Resume),
        FinishBlocker::DecidedNotFinished => hint(TeamAction::Finish),
    })
}

/// Like [`hint_for_blocker`], but also suggests a command that answers a waiting worker. `look` returns a session's
/// current state.
pub(crate) fn hint_for_open_blocker<'s>(
    task: &Team,
    who: &TeamActor,
    blocker: &FinishBlocker,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<Hint> {
    if let FinishBlocker::MemberWorking { member, .. } = blocker
        && may_answer(task, who)
    {
        return answer_hint(task, member, look);
    }
    hint_for_blocker(task, who, blocker)
}

/// Whether the caller may answer the requests of members. Provost refuses answers from agents, but
/// a member without a session acts from the operator's own shell.
pub(crate) fn may_answer(task: &Team, who: &TeamActor) -> bool {
    match who {
        TeamActor::Operator => true,
        TeamActor::Member(name) => task.member(name).is_none_or(|member| member.session.is_none()),
        TeamActor::Policy | TeamActor::Provost => false,
    }
}

/// Returns the command that answers a member's oldest request.
pub(crate) fn answer_hint<'s>(
    task: &Team,
    member: &str,
    look: impl Fn(SessionId) -> Option<&'s Session>,
) -> Option<Hint> {
    let session = look(task.member(member)?.session?)?;
    request_rows(session).first().map(|request| request.answer_command().into())
}

/// Returns a command that only one member may run. The command is shown to that member, and to the operator, who may
/// act on behalf of the member. All other callers can only ask the member to run the command.
fn member_command(task: &Team, who: &TeamActor, member: &str, action: TeamAction) -> Hint {
    let team = task.id.short();
    match who {
        TeamActor::Member(name) if name != member => {
            team_hint(team, who, TeamAction::Send { to: member.to_owned() })
        }
        TeamActor::Member(_) | TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => {
            Hint::Team(TeamHint { team, by: Some(member.to_owned()), action })
        }
    }
}

fn ask_operator() -> TeamAction {
    TeamAction::Send { to: TeamActor::Operator.name().to_owned() }
}

/// Returns a command that the caller runs on a team.
pub(crate) fn team_hint(team: String, who: &TeamActor, action: TeamAction) -> Hint {
    let by = match who {
        TeamActor::Member(name) => Some(name.clone()),
        TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => None,
    };
    Hint::Team(TeamHint { team, by, action })
}

/// Returns the command that helps a caller after a refusal.
pub(crate) fn hint_after_refusal(
    id: TeamId,
    who: &TeamActor,
    command: &TeamCommand,
    why: &TeamRejection,
) -> Hint {
    let operates = *who == TeamActor::Operator;
    let action = match (why, command) {
        (TeamRejection::ContractNotAccepted(revision), _) => TeamAction::AcceptContract(*revision),
        (TeamRejection::NeedsConsent(_), _) if operates => {
            return Hint::ApproveCommands(id.short());
        }
        (TeamRejection::NeedsConsent(_), _) => ask_operator(),
        (TeamRejection::NoMove(moves), _) => {
            TeamAction::RecordMove(moves.first().map(|kind| kind.as_str().to_owned()))
        }
        (
            TeamRejection::MessageIs { status: "offered", .. },
            TeamCommand::Acknowledge { no, lease, .. },
        ) => TeamAction::AcceptMessage { no: *no, lease: *lease },
        (TeamRejection::StaleLease(_) | TeamRejection::NoLease { .. }, _)
        | (TeamRejection::MessageIs { status: "stored", .. }, _) => TeamAction::NextMessage,
        // A draft refers to a message by number, so a command that polls for the next message would not help.
        (TeamRejection::NoMessage(_), TeamCommand::Draft { .. })
        | (TeamRejection::MessageIs { .. }, _) => TeamAction::AllMessages,
        (TeamRejection::NoMessage(_), _) => TeamAction::NextMessage,
        (
            TeamRejection::Insufficient(InsufficientEvidence::NeedsCheck(_)),
            TeamCommand::Judge { no, .. },
        ) => TeamAction::ProveCriterion(*no),
        (TeamRejection::OperatorsLoop(_) | TeamRejection::NoWorkToCheck, _) if !operates => {
            ask_operator()
        }
        (TeamRejection::NoLoop | TeamRejection::OperatorsLoop(_), _) => TeamAction::StartLoop,
        (
            TeamRejection::LoopRuns(_)
            | TeamRejection::NoSuchEvidence(_)
            | TeamRejection::OtherIteration { .. }
            | TeamRejection::EvidenceMismatch(_)
            | TeamRejection::Blocked(_),
            _,
        ) => TeamAction::LoopStatus,
        (
            TeamRejection::NoCriterion(_)
            | TeamRejection::IllegalJudgement { .. }
            | TeamRejection::TooManyCriteria(_)
            | TeamRejection::NothingToCheck,
            _,
        ) => TeamAction::Criteria,
        (TeamRejection::MessagesOpen { member, .. }, _) => TeamAction::MessagesTo(member.clone()),
        (TeamRejection::OperatorAllows(_), _) => ask_operator(),
        (TeamRejection::NoWorkToCheck, _) => TeamAction::BindWorker,
        (TeamRejection::StaleRevision { .. }, _) => TeamAction::ShowContract,
        (TeamRejection::NoSession(member), _) => TeamAction::Send { to: member.clone() },
        (
            TeamRejection::TextTooShort(_),
            TeamCommand::Propose { .. } | TeamCommand::ProposeAccepted { .. },
        ) => return Hint::AddCriterionHelp,
        _ => TeamAction::Show,
    };
    team_hint(id.short(), who, action)
}
