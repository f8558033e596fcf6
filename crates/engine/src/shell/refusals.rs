//! Why the engine refuses a change or cannot answer, and the next command to run.

use provost_api::{AmbiguousId, ApiError, ErrorCode, Hint};
use provost_core::{
    ids::SessionId,
    run::{self, Run},
    session::{ExhaustedBudget, Session, SessionRejection},
    text::quote_name,
};
use provost_ledger::{AppendError, LedgerLoss};

use crate::{projection, stream};

/// Returns the error for an ambiguous text, with the candidates and the commands that list them.
pub(crate) fn ambiguous(text: &str, kinds: &[&str], several: &[(String, String)]) -> ApiError {
    let what = if let [kind] = kinds { format!("{kind}s") } else { "things".to_owned() };
    let short = |id: &str| id.parse().map_or_else(|_| id.to_owned(), |id: SessionId| id.short());
    let ids: Vec<String> = several.iter().map(|(id, _)| short(id)).collect();
    let names: Vec<String> =
        ids.iter().zip(several).map(|(id, (_, name))| format!("{id} ({name})")).collect();
    let message = format!("\"{text}\" matches several {what}: {}", names.join(", "));
    let mut lists: Vec<Hint> = kinds
        .iter()
        .map(|kind| if *kind == stream::TEAM { Hint::ListTeams } else { Hint::List })
        .collect();
    lists.dedup();
    let error = ApiError::new(ErrorCode::BadRequest, message);
    let error = lists.into_iter().fold(error, ApiError::next);
    ApiError { ambiguous: Some(Box::new(AmbiguousId { text: text.to_owned(), ids })), ..error }
}

pub(super) fn already_adopted(other: &Session) -> ApiError {
    let (name, id) = (&other.spec.name, other.id.short());
    let what = if other.spec.adopted.is_some() { "already adopted" } else { "run by Provost" };
    let message = format!("this agent is {what} as session {name} ({id})");
    ApiError::new(ErrorCode::Refused, message).next(Hint::Status(id))
}

/// Returns the error for a new run whose name refers to an open run.
pub(super) fn run_name_taken(other: &Run) -> ApiError {
    let (name, id) = (quote_name(&other.spec.name), other.id.short());
    let message =
        format!("run {id} is already named {name} and has not ended: choose another name");
    ApiError::new(ErrorCode::Refused, message).next(Hint::Status(id))
}

pub(super) fn run_refused(why: &run::RunRejection, named: &str) -> ApiError {
    let code = match why {
        run::RunRejection::BudgetNotRaised(_) => ErrorCode::BadRequest,
        run::RunRejection::NothingNew
        | run::RunRejection::Sealed(_)
        | run::RunRejection::Imported
        | run::RunRejection::StillActive
        | run::RunRejection::NothingToResume
        | run::RunRejection::NoPlanToApprove
        | run::RunRejection::NoPendingLanding(_)
        | run::RunRejection::BudgetUsedUp(_) => ErrorCode::Refused,
    };
    let next = match why {
        run::RunRejection::BudgetUsedUp(_) => {
            Hint::RaiseLimit { id: named.to_owned(), tokens: true, turns: false }
        }
        run::RunRejection::Sealed("failed" | "cancelled") => Hint::Resume(named.to_owned()),
        run::RunRejection::Imported => Hint::TakeOver(named.to_owned()),
        run::RunRejection::BudgetNotRaised(_)
        | run::RunRejection::NothingNew
        | run::RunRejection::Sealed(_)
        | run::RunRejection::StillActive
        | run::RunRejection::NoPlanToApprove
        | run::RunRejection::NoPendingLanding(_)
        | run::RunRejection::NothingToResume => Hint::Status(named.to_owned()),
    };
    ApiError::new(code, why.to_string()).next(next)
}

