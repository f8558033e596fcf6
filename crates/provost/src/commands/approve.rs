//! `provost approve` and `provost deny`

use std::path::{Path, PathBuf};

use clap::Args;
use provost_api::{
    AnswerRequest, ApiError, ApprovalDecision, ApprovalRow, ApproveRunRequest, ErrorCode,
    RejectRunRequest, RequestRow, RunRow, SessionRow, TeamRow,
};
use provost_core::team::TeamCommand;
use provost_git::{Oid, files_at};
use provost_trust::{TrustContent, agent_directory, is_relevant};

use super::{
    answer::{repeat_change, split},
    input,
    mutation::{KeyArgs, change, change_run},
    spawn::worktree,
    team::args::TeamTarget,
};
use crate::{
    cli::CliResult,
    context::Context,
    error::{chain, usage},
    target,
    trust::{self, TrustSubject},
    ui,
};

/// Approve a pending request of an agent, run or team
///
/// `provost status` shows the request: the command, its directory, the reason and the change. A run
/// requests approval of its plan, which includes commands written by an agent (`provost graph`
/// shows the plan), or of changes to protected and trust-relevant files before they land. A team
/// requests approval of commands written by its members. Only the displayed content is approved.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost approve 1a2b3c4d\n  provost approve 1a2b3c4d.q2 --session"
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    which: RequestSelector,
    /// Also allow the same action for the rest of the session
    #[arg(long)]
    session: bool,
}

/// Deny a pending request of an agent or run
///
/// The agent is notified of the denial and continues. If the plan or the landing of a run is
/// denied, the run fails, and its work stays on its branch.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost deny 1a2b3c4d\n  provost deny 1a2b3c4d.q2\n  provost deny my-run --because 'too many tasks'"
)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: RequestSelector,
    /// Reason for denying a plan or a landing
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// The request to decide
#[derive(Debug, Args)]
struct RequestSelector {
    /// Request ID; a session, run or team also works if exactly one of its requests is pending
    #[arg(value_parser = input::parse_name)]
    request: String,
    /// Decide only if the request still has this revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn approve(context: &Context, args: &ApproveArgs) -> CliResult {
    let decision =
        if args.session { ApprovalDecision::ApproveForSession } else { ApprovalDecision::Approve };
    if let Some(run) = waiting_run(context, &args.which.request)? {
        if args.session {
            let message = "--session applies to an agent's request, but here the run itself waits for approval";
            return Err(usage(message)
                .next(format!("provost approve {}", ui::short_id(&run.id)))
                .into());
        }
        return approve_run(context, &run, &args.which.key);
    }
    match waiting_team(context, &args.which.request)? {
        Some(team) => {
            let commands = team.awaits_consent.clone();
            context
                .ui
                .notice(&format!("approved commands: {}", ui::escape_line(&commands.join("; "))));
            let command = TeamCommand::ApproveCommands { commands };
            TeamTarget::new(&team.id).change(context, &command, &args.which.key)
        }
        None => decide(context, &args.which, decision),
    }
}

/// Approves exactly the content that is displayed for the run.
fn approve_run(context: &Context, run: &RunRow, key: &KeyArgs) -> CliResult {
    let approval = run.approval.clone().unwrap_or_default();
    if !approval.files.is_empty() {
        context.ui.notice(&format!("approved: {}", ui::escape_line(&approval.files.join(", "))));
    }
    let request = ApproveRunRequest { landing: approval.commit.clone() };
    let approved = change_run(context, &run.id, "approve", &request, key)?;
    if let Err(why) = trust_approved_content(context, run, &approval) {
        context.ui.warn(&format!("the landed changes are not trusted yet: {}", why.message));
    }
    Ok(approved)
}

