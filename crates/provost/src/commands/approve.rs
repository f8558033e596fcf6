//! `provost approve` and `provost deny`

use clap::Args;
use provost_api::{
    AnswerRequest, ApiError, CancelRequest, Code, Decision, RequestRow, RunRow, SessionRow,
};
use serde_json::json;

use super::{
    answer::{repeat, split},
    change::{KeyArgs, change, change_run},
    input,
};
use crate::{cli::Outcome, context::Context, error::usage, target, ui};

/// Allow what a session's agent asked to do, or approve of a run's plan
///
/// `provost status` shows what it is: the command, where it would run, why, and the change. `provost graph` shows a
/// plan.
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

/// Refuse what a session's agent asked to do, or decline its dialog; it is told so and goes on. A plan that is refused ends its run
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost deny 1a2b3c4d\n  provost deny 1a2b3c4d.q2\n  provost deny my-run --because 'too many tasks'"
)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    which: Which,
    /// Why a plan is refused
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
    match planned(context, &args.which.request)? {
        Some(run) if args.session => {
            let message = "--session is for what an agent asks, and the run waits with its plan";
            Err(usage(message).next(format!("provost approve {}", ui::short(&run.id))).into())
        }
        Some(run) => change_run(context, &run.id, ("approve", &json!({})), &args.which.key),
        None => decide(context, &args.which, decision),
    }
}

pub(crate) fn deny(context: &Context, args: &DenyArgs) -> Outcome {
    let because = args.because.as_deref();
    match (planned(context, &args.which.request)?, because) {
        (Some(run), because) => {
            let because = because.unwrap_or("refused by the operator").to_owned();
            let request = CancelRequest { because };
            change_run(context, &run.id, ("reject", &request), &args.which.key)
        }
        (None, Some(_)) => {
            let message = "--because is for a plan, and none waits to be approved";
            Err(usage(message).next(format!("provost status {}", args.which.request)).into())
        }
        (None, None) => decide(context, &args.which, Decision::Deny),
    }
}

/// Gives the run that is meant, if its plan waits to be approved.
fn planned(context: &Context, named: &str) -> Result<Option<RunRow>, ApiError> {
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
