//! `provost answer`

use std::{io::IsTerminal as _, path::PathBuf};

use clap::Args;
use provost_api::{AnswerRequest, ApiError, Code, RequestRow, SessionRow};

use super::{
    asking,
    change::{KeyArgs, change, while_it_waits},
    input,
};
use crate::{cli::Outcome, context::Context, error::usage, target, ui};

/// Answer what a session's agent asked
///
/// Without a text, on a terminal, each thing that was asked is asked here in turn.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost answer 1a2b3c4d.q1 'Use PostgreSQL.'\n  provost answer 1a2b3c4d\n  provost answer 1a2b3c4d.q2 --secret < token\n  provost answer 1a2b3c4d --answers - <<< '{\"answers\":{\"db\":{\"answers\":[\"PostgreSQL\"]}}}'"
)]
pub(crate) struct AnswerArgs {
    /// The request, or the session or run if only one of its requests is open
    #[arg(value_parser = input::parse_name)]
    request: String,
    /// The answer, verbatim; `-` takes it from standard input
    #[arg(conflicts_with_all = ["answers", "secret"])]
    text: Option<String>,
    /// Take answers to several questions from a file, or from standard input with `-`
    #[arg(long, value_name = "FILE", conflicts_with = "secret")]
    answers: Option<PathBuf>,
    /// Take the answer from the terminal without showing it, or from standard input
    #[arg(long)]
    secret: bool,
    /// Answer only if the request still has this revision
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &AnswerArgs) -> Outcome {
    let (session, no) = split(&args.request);
    let row = target::find_working(&context.daemon()?, session)?;
    let request = match choose(&row, no) {
        Err(error) if args.key.is_given() || no.is_some() => {
            let given = given(args, None)?;
            return repeat(context, &row, no, given, &args.key, error);
        }
        chosen => chosen?,
    };
    let answer = AnswerRequest {
        request: request.id.clone(),
        revision: args.revision.unwrap_or(request.revision),
        ..given(args, Some(request))?
    };
    change(context, &row.id, "answer", &answer, &args.key)
}

/// Takes the answer in the way that was chosen, if the request may be answered so.
fn given(args: &AnswerArgs, request: Option<&RequestRow>) -> Result<AnswerRequest, ApiError> {
    if let Some(request) = request {
        refuse_what_is_no_answer(args, request)?;
    }
    let text = |text: String| AnswerRequest { text: Some(text), ..AnswerRequest::default() };
    let answers = |answers| AnswerRequest { answers: Some(answers), ..AnswerRequest::default() };
    match (&args.text, &args.answers, request) {
        (Some(given), _, _) => Ok(text(input::text(given)?)),
        (None, Some(file), _) => Ok(answers(asking::from_file(file)?)),
        (None, None, Some(request)) if std::io::stdin().is_terminal() => {
            match request.questions.as_slice() {
                [] | [_] => Ok(text(asking::one(request)?)),
                _ => Ok(answers(asking::each(request)?)),
            }
        }
        (None, None, _) if args.secret => Ok(text(input::text("-")?)),
        (None, None, _) => {
            let error = usage("there is no answer: give a text, or ask from a terminal");
            Err(request.into_iter().fold(error, |e, request| e.next(request.answer_command())))
        }
    }
}

/// An approval is decided, and a secret does not go through arguments, which others can see.
fn refuse_what_is_no_answer(args: &AnswerArgs, request: &RequestRow) -> Result<(), ApiError> {
    if request.kind == "approval" {
        let message = "it asks for an approval: approve or deny it";
        return Err(usage(message).next(request.answer_command()).next(request.deny_command()));
    }
    let secret = request.questions.iter().any(|question| question.secret);
    let shown = args.text.as_deref().is_some_and(|text| text != "-");
    match secret && shown {
        true => {
            let message = "the question is secret, and arguments can be seen by others: give the answer on standard input or at the prompt";
            Err(usage(message).next(request.answer_command()))
        }
        false => Ok(()),
    }
}

/// A change that was made before under the same key is answered from the record, though what it answered is
/// settled since. Without such a record nothing is open to answer, and no request has this revision: then the
/// daemon knows what became of a request that was named.
pub(super) fn repeat(
    context: &Context,
    row: &SessionRow,
    no: Option<u32>,
    given: AnswerRequest,
    key: &KeyArgs,
    error: ApiError,
) -> Outcome {
    let request = format!("{}.q{}", row.id, no.unwrap_or(1));
    let answer = AnswerRequest { request, revision: u32::MAX, ..given };
    change(context, &row.id, "answer", &answer, key).map_err(|told| match no {
        Some(_) => told,
        None => error.into(),
    })
}

/// Splits `SESSION.qN`; without a number it is the session alone.
pub(super) fn split(request: &str) -> (&str, Option<u32>) {
    let parts = request.rsplit_once(".q");
    let numbered = parts.and_then(|(session, no)| Some((session, no.parse().ok()?)));
    numbered.map_or((request, None), |(session, no)| (session, Some(no)))
}

fn choose(row: &SessionRow, no: Option<u32>) -> Result<&RequestRow, ApiError> {
    let id = ui::short(&row.id);
    let status = format!("provost status {id}");
    match (no, row.requests.as_slice()) {
        (Some(no), open) => {
            open.iter().find(|request| split(&request.id).1 == Some(no)).ok_or_else(|| {
                ApiError::new(Code::NotFound, format!("session {id} has no open request q{no}"))
                    .next(status)
            })
        }
        (None, [only]) => Ok(only),
        (None, []) => Err(nothing_to_answer(row, &id)),
        (None, several) => {
            let error =
                usage(format!("session {id} has {} open requests; say which", several.len()));
            Err(several.iter().fold(error, |error, request| error.next(request.answer_command())))
        }
    }
}

fn nothing_to_answer(row: &SessionRow, id: &str) -> ApiError {
    let refused = |message| ApiError::new(Code::Refused, message);
    if row.state != "needs_input" {
        return refused(format!("session {id} waits for no answer"))
            .next(format!("provost status {id}"));
    }
    let message = match row.driver.as_str() {
        "command" => format!(
            "session {id} needs input, but a plain command takes no answer: do what it asks, then decide"
        ),
        _ => format!("session {id} needs input, but has no open request; say it with send"),
    };
    while_it_waits(row, id).into_iter().fold(refused(message), ApiError::next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_by_session_and_number() {
        assert_eq!(split("deadbeef.q12"), ("deadbeef", Some(12)));
        assert_eq!(split("deadbeef"), ("deadbeef", None));
        assert_eq!(split("my.quest"), ("my.quest", None));
    }

    #[test]
    fn what_takes_no_answer_is_not_sent_in_a_circle() {
        let row = ui::test_session("x", "needs_input");
        let error = choose(&row, None).unwrap_err();
        assert!(error.message.contains("plain command"), "{}", error.message);
        assert!(error.next.iter().any(|next| next.contains("resolve")), "{:?}", error.next);
        assert!(error.next.iter().any(|next| next.contains("cancel")), "{:?}", error.next);
        let row = SessionRow { driver: "jsonl".to_owned(), ..row };
        let error = choose(&row, None).unwrap_err();
        assert_eq!(error.next[0], "provost send deadbeef TEXT");
    }
}
