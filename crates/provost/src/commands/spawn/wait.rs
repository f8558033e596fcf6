//! `spawn --wait`: waits for a session's outcome.

use std::process::ExitCode;

use provost_api::{ApiError, ErrorCode, SessionRow};
use provost_core::wait::WaitStatus;
use serde_json::{Value, json};

use super::{ctrl_c, id_of, warn};
use crate::{
    cli::CliResult,
    clock,
    commands::mutation::{self, next_commands},
    context::Context,
    follow::{self, EventFilter},
    target,
    ui::{self, Screen},
};

/// Waits until a session's outcome is sealed or the session needs input, and exits with the corresponding code.
pub(super) fn run(context: &Context, reply: &Value) -> CliResult {
    let id = id_of(reply).to_owned();
    // If the handler cannot be installed, Ctrl-C still terminates this program, but prints no
    // message.
    let short = ui::short_id(&id);
    let next = [
        format!("provost status {short}"),
        format!("provost logs {short} -f"),
        format!("provost stop {short}"),
    ];
    drop(ctrl_c::on_interrupt(&context.ui, &format!("session {short}"), &next));
    // The ID is printed first. With JSON, it goes to standard error, because standard output
    // contains only the result.
    if context.ui.json {
        context.ui.notice(&id);
    } else {
        context.ui.line(&id)?;
    }
    warn(context, reply);
    let row = until_settled(context, &id)?;
    show(context, reply, &row)
}

fn until_settled(context: &Context, id: &str) -> Result<SessionRow, ApiError> {
    let mut printed = String::new();
    let settled = follow::wait_until(context, EventFilter::Session(id.to_owned()), || {
        let row = target::find_session(&context.daemon()?, id)?;
        if is_settled(&row) {
            return Ok(WaitStatus::Done(row));
        }
        print_state(context, &row, &mut printed);
        Ok(WaitStatus::Pending)
    })?;
    settled.map_err(|reason| ApiError::new(ErrorCode::Failed, reason))
}

/// Prints the session's state whenever it has changed. Prints nothing with JSON.
fn print_state(context: &Context, row: &SessionRow, printed: &mut String) {
    let words = ui::progress_line(context.ui.notice_paint, row);
    if !context.ui.json && words != *printed {
        context.ui.notice(&words);
        *printed = words;
    }
}

fn is_settled(row: &SessionRow) -> bool {
    (row.terminal && row.sealed) || ui::awaits_user(row)
}

/// Returns the error code for the exit status, or `None` if the work is done. Work that is not on
/// its branch is not done.
fn failure(row: &SessionRow) -> Option<ErrorCode> {
    if row.is_good() && ui::uncommitted_work(row).is_none() {
        None
    } else if ui::awaits_user(row) {
        Some(ErrorCode::InputNeeded)
    } else {
        Some(ErrorCode::Failed)
    }
}

fn show(context: &Context, reply: &Value, row: &SessionRow) -> CliResult {
    let next = next_commands(row);
    let failure = failure(row);
    let code = ExitCode::from(failure.map_or(0, ErrorCode::exit_code));
    if !context.ui.json {
        mutation::print_line(context, row)?;
        new_warnings(reply, row).for_each(|warning| context.ui.warn(warning));
        if failure == Some(ErrorCode::InputNeeded) {
            input_lines(context, row).iter().for_each(|line| context.ui.notice(line));
        }
        mutation::launch_advice(row).iter().for_each(|line| context.ui.notice(line));
        context.ui.next(&next);
        return Ok(code);
    }
    let mut value = json!({
        "ok": failure.is_none(), "id": row.id, "session": row, "warnings": reply.get("warnings"),
    });
    if let Some(code) = failure {
        let message = message(row, code);
        value["error"] = json!(ApiError::new(code, message).next_all(&next));
    }
    context.ui.result(value, &next)?;
    Ok(code)
}

/// Returns the warnings that were not known when the session was opened.
fn new_warnings<'r>(reply: &'r Value, row: &'r SessionRow) -> impl Iterator<Item = &'r String> {
    let known = reply.get("warnings").and_then(Value::as_array);
    row.warnings.iter().filter(move |warning| {
        !known.is_some_and(|known| known.iter().any(|one| one.as_str() == Some(warning)))
    })
}

/// Returns the session's requests, with the commands that answer them.
pub(crate) fn input_lines(context: &Context, row: &SessionRow) -> Vec<String> {
    let (paint, screen) = (context.ui.notice_paint, Screen::stderr());
    match (row.requests.is_empty(), stated_input(row)) {
        (false, _) => ui::requests(paint, screen, clock::now_ms(), &row.requests),
        (true, Some(text)) => {
            screen.wrap(&format!("the session needs input: {}", ui::escape_line(&text)), 2)
        }
        (true, None) => vec!["the session needs input".to_owned()],
    }
}

/// Returns the agent's own description of the input it needs, if there is one.
fn stated_input(row: &SessionRow) -> Option<String> {
    ui::reason(row).or_else(|| row.claim_text.clone())
}

/// Describes why waiting for a session ended without success.
pub(crate) fn message(row: &SessionRow, code: ErrorCode) -> String {
    let id = ui::short_id(&row.id);
    let title = row.requests.first().map(|request| request.title.clone());
    let asked = row.requests.first().and_then(|request| request.questions.first());
    let asked = asked.map(|question| question.question.clone()).or(title);
    if let Some(why) = ui::uncommitted_work(row) {
        return format!("session {id} is {}, but {why}", row.state);
    }
    match asked.or_else(|| stated_input(row)) {
        Some(text) if code == ErrorCode::InputNeeded => format!("session {id} needs input: {text}"),
        Some(why) if mutation::launch_failure(row).is_some() => {
            format!("session {id} failed: {why}")
        }
        Some(_) | None => format!("session {id} is {}", row.state),
    }
}

#[cfg(test)]
mod tests {
    use provost_api::Extensible;

    use super::*;

    fn row(state: &str, sealed: bool) -> SessionRow {
        let row = crate::ui::test_session("x", state);
        SessionRow { terminal: sealed, sealed, ..row }
    }

    #[test]
    fn wait_ends_on_sealed_outcome_or_question() {
        assert!(!is_settled(&row("working", false)));
        assert!(!is_settled(&SessionRow { sealed: false, ..row("completed", true) }));
        assert!(is_settled(&row("failed", true)));
        assert!(is_settled(&row("needs_input", false)));
    }

    #[test]
    fn exit_code_follows_outcome() {
        for state in ["succeeded", "completed", "accepted"] {
            assert_eq!(failure(&row(state, true)), None, "{state}");
        }
        let ends =
            ["failed", "disputed", "exited_without_claim", "stopped", "cancelled", "superseded"];
        for state in ends {
            assert_eq!(failure(&row(state, true)), Some(ErrorCode::Failed), "{state}");
        }
        let uncommitted = SessionRow {
            flags: vec![Extensible::from_name("not_committed")],
            warnings: vec!["not committed: the worktree is gone".to_owned()],
            ..row("completed", true)
        };
        assert_eq!(failure(&uncommitted), Some(ErrorCode::Failed));
        let interrupted =
            SessionRow { flags: vec![Extensible::from_name("interrupted")], ..row("idle", false) };
        for waits in [row("needs_input", false), interrupted] {
            assert!(is_settled(&waits));
            assert_eq!(failure(&waits), Some(ErrorCode::InputNeeded));
            assert_eq!(ErrorCode::InputNeeded.exit_code(), 7);
        }
    }
}
