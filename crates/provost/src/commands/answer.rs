//! `provost answer`

use std::{io::IsTerminal as _, path::PathBuf};

use clap::Args;
use provost_api::{AnswerRequest, ApiError, ErrorCode, LookedUpName, RequestRow, SessionRow};
use provost_core::{lifecycle::State, request::RequestKind};

use super::{
    input,
    mutation::{KeyArgs, change, input_commands},
    prompt_user,
};
use crate::{cli::CliResult, context::Context, error::usage, target, ui};

/// Answer a question from an agent
///
/// If no text is given and the command runs in a terminal, it prompts for each question in turn.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost answer 1a2b3c4d.q1 'Use PostgreSQL.'\n  provost answer 1a2b3c4d\n  provost answer 1a2b3c4d.q2 --secret < token\n  provost answer 1a2b3c4d --answers - <<< '{\"answers\":{\"db\":{\"answers\":[\"PostgreSQL\"]}}}'"
)]
pub(crate) struct AnswerArgs {
    /// Request ID; a session, run or team also works if it has only one open request
    #[arg(value_parser = input::parse_name)]
    request: String,
    /// Answer, passed on verbatim; `-` reads standard input
    #[arg(conflicts_with_all = ["answers", "secret"])]
    text: Option<String>,
    /// Read answers to several questions from this JSON file; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "secret")]
    answers: Option<PathBuf>,
    /// Read the answer from the terminal without echo, or from standard input
    #[arg(long)]
    secret: bool,
    /// Answer only if the request still has this revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &AnswerArgs) -> CliResult {
    let NamedRequest { name, no, found } = NamedRequest::look_up(context, &args.request)?;
    let row = target::active_session(found, name)?;
    let request = match choose(&row, no) {
        Err(error) if args.key.is_given() || no.is_some() => {
            let given = read_answer(args, None)?;
            return repeat_change(context, &row, no, given, &args.key, error);
        }
        chosen => chosen?,
    };
    let answer = AnswerRequest {
        request: request.id.clone(),
        revision: args.revision.unwrap_or(request.revision),
        ..read_answer(args, Some(request))?
    };
    change(context, &row.id, "answer", &answer, &args.key)
}

/// Reads the answer from the source that the user chose. Fails if the request does not accept this
/// kind of answer.
fn read_answer(args: &AnswerArgs, request: Option<&RequestRow>) -> Result<AnswerRequest, ApiError> {
    if let Some(request) = request {
        reject_invalid_answer(args, request)?;
    }
    let text = |text: String| AnswerRequest { text: Some(text), ..AnswerRequest::default() };
    let answers = |answers| AnswerRequest { answers: Some(answers), ..AnswerRequest::default() };
    match (&args.text, &args.answers, request) {
        (Some(given), _, _) => Ok(text(input::read_text("the answer", given)?)),
        (None, Some(file), _) => Ok(answers(prompt_user::from_file(file)?)),
        (None, None, Some(request)) if std::io::stdin().is_terminal() => {
            match request.questions.as_slice() {
                [] | [_] => Ok(text(prompt_user::prompt_one(request)?)),
                _ => Ok(answers(prompt_user::prompt_each(request)?)),
            }
        }
        (None, None, _) if args.secret => Ok(text(input::read_text("the answer", "-")?)),
        (None, None, _) => {
            let error = usage(
                "no answer given: pass the answer as TEXT, or run this command in a terminal to be prompted",
            );
            Err(request.into_iter().fold(error, |e, request| e.next(request.answer_command())))
        }
    }
}

/// Rejects an answer to an approval request. Also rejects a secret passed as an argument, because other users could see
/// the secret.
fn reject_invalid_answer(args: &AnswerArgs, request: &RequestRow) -> Result<(), ApiError> {
    if request.kind == RequestKind::Approval {
        let message = "the request needs approval, not an answer: approve or deny it";
        return Err(usage(message).next(request.answer_command()).next(request.deny_command()));
    }
    let secret = request.questions.iter().any(|question| question.secret);
    let shown = args.text.as_deref().is_some_and(|text| text != "-");
    if secret && shown {
        let message = "the question is secret, and other users can see arguments: pass the answer on standard input or at the prompt";
        return Err(usage(message).next(request.answer_command()));
    }
    Ok(())
}