/// Describes why a change is refused. The hints contain the session's id, because a name might have
/// to be quoted for the shell.
pub(super) fn refused_change(
    why: &SessionRejection,
    session: Option<&Session>,
    id: SessionId,
) -> ApiError {
    let named = id.short();
    let code = match why {
        SessionRejection::UnknownLaunch(_) | SessionRejection::UnknownRequest(_) => {
            ErrorCode::NotFound
        }
        SessionRejection::LimitNotRaised { .. }
        | SessionRejection::BudgetNotRaised(_)
        | SessionRejection::RunsAsShellCommand(_)
        | SessionRejection::NothingToType
        | SessionRejection::InvalidReply(..) => ErrorCode::BadRequest,
        SessionRejection::NothingNew
        | SessionRejection::RequestSettled(..)
        | SessionRejection::BeingStopped(_)
        | SessionRejection::ScreenOnly(_)
        | SessionRejection::RequestRevision { .. }
        | SessionRejection::Sealed(_)
        | SessionRejection::NothingToCancel { .. }
        | SessionRejection::Cancelled
        | SessionRejection::Imported(_)
        | SessionRejection::NotRunning
        | SessionRejection::StopExternally
        | SessionRejection::ExternalAgentEnded
        | SessionRejection::ExternalAgent
        | SessionRejection::Stopping
        | SessionRejection::StoppedFirst
        | SessionRejection::NoTurn
        | SessionRejection::HasNoTurns(_)
        | SessionRejection::CannotCompact(_)
        | SessionRejection::CannotStartThread(_)
        | SessionRejection::NoChannel
        | SessionRejection::NoTranscript
        | SessionRejection::NothingTyped(_)
        | SessionRejection::AnswerLost(..)
        | SessionRejection::AtWork
        | SessionRejection::WorktreeRemoved(_)
        | SessionRejection::QueueFull(_)
        | SessionRejection::BudgetUsedUp(_)
        | SessionRejection::ReportBudget { .. }
        | SessionRejection::ConversationGone
        | SessionRejection::BelongsToRun(_)
        | SessionRejection::OneShotBusy(_)
        | SessionRejection::OneShotWithoutConversation(_)
        | SessionRejection::TakesNoInstruction(_) => ErrorCode::Refused,
    };
    let next = match why {
        SessionRejection::BudgetUsedUp(used_up) => {
            let ExhaustedBudget { over_tokens, over_turns, .. } = *used_up;
            Hint::RaiseLimit { id: named, tokens: over_tokens, turns: over_turns }
        }
        SessionRejection::StoppedFirst => Hint::ResumeWithText(named),
        SessionRejection::Imported(_) => Hint::TakeOver(named),
        SessionRejection::ScreenOnly(_) => Hint::Attach(named),
        SessionRejection::ExternalAgentEnded => Hint::Discover,
        SessionRejection::BelongsToRun(run) => Hint::Resume(run.short()),
        SessionRejection::WorktreeRemoved(Some(branch)) => {
            let then = Box::new(spawn_command(session));
            Hint::SwitchBranch { branch: branch.clone(), then }
        }
        SessionRejection::NothingNew
        | SessionRejection::Sealed(_)
        | SessionRejection::NothingToCancel { .. }
        | SessionRejection::ReportBudget { .. }
        | SessionRejection::WorktreeRemoved(None)
        | SessionRejection::UnknownLaunch(_)
        | SessionRejection::UnknownRequest(_)
        | SessionRejection::RequestSettled(..)
        | SessionRejection::BeingStopped(_)
        | SessionRejection::RequestRevision { .. }
        | SessionRejection::Cancelled
        | SessionRejection::NotRunning
        | SessionRejection::StopExternally
        | SessionRejection::ExternalAgent
        | SessionRejection::Stopping
        | SessionRejection::NoTurn
        | SessionRejection::HasNoTurns(_)
        | SessionRejection::CannotCompact(_)
        | SessionRejection::CannotStartThread(_)
        | SessionRejection::NoChannel
        | SessionRejection::NoTranscript
        | SessionRejection::NothingTyped(_)
        | SessionRejection::AnswerLost(..)
        | SessionRejection::RunsAsShellCommand(_)
        | SessionRejection::NothingToType
        | SessionRejection::AtWork
        | SessionRejection::QueueFull(_)
        | SessionRejection::ConversationGone
        | SessionRejection::OneShotBusy(_)
        | SessionRejection::OneShotWithoutConversation(_)
        | SessionRejection::TakesNoInstruction(_)
        | SessionRejection::LimitNotRaised { .. }
        | SessionRejection::BudgetNotRaised(_)
        | SessionRejection::InvalidReply(..) => Hint::Status(named),
    };
    ApiError::new(code, why.to_string()).next(next)
}

/// Returns the command that starts a new session of the same kind.
fn spawn_command(session: Option<&Session>) -> Hint {
    match session.map(|session| &session.spec.agent) {
        Some(agent) if agent.interface.has_turns() => Hint::SpawnAgent(agent.name.clone()),
        Some(_) | None => Hint::SpawnCommand,
    }
}

/// Describes why a change is refused. For an external agent, the suggested command shows its pane,
/// if the pane is known.
pub(super) fn refused_for_external(
    why: &SessionRejection,
    session: Option<&Session>,
    id: SessionId,
) -> ApiError {
    let error = refused_change(why, session, id);
    let there = matches!(
        why,
        SessionRejection::ExternalAgent
            | SessionRejection::StopExternally
            | SessionRejection::NoTranscript
    );
    let command = if there { session.and_then(projection::session::pane_command) } else { None };
    match command {
        Some(command) => ApiError { next: [vec![command.into()], error.next].concat(), ..error },
        None => error,
    }
}

/// Refuses a change that is larger than the ledger accepts.
pub(super) fn too_large_error(why: &AppendError) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, format!("nothing was changed: {why}"))
}

/// Refuses a change to a ledger that lost events.
pub(super) fn loss_error(loss: &LedgerLoss) -> ApiError {
    let message = format!("nothing can be changed: {loss}");
    ApiError::new(ErrorCode::Storage, message).next(Hint::RecoverLedger)
}

pub(super) fn write_error(why: &AppendError) -> ApiError {
    let message = format!("nothing was changed; the ledger could not be written: {why}");
    ApiError::new(ErrorCode::Storage, message).next(Hint::Doctor)
}

/// Returns the error for an agent whose report is kept in memory.
pub(super) fn report_kept_error(why: &AppendError) -> ApiError {
    let message = format!(
        "the report is not recorded yet; the ledger could not be written: {why}; the daemon keeps it in memory and \
         records it once there is disk space, unless the daemon ends first"
    );
    ApiError::new(ErrorCode::Storage, message).next(Hint::Doctor)
}

pub(crate) fn read_error(why: &provost_ledger::Error) -> ApiError {
    ApiError::new(ErrorCode::Storage, format!("the ledger could not be read: {why}"))
        .next(Hint::VerifyLedger)
}
