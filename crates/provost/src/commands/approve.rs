//! `provost approve` and `provost deny`

use std::path::Path;

use clap::Args;
use provost_api::{
    AnswerRequest, ApiError, ApprovalRow, ApproveRunRequest, Code, Decision, RejectRunRequest,
    RequestRow, RunRow, SessionRow, StandingTaskRow,
};
use provost_core::task::Command;
use provost_git::{Oid, files_at};
use provost_trust::Content;

use super::{
    answer::{repeat, split},
    change::{KeyArgs, change, change_run},
    input,
    spawn::place,
    tasking::Meant,
};
use crate::{
    cli::Outcome,
    context::Context,
    error::{chain, usage},
    target,
    trust::{self, Subject},
    ui,
};

/// Allow what an agent asked to do, or what a run or team waits for
///
/// `provost status` shows what it is: the command, where it would run, why, and the change. Of a run it is its plan with
/// the commands that an agent wrote into it (`provost graph` shows the plan), or the changes of trust-relevant and
/// protected files that would land. Of a team it is the commands that its members wrote. Exactly what was shown is
/// approved.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost approve 1a2b3c4d\n  provost approve 1a2b3c4d.q2 --session"
)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    which: Which,
    /// Allow the same for the rest of the session too
    #[arg(long)]
    session: bool,
}

/// Refuse what an agent asked to do, or what a run waits for
///
/// An agent whose request is refused is told so and goes on. A run whose plan or landing is refused fails; its work stays
/// on its branch.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost deny 1a2b3c4d\n  provost deny 1a2b3c4d.q2\n  provost deny my-run --because 'too many tasks'"
)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: Which,
    /// Why a plan or a landing is refused
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// The request that is meant
#[derive(Debug, Args)]
struct Which {
    /// The request, or the session or run if only one of its requests can be decided so
    #[arg(value_parser = input::parse_name)]
    request: String,
    /// Decide only if the request still has this revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn approve(context: &Context, args: &ApproveArgs) -> Outcome {
    let decision = if args.session { Decision::ApproveForSession } else { Decision::Approve };
    if let Some(run) = waiting_run(context, &args.which.request)? {
        if args.session {
            let message = "--session is for what an agent asks, and the run itself waits";
            return Err(usage(message)
                .next(format!("provost approve {}", ui::short(&run.id)))
                .into());
        }
        return approve_run(context, &run, &args.which.key);
    }
    match waiting_team(context, &args.which.request)? {
        Some(team) => {
            let commands = team.awaits_consent.clone();
            context.ui.talk(&format!("agreed to run: {}", ui::clean(&commands.join("; "))));
            let command = Command::ApproveCommands { commands };
            Meant::named(&team.id).change(context, &command, &args.which.key)
        }
        None => decide(context, &args.which, decision),
    }
}

/// Approves exactly what the run shows that it waits for.
fn approve_run(context: &Context, run: &RunRow, key: &KeyArgs) -> Outcome {
    let approval = run.approval.clone().unwrap_or_default();
    if !approval.files.is_empty() {
        context.ui.talk(&format!("approved: {}", ui::clean(&approval.files.join(", "))));
    }
    let request = ApproveRunRequest { landing: approval.commit.clone() };
    let approved = change_run(context, &run.id, ("approve", &request), key)?;
    if let Err(why) = trust_approved_content(context, run, &approval) {
        context.ui.warn(&format!("what lands is not trusted yet: {}", why.message));
    }
    Ok(approved)
}