/// Repeats an answer with its idempotency key. If the daemon knows the key, it returns the recorded reply, even if the
/// request has been settled since. If the daemon does not know the key, the reply describes the state of the request,
/// because no open request has the revision `u32::MAX`.
pub(super) fn repeat_change(
    context: &Context,
    row: &SessionRow,
    no: Option<u32>,
    given: AnswerRequest,
    key: &KeyArgs,
    error: ApiError,
) -> CliResult {
    let request = format!("{}.q{}", row.id, no.unwrap_or(1));
    let answer = AnswerRequest { request, revision: u32::MAX, ..given };
    change(context, &row.id, "answer", &answer, key).map_err(|why| match no {
        Some(_) => why,
        None => error.into(),
    })
}

/// A request that the user refers to, and what the name in the request's ID refers to.
pub(super) struct NamedRequest<'a> {
    /// A session, run or team.
    pub(super) name: &'a str,
    /// The number of the request in its session, if it was given.
    pub(super) no: Option<u32>,
    pub(super) found: LookedUpName,
}

impl<'a> NamedRequest<'a> {
    pub(super) fn look_up(context: &Context, request: &'a str) -> Result<Self, ApiError> {
        let (name, no) = split(request);
        let found = context.look_up(name)?;
        if no.is_some() && found.is_empty() {
            // A name can look like a request.
            let named = context.look_up(request)?;
            if !named.is_empty() {
                return Ok(NamedRequest { name: request, no: None, found: named });
            }
        }
        Ok(NamedRequest { name, no, found })
    }
}

/// Splits `SESSION.qN`. Without a number, the whole text is the session.
pub(super) fn split(request: &str) -> (&str, Option<u32>) {
    let parts = request.rsplit_once(".q");
    let numbered = parts.and_then(|(session, no)| Some((session, no.parse().ok()?)));
    numbered.map_or((request, None), |(session, no)| (session, Some(no)))
}

fn choose(row: &SessionRow, no: Option<u32>) -> Result<&RequestRow, ApiError> {
    let id = ui::short_id(&row.id);
    let status = format!("provost status {id}");
    match (no, row.requests.as_slice()) {
        (Some(no), open) => {
            open.iter().find(|request| split(&request.id).1 == Some(no)).ok_or_else(|| {
                ApiError::new(
                    ErrorCode::NotFound,
                    format!("session {id} has no open request q{no}"),
                )
                .next(status)
            })
        }
        (None, [only]) => Ok(only),
        (None, []) => Err(nothing_to_answer(row, &id)),
        (None, several) => {
            let error = usage(format!(
                "session {id} has {} open requests; specify one of them",
                several.len()
            ));
            Err(several.iter().fold(error, |error, request| error.next(request.answer_command())))
        }
    }
}

fn nothing_to_answer(row: &SessionRow, id: &str) -> ApiError {
    let refused = |message| ApiError::new(ErrorCode::Refused, message);
    if row.state != State::NeedsInput {
        return refused(format!("session {id} has no open question"))
            .next(format!("provost status {id}"));
    }
    let message = if row.is_plain_command() {
        format!(
            "session {id} needs input, but a plain command cannot be answered: provide the input, then resolve the session"
        )
    } else {
        format!("session {id} needs input, but has no open request; send it a message")
    };
    input_commands(row, id).into_iter().fold(refused(message), ApiError::next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_split_into_session_and_number() {
        assert_eq!(split("deadbeef.q12"), ("deadbeef", Some(12)));
        assert_eq!(split("deadbeef"), ("deadbeef", None));
        assert_eq!(split("my.quest"), ("my.quest", None));
    }

    #[test]
    fn plain_command_needing_input_suggests_resolve() {
        let row = ui::test_session("x", "needs_input");
        let error = choose(&row, None).unwrap_err();
        assert!(error.message.contains("plain command"), "{}", error.message);
        assert!(
            error.next.iter().any(|next| next.to_string().contains("resolve")),
            "{:?}",
            error.next
        );
        assert!(
            error.next.iter().any(|next| next.to_string().contains("cancel")),
            "{:?}",
            error.next
        );
        let row = SessionRow { has_conversation: true, ..row };
        let error = choose(&row, None).unwrap_err();
        assert_eq!(error.next[0], "provost send deadbeef TEXT");
    }
}