/// Trusts exactly the content that was displayed and approved, in all directories. The trust store
/// is part of the user's configuration, so this command, and not the daemon, writes to it. If part
/// of the change was not shown, or if the operator does not trust the current content of a
/// directory on the target branch, the operator must run `provost trust` instead.
fn trust_approved_content(
    context: &Context,
    run: &RunRow,
    approved: &ApprovalRow,
) -> Result<(), ApiError> {
    let (Some(onto), Some(commit)) = (&approved.onto, &approved.commit) else { return Ok(()) };
    if approved.truncated {
        return Ok(());
    }
    let (git, project) = worktree::project_at(context, Path::new(&run.project))
        .map_err(|why| chain(ErrorCode::BadRequest, "cannot read the project", &why))?;
    let wanted = |path: &str| is_relevant(path) || agent_directory(path).is_some();
    let content = |commit: &str| -> Result<Option<TrustContent>, ApiError> {
        let unread = |why: &dyn std::error::Error| {
            chain(ErrorCode::BadRequest, "cannot read the approved content", why)
        };
        let commit = Oid::new(commit).map_err(|why| unread(&why))?;
        let files = files_at(&git, &project, &commit, wanted).map_err(|why| unread(&why))?;
        Ok(files.map(|files| {
            TrustContent::from_files(files.into_iter().map(|file| (file.path, file.content)))
        }))
    };
    let (Some(before), Some(after)) = (content(onto)?, content(commit)?) else { return Ok(()) };
    let store = trust::store(&context.environment)?;
    let mut agreed = TrustContent::default();
    for directory in after.directories() {
        let unchanged = before.down_to(&directory);
        if store.is_trusted(&project.top, &directory, &unchanged).map_err(trust::store_error)? {
            agreed = agreed.with(&after.down_to(&directory));
        }
    }
    trust::record(
        &context.environment,
        &TrustSubject::of_checkout(project.top, PathBuf::new(), agreed),
    )
}

pub(crate) fn deny(context: &Context, args: &DenyArgs) -> CliResult {
    let because = args.because.as_deref();
    match (waiting_run(context, &args.which.request)?, because) {
        (Some(run), because) => {
            let because = because.unwrap_or("refused by the operator").to_owned();
            let landing = run.approval.as_ref().and_then(|approval| approval.commit.clone());
            let request = RejectRunRequest { because, landing };
            change_run(context, &run.id, "reject", &request, &args.which.key)
        }
        (None, Some(_)) => {
            let message =
                "--because applies to a run, but no run with this name is waiting for approval";
            Err(usage(message).next(format!("provost status {}", args.which.request)).into())
        }
        (None, None) => decide(context, &args.which, ApprovalDecision::Deny),
    }
}

/// Returns the team with this name if commands written by its members are waiting for approval.
fn waiting_team(context: &Context, named: &str) -> Result<Option<TeamRow>, ApiError> {
    match TeamTarget::new(named).find(context) {
        Ok(team) => Ok((!team.awaits_consent.is_empty()).then_some(team)),
        Err(error) if matches!(error.code, ErrorCode::NotFound | ErrorCode::BadRequest) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the run with this name if it is waiting for the operator's approval.
fn waiting_run(context: &Context, named: &str) -> Result<Option<RunRow>, ApiError> {
    match target::find_run(&context.daemon()?, named) {
        Ok(run) => Ok(Some(run).filter(|run| run.awaits_approval)),
        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) if error.code == ErrorCode::BadRequest => Ok(None),
        Err(error) => Err(error),
    }
}

fn decide(context: &Context, which: &RequestSelector, decision: ApprovalDecision) -> CliResult {
    let (session, no) = split(&which.request);
    let row = target::find_active_session(&context.daemon()?, session)?;
    let decided = AnswerRequest { decision: Some(decision), ..AnswerRequest::default() };
    let request = match choose(&row, no, decision) {
        Err(error) if which.key.is_given() || no.is_some() => {
            return repeat_change(context, &row, no, decided, &which.key, error);
        }
        chosen => chosen?,
    };
    let decided = AnswerRequest {
        request: request.id.clone(),
        revision: which.revision.unwrap_or(request.revision),
        ..decided
    };
    change(context, &row.id, "answer", &decided, &which.key)
}

fn choose(
    row: &SessionRow,
    no: Option<u32>,
    decision: ApprovalDecision,
) -> Result<&RequestRow, ApiError> {
    let id = ui::short_id(&row.id);
    let denies = decision == ApprovalDecision::Deny;
    let is_selected = |request: &&RequestRow| match no {
        Some(no) => split(&request.id).1 == Some(no),
        None => request.kind == "approval" || (denies && request.can_be_denied()),
    };
    let open: Vec<&RequestRow> = row.requests.iter().filter(is_selected).collect();
    match open.as_slice() {
        [only] => Ok(only),
        [] => {
            let message = format!("session {id} has no pending approval");
            let error =
                ApiError::new(ErrorCode::Refused, message).next(format!("provost status {id}"));
            Err(row.requests.iter().fold(error, |e, request| e.next(request.answer_command())))
        }
        several => {
            let message =
                format!("session {id} has {} pending requests; specify one of them", several.len());
            Err(several.iter().fold(usage(message), |e, request| e.next(request.answer_command())))
        }
    }
}