/// Makes what the operator approved count as trusted, exactly as it was shown. The trust store is in the user's
/// configuration, so the command line writes it, and never the daemon. Where the operator has not agreed to what the
/// target has, or not all of the change was shown, the project is trusted by `provost trust` alone.
fn trust_approved_content(
    context: &Context,
    run: &RunRow,
    approved: &ApprovalRow,
) -> Result<(), ApiError> {
    let (Some(onto), Some(commit)) = (&approved.onto, &approved.commit) else { return Ok(()) };
    let (git, project) = place::project_at(context, Path::new(&run.project))
        .map_err(|why| chain(Code::BadRequest, "cannot read the project", &why))?;
    let content = |commit: &str| -> Result<Option<Content>, ApiError> {
        let unread = |why: &dyn std::error::Error| {
            chain(Code::BadRequest, "cannot read what was approved", why)
        };
        let commit = Oid::new(commit).map_err(|why| unread(&why))?;
        let files = files_at(&git, &project, &commit, provost_trust::is_relevant);
        let files = files.map_err(|why| unread(&why))?;
        Ok(files.map(|files| {
            Content::from_files(files.into_iter().map(|file| (file.path, file.content)))
        }))
    };
    let (Some(before), Some(after)) = (content(onto)?, content(commit)?) else { return Ok(()) };
    if approved.truncated || !trust::is_agreed(&context.environment, &project.top, &before)? {
        return Ok(());
    }
    let subject = Subject { path: project.top.clone(), content: after };
    trust::record(&context.environment, &subject)
}

pub(crate) fn deny(context: &Context, args: &DenyArgs) -> Outcome {
    let because = args.because.as_deref();
    match (waiting_run(context, &args.which.request)?, because) {
        (Some(run), because) => {
            let because = because.unwrap_or("refused by the operator").to_owned();
            let landing = run.approval.as_ref().and_then(|approval| approval.commit.clone());
            let request = RejectRunRequest { because, landing };
            change_run(context, &run.id, ("reject", &request), &args.which.key)
        }
        (None, Some(_)) => {
            let message = "--because is for a run, and none of that name waits to be approved";
            Err(usage(message).next(format!("provost status {}", args.which.request)).into())
        }
        (None, None) => decide(context, &args.which, Decision::Deny),
    }
}

/// Returns the team that is meant, if commands of its members wait for consent.
fn waiting_team(context: &Context, named: &str) -> Result<Option<StandingTaskRow>, ApiError> {
    match Meant::named(named).find(context) {
        Ok(team) => Ok((!team.awaits_consent.is_empty()).then_some(team)),
        Err(error) if matches!(error.code, Code::NotFound | Code::BadRequest) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the run that is meant, if it waits for the operator.
fn waiting_run(context: &Context, named: &str) -> Result<Option<RunRow>, ApiError> {
    match target::find_run(&context.daemon()?, named) {
        Ok(run) => Ok(Some(run).filter(|run| run.awaits_approval)),
        Err(error) if error.code == Code::NotFound => Ok(None),
        Err(error) if error.code == Code::BadRequest => Ok(None),
        Err(error) => Err(error),
    }
}

fn decide(context: &Context, which: &Which, decision: Decision) -> Outcome {
    let (session, no) = split(&which.request);
    let row = target::find_working(&context.daemon()?, session)?;
    let decided = AnswerRequest { decision: Some(decision), ..AnswerRequest::default() };
    let request = match choose(&row, no, decision) {
        Err(error) if which.key.is_given() || no.is_some() => {
            return repeat(context, &row, no, decided, &which.key, error);
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

fn choose(row: &SessionRow, no: Option<u32>, decision: Decision) -> Result<&RequestRow, ApiError> {
    let id = ui::short(&row.id);
    let denies = decision == Decision::Deny;
    let meant = |request: &&RequestRow| match no {
        Some(no) => split(&request.id).1 == Some(no),
        None => request.kind == "approval" || (denies && request.can_be_denied()),
    };
    let open: Vec<&RequestRow> = row.requests.iter().filter(meant).collect();
    match open.as_slice() {
        [only] => Ok(only),
        [] => {
            let message = format!("session {id} waits for no such decision");
            let error = ApiError::new(Code::Refused, message).next(format!("provost status {id}"));
            Err(row.requests.iter().fold(error, |e, request| e.next(request.answer_command())))
        }
        several => {
            let message = format!(
                "session {id} has {} requests that can be decided so; say which",
                several.len()
            );
            Err(several.iter().fold(usage(message), |e, request| e.next(request.answer_command())))
        }
    }
}
