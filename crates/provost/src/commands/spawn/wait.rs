//! `spawn --wait`: waits for a session's outcome.

use std::process::ExitCode;

use provost_api::{ApiError, Code, SessionRow};
use provost_core::wait::WaitStatus;
use serde_json::{Value, json};

use super::{id_of, parting, warn};
use crate::{
    cli::Outcome,
    clock,
    commands::change::{self, next_commands},
    context::Context,
    follow::{self, Of},
    target,
    ui::{self, Screen},
};

/// Waits until a session's outcome is sealed or it needs input, and exits with the matching code.
pub(super) fn run(context: &Context, reply: &Value) -> Outcome {
    let id = id_of(reply).to_owned();
    // If the handler cannot be installed, Ctrl-C still terminates us, without the message.
    let short = ui::short(&id);
    let next = [
        format!("provost status {short}"),
        format!("provost logs {short} -f"),
        format!("provost stop {short}"),
    ];
    drop(parting::on_interrupt(&context.ui, &format!("session {short}"), &next));
    // The ID comes first; with JSON the only output is the result object, so the ID goes to standard error.
    if context.ui.json {
        context.ui.talk(&id);
    } else {
        context.ui.line(&id)?;
    }
    warn(context, reply);
    let row = until_settled(context, &id)?;
    show(context, reply, &row)
}

fn until_settled(context: &Context, id: &str) -> Result<SessionRow, ApiError> {
    let mut told = String::new();
    let settled = follow::until(context, Of::Session(id.to_owned()), || {
        let row = target::find(&context.daemon()?, id)?;
        if is_settled(&row) {
            return Ok(WaitStatus::Done(row));
        }
        tell(context, &row, &mut told);
        Ok(WaitStatus::Pending)
    })?;
    settled.map_err(|reason| ApiError::new(Code::Failed, reason))
}

/// Prints the session's state whenever it changes. Programs read the result instead.
fn tell(context: &Context, row: &SessionRow, told: &mut String) {
    let words = ui::under_way(context.ui.talk_paint, row);
    if !context.ui.json && words != *told {
        context.ui.talk(&words);
        *told = words;
    }
}

fn is_settled(row: &SessionRow) -> bool {
    (row.terminal && row.sealed) || ui::awaits_user(row)
}

/// Returns the error code of the wait; None if the work is done.
fn failure(row: &SessionRow) -> Option<Code> {
    match row.state.as_str() {
        "succeeded" | "completed" | "accepted" => None,
        _ if ui::awaits_user(row) => Some(Code::InputNeeded),
        _ => Some(Code::Failed),
    }
}

fn show(context: &Context, reply: &Value, row: &SessionRow) -> Outcome {
    let next = next_commands(row);
    let failure = failure(row);
    let code = ExitCode::from(failure.map_or(0, Code::exit_code));
    if !context.ui.json {
        change::line(context, row)?;
        if failure == Some(Code::InputNeeded) {
            asked(context, row).iter().for_each(|line| context.ui.talk(line));
        }
        context.ui.next(&next);
        return Ok(code);
    }
    let mut value = json!({
        "ok": failure.is_none(), "id": row.id, "session": row, "warnings": reply.get("warnings"),
    });
    if let Some(code) = failure {
        let message = message(row, code);
        value["error"] = json!(ApiError { code, message, next: next.clone() });
    }
    context.ui.result(value, &next)?;
    Ok(code)
}

/// Returns what the session waits for, with the commands that settle it.
pub(crate) fn asked(context: &Context, row: &SessionRow) -> Vec<String> {
    let (paint, screen) = (context.ui.talk_paint, Screen::talk());
    match (row.requests.is_empty(), waits_for(row)) {
        (false, _) => ui::requests(paint, screen, clock::now_ms(), &row.requests),
        (true, Some(text)) => screen.wrap(&format!("it needs input: {}", ui::clean(&text)), 2),
        (true, None) => vec!["it needs input".to_owned()],
    }
}

/// Returns the input that a session without an open request says it needs.
fn waits_for(row: &SessionRow) -> Option<String> {
    ui::reason(row).or_else(|| row.claim_text.clone())
}

/// Describes why the wait for a session ended without its result.
pub(crate) fn message(row: &SessionRow, code: Code) -> String {
    let id = ui::short(&row.id);
    let title = row.requests.first().map(|request| request.title.clone());
    let asked = row.requests.first().and_then(|request| request.questions.first());
    let asked = asked.map(|question| question.question.clone()).or(title);
    match asked.or_else(|| waits_for(row)) {
        Some(text) if code == Code::InputNeeded => format!("session {id} needs input: {text}"),
        Some(_) | None => format!("session {id} is {}", row.state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str, sealed: bool) -> SessionRow {
        let row = crate::ui::test_session("x", state);
        SessionRow { terminal: sealed, sealed, ..row }
    }

    #[test]
    fn only_a_sealed_outcome_or_a_question_ends_the_wait() {
        assert!(!is_settled(&row("working", false)));
        assert!(!is_settled(&SessionRow { sealed: false, ..row("completed", true) }));
        assert!(is_settled(&row("failed", true)));
        assert!(is_settled(&row("needs_input", false)));
    }

    #[test]
    fn the_exit_code_follows_the_outcome() {
        for state in ["succeeded", "completed", "accepted"] {
            assert_eq!(failure(&row(state, true)), None, "{state}");
        }
        let ends = ["failed", "disputed", "ended_unclaimed", "stopped", "cancelled", "superseded"];
        for state in ends {
            assert_eq!(failure(&row(state, true)), Some(Code::Failed), "{state}");
        }
        let interrupted =
            SessionRow { flags: vec!["interrupted".to_owned()], ..row("idle", false) };
        for waits in [row("needs_input", false), interrupted] {
            assert!(is_settled(&waits));
            assert_eq!(failure(&waits), Some(Code::InputNeeded));
            assert_eq!(Code::InputNeeded.exit_code(), 7);
        }
    }
}
